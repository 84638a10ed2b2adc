"""Finds all pairs of similar documents of an index, each once, with exact similarity.

The parts are those of `groups`. Only the texts of documents that share a token with another are
fetched. The cost grows with documents plus candidate pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from esdedup.dedup.candidate_pairs import BandCandidates, Classes, HammingPairs
from esdedup.dedup.representative import KeepRule
from esdedup.dedup.verify import ExactSimilarity, TextsOf, texts_in
from esdedup.dedup.work_folder import Columns, OnStep, Reading, WorkFolder
from esdedup.models import Metric, Pair
from esdedup.search.buckets import Capped, bucket_column, capped, earlier_pairs
from esdedup.search.limits import Limits
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, I64, offsets_of, ranges

_AT_ONCE = 1 << 16

_Found = tuple[I64, I64, F64]
"""Pairs as columns: left, right, and similarity or distance."""


@dataclass(frozen=True)
class SimilarPairs:
    """Pairs of documents, the most similar first, ties by id.

    ids: of n documents. left, right: positions in `ids`, shape (pairs,).
    value: similarity or distance, shape (pairs,).
    capped: buckets of which not all pairs were compared.
    recall: the expected share found of the pairs at the threshold; 1 by Hamming distance.
    """

    ids: list[str]
    left: I64
    right: I64
    value: F64
    metric: Metric
    capped: Capped
    recall: float

    def __len__(self) -> int:
        return self.left.size

    def __iter__(self) -> Iterator[Pair]:
        # By rank among the ids, so that the order does not depend on the order of a scan.
        rank = np.empty(len(self.ids), np.int64)
        rank[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids))
        swapped = rank[self.left] > rank[self.right]
        left = np.where(swapped, self.right, self.left)
        right = np.where(swapped, self.left, self.right)
        near = -self.value if self.metric == "jaccard" else self.value
        order = np.lexsort((rank[right], rank[left], near))
        # In parts, as Python's own numbers take much more memory.
        for first in range(0, order.size, _AT_ONCE):
            for row in order[first : first + _AT_ONCE].tolist():
                a, b, value = self.ids[left[row]], self.ids[right[row]], float(self.value[row])
                by_jaccard = self.metric == "jaccard"
                yield Pair(a, b, value, None) if by_jaccard else Pair(a, b, None, int(value))


def similar_pairs(
    store: Store, meta: IndexMeta, limits: Limits, on_step: OnStep | None = None
) -> SimilarPairs:
    """All pairs at or over a Jaccard threshold, or within a Hamming distance.

    Pairs that share too few tokens are not found: the S-curve says how many those are by Jaccard
    similarity. By Hamming distance every pair is found. A text without any shingle is in no pair.
    Raises UsageError if the scheme lacks the tokens of the metric.
    """
    limits.check_for_pairs(meta.scheme)
    step = on_step or (lambda *_: None)
    with WorkFolder.temporary() as folder:
        columns = folder.read(store, Reading(meta, limits.metric, KeepRule()), {}, step)
        return pairs_among(columns, texts_in(store, meta.text_fields), meta, limits, step)


def pairs_among(
    columns: Columns, texts_of: TextsOf, meta: IndexMeta, limits: Limits, step: OnStep
) -> SimilarPairs:
    """All pairs among the documents of columns, which an index or files may have given."""
    cap = limits.max_per_bucket
    if limits.metric == "hamming":
        prints = np.ascontiguousarray(columns.values.T)
        classes = Classes.by(prints, columns.filled)
        hamming = HammingPairs(meta, prints[classes.rows], limits)
        found, cut, recall, equal = hamming.by_right(), hamming.capped, 1.0, 0.0
    else:
        classes = Classes.by(columns.digests, columns.filled)
        candidates = BandCandidates(meta, classes.first_of(columns.values), limits)
        ids = [columns.ids[row] for row in classes.rows.tolist()]
        similarity = ExactSimilarity(texts_of, meta.scheme, ids)
        nothing = np.empty(0, np.int64)
        parts: list[_Found] = [(nothing, nothing, np.empty(0))]
        for done, left, right in candidates.blocks():
            value = similarity(left, right)
            near = value >= limits.least_similarity
            parts.append((left[near], right[near], value[near]))
            step("Comparing", done, len(ids))
        left, right, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        found = left, right, value
        cut, recall, equal = candidates.capped, candidates.recall, 1.0
    left, right, value = _between_classes(classes, found, cap)
    lefts, rights, same = _within_classes(classes, cap)
    left, right = np.concatenate([left, lefts]), np.concatenate([right, rights])
    value = np.concatenate([value, np.full(lefts.size, equal)])
    return SimilarPairs(columns.ids, left, right, value, limits.metric, cut + same, recall)


def _between_classes(classes: Classes, found: _Found, cap: int) -> _Found:
    """The pairs of rows for pairs of classes. cap: only the first rows of a class are paired."""
    filled = np.flatnonzero(classes.of >= 0)
    rows = filled[np.argsort(classes.of[filled], kind="stable")]
    counts = np.bincount(classes.of[filled], minlength=classes.rows.size)
    first = offsets_of(counts)[:-1]
    sizes = np.minimum(counts, cap)
    left, right, value = found
    many = sizes[left] * sizes[right]
    pair = np.repeat(np.arange(left.size), many)
    within = ranges(0, many)
    a = rows[first[left[pair]] + within // sizes[right[pair]]]
    b = rows[first[right[pair]] + within % sizes[right[pair]]]
    return a, b, value[pair]


def _within_classes(classes: Classes, cap: int) -> tuple[I64, I64, Capped]:
    """The pairs of rows of the same class, and the classes that the cap cuts short."""
    rows = np.flatnonzero(classes.of >= 0)
    column = bucket_column(classes.of[rows].astype(np.uint64))
    left, right = earlier_pairs([column], range(rows.size), cap)
    return rows[left], rows[right], capped([column], cap)
