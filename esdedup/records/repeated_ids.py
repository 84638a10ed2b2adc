"""Finds ids that come more than once in one input, in 8 bytes for each id."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xxhash

from esdedup.text.arrays import U64, Mask

_MOST_MERGED = 1 << 24
"""Hashes in one sorted array. Merging two arrays takes as much memory again."""


class RepeatedIds:
    """The ids of an input so far, as 64-bit hashes: two different ones are hardly ever alike.

    count: number of records whose id came before. first: the first of these, in words, or None.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: str | None = None
        self._sorted: list[U64] = []

    def add(self, ids: Sequence[str], place: Callable[[int], str]) -> int:
        """Add the ids of the next records; returns the number of those that came before.

        place: says where the record of a row stands.
        """
        every = (xxhash.xxh3_64_intdigest(id.encode()) for id in ids)
        hashes = np.fromiter(every, np.uint64, len(ids))
        new, first = np.unique(hashes, return_index=True)
        came = self._contains(new)
        repeated = np.ones(len(ids), np.bool_)
        repeated[first[~came]] = False
        rows = np.flatnonzero(repeated)
        if rows.size and self.first is None:
            self.first = f"{ids[rows[0]]!r} ({place(int(rows[0]))})"
        self._merge(new[~came])
        self.count += rows.size
        return int(rows.size)

    def _contains(self, hashes: U64) -> Mask:
        found = np.zeros(hashes.size, np.bool_)
        for each in self._sorted:
            at = np.minimum(np.searchsorted(each, hashes), each.size - 1)
            found |= each[at] == hashes
        return found

    def _merge(self, hashes: U64) -> None:
        """Add an array; each is then more than twice as long as the next, or very long."""
        while self._sorted and self._sorted[-1].size <= min(2 * hashes.size, _MOST_MERGED):
            hashes = np.concatenate([self._sorted.pop(), hashes])
            hashes.sort()
        if hashes.size:
            self._sorted.append(hashes)
