"""Two sets are compared with each other, and not within: the results are those of brute force."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import UsageError
from tests.helpers.commands import run_command, write_lines
from tests.helpers.scoped_documents import corpus, similarities

THRESHOLD = 0.6
NEW = [{**document, "date": "2026-01-01"} for document in corpus(160, seed=3)]
"""A third of the documents has a copy, and some have no words."""
OLD = NEW[:60]
NEW = [*NEW[60:], *({**NEW[row], "id": f"copy {row}"} for row in (60, 61, 3, 4))]
Documents = Sequence[Mapping[str, Any]]


def near(old: Documents, new: Documents) -> set[int]:
    """Return the new documents that are similar to an old one."""
    similar = similarities([*old, *new])
    return {
        right - len(old)
        for (left, right), value in similar.items()
        if left < len(old) <= right and value >= THRESHOLD
    }


@pytest.mark.parametrize("method", ["leader", "components"])
def test_only_what_is_near_the_other_set_is_removed(method: Any) -> None:
    expected = near(OLD, NEW)
    result = esdedup.dedup(NEW, against=OLD, only_between=True, threshold=THRESHOLD, method=method)
    assert {duplicate.row for duplicate in result.duplicates} == expected
    assert 20 < len(expected) < len(NEW) - 20
    assert all(duplicate.in_against for duplicate in result.duplicates)
    within = esdedup.dedup(NEW, against=OLD, threshold=THRESHOLD, method=method)
    assert {duplicate.row for duplicate in within.duplicates} > expected
    higher = esdedup.dedup(NEW, against=OLD, only_between=True, threshold=0.9, method=method)
    assert result.rethreshold(0.9).duplicates == higher.duplicates
    # The same by files.
    write_lines(Path("old.jsonl"), OLD)
    write_lines(Path("new.jsonl"), NEW)
    options = ["-t", str(THRESHOLD), "--method", method, "--against", "old.jsonl"]
    run = run_command("clean", "new.jsonl", *options, "--only-between", "-o", "out", "--json")
    assert run.status == 0, run.err
    assert run.json[0]["removed"] == run.json[0]["against"] == len(expected)
    texts = [json.loads(line)["id"] for line in Path("out/new.jsonl").read_text().splitlines()]
    assert texts == [NEW[row]["id"] for row in range(len(NEW)) if row not in expected]


def test_of_nothing_to_compare_with_nothing_is_removed() -> None:
    assert not esdedup.dedup(NEW, against=[], only_between=True).duplicates
    Path("old.jsonl").touch()
    write_lines(Path("new.jsonl"), NEW)
    report = esdedup.clean("new.jsonl", None, against="old.jsonl", only_between=True)
    assert report.removed == 0


def test_equal_texts_alone_are_removed_by_their_texts() -> None:
    texts = ["one two three", "one two three", "four five six"]
    result = esdedup.dedup(texts, against=["four five six"], only_between=True, exact=True)
    assert [duplicate.row for duplicate in result.duplicates] == [2]


def test_an_update_adds_what_stays() -> None:
    write_lines(Path("old.jsonl"), OLD)
    write_lines(Path("new.jsonl"), NEW)
    esdedup.clean("old.jsonl", "kept", against="all.sketches", update=True)
    options = ["--against", "all.sketches", "--update", "--only-between", "--json"]
    run = run_command("clean", "new.jsonl", *options, "-o", "out")
    assert run.status == 0, run.err
    report = esdedup.clean("new.jsonl", "again", against="all.sketches", only_between=True)
    assert report.removed == len(NEW) == report.against


def test_it_requires_what_to_compare_with() -> None:
    write_lines(Path("new.jsonl"), NEW)
    with pytest.raises(UsageError, match="`only_between` requires `against`"):
        esdedup.dedup(NEW, only_between=True)
    with pytest.raises(UsageError, match="`only_between` requires `against`"):
        esdedup.clean("new.jsonl", None, only_between=True)
    with pytest.raises(UsageError, match="can't be combined with `contained`"):
        esdedup.dedup(NEW, against=OLD, only_between=True, contained=0.8)
    with pytest.raises(UsageError, match="can't be combined with `unit`"):
        esdedup.clean("new.jsonl", None, unit="line", only_between=True)
    for options, reason in (
        ([], "--only-between requires --against"),
        (["--unit", "line"], "--only-between requires --against"),
        (["--against", "new.jsonl", "--engine", "spark"], "--only-between can't be combined with"),
    ):
        run = run_command("clean", "new.jsonl", "--only-between", *options)
        assert run.status == 2
        assert reason in run.err
