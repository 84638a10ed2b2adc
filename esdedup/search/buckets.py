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
"""Rows that are sorted together."""
_ROWS_AT_ONCE = 1 << 20
_ROWS_COUNTED = 16
"""Pairs are counted for this many rows together, to choose blocks."""
_BITS_OF_TABLE = 24
"""Values of as many bits are looked up in a table, of at most 128 MB."""


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
            block = self.rows[start : start + _ROWS_AT_ONCE]
            positions = start + np.flatnonzero((block >= rows.start) & (block < rows.stop))
            yield positions, np.minimum(positions - self.first[positions], cap)


@dataclass(frozen=True)
class Capped:
    """Buckets that hold more rows than a row is compared with.

    buckets: their number.
    largest: number of rows of the largest one.
    """

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

    def tables() -> Iterator[U32]:
        """Yield the rows and the first positions of the buckets in each pass, shape (k, 2)."""
        position = 0
        for rows_of_pass in passes(values, most):
            order, ordered = _ascending(values[rows_of_pass])
            equals_next = ordered[1:] == ordered[:-1]
            in_bucket = np.zeros(ordered.size, np.bool_)
            in_bucket[1:] = equals_next
            in_bucket[:-1] |= equals_next
            if stopped is not None and stopped.size:
                in_bucket &= ~np.isin(ordered, stopped)
            rows = rows_of_pass[order[in_bucket]]
            is_first = run_starts(ordered[in_bucket])
            first = position + np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
            position += rows.size
            yield np.stack([rows, first], axis=1).astype(np.uint32)

    table = np.concatenate([*tables()]) if folder is None else mapped(folder, tables())
    return Column(rows=table[:, 0], first=table[:, 1])


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
    truncated_sizes = (column_sizes[column_sizes > cap] for column_sizes in sizes)
    truncated = np.concatenate([np.empty(0, np.int64), *truncated_sizes])
    return Capped(truncated.size, int(truncated.max(initial=0)))


def blocks_of_rows(
    columns: Sequence[Column], rows: int, cap: int, most: int = PAIRS_A_BLOCK
) -> Iterator[range]:
    """Yield ranges of rows with about `most` pairs with earlier rows each."""
    pairs = np.zeros(-(-rows // _ROWS_COUNTED), np.int64)
    for column in columns:
        for positions, counts in column.earlier(range(rows), cap):
            np.add.at(pairs, column.rows[positions] // _ROWS_COUNTED, counts)
    if pairs.any():
        for block in blocks(pairs, most):
            yield range(block.start * _ROWS_COUNTED, min(rows, block.stop * _ROWS_COUNTED))


def earlier_pairs(columns: Sequence[Column], rows: range, cap: int) -> Pairs:
    """Return the pairs with the right row in a range and left < right, each once, by right, left.

    cap: a row is paired with at most this many rows of each bucket, the first ones.
    """
    pairs_of_columns = [np.empty(0, np.int64)]
    for column in columns:
        for positions, counts in column.earlier(rows, cap):
            left = column.rows[ranges(column.first[positions].astype(np.int64), counts)]
            right = np.repeat(column.rows[positions].astype(np.int64), counts)
            # Both rows in one number, which sorts by right, left.
            pairs_of_columns.append(right << 32 | left)
    pairs = np.concatenate(pairs_of_columns)
    pairs_of_columns.clear()
    # Sorting is many times as fast as `np.unique`, which fills a hash table.
    pairs.sort()
    pairs = pairs[run_starts(pairs)]
    return pairs & 0xFFFFFFFF, pairs >> 32


def shared_bands(bands: Unsigned, left: I64, right: I64) -> NDArray[np.int16]:
    """Return how many bands pairs of rows share, shape (pairs,). bands: shape (bands, n)."""
    counts = np.zeros(left.size, np.int16)
    for band in bands:
        counts += band[left] == band[right]
    return counts


def segment_pairs(
    segments: U64,
    masks: list[U64],
    cap: int,
    stopped: tuple[I64, U64],
    most: int = PAIRS_A_BLOCK,
    bits: int = 64,
) -> Iterator[Pairs]:
    """Yield pairs of rows, left < right, that differ in some segment by one of its masks.

    A pair may come several times. segments: shape (n, segments). masks: of each segment. cap: as in
    `earlier_pairs`. stopped: segments and values, shape (m,) each, whose buckets are left out.
    most: about the number of pairs of a block. bits: the lowest ones, which such values are of.
    """
    rows, lowest = np.arange(len(segments)), np.uint64((1 << bits) - 1)
    stopped_segments, stopped_values = stopped
    for segment, (values, masks_of_segment) in enumerate(zip(segments.T, masks, strict=True)):
        order, ordered = _ascending(values)
        stopped_here = stopped_values[stopped_segments == segment]
        starts_of = _starts(ordered)
        for mask in masks_of_segment:
            # Two values meet once: from the side of the larger one.
            positions = rows if not mask else np.flatnonzero(ordered & _highest(mask))
            partner_values = ordered[positions] ^ mask
            first = starts_of(partner_values)
            # Equal values: a row is paired with the earlier rows of its own bucket.
            end = positions if not mask else starts_of(partner_values + np.uint64(1))
            counts = end - first
            if stopped_here.size:
                is_stopped = np.isin(partner_values & lowest, stopped_here)
                is_stopped |= np.isin(ordered[positions] & lowest, stopped_here)
                counts[is_stopped] = 0
            paired = np.flatnonzero(counts)
            positions, first = positions[paired], first[paired]
            counts = np.minimum(counts[paired], cap)
            for block in blocks(counts, most) if paired.size else ():
                rows_of_block = order[np.repeat(positions[block], counts[block])]
                partners = order[ranges(first[block], counts[block])]
                yield np.minimum(rows_of_block, partners), np.maximum(rows_of_block, partners)


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
    keys = values.astype(np.uint64) << np.uint64(32) | np.arange(values.size, dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64), keys >> np.uint64(32)
