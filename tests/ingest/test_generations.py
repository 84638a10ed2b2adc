"""Documents that arrive behind a name of several indices, which can have one id each."""

from pathlib import Path
from typing import Any

import pytest

import esdedup
from tests.helpers.commands import (
    Ran,
    all_documents,
    call,
    esdedup_command,
    fill,
    read_lines,
    write_lines,
)
from tests.helpers.indices import attach_index

TEXT = "the council met on monday and voted for a new bridge over the river near town"
OTHER = "a small bakery opens early in the morning and sells fresh bread to all its neighbours"
NEAR = f"{OTHER} and friends"


@pytest.fixture
def generations(url: str, name: str) -> tuple[str, str]:
    """Return two indices behind an alias, of which the second one is empty, after a rollover."""
    first, second = f"{name}-000001", f"{name}-000002"
    mappings = {"properties": {"text": {"type": "text"}}}
    for index, is_written in ((first, False), (second, True)):
        aliases = {name: {"is_write_index": is_written}}
        call(url, "PUT", f"/{index}", {"mappings": mappings, "aliases": aliases})
    fill(url, first, {"1": {"text": TEXT}, "2": {"text": OTHER}})
    assert attach_index(url, name, "--text-field", "text") == 2
    return first, second


def index(url: str, name: str, policy: str, *records: dict[str, Any]) -> Ran:
    write_lines(Path("a.jsonl"), [*records])
    options = ["--on-duplicate", policy, "--threshold", "0.7", "--json"]
    return esdedup_command(url, "index", "a.jsonl", "-i", name, *options)


def marks_in(url: str, index_name: str) -> dict[str, tuple[str | None, str | None]]:
    """Return the group and the original of each document of an index."""
    marks = {id: source["esdedup"] for id, source in all_documents(url, index_name).items()}
    return {id: (mark.get("group"), mark.get("original")) for id, mark in marks.items()}


@pytest.mark.on_every_server
def test_a_document_that_is_sent_again_is_the_duplicate_of_its_earlier_generation(
    url: str, name: str, generations: tuple[str, str]
) -> None:
    first, second = generations
    again = {"id": "1", "text": TEXT.upper()}
    skipped = index(url, name, "skip", again)
    assert (skipped.status, skipped.json[0]["skipped"]) == (0, 1)
    assert all_documents(url, second) == {}
    failed = index(url, name, "fail", again)
    assert (failed.status, failed.json[0]["failed"]) == (1, 1)
    (letter,) = read_lines(f"{name}.dead-letter.jsonl")
    assert f"a near-duplicate of '{first}/1'" in letter["reason"]
    Path(f"{name}.dead-letter.jsonl").unlink()
    marked = index(url, name, "mark", again, {"id": "2", "text": NEAR}, {"id": "3", "text": NEAR})
    assert (marked.status, marked.json[0]["duplicates"]) == (0, 3)
    original = f"{first}/2"
    assert marks_in(url, second) == {
        "1": (f"{first}/1", f"{first}/1"),
        "2": (original, original),
        "3": (original, f"{second}/2"),
    }
    # Each id is in both indices by now, and each name is of one of them.
    later = index(url, name, "mark", {"id": "4", "text": TEXT}, {"id": "5", "text": NEAR})
    assert later.json[0]["duplicates"] == 2
    assert marks_in(url, second)["4"] == (f"{first}/1", f"{first}/1")
    assert marks_in(url, second)["5"][1] in {f"{second}/2", "3"}
    checked = esdedup_command(url, "check", "-i", name, "--json")
    assert [found["original_gone"]["count"] for found in checked.json] == [0, 0]


@pytest.mark.on_every_server
def test_a_document_of_another_text_begins_a_group_that_names_its_index(
    url: str, name: str, generations: tuple[str, str]
) -> None:
    first, second = generations
    text = "quite another text that has nothing to do with what was sent under this id before"
    grouped = index(url, name, "group", {"id": "1", "text": text}, {"id": "9", "text": f"{text}!"})
    assert (grouped.status, grouped.json[0]["duplicates"]) == (0, 1)
    assert marks_in(url, second) == {
        "1": (f"{second}/1", None),
        "9": (f"{second}/1", f"{second}/1"),
    }
    assert index(url, name, "group", {"id": "1", "text": text}).json[0]["unchanged"] == 1
    with esdedup.open(url, name) as opened:
        report = opened.add([{"id": "2", "text": OTHER.upper()}], on_duplicate="group")
    assert (report.duplicates, report.exact) == (1, 1)
    assert marks_in(url, second)["2"] == (f"{first}/2", f"{first}/2")
