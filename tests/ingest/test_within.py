"""Documents that arrive are duplicates of earlier ones of their scope only."""

import json
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import UsageError
from tests.helpers.commands import run_command, write_lines
from tests.helpers.places import Place
from tests.helpers.scoped_documents import (
    SCOPES,
    THRESHOLD,
    corpus,
    in_scope,
    one_type_a_field,
    originals_of,
    similarities,
    stored_originals,
)

TEXT = "the council of the town agreed that the old bridge will be repaired before the winter"
ACTIONS: list[Any] = ["skip", "mark", "group"]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("within", SCOPES, ids=" ".join)
def test_arrivals_are_those_of_brute_force(
    folder: Path, within: tuple[str, ...], action: Any
) -> None:
    documents = corpus(300)
    expected = originals_of(documents, within, action)
    policy = esdedup.DuplicatePolicy(action, THRESHOLD)
    with esdedup.open(folder / "news.db") as index:
        reports = [
            index.add(documents[start : start + 100], on_duplicate=policy, within=within)
            for start in range(0, 300, 100)
        ]
        if action == "group":
            assert stored_originals(index) == expected
        elif action == "mark":
            marked, similar = stored_originals(index), similarities(documents)
            assert marked.keys() == expected.keys()
            # Of several originals in the window, it may be any.
            for row, original in marked.items():
                assert original < row
                assert (original, row) in similar
                assert in_scope(documents[original], documents[row], within)
        assert index.statistics().documents == 300 - len(expected) * (action == "skip")
    assert sum(report.duplicates for report in reports) == len(expected)
    unscoped = sum(not in_scope(document, document, within) for document in documents)
    assert sum(report.unscoped for report in reports) == unscoped > 0


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ACTIONS)
def test_arrivals_are_the_same_in_every_store(place: Place, action: Any) -> None:
    within = ("source", "date:3d")
    documents = one_type_a_field(corpus(200))
    expected = originals_of(documents, within, action)
    policy = esdedup.DuplicatePolicy(action, THRESHOLD)
    with esdedup.open(place.target, place.index) as index:
        for start in (0, 100):
            index.add(documents[start : start + 100], on_duplicate=policy, within=within)
        if action == "group":
            assert stored_originals(index) == expected
        elif action == "mark":
            assert stored_originals(index).keys() == expected.keys()
        assert index.statistics().documents == len(documents) - len(expected) * (action == "skip")


@pytest.mark.on_every_server
def test_a_document_that_moves_to_another_scope_is_judged_again(place: Place) -> None:
    documents = [{"id": str(id), "text": TEXT, "source": "ap"} for id in range(2)]
    for action in ("mark", "group"):
        with esdedup.open(place.target, f"{place.index}-{action}") as index:
            index.add(documents, on_duplicate=action, within="source")
            assert stored_originals(index) == {1: 0}
            index.add(documents, on_duplicate=action, within="source")
            assert stored_originals(index) == {1: 0}
            index.add([{**documents[1], "source": "afp"}], on_duplicate=action, within="source")
            assert stored_originals(index) == {}
            index.store.drop()


def test_the_command_counts_documents_without_a_scope(folder: Path) -> None:
    records = [{"id": id, "text": TEXT, "event": id // 2 or None} for id in range(6)]
    write_lines(folder / "feed.jsonl", records)
    options = ["--on-duplicate", "skip", "--within", "event"]
    ran = run_command("index", "feed.jsonl", "--json", *options, status=0)
    counts = json.loads(ran.out)
    assert (counts["created"], counts["skipped"], counts["unscoped"]) == (4, 2, 2)
    assert "2 documents lack a value of 'event': duplicates of none (--within)" in ran.err
    kept = run_command("index", "feed.jsonl", "--json")
    assert "unscoped" not in json.loads(kept.out)


def test_a_scope_requires_a_policy(folder: Path) -> None:
    with esdedup.open(folder / "news.db") as index, pytest.raises(UsageError):
        index.add([TEXT], within="event")
