"""Candidate pairs from shared buckets: who meets whom, each pair once.

A bucket is the documents that have one value in one column (a band or a segment). Pairs come out
in blocks, so that memory does not grow with their number.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from esdedup.hashing import U64

I64 = NDArray[np.int64]
Pairs = tuple[I64, I64]

PAIRS_A_BLOCK = 1 << 20


def band_pairs(bands: U64) -> Iterator[Pairs]:
    """Pairs of rows that agree in a column: (left, right), left < right, each pair once.

    bands: shape (n, columns). A pair comes from the first column in which it agrees.
    """
    for column in range(bands.shape[1]):
        for left, right in _meeting(bands[:, column], np.uint64(0)):
            earlier = bands[left, :column] == bands[right, :column]
            fresh = ~earlier.any(axis=1)
            yield left[fresh], right[fresh]


def segment_pairs(segments: U64, masks: list[U64], radius: int) -> Iterator[Pairs]:
    """Pairs of rows that differ in some column by at most `radius` bits, each pair once.

    segments: shape (n, columns). masks: for each column the bits that may differ, as
    `segments.probe_masks` gives them.
    """
    for column, column_masks in enumerate(masks):
        for mask in column_masks:
            for left, right in _meeting(segments[:, column], mask):
                apart = np.bitwise_count(segments[left, :column] ^ segments[right, :column])
                fresh = ~(apart <= radius).any(axis=1)
                yield left[fresh], right[fresh]


def _meeting(values: U64, mask: np.uint64) -> Iterator[Pairs]:
    """Pairs of rows whose values differ by exactly `mask`, left < right, in blocks."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    partner = ordered ^ mask
    rows = np.arange(values.size)
    last = np.searchsorted(ordered, partner, "right")
    if mask:
        # Each two values meet once: from the smaller one's side.
        first = np.searchsorted(ordered, partner, "left")
        counts = np.where(ordered < partner, last - first, 0)
    else:
        first = rows + 1
        counts = last - first
    for block in _blocks(counts):
        many = counts[block]
        lefts = np.repeat(rows[block], many)
        within = np.arange(lefts.size) - np.repeat(np.cumsum(many) - many, many)
        a, b = order[lefts], order[np.repeat(first[block], many) + within]
        yield np.minimum(a, b), np.maximum(a, b)


def _blocks(counts: I64) -> Iterator[slice]:
    """Slices of rows that make about PAIRS_A_BLOCK pairs each."""
    total = np.cumsum(counts)
    if not total.size or not total[-1]:
        return
    edges = np.searchsorted(total, np.arange(PAIRS_A_BLOCK, total[-1], PAIRS_A_BLOCK), "left") + 1
    bounds = np.unique(np.concatenate([[0], edges, [counts.size]])).tolist()
    for start, end in itertools.pairwise(bounds):
        yield slice(start, end)
