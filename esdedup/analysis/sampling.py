"""Draw documents of an index at random, and find their neighbours by exact Jaccard similarity.

A sample that is the whole index is compared pair by pair. Otherwise the index is queried for each
document: bands find a neighbour of similarity `floor` or more with a known chance, whose inverse is
the number of neighbours that it represents (Horvitz and Thompson, "A generalization of sampling
without replacement from a finite universe", JASA 1952, section 3). Less similar neighbours are
counted in the pairs of the sample.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import xxhash

from esdedup.models import Document, Query, natural
from esdedup.search.similar import similar
from esdedup.sketch import banding
from esdedup.sketch.kinds.bands import Banded
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import normalised_digests, shingle_sets
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, I64, Ragged, offsets_of, ranges

SAMPLED = 1_000
"""Documents to draw by default."""
FLOOR = 0.3
"""Least similarity of a neighbour. Below are far more pairs than above, seldom of interest."""
_CHANCE = 0.5
"""Least chance of bands to find a neighbour, so that each found one represents at most two."""
_WIDTH = 2
"""Width of a bin of similarity, in percent."""
KEPT_A_BIN = 300
"""Pairs of a bin to keep: more than a person judges."""
_FREQUENT = 16
"""A matrix product counts the shingles that more than 1 in 16 texts have."""
_CELLS_A_BLOCK = 1 << 19
"""Pairs of texts whose shared shingles are counted at once."""


class SampledPair(NamedTuple):
    """Two documents of similar, different texts: their ids in natural order, and the similarity.

    turn: pairs of a bin are judged in this order, which is random in proportion to their weights.
    """

    left: str
    right: str
    similarity: float
    turn: float


@dataclass(frozen=True, eq=False)
class Sample:
    """Documents of an index that were drawn at random, and their neighbours.

    documents: number with tokens in the index. sampled: number drawn that have a text, n.
    without_text: number drawn that have none. truncated: number with more candidates than were
    verified, so that neighbours of low similarity are missing. floor: least similarity of a
    neighbour. chance: to find a neighbour there, 1.0 if the sample is the whole index.

    row, similarity, chances, copies: of m neighbours, shape (m,): the row of the sampled document,
    the exact similarity, the chance to be found, and the number of pairs of documents that have the
    same two texts; 0 for a neighbour of equal text. pairs: at most 300 of each bin of similarity.
    rare: similarities below the floor, and their number in the pairs of the sample, shape (k,).
    """

    documents: int
    sampled: int
    without_text: int
    truncated: int
    floor: float
    chance: float
    row: I64 = field(repr=False)
    similarity: F64 = field(repr=False)
    chances: F64 = field(repr=False)
    copies: F64 = field(repr=False)
    pairs: tuple[SampledPair, ...] = field(repr=False)
    rare: tuple[F64, I64] = field(repr=False)

    @property
    def whole(self) -> bool:
        """Return whether the sample is the whole index."""
        return self.chance == 1.0

    @property
    def weight(self) -> F64:
        """Pairs of different texts in the index that each neighbour represents, shape (m,)."""
        # Both documents of a pair may find it, and each copy of a text.
        pairs = self.documents / max(1, self.sampled) / (2.0 * self.chances)
        return np.where(self.copies > 0, pairs / np.maximum(self.copies, 1.0), 0.0)


def meeting(similarity: F64, sketch: Sketch, swaps: int = 0) -> F64:
    """Return the chance, with collisions of short tokens, that a query meets a document: (n,)."""
    if not isinstance(sketch, Banded):
        every = (sketch.recall(Limits(), sketch.tokens, 1, each) for each in similarity.tolist())
        return np.array([1.0 if each is None else each for each in every])
    rows = sketch.rows
    same = np.array([banding.meeting(each, rows, swaps) for each in similarity.tolist()])
    one = same + (1.0 - same) * banding.probes(rows, swaps) * 2.0**-sketch.token_bits
    with np.errstate(divide="ignore"):  # Equal documents always meet: the logarithm of 0.
        met: F64 = -np.expm1(sketch.bands * np.log1p(-one))
    return met


def edges_from(floor: float) -> F64:
    """Return the lower edges of the bins of similarity; the last one holds similarity 1 only."""
    return np.arange(round(100 * floor), 101, _WIDTH) / 100


def draw(
    store: Store,
    meta: IndexMeta,
    count: int = SAMPLED,
    seed: int = 1,
    on_drawn: Callable[[int, int], None] | None = None,
    candidates: int = 1_000,
) -> Sample:
    """Draw documents at random and find their neighbours.

    on_drawn: called with the number of documents queried for so far, and of all. candidates:
    maximum number of documents to verify for a query. The same seed draws the same while no
    document is written. Raises UsageError if the index has no sketch with bands.
    """
    sketch = meta.scheme.sketch() if meta.scheme.by_server else meta.scheme.banded
    drawn = store.sample([*meta.text_fields], meta, count, seed)
    own = _texts_of(drawn, meta)
    documents = max(store.statistics(meta).sketched, len(drawn))
    whole = len(drawn) == documents
    found, truncated = _Found(own), 0
    if whole:
        documents, floor, chance = len(own), FLOOR, 1.0
    else:
        swaps = 0
        if isinstance(sketch, Banded):
            swaps = banding.swaps_for(FLOOR, _CHANCE, sketch.bands, sketch.rows)
        grid = edges_from(FLOOR)
        chances = meeting(grid, sketch, swaps)
        # Equal texts always meet.
        least = int(np.argmax(chances >= _CHANCE))
        floor, chance = float(grid[least]), float(chances[least])
        limits = Limits(sketch.name, floor, k=candidates, candidates=candidates)
        limits = replace(limits, least=1, swaps=swaps)
        for first in range(0, len(own), QUERIES_AT_ONCE):
            queries = [Query(each.text, each.id) for each in own[first : first + QUERIES_AT_ONCE]]
            results = similar(store, replace(meta, stop=()), queries, limits)
            for row, result in enumerate(results, first):
                matches = [Document(each.id, each.source) for each in result.matches]
                near = np.array([each.similarity for each in result.matches], np.float64)
                found.add(row, _texts_of(matches, meta), near, meeting(near, sketch, swaps))
                truncated += result.truncated
            if on_drawn is not None:
                on_drawn(first + len(queries), len(own))
    rare, near_pairs = _compared(shingle_sets([each.text for each in own], meta.scheme), floor)
    if whole:
        rows, others, similarity = near_pairs
        for row in np.unique(rows).tolist():
            texts = [own[each] for each in others[rows == row].tolist()]
            found.add(row, texts, similarity[rows == row], np.ones(len(texts)))
    near_row, near, met, copies = np.concatenate([np.empty((4, 0)), *found.columns], axis=1)
    counts = documents, len(own), len(drawn) - len(own), truncated
    arrays = near_row.astype(np.int64), near, met, copies
    return Sample(*counts, floor, chance, *arrays, found.pairs(), rare)


def uniform(one: str, other: str) -> float:
    """Return a random number in (0, 1) that depends on two ids alone, so that restarts agree."""
    number = xxhash.xxh3_64_intdigest(json.dumps([one, other]).encode())
    return (number + 0.5) / 2.0**64


class _Text(NamedTuple):
    """A document's text, and the digest of its normal form."""

    id: str
    text: str
    digest: str


def _texts_of(documents: Sequence[Document], meta: IndexMeta) -> list[_Text]:
    """Return the texts of the documents that have one."""
    found = [(each.id, text_at(each.source, meta.text_fields)) for each in documents]
    some = [(id, text) for id, text in found if text is not None]
    digests = normalised_digests([text for _, text in some], meta.scheme.normalisation)[1]
    return [_Text(*each, digest) for each, digest in zip(some, digests, strict=True)]


class _Found:
    """Collects the neighbours of documents, and of each bin the pairs whose turn comes first."""

    def __init__(self, own: Sequence[_Text]) -> None:
        self.columns: list[F64] = []
        self._own = own
        self._kept: dict[int, dict[tuple[str, ...], SampledPair]] = {}

    def add(self, row: int, others: Sequence[_Text], similarity: F64, chances: F64) -> None:
        """Add the neighbours of a document, with the chance of each to be found."""
        own = self._own[row]
        many = Counter([own.digest, *(each.digest for each in others)])
        copies = np.array(
            [
                0 if each.digest == own.digest else many[own.digest] * many[each.digest]
                for each in others
            ],
            np.float64,
        )
        self.columns.append(np.stack([np.full(copies.size, row), similarity, chances, copies]))
        rates = (chances * copies).tolist()
        for other, value, rate in zip(others, similarity.tolist(), rates, strict=True):
            if other.digest != own.digest:
                turn = -math.log(uniform(own.id, other.id)) * rate
                at = round(100 * value) // _WIDTH
                kept = self._kept.setdefault(at, {})
                left, right = sorted((own.id, other.id), key=natural)
                texts = tuple(sorted((own.digest, other.digest)))
                if texts not in kept or turn < kept[texts].turn:
                    kept[texts] = SampledPair(left, right, value, turn)
                if len(kept) > 2 * KEPT_A_BIN:
                    self._kept[at] = dict(_first(kept))

    def pairs(self) -> tuple[SampledPair, ...]:
        """Return the pairs of all bins, in the order of their turns."""
        found = [pair for kept in self._kept.values() for _, pair in _first(kept)]
        return tuple(sorted(found, key=lambda pair: pair.turn))


def _first(kept: dict[tuple[str, ...], SampledPair]) -> list[tuple[tuple[str, ...], SampledPair]]:
    return sorted(kept.items(), key=lambda item: item[1].turn)[:KEPT_A_BIN]


def _compared(sets: Ragged, floor: float) -> tuple[tuple[F64, I64], tuple[I64, I64, F64]]:
    """Compare all pairs of sets.

    Return the similarities below the floor, ascending from 0, and the number of each; and of the
    other pairs, in both directions, the rows and their similarity.
    """
    values, counts = np.zeros(1), np.zeros(1, np.int64)
    near = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    for row, other, similarity in similar_pairs(sets):
        low = similarity < floor
        near += [(row[~low], other[~low], similarity[~low])]
        near += [(other[~low], row[~low], similarity[~low])]
        fresh, fresh_counts = np.unique(similarity[low], return_counts=True)
        values, at = np.unique(np.concatenate([values, fresh]), return_inverse=True)
        # Exact: the counts are whole numbers below 2**53.
        counts = np.bincount(at, np.concatenate([counts, fresh_counts])).astype(np.int64)
    row, other, similarity = (np.concatenate(each) for each in zip(*near, strict=True))
    counts[0] = len(sets) * (len(sets) - 1) // 2 - counts[1:].sum() - row.size // 2
    return (values, counts), (row, other, similarity)


def similar_pairs(sets: Ragged) -> Iterator[tuple[I64, I64, F64]]:
    """Yield all pairs of sets that share an element: rows, later rows, Jaccard similarity.

    Each block has shape (pairs,) three times. Similarities are exact. Time grows with the elements
    that pairs share. sets: 64-bit hashes, as `shingles.distinct` returns them.
    """
    texts = len(sets)
    if not sets.hashes.size:
        return
    _, identity, frequency = np.unique(sets.hashes, return_inverse=True, return_counts=True)
    row_of = np.repeat(np.arange(texts), sets.counts)
    frequent = frequency > max(_FREQUENT, texts // _FREQUENT)
    # 1 if a text has a frequent shingle, else 0: shape (texts, frequent ones).
    matrix = np.zeros((texts, int(frequent.sum())), np.float32)
    chosen = frequent[identity]
    matrix[row_of[chosen], (np.cumsum(frequent) - 1)[identity[chosen]]] = 1.0
    element, row = identity[~chosen], row_of[~chosen]
    postings = row[np.argsort(element, kind="stable")]
    lengths = np.where(frequent, 0, frequency)
    starts = offsets_of(lengths)[:-1]
    bounds = np.searchsorted(row, np.arange(texts + 1))
    step = max(1, _CELLS_A_BLOCK // texts)
    for first in range(0, texts, step):
        last = min(first + step, texts)
        some = slice(bounds[first], bounds[last])
        many = lengths[element[some]]
        others = postings[ranges(starts[element[some]], many)]
        cells = np.repeat(row[some] - first, many) * texts + others
        shared = np.bincount(cells, minlength=(last - first) * texts).reshape(-1, texts)
        # Whole numbers below 2**24, so that single precision is exact.
        shared = shared + np.rint(matrix[first:last] @ matrix.T).astype(np.int64)
        rows, columns = np.nonzero(np.triu(shared, first + 1))
        both = shared[rows, columns]
        union = sets.counts[rows + first] + sets.counts[columns] - both
        yield rows + first, columns, both / union
