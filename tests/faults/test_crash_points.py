"""Commands that end at any call of their store: the same command completes them."""

from pathlib import Path
from typing import Any

import pytest

import esdedup
from tests.faults.test_faults import assert_whole
from tests.helpers.commands import call, esdedup_command, fill, words, write_lines
from tests.helpers.crashes import crash_everywhere
from tests.helpers.places import STORES, Place
from tests.helpers.small_pages import SMALL_PAGES

# Many batches, in which every third document repeats another.
DOCUMENTS = [{"id": f"d{n}", "text": words(n - n % 3 // 2, 12)} for n in range(600)]


@pytest.fixture(autouse=True)
def folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for each in SMALL_PAGES:
        monkeypatch.setattr(*each)
    write_lines(folder / "documents.jsonl", DOCUMENTS)
    return folder


def stored(place: Place) -> dict[str, Any]:
    """Every document with its tokens and its group."""
    with esdedup.open(place.target, place.index) as index:
        index.store.refresh()
        ids = [one.id for batch in index.store.scan([], index.meta) for one in batch]
        assert len(set(ids)) == len(ids)
        return {one.id: one.source for one in index.store.get(ids)}


@pytest.mark.parametrize(
    "place",
    ["local", *(pytest.param(name, marks=pytest.mark.nightly) for name in STORES[1:])],
    indirect=True,
)
def test_indexing_and_grouping(place: Place, folder: Path) -> None:
    whole = Place(folder / "whole.db", place.index)
    for arguments in (["index", "documents.jsonl"], ["group", "--method", "leader"]):
        whole.run(*arguments, status=0)
        crashes = crash_everywhere(lambda arguments=arguments: place.run(*arguments, status=0))  # type: ignore[misc]
        assert crashes > 3
        assert stored(place) == stored(whole)
    assert [path.name for path in folder.iterdir() if path.is_dir()] == []


def test_a_backfill(url: str, name: str) -> None:
    """Only clusters have indices that others write to."""
    place = Place(url, name)
    bare = {f"d{n}": {"text": words(n, 12), "n": n} for n in range(600)}
    call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
    fill(url, name, bare)
    esdedup_command(url, "attach", "-i", name, status=0)
    assert crash_everywhere(lambda: place.run("backfill", status=0)) > 3
    assert_whole(url, name, bare)
    assert place.run("backfill", "--stale", status=0).json[-1]["written"] == 0
