"""Documents that were removed by the name of an alias, which stands for other indices later."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import esdedup
from esdedup.exceptions import UsageError
from tests.helpers.commands import Ran, all_documents, call, esdedup_command, fill, words
from tests.helpers.http import HTTP
from tests.helpers.indices import attach_index

pytestmark = pytest.mark.on_every_server

MAPPINGS = {"properties": {"text": {"type": "text"}}}
DOCUMENTS = {f"d{number}": {"text": words(number // 2), "n": number} for number in range(4)}


def make_index(url: str, index: str, alias: str, **documents: dict[str, Any]) -> None:
    """Make an index behind an alias, with documents that may have tokens already."""
    call(url, "PUT", f"/{index}", {"mappings": MAPPINGS, "aliases": {alias: {}}})
    attach_index(url, index, "--text-field", "text")
    fill(url, index, documents)
    esdedup_command(url, "backfill", "-i", index, status=0)


def point(url: str, alias: str, *indices: str) -> None:
    """Have an alias stand for some indices, the last of which it writes to."""
    actions: list[dict[str, Any]] = [{"remove": {"index": "*", "alias": alias}}]
    actions += [
        {"add": {"index": index, "alias": alias, "is_write_index": index == indices[-1]}}
        for index in indices
    ]
    call(url, "POST", "/_aliases", {"actions": actions})


def dedup(url: str, name: str, *options: str) -> Ran:
    common = ("--apply", "--yes", "--log", "log.jsonl")
    return esdedup_command(url, "dedup", "-i", name, *common, *options, status=0)


@pytest.fixture
def alias(url: str, name: str) -> str:
    """An alias, which stood for NAME-v1 when duplicates were deleted, and now for NAME-v2.

    This has the documents that NAME-v1 kept.
    """
    alias, first, second = (f"{name}-{part}" for part in ("alias", "v1", "v2"))
    make_index(url, first, alias, **DOCUMENTS)
    dedup(url, alias, "--action", "delete")
    make_index(url, second, alias, **all_documents(url, first))
    point(url, alias, second)
    return alias


def test_nothing_is_restored_into_an_index_that_the_alias_left(
    url: str, name: str, alias: str
) -> None:
    first, second = f"{name}-v1", f"{name}-v2"
    kept = all_documents(url, second)
    refused = esdedup_command(url, "undo", "log.jsonl", "--yes", "-i", alias, status=2)
    assert (
        f"has documents of index '{first}', which '{alias}' does not stand for now: use --into"
        f" {alias} to restore all into what it stands for, or --into {first}"
    ) in refused.err
    assert all_documents(url, first) == all_documents(url, second) == kept
    with esdedup.open(url, alias) as index:
        with pytest.raises(UsageError, match="does not stand for now: use `into`"):
            index.undo("log.jsonl")
        assert all_documents(url, first) == kept
        assert index.undo("log.jsonl", successor=True).restored == 2
    assert all_documents(url, second).keys() == DOCUMENTS.keys()
    assert all_documents(url, first) == kept


@pytest.mark.parametrize("target", ["v1", "v2", "alias"])
def test_they_are_restored_into_the_index_that_is_named(
    url: str, name: str, alias: str, target: str
) -> None:
    into = f"{name}-{target}"
    command = ("undo", "log.jsonl", "--yes", "--into", into, "--json")
    assert esdedup_command(url, *command, status=0).json[0]["restored"] == 2
    assert all_documents(url, into).keys() == DOCUMENTS.keys()
    other = f"{name}-{'v2' if target == 'v1' else 'v1'}"
    assert sorted(all_documents(url, other)) == ["d0", "d2"]


def test_of_several_indices_only_those_are_named_that_the_alias_left(url: str, name: str) -> None:
    alias, first, second, third = (f"{name}-{part}" for part in ("alias", "v1", "v2", "v3"))
    for index, start in ((first, 0), (second, 2)):
        part = itertools.islice(DOCUMENTS.items(), start, start + 2)
        make_index(url, index, alias, **dict(part))
    make_index(url, third, alias)
    point(url, alias, first, second, third)
    dedup(url, alias, "--action", "delete")
    point(url, alias, second, third)
    refused = esdedup_command(url, "undo", "log.jsonl", "--yes", "-i", alias, status=2)
    assert f"has documents of index '{first}', which" in refused.err
    assert f"or --into {first}" not in refused.err
    # An index that is gone has a successor in the one that the alias writes to.
    call(url, "DELETE", f"/{first}")
    esdedup_command(url, "undo", "log.jsonl", "--yes", "-i", alias, status=0)
    assert sorted(all_documents(url, third)) == ["d1"]
    assert sorted(all_documents(url, second)) == ["d2", "d3"]


def test_so_it_is_if_an_index_has_the_name_of_the_alias_by_now(url: str, name: str) -> None:
    alias, first = f"{name}-alias", f"{name}-v1"
    make_index(url, first, alias, **DOCUMENTS)
    dedup(url, alias, "--action", "move", "--to", f"{name}-moved")
    call(url, "DELETE", f"/{first}/_alias/{alias}")
    call(url, "PUT", f"/{alias}", {"mappings": MAPPINGS})
    attach_index(url, alias, "--text-field", "text")
    refused = esdedup_command(url, "undo", "log.jsonl", "--yes", "-i", alias, status=2)
    assert f"use --into {alias}" in refused.err
    assert sorted(all_documents(url, f"{name}-moved")) == ["d1", "d3"]
    esdedup_command(url, "undo", "log.jsonl", "--yes", "--into", first, status=0)
    assert all_documents(url, first).keys() == DOCUMENTS.keys()
    assert all_documents(url, f"{name}-moved") == {}


def test_marks_are_removed_wherever_the_documents_are_now(url: str, name: str) -> None:
    alias, first, second = (f"{name}-{part}" for part in ("alias", "v1", "v2"))
    make_index(url, first, alias, **DOCUMENTS)
    dedup(url, alias, "--action", "mark")
    make_index(url, second, alias, **all_documents(url, first))
    point(url, alias, second)
    esdedup_command(url, "undo", "log.jsonl", "--yes", "-i", alias, status=0)
    marked = {
        index: sum("group" in source["esdedup"] for source in all_documents(url, index).values())
        for index in (first, second)
    }
    assert marked == {first: 4, second: 0}


# The index that they were moved to


@pytest.mark.parametrize("beside", [False, True])
def test_nothing_is_restored_into_an_alias_of_where_documents_were_moved_to(
    url: str, name: str, beside: bool
) -> None:
    first, moved, other, alias = (f"{name}-{part}" for part in ("v1", "moved", "v2", "alias"))
    make_index(url, first, f"{name}-live", **DOCUMENTS)
    dedup(url, first, "--action", "move", "--to", moved)
    make_index(url, other, alias)
    # The alias writes to another index, in which the documents would be new ones.
    point(url, alias, *([moved, other] if beside else [moved]))
    kept = {index: all_documents(url, index) for index in (first, moved, other)}
    command = ("undo", "log.jsonl", "--yes", "--into", alias)
    refused = esdedup_command(url, *command, status=2)
    assert f"moved to '{moved}', where they can't be restored" in refused.err
    assert f"('{alias}' names {moved} too): use --index {first}, or --into another" in refused.err
    with (
        esdedup.open(url, alias) as index,
        pytest.raises(UsageError, match="where they can't be restored"),
    ):
        index.undo("log.jsonl", successor=True)
    assert {index: all_documents(url, index) for index in kept} == kept
    esdedup_command(url, "undo", "log.jsonl", "--yes", status=0)
    assert all_documents(url, first).keys() == DOCUMENTS.keys()
    assert all_documents(url, moved) == {}


def test_an_alias_of_where_they_were_moved_to_may_have_the_name_of_the_index_by_now(
    url: str, name: str
) -> None:
    first, moved = f"{name}-v1", f"{name}-moved"
    make_index(url, first, f"{name}-live", **DOCUMENTS)
    dedup(url, first, "--action", "move", "--to", moved)
    call(url, "DELETE", f"/{first}")
    call(url, "PUT", f"/{moved}/_alias/{first}")
    kept = all_documents(url, moved)
    refused = esdedup_command(url, "undo", "log.jsonl", "--yes", status=2)
    assert f"('{first}' names {moved} too): use --into another index" in refused.err
    assert all_documents(url, moved) == kept != {}


def test_the_names_of_both_indices_may_have_been_exchanged_by_now(url: str, name: str) -> None:
    first, second, live, gone = (f"{name}-{part}" for part in ("v1", "v2", "live", "gone"))
    make_index(url, first, live, **DOCUMENTS)
    make_index(url, second, gone)
    before = all_documents(url, first)
    dedup(url, live, "--action", "move", "--to", gone)
    # Restored once, they would be taken for copies in the index that they belong to.
    esdedup_command(url, "undo", "log.jsonl", "--yes", "-i", live, status=0)
    point(url, live, second)
    point(url, gone, first)
    refused = esdedup_command(url, "undo", "log.jsonl", "--yes", "--into", live, status=2)
    assert f"moved to '{gone}', and this name stands for {first} now" in refused.err
    assert (all_documents(url, first), all_documents(url, second)) == (before, {})
    point(url, gone, first, second)
    point(url, live, first)
    refused = esdedup_command(url, "undo", "log.jsonl", "--yes", "-i", live, status=2)
    assert f"('{live}' names {first} too)" in refused.err
    assert (all_documents(url, first), all_documents(url, second)) == (before, {})


@pytest.fixture
def stream(opensearch_url: str, name: str) -> Iterator[str]:
    """The name of a data stream that the first document makes."""
    # The jars of Elasticsearch lack requests for data streams.
    url, stream = opensearch_url, f"{name}-stream"
    template = {"index_patterns": [stream], "data_stream": {}, "priority": 411}
    call(url, "PUT", f"/_index_template/{stream}", template)
    yield stream
    for path in (f"_data_stream/{stream}", f"_index_template/{stream}"):
        HTTP.delete(f"{url}/{path}")


def test_a_stream_that_rolled_over_is_no_other_index(opensearch_url: str, stream: str) -> None:
    url, stamp = opensearch_url, {"@timestamp": "2026-11-29"}
    fill(url, stream, {id: {**source, **stamp} for id, source in DOCUMENTS.items()}, "create")
    attach_index(url, stream)
    dedup(url, stream, "--action", "delete")
    call(url, "POST", f"/{stream}/_rollover")
    undone = esdedup_command(url, "undo", "log.jsonl", "--yes", "-i", stream, "--json", status=0)
    assert undone.json[0]["restored"] == 2
    assert all_documents(url, stream).keys() == DOCUMENTS.keys()
