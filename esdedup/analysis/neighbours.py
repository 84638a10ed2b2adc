"""Finds the neighbours of sampled documents: by their bands, or by comparing them with all texts.

Equal texts count as one text here, which several documents have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from esdedup.analysis.sampling import neighbours_of, with_text
from esdedup.analysis.tuning import meeting
from esdedup.models import Document, Query, Result, natural
from esdedup.sketch.banding import swaps_for
from esdedup.sketch.kinds.bands import Banded
from esdedup.sketch.limits import RECALL
from esdedup.sketch.sketch import normalised_digests, shingle_sets
from esdedup.stores.base import Store
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, I64
from esdedup.text.jaccard import jaccard_with

OnStep = Callable[[int, int], None]
"""Called with the number of documents done so far, and of all."""

_CANDIDATES = 1_000


@dataclass(frozen=True)
class Asked:
    """The different texts of sampled documents. ids: of the documents of each text, one or more."""

    ids: list[list[str]]
    texts: list[str]
    digests: list[str]

    @staticmethod
    def of(documents: Sequence[Document], meta: IndexMeta) -> Asked:
        """The texts of documents, without those that lost theirs since they were written."""
        found = with_text(documents, meta)
        texts = [text for _, text in found]
        same = _positions(normalised_digests(texts, meta.scheme.normalisation)[1])
        ids = [[found[at][0].id for at in each] for each in same.values()]
        return Asked(ids, [texts[each[0]] for each in same.values()], [*same])


@dataclass(frozen=True, eq=False)
class Near:
    """The texts that are similar to a sampled one, but not equal to it.

    first: id of the first document of the sampled text, in natural order. copies: number of its
    documents. ids: of the first document of each of m similar texts. similarity: exact Jaccard
    similarity. met: chance to be found. many: number of documents of the text. Each has shape (m,).
    truncated: there were more candidates than were verified.
    """

    first: str
    copies: int
    ids: list[str]
    similarity: F64
    met: F64
    many: F64
    truncated: bool = False


def met(similarity: F64, banded: Banded, least: float) -> F64:
    """The chance that `queried` finds a text of each similarity: shape as `similarity`."""
    return meeting(similarity, banded, _swaps(banded, least))


def _swaps(banded: Banded, least: float) -> int:
    return swaps_for(least, RECALL, banded.bands, banded.rows)


def queried(
    store: Store,
    meta: IndexMeta,
    asked: Asked,
    floor: float,
    least: float,
    on_step: OnStep,
) -> Iterator[Near]:
    """Find the neighbours of each text from a similarity on, the floor, by its bands.

    The chance to find one is as `met` tells. least: similarity that swaps are chosen for.
    """
    banded = meta.scheme.banded
    queries = [Query(text, ids[0]) for text, ids in zip(asked.texts, asked.ids, strict=True)]
    swaps, done = _swaps(banded, least), 0
    for results in neighbours_of(store, meta, queries, floor, _CANDIDATES, swaps):
        for result in results:
            near = _of_result(asked.ids[done][0], asked.digests[done], result, meta)
            yield replace(near, met=met(near.similarity, banded, least))
            done += 1
        on_step(done, len(queries))


def _of_result(id: str, digest: str, result: Result, meta: IndexMeta) -> Near:
    matches = result.matches
    texts = [text_at(match.source, meta.text_fields) or "" for match in matches]
    same = _positions(normalised_digests(texts, meta.scheme.normalisation)[1])
    own = same.pop(digest, [])
    first_of = [min((matches[at].id for at in each), key=natural) for each in same.values()]
    similarity = [matches[each[0]].similarity or 0.0 for each in same.values()]
    return Near(
        min([id, *(matches[at].id for at in own)], key=natural),
        1 + len(own),
        first_of,
        np.array(similarity, np.float64),
        np.ones(len(similarity)),
        np.array([len(each) for each in same.values()], np.float64),
        result.truncated,
    )


def _positions(digests: Sequence[str]) -> dict[str, list[int]]:
    """The positions of each digest, in the order in which they come first."""
    same: dict[str, list[int]] = {}
    for at, digest in enumerate(digests):
        same.setdefault(digest, []).append(at)
    return same


def compared(
    store: Store, meta: IndexMeta, asked: Asked, floor: float, documents: int, on_step: OnStep
) -> Iterator[Near]:
    """Compare each text with all texts of an index, so that no neighbour is missed.

    documents: number of them in the index. Memory grows with the neighbours, not with the texts.
    """
    if not asked.texts:
        return
    sets = shingle_sets(asked.texts, meta.scheme)
    texts = _Texts()
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    done = 0
    for batch in store.scan([*meta.text_fields], meta):
        number, fresh = texts.add(with_text(batch, meta), meta)
        if fresh:
            others = shingle_sets(fresh, meta.scheme)
            for at, one in enumerate(sets):
                similarity = jaccard_with(one, others)
                column = np.flatnonzero(similarity >= floor)
                found.append((np.full(column.size, at), number[column], similarity[column]))
                on_step(min(done, documents), documents)
        done += len(batch)
        on_step(min(done, documents), documents)
    row, number, similarity = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(row, kind="stable")
    bounds = np.searchsorted(row[order], np.arange(len(asked.texts) + 1)).tolist()
    for at, (ids, digest) in enumerate(zip(asked.ids, asked.digests, strict=True)):
        # The caller may take long for each, and end it here.
        on_step(documents, documents)
        chosen = order[bounds[at] : bounds[at + 1]]
        own = texts.numbers.get(digest)
        chosen = chosen[number[chosen] != own]
        yield texts.near(ids, own, number[chosen], similarity[chosen])


@dataclass(frozen=True)
class _Texts:
    """The different texts of an index: the number, documents and first id of each."""

    numbers: dict[str, int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    firsts: list[str] = field(default_factory=list)

    def add(
        self, documents: Sequence[tuple[Document, str]], meta: IndexMeta
    ) -> tuple[I64, list[str]]:
        """Add documents; returns the texts that are new, and their numbers, shape (new,)."""
        texts = [text for _, text in documents]
        _, digests = normalised_digests(texts, meta.scheme.normalisation)
        before, fresh = len(self.counts), []
        for (document, text), digest in zip(documents, digests, strict=True):
            number = self.numbers.setdefault(digest, len(self.counts))
            if number == len(self.counts):
                self.counts.append(1)
                self.firsts.append(document.id)
                fresh.append(text)
            else:
                self.counts[number] += 1
                self.firsts[number] = min(self.firsts[number], document.id, key=natural)
        return np.arange(before, len(self.counts)), fresh

    def near(self, ids: Sequence[str], own: int | None, numbers: I64, similarity: F64) -> Near:
        """The neighbours of a sampled text.

        ids: of its sampled documents. own: its number, None if nobody has it any more.
        """
        first, copies = (ids[0], len(ids)) if own is None else (self.firsts[own], self.counts[own])
        names = [self.firsts[number] for number in numbers.tolist()]
        many = np.array([self.counts[number] for number in numbers.tolist()], np.float64)
        return Near(first, copies, names, similarity, np.ones(many.size), many)
