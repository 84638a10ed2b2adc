"""A search finds the documents of one scope only: those that brute force finds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import Query, UsageError
from esdedup.sketch.within import Within
from tests.helpers.commands import run_command, write_lines
from tests.helpers.indices import open_index
from tests.helpers.places import Place
from tests.helpers.scoped_documents import (
    SCOPES,
    THRESHOLD,
    corpus,
    in_scope,
    one_type_a_field,
    similarities,
)


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    return one_type_a_field(corpus(200))


def matches_of(documents: list[dict[str, Any]], within: Sequence[str]) -> dict[int, set[int]]:
    """Return the similar documents of each document that are in its scope."""
    matches: dict[int, set[int]] = {row: set() for row in range(len(documents))}
    for left, right in similarities(documents):
        if in_scope(documents[left], documents[right], within):
            matches[left].add(right)
            matches[right].add(left)
    return matches


@pytest.mark.on_every_server
def test_matches_are_those_of_the_scope(place: Place, documents: list[dict[str, Any]]) -> None:
    with open_index(place, documents) as index:
        for within in SCOPES:
            expected = matches_of(documents, within)
            for row in range(0, len(documents), 9):
                settings: Any = {"threshold": THRESHOLD, "k": 1_000, "within": within}
                result = index.similar(id=str(row), **settings)
                assert {int(match.id) for match in result.matches} == expected[row]
                assert result.total == len(expected[row])
                by_fields = index.similar(documents[row], **settings)
                itself = {row} if in_scope(documents[row], documents[row], within) else set()
                ids = {int(match.id) for match in by_fields.matches}
                assert ids == expected[row] | itself
                dates = {match.source["date"] for match in by_fields.matches}
                assert dates == {documents[id]["date"] for id in ids}


@pytest.mark.on_every_server
def test_copies_of_other_scopes_do_not_crowd_out_a_match(place: Place) -> None:
    text = "the council agreed that the old bridge will be repaired before the winter"
    documents = [
        {"id": str(row), "text": text, "tenant": row // 2, "date": f"20{row // 20:02}-01-01"}
        for row in range(400)
    ]
    with open_index(place, documents) as index:
        for within in ("tenant", ["tenant", "date:1d"]):
            result = index.similar(id="399", within=within, candidates=30)
            assert [match.id for match in result.matches] == ["398"]
            assert not result.truncated
        nearest = index.similar(id="399", within="tenant", threshold=None, candidates=30)
        assert [match.id for match in nearest.matches] == ["398"]


@pytest.mark.on_every_server
def test_a_batch_is_searched_in_the_scope_of_each_record(place: Place, folder: Path) -> None:
    text = "the council agreed that the old bridge will be repaired before the winter"
    records = [
        {"id": "1", "text": text, "source": "ap"},
        {"id": "2", "text": text, "source": "afp"},
        {"id": "3", "text": text, "source": "ap"},
    ]
    write_lines(folder / "index.jsonl", records)
    write_lines(folder / "queries.jsonl", [*records[1:], {"id": "4", "text": text}])
    target = place.options
    run_command("index", "index.jsonl", *target, status=0)
    ran = run_command(
        "similar", *target, "--batch", "queries.jsonl", "--within", "source", status=0
    )
    answers = [json.loads(line) for line in ran.out.splitlines()]
    found = [[match["id"] for match in answer["matches"]] for answer in answers]
    assert found == [[], ["1"], []]
    assert "1 of 3 texts: The document lacks a value of 'source': nothing matches it" in ran.err
    by_id = run_command("similar", *target, "--id", "1", "--within", "source", "--json")
    assert [match["id"] for match in json.loads(by_id.out)["matches"]] == ["3"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("similar --text bridge", "within source: a text has no fields"),
        ("query --id 1", "--within can't be part of a request body: use filters"),
    ],
)
def test_what_has_no_scope_is_refused(place: Place, command: str, reason: str) -> None:
    with open_index(place, [{"id": "1", "text": "the old bridge", "source": "ap"}]) as index:
        query = Query("the old bridge")
        with pytest.raises(UsageError, match="a text has no fields"):
            index.similar_many([query], esdedup.Limits(within=Within.parse("source")))
    name, *options = command.split()
    ran = run_command(name, *place.options, *options, "--within", "source", status=2)
    assert reason in ran.err
