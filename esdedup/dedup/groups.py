"""Groups of near-duplicates: how they are wanted, and what they are.

Finds the groups of near-duplicates of a whole index.

Tokens are read once, texts of candidates are fetched to be verified. Equal texts are one row from
the start, whatever their number. What remains in memory grows with the documents, not with their
pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from esdedup.dedup.candidates import BandJoin, Classes, SegmentJoin
from esdedup.dedup.checkpoint import Partial, WorkFolder, temporary_folder
from esdedup.dedup.columns import Columns, Reading
from esdedup.dedup.representative import KeepRule
from esdedup.dedup.union_find import follow, join, singletons
from esdedup.dedup.verify import ExactSimilarity, texts_in
from esdedup.exceptions import UsageError
from esdedup.search.buckets import Capped
from esdedup.search.limits import ACTING, Limits
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, I64, U64
from esdedup.text.jaccard import hamming

Method = Literal["components", "leader"]
OnStep = Callable[[str, int, int], None]
"""Called with a step's name, what is done of it, and what there is to do."""


@dataclass(frozen=True)
class Grouping:
    """Says how documents are grouped.

    limits: which documents are similar.
    method: "leader" takes documents in their order of precedence. Each joins its nearest leader,
    or becomes one. Every duplicate is thus similar to its representative. "components" joins all
    documents that a chain of similar documents connects.
    keep: which document of a group is its representative.
    exact: only documents of equal normalised text. No limits are needed then.

    Raises UsageError if the method is unknown.
    """

    limits: Limits = Limits(threshold=ACTING)  # noqa: RUF009
    method: Method = "leader"
    keep: KeepRule = KeepRule()  # noqa: RUF009
    exact: bool = False

    def __post_init__(self) -> None:
        if self.method not in ("components", "leader"):
            raise UsageError(f"method {self.method!r}: use components or leader")

    @property
    def by_distance(self) -> bool:
        """Whether documents are compared by Hamming distance, and not by Jaccard similarity."""
        return self.limits.metric == "hamming" and not self.exact

    def to_json(self) -> dict[str, Any]:
        """A JSON object that tells two groupings apart."""
        own = {"method": self.method, "keep": str(self.keep), "exact": self.exact}
        return {**asdict(self.limits), **own}


@dataclass(frozen=True)
class Member:
    """A document of a group, and how near it is to the one that stays.

    similarity: exact Jaccard similarity, or None where Hamming distance was asked for; distance:
    the other way round. digest: of its text, as it was when it was looked at.
    """

    id: str
    similarity: float | None
    distance: int | None
    digest: str


@dataclass(frozen=True)
class Group:
    """Two documents or more: the one that stays, and the others in their order of precedence."""

    representative: str
    digest: str
    members: list[Member]


@dataclass(frozen=True)
class Groups:
    """All documents with tokens, in their order of precedence, and where each belongs.

    grouping: as asked for; by Hamming distance, with the distance that was taken.
    ids: of n documents. digests: shape (n,), uint64. representative: the row of the document that
    stays, shape (n,), int64; its own where a document stays itself. value: the similarity, or
    distance, to it, shape (n,); nan where a document stays. capped: buckets that were cut short.
    recall: the share of pairs at the threshold that is expected to be found; 1 by distance.
    """

    grouping: Grouping
    ids: list[str]
    digests: U64
    representative: I64
    value: F64
    capped: Capped
    recall: float = 1.0

    @property
    def sizes(self) -> I64:
        """Documents of each group of two or more, the largest first."""
        counts = np.bincount(self.representative, minlength=len(self.ids))
        return -np.sort(-counts[counts > 1])

    @property
    def duplicates(self) -> int:
        """Documents that are not the one that stays."""
        return int((self.representative != np.arange(len(self.ids))).sum())

    def __iter__(self) -> Iterator[Group]:
        """The groups of two or more, the largest first, then by precedence."""
        counts = np.bincount(self.representative, minlength=len(self.ids))
        heads = np.flatnonzero(counts > 1)
        followers = np.flatnonzero(self.representative != np.arange(len(self.ids)))
        by_head = followers[np.argsort(self.representative[followers], kind="stable")]
        starts = np.searchsorted(self.representative[by_head], heads)
        for at in np.argsort(-counts[heads], kind="stable").tolist():
            head, first = int(heads[at]), int(starts[at])
            rows = by_head[first : first + int(counts[head]) - 1]
            members = [self._member(row) for row in rows.tolist()]
            yield Group(self.ids[head], self._digest(head), members)

    def _member(self, row: int) -> Member:
        value = float(self.value[row])
        if self.grouping.by_distance:
            return Member(self.ids[row], None, int(value), self._digest(row))
        return Member(self.ids[row], value, None, self._digest(row))

    def _digest(self, row: int) -> str:
        return f"{int(self.digests[row]):016x}"


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
    metric = None if grouping.exact else grouping.limits.metric
    if metric is not None:
        grouping.limits.check_for_pairs(meta.scheme)
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
    candidates = BandJoin.of(meta, bands, grouping.limits)
    similarity = ExactSimilarity(texts_in(store, meta.text_field), meta.scheme, ids)
    work = folder.partial(len(ids))
    fold = _fold_components if grouping.method == "components" else _fold_leaders
    for rows in candidates.blocks():
        if rows.stop <= work.rows:
            continue
        fold(work, candidates.candidates(rows), rows, similarity, grouping.limits.least_similarity)
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
    found = SegmentJoin.of(meta, prints, grouping.limits)
    grouping = replace(grouping, limits=replace(grouping.limits, distance=found.distance))
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
