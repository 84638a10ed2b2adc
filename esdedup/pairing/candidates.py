"""Finds candidate pairs among all documents of an index, from the columns that were read of them.

Documents that share enough bands are candidates, to be verified by `verify`. Fingerprints are in
memory, so pairs by Hamming distance are verified here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from esdedup.pairing.comparison import Reading
from esdedup.search import buckets
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import NO_TEXT, digest_words
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import F64, I64, U64, Mask, Unsigned
from esdedup.text.jaccard import hamming


@dataclass(frozen=True)
class Classes:
    """Classes of rows with equal keys: only the first row of each class is compared.

    rows: the first row of each class, shape (classes,), ascending among the first `filled`.
    of: the class of each row, shape (n,), or -1 for a row that is in no class.
    filled: number of classes, the first ones, whose rows have tokens.
    """

    rows: I64
    of: I64
    filled: int

    @staticmethod
    def by_texts(
        digests: U64, filled: Mask, kinds: Mapping[int, int] = MappingProxyType({})
    ) -> Classes:
        """The classes of rows of equal texts, but for texts without any character.

        digests: shape (n, 2). filled: False for texts without words, which only equal others.
        kinds: numbers that tell rows of one text apart; 0 for all rows that are left out.
        """
        keys = digests
        if kinds:
            keys = np.concatenate([digests, np.zeros((len(digests), 1), np.uint64)], axis=1)
            keys[list(kinds), 2] = list(kinds.values())
        return Classes.by(keys, filled, _has_text(digests))

    @staticmethod
    def by_prints(prints: U64, digests: U64, filled: Mask) -> Classes:
        """The classes of rows of equal fingerprints, or of equal texts without words."""
        keys = np.zeros((len(prints), max(2, prints.shape[1])), np.uint64)
        keys[filled, : prints.shape[1]] = prints[filled]
        keys[~filled, :2] = digests[~filled]
        return Classes.by(keys, filled, filled | _has_text(digests))

    @staticmethod
    def by(keys: U64, filled: Mask, chosen: Mask) -> Classes:
        """The classes of the chosen rows, by their keys, shape (n, words)."""
        first = np.where(chosen, np.arange(len(keys)), -1)
        # Most rows are the only ones of their first word: only the others are sorted by all words.
        some = np.sort(buckets.bucket_column(keys[:, 0]).rows) if len(keys) else first
        some = some[chosen[some]]
        # The sort is stable: first rows stay first.
        order = some[np.lexsort(keys[some].T)]
        ordered = keys[order]
        starts = np.ones(order.size, np.bool_)
        starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        first[order] = order[starts][np.cumsum(starts) - 1]
        # Numbered by their first rows, so that classes keep the order of the rows.
        rows = np.flatnonzero(first == np.arange(len(keys)))
        rows = np.concatenate([rows[filled[rows]], rows[~filled[rows]]])
        number = np.full(len(keys) + 1, -1, np.int64)
        number[rows] = np.arange(rows.size)
        return Classes(rows, number[first], int(np.count_nonzero(filled[rows])))

    @property
    def compared(self) -> I64:
        """The first rows of the classes with tokens, ascending, shape (filled,)."""
        return self.rows[: self.filled]

    @property
    def firsts(self) -> I64:
        """The first row of each row's class, shape (n,); its own for a row that is in no class."""
        own = np.arange(self.of.size)
        return np.where(self.of < 0, own, self.rows[self.of]) if self.rows.size else own


def _has_text(digests: U64) -> Mask:
    """Mark the digests of texts with any character, shape (n,)."""
    found: Mask = (digests != digest_words([NO_TEXT])).any(axis=1)
    return found


class BandCandidates:
    """Pairs of rows that share enough bands, without the buckets of the index's stop list.

    reading: of the bands, shape (bands, n).
    compared: the rows of bands to compare, shape (m,). Pairs are of their positions.
    folder: for buckets, which are mapped from files without names.
    capped: the buckets that the cap cuts short.
    recall: the expected share of the pairs at the threshold that are candidates. None if buckets
    are stopped or cut: how many pairs meet only in these depends on the texts.
    """

    def __init__(
        self, reading: Reading, bands: Unsigned, compared: I64, limits: Limits, folder: Path
    ) -> None:
        meta, sketch = reading.compared, reading.sketch
        assert sketch is not None
        limits = replace(limits, swaps=0)
        at, stopped = stopped_buckets(meta.stop, sketch)
        self._bands, self._compared, self._cap = bands, compared, limits.max_per_bucket
        # Bands are mapped from a file too: one at a time is in memory.
        self._columns = [
            buckets.bucket_column(band[compared], stopped[at == position]).in_file(folder)
            for position, band in enumerate(bands)
        ]
        self._least = sketch.least(limits, len(bands))
        self.capped = buckets.capped(self._columns, self._cap)
        self.recall = sketch.recall(limits, len(bands), self._least)
        if stopped.size or self.capped.buckets:
            self.recall = None

    def blocks(self, done: int = 0) -> Iterator[tuple[int, I64, I64]]:
        """Blocks of (rows done after it, left, right), by right, then left, after `done` rows."""
        for rows in buckets.blocks_of_rows(self._columns, self._compared.size, self._cap):
            if rows.stop > done:
                yield rows.stop, *self._pairs(rows)

    def _pairs(self, rows: range) -> buckets.Pairs:
        left, right = buckets.earlier_pairs(self._columns, rows, self._cap)
        if self._least <= 1:
            return left, right
        shared = buckets.shared_bands(self._bands, self._compared[left], self._compared[right])
        return left[shared >= self._least], right[shared >= self._least]


@dataclass(frozen=True)
class GivenPairs:
    """Pairs of rows that are given, by right, then left; none by default. All are compared."""

    left: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    right: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    capped: buckets.Capped = buckets.Capped()  # noqa: RUF009
    recall: float | None = 1.0

    def blocks(self, done: int = 0) -> Iterator[tuple[int, I64, I64]]:
        """Return all pairs as one block, as `BandCandidates.blocks`."""
        if self.right.size and not done:
            yield int(self.right[-1]) + 1, self.left, self.right


class HammingPairs:
    """Pairs of fingerprints within a Hamming distance, without the buckets of the stop list.

    prints: shape (n, words). capped: the buckets that the cap cuts short. recall: 1, or None if
    buckets are stopped or cut.
    """

    def __init__(self, meta: IndexMeta, prints: U64, limits: Limits) -> None:
        sketch = limits.chosen(meta.scheme)
        self._prints, self._cap = prints, limits.max_per_bucket
        self.distance, self._masks = sketch.distance(limits), sketch.masks(limits)
        self._stopped = stopped_buckets(meta.stop, sketch)
        self._segments = sketch.token_values(prints)
        at, values = self._stopped
        columns = [
            buckets.bucket_column(segment, values[at == position])
            for position, segment in enumerate(self._segments.T)
        ]
        self.capped = buckets.capped(columns, self._cap)
        self.recall = None if values.size or self.capped.buckets else 1.0

    def blocks(self) -> Iterator[tuple[I64, I64, I64]]:
        """All pairs as (left, right, distance), left < right; some twice if the cap cuts."""
        caps = self._cap, self._stopped
        for left, right in buckets.segment_pairs(self._segments, self._masks, *caps):
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
