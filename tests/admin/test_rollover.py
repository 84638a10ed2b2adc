"""A rollover without the component template: the new index lacks our fields, and reads go on."""

import json
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import admin
from esdedup.exceptions import StoreError, UsageError
from tests.helpers.commands import (
    Ran,
    all_documents,
    call,
    esdedup_command,
    fill,
    run_command,
    words,
)
from tests.helpers.indices import attach_index


@pytest.fixture
def rolled(url: str, name: str) -> str:
    """Return the newest of two indices behind an alias, which has no fields of ours."""
    first, second = f"{name}-000001", f"{name}-000002"
    mappings = {"properties": {"text": {"type": "text"}}}
    aliases = {name: {"is_write_index": True}}
    call(url, "PUT", f"/{first}", {"mappings": mappings, "aliases": aliases})
    documents = {f"d{number}": {"text": words(number // 2)} for number in range(6)}
    fill(url, first, {**documents, "left": {"text": words(9)}})
    attach_index(url, name, "--text-field", "text")
    call(url, "POST", f"/{name}/_rollover")
    fill(url, name, {"new": {"text": words(9)}})
    assert all_documents(url, second).keys() == {"new"}
    return second


@pytest.mark.on_every_server
def test_reads_go_on_over_the_others(url: str, name: str, rolled: str) -> None:
    warning = (
        f"index '{rolled}' has no esdedup fields, and its documents are left out: run `esdedup"
        f" attach -i {name}` and `esdedup backfill -i {name}`"
    )

    def read(*command: str) -> Ran:
        ran = esdedup_command(url, *command, "-i", name, status=0)
        assert ran.err.count(warning) == 1, ran.err
        return ran

    assert len(read("pairs", "--json").json) == 3
    assert read("similar", "--id", "d0", "--json").json[0]["unattached"] == [rolled]
    assert read("similar", "--text", words(9), "--json").json[0]["matches"][0]["id"] == "left"
    read("query", "--text", words(9))
    (stats,) = read("stats", "--json").json
    assert (stats["documents"], stats["sketched"]) == (8, 7)
    assert stats["unattached"] == [rolled]
    (grouped,) = read("group", "--json").json
    assert (grouped["duplicates"], grouped["unattached"]) == (3, [rolled])
    read("report", "--json")
    read("dedup", "--action", "delete", "--apply", "--yes", "--log", "log.jsonl")
    assert len(all_documents(url, name)) == 5
    undone = esdedup_command(url, "undo", "log.jsonl", "-i", name, "--yes", "--json")
    assert undone.json[0]["restored"] == 3
    checked = esdedup_command(url, "check", "-i", name, status=1)
    assert f"esdedup attach --index {name}" in checked.err
    with esdedup.open(url, name) as index:
        expected = esdedup.results.Unattached(name, (rolled,))
        assert index.similar(words(9)).unattached == expected
        assert index.pairs().unattached == expected
        assert index.groups().unattached == expected
        assert index.statistics().unattached == expected


@pytest.mark.on_every_server
def test_what_is_written_there_is_rejected_until_it_is_attached(
    url: str, name: str, rolled: str
) -> None:
    before = all_documents(url, name)
    Path("more.jsonl").write_text(json.dumps({"id": "x", "text": words(20)}) + "\n")
    indexed = esdedup_command(url, "index", "more.jsonl", "-i", name, status=1)
    assert f"{rolled} has no esdedup field" in indexed.err
    with esdedup.open(url, name) as index:
        for change in (index.add, index.update):
            with pytest.raises(StoreError, match=f"run `esdedup attach -i {name}`"):
                change([{"id": "new", "text": words(21)}])
    with pytest.raises(StoreError, match=f"run `esdedup attach -i {name}`"):
        admin.backfill(url, name)
    assert all_documents(url, name) == before
    assert attach_index(url, name) == 1
    with esdedup.open(url, name) as index:
        result = index.similar(words(9))
        assert not result.unattached
        assert [match.id for match in result.matches] == ["left", "new"]
        assert index.add([{"id": "x", "text": words(20)}]).created == 1


def test_so_it_is_where_the_index_computes_the_tokens(url: str, name: str) -> None:
    first, second = f"{name}-000001", f"{name}-000002"
    mappings = {"properties": {"text": {"type": "text"}}}
    call(url, "PUT", f"/{first}", {"mappings": mappings})
    call(url, "PUT", f"/{first}/_alias/{name}")
    attach = ("attach", "--server", "--yes", "--text-field", "text", "-i", name)
    esdedup_command(url, *attach, status=0)
    fill(url, first, {"a": {"text": words(1)}, "b": {"text": words(1)}})
    call(url, "PUT", f"/{second}", {"mappings": mappings, "aliases": {name: {}}})
    fill(url, second, {"c": {"text": words(1)}})
    (answer,) = esdedup_command(url, "similar", "--text", words(1), "-i", name, "--json").json
    assert [match["id"] for match in answer["matches"]] == ["a", "b"]
    assert answer["unattached"] == [second]


def test_a_data_stream(opensearch_url: str, name: str) -> None:
    url, stream = opensearch_url, f"{name}-stream"
    template = {"index_patterns": [stream], "data_stream": {}, "priority": 410}
    call(url, "PUT", f"/_index_template/{stream}", template)
    call(url, "PUT", f"/_data_stream/{stream}")
    stamp = {"@timestamp": "2026-11-21"}
    fill(url, stream, {id: {"text": words(1), **stamp} for id in "ab"}, "create")
    attach_index(url, stream)
    call(url, "POST", f"/{stream}/_rollover")
    fill(url, stream, {"c": {"text": words(1), **stamp}}, "create")
    pairs = esdedup_command(url, "pairs", "-i", stream, "--json")
    assert [(pair["left"], pair["right"]) for pair in pairs.json] == [("a", "b")]
    assert f"index '.ds-{stream}-000002' has no esdedup fields" in pairs.err
    call(url, "DELETE", f"/_data_stream/{stream}")
    call(url, "DELETE", f"/_index_template/{stream}")
    call(url, "DELETE", f"/_component_template/esdedup-{stream}")


def test_roles_are_merged() -> None:
    merged = admin.role(["similar", "dedup-move"], "elasticsearch", "news", "copies")
    alone = [admin.role("similar", "elasticsearch", "news")]
    alone.append(admin.role("dedup-move", "elasticsearch", "news", "copies"))
    rights = [_rights(role) for role in (merged, *alone)]
    assert rights[0] == rights[1] | rights[2]
    command = ("check", "--role", "similar", "--role", "dedup-move", "--to", "copies")
    options = ("--product", "elasticsearch", "--index", "news", "--json")
    assert run_command(*command, *options).json == [merged]
    with pytest.raises(
        UsageError, match="roles similar, dedup-move are for two indices: give `to`"
    ):
        admin.role(["similar", "dedup-move"], "elasticsearch", "news")
    with pytest.raises(UsageError, match="repeat `role` for several of index, "):
        admin.role("similar,pairs", "elasticsearch", "news")


def _rights(role: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the pairs of an index and a right of a role of Elasticsearch."""
    return {
        (index, right)
        for part in role["indices"]
        for index in part["names"]
        for right in part["privileges"]
    }
