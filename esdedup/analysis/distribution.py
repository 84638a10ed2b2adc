"""Distributions of values: counts in bins, and bars of them."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from esdedup.text.arrays import F64, I64

BINS = 20


@dataclass(frozen=True)
class Bin:
    """A bin of values.

    name: its range, in words.
    low, high: its edges. It holds both; of similarities only the lower one, except that the last
        bin holds 1.
    count: number of values in it.
    """

    name: str
    low: float
    high: float
    count: float = 0


def similarities_in_bins(values: F64, threshold: float) -> tuple[Bin, ...]:
    """Return a bin for less than the threshold, then bins of equal width up to 1."""
    # Rounded, because 17 of 20 shingles are 0.85 and not 0.8500000000000001.
    inner = np.linspace(threshold, 1.0, BINS + 1)[1:].round(12).tolist()
    edges = [threshold, *inner] if threshold < 1.0 else [1.0, 1.0]
    names = [f"less than {threshold:g}"]
    names += [_range(f"{low:.4g}", f"{high:.4g}") for low, high in itertools.pairwise(edges)]
    edges = [0.0, *edges]
    return _bins(names, itertools.pairwise(edges), values, edges)


def distances_in_bins(values: F64, distance: int, bits: int) -> tuple[Bin, ...]:
    """Return a bin for more than the distance, then bins of equal width down to 0."""
    width = -(-(distance + 1) // BINS)
    edges = [*range(0, distance + 1, width), distance + 1, bits + 1]
    distances = [(low, following - 1) for low, following in itertools.pairwise(edges)]
    names = [
        f"{_range(str(low), str(high))} bit{'' if high == 1 else 's'}"
        for low, high in distances[:-1]
    ]
    return _bins([*names, f"more than {distance} bits"], distances, values, edges)[::-1]


def size_ranges(sizes: I64) -> tuple[Bin, ...]:
    """Return ranges of sizes, each twice as wide as the one before: 2, 3 to 4, 5 to 8, ..."""
    largest = int(sizes.max(initial=1))
    ends = [1 << power for power in range((largest - 1).bit_length() + 1)]
    ranges = [(low + 1, high) for low, high in itertools.pairwise(ends)]
    names = [_range(f"{low:,}", f"{high:,}") for low, high in ranges]
    return _bins(names, ranges, sizes, [end + 1 for end in ends])


def _bins(
    names: Iterable[str],
    limits: Iterable[tuple[float, float]],
    values: F64 | I64,
    edges: Sequence[float],
) -> tuple[Bin, ...]:
    """Return bins with their counts. limits: the lowest and highest value of each bin."""
    counts = np.histogram(values, edges)[0].tolist() if len(edges) > 1 else []
    columns = zip(names, limits, counts, strict=True)
    return tuple(Bin(name, low, high, count) for name, (low, high), count in columns)


def similarity_histogram(counts: F64) -> tuple[Bin, ...]:
    """Return bins of equal width from 0 to 1 with their counts, shape (n,)."""
    edges = [number / counts.size for number in range(counts.size + 1)]
    return tuple(
        Bin(f"{low:.2f} to {high:.2f}", low, high, count)
        for (low, high), count in zip(itertools.pairwise(edges), counts.tolist(), strict=True)
    )


def bars(bins: Sequence[Bin]) -> list[tuple[Bin, float]]:
    """Return bins, the last first, each with the length of its bar in percent."""
    largest = max([1.0, *(bin.count for bin in bins)])
    return [(bin, round(100 * bin.count / largest, 2)) for bin in reversed(bins)]


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
