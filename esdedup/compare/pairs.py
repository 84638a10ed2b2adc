"""Find all pairs of similar documents of an index, each once, with exact similarity.

The cost grows with documents plus candidate pairs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from esdedup.compare.candidates import candidates_of, classes_of
from esdedup.compare.columns import Columns
from esdedup.compare.plan import Basis, Plan, plan_for
from esdedup.compare.source import read_store
from esdedup.compare.verify import nearness_of
from esdedup.models import Pair
from esdedup.runs.run import OnStep, Run
from esdedup.search.buckets import Capped
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
    one is paired with other texts.

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
        lower, upper = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        order = np.lexsort((upper, lower, -self.measure.nearnesses(self.value)))
        equal = self.first[self.left] == self.first[self.right]
        shares = np.where(self.left <= self.right, self.shares, self.shares[::-1])
        # In parts, since Python's own numbers take much more memory.
        for start in range(0, order.size, _AT_ONCE):
            rows = order[start : start + _AT_ONCE]
            columns = [column[rows].tolist() for column in (lower, upper, self.value, equal)]
            of_both = shares[:, rows].tolist() or [[None] * rows.size] * 2
            for left, right, value, same, *both in zip(*columns, *of_both, strict=True):
                yield Pair(self.ids[left], self.ids[right], value, self.measure, same, *both)

    @property
    def copies(self) -> int:
        """The number of documents that have the text of an earlier one."""
        return int(np.count_nonzero(self.first != np.arange(self.first.size)))


def similar_pairs(
    store: Store, meta: IndexMeta, limits: Limits, on_step: OnStep | None = None
) -> SimilarPairs:
    """Return all pairs at or over a Jaccard threshold, or within a Hamming distance.

    Texts are sketched again with more bands if the index's bands do not reach the recall. A text
    without shingles is only paired with equal texts. Raises UsageError if the scheme lacks the
    tokens of the metric.
    """
    step = on_step or (lambda *_: None)
    plan = plan_for(meta, limits)
    with Run.temporary() as run:
        columns = read_store(store, plan, run, {}, step)
        return pairs_among(columns, plan, limits, run.folder, step)


def pairs_among(
    columns: Columns,
    plan: Plan,
    limits: Limits,
    folder: Path,
    step: OnStep,
    workers: int = 1,
) -> SimilarPairs:
    """Return all similar pairs of documents.

    workers: number of processes that verify; more than one requires texts that were read.
    """
    texts = classes_of(columns.digests, columns.filled)
    candidates = candidates_of(plan, columns, texts.compared, limits, folder)
    nearness = nearness_of(plan, columns, texts.compared, limits)
    nothing = np.empty(0, np.int64)
    sides = 2 if plan.measure.directed else 1
    parts = [(nothing, nothing, np.empty((sides, 0)))]
    for done, left, right, value in nearness.of_blocks(candidates.blocks, workers):
        near = value.max(axis=0) >= plan.least(limits)
        parts.append((left[near], right[near], value[:, near]))
        step("Comparing", done, texts.filled)
    step("Comparing", texts.filled, texts.filled)
    left, right, value = (np.concatenate(column, -1) for column in zip(*parts, strict=True))
    first = texts.firsts
    copies = np.flatnonzero(first != np.arange(first.size))
    value = np.concatenate([value, np.full((sides, copies.size), plan.nearest)], axis=1)
    return SimilarPairs(
        columns.ids,
        np.concatenate([texts.rows[left], first[copies]]),
        np.concatenate([texts.rows[right], copies]),
        np.abs(value.max(axis=0)),
        first,
        plan.measure,
        candidates.capped,
        candidates.recall,
        plan.basis,
        value if sides == 2 else np.empty((0, value.shape[1])),
    )
