"""Find all pairs of similar documents of an index, each once, with exact similarity.

The cost grows with documents plus candidate pairs.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, overload

import numpy as np

from esdedup.compare.candidates import CandidatePairs, candidates_of, classes_of
from esdedup.compare.columns import Columns
from esdedup.compare.labels import label_at
from esdedup.compare.plan import Basis, Plan
from esdedup.compare.resources import Resources, no_step
from esdedup.compare.source import StoreSource, read_store
from esdedup.compare.two_sets import TwoSets
from esdedup.compare.verify import verifier_of
from esdedup.models import Fields, Pair, Unattached
from esdedup.runs.places import PlacedIds, place_in, repeated_in
from esdedup.runs.run import OnStep, Run
from esdedup.search.buckets import Capped
from esdedup.search.scopes import warning_of_missing
from esdedup.search.warnings import missing_pairs, warning_of_blank
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import Measure
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.tabular import Tabular
from esdedup.text.arrays import F64, I64
from esdedup.text.strings import Numbers, Strings

_AT_ONCE = 1 << 16
_INDICES = {"left_index": "string", "right_index": "string"}
"""Columns of the indices that the ids of documents begin with, as `Pair` has them."""


@dataclass(frozen=True, repr=False)
class SimilarPairs(Tabular):
    """Pairs of documents, the most similar first, ties by id in natural order: a2 before a10.

    Documents of equal text are one thing: each is paired with the first of them, and only the first
    one is paired with other texts. With a scope that is so for documents of equal text and values,
    and in a window for those of equal times.

    ids: of n documents, in natural order.
    left, right: positions in `ids`, shape (pairs,).
    value: similarity or distance, shape (pairs,); by passages the larger of the shares.
    shares: of the words of the left and of the right document that the other one holds in
    passages, shape (2, pairs); without rows by another measure.
    first: position of the first document of the same text, which may be the same, shape (n,).
    measure: of the values.
    capped: buckets of which not all pairs were compared.
    recall: the expected share found of the pairs at the threshold; 1 by Hamming distance. None if
    buckets are stopped or cut: how many pairs meet only in these depends on the texts.
    basis: of the comparison.
    unscoped: number of documents that lack a value of the scope, and are in no pair.
    blank: number of documents with a blank fingerprint, which are in no pair.
    of_against: number of the last ids, of the documents of `against`. A pair with one of these has
    it on the right.
    label_fields: whose values the pairs show.
    labels: of the n documents, as `labels_of` returns them; None without fields.
    unattached: indices behind the name whose documents are in no pair.
    """

    ids: Sequence[str]
    left: I64
    right: I64
    value: F64
    first: I64
    measure: Measure
    capped: Capped
    recall: float | None
    basis: Basis
    shares: F64
    unscoped: int = 0
    blank: int = 0
    of_against: int = 0
    label_fields: tuple[str, ...] = ()
    labels: Strings | None = None
    unattached: Unattached = field(default_factory=Unattached)

    columns: ClassVar[dict[str, str]] = {
        "left": "string", "right": "string", "similarity": "double", "distance": "int64",
        "equal": "bool", "of_left": "double", "of_right": "double",
    }  # fmt: skip

    def __len__(self) -> int:
        return self.left.size

    def __repr__(self) -> str:
        return f"<SimilarPairs: {len(self)} of {len(self.ids)} documents>"

    def table_rows(self) -> Iterator[tuple[Any, ...]]:
        for pair in self:
            yield (
                pair.left,
                pair.right,
                pair.similarity,
                pair.distance,
                pair.equal,
                pair.of_left,
                pair.of_right,
            )

    def __iter__(self) -> Iterator[Pair]:
        # In parts, since Python's own numbers take much more memory.
        for start in range(0, len(self), _AT_ONCE):
            yield from self._pairs(self._order[start : start + _AT_ONCE])

    @overload
    def __getitem__(self, row: int) -> Pair: ...
    @overload
    def __getitem__(self, row: slice) -> list[Pair]: ...
    def __getitem__(self, row: int | slice) -> Pair | list[Pair]:
        if isinstance(row, slice):
            return [*self._pairs(self._order[row])]
        position = range(len(self))[row]
        return next(self._pairs(self._order[position : position + 1]))

    @cached_property
    def _order(self) -> I64:
        """The rows of the pairs as they are listed, shape (pairs,)."""
        lower, upper = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        return np.lexsort((upper, lower, -self.measure.nearnesses(self.value)))

    def _pairs(self, rows: I64) -> Iterator[Pair]:
        """Yield the pairs of rows."""
        left, right = self.left[rows], self.right[rows]
        equal = self.first[left] == self.first[right]
        lower, upper = np.minimum(left, right), np.maximum(left, right)
        columns = [column.tolist() for column in (lower, upper, self.value[rows], equal)]
        shares = self.shares[:, rows]
        shares = np.where(left <= right, shares, shares[::-1])
        of_both = shares.tolist() or [[None] * rows.size] * 2
        for lower_row, upper_row, value, is_equal, *both in zip(*columns, *of_both, strict=True):
            lower_id, upper_id = self.ids[lower_row], self.ids[upper_row]
            pair = Pair(lower_id, upper_id, value, self.measure, is_equal, *both)
            if self.repeated:
                indices = place_in(self.ids, lower_row), place_in(self.ids, upper_row)
                pair = replace(pair, left_index=indices[0], right_index=indices[1])
            if self.of_against or self.labels is not None:
                pair = self._with_source(pair, lower_row, upper_row)
            yield pair

    @cached_property
    def repeated(self) -> int:
        """The number of documents whose id is in several indices, or files."""
        return repeated_in(self.ids)

    def _with_source(self, pair: Pair, left: int, right: int) -> Pair:
        """Return a pair with the set of the right document, and the labels of both.

        left, right: the positions of its documents.
        """
        return replace(
            pair,
            in_against=right >= len(self.ids) - self.of_against,
            left_source=self._source(left),
            right_source=self._source(right),
        )

    def _source(self, position: int) -> Fields | None:
        """Return the labels of a document by their fields; None if there are no fields."""
        if self.labels is None:
            return None
        return {
            field: label_at(self.labels, position, number)
            for number, field in enumerate(self.label_fields)
        }

    @property
    def copies(self) -> int:
        """The number of documents that have the text of an earlier one of their set."""
        first = self.first[: len(self.ids) - self.of_against]
        return int(np.count_nonzero(first != np.arange(first.size)))

    def warnings(self, limits: Limits) -> list[str]:
        """Return warnings of pairs that may be missing. limits: of the comparison."""
        unscoped = warning_of_missing(limits.within, self.unscoped)
        blank = warning_of_blank(self.blank)
        return [*filter(None, [unscoped, blank]), *missing_pairs(self.recall, self.capped, limits)]


@dataclass(frozen=True, repr=False)
class PairsInIndices(SimilarPairs):
    """Similar pairs of documents of which some have an id that several indices have.

    Their table shows the index of these documents.
    """

    columns: ClassVar[dict[str, str]] = {**SimilarPairs.columns, **_INDICES}

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        for row, pair in zip(super().table_rows(), self, strict=True):
            yield *row, pair.left_index, pair.right_index


@dataclass(frozen=True, repr=False)
class DescribedPairs(SimilarPairs):
    """Similar pairs that show fields of their documents, or are of two sets, in their table too."""

    columns: ClassVar[dict[str, str]] = {
        **SimilarPairs.columns, "in_against": "bool", "left_source": "string",
        "right_source": "string",
    }  # fmt: skip

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        for row, pair in zip(super().table_rows(), self, strict=True):
            in_against = pair.in_against if self.of_against else None
            yield *row, in_against, _as_json(pair.left_source), _as_json(pair.right_source)


@dataclass(frozen=True, repr=False)
class DescribedPairsInIndices(DescribedPairs):
    """The same of documents of which some have an id that several indices have."""

    columns: ClassVar[dict[str, str]] = {**DescribedPairs.columns, **_INDICES}

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        for row, pair in zip(super().table_rows(), self, strict=True):
            yield *row, pair.left_index, pair.right_index


def similar_pairs(
    store: Store,
    meta: IndexMeta,
    limits: Limits,
    label_fields: Sequence[str] = (),
    on_step: OnStep | None = None,
) -> SimilarPairs:
    """Return all pairs at or over a Jaccard threshold, or within a Hamming distance.

    Texts are sketched again with more bands if the index's bands do not reach the recall. A text
    without shingles is only paired with equal texts. Raises UsageError if the scheme lacks the
    tokens of the metric. label_fields: whose values the pairs show.
    """
    plan = Plan.of_index(meta, limits).labelled(*label_fields)
    with Run.temporary() as run:
        resources = Resources(run.folder, on_step or no_step)
        columns = read_store(StoreSource(store, plan), run, {}, resources.on_step)
        pairs = pairs_among(columns, plan, resources)
        pairs = replace(pairs, unattached=store.unattached())
    if not pairs.repeated:
        return pairs
    is_described = isinstance(pairs, DescribedPairs)
    kind = DescribedPairsInIndices if is_described else PairsInIndices
    return kind(**{column.name: getattr(pairs, column.name) for column in fields(pairs)})


def pairs_among(columns: Columns, plan: Plan, resources: Resources) -> SimilarPairs:
    """Return all similar pairs of documents."""
    on_step = resources.on_step
    classes = classes_of(columns.digests, columns.filled, scopes=columns.scopes)
    sets = TwoSets(classes, columns.earlier, columns.only_between)
    on_step("Comparing", 0, classes.filled)
    candidates = _candidates_of(sets, plan, columns, resources)
    verifier = verifier_of(plan, columns, classes.compared, resources.memory)
    sides = plan.comparison.sides
    no_rows = np.empty(0, np.int64)
    similar = [(no_rows, no_rows, np.empty((sides, 0)))]
    for block in verifier.of_blocks(candidates.blocks, resources.workers):
        is_near = block.nearness.max(axis=0) >= plan.least
        similar.append((block.left[is_near], block.right[is_near], block.nearness[:, is_near]))
        resources.on_candidates(block.left.size)
        if block.rows_done < classes.filled:
            on_step("Comparing", block.rows_done, classes.filled)
    # Once, also if the last block has no candidate.
    on_step("Comparing", classes.filled, classes.filled)
    left, right, nearness = (np.concatenate(arrays, -1) for arrays in zip(*similar, strict=True))
    left, right, nearness = _of_documents(sets, left, right, nearness, plan.nearest)
    classes_of_texts = classes
    if columns.scopes is not None and columns.scopes.lengths:
        classes_of_texts = classes_of(columns.digests, columns.filled)
    is_described = columns.earlier or columns.labels is not None
    return (DescribedPairs if is_described else SimilarPairs)(
        _ids_of(sets, columns),
        sets.positions(left),
        sets.positions(right),
        np.abs(nearness.max(axis=0)),
        sets.first_positions(classes_of_texts),
        plan.measure,
        candidates.capped,
        candidates.recall,
        plan.basis,
        nearness if plan.measure.directed else np.empty((0, nearness.shape[1])),
        columns.unscoped,
        columns.blank(plan),
        columns.earlier,
        plan.label_fields,
        None if columns.labels is None else columns.labels.picked(sets.order),
    )


def _candidates_of(
    sets: TwoSets, plan: Plan, columns: Columns, resources: Resources
) -> CandidatePairs:
    """Return the candidates among the classes that have a pair of documents that is wanted."""
    compared = sets.classes.compared
    if not columns.earlier:
        return candidates_of(plan, columns, compared, resources)
    # A class of both sets has the row of `against`, and is compared with all others.
    columns = replace(columns, earlier=0, only_between=False)
    candidates = candidates_of(plan, columns, compared, resources)
    return candidates._replace(blocks=sets.wanted(candidates.blocks))


def _of_documents(
    sets: TwoSets, left: I64, right: I64, nearness: F64, nearest: float
) -> tuple[I64, I64, F64]:
    """Return the rows and the nearness of the pairs of documents of similar classes.

    nearest: the nearness of equal texts.
    """
    if sets.are_one:
        first = sets.classes.firsts
        copies = np.flatnonzero(first != np.arange(first.size))
        rows = sets.classes.rows
        return (
            np.concatenate([rows[left], first[copies]]),
            np.concatenate([rows[right], copies]),
            np.concatenate([nearness, np.full((len(nearness), copies.size), nearest)], axis=1),
        )
    within, between = sets.within(left, right), sets.between(left, right)
    reverse = sets.between(right, left)
    first, copies = sets.copies()
    return (
        np.concatenate([within.left, between.left, reverse.left, first]),
        np.concatenate([within.right, between.right, reverse.right, copies]),
        np.concatenate(
            [
                nearness[:, within.origin],
                nearness[:, between.origin],
                nearness[::-1, reverse.origin],
                np.full((len(nearness), copies.size), nearest),
            ],
            axis=1,
        ),
    )


def _ids_of(sets: TwoSets, columns: Columns) -> Sequence[str]:
    """Return the ids of all documents, those of `against` last."""
    ids = columns.ids
    if not columns.earlier:
        return ids
    if isinstance(ids, Numbers):
        return Numbers(ids.values[sets.order])
    assert isinstance(ids, Strings | PlacedIds)
    return ids.picked(sets.order)


def _as_json(source: Fields | None) -> str | None:
    return None if source is None else json.dumps(source, ensure_ascii=False)
