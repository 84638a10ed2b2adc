"""Find all pairs of similar documents of an index, each once, with exact similarity.

The cost grows with documents plus candidate pairs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, overload

import numpy as np

from esdedup.compare.candidates import candidates_of, classes_of
from esdedup.compare.columns import Columns
from esdedup.compare.plan import Basis, Plan
from esdedup.compare.resources import Resources, no_step
from esdedup.compare.source import StoreSource, read_store
from esdedup.compare.verify import verifier_of
from esdedup.models import Pair
from esdedup.runs.places import place_in, repeated_in
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

_AT_ONCE = 1 << 16


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
            yield pair

    @cached_property
    def repeated(self) -> int:
        """The number of documents whose id is in several indices, or files."""
        return repeated_in(self.ids)

    @property
    def copies(self) -> int:
        """The number of documents that have the text of an earlier one."""
        return int(np.count_nonzero(self.first != np.arange(self.first.size)))

    def warnings(self, limits: Limits) -> list[str]:
        """Return warnings of pairs that may be missing. limits: of the comparison."""
        unscoped = warning_of_missing(limits.within, self.unscoped)
        blank = warning_of_blank(self.blank)
        return [*filter(None, [unscoped, blank]), *missing_pairs(self.recall, self.capped, limits)]


def similar_pairs(
    store: Store, meta: IndexMeta, limits: Limits, on_step: OnStep | None = None
) -> SimilarPairs:
    """Return all pairs at or over a Jaccard threshold, or within a Hamming distance.

    Texts are sketched again with more bands if the index's bands do not reach the recall. A text
    without shingles is only paired with equal texts. Raises UsageError if the scheme lacks the
    tokens of the metric.
    """
    plan = Plan.of_index(meta, limits)
    with Run.temporary() as run:
        resources = Resources(run.folder, on_step or no_step)
        columns = read_store(StoreSource(store, plan), run, {}, resources.on_step)
        return pairs_among(columns, plan, resources)


def pairs_among(columns: Columns, plan: Plan, resources: Resources) -> SimilarPairs:
    """Return all similar pairs of documents."""
    on_step = resources.on_step
    classes = classes_of(columns.digests, columns.filled, scopes=columns.scopes)
    on_step("Comparing", 0, classes.filled)
    candidates = candidates_of(plan, columns, classes.compared, resources)
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
    first = classes.firsts
    copies = np.flatnonzero(first != np.arange(first.size))
    first_of_text = first
    if columns.scopes is not None and columns.scopes.lengths:
        first_of_text = classes_of(columns.digests, columns.filled).firsts
    of_copies = np.full((sides, copies.size), plan.nearest)
    nearness = np.concatenate([nearness, of_copies], axis=1)
    return SimilarPairs(
        columns.ids,
        np.concatenate([classes.rows[left], first[copies]]),
        np.concatenate([classes.rows[right], copies]),
        np.abs(nearness.max(axis=0)),
        first_of_text,
        plan.measure,
        candidates.capped,
        candidates.recall,
        plan.basis,
        nearness if plan.measure.directed else np.empty((0, nearness.shape[1])),
        columns.unscoped,
        columns.blank(plan),
    )
