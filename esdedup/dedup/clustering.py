"""Finds the groups of near-duplicates of a whole index.

Tokens are read once, texts of candidates are fetched to be verified. Equal texts are one row from
the start, whatever their number. What remains in memory grows with the documents, not with their
pairs.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from esdedup.dedup.candidates import BandJoin, Classes, JoinLimits, SegmentJoin
from esdedup.dedup.checkpoint import Partial, WorkFolder, temporary_folder
from esdedup.dedup.columns import Columns, Reading
from esdedup.dedup.groups import Grouping, Groups, OnStep
from esdedup.dedup.union_find import follow, join, singletons
from esdedup.dedup.verify import ExactSimilarity, texts_in
from esdedup.exceptions import UsageError
from esdedup.search.buckets import Capped
from esdedup.search.limits import distance_for, require_simhash
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.text.jaccard import hamming

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


def find_groups(
    store: Store,
    meta: IndexMeta,
    grouping: Grouping,
    *,
    work: WorkFolder | None = None,
    on_step: OnStep | None = None,
) -> Groups:
    """The groups of all documents that have tokens of the index's scheme.

    Those without any shingle are groups of their own.

    work: a folder to work in, from which a run that was killed goes on; None for a temporary one.
    Raises UsageError where the scheme lacks the tokens, or the folder holds other work.
    """
    step = on_step or (lambda *_: None)
    metric = None if grouping.exact else grouping.metric
    if metric == "jaccard" and meta.scheme.minhash is None:
        raise UsageError("the index has no MinHash tokens: use --metric hamming")
    if metric == "hamming":
        distance_for(require_simhash(meta.scheme), grouping.distance)
    with temporary_folder() if work is None else nullcontext(work) as folder:
        folder.claim(store, meta, grouping.to_json())
        columns = folder.read(store, Reading(meta, metric, grouping.keep), step)
        if metric is None:
            return _exact(grouping, columns)
        if metric == "hamming":
            return _by_hamming(meta, grouping, columns, step)
        return _by_jaccard(store, meta, grouping, columns, folder, step)


def _exact(grouping: Grouping, columns: Columns) -> Groups:
    classes = Classes.by(columns.digests, columns.filled)
    return _expanded(grouping, columns, classes, singletons(classes.rows.size), None, Capped())


def _by_jaccard(
    store: Store,
    meta: IndexMeta,
    grouping: Grouping,
    columns: Columns,
    folder: WorkFolder,
    step: OnStep,
) -> Groups:
    classes = Classes.by(columns.digests, columns.filled)
    ids = [columns.ids[row] for row in classes.rows.tolist()]
    bands = columns.values
    if len(ids) < len(columns.ids):
        bands = bands[:, classes.rows]
    limits = JoinLimits(grouping.threshold, grouping.recall, grouping.max_bucket)
    candidates = BandJoin.of(meta, bands, limits)
    similarity = ExactSimilarity(texts_in(store, meta.text_field), meta.scheme, ids)
    work = folder.partial(len(ids))
    fold = _fold_components if grouping.method == "components" else _fold_leaders
    for rows in candidates.blocks():
        if rows.stop <= work.rows:
            continue
        fold(work, candidates.candidates(rows), rows, similarity, grouping.threshold)
        work = folder.keep(work, rows.stop)
        step("Comparing", rows.stop, len(ids))
    unknown = np.flatnonzero(work.partner != work.partition)
    value = work.value
    value[unknown] = similarity(work.partition[unknown], unknown)
    found = _expanded(grouping, columns, classes, work.partition, value, candidates.capped)
    return replace(found, recall=candidates.recall)


def _fold_components(
    work: Partial,
    pairs: tuple[I64, I64],
    rows: range,
    similarity: ExactSimilarity,
    threshold: float,
) -> None:
    left, right = pairs
    # Most of a group is joined by the first one of each bucket; what is joined needs no look.
    _, first = np.unique(right, return_index=True)
    is_first = np.zeros(right.size, np.bool_)
    is_first[first] = True
    for chosen in (is_first, ~is_first):
        apart = chosen & (work.partition[left] != work.partition[right])
        one, other = left[apart], right[apart]
        value = similarity(one, other)
        near = value >= threshold
        join(work.partition, one[near], other[near])
        work.note(one[near], other[near], value[near])


def _fold_leaders(
    work: Partial,
    pairs: tuple[I64, I64],
    rows: range,
    similarity: ExactSimilarity,
    threshold: float,
) -> None:
    left, right = pairs
    leading = (left >= rows.start) | (work.partition[left] == left)
    left, right = left[leading], right[leading]
    value = similarity(left, right)
    near = value >= threshold
    left, right, value = left[near], right[near], value[near]
    follow(work.partition, left, right, value)
    chosen = work.partition[right] == left
    work.note(left[chosen], right[chosen], value[chosen])


def _by_hamming(meta: IndexMeta, grouping: Grouping, columns: Columns, step: OnStep) -> Groups:
    prints = np.ascontiguousarray(columns.values.T)
    # Equal texts go together; which leader is the nearest may change between two equal prints.
    leading = grouping.method == "leader"
    classes = Classes.by(columns.digests if leading else prints, columns.filled)
    prints = prints[classes.rows]
    distance = distance_for(require_simhash(meta.scheme), grouping.distance)
    grouping = replace(grouping, distance=distance)
    found = SegmentJoin.of(meta, prints, distance, grouping.max_bucket)
    partition = singletons(len(prints))
    if leading:
        left, right, apart = found.by_right()
        follow(partition, left, right, -apart)
    else:
        for left, right, _ in found.blocks():
            join(partition, left, right)
    step("Comparing", len(prints), len(prints))
    value = hamming(prints, prints[partition]).astype(np.float64)
    return _expanded(grouping, columns, classes, partition, value, found.capped)


def _expanded(
    grouping: Grouping,
    columns: Columns,
    classes: Classes,
    partition: I64,
    value: F64 | None,
    cut: Capped,
) -> Groups:
    """From classes of equal rows to all rows."""
    rows = len(columns.ids)
    representative = np.arange(rows)
    exact = 0.0 if grouping.by_distance else 1.0
    values = np.full(rows, exact)
    classed = np.flatnonzero(classes.of >= 0)
    of = classes.of[classed]
    representative[classed] = classes.rows[partition[of]]
    if value is not None:
        joined = partition[of] != of
        values[classed[joined]] = value[of[joined]]
    values[representative == np.arange(rows)] = np.nan
    return Groups(grouping, columns.ids, columns.digests, representative, values, cut)
