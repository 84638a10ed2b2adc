"""Exact Jaccard similarity of pairs of documents, whose texts are fetched for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from esdedup.dedup.union_find import join, singletons
from esdedup.exceptions import RecordError
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import shingle_sets
from esdedup.stores.base import Store
from esdedup.stores.fields import text_of
from esdedup.text.arrays import I64, Ragged
from esdedup.text.jaccard import jaccard_of_rows

_SHINGLES_A_BLOCK = 16_000_000
_MOST_DOCUMENTS = 20_000
_FETCHED_AT_ONCE = 2_000
_PAIRS_AT_ONCE = 1 << 20
"""Bounds of what is in memory at a time: 128 MB of shingle hashes, and the texts of a page."""


TextsOf = Callable[[list[str]], list[str]]
"""Gives the texts of documents by id."""


def texts_in(store: Store, field: str) -> TextsOf:
    """The texts of a store's documents; of one that vanished, or lost its text, the empty one."""

    def texts_of(ids: list[str]) -> list[str]:
        found = {document.id: document.source for document in store.get(ids, [field])}
        return [_text(found.get(id), field) for id in ids]

    return texts_of


class ExactSimilarity:
    """Compares documents, given by row.

    ids: of all rows.
    """

    def __init__(self, texts_of: TextsOf, scheme: Scheme, ids: Sequence[str]) -> None:
        self._texts_of = texts_of
        self._scheme = scheme
        self._ids = ids
        self._shingles = 0
        self._documents = 0

    def __call__(self, left: I64, right: I64) -> NDArray[np.float64]:
        """The similarity of each pair, shape (pairs,); 0 where a document is gone meanwhile."""
        similarity = np.zeros(left.size)
        order = _by_group(left, right)
        while order.size:
            block = order[:_PAIRS_AT_ONCE]
            block = block[: _fitting(left[block], right[block], self._most())]
            similarity[block] = jaccard_of_rows(left[block], right[block], self._sets)
            order = order[block.size :]
        return similarity

    def _most(self) -> int:
        """Documents to hold at once, by the length of those before."""
        if not self._documents:
            return 1_000
        mean = max(1.0, self._shingles / self._documents)
        return int(max(100, min(_MOST_DOCUMENTS, _SHINGLES_A_BLOCK / mean)))

    def _sets(self, rows: list[int]) -> Ragged:
        parts = [self._some(rows[at : at + _FETCHED_AT_ONCE]) for at in _pages(len(rows))]
        sets = Ragged.joined(parts)
        self._shingles += sets.hashes.size
        self._documents += len(rows)
        return sets

    def _some(self, rows: list[int]) -> Ragged:
        return shingle_sets(self._texts_of([self._ids[row] for row in rows]), self._scheme)


def _pages(rows: int) -> Iterator[int]:
    return iter(range(0, rows, _FETCHED_AT_ONCE))


def _text(source: object, field: str) -> str:
    try:
        return text_of(source, field) if source is not None else ""
    except RecordError:
        return ""


def _by_group(left: I64, right: I64) -> I64:
    """An order of pairs in which those that hang together lie together: few texts come twice."""
    rows, at = np.unique(np.concatenate([left, right]), return_inverse=True)
    groups = singletons(rows.size)
    join(groups, at[: left.size], at[left.size :])
    return np.lexsort((right, left, groups[at[: left.size]]))


def _fitting(left: I64, right: I64, most: int) -> int:
    """How many of the pairs, from the first on, touch at most so many documents."""
    _, first_met = np.unique(np.stack([left, right], axis=1).ravel(), return_index=True)
    touched = np.cumsum(np.bincount(first_met // 2, minlength=left.size))
    return max(1, int(np.searchsorted(touched, most, "right")))
