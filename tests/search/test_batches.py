"""Records that have the ids of documents: the documents themselves, or those of another set."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from tests.helpers.commands import Ran, call, esdedup_command, fill, words, write_lines
from tests.helpers.indices import attach_index, fill_index, open_index
from tests.helpers.places import Place

STORED = {"1": words(1), "2": words(2), "3": words(1), "4": f"{words(2)} more"}
IDS = [str(number) for number in range(5)]
LEFT_OUT = "The document of the same id and text is left out: --other-set lists it"
texts_by_id = st.dictionaries(st.sampled_from(IDS), st.integers(0, 2), min_size=1)


def batch(place: Place, *options: str, **texts: str) -> Ran:
    """Search for the texts of records."""
    write_lines(Path("batch.jsonl"), [{"id": id[1:], "text": text} for id, text in texts.items()])
    return place.run("similar", "--batch", "batch.jsonl", "--json", *options, status=0)


def found(ran: Ran) -> dict[str, list[str]]:
    """Return the ids of the matches of each record."""
    return {answer["query"]: [match["id"] for match in answer["matches"]] for answer in ran.json}


@pytest.mark.on_every_server
def test_a_document_of_an_index_is_no_match_of_itself(place: Place) -> None:
    fill_index(place, STORED)
    ran = batch(place, n1=words(1), n2=words(2).upper(), n9=words(1))
    assert found(ran) == {"1": ["3"], "2": ["4"], "9": ["1", "3"]}
    assert [answer["matches_total"] for answer in ran.json] == [1, 1, 2]
    assert f"2 of 3 texts: {LEFT_OUT}\n" in ran.err


@pytest.mark.on_every_server
def test_a_document_of_the_same_id_and_another_text_is_a_match(place: Place) -> None:
    fill_index(place, STORED)
    ran = batch(place, n4=words(2), n3=f"{words(1)} more", n7=words(5))
    assert found(ran) == {"4": ["2", "4"], "3": ["1", "3"], "7": []}
    assert LEFT_OUT not in ran.err


@pytest.mark.on_every_server
def test_of_another_set_all_matches_are_listed(place: Place) -> None:
    fill_index(place, STORED)
    ran = batch(place, "--other-set", n1=words(1), n2=words(2))
    assert found(ran) == {"1": ["1", "3"], "2": ["2", "4"]}
    assert LEFT_OUT not in ran.err
    shown = place.run("similar", "--batch", "batch.jsonl", "--table", "--nearest", status=0)
    assert f"2 of 2 texts: {LEFT_OUT}\n" in shown.err


def test_fingerprints_and_several_fields_are_compared_as_texts_are(place: Place) -> None:
    records: list[dict[str, Any]] = [
        {"id": "1", "title": "Mountain bike", "text": words(1), "phash": "00ff00ff00ff00ff"},
        {"id": "2", "title": "Mountain bike", "text": words(1), "phash": "00ff00ff00ff00fe"},
    ]
    write_lines(Path("a.jsonl"), records)
    fields = ["--text-field", "title", "--text-field", "text", "--bits", "phash:64"]
    place.run("index", "a.jsonl", *fields, status=0)
    write_lines(Path("b.jsonl"), [records[0], {**records[1], "title": "Road bike"}])
    assert found(place.run("similar", "--batch", "b.jsonl")) == {"1": ["2"], "2": ["1", "2"]}
    by_bits = place.run("similar", "--batch", "b.jsonl", "--sketch", "phash")
    assert found(by_bits) == {"1": ["2"], "2": ["1"]}


def test_the_newest_generation_of_an_id_is_the_document(url: str, name: str) -> None:
    for generation in ("000001", "000002"):
        call(url, "PUT", f"/{name}-{generation}", {"aliases": {name: {}}})
    fill(url, f"{name}-000001", {"1": {"text": words(1)}, "2": {"text": words(2)}})
    fill(url, f"{name}-000002", {"1": {"text": words(3)}, "3": {"text": words(2)}})
    attach_index(url, name, "--text-field", "text")
    write_lines(Path("q.jsonl"), [{"id": "1", "text": words(n)} for n in (1, 3)])
    ran = esdedup_command(url, "similar", "-i", name, "--batch", "q.jsonl", status=0)
    older, newer = ran.json
    assert [match["index"] for match in older["matches"]] == [f"{name}-000001"]
    assert newer["matches"] == []
    write_lines(Path("q.jsonl"), [{"id": "2", "text": words(2)}])
    assert found(esdedup_command(url, "similar", "-i", name, "--batch", "q.jsonl")) == {"2": ["3"]}


@given(texts_by_id, texts_by_id)
def test_only_the_document_itself_is_left_out(
    stored: dict[str, int], queried: dict[str, int]
) -> None:
    write_lines(Path("q.jsonl"), [{"id": id, "text": words(n)} for id, n in queried.items()])
    limits = esdedup.Limits(k=100)
    with open_index(":memory:", {id: words(n) for id, n in stored.items()}) as index:
        for other_set in (False, True):
            (records,) = index.queries_in_files(["q.jsonl"], limits, other_set=other_set)
            queries = [record.query for record in records if record.query is not None]
            for record, result in zip(records, index.similar_many(queries, limits), strict=True):
                text = queried[record.name]
                equal = {id for id, n in stored.items() if n == text}
                itself = set() if other_set else equal & {record.name}
                assert {match.id for match in result.matches} == equal - itself
                assert record.leaves_out_itself == bool(itself)
