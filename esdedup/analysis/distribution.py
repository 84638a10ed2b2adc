"""How values are spread: over bins, and over ranges of sizes; and rows taken from all over them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from esdedup.text.arrays import F64, I64

BINS = 20

_SINGLE_SIZES = 10
_STEPS = (1, 2, 5)
_SEED = 0


@dataclass(frozen=True)
class Bin:
    """A bin of values, from `low` to `high`, and how many are in it.

    A bin of similarities holds its lower edge and not its upper one, but the last one holds 1; of
    distances it holds both.
    """

    low: float
    high: float
    count: float


@dataclass(frozen=True)
class SizeRange:
    """Groups of `least` to `most` documents: how many, and their documents together."""

    least: int
    most: int
    groups: int
    documents: int


def similarity_bins(threshold: float) -> list[Bin]:
    """Empty bins of equal width from a threshold to 1, below them one of all that is less."""
    edges = np.linspace(threshold, 1.0, BINS + 1).tolist() if threshold < 1.0 else [1.0, 1.0]
    return [Bin(0.0, threshold, 0), *(Bin(a, b, 0) for a, b in itertools.pairwise(edges))]


def distance_bins(distance: int, bits: int) -> list[Bin]:
    """Empty bins of equal width of distances in bits, the far ones first.

    The first one holds what is farther than `distance`.
    """
    width = -(-(distance + 1) // BINS)
    lows = range(0, distance + 1, width)
    near = [Bin(low, min(low + width - 1, distance), 0) for low in lows]
    return [Bin(min(distance + 1, bits), bits, 0), *reversed(near)]


def bins_of_similarities(values: F64, bins: list[Bin]) -> I64:
    """The number of the bin of each value, shape (n,)."""
    found: I64 = np.searchsorted([each.low for each in bins[1:]], values, "right")
    return np.minimum(found, len(bins) - 1)


def bins_of_distances(values: F64, bins: list[Bin]) -> I64:
    """The number of the bin of each value, shape (n,)."""
    near = [each.high for each in reversed(bins[1:])]
    found: I64 = len(bins) - 1 - np.searchsorted(near, values, "left")
    return found


def size_ranges(sizes: I64) -> list[SizeRange]:
    """Sizes of groups, 2 or more each: 2 to 10 one by one, larger ones in ranges up to the largest.

    Ranges without any group are there too.
    """
    largest = int(sizes.max()) if sizes.size else 1
    rounded = (step * 10**power for power in itertools.count(1) for step in _STEPS)
    ends = itertools.chain(
        range(2, _SINGLE_SIZES + 1), (end for end in rounded if end > _SINGLE_SIZES)
    )
    found: list[SizeRange] = []
    before = 1
    for end in ends:
        if before >= largest:
            return found
        inside = sizes[(sizes > before) & (sizes <= end)]
        found.append(SizeRange(before + 1, end, int(inside.size), int(inside.sum())))
        before = end
    return found


def spread(bin_of: I64, group_of: I64, count: int) -> I64:
    """Rows from all over the bins: shape (up to `count`,), each once.

    bin_of, group_of: of n rows, shape (n,). One row of each bin that has any, then a second one of
    each; of fewer rows than bins from evenly spaced ones, the lowest and the highest among them. Of
    groups that no row was taken of yet, as long as a bin has such. The same rows give the same.
    """
    order = np.random.default_rng(_SEED).permutation(bin_of.size)
    left = {number: order[bin_of[order] == number] for number in np.unique(bin_of).tolist()}
    chosen: list[int] = []
    taken: list[int] = []
    while left and len(chosen) < count:
        wanted = min(count - len(chosen), len(left))
        numbers = list(left)
        for at in np.unique(np.linspace(0, len(numbers) - 1, wanted).round().astype(int)).tolist():
            rows = left[numbers[at]]
            place = int(np.argmin(np.isin(group_of[rows], taken)))
            chosen.append(int(rows[place]))
            taken.append(int(group_of[rows[place]]))
            left[numbers[at]] = np.delete(rows, place)
        left = {number: rows for number, rows in left.items() if rows.size}
    return np.array(chosen, np.int64)
