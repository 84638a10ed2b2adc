"""Verify candidate pairs: fetch what is compared of their documents, and compute how near they are.

A nearness is that of `sketch.comparisons`: it is greater for nearer documents, and its last side is
that of the right one.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from esdedup.compare.candidates import Block, prints_of
from esdedup.compare.columns import Columns
from esdedup.compare.plan import Plan
from esdedup.compare.union_find import join, singletons
from esdedup.ingest.parallel import in_order
from esdedup.runs.shares import StoredTexts, TextsOf
from esdedup.sketch.comparisons import TextComparison, ValueComparison
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import operands_of
from esdedup.text.arrays import F64, I64, U64, Mask, Ragged, blocks, run_starts

_HASHES_A_TASK = 4_000_000
_MOST_DOCUMENTS = 20_000
_FETCHED_AT_ONCE = 2_000
_PAIRS_AT_ONCE = 1 << 18
"""Limits of memory of one process: 230 MB to compare sets, and the texts of one fetch."""
_FEWEST_DOCUMENTS = 100
_USUAL_HASHES = 4_000
"""Hashes of a document, before any was read."""
_OF_TEXTS = 8
"""Texts of a work folder are this part of the memory at once."""


@dataclass(frozen=True)
class PairTask:
    """Pairs to verify by the texts of their documents, which are read page by page.

    pages: functions that each return the texts of some documents, in order.
    left: positions of the left documents among all of the pages, shape (pairs,).
    right: positions of the right documents, shape (pairs,).
    scheme: how the texts become words and shingles.
    comparison: of the texts.
    """

    pages: Sequence[Callable[[], list[str]]]
    left: I64
    right: I64
    scheme: Scheme
    comparison: TextComparison


@dataclass(frozen=True)
class TaskResult:
    """What `verify` computes of a task.

    nearness: of the pairs, shape (sides, pairs).
    documents: number of the documents that were read.
    hashes: number of the words or shingles of these that were compared.
    """

    nearness: F64
    documents: int
    hashes: int


@dataclass(frozen=True)
class VerifiedPairs:
    """Pairs of rows that were compared.

    rows_done: number of rows of which all pairs were compared, from the first row on.
    left: rows of the left documents, shape (pairs,).
    right: rows of the right documents, shape (pairs,).
    nearness: of the pairs, shape (sides, pairs).
    """

    rows_done: int
    left: I64
    right: I64
    nearness: F64


def verify(task: PairTask) -> TaskResult:
    """Compare the pairs of a task."""
    pages = [operands_of(read_page(), task.scheme, task.comparison) for read_page in task.pages]
    operands = Ragged.joined(pages)
    nearness = task.comparison.nearness(operands, task.left, task.right)
    return TaskResult(nearness, len(operands), operands.hashes.size)


class ValueVerifier:
    """Compares pairs of rows by stored values.

    comparison: of the values.
    values: of the rows, shape (n, width).
    """

    def __init__(self, comparison: ValueComparison, values: U64) -> None:
        self._comparison, self._values = comparison, values

    def nearness(self, left: I64, right: I64) -> F64:
        """Return the nearness of pairs, shape (sides, pairs)."""
        return self._comparison.nearness(self._values, left, right)

    def of_blocks(self, blocks: Iterable[Block], workers: int) -> Iterator[VerifiedPairs]:
        """Yield the pairs of blocks, compared in this process."""
        for rows_done, left, right in blocks:
            yield VerifiedPairs(rows_done, left, right, self.nearness(left, right))


class TextVerifier:
    """Compares pairs of rows by their texts, in tasks that fit into memory.

    A document whose text is gone resembles nothing.

    texts_of: returns the texts of documents.
    compared: the documents that are rows here, shape (n,).
    scheme: how the texts become words and shingles.
    comparison: of the texts.
    memory: bytes to use, of which texts are a part.
    """

    def __init__(
        self,
        texts_of: TextsOf,
        compared: I64,
        scheme: Scheme,
        comparison: TextComparison,
        memory: int,
    ) -> None:
        self._texts_of, self._compared = texts_of, compared
        self._scheme, self._comparison = scheme, comparison
        self._memory_of_texts = max(1, memory // _OF_TEXTS)
        # Of the tasks so far.
        self._documents, self._hashes = 0, 0

    def nearness(self, left: I64, right: I64) -> F64:
        """Return the nearness of pairs, shape (sides, pairs)."""
        nearness = np.zeros((self._comparison.sides, left.size))
        for chosen, task in self._tasks(left, right):
            nearness[:, chosen] = self._noted(verify(task))
        return nearness

    def of_blocks(self, blocks: Iterable[Block], workers: int) -> Iterator[VerifiedPairs]:
        """Yield the pairs of blocks, in blocks that may be smaller.

        workers: number of processes that compare.
        """
        begun: deque[Block] = deque()

        def tasks_of_blocks() -> Iterator[PairTask]:
            rows_before = 0
            for rows_done, left, right in blocks:
                pairs_begun = 0
                for chosen, task in self._tasks(left, right):
                    pairs_begun += chosen.size
                    rows = rows_before + (rows_done - rows_before) * pairs_begun // left.size
                    begun.append((rows, left[chosen], right[chosen]))
                    yield task
                rows_before = rows_done

        tasks = tasks_of_blocks()
        # The first task shows how long texts are, and may be the only one.
        first_result = map(verify, itertools.islice(tasks, 1))
        # A task begins when the texts of the next one are being fetched.
        tasks_and_next = itertools.pairwise(itertools.chain(tasks, [None]))
        other_tasks = (task for task, _ in tasks_and_next if task is not None)
        for result in itertools.chain(first_result, in_order(workers, verify, other_tasks)):
            rows_done, left, right = begun.popleft()
            yield VerifiedPairs(rows_done, left, right, self._noted(result))

    def _tasks(self, left: I64, right: I64) -> Iterator[tuple[I64, PairTask]]:
        """Yield tasks of all pairs, each with the positions of its pairs."""
        for pairs in self._readable_at_once(left, right):
            for chosen, task in self._tasks_of_read(left[pairs], right[pairs]):
                yield pairs.start + chosen, task

    def _readable_at_once(self, left: I64, right: I64) -> Iterator[slice]:
        """Yield slices of pairs, sorted by right, whose texts fit into memory if they are read."""
        sizes = np.zeros(left.size, np.int64)
        if isinstance(self._texts_of, StoredTexts):
            rows, left_at, right_at = _renumbered(left, right)
            text_sizes = self._texts_of.sizes(self._compared[rows])
            if text_sizes.sum() > self._memory_of_texts:
                # The text of a right row is read once for all of its pairs.
                sizes = text_sizes[left_at] + text_sizes[right_at] * run_starts(right)
        return blocks(sizes, self._memory_of_texts)

    def _tasks_of_read(self, left: I64, right: I64) -> Iterator[tuple[I64, PairTask]]:
        """Yield tasks of pairs whose texts are read at once, each with their positions."""
        rows, left, right = _renumbered(left, right)
        texts_at = self._texts_at(self._compared[rows])
        order = _connected_together(left, right, rows.size)
        while order.size:
            chosen = order[:_PAIRS_AT_ONCE]
            fitting = _fitting(left[chosen], right[chosen], self._documents_of_task())
            chosen = chosen[:fitting]
            yield chosen, self._task(left[chosen], right[chosen], texts_at)
            order = order[fitting:]

    def _texts_at(self, documents: I64) -> TextsOf:
        """Return a function that returns the texts of positions among documents, ascending."""
        texts_of = self._texts_of
        if isinstance(texts_of, StoredTexts):
            return texts_of.in_memory(documents)
        return lambda positions: texts_of(documents[positions])

    def _documents_of_task(self) -> int:
        """Return how many documents a task may have, by the mean length of the earlier ones."""
        hashes = self._hashes / self._documents if self._documents else _USUAL_HASHES
        fitting = int(min(_MOST_DOCUMENTS, _HASHES_A_TASK / max(1.0, hashes)))
        return max(_FEWEST_DOCUMENTS, fitting)

    def _task(self, left: I64, right: I64, texts_at: TextsOf) -> PairTask:
        """Return the task of pairs. left, right: positions that `texts_at` accepts."""
        positions, left, right = _renumbered(left, right)
        pages = [
            texts_at(positions[start : start + _FETCHED_AT_ONCE])
            for start in range(0, positions.size, _FETCHED_AT_ONCE)
        ]
        return PairTask(pages, left, right, self._scheme, self._comparison)

    def _noted(self, result: TaskResult) -> F64:
        """Return the nearness of a result, and count its documents and their length."""
        self._documents += result.documents
        self._hashes += result.hashes
        return result.nearness


class EqualTextVerifier:
    """Compares pairs of rows of other texts by another verifier: those of one text are equal.

    others: the other verifier.
    digests: of the texts of the rows, shape (n, 2).
    plan: of the comparison.
    """

    def __init__(self, others: ValueVerifier | TextVerifier, digests: U64, plan: Plan) -> None:
        self._others, self._digests = others, digests
        self._nearest, self._sides = plan.nearest, plan.comparison.sides

    def nearness(self, left: I64, right: I64) -> F64:
        """Return the nearness of pairs, shape (sides, pairs)."""
        is_other = ~self._are_equal(left, right)
        nearness = np.full((self._sides, left.size), self._nearest)
        nearness[:, is_other] = self._others.nearness(left[is_other], right[is_other])
        return nearness

    def of_blocks(self, blocks: Iterable[Block], workers: int) -> Iterator[VerifiedPairs]:
        """Yield the pairs of blocks, in blocks that may be smaller."""
        of_equal_texts: deque[Block] = deque()

        def of_other_texts() -> Iterator[Block]:
            for rows_done, left, right in blocks:
                are_equal = self._are_equal(left, right)
                if are_equal.any():
                    of_equal_texts.append((rows_done, left[are_equal], right[are_equal]))
                yield rows_done, left[~are_equal], right[~are_equal]

        for verified in self._others.of_blocks(of_other_texts(), workers):
            yield verified
            while of_equal_texts:
                yield self._verified(of_equal_texts.popleft())
        while of_equal_texts:
            yield self._verified(of_equal_texts.popleft())

    def _are_equal(self, left: I64, right: I64) -> Mask:
        """Mark the pairs of one text."""
        are_equal: Mask = (self._digests[left] == self._digests[right]).all(axis=1)
        return are_equal

    def _verified(self, block: Block) -> VerifiedPairs:
        """Return the pairs of a block, all of equal texts."""
        rows_done, left, right = block
        nearness = np.full((self._sides, left.size), self._nearest)
        return VerifiedPairs(rows_done, left, right, nearness)


def _renumbered(left: I64, right: I64) -> tuple[I64, I64, I64]:
    """Return the distinct rows of pairs, ascending, and the positions of left and right there."""
    # `np.unique` would sort millions of pairs of few rows.
    is_used = np.zeros(1 + max(left.max(initial=-1), right.max(initial=-1)), np.bool_)
    is_used[left] = is_used[right] = True
    position = np.cumsum(is_used) - 1
    return np.flatnonzero(is_used), position[left], position[right]


def _connected_together(left: I64, right: I64, rows: int) -> I64:
    """Return an order of pairs in which connected ones are together, so that few texts come twice.

    rows: number of the rows that the pairs are of.
    """
    component = singletons(rows)
    join(component, left, right)
    return np.lexsort((right, left, component[left]))


def _fitting(left: I64, right: I64, most: int) -> int:
    """Return how many pairs, from the first on, touch at most `most` documents; at least 1."""
    _, first_met = np.unique(np.stack([left, right], axis=1).ravel(), return_index=True)
    touched = np.cumsum(np.bincount(first_met // 2, minlength=left.size))
    return max(1, int(np.searchsorted(touched, most, "right")))


def verifier_of(
    plan: Plan, columns: Columns, compared: I64, memory: int
) -> ValueVerifier | TextVerifier | EqualTextVerifier:
    """Return what compares pairs of positions among the compared rows."""
    verifier = _verifier_of_texts(plan, columns, compared, memory)
    if not columns.has_windows:
        # Of equal texts only one row is compared.
        return verifier
    return EqualTextVerifier(verifier, columns.digests[compared], plan)


def _verifier_of_texts(
    plan: Plan, columns: Columns, compared: I64, memory: int
) -> ValueVerifier | TextVerifier:
    """Return the same for pairs of different texts."""
    comparison = plan.comparison
    if isinstance(comparison, TextComparison):
        return TextVerifier(columns.texts_of, compared, plan.scheme, comparison, memory)
    assert isinstance(comparison, ValueComparison)
    return ValueVerifier(comparison, prints_of(columns.values, compared))
