"""What a first try of `clean` and `decontaminate` shows: where, by which rule, and what differs."""

import json
from pathlib import Path

import pytest

import esdedup
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.surroundings import killed_at


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    text = words(1, 40)
    rows = [{"id": "a", "text": text}, {"id": "b", "text": f"{text} changed"}]
    rows += [{"id": "c", "text": words(2, 40)}, {"id": "d", "text": words(3, 40)}]
    write_lines(Path("a.jsonl"), rows)
    write_lines(Path("quiz.jsonl"), [{"question": words(2, 40)}, {"question": words(9, 40)}])


def test_the_table_says_where_and_by_which_rule() -> None:
    shown = run_command("clean", "a.jsonl", "--table")
    assert "a Jaccard similarity of 0.8 or more" in shown.out
    assert "nothing: -o without --dry-run names a place" in shown.out
    written = run_command("clean", "a.jsonl", "-o", "out", "-t", "0.9", "--table").out
    assert "a Jaccard similarity of 0.9 or more" in written
    assert "│ out " in written
    assert "out/_removed.jsonl.zst" in written
    lines = run_command("clean", "a.jsonl", "-o", "units", "--unit", "line", "--table").out
    assert "repeated lines" in lines
    assert "list of removed" not in lines


def test_samples_show_where_they_differ() -> None:
    common = " ".join(words(5, 60).split())
    rows = [{"text": f"{common} the red end of it"}, {"text": f"{common} the green end of it"}]
    write_lines(Path("near.jsonl"), rows)
    shown = run_command("clean", "near.jsonl", "--table").out
    assert "the ⟦green⟧ end of it" in shown
    assert "the ⟦red⟧ end of it" in shown
    assert shown.count("… ") == 2
    write_lines(Path("equal.jsonl"), [{"text": "the same words here"}] * 2)
    assert "⟦" not in run_command("clean", "equal.jsonl", "--table").out


def test_items_can_have_their_text_in_another_field() -> None:
    command = ["decontaminate", "a.jsonl", "--against", "quiz.jsonl"]
    missing = run_command(*command, status=2)
    assert "quiz.jsonl: none of the first 2 records has the field 'text'" in missing.err
    assert "--against-field" in missing.err
    done = run_command(*command, "--against-field", "question", "-o", "out", "--json")
    assert (done.json[0]["removed"], done.json[0]["contained"]["items"]) == (1, 2), done.err
    shown = run_command(*command, "--against-field", "question", "--table").out
    assert shown.startswith("1 of 4 documents contains an item\n")
    masked = run_command(*command, "--against-field", "question", "--mask", "--table").out
    assert masked.startswith("1 of 4 documents contains an item\n")
    report = esdedup.decontaminate("a.jsonl", "quiz.jsonl", "again", against_field="question")
    assert report.removed == 1
    assert Path("again/a.jsonl").read_bytes() == Path("out/a.jsonl").read_bytes()


def test_near_duplicates_of_another_field() -> None:
    report = esdedup.clean("a.jsonl", None, against="quiz.jsonl", against_field="question")
    assert (report.removed, report.against) == (2, 1)
    # What the field of the others holds is not read.
    rows = [{"text": words(3, 40), "question": words(2, 40)}]
    write_lines(Path("both.jsonl"), rows)
    both = esdedup.clean("a.jsonl", None, against="both.jsonl", against_field="question")
    assert (both.removed, both.against) == (2, 1)
    with pytest.raises(esdedup.UsageError, match="`against_field` requires files"):
        esdedup.clean("a.jsonl", None, against="all.sketches", against_field="question")


def test_an_interrupted_run_says_how_to_resume() -> None:
    ended = run_command(
        "clean", "a.jsonl", "-o", "out", surroundings=killed_at("Writing"), status=130
    )
    assert "Run the same command again to resume" in ended.err
    resumed = run_command("clean", "a.jsonl", "-o", "out", "--json")
    assert (resumed.status, resumed.json[0]["kept"]) == (0, 3)
    dry = run_command("clean", "a.jsonl", surroundings=killed_at("Sketching"))
    assert (dry.status, "resume" in dry.err) == (130, False)


def test_pairs_go_to_standard_output() -> None:
    rows = [{"id": str(n), "text": words(n // 3)} for n in range(12)]
    write_lines(Path("p.jsonl"), [{**row, "text": f"{row['text']} {row['id']}"} for row in rows])
    everything = run_command("pairs", "p.jsonl", "-t", "0.3", "-o", "-", status=0)
    run_command("pairs", "p.jsonl", "-t", "0.3", "-o", "p.pairs.jsonl", status=0)
    lines = Path("p.pairs.jsonl").read_text().splitlines()
    assert [*map(json.loads, lines)] == everything.json
    for options in (["-o", "-"], ["--json"]):
        some = run_command("pairs", "p.jsonl", "-t", "0.3", "-k", "2", *options)
        assert (some.status, len(some.json)) == (0, 2)
        assert f"2 of {len(lines)} pairs shown" in some.err
    refused = run_command("pairs", "p.jsonl", "-k", "2", "-o", "new.jsonl", status=2)
    assert "-k can't be combined" in refused.err
