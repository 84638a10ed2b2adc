"""Sketches of several fields in one index: each finds what is alike in its own field."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import esdedup
from esdedup import MinHash, Scheme, SimHash
from tests.helpers.commands import call, esdedup_command, words
from tests.helpers.indices import attach_index
from tests.helpers.places import Place, clusters

SCHEME = Scheme([MinHash(), SimHash(), MinHash(name="title", fields=["title"])])
ONE, OTHER = words(1, 30), words(2, 30)
TITLE, CHINESE = "The council agrees on the budget of the city", "市议会同意了明年的预算和新的学校"
DOCUMENTS = [
    {"id": "a", "title": TITLE, "body": ONE},
    {"id": "b", "title": TITLE, "body": OTHER},
    {"id": "c", "title": CHINESE, "body": ONE},
    {"id": "d", "title": CHINESE + "。", "body": words(3, 30)},
    {"id": "e", "body": words(4, 30)},
]


@pytest.fixture
def index(place: Place) -> Iterator[esdedup.Index]:
    with esdedup.open(place.target, place.index, scheme=SCHEME, text_field="body") as opened:
        yield opened


def ids_of(pairs: esdedup.results.SimilarPairs) -> set[tuple[str, str]]:
    return {(pair.left, pair.right) for pair in pairs}


def test_each_sketch_finds_what_is_alike_in_its_field(index: esdedup.Index) -> None:
    index.add(DOCUMENTS)
    assert index.scheme.names == ["minhash", "simhash", "title"]
    for sketch, alike in (("minhash", "c"), ("simhash", "c"), ("title", "b")):
        (match,) = index.similar(id="a", sketch=sketch)
        assert match.id == alike
        assert match.source.keys() == {"id", "title", "body"}
    assert ids_of(index.pairs()) == {("a", "c")}
    assert ids_of(index.pairs(sketch="title")) == {("a", "b"), ("c", "d")}
    largest = index.hot_buckets(3, sketches=["title"]).buckets
    assert [bucket.sketch for bucket in largest] == ["title"] * 3
    index.update([{"id": "e", "title": TITLE}, {"id": "b", "title": None}])
    assert ids_of(index.pairs(sketch="title")) == {("a", "e"), ("c", "d")}
    index.add([{"id": "a", "title": CHINESE, "body": OTHER}])
    assert ids_of(index.pairs(sketch="title")) == {("a", "c"), ("a", "d")}
    assert ids_of(index.pairs()) == {("a", "b")}
    with pytest.raises(esdedup.UsageError, match="no sketch 'titel'"):
        index.similar(TITLE, sketch="titel")


def test_groups_and_duplicates_by_another_field(index: esdedup.Index, tmp_path: Path) -> None:
    index.add(DOCUMENTS)
    groups = index.group(sketch="title").groups
    assert {group.representative: [each.id for each in group.members] for group in groups} == {
        "a": ["b"],
        "c": ["d"],
    }
    assert index.group(sketch="title").marks.written == 0
    done = index.dedup("delete", sketch="title", apply=True, log=tmp_path / "log.jsonl.zst")
    assert done.report is not None
    assert done.report.done == 2
    assert ids_of(index.pairs(sketch="title")) == set()
    index.undo(tmp_path / "log.jsonl.zst")
    assert ids_of(index.pairs(sketch="title")) == {("a", "b"), ("c", "d")}


def test_the_first_sketch_is_of_the_text(tmp_path: Path) -> None:
    scheme = Scheme([MinHash(fields=["title"])])
    with pytest.raises(esdedup.UsageError, match="the first sketch is of the index's text"):
        esdedup.open(tmp_path / "x.db", scheme=scheme, text_field="body").create()


@clusters
def test_a_sketch_of_the_title_is_added_to_an_index_in_use(place: Place, tmp_path: Path) -> None:
    """By attach and backfill with the text alone, and then by switch."""
    url, name = str(place.target), place.index
    call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
    lines = [line for each in DOCUMENTS for line in ({"index": {"_id": each["id"]}}, each)]
    call(url, "POST", f"/{name}/_bulk?refresh=true", lines)
    scheme = tmp_path / "scheme.json"
    scheme.write_text(json.dumps(SCHEME.to_json()))
    at = ("--index", name)
    assert attach_index(url, name, "--text-field", "body") == 5
    esdedup_command(url, "switch", *at, "--scheme", str(scheme), status=0)
    pairs = esdedup_command(url, "pairs", *at, "--sketch", "title")
    assert {(each["left"], each["right"]) for each in pairs.json} == {("a", "b"), ("c", "d")}
    esdedup_command(url, "check", *at, status=0)
    # A document of another client gets the tokens of both.
    call(url, "PUT", f"/{name}/_doc/f?refresh=true", {"title": TITLE, "body": words(5, 30)})
    assert esdedup_command(url, "backfill", *at).json[0]["written"] == 1
    call(url, "POST", f"/{name}/_update/e?refresh=true", {"doc": {"title": TITLE}})
    assert esdedup_command(url, "check", *at).json[0]["stale"]["count"] == 1
    assert esdedup_command(url, "backfill", *at, "--stale").json[0]["written"] == 1
    esdedup_command(url, "check", *at, status=0)
    found = esdedup_command(url, "similar", *at, "--id", "f", "--sketch", "title").json[0]
    assert {match["id"] for match in found["matches"]} == {"a", "b", "e"}
    again = esdedup_command(
        url, "switch", *at, "--scheme", str(scheme), "--text-field", "title", status=2
    )
    assert "can't be switched" in again.err
