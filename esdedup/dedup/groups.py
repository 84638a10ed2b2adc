"""Finds the groups of near-duplicates of a whole index.

`representative.KeepRule` puts documents in order. The first of a group is its representative, the
others are its duplicates. `work_folder` reads all tokens once, `candidate_pairs` pairs the
documents that share enough of them, `verify` computes exact similarities, and `union_find` joins
similar pairs to groups. Equal texts count as one row from the start, whatever their number. Memory
grows with the documents, not with their pairs. `edges` takes pairs of another program instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from esdedup.arguments import check_fields
from esdedup.dedup.candidate_pairs import BandCandidates, Classes, HammingPairs
from esdedup.dedup.edges import EdgeCandidates, EdgeCounts, Edges
from esdedup.dedup.reading import Basis, Reading, reading_for
from esdedup.dedup.representative import KeepRule
from esdedup.dedup.union_find import follow, join, singletons
from esdedup.dedup.verify import ExactSimilarity, texts_of
from esdedup.dedup.work_folder import LIST_OF_EDGES, Checkpoint, Columns, OnStep, WorkFolder
from esdedup.exceptions import UsageError
from esdedup.search.buckets import Capped
from esdedup.search.limits import ACTING, MAX_PER_BUCKET, RECALL, Limits
from esdedup.sketch.sketch import digest_of_words
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, I64, U64, run_starts
from esdedup.text.jaccard import hamming

Method = Literal["components", "leader"]


@dataclass(frozen=True)
class Grouping:
    """Says how documents are grouped.

    limits: which documents are similar.
    method: "leader" takes documents in their order of precedence. Each joins its nearest leader,
    or becomes one. Every duplicate is thus similar to its representative. "components" joins all
    documents that a chain of similar documents connects.
    keep: which document of a group is its representative.
    exact: group only documents of equal normalised text. The limits do not matter then.

    Raises UsageError if the method is unknown.
    """

    limits: Limits = Limits(threshold=ACTING)  # noqa: RUF009
    method: Method = "leader"
    keep: KeepRule = KeepRule()  # noqa: RUF009
    exact: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.method not in ("components", "leader"):
            raise UsageError(f"method {self.method!r}: use components or leader")

    @property
    def by_distance(self) -> bool:
        """True if documents are compared by Hamming distance."""
        return self.limits.metric == "hamming" and not self.exact

    def to_json(self) -> dict[str, Any]:
        """A JSON object that tells two groupings apart."""
        own = {"method": self.method, "keep": str(self.keep), "exact": self.exact}
        return {**asdict(self.limits), **own}


@dataclass(frozen=True)
class Member:
    """A duplicate in a group.

    similarity: exact Jaccard similarity to the representative; None if grouped by Hamming distance.
    distance: Hamming distance to the representative; None if grouped by Jaccard similarity.
    digest: of its text when it was read.
    """

    id: str
    similarity: float | None
    distance: int | None
    digest: str


@dataclass(frozen=True)
class Group:
    """The representative of two or more similar documents, and its duplicates.

    representative: its id. digest: of its text when it was read.
    members: the duplicates, in their order of precedence.
    """

    representative: str
    digest: str
    members: list[Member]


@dataclass(frozen=True)
class Groups:
    """All documents with tokens, in their order of precedence, each with its representative.

    Iterates over the groups of two or more, the largest first, then by precedence.

    grouping: as given, with the distance that was used.
    ids: of n documents. digests: of their texts, as `digest_words` gives them, shape (n, 2).
    representative: row of each document's representative, which may be its own, shape (n,).
    value: similarity or distance to it, nan for a representative itself, shape (n,).
    capped: buckets that were cut short.
    recall: the expected share found of the pairs at the threshold; 1 by Hamming distance; None if
    edges were given: nobody knows what these lack.
    basis: of the comparison. edges: counts of the edges that were given, or None.
    """

    grouping: Grouping
    ids: Sequence[str]
    digests: U64
    representative: I64
    value: F64
    capped: Capped
    recall: float | None
    basis: Basis
    edges: EdgeCounts | None = None

    @property
    def sizes(self) -> I64:
        """The number of documents of each group of two or more, the largest first."""
        counts = np.bincount(self.representative, minlength=len(self.ids))
        return -np.sort(-counts[counts > 1])

    @property
    def duplicate_rows(self) -> I64:
        """The rows of the documents that are not representatives, ascending."""
        return np.flatnonzero(self.representative != np.arange(len(self.ids)))

    @property
    def duplicates(self) -> int:
        """The number of documents that are not representatives."""
        return self.duplicate_rows.size

    def __iter__(self) -> Iterator[Group]:
        counts = np.bincount(self.representative, minlength=len(self.ids))
        heads = np.flatnonzero(counts > 1)
        rows = self.duplicate_rows
        by_head = rows[np.argsort(self.representative[rows], kind="stable")]
        starts = np.searchsorted(self.representative[by_head], heads)
        for at in np.argsort(-counts[heads], kind="stable").tolist():
            head, first = int(heads[at]), int(starts[at])
            followers = by_head[first : first + int(counts[head]) - 1].tolist()
            members = [self.member(row) for row in followers]
            yield Group(self.ids[head], self.digest(head), members)

    def member(self, row: int) -> Member:
        """The duplicate of a row."""
        value = float(self.value[row])
        if self.grouping.by_distance:
            return Member(self.ids[row], None, int(value), self.digest(row))
        return Member(self.ids[row], value, None, self.digest(row))

    def digest(self, row: int) -> str:
        """The digest of a row's text."""
        return digest_of_words(self.digests[row])


def find_groups(
    store: Store,
    meta: IndexMeta,
    grouping: Grouping,
    *,
    edges: Edges | None = None,
    work: WorkFolder | None = None,
    on_step: OnStep | None = None,
) -> Groups:
    """The groups of all documents with tokens; a text without any shingle only equals others.

    edges: compare only the documents that these connect, and no tokens.
    work: the folder from which a run that was killed goes on; None for a temporary one.

    Raises UsageError if the scheme lacks the tokens, the folder holds the work of another job, or
    the grouping does not go with edges.
    """
    step = on_step or (lambda *_: None)
    metric = None if grouping.exact else grouping.limits.metric
    if edges is not None:
        check_for_edges(grouping)
    elif metric is not None:
        grouping.limits.check_for_pairs(meta.scheme)
    if metric is None or edges is not None:
        reading = Reading(meta, None, grouping.keep)
    else:
        reading = reading_for(meta, grouping.limits, grouping.keep)
    job = {**grouping.to_json(), LIST_OF_EDGES: None if edges is None else edges.digest}
    with WorkFolder.temporary() if work is None else nullcontext(work) as folder:
        columns = folder.read(store, reading, job, step)
        if metric == "hamming":
            return _by_hamming(reading, grouping, columns, step)
        classes = Classes.by_texts(columns.digests, columns.filled)
        rows = classes.filled
        if metric is None:
            return _groups(reading, grouping, columns, classes, singletons(rows), np.zeros(rows))
        candidates: BandCandidates | EdgeCandidates
        if edges is not None:
            candidates = EdgeCandidates(edges, columns.ids, classes)
        else:
            bands = columns.values, classes.compared
            candidates = BandCandidates(reading.compared, *bands, grouping.limits, folder.path)
        return _by_jaccard(store, reading, grouping, columns, classes, candidates, folder, step)


def check_for_edges(grouping: Grouping) -> None:
    """Raises UsageError if a grouping says how to find pairs, which edges are already."""
    limits = grouping.limits
    named = {
        "--exact": grouping.exact,
        "--metric hamming": limits.metric == "hamming",
        "--recall": limits.recall != RECALL,
        "--max-per-bucket": limits.max_per_bucket != MAX_PER_BUCKET,
    }
    for option, is_given in named.items():
        if is_given:
            raise UsageError(f"{option} does not go with edges, which are pairs already")


def _by_jaccard(
    store: Store,
    reading: Reading,
    grouping: Grouping,
    columns: Columns,
    classes: Classes,
    candidates: BandCandidates | EdgeCandidates,
    folder: WorkFolder,
    step: OnStep,
) -> Groups:
    meta, rows = reading.compared, classes.compared
    similarity = ExactSimilarity(texts_of(columns, store, meta.text_fields), meta.scheme, rows)
    found = folder.checkpoint(rows.size)
    group = _join_components if grouping.method == "components" else _follow_leaders
    for done, left, right in candidates.blocks(found.rows):
        below = group(found, left, right, similarity, grouping.limits.least_similarity)
        found = folder.keep(found, done, below)
        step("Comparing", done, rows.size)
    # In a component, the row that a row was compared with may not be the representative.
    unknown = np.flatnonzero(found.partner != found.partition)
    value = found.value
    value[unknown] = similarity(found.partition[unknown], unknown)
    loss = candidates.capped, candidates.recall
    edges = candidates.counted(found.below) if isinstance(candidates, EdgeCandidates) else None
    return _groups(reading, grouping, columns, classes, found.partition, value, *loss, edges)


def _join_components(
    found: Checkpoint, left: I64, right: I64, similarity: ExactSimilarity, threshold: float
) -> int:
    """Joins the groups of similar pairs of a block, in place; returns the number of others."""
    # The first pair of each row joins most of a group. Pairs within a group need no comparison.
    is_first = run_starts(right)
    below = 0
    for chosen in (is_first, ~is_first):
        apart = chosen & (found.partition[left] != found.partition[right])
        one, other = left[apart], right[apart]
        value = similarity(one, other)
        near = value >= threshold
        join(found.partition, one[near], other[near])
        found.note(one[near], other[near], value[near])
        below += int(np.count_nonzero(~near))
    return below


def _follow_leaders(
    found: Checkpoint, left: I64, right: I64, similarity: ExactSimilarity, threshold: float
) -> int:
    """Lets the right rows of a block join their nearest leaders, in place.

    Returns the number of compared pairs that are not similar.
    """
    # Earlier followers can't lead. The rows of this block are undecided, and may.
    leading = found.partition[left] == left
    left, right = left[leading], right[leading]
    value = similarity(left, right)
    near = value >= threshold
    below = int(np.count_nonzero(~near))
    left, right, value = left[near], right[near], value[near]
    follow(found.partition, left, right, value)
    chosen = found.partition[right] == left
    found.note(left[chosen], right[chosen], value[chosen])
    return below


def _by_hamming(reading: Reading, grouping: Grouping, columns: Columns, step: OnStep) -> Groups:
    prints = np.ascontiguousarray(columns.values.T)
    # Equal texts stay together. With leaders, rows of equal fingerprints may not: the nearest
    # leader of the one may come between them.
    leading = grouping.method == "leader"
    if leading:
        classes = Classes.by_texts(columns.digests, columns.filled)
    else:
        classes = Classes.by_prints(prints, columns.digests, columns.filled)
    prints = prints[classes.compared]
    found = HammingPairs(reading.meta, prints, grouping.limits)
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
    return _groups(reading, grouping, columns, classes, partition, value, found.capped)


def _groups(
    reading: Reading,
    grouping: Grouping,
    columns: Columns,
    classes: Classes,
    partition: I64,
    value: F64,
    capped: Capped = Capped(),  # noqa: B008
    recall: float | None = 1.0,
    edges: EdgeCounts | None = None,
) -> Groups:
    """The groups of all rows. partition, value: of the compared classes, shape (filled,)."""
    rows = len(columns.ids)
    alone = np.arange(classes.filled, classes.rows.size)
    partition = np.concatenate([partition, alone])
    value = np.concatenate([value, np.zeros(alone.size)])
    representative = np.arange(rows)
    values = np.full(rows, 0.0 if grouping.by_distance else 1.0)
    classed = np.flatnonzero(classes.of >= 0)
    of = classes.of[classed]
    representative[classed] = classes.rows[partition[of]]
    joined = partition[of] != of
    values[classed[joined]] = value[of[joined]]
    values[representative == np.arange(rows)] = np.nan
    basis = reading.basis if edges is None else replace(reading.basis, read="edges")
    ids, digests, loss = columns.ids, columns.digests, (capped, recall)
    return Groups(grouping, ids, digests, representative, values, *loss, basis, edges)
