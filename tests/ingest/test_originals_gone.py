"""Copies whose original was deleted: `check` counts them, and they hide no new document."""

from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.exceptions import RecordError
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.indices import fill_index
from tests.helpers.places import Place, clusters

pytestmark = [pytest.mark.on_every_server]

STORY = words(1, 40)


def visible(index: esdedup.Index) -> set[str]:
    """What a search without duplicates finds."""
    ids = [one.id for batch in index.store.scan([], index.meta) for one in batch]
    documents = index.store.get(ids)
    return {one.id for one in documents if one.tokens.get("original") is None}


def marks_of(index: esdedup.Index, id: str) -> dict[str, Any]:
    (document,) = index.store.get([id])
    return {name: document.tokens.get(name) for name in ("group", "original")}


def without_original(index: esdedup.Index, action: Any) -> None:
    """Index a story, two copies of it and another text, and delete the story."""
    index.add([{"id": "A", "text": STORY}], on_duplicate=action)
    more = [{"id": "B", "text": STORY}, {"id": "C", "text": STORY}, {"id": "X", "text": words(2)}]
    index.add(more, on_duplicate=action)
    assert visible(index) == {"A", "X"}
    assert index.delete(["A"]) == 1
    index.store.refresh()
    assert visible(index) == {"X"}


@pytest.mark.parametrize("action", ["mark", "group"])
def test_a_new_copy_takes_the_place_of_the_original(index: esdedup.Index, action: Any) -> None:
    without_original(index, action)
    index.add([{"id": "D", "text": STORY}], on_duplicate=action)
    assert visible(index) == {"D", "X"}
    # It leads the group of the one that is gone, so that a collapsed search shows one of them.
    assert marks_of(index, "D") == {"group": "A", "original": None}
    assert marks_of(index, "B") == {"group": "A", "original": "A"}
    # Later ones follow it, and so does a near copy, also of the same batch.
    near = f"{STORY} and more"
    index.add([{"id": "E", "text": STORY}, {"id": "F", "text": near}], on_duplicate=action)
    assert marks_of(index, "E") == {"group": "A", "original": "D"}
    assert marks_of(index, "F") == {"group": "A", "original": "D"}
    # Again, nothing changes.
    again = index.add([{"id": "D", "text": STORY}], on_duplicate=action)
    assert again.unchanged == 1
    index.group()
    assert visible(index) == {"B", "X"}
    assert marks_of(index, "D") == {"group": "B", "original": "B"}


def test_a_near_copy_takes_its_place_too(index: esdedup.Index) -> None:
    without_original(index, "mark")
    index.add([{"id": "D", "text": f"{STORY} and more"}], on_duplicate="mark")
    assert marks_of(index, "D") == {"group": "A", "original": None}


def test_two_in_one_batch(index: esdedup.Index) -> None:
    without_original(index, "mark")
    pair = [{"id": "D", "text": STORY}, {"id": "E", "text": STORY}]
    index.add(pair, on_duplicate="mark")
    assert marks_of(index, "D") == {"group": "A", "original": None}
    assert marks_of(index, "E") == {"group": "A", "original": "D"}


def test_the_original_may_come_back_in_the_batch(index: esdedup.Index) -> None:
    without_original(index, "mark")
    pair = [{"id": "A", "text": STORY}, {"id": "D", "text": STORY}]
    index.add(pair, on_duplicate="mark")
    assert marks_of(index, "A") == {"group": "A", "original": None}
    assert marks_of(index, "D")["original"] is not None


def test_skip_leaves_the_new_copy_out(index: esdedup.Index) -> None:
    without_original(index, "mark")
    report = index.add([{"id": "D", "text": STORY}], on_duplicate="skip")
    assert (report.created, report.skipped) == (0, 1)


@pytest.mark.parametrize("text", [STORY, f"{STORY} and more"], ids=["equal", "near"])
def test_skip_and_fail_let_no_stored_document_become_a_copy(
    index: esdedup.Index, text: str
) -> None:
    """Its copies are there, though their marks lead to a document that is gone."""
    without_original(index, "mark")
    report = index.add([{"id": "X", "text": text}], on_duplicate="skip")
    assert (report.updated, report.skipped) == (0, 1)
    with pytest.raises(RecordError, match="near-duplicate of 'B'"):
        index.add([{"id": "X", "text": text}], on_duplicate="fail")
    assert index.get("X").source["text"] == words(2)


@clusters
def test_check_counts_them(place: Place, folder: Path) -> None:
    write_lines(folder / "a.jsonl", [{"id": f"d{n}", "text": words(n // 3)} for n in range(9)])
    index = ("index", str(folder / "a.jsonl"), *place.options, "--on-duplicate", "mark")
    run_command(*index, status=0)
    place.call("POST", "/_refresh")
    good = run_command("check", *place.options, "--json", status=0)
    assert good.json[0]["original_gone"] == {"count": 0, "examples": []}
    for id in ("d0", "d3"):
        place.call("DELETE", f"/_doc/{id}?refresh=true")
    checked = run_command("check", *place.options, "--json", status=1)
    gone = checked.json[0]["original_gone"]
    assert gone["count"] == 4
    assert {*gone["examples"]} == {"d1", "d2", "d4", "d5"}
    assert f"esdedup group --index {place.index}" in checked.err
    run_command("group", *place.options, status=0)
    run_command("check", *place.options, status=0)


@clusters
def test_an_original_in_another_index_of_the_alias_counts(place: Place) -> None:
    """A daily index, checked alone, has copies of documents of the day before."""
    names, url = [f"{place.index}-1", f"{place.index}-2"], str(place.target)
    for at, name in enumerate(names):
        fill_index(Place(url, name), [{"id": f"d{at}", "text": STORY}])
    actions = [{"add": {"index": name, "alias": place.index}} for name in names]
    Place(url, "_aliases").call("POST", "", {"actions": actions})
    run_command("group", *place.options, status=0)
    for name in (place.index, *names):
        checked = run_command("check", "--url", url, "--index", name, "--json")
        assert [one["original_gone"]["count"] for one in checked.json] == [0] * len(checked.json)
        assert checked.status == 0
