"""An alias with a filter bounds every command that reads documents by its name."""

from typing import Any

import pytest

import esdedup
from esdedup.exceptions import RecordError
from tests.helpers.commands import all_documents, call, esdedup_command, fill, read_lines
from tests.helpers.http import HTTP
from tests.helpers.indices import attach_index

TEXT = "the council met on monday and voted for a new bridge over the river near town"


def make_tenants(url: str, name: str) -> tuple[str, str]:
    """Make an index of two tenants, each with an alias of its own."""
    aliases = {
        f"{name}-{tenant}": {"filter": {"term": {"tenant": tenant}}} for tenant in ("a", "b")
    }
    properties = {"tenant": {"type": "keyword"}, "text": {"type": "text"}}
    call(url, "PUT", f"/{name}", {"mappings": {"properties": properties}, "aliases": aliases})
    documents: dict[str, dict[str, Any]] = {
        "a1": {"tenant": "a", "text": TEXT},
        "a2": {"tenant": "a", "text": TEXT.upper()},
        "b1": {"tenant": "b", "text": TEXT},
        "b2": {"tenant": "b", "text": f"{TEXT} again"},
    }
    fill(url, name, documents)
    return f"{name}-a", f"{name}-b"


@pytest.mark.on_every_server
def test_no_command_reads_or_changes_a_document_outside(url: str, name: str) -> None:
    first, second = make_tenants(url, name)
    before = all_documents(url, name)
    esdedup_command(url, "attach", "-i", first, "--text-field", "text", status=0)
    (checked,) = esdedup_command(url, "check", "-i", first).json
    assert (checked["documents"], checked["without_tokens"]["count"]) == (2, 2)
    filled = esdedup_command(url, "backfill", "-i", first)
    assert (filled.status, filled.json[0]["written"]) == (0, 2)
    after = all_documents(url, name)
    assert {id for id in after if after[id] != before[id]} == {"a1", "a2"}
    checked_again = esdedup_command(url, "check", "-i", first)
    assert (checked_again.status, checked_again.json[0]["with_tokens"]) == (0, 2)
    (other_tenant,) = esdedup_command(url, "check", "-i", second).json
    assert other_tenant["without_tokens"]["count"] == 2

    assert esdedup_command(url, "backfill", "-i", second).json[0]["written"] == 2
    assert esdedup_command(url, "stats", "-i", first).json[0]["documents"] == 2
    outside = esdedup_command(url, "similar", "-i", first, "--id", "b1")
    assert (outside.status, outside.out) == (1, "")
    assert "no document 'b1'" in outside.err
    within = esdedup_command(url, "similar", "-i", first, "--id", "a1")
    assert [match["id"] for match in within.json[0]["matches"]] == ["a2"]
    esdedup_command(url, "explain", "-i", first, "a1", "b1", status=1)
    pairs = esdedup_command(url, "pairs", "-i", first).json
    assert [(pair["left"], pair["right"]) for pair in pairs] == [("a1", "a2")]
    removal = ["--action", "delete", "--apply", "--yes", "--log", "log.jsonl"]
    esdedup_command(url, "dedup", "-i", first, *removal, status=0)
    assert sorted(all_documents(url, name)) == ["a1", "b1", "b2"]
    planned = read_lines("log.jsonl")
    assert [line["planned"]["id"] for line in planned if "planned" in line] == ["a2"]
    esdedup_command(url, "undo", "-i", first, "log.jsonl", "--yes", status=0)
    assert sorted(all_documents(url, name)) == ["a1", "a2", "b1", "b2"]


def test_a_document_with_an_id_of_another_tenant_replaces_none(url: str, name: str) -> None:
    first, second = make_tenants(url, name)
    for alias in (first, second):
        attach_index(url, alias, "--text-field", "text")
    before = all_documents(url, name)["b1"]
    with esdedup.open(url, first) as index, pytest.raises(RecordError, match="its id was taken"):
        index.add([{"id": "b1", "tenant": "a", "text": "another text of several words"}])
    assert all_documents(url, name)["b1"] == before


def test_the_scheme_is_not_changed_through_an_alias_with_a_filter(url: str, name: str) -> None:
    first, _ = make_tenants(url, name)
    esdedup_command(url, "attach", "-i", first, "--text-field", "text")
    refused = esdedup_command(url, "switch", "-i", first, "--text-field", "tenant", status=2)
    assert (
        f"an alias with a filter, and a scheme is that of all documents: name {name}" in refused.err
    )


def test_an_alias_of_data_streams_bounds_each_of_them(elasticsearch_url: str, name: str) -> None:
    """Elasticsearch's jars have data streams, but no request that makes or deletes one."""
    url, alias, streams = elasticsearch_url, f"{name}-alias", (f"{name}-s", f"{name}-s-eu")
    properties = {"tenant": {"type": "keyword"}, "text": {"type": "text"}}
    inside = {"settings": {"number_of_replicas": 0}, "mappings": {"properties": properties}}
    template = {"index_patterns": [f"{name}-*"], "priority": 412, "data_stream": {}}
    call(url, "PUT", f"/_index_template/{name}", {**template, "template": inside})
    stamp = {"@timestamp": "2026-11-29", "text": TEXT}
    for stream in streams:
        fill(url, stream, {id: {"tenant": id[0], **stamp} for id in ("a1", "b1")}, "create")
    (first, second) = ({"index": stream, "alias": alias} for stream in streams)
    scope = {"is_write_index": True, "filter": {"term": {"tenant": "a"}}}
    actions = [{"add": {**first, **scope}}, {"add": second}]
    call(url, "POST", "/_aliases", {"actions": actions})
    esdedup_command(url, "attach", "-i", alias, "--text-field", "text", status=0)
    (report,) = esdedup_command(url, "backfill", "-i", alias, status=0).json
    assert report["written"] == 3
    assert "esdedup" not in all_documents(url, streams[0])["b1"]
    with esdedup.open(url, alias) as index:
        write_index = str(index.store.write_index())
        assert write_index.startswith(f".ds-{streams[0]}-2")
        assert [one.document.id for one in index.store.hold([f"{write_index}/b1"])] == []
        (held,) = index.store.hold(["b1"])
        assert str(held.index).startswith(f".ds-{streams[1]}-2")


def test_an_index_of_any_name_in_a_data_stream_is_bounded(
    elasticsearch_url: str, name: str
) -> None:
    """As after an upgrade that indexes a data stream again (`.migrated-ds-NAME-000001`)."""
    url, alias, stream, moved = elasticsearch_url, f"{name}-alias", f"{name}-s", f"{name}-moved"
    if not HTTP.get(f"{url}/_data_stream").is_success:
        return  # Elasticsearch's jars have data streams, but no request that changes one.
    times = {"@timestamp": {"type": "date"}}
    properties = {"tenant": {"type": "keyword"}, "text": {"type": "text"}, **times}
    inside = {"settings": {"number_of_replicas": 0}, "mappings": {"properties": properties}}
    template = {"index_patterns": [stream], "priority": 413, "data_stream": {}}
    call(url, "PUT", f"/_index_template/{name}", {**template, "template": inside})
    call(url, "PUT", f"/{moved}", inside)
    stamp = {"@timestamp": "2026-11-29", "text": TEXT}
    for index in (stream, moved):
        fill(url, index, {id: {"tenant": id[0], **stamp} for id in ("a1", "b1")}, "create")
    added = {"add_backing_index": {"data_stream": stream, "index": moved}}
    call(url, "POST", "/_data_stream/_modify", {"actions": [added]})
    aliased = {"index": stream, "alias": alias, "filter": {"term": {"tenant": "a"}}}
    call(url, "POST", "/_aliases", {"actions": [{"add": aliased}]})
    try:
        esdedup_command(url, "attach", "-i", alias, "--text-field", "text", status=0)
        (report,) = esdedup_command(url, "backfill", "-i", alias, status=0).json
        assert report["written"] == 2
        assert "esdedup" not in all_documents(url, moved)["b1"]
        checked = esdedup_command(url, "check", "-i", alias)
        assert [line["documents"] for line in checked.json] == [1, 1]
    finally:
        call(url, "DELETE", f"/_data_stream/{stream}")
        call(url, "DELETE", f"/_index_template/{name}")


def test_a_closed_index_behind_an_alias_with_a_filter_is_named(url: str, name: str) -> None:
    first, _ = make_tenants(url, name)
    attach_index(url, first, "--text-field", "text")
    call(url, "POST", f"/{name}/_close")
    (checked,) = esdedup_command(url, "check", "-i", first, status=1).json
    assert [obstacle["name"] for obstacle in checked["obstacles"]] == ["closed index"]
