"""All pairs of similar documents of an index, each once, with exact similarity.

The tokens of all documents are read once and joined here, in numpy; only documents of which two
share a token are fetched, to be verified. Cost grows with documents plus candidate pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from esdedup.buckets import Capped
from esdedup.columns import Columns, Reading
from esdedup.datatypes import Metric, Pair
from esdedup.exact import ExactSimilarity
from esdedup.exceptions import UsageError
from esdedup.groups import MAX_BUCKET, OnStep
from esdedup.joins import BandJoin, Classes, EqualRows, JoinLimits, SegmentJoin
from esdedup.keep import KeepRule
from esdedup.schema import IndexMeta
from esdedup.search import (
    RECALL,
    check_recall,
    check_threshold,
    distance_for,
    require_simhash,
)
from esdedup.stores.base import Store
from esdedup.workfolder import temporary_folder

I64 = NDArray[np.int64]
Found = tuple[I64, I64, NDArray[np.float64]]
"""Pairs as columns: rows, and similarity or distance."""

_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class SimilarPairs:
    """Pairs, the most similar first, ties by id.

    capped: buckets of which not all pairs were looked at. recall: the share of pairs at the
    threshold that is expected to be found; 1 by distance.
    """

    ids: list[str]
    left: I64
    right: I64
    value: NDArray[np.float64]
    metric: Metric
    capped: Capped
    recall: float

    def __len__(self) -> int:
        return self.left.size

    def __iter__(self) -> Iterator[Pair]:
        # By rank among the ids, so that the order is the same whatever order a store scans in.
        rank = np.empty(len(self.ids), np.int64)
        rank[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids))
        swapped = rank[self.left] > rank[self.right]
        left = np.where(swapped, self.right, self.left)
        right = np.where(swapped, self.left, self.right)
        near = -self.value if self.metric == "jaccard" else self.value
        order = np.lexsort((rank[right], rank[left], near))
        # Python's own numbers take much more memory: of some at a time.
        for first in range(0, order.size, _AT_ONCE):
            for row in order[first : first + _AT_ONCE].tolist():
                a, b, found = self.ids[left[row]], self.ids[right[row]], self.value[row].item()
                if self.metric == "jaccard":
                    yield Pair(a, b, found, None)
                else:
                    yield Pair(a, b, None, int(found))


def similar_pairs(
    store: Store,
    meta: IndexMeta,
    *,
    metric: Metric = "jaccard",
    threshold: float = 0.5,
    distance: int | None = None,
    recall: float = RECALL,
    max_bucket: int = MAX_BUCKET,
    on_step: OnStep | None = None,
) -> SimilarPairs:
    """All pairs at or over a Jaccard threshold, or within a Hamming distance.

    What shares no token is not found: see the S-curve for Jaccard; within a Hamming distance every
    pair is found. A text without any shingle is in no pair.

    recall: the share of pairs at the threshold to be found, if the bands allow it; the less, the
    fewer are verified in vain. max_bucket: a document is compared with only so many of those that
    share a token with it, of equal ones too. on_step: see `groups`.

    Raises UsageError where the scheme lacks the tokens for the metric.
    """
    if metric not in ("jaccard", "hamming"):
        raise UsageError(f"metric {metric!r}: use jaccard or hamming")
    check_threshold(threshold)
    check_recall(recall)
    if metric == "jaccard" and meta.scheme.minhash is None:
        raise UsageError("the index has no MinHash tokens: use --metric hamming")
    limit = None
    if metric == "hamming":
        limit = distance_for(require_simhash(meta.scheme), distance)
    step = on_step or (lambda *_: None)
    with temporary_folder() as folder:
        folder.claim(store, meta, {})
        columns = folder.read(store, Reading(meta, metric, KeepRule()), step)
        if limit is not None:
            classes, parts, cut, share = _by_hamming(meta, columns, limit, max_bucket)
        else:
            limits = JoinLimits(threshold, recall, max_bucket)
            classes, parts, cut, share = _by_jaccard(store, meta, columns, limits, step)
    left, right, value = _between_rows(classes, parts, max_bucket)
    same = EqualRows.of(classes, max_bucket)
    exact = 1.0 if metric == "jaccard" else 0.0
    lefts, rights = same.pairs()
    left, right = np.concatenate([left, lefts]), np.concatenate([right, rights])
    value = np.concatenate([value, np.full(lefts.size, exact)])
    return SimilarPairs(columns.ids, left, right, value, metric, cut + same.capped, share)


def _by_jaccard(
    store: Store,
    meta: IndexMeta,
    columns: Columns,
    limits: JoinLimits,
    step: OnStep,
) -> tuple[Classes, list[Found], Capped, float]:
    classes = Classes.by(columns.digests, columns.filled)
    ids = [columns.ids[row] for row in classes.rows.tolist()]
    candidates = BandJoin.of(meta, columns.values[:, classes.rows], limits)
    similarity = ExactSimilarity(store, meta, ids)
    parts: list[Found] = []
    for rows in candidates.blocks():
        left, right = candidates.candidates(rows)
        value = similarity(left, right)
        near = value >= limits.threshold
        parts.append((left[near], right[near], value[near]))
        step("Comparing", rows.stop, len(ids))
    return classes, parts, candidates.capped, candidates.recall


def _by_hamming(
    meta: IndexMeta, columns: Columns, distance: int, cap: int
) -> tuple[Classes, list[Found], Capped, float]:
    prints = np.ascontiguousarray(columns.values.T)
    classes = Classes.by(prints, columns.filled)
    found = SegmentJoin.of(meta, prints[classes.rows], distance, cap)
    left, right, apart = found.by_right()
    return classes, [(left, right, apart)], found.capped, 1.0


def _between_rows(classes: Classes, parts: list[Found], cap: int) -> Found:
    """The pairs of rows that pairs of classes stand for. cap: rows of a class, the first ones."""
    filled = np.flatnonzero(classes.of >= 0)
    rows = filled[np.argsort(classes.of[filled], kind="stable")]
    counts = np.bincount(classes.of[filled], minlength=classes.rows.size)
    first = np.cumsum(counts) - counts
    sizes = np.minimum(counts, cap)
    nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    left, right, value = (np.concatenate(column) for column in zip(nothing, *parts, strict=True))
    many = sizes[left] * sizes[right]
    pair = np.repeat(np.arange(left.size), many)
    within = np.arange(pair.size) - np.repeat(np.cumsum(many) - many, many)
    a = rows[first[left[pair]] + within // sizes[right[pair]]]
    b = rows[first[right[pair]] + within % sizes[right[pair]]]
    return a, b, value[pair]
