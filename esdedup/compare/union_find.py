"""Joins similar pairs to groups, in numpy: union-find, and leaders with followers.

A partition is an array, shape (n,), int64. It holds for each row the first row of its group. Rows
are in the order of precedence of their documents.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from esdedup.text.arrays import F64, I64


def singletons(rows: int) -> I64:
    """The partition in which each row is a group of its own."""
    return np.arange(rows)


def join(partition: I64, left: I64, right: I64) -> None:
    """Join the groups of pairs of rows, in place: connected components.

    Vectorised hooking and pointer jumping: Shiloach, Vishkin, "An O(log n) parallel connectivity
    algorithm", Journal of Algorithms 3, 1982.
    """
    while left.size:
        left_root, right_root = partition[left], partition[right]
        is_apart = left_root != right_root
        left, right = left[is_apart], right[is_apart]
        left_root, right_root = left_root[is_apart], right_root[is_apart]
        first, second = np.minimum(left_root, right_root), np.maximum(left_root, right_root)
        np.minimum.at(partition, second, first)
        # Until each row holds the first row of its group.
        while ((above := partition[partition]) != partition).any():
            partition[:] = above


def follow(
    partition: I64,
    left: I64,
    right: I64,
    nearness: F64,
    apart: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> None:
    """Let each right row join its nearest leader, in place, if it has one.

    A leader is a row that follows no other. Rows before the first right row are already decided.

    left, right: pairs with left < right, ascending by right, all pairs of a row in one call.
    nearness: the greater, the nearer; the first row wins a tie. apart: by row, earlier rows whose
    leader it can't follow.

    The leader algorithm: Hartigan, "Clustering Algorithms", 1975, chapter 3, except that a row
    joins the nearest leader and not the first.
    """
    nearest: dict[int, float] = {}
    pairs = zip(left.tolist(), right.tolist(), nearness.tolist(), strict=True)
    for leader, row, value in pairs:
        # Pairs ascend by right, so every pair that may make the left row a follower has been seen.
        if partition[leader] != leader:
            continue
        is_nearer = value > nearest.get(row, -np.inf)
        if is_nearer or (value == nearest[row] and leader < partition[row]):
            if any(partition[earlier] == leader for earlier in apart.get(row, ())):
                continue
            nearest[row] = value
            partition[row] = leader
