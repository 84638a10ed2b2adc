"""Finds the pairs of rows that share a bucket, in numpy, in blocks of bounded memory.

A bucket holds the rows that have the same value in one column: a band, or a segment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import StoreError
from esdedup.text.arrays import I64, U32, U64, Unsigned, blocks, ranges, run_starts

Pairs = tuple[I64, I64]
"""Left and right rows, shape (pairs,) each."""
PAIRS_A_BLOCK = 1 << 22
"""Pairs within buckets that are handled together: keeps the arrays near 200 MB."""


@dataclass(frozen=True)
class Column:
    """The buckets of one column that hold two rows or more, of k rows together.

    rows: bucket after bucket, ascending in each, shape (k,).
    ascending: the same rows, ascending, shape (k,).
    at: for each of these its position in `rows`, shape (k,).
    first: for each of these the position in `rows` at which its bucket begins, shape (k,).
    """

    rows: U32
    ascending: U32
    at: U32
    first: U32

    def in_file(self, folder: Path) -> Column:
        """Return the column mapped from a temporary file. Raises StoreError if it can't be."""
        table = np.stack([self.rows, self.ascending, self.at, self.first])
        if table.size:
            try:
                with tempfile.TemporaryFile(dir=folder) as file:
                    file.write(table.data)
                    file.flush()
                    table = np.memmap(file, table.dtype, "r", shape=table.shape)
            except OSError as error:
                raise StoreError(f"work folder {folder}: {error.strerror}") from error
        return Column(*table)

    def among(self, rows: range) -> slice:
        """Return the part of `ascending`, `at` and `first` whose rows are in a range."""
        ends = np.searchsorted(self.ascending, np.array([rows.start, rows.stop], np.uint32))
        return slice(*ends.tolist())


@dataclass(frozen=True)
class Capped:
    """Buckets that hold more rows than a row is compared with: their number, and the largest."""

    buckets: int = 0
    largest: int = 0

    def __add__(self, other: Capped) -> Capped:
        return Capped(self.buckets + other.buckets, max(self.largest, other.largest))


def bucket_column(values: Unsigned, stopped: U64 | None = None) -> Column:
    """Return the buckets of a column of values, shape (n,). stopped: values without a bucket."""
    order, ordered = _ascending(values)
    equal = ordered[1:] == ordered[:-1]
    kept = np.zeros(values.size, np.bool_)
    kept[1:] = equal
    kept[:-1] |= equal
    if stopped is not None and stopped.size:
        kept &= ~np.isin(ordered, stopped)
    rows, ordered = order[kept].astype(np.uint32), ordered[kept]
    fresh = run_starts(ordered)
    first = np.flatnonzero(fresh)[np.cumsum(fresh) - 1].astype(np.uint32)
    at, ascending = _ascending(rows)
    return Column(rows, ascending.astype(np.uint32), at.astype(np.uint32), first[at])


def capped(columns: Sequence[Column], cap: int) -> Capped:
    """Return the buckets that a cap truncates."""
    sizes = (np.bincount(column.first) for column in columns)
    over = np.concatenate([np.empty(0, np.int64), *(each[each > cap] for each in sizes)])
    return Capped(over.size, int(over.max(initial=0)))


def blocks_of_rows(columns: Sequence[Column], rows: int, cap: int) -> Iterator[range]:
    """Yield ranges of rows with about PAIRS_A_BLOCK pairs with earlier rows each."""
    meetings = np.zeros(rows, np.int64)
    for column in columns:
        # No row comes twice: it is in at most one bucket of a column.
        meetings[column.ascending] += _earlier(column, slice(None), cap)
    if meetings.any():
        for block in blocks(meetings, PAIRS_A_BLOCK):
            yield range(block.start, block.stop)


def earlier_pairs(columns: Sequence[Column], rows: range, cap: int) -> Pairs:
    """Return the pairs with the right row in a range and left < right, each once, by right, left.

    cap: a row is paired with at most this many rows of each bucket, the first ones.
    """
    pairs = []
    for column in columns:
        some = column.among(rows)
        many = _earlier(column, some, cap)
        right = np.repeat(column.ascending[some].astype(np.int64), many)
        pairs.append(right << 32 | column.rows[ranges(column.first[some].astype(np.int64), many)])
    both = np.concatenate(pairs)
    # Sorting is many times as fast as `np.unique`, which fills a hash table.
    both.sort()
    both = both[run_starts(both)]
    return both & 0xFFFFFFFF, both >> 32


def _earlier(column: Column, some: slice, cap: int) -> I64:
    """Return the number of earlier rows of its bucket that each of some rows is paired with."""
    return np.minimum((column.at[some] - column.first[some]).astype(np.int64), cap)


def shared_bands(bands: Unsigned, left: I64, right: I64) -> NDArray[np.int16]:
    """Return how many bands pairs of rows share, shape (pairs,). bands: shape (bands, n)."""
    met = np.zeros(left.size, np.int16)
    for band in bands:
        met += band[left] == band[right]
    return met


def segment_pairs(
    segments: U64, masks: list[U64], cap: int, stopped: tuple[I64, U64]
) -> Iterator[Pairs]:
    """Yield pairs of rows, left < right, that differ in some segment by one of its masks.

    A pair may come several times. segments: shape (n, segments). masks: of each segment. cap: as in
    `earlier_pairs`. stopped: segments and values, shape (m,) each, whose buckets are left out.
    """
    rows = np.arange(len(segments))
    for column, (values, some) in enumerate(zip(segments.T, masks, strict=True)):
        order, ordered = _ascending(values)
        without = stopped[1][stopped[0] == column]
        for mask in some:
            partner = ordered ^ mask
            first = np.searchsorted(ordered, partner, "left")
            counts = rows - first
            if mask:
                # Two values meet once: from the side of the larger one.
                after = np.searchsorted(ordered, partner, "right")
                counts = np.where(ordered > partner, after - first, 0)
            counts = np.minimum(counts, cap)
            if without.size:
                counts[np.isin(partner, without) | np.isin(ordered, without)] = 0
            for block in blocks(counts, PAIRS_A_BLOCK) if counts.any() else ():
                many = counts[block]
                a, b = order[np.repeat(rows[block], many)], order[ranges(first[block], many)]
                yield np.minimum(a, b), np.maximum(a, b)


def _ascending(values: Unsigned) -> tuple[I64, U64]:
    """Return the rows by their values, ties by row, and the values in that order."""
    if values.size and values.max() >> 32:
        order = np.argsort(values, kind="stable")
        return order, values[order].astype(np.uint64)
    # Sorting numbers is several times as fast as `argsort`.
    both = values.astype(np.uint64) << np.uint64(32) | np.arange(values.size, dtype=np.uint64)
    both.sort()
    return (both & np.uint64(0xFFFFFFFF)).astype(np.int64), both >> np.uint64(32)
