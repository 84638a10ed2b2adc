"""Documents of one id in several indices behind one name, such as after a rollover."""

from typing import Any

import pytest

import esdedup
from esdedup.exceptions import UsageError
from tests.helpers.commands import all_documents, call, esdedup_command, fill, read_lines
from tests.helpers.indices import attach_index

TEXT = "the council met on monday and voted for a new bridge over the river near town"
OTHER = "a small bakery opens early in the morning and sells fresh bread to all its neighbours"


@pytest.fixture
def generations(url: str, name: str) -> tuple[str, str]:
    """Yield two indices behind an alias: document 1 was sent again after a rollover."""
    first, second = f"{name}-000001", f"{name}-000002"
    mappings = {"properties": {"text": {"type": "text"}, "date": {"type": "date"}}}
    call(url, "PUT", f"/{first}", {"mappings": mappings, "aliases": {name: {}}})
    aliases = {name: {"is_write_index": True}}
    call(url, "PUT", f"/{second}", {"mappings": mappings, "aliases": aliases})
    older: dict[str, dict[str, Any]] = {
        "1": {"text": TEXT, "date": "2026-01-01", "price": 100.10},
        "2": {"text": OTHER, "date": "2026-01-01"},
    }
    newer = {
        "1": {"text": TEXT.upper(), "date": "2026-02-01"},
        "3": {"text": f"{OTHER} and friends", "date": "2026-02-01"},
    }
    fill(url, first, older)
    fill(url, second, newer)
    assert attach_index(url, name, "--text-field", "text") == 4
    return first, second


@pytest.mark.on_every_server
def test_both_are_found_by_every_command(url: str, name: str, generations: tuple[str, str]) -> None:
    first, second = generations
    pairs = esdedup_command(url, "pairs", "-i", name, "--json")
    assert pairs.json[0] == {
        "left": f"{first}/1",
        "right": f"{second}/1",
        "similarity": 1.0,
        "equal": True,
        "left_index": first,
        "right_index": second,
    }
    assert (pairs.json[1]["left"], pairs.json[1]["right"]) == ("2", "3")
    assert "left_index" not in pairs.json[1]
    assert "2 documents have ids that several indices have: shown as INDEX/ID" in pairs.err
    as_table = esdedup_command(url, "pairs", "-i", name, "-o", "-")
    indices = [(pair.get("left_index"), pair.get("right_index")) for pair in as_table.json]
    assert indices == [(first, second), (None, None)]
    with_sources = esdedup_command(url, "pairs", "-i", name, "--source", "date", "-o", "-")
    assert with_sources.json[0]["right_index"] == second
    assert "2026-02-01" in with_sources.json[0]["right_source"]
    shown = esdedup_command(url, "pairs", "-i", name, "--table")
    # A long id is on several lines.
    assert "000002/1" in shown.out
    (report,) = esdedup_command(url, "report", "-i", name, "--json").json
    assert report["documents"] == 4
    ambiguous = esdedup_command(url, "similar", "-i", name, "--id", "1")
    assert (ambiguous.status, ambiguous.out) == (2, "")
    assert f"such as {first}/1 or {second}/1" in ambiguous.err
    (answer,) = esdedup_command(url, "similar", "-i", name, "--id", f"{first}/1", "--json").json
    assert [(match["id"], match["index"]) for match in answer["matches"]] == [("1", second)]
    (answer,) = esdedup_command(url, "similar", "-i", name, "--text", TEXT, "--json").json
    ids = [match["id"] for match in answer["matches"]]
    assert ids == [f"{first}/1", f"{second}/1"]
    explained = esdedup_command(url, "explain", "-i", name, f"{first}/1", f"{second}/1", "--json")
    assert explained.json[0]["similarity"] == 1.0
    with esdedup.open(url, name) as index:
        (group, _) = index.groups(threshold=0.7)
        assert (group.representative, group.index) == (f"{first}/1", first)
        assert [(member.id, member.index) for member in group.members] == [(f"{second}/1", second)]
        assert index.get(f"{first}/1").source["price"] == 100.10
        with pytest.raises(UsageError, match="several indices have an id"):
            index.get("1")
        with pytest.raises(UsageError, match="several indices have an id"):
            index.update([{"id": "1", "price": 1}])
        assert index.update([{"id": f"{first}/1", "price": 1}]) == 1
        sources = [index.get(f"{place}/1").source for place in (first, second)]
        assert [source.get("price") for source in sources] == [1, None]


@pytest.mark.on_every_server
def test_the_newest_stays_and_the_other_is_restored_into_its_index(
    url: str, name: str, generations: tuple[str, str]
) -> None:
    first, second = generations
    before = all_documents(url, first), all_documents(url, second)
    (planned, _) = esdedup_command(url, "dedup", "-i", name, "--keep", "newest:date", "--json").json
    assert (planned["keep"], planned["keep_index"]) == (f"{second}/1", second)
    assert [(copy["id"], copy["index"]) for copy in planned["duplicates"]] == [
        (f"{first}/1", first)
    ]
    removal = [
        "--keep",
        "newest:date",
        "--action",
        "delete",
        "--apply",
        "--yes",
        "--log",
        "l.jsonl",
    ]
    esdedup_command(url, "dedup", "-i", name, *removal, status=0)
    assert (sorted(all_documents(url, first)), sorted(all_documents(url, second))) == (
        [],
        ["1", "3"],
    )
    lines = read_lines("l.jsonl")
    (entry, *_) = [line["planned"] for line in lines if "planned" in line]
    assert (entry["id"], entry["index"], entry["full_id"]) == ("1", first, f"{first}/1")
    undone = esdedup_command(url, "undo", "-i", name, "l.jsonl", "--yes", "--json")
    assert (undone.status, undone.json[0]["restored"]) == (0, 2)
    assert (all_documents(url, first), all_documents(url, second)) == before


@pytest.mark.on_every_server
def test_marks_name_the_index_and_are_removed(
    url: str, name: str, generations: tuple[str, str]
) -> None:
    first, second = generations
    before = all_documents(url, first), all_documents(url, second)
    grouped = esdedup_command(url, "group", "-i", name, "--json")
    assert (grouped.status, "missed" in grouped.err) == (0, False)
    marked = all_documents(url, second)["1"]["esdedup"]
    assert (marked["group"], marked["original"]) == (f"{first}/1", f"{first}/1")
    again = esdedup_command(url, "group", "-i", name, "--json").json[0]
    assert again["written"] == 0
    checked = esdedup_command(url, "check", "-i", name, "--json")
    assert "1 document has the id of a document in another index, first '1'" in checked.err
    (of_first, of_second) = checked.json
    assert of_first["original_gone"]["count"] == of_second["original_gone"]["count"] == 0
    esdedup_command(url, "check", "-i", second, "--json", status=0)
    marks = ["--action", "mark", "--apply", "--yes", "--log", "m.jsonl", "--keep", "newest:date"]
    esdedup_command(url, "dedup", "-i", name, *marks, status=0)
    assert all_documents(url, first)["1"]["esdedup"]["original"] == f"{second}/1"
    esdedup_command(url, "undo", "-i", name, "m.jsonl", "--yes", status=0)
    assert all_documents(url, first)["1"]["esdedup"]["group"] == f"{first}/1"
    assert before[0]["1"]["text"] == all_documents(url, first)["1"]["text"]


@pytest.mark.on_every_server
def test_documents_are_moved_with_their_indices_in_their_ids(
    url: str, name: str, generations: tuple[str, str]
) -> None:
    first, second = generations
    before = all_documents(url, first), all_documents(url, second)
    moved = ["--action", "move", "--to", f"{name}-moved", "--apply", "--yes", "--log", "v.jsonl"]
    esdedup_command(url, "dedup", "-i", name, *moved, status=0)
    assert sorted(all_documents(url, f"{name}-moved")) == ["3", f"{second}/1"]
    assert sorted(all_documents(url, second)) == []
    esdedup_command(url, "undo", "-i", name, "v.jsonl", "--yes", status=0)
    assert (all_documents(url, first), all_documents(url, second)) == before
    assert all_documents(url, f"{name}-moved") == {}


@pytest.mark.on_every_server
def test_a_document_is_restored_though_another_index_has_its_id_by_then(
    url: str, name: str, generations: tuple[str, str]
) -> None:
    first, second = generations
    removal = ["--threshold", "0.7", "--keep", "newest:date", "--action", "delete"]
    removal += ["--apply", "--yes", "--log", "l.jsonl"]
    esdedup_command(url, "dedup", "-i", name, *removal, status=0)
    assert all_documents(url, first) == {}
    fill(url, second, {"2": {"text": OTHER, "date": "2026-03-01"}})
    undone = esdedup_command(url, "undo", "-i", name, "l.jsonl", "--yes", "--json")
    assert (undone.status, undone.json[0]["restored"]) == (0, 2)
    assert sorted(all_documents(url, first)) == ["1", "2"]
    assert all_documents(url, second)["2"]["date"] == "2026-03-01"


@pytest.mark.on_every_server
def test_a_document_that_got_the_id_of_another_is_not_removed_in_its_place(
    url: str, name: str, generations: tuple[str, str]
) -> None:
    first, second = generations
    with esdedup.open(url, name) as index:
        planned = index.dedup(threshold=0.7, keep="newest:date", action="delete", log="l.jsonl")
        fill(url, second, {"2": {"text": OTHER, "date": "2026-03-01"}})
        report = planned.apply().report
    assert report is not None
    assert [failure.id for failure in report.failures] == ["2"]
    assert "several indices have its id since it was compared" in report.failures[0].reason
    assert sorted(all_documents(url, second)) == ["1", "2", "3"]
    assert sorted(all_documents(url, first)) == ["2"]


@pytest.mark.on_every_server
def test_originals_with_their_indices_are_found_behind_a_filter(
    url: str, name: str, generations: tuple[str, str]
) -> None:
    scope = {"filter": {"exists": {"field": "text"}}}
    actions = [{"add": {"index": index, "alias": f"{name}-f", **scope}} for index in generations]
    call(url, "POST", "/_aliases", {"actions": actions})
    esdedup_command(url, "group", "-i", f"{name}-f", status=0)
    checked = esdedup_command(url, "check", "-i", f"{name}-f", "--json")
    assert [found["original_gone"]["count"] for found in checked.json] == [0, 0]
