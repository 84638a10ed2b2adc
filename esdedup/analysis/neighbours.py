"""Finds the neighbours of sampled documents: by their bands, or by comparing them with all texts.

Equal texts count as one text here, which several documents have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from esdedup.analysis.sampling import with_text
from esdedup.analysis.tuning import meeting
from esdedup.models import Document, Query, Result, natural
from esdedup.search.limits import RECALL, Limits, require_minhash
from esdedup.search.similar import similar
from esdedup.sketch.banding import swaps_for
from esdedup.sketch.minhash import MinHash
from esdedup.sketch.sketch import normalised_digests, shingle_sets
from esdedup.stores.base import Store
from esdedup.stores.elastic.queries import QUERIES_AT_ONCE
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F32, F64, I64, U64, Mask, Ragged, blocks, offsets_of, ranges

OnStep = Callable[[int, int], None]
"""Called with the number of documents done so far, and of all."""

_CANDIDATES = 1_000
_FREQUENT = 16
"""A matrix product counts the shingles that more than 1 in 16 sampled texts have."""
_SHARED_AT_ONCE = 1 << 22
"""Shared shingles that are counted at once."""


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


def met(similarity: F64, minhash: MinHash, least: float) -> F64:
    """The chance that `queried` finds a text of each similarity: shape as `similarity`."""
    return meeting(similarity, minhash, _swaps(minhash, least))


def _swaps(minhash: MinHash, least: float) -> int:
    return swaps_for(least, RECALL, minhash.bands, minhash.rows)


def queried(
    store: Store,
    meta: IndexMeta,
    asked: Asked,
    floor: float,
    least: float,
    on_step: OnStep,
) -> Iterator[Near]:
    """Finds the neighbours of each text from a similarity on, the floor, by its bands.

    There is no stop list, and one shared band is enough, so that the chance is as `met` tells.
    least: similarity that swaps are chosen for.
    """
    whole, minhash = replace(meta, stop=()), require_minhash(meta.scheme)
    most, swaps = _CANDIDATES, _swaps(minhash, least)
    limits = Limits("jaccard", floor, matches=most, candidates=most, least=1, swaps=swaps)
    total = len(asked.ids)
    for start in range(0, total, QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        names, digests = [ids[0] for ids in asked.ids[some]], asked.digests[some]
        queries = [Query(text, name) for text, name in zip(asked.texts[some], names, strict=True)]
        results = similar(store, whole, queries, limits)
        for name, digest, result in zip(names, digests, results, strict=True):
            near = _of_result(name, digest, result, meta)
            yield replace(near, met=met(near.similarity, minhash, least))
        on_step(min(some.stop, total), total)


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
    """Compares each text with all texts of an index, so that no neighbour is missed.

    documents: number of them in the index. Memory grows with the neighbours, not with the texts.
    """
    if not asked.texts:
        return
    postings = _Postings.of(shingle_sets(asked.texts, meta.scheme))
    texts = _Texts()
    found: list[tuple[I64, I64, F64]] = []
    done = 0
    for batch in store.scan([*meta.text_fields], meta):
        number, fresh = texts.add(with_text(batch, meta), meta)
        if fresh:
            row, column, similarity = postings.near(shingle_sets(fresh, meta.scheme), floor)
            found.append((row, number[column], similarity))
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
        """Adds documents; returns the texts that are new, and their numbers, shape (new,)."""
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


@dataclass(frozen=True, eq=False)
class _Postings:
    """The n sampled texts that have each shingle, to count what other texts share with them.

    shingles: of all sampled texts, sorted, shape (s,). starts, lengths: of their texts in `rows`;
    frequent ones have none. columns: of the frequent ones in `matrix`, -1 for others, shape (s,).
    matrix: 1 if a text has a frequent shingle, else 0, shape (n, frequent ones). counts: shingles
    of each text, shape (n,).
    """

    shingles: U64
    starts: I64
    lengths: I64
    rows: I64
    columns: I64
    matrix: F32
    counts: I64

    @staticmethod
    def of(sets: Ragged) -> _Postings:
        """The postings of sets of shingles, sorted and without repetitions."""
        shingles, element, many = np.unique(sets.hashes, return_inverse=True, return_counts=True)
        frequent = many > max(_FREQUENT, len(sets) // _FREQUENT)
        columns = np.where(frequent, np.cumsum(frequent) - 1, -1)
        row = np.repeat(np.arange(len(sets)), sets.counts)
        matrix = _zeros_and_ones(row, columns[element], len(sets), int(frequent.sum()))
        seldom = ~frequent[element]
        rows = row[seldom][np.argsort(element[seldom], kind="stable")]
        lengths = np.where(frequent, 0, many)
        return _Postings(
            shingles, offsets_of(lengths)[:-1], lengths, rows, columns, matrix, sets.counts
        )

    def near(self, sets: Ragged, floor: float) -> tuple[I64, I64, F64]:
        """(row here, row of `sets`, similarity) of all pairs from the floor on, shape (pairs,)."""
        shared = self._shared(sets)
        union = self.counts + sets.counts[:, None] - shared
        similarity = shared / np.maximum(union, 1)
        column, row = np.nonzero(similarity >= floor)
        return row, column, similarity[column, row]

    def _shared(self, sets: Ragged) -> I64:
        """The numbers of shared shingles, shape (len(sets), n)."""
        form = len(sets), self.counts.size
        shared = np.zeros(form[0] * form[1], np.int64)
        if not self.shingles.size:
            return shared.reshape(form)
        at = np.searchsorted(self.shingles, sets.hashes)
        at[at == self.shingles.size] = 0
        known: Mask = self.shingles[at] == sets.hashes
        of, at = np.repeat(np.arange(form[0]), sets.counts)[known], at[known]
        for block in blocks(self.lengths[at], _SHARED_AT_ONCE):
            many = self.lengths[at[block]]
            rows = self.rows[ranges(self.starts[at[block]], many)]
            np.add.at(shared, np.repeat(of[block], many) * form[1] + rows, 1)
        frequent = _zeros_and_ones(of, self.columns[at], form[0], self.matrix.shape[1])
        # Whole numbers below 2**24, so that single precision is exact.
        shared += np.rint(frequent @ self.matrix.T).astype(np.int64).ravel()
        return shared.reshape(form)


def _zeros_and_ones(row: I64, column: I64, rows: int, columns: int) -> F32:
    """A matrix of shape (rows, columns), 1 at the given places; a column of -1 is none."""
    matrix = np.zeros((rows, columns), np.float32)
    inside = column >= 0
    matrix[row[inside], column[inside]] = 1.0
    return matrix
