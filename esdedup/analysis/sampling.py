"""Draw documents of an index at random, and find their neighbours by exact similarity or cosine.

A sample that is the whole index is compared pair by pair. Otherwise the index is queried for each
document: bands find a neighbour of similarity `floor` or more with a known chance, whose inverse is
the number of neighbours that it represents (Horvitz and Thompson, "A generalization of sampling
without replacement from a finite universe", JASA 1952, section 3). Less similar neighbours are
counted in the pairs of the sample. Of vectors, the similarity is the cosine; one below 0 counts as
0.
"""

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
import xxhash

from esdedup.models import MOST_SAMPLED, Document, Query, natural
from esdedup.search.similar import similar
from esdedup.sketch import banding
from esdedup.sketch.kinds.bands import Banded
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import COSINE
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import normalised_digests, shingle_sets
from esdedup.sketch.vectors import pairs_of_vectors, vectors_of
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, I64, Ragged, offsets_of, ranges

SAMPLED = 1_000
"""Documents to draw by default."""
FLOOR = 0.3
"""Least similarity of a neighbour. Below are far more pairs than above, seldom of interest."""
_LEAST_CHANCE = 0.5
"""Least chance of bands to find a neighbour, so that each found one represents at most two."""
_WIDTH = 2
"""Width of a bin of similarity, in percent."""
KEPT_A_BIN = 300
"""Pairs of a bin to keep: more than a person judges."""
_FREQUENT = 16
"""A matrix product counts the shingles that more than 1 in 16 texts have."""
_CELLS_A_BLOCK = 1 << 19
"""Pairs of texts whose shared shingles are counted at once."""
_STEPS = 200
"""Number of similarities whose chances are computed. Those between are exact to three decimals."""
_STEPS_OF_COSINE = 1_000
"""Cosines below the floor are rounded down to such a step, so that few values are counted."""


class SampledPair(NamedTuple):
    """Two documents of similar, different texts.

    left, right: their ids, in natural order.
    similarity: exact Jaccard similarity, or cosine.
    turn: pairs of a bin are judged in this order, which is random in proportion to their weights.
    """

    left: str
    right: str
    similarity: float
    turn: float


@dataclass(frozen=True, eq=False)
class DistantPairs:
    """The pairs of a sample that are less similar than the floor.

    similarity: ascending from 0, shape (k,).
    pairs: number of pairs of each similarity, shape (k,).
    """

    similarity: F64
    pairs: I64


@dataclass(frozen=True, eq=False)
class Sample:
    """Documents of an index that were drawn at random, and their neighbours.

    documents: number with tokens in the index.
    sampled: number drawn that have a text.
    without_text: number drawn that have none.
    truncated: number with more candidates than were verified, so that neighbours of low similarity
        are missing.
    floor: least similarity of a neighbour.
    chance: to find a neighbour of that similarity, 1.0 if the sample is the whole index.
    row: of each neighbour the sampled document's row, shape (neighbours,).
    similarity: of each neighbour, exact, shape (neighbours,).
    chances: of each neighbour to be found, shape (neighbours,).
    copies: number of pairs of documents that have the same two texts as the neighbour and the
        sampled document; 0 if these are equal, shape (neighbours,).
    pairs: at most 300 of each bin of similarity.
    distant: the pairs of the sample below the floor.
    most: documents that can be drawn.
    """

    most: ClassVar[int] = MOST_SAMPLED
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
    distant: DistantPairs = field(repr=False)

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


def chance_of_meeting(similarity: F64, sketch: Sketch, swaps: int = 0, least: int = 1) -> F64:
    """Return the chance that a query meets a document of each similarity, shape (n,).

    Short tokens collide, so that it is a little more than that of equal rows.

    similarity: between the query and the document, shape (n,).
    swaps: maximum swaps of a probe (`banding`), or flips (`hyperplanes`).
    least: number of bands to share. Not for sketches of texts.
    """
    if not isinstance(sketch, Banded):
        chances = _chances_of_steps(sketch, swaps, least)
        return np.interp(similarity, np.linspace(0.0, 1.0, chances.size), chances)
    rows = sketch.rows
    equal_rows = np.array([banding.meeting(value, rows, swaps) for value in similarity.tolist()])
    collision = banding.probes(rows, swaps) * 2.0**-sketch.token_bits
    in_a_band = equal_rows + (1.0 - equal_rows) * collision
    with np.errstate(divide="ignore"):  # Equal documents always meet: the logarithm of 0.
        in_any_band: F64 = -np.expm1(sketch.bands * np.log1p(-in_a_band))
    return in_any_band


@functools.lru_cache(64)
def _chances_of_steps(sketch: Sketch, swaps: int, least: int) -> F64:
    """Return the chance that a query meets a document, at steps of similarity from 0 to 1."""
    limits = Limits(swaps=swaps)
    similarities = np.linspace(0.0, 1.0, _STEPS + 1).tolist()
    recalls = [sketch.recall(limits, sketch.tokens, least, value) for value in similarities]
    return np.array([1.0 if recall is None else recall for recall in recalls])


def edges_from(floor: float) -> F64:
    """Return the lower edges of the bins of similarity; the last one holds similarity 1 only."""
    return np.arange(round(100 * floor), 101, _WIDTH) / 100


def draw_sample(
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
    document is written. Raises UsageError if the index has neither a sketch with bands nor one of
    vectors.
    """
    sketch = _sampled_sketch(meta.scheme)
    drawn = store.sample([*meta.text_fields], meta, count, seed)
    texts = _texts_of(drawn, meta)
    documents = max(store.statistics(meta).sketched, len(drawn))
    is_whole_index = len(drawn) == documents
    neighbours, truncated = _Neighbours(texts), 0
    search = _NeighbourSearch.by(sketch)
    floor, chance = search.floor, search.chance
    if is_whole_index:
        documents, chance = len(texts), 1.0
        if sketch.measure != COSINE:
            floor = FLOOR
    else:
        limits = search.limits(candidates)
        without_stop_list = replace(meta, stop=())
        for first in range(0, len(texts), QUERIES_AT_ONCE):
            queries = [Query(text.text, text.id) for text in texts[first : first + QUERIES_AT_ONCE]]
            results = similar(store, without_stop_list, queries, limits)
            for row, result in enumerate(results, first):
                matches = [Document(match.id, match.source) for match in result.matches]
                similarity = np.array([match.similarity for match in result.matches], np.float64)
                chances = search.chances(similarity)
                neighbours.add(row, _texts_of(matches, meta), similarity, chances)
                truncated += result.truncated
            if on_drawn is not None:
                on_drawn(first + len(queries), len(texts))
    compared = _compare(len(texts), _pairs_of(texts, meta, sketch, floor), floor)
    if is_whole_index:
        neighbours.add_compared(compared)
    return Sample(
        documents=documents,
        sampled=len(texts),
        without_text=len(drawn) - len(texts),
        truncated=truncated,
        floor=floor,
        chance=chance,
        row=np.concatenate([np.empty(0, np.int64), *neighbours.rows]),
        similarity=np.concatenate([np.empty(0), *neighbours.similarities]),
        chances=np.concatenate([np.empty(0), *neighbours.chances]),
        copies=np.concatenate([np.empty(0), *neighbours.copies]),
        pairs=neighbours.pairs(),
        distant=compared.distant,
    )


def _sampled_sketch(scheme: Scheme) -> Sketch:
    """Return the sketch that a sample is compared by.

    It is the first one of vectors or of the index's own analyzer, or the first one with bands.
    Raises UsageError if there is none.
    """
    first = scheme.sketch()
    return first if scheme.by_server or first.measure == COSINE else scheme.banded


@dataclass(frozen=True)
class _NeighbourSearch:
    """How an index is queried for the neighbours of sampled documents.

    sketch: whose tokens meet.
    swaps: maximum swaps of a probe (`banding`), with which more neighbours meet.
    floor: least similarity of a neighbour.
    chance: to find a neighbour of that similarity.
    """

    sketch: Sketch
    swaps: int
    floor: float
    chance: float

    @staticmethod
    def by(sketch: Sketch) -> "_NeighbourSearch":
        """Return the search that finds neighbours of the least similarity, from `FLOOR` on."""
        swaps = 0
        if isinstance(sketch, Banded):
            swaps = banding.swaps_for(FLOOR, _LEAST_CHANCE, sketch.bands, sketch.rows)
        edges = edges_from(FLOOR)
        chances = chance_of_meeting(edges, sketch, swaps)
        # There is such an edge: the last one is of equal texts, which always meet.
        first = int(np.argmax(chances >= _LEAST_CHANCE))
        return _NeighbourSearch(sketch, swaps, float(edges[first]), float(chances[first]))

    def limits(self, candidates: int) -> Limits:
        """Return the limits of a query, which returns at most as many as the candidates."""
        limits = Limits(self.sketch.name, k=candidates, candidates=candidates)
        limits = replace(limits, least=1, swaps=self.swaps)
        return self.sketch.measure.limited(limits, self.floor)

    def chances(self, similarity: F64) -> F64:
        """Return the chance to find neighbours of some similarities, shape (n,)."""
        return chance_of_meeting(similarity, self.sketch, self.swaps)


def uniform(left: str, right: str) -> float:
    """Return a random number in (0, 1) that depends on two ids alone, so that restarts agree."""
    number = xxhash.xxh3_64_intdigest(json.dumps([left, right]).encode())
    return (number + 0.5) / 2.0**64


class _Text(NamedTuple):
    """A document's text, and the digest of its normal form."""

    id: str
    text: str
    digest: str


def _texts_of(documents: Sequence[Document], meta: IndexMeta) -> list[_Text]:
    """Return the texts of the documents that have one."""
    ids, texts = list[str](), list[str]()
    for document in documents:
        text = text_at(document.source, meta.text_fields)
        if text is not None:
            ids.append(document.id)
            texts.append(text)
    digests = normalised_digests(texts, meta.scheme.normalisation)[1]
    return [*map(_Text, ids, texts, digests)]


_PairsByTexts = dict[tuple[str, ...], SampledPair]
"""Pairs of documents, by the digests of their texts."""


class _Neighbours:
    """Collects the neighbours of documents, and of each bin the pairs whose turn comes first.

    rows, similarities, chances, copies: of each document, as in `Sample`.
    """

    def __init__(self, texts: Sequence[_Text]) -> None:
        self.rows: list[I64] = []
        self.similarities: list[F64] = []
        self.chances: list[F64] = []
        self.copies: list[F64] = []
        self._texts = texts
        self._pairs_of_bin: dict[int, _PairsByTexts] = {}

    def add(self, row: int, neighbours: Sequence[_Text], similarity: F64, chances: F64) -> None:
        """Add the neighbours of a document, with the chance of each to be found."""
        document = self._texts[row]
        documents_of = Counter([document.digest, *(text.digest for text in neighbours)])
        copies = np.array(
            [
                0
                if neighbour.digest == document.digest
                else documents_of[document.digest] * documents_of[neighbour.digest]
                for neighbour in neighbours
            ],
            np.float64,
        )
        self.rows.append(np.full(copies.size, row))
        self.similarities.append(similarity)
        self.chances.append(chances)
        self.copies.append(copies)
        rates = (chances * copies).tolist()
        for neighbour, value, rate in zip(neighbours, similarity.tolist(), rates, strict=True):
            if neighbour.digest != document.digest:
                # Exponential, of mean `rate`, which is the inverse of the pair's weight: the first
                # turns are a sample by weight.
                turn = -math.log(uniform(document.id, neighbour.id)) * rate
                left, right = sorted((document.id, neighbour.id), key=natural)
                digests = tuple(sorted((document.digest, neighbour.digest)))
                self._add_pair(digests, SampledPair(left, right, value, turn))

    def add_compared(self, compared: "_Compared") -> None:
        """Add the neighbours in a sample that is the whole index, each of which is found."""
        for row in np.unique(compared.row).tolist():
            in_row = compared.row == row
            texts = [self._texts[neighbour] for neighbour in compared.neighbour[in_row].tolist()]
            self.add(row, texts, compared.similarity[in_row], np.ones(len(texts)))

    def _add_pair(self, digests: tuple[str, ...], pair: SampledPair) -> None:
        """Add a pair to its bin. Of several pairs of the same texts, the first in turn counts."""
        number = round(100 * pair.similarity) // _WIDTH
        pairs = self._pairs_of_bin.setdefault(number, {})
        if digests not in pairs or pair.turn < pairs[digests].turn:
            pairs[digests] = pair
        if len(pairs) > 2 * KEPT_A_BIN:
            self._pairs_of_bin[number] = _first_in_turn(pairs)

    def pairs(self) -> tuple[SampledPair, ...]:
        """Return the pairs of all bins, in the order of their turns."""
        bins = self._pairs_of_bin.values()
        pairs = [pair for bin_pairs in bins for pair in _first_in_turn(bin_pairs).values()]
        return tuple(sorted(pairs, key=lambda pair: pair.turn))


def _first_in_turn(pairs: _PairsByTexts) -> _PairsByTexts:
    """Return the pairs of a bin to keep."""
    return dict(sorted(pairs.items(), key=lambda item: item[1].turn)[:KEPT_A_BIN])


@dataclass(frozen=True, eq=False)
class _Compared:
    """The pairs of a sample's texts.

    distant: pairs below the floor.
    row, neighbour, similarity: the other pairs, in both directions, shape (2 * pairs,).
    """

    distant: DistantPairs
    row: I64
    neighbour: I64
    similarity: F64


def _pairs_of(
    texts: Sequence[_Text], meta: IndexMeta, sketch: Sketch, floor: float
) -> Iterator[tuple[I64, I64, F64]]:
    """Yield pairs of texts as `pairs_of_sets` does: of sets those that share an element."""
    values = [text.text for text in texts]
    if sketch.measure != COSINE:
        yield from pairs_of_sets(shingle_sets(values, meta.scheme))
        return
    for left, right, cosine in pairs_of_vectors(vectors_of(values)):
        rounded = np.floor(np.maximum(cosine, 0.0) * _STEPS_OF_COSINE) / _STEPS_OF_COSINE
        yield left, right, np.where(cosine < floor, rounded, cosine)


def _compare(texts: int, blocks: Iterable[tuple[I64, I64, F64]], floor: float) -> _Compared:
    """Collect the pairs of texts. blocks: as of `pairs_of_sets`."""
    values, counts = np.zeros(1), np.zeros(1, np.int64)
    rows, neighbours = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    similarities = [np.empty(0)]
    for left, right, similarity in blocks:
        is_distant = similarity < floor
        rows += [left[~is_distant], right[~is_distant]]
        neighbours += [right[~is_distant], left[~is_distant]]
        similarities += [similarity[~is_distant], similarity[~is_distant]]
        block_values, block_counts = np.unique(similarity[is_distant], return_counts=True)
        # Add the counts of equal values.
        values, value_of = np.unique(np.concatenate([values, block_values]), return_inverse=True)
        # Exact: the counts are whole numbers below 2**53.
        counts = np.bincount(value_of, np.concatenate([counts, block_counts])).astype(np.int64)
    row, neighbour = np.concatenate(rows), np.concatenate(neighbours)
    # The pairs that share no element have similarity 0, and come from no block.
    counts[0] = texts * (texts - 1) // 2 - counts[1:].sum() - row.size // 2
    distant = DistantPairs(values, counts)
    return _Compared(distant, row, neighbour, np.concatenate(similarities))


def pairs_of_sets(sets: Ragged) -> Iterator[tuple[I64, I64, F64]]:
    """Yield all pairs of sets that share an element: rows, later rows, Jaccard similarity.

    Each block has shape (pairs,) three times. Similarities are exact. Time grows with the elements
    that pairs share. sets: 64-bit hashes, as `shingles.distinct` returns them.
    """
    texts = len(sets)
    if not sets.hashes.size:
        return
    # Distinct shingles have numbers: `shingle` has that of each element, in the order of the rows.
    _, shingle, frequency = np.unique(sets.hashes, return_inverse=True, return_counts=True)
    row = np.repeat(np.arange(texts), sets.counts)
    is_frequent = frequency > max(_FREQUENT, texts // _FREQUENT)
    # 1 if a text has a frequent shingle, else 0: shape (texts, frequent shingles).
    has_frequent = np.zeros((texts, int(is_frequent.sum())), np.float32)
    of_frequent = is_frequent[shingle]
    column_of = np.cumsum(is_frequent) - 1
    has_frequent[row[of_frequent], column_of[shingle[of_frequent]]] = 1.0
    # The rows that have each other shingle, one shingle after another.
    shingle, row = shingle[~of_frequent], row[~of_frequent]
    holders = row[np.argsort(shingle, kind="stable")]
    numbers_of_holders = np.where(is_frequent, 0, frequency)
    starts = offsets_of(numbers_of_holders)[:-1]
    bounds = np.searchsorted(row, np.arange(texts + 1))
    step = max(1, _CELLS_A_BLOCK // texts)
    for first in range(0, texts, step):
        last = min(first + step, texts)
        elements = slice(bounds[first], bounds[last])
        counts = numbers_of_holders[shingle[elements]]
        partners = holders[ranges(starts[shingle[elements]], counts)]
        # One cell for each row of the block and each text: how many shingles these share.
        cells = np.repeat(row[elements] - first, counts) * texts + partners
        shared = np.bincount(cells, minlength=(last - first) * texts).reshape(-1, texts)
        # Whole numbers below 2**24, so that single precision is exact.
        shared_frequent = np.rint(has_frequent[first:last] @ has_frequent.T).astype(np.int64)
        shared = shared + shared_frequent
        # Each pair once, and no text with itself.
        rows, columns = np.nonzero(np.triu(shared, first + 1))
        intersection = shared[rows, columns]
        union = sets.counts[rows + first] + sets.counts[columns] - intersection
        yield rows + first, columns, intersection / union
