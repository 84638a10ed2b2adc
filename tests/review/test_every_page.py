"""Rules for every page of `esdedup review` and every form on it."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers.places import Place, clusters, whole
from tests.review.documents import articles, hostile, index
from tests.review.reviewing import Reviewing
from tests.review.visitor import OWN, Visitor, visiting
from tests.servers.proxy import Proxy, credentials

Crawled = dict[str, "Parsed"]
OF_A_KIND = 5
"""Pages that differ only in the query, such as those of several documents."""


class Parsed(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.answer = answer
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(answer.text if "html" in answer.headers["content-type"] else "")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))


def crawl(visitor: Visitor, *starts: str) -> Crawled:
    """Return the pages that links lead to when groups are found, the nearest first, by address."""
    for path in ("/groups", "/judge"):
        visitor.settled(path)
    found: Crawled = {}
    kinds: Counter[str] = Counter()
    waiting = ["/", "/search?id=plain", "/search?id=en-01", "/group?id=plain", *starts]
    while waiting:
        address = waiting.pop(0).partition("#")[0]
        kind = address.partition("?")[0]
        if not address or address in found or kinds[kind] == OF_A_KIND:
            continue
        kinds[kind] += 1
        found[address] = Parsed(visitor.get(address))
        for _, given in found[address].elements:
            for link in (given[name] for name in ("href", "src") if name in given):
                assert link.startswith((f"{visitor.review.root}/", "#")), link
                waiting.append(link.removeprefix(visitor.review.root))
    return found


def forms(pages: Crawled, root: str) -> dict[str, str]:
    """Return the address of a form for each path that may change something, by the path."""
    every = [given for page in pages.values() for tag, given in page.elements if tag == "form"]
    actions = [given["action"].removeprefix(root) for given in every if given["method"] == "post"]
    return {action.partition("?")[0]: action for action in actions}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("review") / "documents.db"


@pytest.fixture(scope="module")
def writing(file: Path) -> Visitor:
    """A visitor who may write, in a file with ordinary and hostile documents."""
    return visiting(file, [*articles(), *hostile()], show=["url", "source"])


@pytest.fixture(scope="module")
def crawled(writing: Visitor) -> Crawled:
    """All pages of the program that may write."""
    return crawl(writing, "/decide/confirm?action=mark")


def everything(visitor: Visitor) -> Any:
    """The documents and the judgements."""
    return whole(visitor.review.index.store), visitor.review.index.judgements.read()


def test_only_our_own_pages_change_anything(writing: Visitor, crawled: Crawled) -> None:
    before, root = everything(writing), writing.review.root
    found = forms(crawled, root)
    assert len(found) > 3
    for action in found.values():
        for headers in (
            {"Origin": "null"},
            {"Origin": "http://elsewhere.test"},
            {"Origin": "https://127.0.0.1:9281"},
            {"Origin": f"{OWN}.elsewhere.test"},
            {"Origin": "http://elsewhere.test", "Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "none"},
            {},
        ):
            answer = writing.send("POST", root + action, headers=headers)
            assert answer.status_code == 403, (action, headers)
            assert "access-control-allow-origin" not in answer.headers
        # Neither does a look at the address of a form.
        assert writing.get(action).status_code in (200, 400, 404, 405)
    assert everything(writing) == before
    # Some browsers send no origin with a form of the same origin.
    own = {"Sec-Fetch-Site": "same-origin"}
    answer = writing.send("POST", f"{root}/search", data={"text": "plain"}, headers=own)
    assert answer.status_code == 200


def test_nothing_changes_without_write(writing: Visitor, crawled: Crawled, file: Path) -> None:
    before, reading = everything(writing), visiting(file, write=False)
    found = forms(crawled, writing.review.root)
    refused = {path for path in found if reading.post(found[path]).status_code == 403}
    assert len(refused) > 2
    # It offers no form that it refuses.
    assert refused.isdisjoint(forms(crawl(reading), reading.review.root))
    assert everything(writing) == before


def test_pages_load_nothing_from_elsewhere_and_run_only_our_scripts(
    writing: Visitor, crawled: Crawled
) -> None:
    assert {each.partition("?")[0] for each in crawled} >= {"/", "/groups", "/judge", "/threshold"}
    others = [writing.get("/nothing"), writing.send("GET", "/")]
    for answer in [*(parsed.answer for parsed in crawled.values()), *others]:
        policy = answer.headers["content-security-policy"]
        for each in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"):
            assert each in policy
        assert not re.search(r"unsafe|https?:|\*|data:", policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        for each in ("referrer", "cross-origin-resource", "cross-origin-opener"):
            assert answer.headers[f"{each}-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers
    for address, parsed in crawled.items():
        assert parsed.answer.status_code == 200, address
        for tag, given in parsed.elements:
            assert tag not in ("base", "iframe", "object", "embed", "template"), address
            assert tag != "script" or given["src"].endswith("/static/review.js"), address
            assert "http-equiv" not in given
            assert given.get("id") != "injected", address
            assert not [name for name in given if name.startswith("on") or name == "style"]


def test_texts_are_shown_as_they_are(crawled: Crawled) -> None:
    """Markup, templates and control characters in ids, texts and fields."""
    pages = [
        each for each in crawled.values() if "text/html" in each.answer.headers["content-type"]
    ]
    for page in (each.answer.text for each in pages):
        assert "<script>alert(" not in page
        assert str(7 * 191) not in page
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", page)
        assert not re.search(r"[\u202a-\u202e\u2066-\u2069]", page)
    assert sum("&lt;script&gt;alert(" in each.answer.text for each in pages) > 5


@clusters
def test_credentials_are_never_shown(place: Place, target: list[str], tmp_path: Path) -> None:
    index(tmp_path, target, articles())
    accepted = [credentials("anna", "s3cret")]
    with Proxy(str(place.target), accepted=accepted) as proxy:
        address = proxy.url.replace("://", "://anna:s3cret@")
        with Reviewing(tmp_path, "--url", address, "--index", place.index) as app:
            with httpx.Client(timeout=30, follow_redirects=True) as client:
                root = str(client.get(app.url).url).rstrip("/")
                for path in ("/", "/search?id=en-01", "/groups", "/judge", "/decide", "/nothing"):
                    answer = client.get(root + path)
                    assert proxy.url in answer.text or answer.status_code == 404
                    assert "s3cret" not in answer.text + str(answer.headers)
            assert "s3cret" not in app.log
