"""Scores found pairs against the true ones: recall and precision.

A pair of rows is a key: left * number of texts + right, left > right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import truth
from benchmarks.lib.measuring import Figures
from esdedup.text.arrays import Ragged

I64 = NDArray[np.int64]


def keys_of(left: I64, right: I64, count: int) -> I64:
    """The keys of pairs of rows, ascending."""
    return np.sort(np.maximum(left, right) * count + np.minimum(left, right))


@dataclass(frozen=True)
class Truth:
    """True pairs of `count` texts: keys, ascending, and how alike the texts of each are."""

    count: int
    keys: I64
    similarity: NDArray[np.float64]

    @staticmethod
    def of(sets: Ragged, threshold: float) -> Truth:
        """All pairs of sets at the threshold and over."""
        pairs = truth.all_pairs(sets, threshold)
        keys = pairs.left * len(sets) + pairs.right
        order = np.argsort(keys)
        return Truth(len(sets), keys[order], pairs.similarity[order])

    def scored(self, keys: I64) -> Figures:
        """keys: of the pairs found, each once."""
        return scores(np.intersect1d(keys, self.keys, True).size, keys.size, self.keys.size)

    def scored_groups(self, groups: I64) -> Figures:
        """All pairs of a group count as found. groups: that of each text, shape (count,)."""
        left, right = np.divmod(self.keys, self.count)
        sizes = np.unique(groups, return_counts=True)[1]
        found = int((sizes * (sizes - 1) // 2).sum())
        right_ones = int(np.count_nonzero(groups[left] == groups[right]))
        return scores(right_ones, found, self.keys.size)


def scores(right: int, found: int, true: int) -> Figures:
    """Recall, precision and F1; a share of nothing is 1."""
    recall, precision = right / true if true else 1.0, right / found if found else 1.0
    both = 2 * right / (found + true) if found + true else 1.0
    return {"pairs": found, "recall": recall, "precision": precision, "f1": both}
