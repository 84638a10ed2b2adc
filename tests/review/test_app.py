"""The pages of `esdedup review` over HTTP, without a browser."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import socket
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

import esdedup
from esdedup.arguments import from_settings
from esdedup.exceptions import (
    EsdedupError,
    IndexNotFound,
    PermissionDenied,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from esdedup.groups.groups import Grouping
from esdedup.removal.log import LogReader
from esdedup.review.app import review_of
from esdedup.review.jobs import Job, Jobs
from esdedup.review.pages import status_of
from esdedup.stores.connection import check_file_name
from tests.docs.test_json import documented
from tests.helpers.commands import run_command
from tests.helpers.processes import await_true
from tests.review.visitor import OWN, PORT, Visitor, links

HOSTILE = "<script>alert(1)</script>\"'&{{ 7919*7907 }}\u202e\u001b[31m"
DOCUMENTS = [
    {"id": "a1", "text": "The council met on Monday and voted for the new bridge over the river."},
    {"id": "a2", "text": "The council met on Monday and voted for the new bridge over the canal."},
    {"id": "a3", "text": "The council met on Monday and voted for the new bridge over the lake."},
    {"id": "b1", "text": "Rain is expected in the hills tonight, with wind from the far north."},
    {"id": "b2", "text": "Rain is expected in the hills tonight, with wind from the far south."},
    {"id": HOSTILE, "text": f"{HOSTILE} met in the town hall, and nobody knew why they had come"},
    {"id": "x/é?\n#", "text": f"{HOSTILE} met in the town hall, and nobody knew why they had left"},
    {"id": "zh", "text": "今天下午三点，市图书馆举行读书会，欢迎大家参加。"},
]
FIELDS = {"a1": {"city": "Bern"}, "b1": {"city": "Aarau", "link": "javascript:alert(1)"}}
NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jan", "Kim", "Leo"]
SAME = "is due for the yearly service of the pump at the house by the lake, paid to our office"
TEMPLATE = [
    {"id": f"t{number}", "text": f"Dear {name}, {number * 37} francs {SAME} before May"}
    for number, name in enumerate(NAMES)
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def visit(tmp_path: Path) -> Callable[..., Visitor]:
    def start(**options: Any) -> Visitor:
        with esdedup.open(tmp_path / "index.db") as index:
            index.add([{**each, **FIELDS.get(each["id"], {})} for each in DOCUMENTS])
            place = index.place
        given = {"threshold": 0.6, **options.pop("grouping", {})}
        review = review_of(place, from_settings(Grouping, given), **options)
        return Visitor(review)

    return start


def whole(visitor: Visitor) -> dict[str, Any]:
    """All documents with their tokens."""
    return {each.id: each for each in visitor.review.index.store.hold([d["id"] for d in DOCUMENTS])}


def members(page: str) -> list[str]:
    return re.findall(r'id="member-\d+"><bdi class="id">([^<]*)<', page)


def test_only_who_has_the_token_sees_anything(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    root = visitor.review.root
    cookies, visitor.cookies = visitor.cookies, httpx.Cookies()
    closed = (f"{OWN}/", f"{OWN}/?token=", f"{OWN}/?token=no", "/", "/search?id=a1", "/nothing")
    for path in (*closed, "/static/review.css"):
        answer = visitor.get(path)
        assert answer.status_code == 403
        assert "index.db" not in answer.text
        assert root not in answer.text
        assert not answer.cookies
    answer = visitor.get(visitor.guard.url)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{root}/")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", f"Path={root}/"} <= {*cookie.split("; ")}
    assert visitor.guard.token not in cookie
    link = {"sec-fetch-site": "cross-site"}
    assert f'href="{root}/"' in visitor.get(visitor.guard.url, headers=link).text
    visitor.cookies = cookies
    assert visitor.get("/").status_code == 200
    # Other programs on this machine listen at the same host.
    assert visitor.get(f"{OWN}/").status_code == 403


@pytest.mark.parametrize(
    "host", ["example.org", f"example.org:{PORT}", "127.0.0.1", "127.0.0.1:1", "", f"[::]:{PORT}"]
)
def test_another_host_gets_nothing(visit: Callable[..., Visitor], host: str) -> None:
    visitor = visit()
    answer = visitor.get(f"/?token={visitor.guard.token}", headers={"host": host})
    assert answer.status_code == 421
    assert not answer.cookies


def test_search_marks_the_differences(visit: Callable[..., Visitor]) -> None:
    visitor = visit(show=["city"])
    answer = visitor.post("/search", data={"id": "a2", "threshold": "0.5", "number": "5"})
    assert visitor.where(answer) == "/search?id=a2&threshold=0.5&number=5"
    assert visitor.post("/search", data={"id": " a2"}).status_code == 404
    assert '<mark class="differs">river</mark>' in answer.text
    assert "Bern" in answer.text
    text = "The council met on Monday and voted for the new bridge over the road"
    page = visitor.post("/search", data={"text": text, "threshold": ""}).text
    assert '<mark class="differs">river.</mark>' in page
    page = visitor.get("/compare?left=a1&right=a2").text
    assert re.search(r"\d+ of \d+ bands of \d+ rows are equal", page)


def test_a_pasted_text_has_an_address_without_it(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    text = "The council met\n\u202bon Monday\u202c & voted <b>for</b> the new bridge"
    form = {"text": text.replace("\n", "\r\n"), "threshold": "0.1"}
    answer = visitor.post("/search", data=form)
    address = visitor.where(answer)
    assert re.fullmatch(r"/search\?pasted=\w{32}&threshold=0.1", address)
    again = visitor.get(address)
    assert again.status_code == 200
    assert again.text == answer.text
    (box,) = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", again.text, re.DOTALL)
    assert html.unescape(box) == text
    for number in range(8):
        assert visitor.get(address).status_code == 200
        visitor.post("/search", data={"text": f"another text, number {number}"})
    gone = visitor.get(address)
    assert gone.status_code == 404
    assert "the pasted text is not kept any more: paste it again" in gone.text
    assert 'name="text"' in gone.text


def test_of_a_text_and_an_id_the_new_one_is_searched_for(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    text = "The council met on Monday and voted for the new bridge over the road"
    form = re.compile('<form id="query".*?>', re.DOTALL)
    first = form.findall(visitor.get("/search?id=a1").text)[0]
    answer = visitor.post(links(first, "/search")[0], data={"text": text, "id": "a1"})
    assert "pasted=" in visitor.where(answer)
    assert f"{text}</textarea>" in answer.text
    second = links(form.findall(answer.text)[0], "/search")[0]
    answer = visitor.post(second, data={"text": text, "id": "b1"})
    assert visitor.where(answer) == "/search?id=b1"
    for given in ({"text": text, "id": "a2"}, {"text": " ", "id": ""}):
        page = visitor.post("/search", data=given)
        assert page.status_code == 400
        assert "Enter a text or the id of a document, and not both" in page.text
        assert f'name="id" value="{given["id"]}"' in page.text
        assert f"{given['text']}</textarea>" in page.text
    page = visitor.post("/search", data={"text": text, "threshold": "much"})
    assert page.status_code == 400
    assert 'value="much"' in page.text
    assert f"{text}</textarea>" in page.text


def test_a_result_says_that_only_the_query_has_other_words(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    more = " ".join(f"more{number}" for number in range(12))
    text = f"{DOCUMENTS[0]['text']} {more}"
    page = visitor.post("/search", data={"text": text, "number": "1", "threshold": "0.3"}).text
    assert "It has no other words, but the text that you search for has more." in page
    assert "The texts are equal." not in page
    assert "1.000" not in page
    page = visitor.get("/search?id=a1&threshold=0.3").text
    assert "no other words" not in page
    page = visitor.post("/search", data={"text": DOCUMENTS[0]["text"], "number": "1"}).text
    assert "The texts are equal." in page
    assert "1.000" in page
    other = DOCUMENTS[0]["text"].replace(" on Monday", ", on Monday:")
    page = visitor.post("/search", data={"text": other, "number": "1"}).text
    assert "No word differs, only what the comparison ignores." in page
    assert ">0.999" in html.unescape(page)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/search?id=nobody", 404),
        ("/search?pasted=nothing", 404),
        ("/document?id=nobody", 404),
        ("/compare?left=a1&right=nobody", 404),
        ("/compare?left=a1&right=a1", 400),
        ("/compare?left=a1", 400),
        ("/search?id=a1&number=0", 400),
        ("/search?id=a1&number=1e9", 400),
        ("/search?id=a1&threshold=much", 400),
        ("/search?id=a1&threshold=7", 400),
        ("/search?id=a1&threshold=nan", 400),
        ("/groups?sort=other", 400),
        ("/groups?page=99", 400),
        ("/nothing", 404),
        ("/static/other", 404),
        ("/verdict", 405),
    ],
)
def test_errors_are_plain_pages(visit: Callable[..., Visitor], path: str, status: int) -> None:
    visitor = visit()
    visitor.settled("/groups")
    back = f"{visitor.review.root}/groups?sort=likeness&page=1"
    answer = visitor.get(path, headers={"referer": OWN + back})
    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert "Traceback" not in answer.text
    assert path.startswith("/search") or f'href="{html.escape(back)}">Back</a>' in answer.text


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("u"), 400),
        (IndexNotFound("i"), 404),
        (PermissionDenied("p"), 502),
        (StoreUnavailable("s"), 503),
        (EsdedupError("e"), 500),
    ],
)
def test_an_error_has_a_fitting_status(error: EsdedupError, status: int) -> None:
    assert status_of(error) == status


def test_a_form_that_is_too_long_is_refused(visit: Callable[..., Visitor]) -> None:
    assert visit().post("/search", data={"text": "x" * (17 << 20)}).status_code == 413


def test_too_many_values_are_refused(visit: Callable[..., Visitor]) -> None:
    visitor, values = visit(), "&".join(["text=x"] * 1_001)
    assert visitor.get(f"/search?{values}").status_code == 400
    assert visitor.post("/search", content=values).status_code == 400


def test_groups_are_found_while_search_works(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    first = visitor.get("/groups").text
    assert 'role="status"' in first
    assert visitor.get("/search?id=a1").status_code == 200
    await_true("groups", lambda: visitor.review.found.listed() is not None)
    assert visitor.get("/progress").headers["hx-refresh"] == "true"
    page = visitor.get("/groups").text
    assert links(page, "/group?")[:1] == ["/group?id=a1"]
    likeness = visitor.get("/groups?sort=likeness").text
    values = [float(each) for each in re.findall(r">(\d\.\d{3})<", likeness)]
    assert values == sorted(values)
    assert len(values) == 3
    assert members(visitor.get("/group?id=a1").text) == ["a2", "a3"]
    assert "is in no group" in visitor.get("/group?id=zh").text


def test_a_failed_job_tells_why_and_can_be_repeated(visit: Callable[..., Visitor]) -> None:
    visitor = visit(grouping={"keep": "newest:nothing"})
    page = visitor.settled("/groups")
    assert "no document has a number or a text" in page
    assert "Find groups again" in page


def test_a_group_is_split_and_joined_again(visit: Callable[..., Visitor]) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    page = visitor.get("/group?id=a1").text
    (split, _) = (each for each in links(page, "/verdict") if "different" in each)
    page = visitor.post(split).text
    assert members(page) == ["a3"]
    assert page.count("data-focus") == 1
    assert "is not a duplicate of" in page
    visitor.post("/groups/find")
    assert "a2" not in members(visitor.settled("/group?id=a1"))
    (undo,) = links(page, "/verdict/undo")
    assert members(visitor.post(undo).text) == ["a2", "a3"]
    assert not visitor.review.index.judgements()


def test_undo_shows_the_place_in_the_group_again(
    visit: Callable[..., Visitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("esdedup.review.groups._MEMBERS", 1)
    visitor = visit(write=True)
    visitor.settled("/groups")
    visitor.review.index.judge("a1", "a3", "unsure")
    page = visitor.get("/group?id=a1&page=2").text
    assert members(page) == ["a3"]
    judge = next(each for each in links(page, "/verdict") if "=duplicate" in each)
    answer = visitor.post(judge)
    assert "and stays so" in answer.text
    (undo,) = links(answer.text, "/verdict/undo")
    page = visitor.post(undo).text
    assert members(page) == ["a3"]
    assert "data-focus" in page
    # The judgement before was not made here, so that there is nothing more to undo.
    assert "Skipped" in page
    assert 'class="notice"' not in page


def test_a_judgement_of_another_text_is_told_as_such(visit: Callable[..., Visitor]) -> None:
    visitor = visit(write=True)
    index = visitor.review.index
    index.judge("a1", "a2", "different")
    assert "Judged: not a duplicate</strong>" in visitor.get("/compare?left=a1&right=a2").text
    for path in ("/decide", "/groups"):
        assert "Judged pairs, when groups were found: 1 kept apart." in visitor.settled(path)
    index.add([{"id": "a2", "text": DOCUMENTS[1]["text"] + " Again."}])
    index.judge("a1", "a3", "duplicate")
    visitor.post("/groups/find")
    group = visitor.settled("/group?id=a1&judged=a2")
    assert members(group) == ["a2", "a3"]
    assert group.count("Judged: not a duplicate, judged before the text changed") == 1
    assert "Judged: a duplicate</span>" in group
    assert 'class="notice"' not in group
    page = visitor.get("/compare?left=a1&right=a2").text
    assert "Judged: not a duplicate, judged before the text changed" in page
    assert "aria-pressed" not in page
    counts = "when groups were found: 1 joined, 1 without effect, because a text is gone or has"
    for path in ("/groups", "/decide"):
        assert counts in visitor.get(path).text
    assert counts in visitor.get("/decide/confirm?action=mark").text


def test_a_duplicate_that_stays_apart_is_told_as_such(visit: Callable[..., Visitor]) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    for pair in ("left=a1&right=a2&verdict=duplicate", "left=a1&right=a3&verdict=different"):
        visitor.post(f"/verdict?{pair}")
    page = visitor.post("/verdict?left=a2&right=a3&verdict=duplicate&from=group").text
    assert "was judged a duplicate of" in page
    assert "They stay apart, because others of these texts were judged different." in page
    assert "It is in no group now." in page
    assert "and stays so" not in page
    page = visitor.post("/verdict?left=a1&right=a2&verdict=duplicate&from=group").text
    assert "and stays so" in page
    # The groups do not know the text that came later.
    visitor.review.index.add([{"id": "new", "text": "A text that nobody knew"}])
    page = visitor.post("/verdict?left=a1&right=new&verdict=duplicate&from=group").text
    assert "The groups do not show that yet." in page


def test_a_run_that_was_refused_names_no_log(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    (run,) = links(visitor.get("/decide/confirm?action=mark").text, "/decide/run")
    with esdedup.open(tmp_path / "index.db") as somebody:
        somebody.judge("a1", "a2", "different")
    visitor.post(run)
    page = visitor.settled("/decide")
    assert "It ended early" in page
    assert "judged different since" in page
    assert "in the log" not in page
    assert ".zst" not in page


@pytest.mark.parametrize("action", ["mark", "move", "delete"])
def test_a_run_and_its_undo_give_back_the_same_index(
    visit: Callable[..., Visitor], action: str, folder: Path
) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    visitor.post("/verdict?left=a1&right=a2&verdict=different&from=group")
    before = {id: each.document for id, each in whole(visitor).items()}
    form = {"action": action, "to": "others"}
    asked = visitor.get("/decide/confirm", params=form).text
    (run,) = links(asked, "/decide/run")
    if action == "delete":
        assert visitor.post(run, data={"word": "no"}).status_code == 400
        assert visitor.review.jobs.current is None
    visitor.post(run, data={"word": "delete"})
    page = visitor.settled("/decide")
    (log,) = folder.glob("*.zst")
    assert str(log) in html.unescape(page)
    after = {id: each.document for id, each in whole(visitor).items()}
    assert "a2" in after
    assert {id for id in before if after.get(id) != before[id]} >= {"a3", "b2"}
    assert visitor.post(run, data={"word": "delete"}).status_code == 400
    (undo,) = links(page, "/decide/undo")
    visitor.post(undo)
    page = visitor.settled("/decide")
    assert "restored" in page
    assert {id: each.document for id, each in whole(visitor).items()} == before


def test_the_plan_says_what_it_does(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    with esdedup.open(tmp_path / "index.db") as index:
        index.add(TEMPLATE)
    visitor = visit(write=True, grouping={"keep": "newest:city", "method": "components"})
    page = visitor.settled("/decide")
    rules = (
        "Documents with a Jaccard similarity of 0.6 or more along a chain of documents form a"
        " group. Of each group, the document with the greatest city stays"
    )
    confirm = visitor.get("/decide/confirm?action=delete").text
    for each in (page, confirm):
        assert rules in each
        assert "The group of t0 (12 documents) looks like a template" in html.unescape(each)
    assert "looks like a template" in visitor.get("/group?id=t0").text
    assert "looks like a template" not in visitor.get("/group?id=a1").text
    assert "will be deleted" in confirm
    assert links(page, "/group?")[0] == "/group?id=t0"
    answer = visitor.get("/duplicates.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = [*csv.reader(answer.text.splitlines())]
    assert rows[0] == ["id", "representative", "similarity"]
    assert {(id, head) for id, head, _ in rows[1:]} >= {("b2", "b1"), ("t1", "t0")}
    assert all(0.0 < float(value) <= 1.0 for *_, value in rows[1:])


def thirty() -> list[dict[str, Any]]:
    """Letters to fifteen people, each of them twice."""
    return [
        {"id": f"c{number:02}", "text": f"Dear N{number % 15}, {number % 15 * 37} francs {SAME}."}
        for number in range(30)
    ]


@pytest.mark.parametrize(
    ("how", "judged", "sizes"),
    [("all", 435, []), ("template", 420, [2] * 15), ("selected", 56, [28, 2])],
)
def test_a_group_of_thirty_is_split_at_once_and_joined_again(
    visit: Callable[..., Visitor], tmp_path: Path, how: str, judged: int, sizes: list[int]
) -> None:
    with esdedup.open(tmp_path / "index.db") as index:
        index.add(thirty())
    visitor = visit(write=True)
    visitor.settled("/groups")

    def groups() -> list[int]:
        listed = visitor.review.found.listed()
        assert listed is not None
        return sorted(len(listed.members_of(at)) + 1 for at in range(len(listed)))

    before, others = groups(), [2, 2, 3]
    assert before == [*others, 30]
    page = visitor.get("/group?id=c07&page=2").text
    (split,) = [each for each in links(page, "/group/split") if "undo" not in each]
    rows = re.findall(r'form="split" name="(row\d+)"', page)[:2]
    form = {"how": how} | (dict.fromkeys(rows, "on") if how == "selected" else {})
    if how == "selected":
        none = visitor.post(split, data={"how": how})
        assert (none.status_code, "no document is selected" in none.text) == (400, True)
    answer = visitor.post(split, data=form)
    assert f"{judged} pairs were judged different." in answer.text
    assert len(visitor.review.index.judgements().pairs) == judged
    assert groups() == sorted([*others, *sizes])
    assert visitor.post(split, data=form).status_code in (400, 404)
    (undo,) = links(answer.text, "/group/split/undo")
    visitor.post(undo)
    assert not visitor.review.index.judgements()
    assert groups() == before
    assert visitor.post(undo).status_code == 400
    page = visitor.get("/group?id=a1").text
    (split,) = links(page, "/group/split")
    answer = visitor.post(split, data={"how": "template"})
    assert "do not look like a template" in answer.text


def test_exported_judgements_are_read_back(visit: Callable[..., Visitor]) -> None:
    visitor = visit(write=True)
    index = visitor.review.index
    index.judge("a1", "a2", "different")
    index.judge("b1", "b2", "duplicate", 0.9, drawn=True)
    answer, before = visitor.get("/judgements.jsonl"), index.judgements()
    exported = answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert "attachment" in answer.headers["content-disposition"]
    lines = [json.loads(line) for line in exported.splitlines()]
    assert lines == [each.to_json() for each in before.pairs]
    assert documented("review") == lines[0].keys()
    index.unjudge("a1", "a2")
    later = index.judge("b1", "b2", "unsure")
    answer = visitor.post("/judgements/read", data={"lines": exported})
    assert visitor.where(answer) == "/judge?read=2&kept=1"
    assert index.judgements().pairs == (before.pairs[0], later)
    visitor.settled("/judge")
    page = visitor.get("/judge?read=2&kept=1").text
    assert "1 of 2 judgements were kept; the others have newer ones. 2 judged" in page
    for broken in ("{", exported + "[]", "5", '{"left": "a"}'):
        answer = visitor.post("/judgements/read", data={"lines": broken})
        assert answer.status_code == 400
        assert "is not a judgement" in answer.text
    assert index.judgements().pairs == (before.pairs[0], later)


def test_a_chosen_threshold_is_used(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.settled("/groups")
    assert members(visitor.get("/group?id=a1").text) == ["a2", "a3"]
    visitor.settled("/threshold")
    page = visitor.get("/threshold?other=0.95").text
    (use,) = links(page, "/threshold/use")
    visitor.post(use)
    assert "No two documents are similar enough" in visitor.settled("/groups")
    assert "similarity of 0.95 or more" in visitor.settled("/decide")
    assert "0.95 now" in visitor.get("/").text
    for path in ("/threshold/use", "/threshold/use?threshold=0", "/threshold/use?threshold=2"):
        assert visitor.post(path).status_code == 400


def test_home_has_the_numbers_and_the_steps(visit: Callable[..., Visitor], folder: Path) -> None:
    visitor = visit(write=True)
    page = visitor.get("/").text
    assert "8 documents, groups are not found yet" in page
    visitor.settled("/groups")
    visitor.post("/verdict?left=b1&right=b2&verdict=different")
    (run,) = links(visitor.get("/decide/confirm?action=mark").text, "/decide/run")
    visitor.post(run)
    visitor.settled("/decide")
    visitor.post("/groups/find")
    visitor.settled("/groups")
    page = visitor.get("/").text
    assert "8 documents, 3 duplicates in 2 groups" in page
    assert "1 pairs judged" in page
    assert "1 runs so far" in page


@pytest.mark.parametrize(
    ("action", "done", "number"), [("delete", "deleted", 4), ("mark", "marked", 7)]
)
def test_the_history_says_what_is_left_of_each_run(
    visit: Callable[..., Visitor], folder: Path, action: str, done: str, number: int
) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    (run,) = links(visitor.get(f"/decide/confirm?action={action}").text, "/decide/run")
    visitor.post(run, data={"word": "delete"})
    visitor.settled("/decide")

    def history() -> str:
        return re.sub("<[^>]*>", "", visitor.settled("/decide").partition('id="logs"')[2])

    assert f"{number} documents {done}" in history()
    (log,) = folder.glob("*.zst")
    index = visitor.review.index
    index.add([DOCUMENTS[1]]) if action == "delete" else index.delete(["a2"])
    # A run that was killed has no end.
    cut = folder / "documents.dedup-00.jsonl.zst"
    blocks = log.read_bytes().split(b"\x28\xb5\x2f\xfd")
    cut.write_bytes(b"\x28\xb5\x2f\xfd".join(blocks[:-1]))
    text = history()
    assert f"{number - 1} of {number} documents still {done}; the run was interrupted" in text
    page = visitor.get("/decide").text
    undo = next(each for each in links(page, "/decide/undo") if log.name in each)
    visitor.post(undo)
    visitor.settled("/decide")
    page = history()
    assert page.count(f"undone, all {number} documents") == 2
    assert not links(visitor.get("/decide").text, "/decide/undo")


def test_logs_that_can_not_be_read_are_read_once(
    visit: Callable[..., Visitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    (run,) = links(visitor.get("/decide/confirm?action=mark").text, "/decide/run")
    visitor.post(run)

    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr("esdedup.review.history._read", away)
    visitor.settled("/decide")
    visitor.settled("/decide")
    job = visitor.review.jobs.last("Reading logs")
    assert "Mark duplicates" in visitor.get("/decide").text
    assert visitor.review.jobs.last("Reading logs") is job is not None


def test_only_logs_of_this_index_are_undone(visit: Callable[..., Visitor], folder: Path) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    os.mkfifo(folder / "documents.dedup-0.jsonl.zst")
    assert "There is no log of this index" in visitor.settled("/decide")
    (folder / "documents.dedup-1.jsonl.zst").write_bytes(b"damaged")
    assert "its first line can&#39;t be read" in visitor.get("/decide").text
    for name in ("../index.db", "index.db", "documents.dedup-2.jsonl.zst", ""):
        assert visitor.post("/decide/undo", data={"log": name}).status_code == 404
    assert visitor.post("/decide/undo?log=documents.dedup-1.jsonl.zst").status_code == 400


def test_numbers_that_have_changed_since_are_not_acted_on(visit: Callable[..., Visitor]) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    (run,) = links(visitor.get("/decide/confirm?action=mark").text, "/decide/run")
    visitor.post("/verdict?left=a1&right=a2&verdict=different")
    answer = visitor.post(run)
    assert answer.status_code == 400
    assert "changed" in answer.text


def test_jobs_work_one_after_the_other_and_end_when_they_are_stopped() -> None:
    jobs, begun, seen = Jobs(), threading.Event(), list[str]()

    def first(job: Job) -> None:
        job.on_step("Working", 1, 2)
        begun.set()
        await_true("it goes on", lambda: "asked" in seen)
        while True:
            job.on_step("Working", 1, 2)

    job = jobs.start("first", first)
    assert begun.wait(60)
    other = jobs.start("second", lambda _: seen.append("second"))
    assert jobs.start("first", first) is jobs.current is job
    assert not other.ended
    seen.append("asked")
    assert jobs.stop(60) is job
    assert str(job) == "first (working: 1 of 2)"
    assert (job.ended, job.error) == (True, "it was stopped")
    assert (other.ended, other.error, seen) == (True, "it was stopped", ["asked"])


def test_a_job_that_fails_lets_the_next_one_work(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs()
    failing = [
        jobs.start("usage", lambda _: check_file_name("host:1")),
        jobs.start("fault", lambda _: [][0]),
    ]
    assert all(each.over.wait(60) for each in failing)
    assert "is an address" in str(failing[0].error)
    assert str(failing[1].error).startswith("it failed: IndexError")
    assert "IndexError" in caplog.text
    assert jobs.start("third", lambda _: None).over.wait(60)


def test_a_port_that_is_taken_and_an_index_that_is_not_there(tmp_path: Path) -> None:
    with esdedup.open(tmp_path / "index.db") as index:
        index.add(DOCUMENTS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run_command("review", "--db", "index.db", "--port", str(port))
    assert ran.status == 2
    assert f"--port {port}" in ran.err
    assert run_command("review", "--db", "index.db", "-i", "other").status == 1


def test_distances_take_the_place_of_similarities(visit: Callable[..., Visitor]) -> None:
    visitor = visit(write=True, grouping={"sketch": "simhash", "distance": 12})
    page = visitor.settled("/groups")
    assert "Most distant" in page
    (path, *_) = links(page, "/group?")
    assert re.search(r"\d+ bits?<", visitor.get(path).text)
    assert "Not a duplicate" in visitor.get(path).text
    assert re.search(r"\d+ bits?<", visitor.get("/search?id=a1").text)
    assert 'name="threshold"' not in visitor.get("/").text


def test_a_run_waits_for_decisions_that_the_groups_do_not_show(
    visit: Callable[..., Visitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("esdedup.groups.groups._MOST_REGROUPED", 2)
    visitor = visit(write=True)
    visitor.settled("/groups")
    (run,) = links(visitor.get("/decide/confirm?action=mark").text, "/decide/run")
    visitor.post("/verdict?left=a1&right=a2&verdict=different")
    page = visitor.post("/verdict?left=b1&right=b2&verdict=different&from=group").text
    assert "is in no group" in page
    page = visitor.get("/group?id=a1&judged=a2").text
    assert "a2" in members(page)
    assert "any more" not in page
    assert page.lower().count("groups again") == 2
    assert "/decide/confirm" not in visitor.get("/decide").text
    for answer in (visitor.post(run), visitor.get("/decide/confirm?action=mark")):
        assert answer.status_code == 400
        assert "decisions were made that these groups do not show" in answer.text.lower()
    visitor.post("/groups/find")
    assert "/decide/confirm" in visitor.settled("/decide")
    assert "a2" not in members(visitor.get("/group?id=a1").text)


def test_undo_writes_the_judgement_before_as_it_was(
    visit: Callable[..., Visitor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visit(write=True)
    index = visitor.review.index
    index.judge("a1", "a2", "duplicate")
    before = index.judgements()
    visitor.post("/verdict?left=a1&right=a2&verdict=different")
    with esdedup.open(tmp_path / "index.db") as other:
        other.add([{"id": "a1", "text": "Another text, of which nobody has judged a word."}])

    def failing(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as away:
        away.setattr("esdedup.review.decisions.keep_judgements", failing)
        assert visitor.post("/verdict/undo?left=a1&right=a2").status_code == 503
    visitor.post("/verdict/undo?left=a1&right=a2")
    assert index.judgements() == before


def test_messages_name_no_option_without_its_command(
    visit: Callable[..., Visitor], folder: Path
) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    form = {"action": "move", "to": "documents"}
    page = visitor.get("/decide/confirm", params=form).text
    assert "holds the documents already" in page
    assert "--to" not in page
    (run,) = links(visitor.get("/decide/confirm?action=mark").text, "/decide/run")
    visitor.post(run)
    visitor.settled("/decide")
    answer = visitor.post(run)
    assert re.search("the documents have changed since|groups are being found", answer.text)
    (log,) = folder.glob("*.zst")
    header, rest = zstandard.decompress(log.read_bytes()).split(b"\n", 1)
    other = header.replace(b"index.db", b"other.db") + b"\n" + rest
    for number in range(21):
        copy = folder / f"documents.dedup-{number:02}.jsonl.zst"
        copy.write_bytes(zstandard.compress(other))
    page = visitor.settled("/decide")
    assert "other.db, not at" in page
    assert page.count("--force") == page.count("esdedup undo --force") == 19
    assert "And 2 more" in page


@pytest.mark.parametrize(("ending", "pack"), [("zst", zstandard.compress), ("jsonl", bytes)])
def test_the_first_line_of_a_log_takes_little_memory(
    tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    log = tmp_path / f"log.{ending}"
    log.write_bytes(pack(bytes(200 << 20)))
    tracemalloc.start()
    with pytest.raises(StoreError, match="its first line can't be read"):
        LogReader(log)
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
