"""Ragged rows: their ranges and blocks are those of plain Python lists. Values that came before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from esdedup.text.arrays import I64, Ragged, SeenValues, blocks, offsets_of, ranges

COUNTS = st.lists(st.integers(0, 9), max_size=20)


def array(numbers: list[int]) -> I64:
    return np.array(numbers, np.int64)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=20))
def test_ranges_follow_each_other(rows: list[tuple[int, int]]) -> None:
    starts, counts = array([start for start, _ in rows]), array([count for _, count in rows])
    wanted = [number for start, count in rows for number in range(start, start + count)]
    assert ranges(starts, counts).tolist() == wanted
    assert ranges(0, counts).tolist() == [at for _, count in rows for at in range(count)]


@given(COUNTS, st.integers(1, 30))
def test_blocks_hold_every_row_once_and_about_the_budget(counts: list[int], budget: int) -> None:
    slices = list(blocks(array(counts), budget))
    assert [row for each in slices for row in range(len(counts))[each]] == list(range(len(counts)))
    for each in slices:
        assert sum(counts[each][1:]) < budget
    assert len(slices) <= 1 + sum(counts) // budget


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=5), st.data())
def test_rows_are_joined_and_thinned(rows: list[list[int]], data: st.DataObject) -> None:
    parts = [Ragged(np.array(row, np.uint64), offsets_of(array([len(row)]))) for row in rows]
    whole = Ragged.joined(parts)
    assert [row.tolist() for row in whole] == rows
    keep = [[data.draw(st.booleans()) for _ in row] for row in rows]
    thinned = whole.only(np.array([each for row in keep for each in row], np.bool_))
    assert [row.tolist() for row in thinned] == [
        [value for value, kept in zip(row, marks, strict=True) if kept]
        for row, marks in zip(rows, keep, strict=True)
    ]


@given(st.lists(COUNTS, max_size=9), COUNTS)
def test_seen_values_are_those_that_were_added(parts: list[list[int]], asked: list[int]) -> None:
    seen, added = SeenValues(), set[int]()
    for part in parts:
        first = [number in added or number in part[:at] for at, number in enumerate(part)]
        assert seen.add(array(part)).tolist() == first
        added.update(part)
        assert seen.among(array(asked)).tolist() == [number in added for number in asked]
    assert seen.size == len(added)
