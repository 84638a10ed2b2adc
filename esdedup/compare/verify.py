"""Verify candidate pairs: fetch their texts, and compute their exact similarities."""

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
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import hashed_words, shingle_sets
from esdedup.text.arrays import F64, I64, U64, Ragged, blocks, run_starts
from esdedup.text.jaccard import hamming, jaccard
from esdedup.text.passages import covers

_SHINGLES_A_BLOCK = 4_000_000
_MOST_DOCUMENTS = 20_000
_FETCHED_AT_ONCE = 2_000
_PAIRS_AT_ONCE = 1 << 18
"""Limits of memory of one process: 230 MB to compare sets, and the texts of one fetch."""
_OF_TEXTS = 8
"""Texts of a work folder are this part of the memory at once."""


@dataclass(frozen=True)
class PairTask:
    """Pairs to verify, as positions among the documents whose texts are read page by page."""

    texts: Sequence[Callable[[], list[str]]]
    left: I64
    right: I64
    scheme: Scheme
    passage: int


Verified = tuple[int, I64, I64, F64]
"""Rows done, and pairs with their nearness of each side, shape (sides, pairs).

The last row is of the right one: how near it is to the left one, or how much of it the left one
holds. By a measure that is not directed it is the only row."""


class ByFingerprints:
    """The Hamming distance of pairs of rows, negative, shape (1, pairs)."""

    def __init__(self, prints: U64) -> None:
        self._prints = prints

    def __call__(self, left: I64, right: I64) -> F64:
        """Return the nearness of pairs, as in `Verified`."""
        return -hamming(self._prints[left], self._prints[right]).astype(np.float64)[None]

    def of_blocks(self, blocks: Iterable[Block], workers: int) -> Iterator[Verified]:
        """Yield the pairs of blocks with their nearness, in blocks that may be smaller."""
        return ((done, left, right, self(left, right)) for done, left, right in blocks)


class ByTexts:
    """The exact Jaccard similarity of pairs of rows; 0 if a document of a pair is gone.

    memory: bytes of texts at once, about.
    """

    def __init__(self, plan: Plan, texts_of: TextsOf, compared: I64, memory: int) -> None:
        self._texts_of = texts_of
        self._scheme = plan.scheme
        self._compared = compared
        self._memory = memory
        self._passage = plan.passage
        self._shingles = 0
        self._documents = 0

    def __call__(self, left: I64, right: I64) -> F64:
        """Return the nearness of pairs, as in `Verified`."""
        similarity = np.zeros((2 if self._passage else 1, left.size))
        for chosen, task in self._tasks(left, right):
            similarity[:, chosen] = self._taken(verify(task))
        return similarity

    def of_blocks(self, blocks: Iterable[Block], workers: int) -> Iterator[Verified]:
        """Yield the pairs of blocks with their nearness, in blocks that may be smaller."""
        waiting: deque[Block] = deque()

        def tasks() -> Iterator[PairTask]:
            before = 0
            for done, left, right in blocks:
                seen = 0
                for chosen, task in self._tasks(left, right):
                    seen += chosen.size
                    rows = before + (done - before) * seen // left.size
                    waiting.append((rows, left[chosen], right[chosen]))
                    yield task
                before = done

        todo = tasks()
        # The first task shows how long texts are, and may be the only one.
        here = map(verify, itertools.islice(todo, 1))
        # Each of the others when the texts of the one after it are being fetched.
        begun = (each for each, _ in itertools.pairwise(itertools.chain(todo, [None])) if each)
        for verified in itertools.chain(here, in_order(workers, verify, begun)):
            yield *waiting.popleft(), self._taken(verified)

    def _tasks(self, left: I64, right: I64) -> Iterator[tuple[I64, PairTask]]:
        """All pairs, in tasks of as many as fit into memory: (positions of pairs, task)."""
        for some in self._held_at_once(left, right):
            numbers, one, other = _renumbered(left[some], right[some])
            texts_at = self._held(self._compared[numbers])
            # Connected pairs are together, so that few texts come twice.
            groups = singletons(numbers.size)
            join(groups, one, other)
            order = np.lexsort((other, one, groups[one]))
            while order.size:
                block = order[:_PAIRS_AT_ONCE]
                # As many documents as fit, by the mean length of the earlier ones.
                known = self._documents > 0
                mean = self._shingles / self._documents if known else _SHINGLES_A_BLOCK / 1_000
                most = int(max(100, min(_MOST_DOCUMENTS, _SHINGLES_A_BLOCK / max(1.0, mean))))
                block = block[: _fitting(one[block], other[block], most)]
                read, a, b = _renumbered(one[block], other[block])
                firsts = range(0, read.size, _FETCHED_AT_ONCE)
                texts = [texts_at(read[first : first + _FETCHED_AT_ONCE]) for first in firsts]
                yield some.start + block, PairTask(texts, a, b, self._scheme, self._passage)
                order = order[block.size :]

    def _held_at_once(self, left: I64, right: I64) -> Iterator[slice]:
        """Yield slices of pairs, sorted by right, whose texts fit into memory if they are read."""
        sizes = np.zeros(left.size, np.int64)
        if isinstance(self._texts_of, StoredTexts):
            numbers, one, other = _renumbered(left, right)
            of = self._texts_of.sizes(self._compared[numbers])
            if of.sum() > self._memory // _OF_TEXTS:
                sizes = of[one] + of[other] * run_starts(right)
        return blocks(sizes, max(1, self._memory // _OF_TEXTS))

    def _held(self, rows: I64) -> TextsOf:
        """Return a function that returns the texts of positions among rows, ascending."""
        texts_of = self._texts_of
        if isinstance(texts_of, StoredTexts):
            return texts_of.in_memory(rows)
        return lambda at: texts_of(rows[at])

    def _taken(self, verified: tuple[F64, int, int]) -> F64:
        """The similarities. Counts their documents and shingles."""
        similarity, documents, shingles = verified
        self._documents += documents
        self._shingles += shingles
        return similarity


def verify(task: PairTask) -> tuple[F64, int, int]:
    """Return the nearness of the pairs of a task, and the numbers of its documents and shingles.

    The nearness is that of `Verified`.
    """
    if task.passage:
        words = Ragged.joined([hashed_words(read(), task.scheme)[1] for read in task.texts])
        sides = task.left, task.right
        shared = covers(words, task.left, words, task.right, task.passage)
        shares = shared / np.maximum([words.counts[rows] for rows in sides], 1)
        return shares, len(words), words.hashes.size
    sets = Ragged.joined([shingle_sets(read(), task.scheme) for read in task.texts])
    return jaccard(sets, task.left, task.right)[None], len(sets), sets.hashes.size


def _renumbered(left: I64, right: I64) -> tuple[I64, I64, I64]:
    """Return the distinct rows of pairs, ascending, and the positions of left and right there."""
    # `np.unique` would sort millions of pairs of few rows.
    seen = np.zeros(1 + max(left.max(initial=-1), right.max(initial=-1)), np.bool_)
    seen[left] = seen[right] = True
    position = np.cumsum(seen) - 1
    return np.flatnonzero(seen), position[left], position[right]


def _fitting(left: I64, right: I64, most: int) -> int:
    """The number of pairs, from the first on, that touch at most `most` documents; at least 1."""
    _, first_met = np.unique(np.stack([left, right], axis=1).ravel(), return_index=True)
    touched = np.cumsum(np.bincount(first_met // 2, minlength=left.size))
    return max(1, int(np.searchsorted(touched, most, "right")))


def nearness_of(
    plan: Plan, columns: Columns, compared: I64, memory: int
) -> ByFingerprints | ByTexts:
    """Return the nearness of pairs of positions among the compared rows."""
    if plan.measure.by_values:
        return ByFingerprints(prints_of(columns.values, compared))
    return ByTexts(plan, columns.texts_of, compared, memory)
