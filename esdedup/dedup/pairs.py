"""All pairs of similar documents of an index, each once, with exact similarity.

The tokens of all documents are read once and joined here, in numpy; only documents of which two
share a token are fetched, to be verified. Cost grows with documents plus candidate pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from esdedup.dedup.candidates import BandJoin, Classes, EqualRows, SegmentJoin
from esdedup.dedup.checkpoint import temporary_folder
from esdedup.dedup.columns import Columns, Reading
from esdedup.dedup.groups import OnStep
from esdedup.dedup.representative import KeepRule
from esdedup.dedup.verify import ExactSimilarity, TextsOf, texts_in
from esdedup.models import Metric, Pair
from esdedup.search.buckets import Capped
from esdedup.search.limits import Limits
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64, offsets_of, ranges

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
    store: Store, meta: IndexMeta, limits: Limits, on_step: OnStep | None = None
) -> SimilarPairs:
    """All pairs at or over a Jaccard threshold, or within a Hamming distance.

    What shares no token is not found: see the S-curve for Jaccard; within a Hamming distance every
    pair is found. A text without any shingle is in no pair. on_step: see `groups`.

    Raises UsageError where the scheme lacks the tokens for the metric.
    """
    limits.check_for_pairs(meta.scheme)
    step = on_step or (lambda *_: None)
    with temporary_folder() as folder:
        folder.claim(store, meta, {})
        columns = folder.read(store, Reading(meta, limits.metric, KeepRule()), step)
        return pairs_among(columns, texts_in(store, meta.text_field), meta, limits, step)


def pairs_among(
    columns: Columns, texts_of: TextsOf, meta: IndexMeta, limits: Limits, step: OnStep
) -> SimilarPairs:
    """All pairs among the documents of columns, however these were made."""
    cap = limits.max_per_bucket
    if limits.metric == "hamming":
        classes, parts, cut, share = _by_hamming(columns, meta, limits)
    else:
        classes, parts, cut, share = _by_jaccard(columns, texts_of, meta, limits, step)
    left, right, value = _between_rows(classes, parts, cap)
    same = EqualRows.of(classes, cap)
    exact = 1.0 if limits.metric == "jaccard" else 0.0
    lefts, rights = same.pairs()
    left, right = np.concatenate([left, lefts]), np.concatenate([right, rights])
    value = np.concatenate([value, np.full(lefts.size, exact)])
    return SimilarPairs(columns.ids, left, right, value, limits.metric, cut + same.capped, share)


def _by_jaccard(
    columns: Columns, texts_of: TextsOf, meta: IndexMeta, limits: Limits, step: OnStep
) -> tuple[Classes, list[Found], Capped, float]:
    classes = Classes.by(columns.digests, columns.filled)
    ids = [columns.ids[row] for row in classes.rows.tolist()]
    candidates = BandJoin.of(meta, columns.values[:, classes.rows], limits)
    similarity = ExactSimilarity(texts_of, meta.scheme, ids)
    parts: list[Found] = []
    for rows in candidates.blocks():
        left, right = candidates.candidates(rows)
        value = similarity(left, right)
        near = value >= limits.least_similarity
        parts.append((left[near], right[near], value[near]))
        step("Comparing", rows.stop, len(ids))
    return classes, parts, candidates.capped, candidates.recall


def _by_hamming(
    columns: Columns, meta: IndexMeta, limits: Limits
) -> tuple[Classes, list[Found], Capped, float]:
    prints = np.ascontiguousarray(columns.values.T)
    classes = Classes.by(prints, columns.filled)
    found = SegmentJoin.of(meta, prints[classes.rows], limits)
    left, right, apart = found.by_right()
    return classes, [(left, right, apart)], found.capped, 1.0


def _between_rows(classes: Classes, parts: list[Found], cap: int) -> Found:
    """The pairs of rows that pairs of classes stand for. cap: rows of a class, the first ones."""
    filled = np.flatnonzero(classes.of >= 0)
    rows = filled[np.argsort(classes.of[filled], kind="stable")]
    counts = np.bincount(classes.of[filled], minlength=classes.rows.size)
    first = offsets_of(counts)[:-1]
    sizes = np.minimum(counts, cap)
    nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    left, right, value = (np.concatenate(column) for column in zip(nothing, *parts, strict=True))
    many = sizes[left] * sizes[right]
    pair = np.repeat(np.arange(left.size), many)
    within = ranges(0, many)
    a = rows[first[left[pair]] + within // sizes[right[pair]]]
    b = rows[first[right[pair]] + within % sizes[right[pair]]]
    return a, b, value[pair]
