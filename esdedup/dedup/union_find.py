"""Similar pairs into groups, in numpy.

A partition is an array, shape (n,), int64, that has for each row another row of its group: the
first one of it. Rows are in the order in which documents take precedence.
"""

from __future__ import annotations

import numpy as np

from esdedup.text.arrays import F64, I64


def singletons(rows: int) -> I64:
    """The partition in which each row is a group of its own."""
    return np.arange(rows)


def join(partition: I64, left: I64, right: I64) -> None:
    """Joins the groups of pairs of rows, in place: connected components.

    Vectorised hooking and pointer jumping: Shiloach, Vishkin, "An O(log n) parallel connectivity
    algorithm", Journal of Algorithms 3, 1982.
    """
    while left.size:
        one, other = partition[left], partition[right]
        apart = one != other
        left, right, one, other = left[apart], right[apart], one[apart], other[apart]
        np.minimum.at(partition, np.maximum(one, other), np.minimum(one, other))
        _flatten(partition)


def _flatten(partition: I64) -> None:
    while True:
        above = partition[partition]
        if (above == partition).all():
            return
        partition[:] = above


def follow(partition: I64, left: I64, right: I64, nearness: F64) -> None:
    """Each right row joins its nearest leader, in place, if it has one: leader-follower.

    A leader is a row that follows none. left, right: pairs with left < right, ascending by right,
    all of a row's at once. nearness: the greater, the nearer; of equal ones the first row is
    chosen. Rows before the first right one are decided already.

    The leader algorithm: Hartigan, "Clustering Algorithms", 1975, chapter 3, but for joining the
    nearest leader and not the first.
    """
    best: dict[int, float] = {}
    for one, other, near in zip(left.tolist(), right.tolist(), nearness.tolist(), strict=True):
        if partition[one] != one:
            continue
        # As pairs ascend by right, all that may make `one` a follower has been seen.
        if near > best.get(other, -np.inf) or (near == best[other] and one < partition[other]):
            best[other] = near
            partition[other] = one
