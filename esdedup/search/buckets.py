"""Finds the pairs of rows that share a bucket, in numpy, in blocks of bounded memory.

A bucket holds the rows that have the same value in one column: a band, or a segment.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from esdedup.stores.memory_mapped import mapped
from esdedup.text.arrays import I64, U32, U64, Unsigned, blocks, offsets_of, ranges, run_starts

Pairs = tuple[I64, I64]
"""Left and right rows, shape (pairs,) each."""
PAIRS_A_BLOCK = 1 << 22
"""Pairs within buckets that are handled together: keeps the arrays near 200 MB."""
ROWS_A_PASS = 1 << 24
_ROWS_AT_ONCE, _ROWS_COUNTED = 1 << 20, 16
_BITS_OF_TABLE = 24


@dataclass(frozen=True)
class Column:
    """The buckets of one column that hold two rows or more, of k rows together.

    rows: bucket after bucket, ascending in each, shape (k,).
    first: for each of these the position in `rows` at which its bucket begins, shape (k,).
    """

    rows: U32
    first: U32

    def earlier(self, rows: range, cap: int) -> Iterator[tuple[I64, I64]]:
        """Yield the positions of rows, and how many earlier rows of its bucket each is paired with.

        Positions ascend, so that a file is read from its beginning to its end.
        """
        for start in range(0, self.rows.size, _ROWS_AT_ONCE):
            some = self.rows[start : start + _ROWS_AT_ONCE]
            at = start + np.flatnonzero((some >= rows.start) & (some < rows.stop))
            yield at, np.minimum(at - self.first[at], cap)


@dataclass(frozen=True)
class Capped:
    """Buckets that hold more rows than a row is compared with: their number, and the largest."""

    buckets: int = 0
    largest: int = 0

    def __add__(self, other: Capped) -> Capped:
        return Capped(self.buckets + other.buckets, max(self.largest, other.largest))


def bucket_column(
    values: Unsigned,
    stopped: U64 | None = None,
    most: int = ROWS_A_PASS,
    folder: Path | None = None,
) -> Column:
    """Return the buckets of a column of values, shape (n,).

    stopped: values without a bucket. most: number of rows to sort at once. folder: to map the
    buckets from a temporary file. Raises StoreError if they can't be.
    """

    def parts() -> Iterator[U32]:
        begin = 0
        for some in passes(values, most):
            order, ordered = _ascending(values[some])
            equal = ordered[1:] == ordered[:-1]
            kept = np.zeros(ordered.size, np.bool_)
            kept[1:] = equal
            kept[:-1] |= equal
            if stopped is not None and stopped.size:
                kept &= ~np.isin(ordered, stopped)
            rows, fresh = some[order[kept]], run_starts(ordered[kept])
            first = begin + np.flatnonzero(fresh)[np.cumsum(fresh) - 1]
            begin += rows.size
            yield np.stack([rows, first], axis=1).astype(np.uint32)

    table = np.concatenate([*parts()]) if folder is None else mapped(folder, parts())
    return Column(table[:, 0], table[:, 1])


def passes(values: Unsigned, most: int) -> Iterator[I64]:
    """Yield the rows of each of several ranges of values, ascending: about `most` at once.

    Values are hashes: ranges of equal width hold about as many. Sorting one range after the other
    sorts all, and reads the values in their order once for each.
    """
    count = max(1, -(-values.size // most))
    top = int(values.max(initial=0)) + 1
    for low, high in itertools.pairwise(top * step // count for step in range(count + 1)):
        yield np.flatnonzero((values >= low) & (values <= high - 1))


def capped(columns: Sequence[Column], cap: int) -> Capped:
    """Return the buckets that a cap truncates."""
    sizes = (np.bincount(column.first) for column in columns)
    over = np.concatenate([np.empty(0, np.int64), *(each[each > cap] for each in sizes)])
    return Capped(over.size, int(over.max(initial=0)))


def blocks_of_rows(
    columns: Sequence[Column], rows: int, cap: int, most: int = PAIRS_A_BLOCK
) -> Iterator[range]:
    """Yield ranges of rows with about `most` pairs with earlier rows each."""
    meetings = np.zeros(-(-rows // _ROWS_COUNTED), np.int64)
    for column in columns:
        for at, many in column.earlier(range(rows), cap):
            np.add.at(meetings, column.rows[at] // _ROWS_COUNTED, many)
    if meetings.any():
        for block in blocks(meetings, most):
            yield range(block.start * _ROWS_COUNTED, min(rows, block.stop * _ROWS_COUNTED))


def earlier_pairs(columns: Sequence[Column], rows: range, cap: int) -> Pairs:
    """Return the pairs with the right row in a range and left < right, each once, by right, left.

    cap: a row is paired with at most this many rows of each bucket, the first ones.
    """
    pairs = [np.empty(0, np.int64)]
    for column in columns:
        for at, many in column.earlier(rows, cap):
            left = column.rows[ranges(column.first[at].astype(np.int64), many)]
            right = np.repeat(column.rows[at].astype(np.int64), many)
            pairs.append(right << 32 | left)
    both = np.concatenate(pairs)
    pairs.clear()
    # Sorting is many times as fast as `np.unique`, which fills a hash table.
    both.sort()
    both = both[run_starts(both)]
    return both & 0xFFFFFFFF, both >> 32


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
        starts = _starts(ordered)
        for mask in some:
            # Two values meet once: from the side of the larger one.
            at = rows if not mask else np.flatnonzero(ordered & _highest(mask))
            partner = ordered[at] ^ mask
            first = starts(partner)
            counts = (at if not mask else starts(partner + np.uint64(1))) - first
            if without.size:
                counts[np.isin(partner, without) | np.isin(ordered[at], without)] = 0
            met = np.flatnonzero(counts)
            at, first, counts = at[met], first[met], np.minimum(counts[met], cap)
            for block in blocks(counts, PAIRS_A_BLOCK) if met.size else ():
                many = counts[block]
                a, b = order[np.repeat(at[block], many)], order[ranges(first[block], many)]
                yield np.minimum(a, b), np.maximum(a, b)


def _highest(mask: np.uint64) -> np.uint64:
    """Return the highest bit of a mask."""
    return np.uint64(1 << int(mask).bit_length() - 1)


def _starts(ordered: U64) -> Callable[[U64], I64]:
    """Return a function that finds how many of some ascending values are below each other one."""
    if not ordered.size or ordered[-1] >> np.uint64(_BITS_OF_TABLE):
        return lambda values: np.searchsorted(ordered, values)
    # A table takes a fifth of the time of a search.
    table = offsets_of(np.bincount(ordered.astype(np.int64), minlength=int(ordered[-1]) + 2))
    return lambda values: table[values.astype(np.int64)]


def _ascending(values: Unsigned) -> tuple[I64, U64]:
    """Return the rows by their values, ties by row, and the values in that order."""
    if values.size and values.max() >> 32:
        order = np.argsort(values, kind="stable")
        return order, values[order].astype(np.uint64)
    # Sorting numbers is several times as fast as `argsort`.
    both = values.astype(np.uint64) << np.uint64(32) | np.arange(values.size, dtype=np.uint64)
    both.sort()
    return (both & np.uint64(0xFFFFFFFF)).astype(np.int64), both >> np.uint64(32)
