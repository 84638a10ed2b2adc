"""Pairs of rows that share buckets, against plain-Python references."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.search import buckets
from esdedup.search.buckets import band_pairs, segment_pairs
from esdedup.sketch.kinds.segments import probe_masks


@given(st.integers(0, 2**32), st.sampled_from([0, 1]))
def test_candidate_pairs_are_complete_and_come_once(seed: int, radius: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 8, (30, 3), dtype=np.uint64)
    got = [pair for a, b in band_pairs(values) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    wanted = {
        (a, b) for a, b in itertools.combinations(range(30), 2) if (values[a] == values[b]).any()
    }
    assert len(got) == len(set(got))
    assert set(got) == wanted
    masks = [probe_masks(3, radius)] * 3
    near = [
        pair
        for a, b in segment_pairs(values, masks)
        for pair in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert len(near) == len(set(near))
    assert set(near) == {
        (a, b)
        for a, b in itertools.combinations(range(30), 2)
        if (np.bitwise_count(values[a] ^ values[b]) <= radius).any()
    }


def test_candidate_pairs_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esdedup.search.buckets.PAIRS_A_BLOCK", 5)
    test_candidate_pairs_are_complete_and_come_once()


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), max_size=25), st.integers(1, 4)
)
def test_with_a_cap_each_row_meets_the_first_of_its_buckets(
    rows: list[list[int]], cap: int
) -> None:
    values = np.array(rows, np.uint64).reshape(-1, 4)
    columns = [buckets.bucket_column(column) for column in values.T]
    left, right = buckets.earlier_pairs(columns, range(len(values)), cap)
    expected = set()
    for column in range(4):
        for b in range(len(values)):
            same = [a for a in range(b) if values[a, column] == values[b, column]]
            expected |= {(b, a) for a in same[:cap]}
    assert list(zip(right.tolist(), left.tolist(), strict=True)) == sorted(expected)
    sizes = [n for column in values.T for n in np.unique(column, return_counts=True)[1].tolist()]
    over = [size for size in sizes if size > cap and size > 1]
    assert buckets.capped(columns, cap).buckets == len(over)
