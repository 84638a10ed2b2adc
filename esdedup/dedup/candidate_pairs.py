"""Finds candidate pairs among all documents of an index, from the columns that were read of them.

Documents that share enough bands are candidates, to be verified by `verify`. Fingerprints are in
memory, so pairs by Hamming distance are verified here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.search.buckets import (
    Capped,
    Column,
    Pairs,
    agreeing,
    blocks_of_rows,
    bucket_columns,
    capped,
    earlier_pairs,
    segment_pairs,
)
from esdedup.search.limits import Limits, distance_for, require_minhash, require_simhash
from esdedup.sketch.banding import expected_recall, least_bands
from esdedup.sketch.segments import Layout, probe_masks, segment_values
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import F64, I64, U64, Mask, Unsigned
from esdedup.text.jaccard import hamming


@dataclass(frozen=True)
class Classes:
    """Classes of rows with equal keys: only the first row of each class is compared.

    rows: the first row of each class, ascending, shape (classes,).
    of: the class of each row, shape (n,), or -1 for a row that is in no class.
    """

    rows: I64
    of: I64

    @staticmethod
    def by(keys: U64, filled: Mask) -> Classes:
        """The classes of the rows that are filled, by their keys, shape (n,) or (n, m)."""
        chosen = np.flatnonzero(filled)
        of = np.full(len(keys), -1, np.int64)
        if not chosen.size:
            return Classes(chosen, of)
        wide = keys.ndim > 1 and keys.shape[1] > 1
        compared = keys[chosen] if wide else keys[chosen].ravel()
        _, first, inverse = np.unique(
            compared, return_index=True, return_inverse=True, axis=0 if wide else None
        )
        # Numbered by their first rows, so that classes keep the order of the rows.
        order = np.argsort(first)
        number = np.empty_like(order)
        number[order] = np.arange(order.size)
        of[chosen] = number[inverse.ravel()]
        return Classes(chosen[first[order]], of)

    def first_of(self, values: NDArray[Any]) -> NDArray[Any]:
        """The columns of `values`, shape (m, n), of the first rows: shape (m, classes)."""
        # Values are mapped from a file: they are copied only if some are left out.
        return values if self.rows.size == self.of.size else values[:, self.rows]


@dataclass(frozen=True)
class BandCandidates:
    """Pairs of rows that share at least `least` bands.

    bands: shape (bands, n). columns: their buckets.
    cap: a row is compared with at most this many rows of each bucket.
    recall: the expected share of the pairs at the threshold that are candidates.
    """

    bands: Unsigned
    columns: list[Column]
    cap: int
    least: int
    recall: float

    @staticmethod
    def of(meta: IndexMeta, bands: Unsigned, limits: Limits) -> BandCandidates:
        """The candidates within limits, without the buckets of the index's stop list."""
        rows, threshold = require_minhash(meta.scheme).rows, limits.least_similarity
        stopped = stopped_buckets(meta.stop, "minhash", meta.scheme)
        least = least_bands(threshold, limits.recall, len(bands), rows)
        expected = expected_recall(threshold, len(bands), rows, least)
        columns = bucket_columns(list(bands), stopped)
        return BandCandidates(bands, columns, limits.max_per_bucket, least, expected)

    @property
    def capped(self) -> Capped:
        """The buckets that the cap cuts short."""
        return capped(self.columns, self.cap)

    def blocks(self) -> Iterator[range]:
        """Ranges of rows, ascending, whose pairs are to be in memory together."""
        return blocks_of_rows(self.columns, self.bands.shape[1], self.cap)

    def pairs(self, rows: range) -> Pairs:
        """The pairs with the right row in the range, left < right, by right, then left."""
        return agreeing(self.bands, earlier_pairs(self.columns, rows, self.cap), self.least)


@dataclass(frozen=True)
class HammingPairs:
    """Pairs of fingerprints within a Hamming distance.

    prints: shape (n, words).
    cap: a row is compared with at most this many rows of each bucket.
    stopped: segments and values whose buckets are left out, shape (m,) each.
    """

    prints: U64
    layout: Layout
    distance: int
    cap: int
    stopped: tuple[I64, U64]

    @staticmethod
    def of(meta: IndexMeta, prints: U64, limits: Limits) -> HammingPairs:
        """The pairs within limits, without the buckets of the index's stop list."""
        layout = require_simhash(meta.scheme)
        distance = distance_for(layout, limits.distance)
        stopped = stopped_buckets(meta.stop, "simhash", meta.scheme)
        return HammingPairs(prints, layout, distance, limits.max_per_bucket, stopped)

    @property
    def capped(self) -> Capped:
        """The buckets that the cap cuts short."""
        segments = segment_values(self.prints, self.layout)
        return capped(bucket_columns(list(segments.T), self.stopped), self.cap)

    def blocks(self) -> Iterator[tuple[I64, I64, I64]]:
        """All pairs as (left, right, distance), left < right, in blocks without an order.

        A pair may come more than once if the cap cuts a bucket short.
        """
        radius = self.layout.radius_for(self.distance)
        masks = [probe_masks(width, radius) for width in self.layout.widths]
        segments = segment_values(self.prints, self.layout)
        for left, right in segment_pairs(segments, masks, radius, self.cap, self.stopped):
            apart = hamming(self.prints[left], self.prints[right])
            near = apart <= self.distance
            yield left[near], right[near], apart[near]

    def by_right(self) -> tuple[I64, I64, F64]:
        """All pairs as (left, right, distance), each once, by right, then left."""
        nothing = (np.empty(0, np.int64),) * 3
        left, right, apart = (
            np.concatenate(column) for column in zip(nothing, *self.blocks(), strict=True)
        )
        _, order = np.unique(right << 32 | left, return_index=True)
        return left[order], right[order], apart[order].astype(np.float64)
