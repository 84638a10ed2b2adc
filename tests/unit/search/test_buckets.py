"""Pairs of rows that share buckets, against plain-Python references."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from esdedup.search import buckets
from esdedup.sketch.kinds.segments import probe_masks

NOTHING = np.empty(0, np.int64), np.empty(0, np.uint64)


@given(st.integers(0, 2**32), st.sampled_from([0, 1]), st.sampled_from([5, 1 << 22]))
def test_pairs_of_segments_are_those_within_a_mask(seed: int, radius: int, block: int) -> None:
    values = np.random.default_rng(seed).integers(0, 8, (30, 3), dtype=np.uint64)
    masks = [probe_masks(3, radius)] * 3
    pairs = [
        pair
        for left, right in buckets.segment_pairs(values, masks, 30, NOTHING, block)
        for pair in zip(left.tolist(), right.tolist(), strict=True)
    ]
    assert set(pairs) == {
        (a, b)
        for a, b in itertools.combinations(range(30), 2)
        if (np.bitwise_count(values[a] ^ values[b]) <= radius).any()
    }


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
