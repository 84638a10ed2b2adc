"""`esdedup decontaminate -i NAME --against ITEMS`: documents of an index that hold items."""

import json
from pathlib import Path
from typing import Any

import pytest

import esdedup
from tests.helpers.commands import Ran, run_command, words, write_lines
from tests.helpers.places import Place
from tests.helpers.surroundings import Listener

NOTICE = "the following is a multiple choice question read it carefully and answer"
ITEMS, PAGES = 40, 2_000
HOW = ("--against", "items.jsonl", "--share", "0.8")
Finding = tuple[str, str, float, int, int]


def reformatted(text: str) -> str:
    """Return a text with other capitals, line breaks and punctuation."""
    parts = text.upper().split()
    return ",\n".join(" – ".join(parts[at : at + 4]) for at in range(0, len(parts), 4))


def edited(text: str) -> str:
    """Return a text with one word in ten replaced."""
    return " ".join(f"x{at}" if at % 10 == 6 else word for at, word in enumerate(text.split()))


def write_corpus() -> None:
    """Write items, and pages, of which the first hold the items, one way after the other."""
    items = [f"{NOTICE} {words(n, 25)}" if n % 5 == 0 else words(n, 25) for n in range(ITEMS)]
    held = [change(item) for change in (str, reformatted, edited) for item in items]
    held += [NOTICE] * 101
    held += [""] * (PAGES - len(held))
    pages = [f"{words(1_000 + n, 30)} {part}. {words(9_000 + n, 9)}" for n, part in enumerate(held)]
    for prefix, texts in (("items", items), ("pages", pages)):
        # Items may have the ids of pages.
        lines = [{"id": f"p{n}", "text": text} for n, text in enumerate(texts)]
        write_lines(Path(f"{prefix}.jsonl"), lines)


def findings(file: str) -> set[Finding]:
    rows = map(json.loads, Path(file).read_text("utf-8").splitlines())
    return {
        (row["id"], row["original_id"], row["contained"], row["start"], row["end"]) for row in rows
    }


def done(ran: Ran) -> dict[str, Any]:
    assert ran.status == 0, ran.err
    return ran.json[-1]


@pytest.mark.on_every_server
def test_an_index_has_the_findings_of_files(place: Place, folder: Path) -> None:
    write_corpus()
    done(run_command("index", "pages.jsonl", "--passages", *place.options))
    ran = run_command("decontaminate", *HOW, "--removed", "listed.jsonl", *place.options)
    report, held = done(ran), findings("listed.jsonl")
    files = done(
        run_command("decontaminate", "pages.jsonl", *HOW, "-o", "out", "--removed", "files.jsonl")
    )
    expected = findings("files.jsonl")
    # Edited items have no 12 words in a row: some are missed, and none is wrong.
    assert held <= expected
    whole = {each for each in expected if int(each[0][1:]) < 2 * ITEMS}
    assert {each[0] for each in whole} == {f"p{n}" for n in range(2 * ITEMS)}
    assert whole <= held
    assert len(expected) == 3 * ITEMS
    assert len(held) >= 0.95 * len(expected)
    assert (report["documents"], report["removed"]) == (PAGES, len(held))
    assert report["kept"] == PAGES - len(held)
    assert report["contained"].items() >= files["contained"].items()
    assert report["contained"]["common"] == len(NOTICE.split()) - 2
    more = {"stopped": 0, "truncated": 0, "guarantee": 12}
    assert report["contained"].items() >= more.items()
    assert 3 * ITEMS <= report["contained"]["candidates"] < PAGES / 5
    assert "share fewer than 12 words in a row of an item may be missing" in ran.err
    assert "--action delete or move" in ran.err

    log = ("--log", "run.jsonl")
    removed = run_command(
        "decontaminate", *HOW, "--apply", "--action", "delete", "-y", *log, *place.options
    )
    assert done(removed)["deleted"] == len(held)
    with esdedup.open(place.target, place.index) as index:
        assert index.statistics().documents == PAGES - len(held)
    assert done(run_command("decontaminate", *HOW, *place.options))["removed"] == 0
    assert done(run_command("undo", "run.jsonl", "-y", *place.options))["restored"] == len(held)
    done(run_command("decontaminate", *HOW, "--removed", "again.jsonl", *place.options))
    assert findings("again.jsonl") == held


def test_texts_of_other_fields_and_a_move(folder: Path) -> None:
    pages = [{"id": f"p{n}", "title": words(n, 20), "body": words(50 + n)} for n in range(9)]
    write_lines(Path("pages.jsonl"), pages)
    held = f"{pages[3]['title']} {pages[3]['body']}"
    questions = [{"name": "q", "ask": held}, {"name": "s", "ask": "too short"}, {"name": "n"}]
    write_lines(Path("items.jsonl"), questions)
    fields = ["--text-field", "title", "--text-field", "body"]
    done(run_command("index", "pages.jsonl", "--passages", *fields))
    how = [*HOW, "--text-field", "ask", "--id-field", "name"]
    ran = run_command("decontaminate", *how, "--apply", "--action", "move", "--to", "held", "--yes")
    # A record without a text is reported.
    assert (ran.status, "1 record skipped" in ran.err) == (1, True), ran.err
    report, moved = ran.json
    assert [(each["id"], each["original_id"]) for each in report["samples"]] == [("p3", "q")]
    assert (report["contained"]["ignored"], moved["moved"], moved["failed"]) == (1, 1, 0)
    with esdedup.open(index="held") as index:
        assert index.get("p3").source.items() >= pages[3].items()


def test_a_document_that_changes_meanwhile_stays(folder: Path) -> None:
    write_lines(Path("items.jsonl"), [{"text": words(1)}, {"text": words(2)}])
    with esdedup.open(scheme=esdedup.Scheme().plus(esdedup.Passages())) as index:
        index.add({"id": f"p{n}", "text": words(n)} for n in range(9))
        changed: list[int] = []

        def change() -> None:
            changed.append(index.update([{"id": "p1", "text": "another text"}]))

        # When the report is shown, and before anything is deleted.
        err = Listener("item may be missing", change)
        ran = run_command("decontaminate", *HOW, "--apply", "--action", "delete", "--yes", err=err)
        assert changed == [1]
        assert (ran.status, ran.json[1]["deleted"], ran.json[1]["changed_meanwhile"]) == (1, 1, 1)
        assert index.get("p1").source["text"] == "another text"


def test_what_is_not_compared_is_reported(folder: Path) -> None:
    texts = [words(1), *(f"{NOTICE} {words(n, 9)}" for n in range(9, 1_011))]
    write_lines(Path("pages.jsonl"), [{"text": text} for text in texts])
    write_lines(Path("items.jsonl"), [{"text": f"{NOTICE} {words(5, 20)}"}, {"text": words(1)}])
    done(run_command("index", "pages.jsonl", "--passages"))
    ran = run_command("decontaminate", *HOW)
    counts = done(ran)["contained"]
    assert (counts["truncated"], counts["guarantee"], counts["found"]) == (1, 0, 1)
    assert "share parts of a truncated or stopped item may be missing" in ran.err
    with esdedup.open() as index:
        index.stop_list.replace(
            [each.token for each in index.hot_buckets(sketches=["passages"], over=9).buckets]
        )
    counts = done(run_command("decontaminate", *HOW))["contained"]
    assert (counts["truncated"], counts["stopped"], counts["guarantee"]) == (0, 1, 0)
    assert counts["found"] == 1


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    write_lines(Path("items.jsonl"), [{"text": words(1)}])
    done(run_command("index", "items.jsonl"))
    for options, said in (
        (HOW, "items are found by passages: index the documents of index 'documents'"),
        ((*HOW, "--mask"), "--mask requires FILES"),
        ((*HOW, "-t", "0.5"), "No such option: -t"),
        ((*HOW, "-k", "5"), "No such option: -k"),
        ((*HOW, "--apply", "--action", "mark", "-y"), "--action delete or move"),
        (HOW[2:], "decontaminate requires --against"),
        (("--against", "none.jsonl", *HOW[2:]), "none.jsonl"),
    ):
        refused = run_command("decontaminate", *options)
        assert (refused.status, said in refused.err) == (2, True), refused.err
