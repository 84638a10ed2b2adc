"""Candidates among all documents of an index, by what `columns` read of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from esdedup.search.buckets import (
    Capped,
    Column,
    Pairs,
    agreeing,
    blocks_of_rows,
    bucket_column,
    bucket_columns,
    capped,
    earlier_pairs,
    segment_pairs,
)
from esdedup.search.limits import Limits, distance_for, require_simhash
from esdedup.sketch.banding import expected_recall, least_bands
from esdedup.sketch.segments import Layout, probe_masks, segment_values
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import I64, U64
from esdedup.text.jaccard import hamming


@dataclass(frozen=True)
class Classes:
    """Rows that are equal in what they are compared by, each class once.

    rows: the first row of each class, ascending, shape (classes,). of: the class of each row,
    shape (n,), or -1 for a row that is in none.
    """

    rows: I64
    of: I64

    @staticmethod
    def by(keys: NDArray[np.uint64], filled: NDArray[np.bool_]) -> Classes:
        """Classes of rows with equal keys, shape (n,) or (n, m), of those that are filled."""
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


@dataclass(frozen=True)
class EqualRows:
    """Pairs of rows of one class.

    rows: those that are in a class, ascending, shape (m,). column: their classes as buckets of
    positions in `rows`. cap: a row is paired with only so many, the first ones.
    """

    rows: I64
    column: Column
    cap: int

    @staticmethod
    def of(classes: Classes, cap: int) -> EqualRows:
        """The pairs within classes."""
        rows = np.flatnonzero(classes.of >= 0)
        return EqualRows(rows, bucket_column(classes.of[rows].astype(np.uint64)), cap)

    @property
    def capped(self) -> Capped:
        """The classes that the cap cuts short."""
        return capped([self.column], self.cap)

    def pairs(self) -> Pairs:
        """All of them, left < right."""
        blocks = blocks_of_rows([self.column], self.rows.size, self.cap)
        parts = [earlier_pairs([self.column], block, self.cap) for block in blocks]
        lefts = [self.rows[left] for left, _ in parts]
        rights = [self.rows[right] for _, right in parts]
        nothing = np.empty(0, np.int64)
        return np.concatenate([nothing, *lefts]), np.concatenate([nothing, *rights])


@dataclass(frozen=True)
class BandJoin:
    """Pairs of rows that share bands.

    bands: shape (bands, n). columns: their buckets. cap: a row is compared with only so many of a
    bucket. least: bands that a pair must share. recall: the share of the pairs at the threshold
    that do.
    """

    bands: NDArray[np.unsignedinteger]
    columns: list[Column]
    cap: int
    least: int
    recall: float

    @staticmethod
    def of(meta: IndexMeta, bands: NDArray[np.unsignedinteger], limits: Limits) -> BandJoin:
        """The join of band hashes for pairs at or over a threshold, found with a recall.

        Buckets of the index's stop list join nothing.
        """
        assert meta.scheme.minhash is not None
        rows, threshold = meta.scheme.minhash.rows, limits.least_similarity
        stopped = stopped_buckets(meta.stop, "minhash", meta.scheme)
        columns = bucket_columns(list(bands), stopped)
        least = least_bands(threshold, limits.recall, len(bands), rows)
        expected = expected_recall(threshold, len(bands), rows, least)
        return BandJoin(bands, columns, limits.max_per_bucket, least, expected)

    @property
    def capped(self) -> Capped:
        """The buckets that the cap cuts short."""
        return capped(self.columns, self.cap)

    def blocks(self) -> Iterator[range]:
        """Ranges of rows whose candidates are in memory at a time, in ascending order."""
        return blocks_of_rows(self.columns, self.bands.shape[1], self.cap)

    def candidates(self, rows: range) -> Pairs:
        """The pairs whose right row is in the range, left < right, by right and left."""
        return agreeing(self.bands, earlier_pairs(self.columns, rows, self.cap), self.least)


@dataclass(frozen=True)
class SegmentJoin:
    """Pairs of fingerprints, shape (n, words), within a Hamming distance; cap as for bands.

    stopped: segments and values that join nothing, shape (m,) each.
    """

    prints: U64
    layout: Layout
    distance: int
    cap: int
    stopped: tuple[I64, U64]

    @staticmethod
    def of(meta: IndexMeta, prints: U64, limits: Limits) -> SegmentJoin:
        """The join of fingerprints. Buckets of the index's stop list join nothing."""
        layout = require_simhash(meta.scheme)
        distance = distance_for(layout, limits.distance)
        stopped = stopped_buckets(meta.stop, "simhash", meta.scheme)
        return SegmentJoin(prints, layout, distance, limits.max_per_bucket, stopped)

    @property
    def capped(self) -> Capped:
        """The buckets that the cap cuts short."""
        segments = segment_values(self.prints, self.layout)
        return capped(bucket_columns(list(segments.T), self.stopped), self.cap)

    def blocks(self) -> Iterator[tuple[I64, I64, I64]]:
        """(left, right, distance) of all pairs, left < right, in blocks of no order.

        Where the cap cuts, a pair may come more than once.
        """
        radius = self.layout.radius_for(self.distance)
        masks = [probe_masks(width, radius) for width in self.layout.widths]
        segments = segment_values(self.prints, self.layout)
        for left, right in segment_pairs(segments, masks, radius, self.cap, self.stopped):
            apart = hamming(self.prints[left], self.prints[right])
            near = apart <= self.distance
            yield left[near], right[near], apart[near]

    def by_right(self) -> tuple[I64, I64, NDArray[np.float64]]:
        """All pairs by their right and left rows, each once."""
        blocks = list(self.blocks())
        if not blocks:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        left, right, apart = (np.concatenate([block[at] for block in blocks]) for at in range(3))
        _, order = np.unique(right << 32 | left, return_index=True)
        return left[order], right[order], apart[order].astype(np.float64)
