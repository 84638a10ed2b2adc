"""The pages of `esdedup review` over HTTP, without a browser."""

import html
import json
import os
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.review.jobs import Job, Jobs
from esdedup.stores.connection import check_file_name
from tests.docs.test_json import documented
from tests.helpers.commands import run_command
from tests.helpers.places import whole
from tests.review.visitor import OWN, TOKEN, Visitor, links, plain, visiting

DOCUMENTS = [
    {"id": "a1", "text": "The council met on Monday and voted for the new bridge over the river."},
    {"id": "a2", "text": "The council met on Monday and voted for the new bridge over the canal."},
    {"id": "a3", "text": "The council met on Monday and voted for the new bridge over the lake."},
    {"id": "b1", "text": "Rain is expected in the hills tonight, with wind from the far north."},
    {"id": "b2", "text": "Rain is expected in the hills tonight, with wind from the far south."},
    {"id": "x/é?\n#", "text": "They met in the town hall, and nobody knew why they had come"},
    {"id": "x", "text": "They met in the town hall, and nobody knew why they had left"},
    {"id": "zh", "text": "今天下午三点，市图书馆举行读书会，欢迎大家参加。"},
]
CITIES = {"a1": "Bern", "b1": "Aarau"}
SAME = "is due for the yearly service of the pump at the house by the lake, paid to our office"
THIRTY = [
    {"id": f"t{number:02}", "text": f"Dear N{number % 15}, {number % 15 * 37} francs {SAME}."}
    for number in range(30)
]
"""Letters to fifteen people, each of them twice."""
Visit = Callable[..., Visitor]


@pytest.fixture
def visit(tmp_path: Path) -> Visit:
    def start(*others: dict[str, Any], write: bool = False, **options: Any) -> Visitor:
        documents = [{**each, "city": CITIES.get(each["id"])} for each in [*DOCUMENTS, *others]]
        return visiting(tmp_path / "index.db", documents, write=write, **options)

    return start


@pytest.fixture
def writing(visit: Visit) -> Visitor:
    """A visitor who may write, when groups are found."""
    visitor = visit(write=True)
    visitor.settled("/groups")
    return visitor


def members(page: str) -> list[str]:
    return re.findall(r'id="member-\d+"><bdi class="id">([^<]*)<', page)


def confirmed(visitor: Visitor, action: str) -> str:
    """The address to which the page that asks sends its form."""
    page = visitor.get("/decide/confirm", params={"action": action}).text
    (run,) = links(page, "/decide/run")
    return run


# Who is admitted


def test_only_the_holder_of_the_token_sees_anything(visit: Visit) -> None:
    visitor = visit()
    root = visitor.review.root
    # Other programs on this machine listen at the same host, without the path of the cookie.
    assert visitor.send("GET", "/").status_code == 403
    assert visitor.get("/").status_code == 200
    visitor.cookies.clear()
    closed = ("/", "/?token=", "/?token=no", f"{root}/", f"{root}/search?id=a1", f"{root}/nothing")
    for path in (*closed, f"{root}/static/review.css"):
        answer = visitor.send("GET", path)
        assert answer.status_code == 403
        assert not answer.cookies
    answer = visitor.send("GET", f"/?token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{root}/")
    assert {"HttpOnly", f"Path={root}/"} <= {*answer.headers["set-cookie"].split("; ")}


@pytest.mark.parametrize("host", ["example.org", "example.org:9281", "", "[::]:9281"])
def test_another_host_gets_nothing(visit: Visit, host: str) -> None:
    answer = visit().send("GET", f"/?token={TOKEN}", headers={"host": host})
    assert answer.status_code == 400
    assert not answer.cookies


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/search?id=nobody", 404),
        ("/document?id=nobody", 404),
        ("/compare?left=a1&right=nobody", 404),
        ("/compare?left=a1&right=a1", 400),
        ("/compare?left=a1", 400),
        ("/search?id=", 400),
        ("/search?id=a1&number=0", 400),
        ("/search?id=a1&number=1e9", 400),
        ("/search?id=a1&threshold=much", 400),
        ("/search?id=a1&threshold=7", 400),
        ("/groups?page=0", 400),
        ("/decide/confirm?action=mark", 403),
        ("/nothing", 404),
        ("/static/other", 404),
        ("/verdict", 405),
    ],
)
def test_errors_are_plain_pages_that_lead_back(visit: Visit, path: str, status: int) -> None:
    visitor = visit()
    visitor.settled("/groups")
    back = f"{visitor.review.root}/search?id=a1&number=5"
    answer = visitor.get(path, headers={"referer": OWN + back})
    assert answer.status_code == status
    assert 'role="alert"' in answer.text
    assert path.startswith("/search") or f'href="{html.escape(back)}">Back</a>' in answer.text


def test_a_page_that_misses_a_document_offers_a_search(visit: Visit) -> None:
    visitor = visit()
    visitor.settled("/groups")
    for path in ("/document?id=a22", "/group?id=a22"):
        answer = visitor.get(path)
        assert answer.status_code == 404
        assert 'name="id" value="a22"' in answer.text
        assert links(answer.text, "/search")[-1] == "/search"


# Search


def test_errors_name_options_as_esdedup_review_has_them(visit: Visit) -> None:
    page = plain(visit().get("/decide/confirm?action=mark").text)
    assert "this page is read-only: start esdedup review with --write" in page


def test_search_finds_words(visit: Visit) -> None:
    visitor = visit(write=True)
    page = plain(visitor.settled("/search?words=voted+council"))
    assert "3 documents with these words a" in page
    page = visitor.get("/search", params={"words": "the RIVER"}).text
    assert "1 document with these words" in page
    assert '<mark class="differs">the river</mark>' in page
    # Chinese is written without spaces.
    assert "1 document with these words" in visitor.get("/search?words=读书会").text
    assert "0 documents with these words" in visitor.get("/search?words=书会读").text
    assert "0 documents with these words" in visitor.get("/search?words=%22*(%26").text
    # A phrase is similar to no document as a whole.
    page = plain(visitor.post("/search", data={"text": "over the canal"}).text)
    assert "No document is similar as a whole. 1 document with these words" in page
    visitor.review.index.add([{"id": "new", "text": "A canal for the boats of the town hall."}])
    assert "2 documents with these words" in visitor.settled("/search?words=canal")


def test_a_search_for_words_shows_how_many_texts_are_read(visit: Visit) -> None:
    visitor, goes_on = visit(), threading.Event()

    def earlier(job: Job) -> None:
        goes_on.wait(60)

    visitor.review.text_jobs.start("earlier", earlier)
    page = visitor.get("/search?words=river").text
    assert "The first search for words reads all texts." in page
    assert "Reading texts" in page
    (progress,) = re.findall(r'data-progress="/[^/"]*([^"]*)"', page)
    assert visitor.get(progress).status_code == 200
    goes_on.set()
    assert "1 document with these words" in visitor.settled("/search?words=river")
    assert visitor.get(progress).status_code == 204


def test_a_search_by_text_shows_the_text_before_what_is_similar(visit: Visit) -> None:
    page = plain(visit().post("/search", data={"text": DOCUMENTS[0]["text"]}).text)
    asked, _, results = page.partition("similar documents")
    assert "The text that you search for The council met on Monday" in asked
    assert "a1" in results


def test_a_search_by_id_shows_the_document_and_keeps_the_form(visit: Visit) -> None:
    visitor = visit()
    page = plain(visitor.get("/search?id=a2").text)
    assert "The document that you search for a2 The council met" in page
    wrong = visitor.get("/search?id=a22")
    assert (wrong.status_code, 'value="a22"' in wrong.text) == (404, True)
    assert "has no document &#39;a22&#39;" in wrong.text
    # The form for a text stays folded.
    assert "<details>" in wrong.text


def test_search_marks_the_differences(visit: Visit) -> None:
    visitor = visit(show=["city"])
    page = visitor.get("/search?id=a2&threshold=0.5&number=5").text
    assert '<mark class="differs">river</mark>' in page
    assert "Bern" in page
    assert "1 of 2 similar documents" in visitor.get("/search?id=a2&threshold=0.5&number=1").text
    text = "\nThe council met on Monday and voted <b>for</b> the new bridge over the road"
    answer = visitor.post("/search", data={"text": text, "threshold": "0.1"})
    # A browser goes back to it.
    assert answer.headers["cache-control"] == "private, no-cache"
    page = answer.text
    assert '<mark class="differs">river.</mark>' in page
    (box,) = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    assert html.unescape(box) == text
    page = visitor.get("/compare?left=a1&right=a2").text
    assert re.search(r"\d+ of \d+ tokens are equal", page)
    wrong = visitor.post("/search", data={"text": text, "threshold": "much"})
    assert (wrong.status_code, 'value="much"' in wrong.text) == (400, True)
    assert f"{html.escape(text)}</textarea>" in wrong.text


@pytest.mark.parametrize(
    ("written", "shown", "measure"),
    [
        ("{}", "The texts are equal.", "1.000"),
        (": {}", "No word differs, only what the comparison ignores.", ">0.999"),
        ("{}+", "that you search for has more.", "0."),
        ("GNU {}", "that you search for has more.", "0."),
    ],
)
def test_only_equal_texts_have_a_similarity_of_one(
    visit: Visit, written: str, shown: str, measure: str
) -> None:
    form = {"text": written.format(DOCUMENTS[0]["text"]), "number": "1", "threshold": "0.3"}
    page = visit().post("/search", data=form).text
    assert shown in page
    assert f'<span class="number">{html.escape(measure)}' in page


# Groups


def test_groups_are_found_while_search_works(visit: Visit) -> None:
    visitor = visit()
    assert "data-progress" in visitor.get("/groups").text
    assert visitor.get("/search?id=a1").status_code == 200
    page = visitor.settled("/groups")
    assert visitor.get("/progress").status_code == 204
    assert links(page, "/group?")[:1] == ["/group?id=a1"]
    assert "The council met on Monday" in page
    assert members(visitor.get("/group?id=a1").text) == ["a2", "a3"]
    assert "is in no group" in visitor.get("/group?id=zh").text


def test_home_shows_the_progress_of_groups(visit: Visit) -> None:
    visitor, may_go_on = visit(), threading.Event()

    def wait(job: Job) -> None:
        may_go_on.wait()

    visitor.review.jobs.start("Waiting", wait)
    home = visitor.get("/").text
    assert "data-progress" in home
    assert "8 documents" in plain(home)
    may_go_on.set()
    assert "repeat others" in plain(visitor.settled("/"))


def test_a_failed_job_states_why_and_can_be_repeated(visit: Visit) -> None:
    page = plain(visit(keep="newest:nothing").settled("/groups"))
    assert re.search("no document has a time.* Find groups again", page)


def test_a_judgement_of_another_text_is_shown_as_such(visit: Visit) -> None:
    visitor = visit(write=True)
    index = visitor.review.index
    visitor.settled("/groups")
    index.judgements.judge("a1", "a2", "different")
    visitor.post("/groups/find")
    assert "Judged: not a duplicate</strong>" in visitor.get("/compare?left=a1&right=a2").text
    for path in ("/decide", "/groups"):
        assert "Judged pairs, when groups were found: 1 kept apart." in visitor.settled(path)
    index.add([{"id": "a2", "text": DOCUMENTS[1]["text"] + " Again."}])
    index.judgements.judge("a1", "a3", "duplicate")
    visitor.post("/groups/find")
    group = visitor.settled("/group?id=a1")
    assert members(group) == ["a2", "a3"]
    assert "Judged: a duplicate</span>" in group
    for page in (group, visitor.get("/compare?left=a1&right=a2").text):
        assert page.count("Judged: not a duplicate, judged before the text changed") == 1
        assert "aria-pressed" not in page
    counts = "when groups were found: 1 joined, 1 without effect, because a text is gone or has"
    for path in ("/groups", "/decide", "/decide/confirm?action=mark"):
        assert counts in visitor.get(path).text


@pytest.mark.parametrize(
    ("how", "judged", "sizes"),
    [("all", 435, []), ("template", 420, [2] * 15), ("selected", 56, [28, 2])],
)
def test_a_group_of_thirty_is_split_and_joined_again(
    visit: Visit, how: str, judged: int, sizes: list[int]
) -> None:
    visitor = visit(*THIRTY, write=True)
    visitor.settled("/groups")

    def groups() -> list[int]:
        groups = visitor.review.group_search.groups()
        assert groups is not None
        return sorted(groups.sizes.tolist())

    before, others = groups(), [2, 2, 3]
    assert before == [*others, 30]
    page = visitor.get("/group?id=t07&page=2").text
    (split,) = links(page, "/group/split")
    rows = re.findall(r'form="split" name="(row\d+)"', page)[:2]
    if how == "selected":
        none = visitor.post(split, data={"how": how})
        assert (none.status_code, "select documents" in none.text) == (400, True)
    answer = visitor.post(split, data={"how": how, **dict.fromkeys(rows, "on")})
    assert f"{judged} pairs were judged different." in answer.text
    assert len(visitor.review.index.judgements.read().pairs) == judged
    assert groups() == sorted([*others, *sizes])
    # A form that is sent again is of another state.
    assert visitor.post(split, data={"how": how}).status_code in (400, 404)
    (undo,) = links(answer.text, "/undo")
    visitor.post(undo)
    assert not visitor.review.index.judgements.read()
    assert groups() == before
    (split,) = links(visitor.get("/group?id=a1").text, "/group/split")
    answer = visitor.post(split, data={"how": "template"})
    assert "the group is no template" in answer.text


def test_distances_take_the_place_of_similarities(visit: Visit) -> None:
    visitor = visit(write=True, sketch="simhash", distance=12)
    page = visitor.settled("/groups")
    assert "Most distant" in page
    (path, *_) = links(page, "/group?")
    assert re.search(r"\d+ bits?<", visitor.get(path).text)
    assert re.search(r"\d+ bits?<", visitor.get("/search?id=a1").text)
    assert 'name="threshold"' not in visitor.get("/").text


# Judgements


def test_exported_judgements_are_read_back(visit: Visit) -> None:
    visitor = visit(write=True)
    index = visitor.review.index
    index.judgements.judge("a1", "a2", "different")
    index.judgements.judge("b1", "b2", "duplicate", 0.9, drawn=True)
    answer, before = visitor.get("/judgements.jsonl"), index.judgements.read()
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines == [each.to_json() for each in before.pairs]
    assert documented("review") == lines[0].keys()
    index.judgements.remove("a1", "a2")
    later = index.judgements.judge("b1", "b2", "unsure")
    read = visitor.post("/judgements/read", data={"lines": answer.text})
    assert str(read.url).endswith("/judge?read=2&kept=1")
    assert index.judgements.read().pairs == (before.pairs[0], later)
    page = visitor.settled("/judge?read=2&kept=1")
    assert "1 of 2 judgements were kept; the others have newer ones. 2" in page
    for broken in ("{", answer.text + "[]", "5", '{"left": "a"}'):
        read = visitor.post("/judgements/read", data={"lines": broken})
        assert read.status_code == 400
        assert "is not a judgement" in read.text
    assert index.judgements.read().pairs == (before.pairs[0], later)


def test_of_two_judgements_in_a_file_the_newer_one_is_kept(visit: Visit) -> None:
    """Such as in two exports that were put together."""
    visitor = visit(write=True)
    index = visitor.review.index
    made = index.judgements.judge("a1", "a2", "different")
    judged = made.to_json()
    newer = {**judged, "judged": "2026-02-02T00:00:00.000000+00:00"}
    older = {**judged, "verdict": "duplicate", "judged": "2026-01-01T00:00:00.000000+00:00"}
    turned = {"left": "a2", "right": "a1", "digests": [*made.digests[::-1]]}
    for lines in ([newer, older], [older, newer], [newer, older | turned]):
        index.judgements.drop()
        sent = "\n".join(map(json.dumps, lines))
        read = visitor.post("/judgements/read", data={"lines": sent})
        assert str(read.url).endswith("/judge?read=2&kept=1")
        (stored,) = index.judgements.read().pairs
        assert stored.to_json() == newer
    read = visitor.post("/judgements/read", data={"lines": json.dumps(older | turned)})
    assert str(read.url).endswith("/judge?read=1&kept=0")


def test_a_chosen_threshold_is_used(visit: Visit) -> None:
    visitor = visit()
    visitor.settled("/groups")
    visitor.settled("/threshold")
    (use,) = links(visitor.get("/threshold?other=0.95").text, "/threshold/use")
    visitor.post(use)
    assert "No two documents are similar enough" in visitor.settled("/groups")
    assert "similarity of 0.95 or more" in visitor.settled("/decide")
    assert "0.95 now" in visitor.get("/").text
    for path in ("/threshold/use", "/threshold/use?threshold=0", "/threshold/use?threshold=2"):
        assert visitor.post(path).status_code == 400


# Runs


def test_home_has_the_numbers_and_the_steps(visit: Visit) -> None:
    visitor = visit(write=True)
    assert "0.6 now" in visitor.get("/").text
    page = plain(visitor.settled("/"))
    assert "4 of 8 documents (50%) repeat others They are in 3 groups" in page
    assert "0 of 3 looked at" in page
    assert "over the rivercanal" in page
    visitor.judge("b1", "b2", "different")
    visitor.post(confirmed(visitor, "mark"))
    visitor.settled("/decide")
    visitor.post("/groups/find")
    page = plain(visitor.settled("/"))
    for step in ("3 of 8 documents (37.5%)", "1 judged", "1 run so far"):
        assert step in page


def test_what_judgements_joined_below_the_threshold_is_counted_apart(visit: Visit) -> None:
    visitor = visit(write=True)
    visitor.settled("/groups")
    visitor.judge("a1", "zh", "duplicate")
    apart = "4 of the 5 duplicates reach the threshold. The other one is a duplicate only"
    for path in ("/", "/decide", "/decide/confirm?action=mark"):
        assert apart in plain(visitor.get(path).text), path
    confirm = visitor.get("/decide/confirm?action=delete&without=judged").text
    assert "4 of 8 documents" in plain(confirm)
    assert "1 document that you judged a duplicate below the threshold is left out" in confirm
    (run,) = links(confirm, "/decide/run")
    visitor.post(run, data={"word": "delete"})
    visitor.settled("/decide")
    assert {*whole(visitor.review.index.store)} == {"a1", "b1", "x", "zh"}


def test_the_plan_states_what_it_does(visit: Visit) -> None:
    visitor = visit(*THIRTY, write=True, keep="last:city", method="components")
    page = visitor.settled("/decide")
    rules = (
        "Documents with a Jaccard similarity of 0.6 or more along a chain of documents form a"
        " group. Of each group, the document with the greatest city stays"
    )
    confirm = visitor.get("/decide/confirm?action=delete").text
    for each in (page, confirm):
        assert rules in each
        assert "The group of t00 (30 documents) looks like a template" in html.unescape(each)
    assert "looks like a template" in visitor.get("/group?id=t00").text
    assert "looks like a template" not in visitor.get("/group?id=a1").text
    assert "will be deleted" in confirm
    assert links(page, "/group?")[0] == "/group?id=t00"


def test_a_run_that_was_refused_changes_nothing_and_names_no_log(
    writing: Visitor, tmp_path: Path
) -> None:
    run, before = confirmed(writing, "mark"), whole(writing.review.index.store)
    word = writing.post(confirmed(writing, "delete"), data={"word": "no"})
    assert (word.status_code, writing.review.jobs.current) == (400, None)
    with esdedup.open(tmp_path / "index.db") as other:
        other.judgements.judge("a1", "a2", "different")
    writing.post(run)
    page = writing.settled("/decide")
    assert "It ended early" in page
    assert "judgements changed since" in page
    assert ".zst" not in page
    assert whole(writing.review.index.store) == before


def test_a_run_waits_for_decisions_that_the_groups_do_not_show(visit: Visit) -> None:
    # Groups of more than 1,000 documents are not formed again by themselves.
    copies = [{"id": f"copy{n}", "text": DOCUMENTS[0]["text"]} for n in range(998)]
    writing = visit(*copies, write=True)
    writing.settled("/groups")
    run = confirmed(writing, "mark")
    writing.judge("a1", "a2", "different")
    page = writing.get("/group?id=a1").text
    assert "a2" in members(page)
    assert "Some decisions do not show here yet" in page
    assert "/decide/confirm" not in writing.get("/decide").text
    for answer in (writing.post(run), writing.get("/decide/confirm?action=mark")):
        assert answer.status_code == 400
        assert "decisions were made that these groups do not show" in answer.text.lower()
    writing.post("/groups/find")
    assert "/decide/confirm" in writing.settled("/decide")
    assert "a2" not in members(writing.get("/group?id=a1").text)


@pytest.mark.parametrize(
    ("action", "done", "number"), [("delete", "deleted", 4), ("mark", "marked", 7)]
)
def test_the_history_shows_what_is_left_of_each_run(
    writing: Visitor, folder: Path, action: str, done: str, number: int
) -> None:
    run = confirmed(writing, action)
    writing.post(run, data={"word": "delete"})
    writing.settled("/decide")
    # The same form again is of groups that are gone.
    assert writing.post(run, data={"word": "delete"}).status_code == 400

    def history() -> str:
        return plain(writing.settled("/decide").partition('id="logs"')[2])

    did = {"deleted": "deletion", "marked": "marking"}[done]
    assert f"Undo the {did} of {number} documents, today " in history()
    (log,) = folder.glob("*.zst")
    assert log.name not in history()
    index = writing.review.index
    index.add([DOCUMENTS[1]]) if action == "delete" else index.delete(["a2"])
    # A run that was killed has no end.
    cut = folder / "documents.dedup-00.jsonl.zst"
    blocks = log.read_bytes().split(b"\x28\xb5\x2f\xfd")
    cut.write_bytes(b"\x28\xb5\x2f\xfd".join(blocks[:-1]))
    hasty = Visitor(replace(writing.review, counting_seconds=-1.0))
    assert "Not counted" in plain(hasty.settled("/decide").partition('id="logs"')[2])
    text = history()
    assert f"{number - 1} of {number} documents still {done}: the {did} of {number}" in text
    assert "The run was interrupted" in text
    page = writing.get("/decide").text
    writing.post(next(each for each in links(page, "/decide/undo") if log.name in each))
    assert history().count(f"Undone: the {did} of {number} documents, today") == 2
    assert not links(writing.get("/decide").text, "/decide/undo")


def test_only_logs_of_this_index_are_undone(writing: Visitor, folder: Path) -> None:
    os.mkfifo(folder / "documents.dedup-0.jsonl.zst")
    assert "There is no run on this index yet" in writing.settled("/decide")
    (folder / "documents.dedup-1.jsonl.zst").write_bytes(b"damaged")
    assert "its first line can&#39;t be read" in writing.get("/decide").text
    for name in ("../index.db", "index.db", "documents.dedup-2.jsonl.zst", ""):
        assert writing.post("/decide/undo", data={"log": name}).status_code == 404
    assert writing.post("/decide/undo?log=documents.dedup-1.jsonl.zst").status_code == 400
    # A log of another file is not listed, and can't be undone here.
    with esdedup.open(folder / "other.db", "documents") as other:
        other.add(DOCUMENTS)
        other.dedup("delete", threshold=0.6, apply=True)
    assert len([*folder.glob("documents.dedup-2*.zst")]) == 1
    page = writing.get("/decide").text
    assert "dedup-2" not in page
    assert "force" not in page


def test_an_undo_says_that_moved_copies_were_not_looked_for(writing: Visitor, folder: Path) -> None:
    index = writing.review.index
    log = folder / "documents.dedup-0.jsonl.zst"
    moved = index.dedup("move", to="others", log=log, threshold=0.6, apply=True).report
    assert moved is not None
    with esdedup.open(folder / "index.db", "others") as others:
        others.drop()
    (undo,) = links(writing.settled("/decide"), "/decide/undo")
    writing.post(undo)
    page = plain(writing.settled("/decide"))
    assert f"{moved.done} restored" in page
    assert f"is gone: {moved.done} moved copies were not looked for." in page


def test_another_rule_shows_who_would_stay_and_is_used(writing: Visitor) -> None:
    page = plain(writing.get("/decide?keep=last").text)
    assert "Another document stays in 3 of 3 groups. " in page
    assert "Stays now Would stay" in page.replace("Would", " Would").replace("  ", " ")
    (use,) = links(writing.get("/decide?keep=longest&field=").text, "/decide/keep")
    writing.post(use)
    assert "the document with the longest text stays" in writing.settled("/decide")
    missing = writing.get("/decide?keep=newest")
    assert (missing.status_code, "name the field" in missing.text) == (400, True)
    writing.post("/decide/keep?keep=lowest&field=city")
    page = writing.settled("/decide")
    assert "no document has a number in that field" in page
    writing.post(links(page, "/decide/keep")[0])
    assert "the document with the first id stays" in writing.settled("/decide")
    assert writing.post("/decide/keep").status_code == 400


def test_a_preview_of_a_rule_names_the_groups_that_it_did_not_read(writing: Visitor) -> None:
    brief = Visitor(replace(writing.review, previewed_documents=5))
    page = plain(brief.get("/decide?keep=last").text)
    assert "Another document stays in 2 of the 2 largest groups. 1 smaller group was not" in page
    briefer = Visitor(replace(writing.review, previewed_documents=3))
    page = plain(briefer.get("/decide?keep=last").text)
    assert "Another document stays in 1 of the 1 largest groups. 2 smaller groups were not" in page


def test_the_least_similar_duplicates_are_read_first(visit: Visit) -> None:
    changed = DOCUMENTS[0]["text"].replace("new", "old")
    visitor = visit({"id": "a0", "text": changed}, write=True, threshold=0.3, keep="last")
    visitor.settled("/groups")
    page = visitor.get("/decide/confirm?action=delete").text
    read = re.findall(r'<h2><span class="number">([\d.]+)</span> <bdi class="id">([^<]+)', page)
    values, ids = [float(value) for value, _ in read], [id for _, id in read]
    assert values == sorted(values)
    assert ids[0] == "a0"
    assert "/compare?left=a3&right=a0" in links(page, "/compare")


def test_a_group_shows_who_would_stay_by_each_rule(visit: Visit) -> None:
    dated = [
        {"id": f"d{day}", "text": "The tide comes in at the old harbour " + "soon " * day}
        | {"date": f"2026-11-{30 - day}"}
        for day in range(3)
    ]
    visitor = visit(*dated, write=True, show=["date"])
    visitor.settled("/groups")
    page = plain(visitor.get("/group?id=d1").text)
    assert "d0the first id, the shortest text, the newest by datestays now" in page
    assert "d2the longest text, the oldest by date" in page


def test_the_list_of_duplicates_is_a_csv(visit: Visit) -> None:
    visitor = visit(show=["city"])
    visitor.settled("/decide")
    (path,) = links(visitor.get("/decide").text, "/decide/duplicates")
    answer = visitor.get(path)
    assert answer.headers["content-type"].startswith("text/csv")
    lines = answer.text.splitlines()
    assert lines[0] == "id,stays,jaccard,city"
    assert {("a2", "a1"), ("a3", "a1"), ("b2", "b1")} < {
        tuple(line.split(",")[:2]) for line in lines[1:]
    }


# Jobs, and the command


def test_jobs_work_one_after_the_other_and_end_when_they_are_stopped() -> None:
    jobs, begun, seen = Jobs(), threading.Event(), list[str]()

    def first(job: Job) -> None:
        while True:
            job.on_step("Working", 1, 2)
            begun.set()

    job = jobs.start("first", first)
    assert begun.wait(60)
    other = jobs.start("second", lambda _: seen.append("second"))
    assert jobs.start("first", first) is jobs.current is job
    assert jobs.stop(60) is job
    assert str(job) == "first (working: 1 of 2)"
    assert job.error == other.error == "it was stopped"
    assert not seen


def test_a_job_that_fails_lets_the_next_one_work(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs()
    usage = jobs.start("usage", lambda _: check_file_name("host:1"))
    fault = jobs.start("fault", lambda _: [][0])
    assert jobs.start("third", lambda _: None).over.wait(60)
    assert "is an address" in str(usage.error)
    assert str(fault.error).startswith("it failed: IndexError")
    assert "IndexError" in caplog.text


def test_a_port_that_is_taken_and_an_index_that_is_not_there(visit: Visit) -> None:
    visit()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run_command("review", "--db", "index.db", "--port", str(port))
    assert ran.status == 2
    assert f"--port {port}" in ran.err
    assert run_command("review", "--db", "index.db", "-i", "other").status == 1


def test_images_are_shown_if_a_field_of_them_is_named(folder: Path) -> None:
    gif = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;"
    Path("a.gif").write_bytes(gif)
    Path("secret.txt").write_text("secret")
    images = {"a": "a.gif", "b": "https://example.org/b.gif", "c": "secret.txt", "d": None}
    documents = [
        {"id": id, "phash": f"5a3c{row:012x}", "image": image}
        for row, (id, image) in enumerate(images.items())
    ]
    options: Any = {"scheme": esdedup.Scheme([esdedup.Bits()]), "text_field": "phash"}
    visitor = visiting(folder / "x.db", documents, image="image", **options)
    group = visitor.settled("/groups")
    assert links(group, "/group?id=a")
    page = visitor.get("/group?id=a").text
    assert '<img src="image?id=a" alt="a.gif" loading="lazy">' in page
    assert '<img src="https://example.org/b.gif"' in page
    assert '<img src="image?id=a"' in visitor.get("/document?id=a").text
    assert '<img src="https://example.org/b.gif"' in visitor.get("/search?id=a").text
    assert '<img src="image?id=a"' in visitor.get("/compare?left=a&right=b").text
    answer = visitor.get("/image?id=a")
    assert (answer.content, answer.headers["content-type"]) == (gif, "image/gif")
    assert "img-src 'self' http: https:" in answer.headers["content-security-policy"]
    # Only what a document names, and only images.
    for id in ("b", "c", "d"):
        assert visitor.get(f"/image?id={id}").status_code == 404
    without = visiting(folder / "x.db", show=["image"], **options)
    page = without.get("/document?id=a").text
    assert "<img" not in page.partition("<main")[2]
    assert without.get("/image?id=a").status_code == 404
    policy = without.get("/document?id=a").headers["content-security-policy"]
    assert "img-src 'self';" in policy


def test_passages_are_marked_where_two_texts_are_compared(folder: Path) -> None:
    passage = "the old bridge over the river will be repaired before the winter comes"
    documents = [
        {"id": "a", "text": f"{passage} as the council agreed on Monday"},
        {"id": "b", "text": f"A reader doubts that {passage}"},
    ]
    scheme = esdedup.Scheme([esdedup.MinHash(), esdedup.Passages()])
    visitor = visiting(folder / "x.db", documents, scheme=scheme, sketch="passages")
    page = visitor.get("/compare?left=a&right=b").text
    assert re.findall('<mark class="differs">([^<]*)</mark>', page)[1:3] == [
        " as the council agreed on Monday",
        "A reader doubts that ",
    ]
    with esdedup.open(folder / "x.db") as index:
        found = index.explain("a", "b", sketch="passages")
    assert [found.left.text.text[slice(*each)] for each in found.left.shared] == [passage]
    assert ("in passages of 12", "13 and 13 words", "0.68 of a and 0.76 of b") in found.facts()
