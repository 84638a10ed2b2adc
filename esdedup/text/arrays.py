"""Rows of unequal length in one array ("ragged" rows), and the types of the arrays.

Work on many texts at once is written with these functions, without a Python loop over texts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]
Unsigned = NDArray[np.unsignedinteger]
_MOST_MERGED = 1 << 24
"""Values in one sorted array. Merging two arrays takes as much memory again."""


@dataclass(frozen=True)
class Ragged:
    """Rows of 64-bit hashes of unequal length: row i is hashes[offsets[i]:offsets[i + 1]].

    hashes: of all rows, shape (total,).
    offsets: where each row starts, and the end, shape (rows + 1,).
    """

    hashes: U64
    offsets: I64

    @staticmethod
    def joined(arrays: Sequence[Ragged]) -> Ragged:
        """Return the rows of all arrays, in order. There is at least one array."""
        if len(arrays) == 1:
            return arrays[0]
        counts = np.concatenate([array.counts for array in arrays])
        return Ragged(np.concatenate([array.hashes for array in arrays]), offsets_of(counts))

    @staticmethod
    def of_rows(rows: Sequence[U64]) -> Ragged:
        """Return rows in one array."""
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        return Ragged(np.concatenate([np.empty(0, np.uint64), *rows]), offsets_of(counts))

    @property
    def counts(self) -> I64:
        """The number of hashes in each row: shape (rows,)."""
        # Many times as fast as `np.diff` for few rows.
        return self.offsets[1:] - self.offsets[:-1]

    def only(self, keep: Mask) -> Ragged:
        """Return the same rows without some of their hashes. keep: shape (total,)."""
        return Ragged(self.hashes[keep], offsets_of(keep)[self.offsets])

    def slice(self, first: int, last: int) -> Ragged:
        """Return the rows first .. last - 1, without a copy of their hashes."""
        bounds = self.offsets[first : last + 1]
        return Ragged(self.hashes[bounds[0] : bounds[-1]], bounds - bounds[0])

    def of(self, rows: I64) -> Ragged:
        """Return some rows, in the given order. rows: shape (m,)."""
        counts = self.counts[rows]
        return Ragged(self.hashes[ranges(self.offsets[rows], counts)], offsets_of(counts))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> U64: ...
    @overload
    def __getitem__(self, row: I64) -> Ragged: ...
    def __getitem__(self, row: int | I64) -> U64 | Ragged:
        if isinstance(row, np.ndarray):
            return self.of(row)
        return self.hashes[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[U64]:
        bounds = self.offsets.tolist()
        return (self.hashes[start:end] for start, end in itertools.pairwise(bounds))


Values = U64 | Ragged
"""Values of n rows: an array of the shape (n, values), or rows of unequal length."""


def joined(arrays: Sequence[Any]) -> Any:
    """Return the rows of arrays of one form, in order. There is at least one array."""
    return Ragged.joined(arrays) if isinstance(arrays[0], Ragged) else np.concatenate(arrays)


def offsets_of(counts: I64 | Mask) -> I64:
    """Return row offsets, shape (rows + 1,), from row lengths, shape (rows,)."""
    offsets = np.zeros(counts.size + 1, np.int64)
    counts.cumsum(out=offsets[1:])
    return offsets


def ranges(starts: I64 | int, counts: I64) -> I64:
    """Join the ranges of counts[i] numbers from starts[i], or all from one start."""
    offsets = offsets_of(counts)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)


def renumbered(left: I64, right: I64) -> tuple[I64, I64, I64]:
    """Return the distinct rows of pairs, ascending, and the positions of left and right there."""
    rows, positions = np.unique(np.concatenate([left, right]), return_inverse=True)
    return rows, positions[: left.size], positions[left.size :]


def run_starts(values: NDArray[np.generic]) -> Mask:
    """Mark each value that differs from the one before it, the first one too: shape (n,)."""
    starts = np.ones(values.size, np.bool_)
    starts[1:] = values[1:] != values[:-1]
    return starts


def runs_of(marked: Mask) -> I64:
    """Return where runs of marked positions start and end, shape (n, 2)."""
    edges = np.diff(np.concatenate([[False], marked, [False]]))
    return np.flatnonzero(edges).reshape(-1, 2)


def spanned(starts: I64, ends: I64, count: int) -> Mask:
    """Mark the positions from starts[i] to ends[i] - 1 of `count`: shape (count,)."""
    edges = np.zeros(count + 1, np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, np.minimum(ends, count), -1)
    marked: Mask = np.cumsum(edges)[:count] > 0
    return marked


def blocks(sizes: I64, budget: int) -> Iterator[slice]:
    """Yield slices of rows whose sizes add up to about `budget`; an empty one for no rows."""
    if sizes.sum() < budget:
        yield slice(0, sizes.size)
        return
    block = np.cumsum(sizes) // budget
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), sizes.size]
    yield from (slice(start, end) for start, end in itertools.pairwise(edges))


class SeenValues:
    """Values that came before, exactly: sorted arrays, which are merged as they grow.

    size: number of different values. Memory is that of the values, and as much again while the
    largest arrays are merged.
    """

    def __init__(self) -> None:
        self._sorted: list[NDArray[np.generic]] = []

    @property
    def size(self) -> int:
        """The number of different values."""
        return sum(array.size for array in self._sorted)

    def among(self, values: NDArray[np.generic]) -> Mask:
        """Return which values came before, without adding them: shape (n,)."""
        came = np.zeros(values.size, np.bool_)
        for array in self._sorted:
            nearest = np.minimum(np.searchsorted(array, values), array.size - 1)
            came |= array[nearest] == values
        return came

    def add(self, values: NDArray[np.generic]) -> Mask:
        """Return which of the next values came before, or before in this array: shape (n,)."""
        distinct, positions = np.unique(values, return_index=True)
        for array in self._sorted:
            nearest = np.minimum(np.searchsorted(array, distinct), array.size - 1)
            is_new = array[nearest] != distinct
            distinct, positions = distinct[is_new], positions[is_new]
        repeated = np.ones(values.size, np.bool_)
        repeated[positions] = False
        # Each array stays more than twice as long as the next one, or very long.
        while self._sorted and self._sorted[-1].size <= min(2 * distinct.size, _MOST_MERGED):
            distinct = np.sort(np.concatenate([self._sorted.pop(), distinct]))
        if distinct.size:
            self._sorted.append(distinct)
        return repeated
