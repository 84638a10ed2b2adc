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

from esdedup.search import buckets
from esdedup.search.limits import Limits, distance_for, require_minhash, require_simhash
from esdedup.sketch.banding import expected_recall, least_bands
from esdedup.sketch.segments import probe_masks, segment_values
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


class BandCandidates:
    """Pairs of rows that share enough bands, without the buckets of the index's stop list.

    bands: shape (bands, n). capped: the buckets that the cap cuts short.
    recall: the expected share of the pairs at the threshold that are candidates.
    """

    def __init__(self, meta: IndexMeta, bands: Unsigned, limits: Limits) -> None:
        rows, threshold = require_minhash(meta.scheme).rows, limits.least_similarity
        stopped = stopped_buckets(meta.stop, "minhash", meta.scheme)
        self._bands, self._cap = bands, limits.max_per_bucket
        self._columns = buckets.bucket_columns(bands, stopped)
        self._least = least_bands(threshold, limits.recall, len(bands), rows)
        self.capped = buckets.capped(self._columns, self._cap)
        self.recall = expected_recall(threshold, len(bands), rows, self._least)

    def blocks(self, done: int = 0) -> Iterator[tuple[int, I64, I64]]:
        """Blocks of (rows done after it, left, right), by right, then left, after `done` rows."""
        for rows in buckets.blocks_of_rows(self._columns, self._bands.shape[1], self._cap):
            if rows.stop > done:
                yield rows.stop, *self._pairs(rows)

    def _pairs(self, rows: range) -> buckets.Pairs:
        pairs = buckets.earlier_pairs(self._columns, rows, self._cap)
        return buckets.agreeing(self._bands, pairs, self._least)


class HammingPairs:
    """Pairs of fingerprints within a Hamming distance, without the buckets of the stop list.

    prints: shape (n, words). capped: the buckets that the cap cuts short.
    """

    def __init__(self, meta: IndexMeta, prints: U64, limits: Limits) -> None:
        self._prints, self._cap = prints, limits.max_per_bucket
        self._layout = require_simhash(meta.scheme)
        self.distance = distance_for(self._layout, limits.distance)
        self._stopped = stopped_buckets(meta.stop, "simhash", meta.scheme)
        self._segments = segment_values(prints, self._layout)
        columns = buckets.bucket_columns(self._segments.T, self._stopped)
        self.capped = buckets.capped(columns, self._cap)

    def blocks(self) -> Iterator[tuple[I64, I64, I64]]:
        """All pairs as (left, right, distance), left < right; some twice if the cap cuts."""
        radius = self._layout.radius_for(self.distance)
        masks = [probe_masks(width, radius) for width in self._layout.widths]
        limits = self._cap, self._stopped
        for left, right in buckets.segment_pairs(self._segments, masks, radius, *limits):
            apart = hamming(self._prints[left], self._prints[right])
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
