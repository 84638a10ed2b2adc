"""Distributions of values: counts in bins, and bars of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from esdedup.text.arrays import F64, I64

BINS = 20
_DECADES = 6


@dataclass(frozen=True)
class Bin:
    """A bin of values, from `low` to `high`, and the number of values in it.

    A bin of similarities holds its lower edge and not its upper one, but the last one holds 1. Bins
    of distances and of sizes hold both edges.
    """

    name: str
    low: float
    high: float
    count: float = 0


@dataclass(frozen=True)
class SizeRange(Bin):
    """Number of groups of `low` to `high` documents. documents: in all of them together."""

    documents: int = 0


def similarities_in_bins(values: F64, threshold: float) -> tuple[Bin, ...]:
    """Return a bin for less than the threshold, then bins of equal width up to 1."""
    edges = np.linspace(threshold, 1.0, BINS + 1).tolist() if threshold < 1.0 else [1.0, 1.0]
    near = [Bin(_range(f"{a:.4g}", f"{b:.4g}"), a, b) for a, b in itertools.pairwise(edges)]
    bin_of = np.minimum(np.searchsorted(edges, values, "right"), len(near))
    return _counted([Bin(f"less than {threshold:g}", 0.0, threshold), *near], bin_of)


def distances_in_bins(values: F64, distance: int, bits: int) -> tuple[Bin, ...]:
    """Return a bin for more than the distance, then bins of equal width down to 0."""
    width = -(-(distance + 1) // BINS)
    near = []
    for low in range(0, distance + 1, width):
        high = min(low + width - 1, distance)
        name = f"{_range(str(low), str(high))} bit{'' if high == 1 else 's'}"
        near.append(Bin(name, low, high))
    far = Bin(f"more than {distance} bits", min(distance + 1, bits), bits)
    bin_of = np.where(values > distance, 0, len(near) - values.astype(np.int64) // width)
    return _counted([far, *reversed(near)], bin_of)


def _counted(bins: list[Bin], bin_of: I64) -> tuple[Bin, ...]:
    counts = np.bincount(bin_of, minlength=len(bins)).tolist()
    return tuple(replace(each, count=n) for each, n in zip(bins, counts, strict=True))


def similarity_histogram(counts: F64) -> tuple[Bin, ...]:
    """Return bins of equal width from 0 to 1 with their counts, shape (n,)."""
    edges = [at / counts.size for at in range(counts.size + 1)]
    return tuple(
        Bin(f"{low:.2f} to {high:.2f}", low, high, count)
        for (low, high), count in zip(itertools.pairwise(edges), counts.tolist(), strict=True)
    )


def size_ranges(sizes: I64) -> list[SizeRange]:
    """Return groups of 2 to 10 documents one by one, larger ones in ranges, also empty ranges."""
    largest = int(sizes.max()) if sizes.size else 1
    rounded = (step * 10**power for power in itertools.count(1) for step in (1, 2, 5))
    found: list[SizeRange] = []
    before = 1
    # 10 is among the rounded ends.
    for end in itertools.chain(range(2, 10), rounded):
        if before >= largest:
            break
        inside = sizes[(sizes > before) & (sizes <= end)]
        name = _range(f"{before + 1:,}", f"{end:,}")
        found.append(SizeRange(name, before + 1, end, int(inside.size), int(inside.sum())))
        before = end
    return found


def bars(bins: Sequence[Bin], log_scale: bool = False) -> list[tuple[Bin, float]]:
    """Return bins, the last first, each with the length of its bar in percent.

    log_scale: the longest bar reaches to the next power of ten; the scale has at most six of them.
    """
    counts = [each.count for each in bins]
    most = max(counts, default=0.0)
    if log_scale:
        top = math.ceil(math.log10(most)) if most > 0 else 0
        # One pair has a bar too, if the scale has room for it.
        decades = max(2, min(_DECADES, top + 1))
        heights = [1 + (math.log10(n) - top) / decades if n > 0 else 0.0 for n in counts]
    else:
        heights = [count / max(1.0, most) for count in counts]
    lengths = [round(100 * max(0.0, height), 2) for height in heights]
    return [*zip(bins, lengths, strict=True)][::-1]


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
