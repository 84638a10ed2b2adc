"""Values in bins, and bars of these."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.analysis.distribution import (
    bars,
    distances_in_bins,
    similarities_in_bins,
    similarity_histogram,
    size_ranges,
)


@given(st.floats(0.05, 1.0), st.lists(st.floats(0, 1), max_size=50))
def test_each_similarity_is_in_its_bin(threshold: float, values: list[float]) -> None:
    bins = similarities_in_bins(np.array(values), threshold)
    assert (bins[0].high, bins[-1].high) == (threshold, 1.0)
    assert [a.high for a in bins[:-1]] == [b.low for b in bins[1:]]
    for each in bins:
        last = each is bins[-1]
        assert each.count == sum(
            each.low <= value < each.high or (last and value == 1) for value in values
        )


def test_a_similarity_at_an_edge_is_in_the_bin_above() -> None:
    counts = [each.count for each in similarities_in_bins(np.array([0.82, 0.85, 0.94]), 0.8)]
    assert [at for at, count in enumerate(counts) if count] == [3, 6, 15]


@given(st.integers(0, 60), st.lists(st.integers(0, 64), max_size=50))
def test_each_distance_is_in_its_bin(distance: int, values: list[int]) -> None:
    bins = distances_in_bins(np.array(values, np.float64), distance, 64)
    assert len(bins) <= 21
    assert [(a.low, b.high + 1) for a, b in itertools.pairwise(bins[1:])] == [
        (a.low, a.low) for a in bins[1:-1]
    ]
    for each in bins:
        assert each.count == sum(each.low <= value <= each.high for value in values)


@given(st.lists(st.integers(2, 20_000), max_size=40))
def test_each_size_is_in_one_range(sizes: list[int]) -> None:
    ranges = size_ranges(np.array(sizes, np.int64))
    assert sum(each.count for each in ranges) == len(sizes)
    for each in ranges:
        assert each.count == sum(each.low <= size <= each.high for size in sizes)
    assert all(a.high + 1 == b.low for a, b in itertools.pairwise(ranges))
    assert len(ranges) <= 20


@pytest.mark.parametrize("counts", [(0.0, 1.0, 4.0, 100.0), (0.25, 0.5)])
def test_bars_are_shares_of_the_largest_count_or_of_one(counts: tuple[float, ...]) -> None:
    bins = similarity_histogram(np.array(counts))
    wanted = [100 * count / max(1.0, *counts) for count in counts]
    assert bars(bins) == [*zip(bins, wanted, strict=True)][::-1]
