"""`esdedup decontaminate -i NAME --against ITEMS`: documents of an index that hold items."""

from pathlib import Path

import pytest

import esdedup
from tests.helpers.commands import read_lines, run_command, words, write_lines
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
    rows = read_lines(file)
    return {
        (row["id"], row["original_id"], row["contained"], row["start"], row["end"]) for row in rows
    }


@pytest.mark.on_every_server
def test_an_index_has_the_findings_of_files(place: Place, folder: Path) -> None:
    write_corpus()
    place.run("index", "pages.jsonl", "--passages", status=0)
    ran = place.run("decontaminate", *HOW, "--removed", "listed.jsonl", status=0)
    report, held = ran.json[-1], findings("listed.jsonl")
    to_files = ("-o", "out", "--removed", "files.jsonl")
    files = run_command("decontaminate", "pages.jsonl", *HOW, *to_files, status=0).json[-1]
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

    apply = ("--apply", "--action", "delete", "-y", "--log", "run.jsonl")
    deleted = place.run("decontaminate", *HOW, *apply, status=0).json[-1]["deleted"]
    assert deleted == len(held)
    with esdedup.open(place.target, place.index) as index:
        assert index.statistics().documents == PAGES - len(held)
    assert place.run("decontaminate", *HOW, status=0).json[-1]["removed"] == 0
    undone = place.run("undo", "run.jsonl", "-y", status=0).json[-1]
    assert undone["restored"] == len(held)
    place.run("decontaminate", *HOW, "--removed", "again.jsonl", status=0)
    assert findings("again.jsonl") == held


def test_an_index_to_move_to_is_checked_before_the_search(folder: Path) -> None:
    write_lines(Path("pages.jsonl"), [{"id": "p", "text": words(1)}])
    write_lines(Path("items.jsonl"), [{"text": words(1)}])
    run_command("index", "pages.jsonl", "--passages", status=0)
    apply = ["--apply", "--action", "move", "--to", "documents", "--yes"]
    ran = run_command("decontaminate", *HOW, *apply, "--removed", "listed.jsonl", status=2)
    assert ran.err == (
        "Error: index 'documents' holds the documents already: name another to move to\n"
    )
    assert ran.out == ""
    assert not Path("listed.jsonl").exists()


def test_texts_of_other_fields_and_a_move(folder: Path) -> None:
    pages = [{"id": f"p{n}", "title": words(n, 20), "body": words(50 + n)} for n in range(9)]
    write_lines(Path("pages.jsonl"), pages)
    held = f"{pages[3]['title']} {pages[3]['body']}"
    questions = [{"name": "q", "ask": held}, {"name": "s", "ask": "too short"}, {"name": "n"}]
    write_lines(Path("items.jsonl"), questions)
    fields = ["--text-field", "title", "--text-field", "body"]
    run_command("index", "pages.jsonl", "--passages", *fields, status=0)
    how = [*HOW, "--text-field", "ask", "--id-field", "name"]
    ran = run_command(
        "decontaminate", *how, "--apply", "--action", "move", "--to", "held", "--yes", status=1
    )
    # A record without a text is reported.
    assert "1 record skipped" in ran.err
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
    run_command("index", "pages.jsonl", "--passages", status=0)
    ran = run_command("decontaminate", *HOW, status=0)
    counts = ran.json[-1]["contained"]
    assert (counts["truncated"], counts["guarantee"], counts["found"]) == (1, 0, 1)
    assert "share parts of a truncated or stopped item may be missing" in ran.err
    with esdedup.open() as index:
        index.stop_list.replace(
            [each.token for each in index.hot_buckets(sketches=["passages"], over=9).buckets]
        )
    counts = run_command("decontaminate", *HOW, status=0).json[-1]["contained"]
    assert (counts["truncated"], counts["stopped"], counts["guarantee"]) == (0, 1, 0)
    assert counts["found"] == 1
