"""Rules for every page of `esdedup review` and every form on it, by plain HTTP requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import esdedup
from tests.helpers.places import Place, clusters, whole
from tests.helpers.processes import await_true
from tests.review.crawl import MOST_PAGES, Form, Parsed, changes, crawl
from tests.review.documents import articles, hostile, index
from tests.review.reviewing import Reviewing
from tests.servers.credentials import Credentials
from tests.servers.proxy import Proxy

INDEX = "kept-to-us"
Crawled = dict[str, tuple[httpx.Response, Parsed]]


def folder_of(place: Place) -> Path:
    return Path(place.target).parent


def options(place: Place) -> list[str]:
    return ["--db", str(place.target), "--index", place.index]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A local file with ordinary and hostile documents."""
    place = Place(tmp_path_factory.mktemp("review") / "documents.db", INDEX)
    index(folder_of(place), options(place), [*articles(), *hostile()])
    return place


@pytest.fixture(scope="module")
def writing(ours: Place) -> Iterator[Reviewing]:
    with Reviewing(folder_of(ours), *options(ours), "--write") as app:
        yield app


@pytest.fixture(scope="module")
def reading(ours: Place) -> Iterator[Reviewing]:
    with Reviewing(folder_of(ours), *options(ours)) as app:
        yield app


@pytest.fixture(scope="module")
def crawled(writing: Reviewing) -> Crawled:
    """All pages of the program that may write."""
    return crawl_all(writing, "/decide/confirm?action=mark")


def stranger(app: Reviewing) -> httpx.Client:
    """A client without the token."""
    # To read certificates would take longer than all its requests.
    return httpx.Client(base_url=app.origin, timeout=30, verify=False)


@contextmanager
def signed_in(app: Reviewing) -> Iterator[httpx.Client]:
    """A client that has opened the printed address, as a browser does."""
    with stranger(app) as client:
        first = client.get(app.url, follow_redirects=True)
        assert first.status_code == 200
        client.base_url = first.url
        client.headers["Origin"] = app.origin
        yield client


def crawl_all(app: Reviewing, *others: str) -> Crawled:
    """All pages, once the groups are found. others: addresses that only a form leads to."""
    with signed_in(app) as client:
        await_true("groups are found", lambda: "/group?" in client.get("/groups").text, 30)
        starts = "/", "/search?id=plain", "/group?id=plain", "/search?id=en-01"
        found = crawl(client, *starts, *others)
    assert len(found) < MOST_PAGES
    return found


def everything(place: Place) -> Any:
    """The documents and the judgements."""
    with esdedup.open(place.target, place.index) as opened:
        return whole(opened.store), opened.judgements()


def send(client: httpx.Client, form: Form, **headers: str) -> httpx.Response:
    return client.request(form.method, form.action, data=form.fields, headers=headers)


def path_of(form: Form) -> str:
    return httpx.URL(form.action).path


def test_only_our_own_pages_change_anything(
    writing: Reviewing, crawled: Crawled, ours: Place
) -> None:
    port = httpx.URL(writing.origin).port
    before = everything(ours)
    forms = list(changes(crawled))
    assert len(forms) > 3
    with signed_in(writing) as client:
        del client.headers["Origin"]
        for form in forms:
            for headers in (
                {"Origin": "null"},
                {"Origin": "http://elsewhere.test"},
                {"Origin": "http://127.0.0.1"},
                {"Origin": f"https://127.0.0.1:{port}"},
                {"Origin": f"http://127.0.0.1:{port}.elsewhere.test"},
                {"Origin": "http://elsewhere.test", "Sec-Fetch-Site": "same-origin"},
                {"Sec-Fetch-Site": "same-site"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Sec-Fetch-Site": "none"},
                {},
            ):
                answer = send(client, form, **headers)
                assert answer.status_code == 403, (form, headers)
                assert "access-control-allow-origin" not in answer.headers
        # Some browsers send no origin with a form of the same origin.
        own = {"Sec-Fetch-Site": "same-origin"}
        assert client.post("/search", data={"text": "plain"}, headers=own).status_code == 200
    assert everything(ours) == before


def test_nothing_changes_without_write(reading: Reviewing, crawled: Crawled, ours: Place) -> None:
    before = everything(ours)
    with signed_in(reading) as client:
        refused = [form for form in changes(crawled) if send(client, form).status_code == 403]
        assert client.get("/decide/confirm?action=mark").status_code == 403
    # It offers no form that it refuses.
    assert len(refused) > 2
    offered = {path_of(form) for form in changes(crawl_all(reading))}
    assert offered.isdisjoint(map(path_of, refused))
    assert everything(ours) == before


def test_looking_changes_nothing(writing: Reviewing, crawled: Crawled, ours: Place) -> None:
    before = everything(ours)
    with signed_in(writing) as client:
        for form in changes(crawled):
            assert client.get(form.action).status_code in (200, 302, 303, 400, 404, 405)
    assert crawl_all(writing)
    assert everything(ours) == before


def test_pages_load_nothing_from_elsewhere_and_run_only_our_scripts(
    writing: Reviewing, crawled: Crawled
) -> None:
    named = {httpx.URL(each).path.split("/", 2)[2] for each in crawled}
    assert named >= {"", "groups", "judge", "threshold"}
    with signed_in(writing) as client, stranger(writing) as other:
        others = [client.get("/nothing"), other.get("/")]
    for answer in [*(answer for answer, _ in crawled.values()), *others]:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert "form-action 'self'" in policy
        assert not re.search(r"unsafe|https?:|\*|data:", policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] in ("no-referrer", "same-origin")
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers
    for address, (answer, parsed) in crawled.items():
        assert answer.status_code == 200, address
        for tag, given in parsed.elements:
            assert tag not in ("base", "iframe", "object", "embed", "template"), address
            ours = re.fullmatch(r"/[\w-]+/static/[\w.-]+\.js", given.get("src", ""))
            assert tag != "script" or ours, address
            assert given.get("http-equiv") != "refresh" or given["content"].isdecimal(), address
            assert given.get("id") != "injected", address
            assert not [name for name in given if name.startswith("on") or name == "style"]
        for link in parsed.links:
            assert link.startswith("/".join(address.split("/")[:4]) + "/"), address


def test_texts_are_shown_as_they_are(crawled: Crawled) -> None:
    """Markup, templates and control characters in ids, texts and fields."""
    showing = 0
    for address, (answer, _) in crawled.items():
        if "text/html" in answer.headers["content-type"]:
            showing += "&lt;script&gt;alert(" in answer.text
            assert "<script>alert(" not in answer.text, address
            assert str(7 * 191) not in answer.text, address
            assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", answer.text), address
            assert not re.search(r"[\u202a-\u202e\u2066-\u2069]", answer.text), address
    assert showing > 5


@clusters
def test_credentials_are_never_shown(place: Place, target: list[str], tmp_path: Path) -> None:
    index(tmp_path, target, articles())
    accepted = Credentials(basic=("anna", "s3cret"))
    with Proxy(str(place.target), credentials=accepted) as proxy:
        address = proxy.url.replace("://", "://anna:s3cret@")
        with Reviewing(tmp_path, "--url", address, "--index", place.index) as app:
            with signed_in(app) as client:
                for path in ("/", "/search?id=en-01", "/groups", "/judge", "/decide", "/nothing"):
                    answer = client.get(path)
                    assert proxy.url in answer.text or answer.status_code == 404
                    assert "s3cret" not in answer.text + str(answer.headers)
            assert "s3cret" not in app.log
