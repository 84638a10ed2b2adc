"""Candidate pairs of documents, which `verify` compares exactly: those that share enough tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from esdedup.pairing.comparison import Reading
from esdedup.search import buckets
from esdedup.search.buckets import Capped
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import NO_TEXT, digest_words
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import I64, U64, Mask, Unsigned, blocks, run_starts
from esdedup.text.jaccard import hamming

Block = tuple[int, I64, I64]
"""Rows done after the block, and its pairs of rows, left < right, by right and then left."""


class Classes(NamedTuple):
    """Classes of rows of equal text, of which only the first row is compared.

    rows: the first row of each class, shape (classes,), ascending among the first `filled`.
    of: the class of each row, shape (n,), or -1 for a text without any character.
    filled: number of classes, the first ones, whose rows have tokens.
    """

    rows: I64
    of: I64
    filled: int

    @property
    def compared(self) -> I64:
        """The first rows of the classes with tokens, ascending, shape (filled,)."""
        return self.rows[: self.filled]

    @property
    def firsts(self) -> I64:
        """The first row of each row's class, its own without a class: shape (n,)."""
        own = np.arange(self.of.size)
        return np.where(self.of < 0, own, self.rows[self.of]) if self.rows.size else own


def classes_of(
    digests: U64, filled: Mask, kinds: Mapping[int, int] = MappingProxyType({})
) -> Classes:
    """Return the classes of n rows.

    digests: of their texts, shape (n, 2). filled: False for texts without words, which are only
    equal to others, shape (n,). kinds: by row, numbers that separate rows of equal text.
    """
    keys = np.zeros((len(digests), 3), np.uint64)
    keys[:, :2] = digests
    keys[list(kinds), 2] = list(kinds.values())
    # The sort is stable: the first row of a class stays its first.
    order = np.lexsort(keys.T)
    fresh = np.logical_or.reduce([run_starts(word) for word in keys[order].T])
    first = np.empty(len(keys), np.int64)
    first[order] = order[fresh][np.cumsum(fresh) - 1]
    first[(digests == digest_words([NO_TEXT])).all(axis=1)] = -1
    rows = np.flatnonzero(first == np.arange(first.size))
    rows = np.concatenate([rows[filled[rows]], rows[~filled[rows]]])
    number = np.full(first.size + 1, -1, np.int64)
    number[rows] = np.arange(rows.size)
    return Classes(rows, number[first], int(np.count_nonzero(filled[rows])))


class Candidates(Protocol):
    """Pairs of positions among the rows that are compared.

    capped: buckets of which not all pairs are candidates. recall: expected share of the pairs
    within the limits that are candidates; None if buckets are stopped or capped, since how many
    pairs share only these depends on the texts.
    """

    capped: Capped
    recall: float | None

    def blocks(self) -> Iterator[Block]:
        """Yield the pairs, each once."""


def candidates_of(
    reading: Reading, values: Unsigned, compared: I64, limits: Limits, folder: Path
) -> Candidates:
    """Return the candidates among some rows.

    values: of n documents, shape (width, n). compared: the rows, shape (m,). folder: for buckets,
    which are mapped from files.
    """
    assert reading.sketch is not None
    if reading.sketch.metric == "hamming":
        return _Fingerprints(reading, values, compared, limits)
    return _Bands(reading, values, compared, limits, folder)


class GivenPairs:
    """Pairs that are all candidates. left, right: as in a block, shape (pairs,)."""

    capped = Capped()
    recall: float | None = 1.0

    def __init__(self, left: I64, right: I64) -> None:
        self._left, self._right = left, right

    def blocks(self) -> Iterator[Block]:
        if self._right.size:
            yield int(self._right[-1]) + 1, self._left, self._right


class _Bands:
    def __init__(
        self, reading: Reading, bands: Unsigned, compared: I64, limits: Limits, folder: Path
    ) -> None:
        sketch, limits = reading.sketch, replace(limits, swaps=0)
        assert sketch is not None
        at, stopped = stopped_buckets(reading.compared.stop, sketch)
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

    def blocks(self) -> Iterator[Block]:
        for rows in buckets.blocks_of_rows(self._columns, self._compared.size, self._cap):
            left, right = buckets.earlier_pairs(self._columns, rows, self._cap)
            if self._least > 1:
                pairs = self._compared[left], self._compared[right]
                enough = buckets.shared_bands(self._bands, *pairs) >= self._least
                left, right = left[enough], right[enough]
            yield rows.stop, left, right


class _Fingerprints:
    def __init__(self, reading: Reading, values: Unsigned, compared: I64, limits: Limits) -> None:
        sketch = reading.sketch
        assert sketch is not None
        self._prints, self._cap = prints_of(values, compared), limits.max_per_bucket
        self._distance, self._masks = sketch.distance(limits), sketch.masks(limits)
        self._stopped = stopped_buckets(reading.compared.stop, sketch)
        self._segments = sketch.token_values(self._prints)
        at, stopped = self._stopped
        columns = [
            buckets.bucket_column(segment, stopped[at == position])
            for position, segment in enumerate(self._segments.T)
        ]
        self.capped = buckets.capped(columns, self._cap)
        self.recall = None if stopped.size or self.capped.buckets else 1.0

    def blocks(self) -> Iterator[Block]:
        found = [np.empty(0, np.int64)]
        caps = self._cap, self._stopped
        for left, right in buckets.segment_pairs(self._segments, self._masks, *caps):
            near = hamming(self._prints[left], self._prints[right]) <= self._distance
            found.append(right[near] << 32 | left[near])
        pairs = np.concatenate(found)
        pairs.sort()
        pairs = pairs[run_starts(pairs)]
        sizes = np.bincount(pairs >> 32, minlength=len(self._prints))
        for rows in blocks(sizes, buckets.PAIRS_A_BLOCK):
            some = pairs[slice(*np.searchsorted(pairs, [rows.start << 32, rows.stop << 32]))]
            if some.size:
                yield rows.stop, some & 0xFFFFFFFF, some >> 32


def prints_of(values: Unsigned, rows: I64) -> U64:
    """Return the fingerprints of some rows, shape (m, words). values: shape (words, n)."""
    return np.ascontiguousarray(values.T)[rows].astype(np.uint64, copy=False)
