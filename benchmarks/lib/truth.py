"""The truth that searches are held against: exact Jaccard similarity of every text with every one.

Worked out without any sketch, from all shingles of all texts: for each text, the texts that hold
each of its shingles are counted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import Ragged


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows, left above right, each once, and how alike they are."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    similarity: NDArray[np.float64]

    def __len__(self) -> int:
        return self.left.size


def similarities(sets: Ragged) -> Callable[[int], NDArray[np.float64]]:
    """The exact Jaccard similarity of a row with all; 0 with itself."""
    order = np.argsort(sets.hashes, kind="stable")
    hashes = sets.hashes[order]
    holders = np.repeat(np.arange(len(sets)), sets.counts)[order]

    def of(row: int) -> NDArray[np.float64]:
        own = sets[row]
        if not own.size:
            return np.zeros(len(sets))
        first, last = (np.searchsorted(hashes, own, side) for side in ("left", "right"))
        found = [holders[a:b] for a, b in zip(first, last, strict=True)]
        met = np.bincount(np.concatenate(found), minlength=len(sets))
        values: NDArray[np.float64] = met / (own.size + sets.counts - met)
        values[row] = 0.0
        return values

    return of


def all_pairs(sets: Ragged, threshold: float) -> Pairs:
    """All pairs at or over a threshold above 0."""
    of = similarities(sets)
    lefts, rights, values = [], [], []
    for row in range(len(sets)):
        found = of(row)[:row]
        near = np.flatnonzero(found >= threshold)
        lefts.append(np.full(near.size, row))
        rights.append(near)
        values.append(found[near])
    return Pairs(np.concatenate(lefts), np.concatenate(rights), np.concatenate(values))
