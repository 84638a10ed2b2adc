"""Documents that were moved to another index: where they can go, and how they come back."""

import itertools
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup import Bits, MinHash, Scheme
from esdedup.exceptions import EsdedupError, UsageError
from esdedup.removal.log import LogReader, LogWriter
from esdedup.stores import Store
from tests.helpers.commands import words
from tests.helpers.indices import open_index
from tests.helpers.places import Place, whole, write_records
from tests.removal.removing import dedup


def copies(groups: int, of_each: int = 2) -> list[dict[str, Any]]:
    """Return documents of equal texts."""
    return [
        {"id": f"{group}-{copy:03}", "text": words(group)}
        for group in range(groups)
        for copy in range(of_each)
    ]


def ids_in(place: Place) -> set[str]:
    """Return the ids of all documents of an index; none if there is no index."""
    with esdedup.open(place.target, place.index) as index:
        return {*index.store.some_ids(1_000)}


# The index that they were moved to


@pytest.mark.on_every_server
def test_nothing_is_restored_into_the_index_that_documents_were_moved_to(
    place: Place, others: Place, store: Store, there: Store
) -> None:
    write_records(store, copies(3))
    before = whole(store)
    dedup(place, "move", "--log", "l.jsonl", status=0)
    kept, moved = whole(store), whole(there)
    refused = others.run("undo", "l.jsonl", "--into", others.index, "--yes", status=2)
    said = f"of documents that were moved to {others.index!r}, where they can't be restored"
    assert said in refused.err
    assert f"use --index {place.index}" in refused.err
    with (
        esdedup.open(others.target, others.index) as index,
        pytest.raises(UsageError, match=f"use `index` {place.index}"),
    ):
        index.undo("l.jsonl", successor=True)
    assert (whole(store), whole(there)) == (kept, moved)
    place.run("undo", "l.jsonl", "--yes", status=0)
    assert (whole(store), whole(there)) == (before, {})


@pytest.mark.on_every_server
def test_moved_documents_are_restored_into_a_third_index(
    place: Place, others: Place, store: Store, there: Store
) -> None:
    write_records(store, copies(3))
    dedup(place, "move", "--log", "l.jsonl", status=0)
    third = Place(place.target, f"{place.index}-third")
    with open_index(third):
        third.run("undo", "l.jsonl", "--into", third.index, "--yes", status=0)
    assert ids_in(third) == {"0-001", "1-001", "2-001"}
    assert (ids_in(others), len(ids_in(place))) == (set(), 3)


NAMES = ["a", "b", "c"]
moves = st.tuples(st.just("move"), st.sampled_from([*itertools.permutations(NAMES, 2)]))
undos = st.tuples(st.just("undo"), st.tuples(st.integers(0, 1), st.sampled_from([None, *NAMES])))


@given(steps=st.lists(st.one_of(undos, moves), min_size=1, max_size=5))
def test_no_order_of_moves_and_undos_loses_a_document(
    steps: list[tuple[str, tuple[Any, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("moves")
    database, logs = folder / "store.db", list[Path]()
    every = {document["id"] for document in copies(2)}
    for name in NAMES:
        open_index(Place(database, name), copies(2) if name == "a" else []).close()
    for step, (of_move, to) in [("move", ("a", "b")), *steps]:
        if step == "move":
            log = folder / f"{len(logs)}.jsonl"
            with esdedup.open(database, of_move) as index:
                plan = index.dedup("move", to=to, log=log, apply=True)
            logs += [log] if plan.log is not None else []
        elif of_move < len(logs):
            header = LogReader(logs[of_move]).header
            with esdedup.open(database, to or header.index) as index:
                try:
                    index.undo(logs[of_move], successor=to is not None)
                except UsageError:
                    assert header.to == to
        stored = set[str]().union(*(ids_in(Place(database, name)) for name in NAMES))
        assert stored == every, steps


# An index that is gone


@pytest.mark.on_every_server
def test_documents_are_restored_though_the_index_that_they_were_moved_to_is_gone(
    place: Place, others: Place, store: Store
) -> None:
    # More than the first page.
    write_records(store, copies(1, 131))
    before = whole(store)
    dedup(place, "move", "--log", "l.jsonl", status=0)
    others.run("drop", "--yes", status=0)
    said = f"There is no index {others.index!r} any more: 130 moved copies were not looked for"
    for restored in (130, 0):
        undone = place.run("undo", "l.jsonl", "--yes", status=0)
        (report,) = undone.json
        assert (report["restored"], report["present"]) == (restored, 130 - restored)
        assert (report["copies_not_looked_for"], report["failures"]) == (130, [])
        assert said in undone.err
        assert whole(store) == before
    with esdedup.open(place.target, place.index) as index:
        assert index.undo("l.jsonl").copies_not_looked_for == 130


@pytest.mark.on_every_server
def test_a_run_that_was_killed_before_it_made_the_index_to_move_to_can_be_undone(
    place: Place, others: Place, store: Store
) -> None:
    write_records(store, copies(2))
    dedup(place, "move", "--log", "l.jsonl", status=0)
    place.run("undo", "l.jsonl", "--yes", status=0)
    others.run("drop", "--yes", status=0)
    killed = LogWriter(Path("killed.jsonl"), LogReader(Path("l.jsonl")).header)
    killed.__exit__(GeneratorExit)
    undone = place.run("undo", "killed.jsonl", "--yes", status=1)
    (report,) = undone.json
    assert (report["restored"], report["failures"]) == (0, [])
    assert "it has no end: the run was killed" in report["damage"]
    assert "copies_not_looked_for" not in report
    with esdedup.open(place.target, place.index) as index:
        assert index.undo("killed.jsonl").restored == 0


# Sketches of several fields

BESIDE = Scheme([MinHash(), Bits(64, 8, name="h", fields=["h"])])


@pytest.mark.on_every_server
@pytest.mark.parametrize("sketch", ["minhash", "h"])
@pytest.mark.parametrize("is_made_before", [False, True])
def test_the_index_to_move_to_has_the_sketches_of_all_fields(
    place: Place,
    others: Place,
    sketch: Literal["minhash", "h"],
    is_made_before: bool,
) -> None:
    prints = ["0123456789abcdef", "fedcba9876543210"]
    documents = [
        {"id": f"{row}", "text": words(row // 2), "h": prints[row // 2]} for row in range(4)
    ]
    with open_index(place, documents, scheme=BESIDE) as index:
        before = index.store.hold([document["id"] for document in documents])
        if is_made_before:
            open_index(others, scheme=BESIDE).close()
        done = index.dedup("move", to=others.index, sketch=sketch, log="l.jsonl", apply=True)
        assert done.report is not None
        assert (done.report.done, done.report.failures) == (2, [])
        with esdedup.open(others.target, others.index) as moved:
            assert moved.scheme.names == index.scheme.names
            assert moved.meta.text_fields == ("text",)
            # The tokens of both fields are there.
            for each in ("minhash", "h"):
                assert {*moved.groups(sketch=each).ids} == {"1", "3"}
        # Another run moves by the other sketch.
        other = "h" if sketch == "minhash" else "minhash"
        index.add([{**documents[0], "id": "9"}])
        again = index.dedup("move", to=others.index, sketch=other, log="m.jsonl", apply=True)
        assert again.report is not None
        assert (again.report.done, ids_in(others)) == (1, {"1", "3", "9"})
        for log in ("m.jsonl", "l.jsonl"):
            assert index.undo(log).failures == []
        after = index.store.hold([document["id"] for document in documents])
        assert [document.raw for document in after] == [document.raw for document in before]
    assert ids_in(others) == set()


def test_an_index_of_one_of_the_fields_is_refused(place: Place, others: Place) -> None:
    with open_index(place, copies(1), scheme=BESIDE) as index:
        open_index(others, scheme=Scheme([MinHash()])).close()
        with pytest.raises(EsdedupError, match="minhash"):
            index.dedup("move", to=others.index, log="l.jsonl", apply=True)
        assert len(ids_in(place)) == 2
    assert not Path("l.jsonl").exists()
