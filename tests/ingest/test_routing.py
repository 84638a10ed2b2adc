"""New documents of an index that requires a routing, which is in a field of theirs."""

from pathlib import Path

import pytest

import esdedup
from esdedup.exceptions import UsageError
from tests.helpers.commands import call, esdedup_command, read_lines, write_lines

TEXT = "the council met on monday and voted for a new bridge over the river near town"


def make_routed(url: str, name: str) -> None:
    mappings = {"_routing": {"required": True}, "properties": {"text": {"type": "text"}}}
    settings = {"number_of_shards": 3, "number_of_replicas": 0}
    call(url, "PUT", f"/{name}", {"mappings": mappings, "settings": settings})
    esdedup_command(url, "attach", "-i", name, "--text-field", "text", status=0)


def routings(url: str, name: str) -> dict[str, str]:
    call(url, "POST", f"/{name}/_refresh")
    hits = call(url, "GET", f"/{name}/_search?size=100")["hits"]["hits"]
    return {hit["_id"]: hit["_routing"] for hit in hits}


@pytest.mark.on_every_server
def test_documents_are_written_with_the_value_of_a_field(url: str, name: str) -> None:
    make_routed(url, name)
    records = [{"id": n, "text": f"{TEXT} {n}", "user": f"u{n % 4}"} for n in range(12)]
    write_lines(Path("a.jsonl"), [*records, {"id": 12, "text": TEXT}])
    options = ["a.jsonl", "-i", name, "--routing-field", "user", "--json"]
    first = esdedup_command(url, "index", *options)
    (report,) = first.json
    assert (first.status, report["created"], report["failed"]) == (1, 12, 1)
    (letter,) = read_lines(f"{name}.dead-letter.jsonl")
    assert "the routing field 'user'" in letter["reason"]
    assert routings(url, name) == {f"{n}": f"u{n % 4}" for n in range(12)}
    (again,) = esdedup_command(url, "index", *options, "--workers", "2").json
    assert (again["created"], again["unchanged"]) == (0, 12)
    records[5]["text"] = "another text of this document altogether"
    write_lines(Path("a.jsonl"), records)
    (changed,) = esdedup_command(url, "index", *options).json
    assert (changed["updated"], changed["failed"]) == (1, 0)
    write_lines(Path("a.jsonl"), [*records, {"id": 13, "text": f"{TEXT} 1", "user": "u3"}])
    (marked,) = esdedup_command(url, "index", *options, "--on-duplicate", "mark").json
    assert (marked["duplicates"], marked["failed"]) == (1, 0)
    assert (routings(url, name)["5"], routings(url, name)["13"]) == ("u1", "u3")
    with esdedup.open(url, name) as index:
        added = [{"id": 77, "text": "one more text to add from a program", "user": 7}]
        assert index.add(added, routing_field="user").created == 1
        assert len(index.similar(id="1", threshold=0.5)) == 10
    assert routings(url, name)["77"] == "7"


@pytest.mark.on_every_server
def test_a_missing_field_is_reported_before_any_record(url: str, name: str) -> None:
    make_routed(url, name)
    write_lines(Path("a.jsonl"), [{"id": n, "text": f"{TEXT} {n}"} for n in range(12)])
    refused = esdedup_command(url, "index", "a.jsonl", "-i", name)
    assert (refused.status, refused.out) == (2, "")
    assert "requires a routing of each document" in refused.err
    assert refused.err.endswith("name the field that has it (--routing-field)\n")
    assert not Path(f"{name}.dead-letter.jsonl").exists()
    with (
        esdedup.open(url, name) as index,
        pytest.raises(UsageError, match="requires a routing of each document"),
    ):
        index.add([{"id": "1", "text": TEXT}])


def test_a_local_index_has_no_routing() -> None:
    with esdedup.open("some.db") as index, pytest.raises(UsageError, match="in a cluster"):
        index.add([{"id": "1", "text": TEXT}], routing_field="id")
