"""Predicts what bands and rows find and cost, from how alike the documents of a corpus are.

A neighbour of a document is any other one, whatever its similarity. A sample tells how many
neighbours of each similarity a document has. Everything else follows from the S-curve of
`banding.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.sketch import banding
from esdedup.sketch.banding import SWAPS
from esdedup.sketch.kinds.bands import Banded
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.tokens import MAX_TOKENS
from esdedup.text.arrays import F64, I64, Ragged, offsets_of, ranges

_FREQUENT = 16
"""A matrix product counts the shingles that more than 1 in 16 texts have."""
_BINS = 20
"""Bins of similarity in which pairs are weighed together."""
_FEWEST_PAIRS = 30
_CELLS_A_BLOCK = 1 << 19
"""Pairs of texts whose shared shingles are counted at once."""
# Measured, as `Sketch.token_bytes` is, by the sizes of 100,000 documents, `_source` included,
# merged: 12 bands and 4 segments take 250.9, 23 and 4 take 416.6, 12 without segments 211.1. 128
# single values take 1,390, see docs/explanation/design.md.
_BYTES_OF_THE_FIELD = 30.5


@dataclass(frozen=True)
class Neighbours:
    """The expected neighbours of a document, by similarity.

    similarity: exact Jaccard similarities, ascending, shape (n,), 0 to 1. expected: number of such
    neighbours that a document has, shape (n,); together one less than `documents`. seen: number of
    them in the sample, shape (n,): few make a bad estimate.
    """

    similarity: F64
    expected: F64
    seen: I64
    documents: float

    def of(self, documents: float) -> Neighbours:
        """Return the neighbours in a larger or smaller corpus of the same kind."""
        scale = max(0.0, documents - 1) / max(1.0, self.documents - 1)
        return replace(self, expected=self.expected * scale, documents=documents)

    def histogram(self, bins: int) -> F64:
        """Expected neighbours in equal bins from 0 to 1, with their lower edges: shape (bins,)."""
        at = np.minimum((self.similarity * bins + 1e-9).astype(np.int64), bins - 1)
        counted: F64 = np.bincount(at, self.expected, bins).astype(np.float64)
        return counted

    def seen_from(self, similarity: float) -> int:
        """Number of neighbours at or over a similarity in the sample."""
        return int(self.seen[self.similarity >= similarity].sum())


@dataclass(frozen=True)
class Expectation:
    """Documents that a query meets on average, with a threshold on similarity.

    candidates: documents to fetch and verify. similar: neighbours at or over the threshold. missed:
    similar ones that are not candidates. wasted: candidates below the threshold.
    """

    candidates: float
    similar: float
    missed: float
    wasted: float

    @property
    def recall(self) -> float | None:
        """Share of similar neighbours that is found, or None if there are none."""
        return 1.0 - self.missed / self.similar if self.similar > 0 else None


def unrelated(documents: float, similarity: float) -> Neighbours:
    """Neighbours in a corpus whose documents are all of one similarity to each other."""
    expected = np.array([max(0.0, documents - 1)])
    return Neighbours(np.array([similarity]), expected, np.zeros(1, np.int64), documents)


def expectation(
    neighbours: Neighbours, threshold: float, banded: Banded, swaps: int = 0
) -> Expectation:
    """Predict the candidates of a query by the bands of a scheme."""
    met = neighbours.expected * meeting(neighbours.similarity, banded, swaps)
    near = neighbours.similarity >= threshold
    similar = float(neighbours.expected[near].sum())
    found, candidates = float(met[near].sum()), float(met.sum())
    return Expectation(candidates, similar, max(0.0, similar - found), candidates - found)


def meeting(similarity: F64, banded: Banded, swaps: int = 0) -> F64:
    """Chance that a query meets a document in a band: the shape of `similarity`.

    It is that of `banding.candidate_probability`, raised by collisions of short tokens.
    """
    rows = banded.rows
    alike = np.array([banding.meeting(each, rows, swaps) for each in similarity.tolist()])
    one = alike + (1.0 - alike) * banding.probes(rows, swaps) * 2.0**-banded.token_bits
    with np.errstate(divide="ignore"):  # Equal documents always meet: the logarithm of 0.
        met: F64 = -np.expm1(banded.bands * np.log1p(-one))
    return met


def from_pairs(sets: Ragged, documents: float) -> Neighbours:
    """Estimate neighbours from all pairs of a random sample of a corpus.

    The estimate is unbiased, and good for frequent similarities. A sample seldom has a pair of a
    similarity that one pair in a million has.

    sets: as `shingles.distinct` gives them. documents: number of them in the corpus.

    Raises UsageError for fewer than two texts.
    """
    sampled = len(sets)
    if sampled < 2:
        raise UsageError(f"a sample of {sampled} texts has no pairs: give two or more")
    similarity, pairs = pair_similarities(sets)
    # Each pair is a neighbour to both.
    expected = 2.0 * pairs / sampled * (documents - 1) / (sampled - 1)
    return Neighbours(similarity, expected, 2 * pairs, documents)


def least_met(banded: Banded, sampled: int, documents: float) -> float:
    """The least similarity at which tokens find a neighbour more often than the sample has it.

    A neighbour of a sampled document is in the sample too with the chance (n - 1) / (N - 1). The
    tokens find it with the chance of the S-curve. The result is 1 or more if the sample is the
    whole corpus.
    """
    chance = (sampled - 1) / max(1.0, documents - 1)
    if chance >= 1.0:
        return np.inf
    meets = -np.expm1(np.log1p(-chance) / banded.bands)
    return float(meets ** (1.0 / banded.rows))


def with_found(
    neighbours: Neighbours, found: F64, sampled: int, banded: Banded, least: float
) -> Neighbours:
    """Improves the estimate for neighbours over `least` by those that the tokens found.

    Each found one is weighed by the inverse of its chance to be found: Horvitz and Thompson, "A
    generalization of sampling without replacement from a finite universe", JASA 1952, section 3.
    If the pairs of the sample tell something too, the mean of both is taken, see `_share_of_pairs`.

    found: similarities of the neighbours found by queries for all `sampled` documents, shape (m,).
    """
    value, count = np.unique(found[found >= least], return_counts=True)
    expected = count / (meeting(value, banded) * sampled)
    of_pairs, of_found = (
        _share_of_pairs(neighbours, each, banded, least) for each in (neighbours.similarity, value)
    )
    similarity = np.concatenate([neighbours.similarity, value])
    every = np.concatenate([neighbours.expected * of_pairs, expected * (1.0 - of_found)])
    seen = np.concatenate([np.where(of_pairs > 0, neighbours.seen, 0), count])
    order = np.argsort(similarity, kind="stable")
    similarity, every, seen = similarity[order], every[order], seen[order]
    if similarity.size and similarity[0] == 0.0:
        # All neighbours together are one less than the documents.
        every[0] = max(0.0, neighbours.documents - 1 - every[1:].sum())
    return replace(neighbours, similarity=similarity, expected=every, seen=seen)


def _share_of_pairs(by_pairs: Neighbours, at: F64, banded: Banded, least: float) -> F64:
    """Weight of the sample's pairs at each similarity, 0 to 1; the rest is that of the tokens.

    The weights are the inverse of the variances in the worst case: all pairs of a similarity are of
    one group, as copies of one paragraph are. Then tokens find all of them or none, with a relative
    variance of (1 - p) / p for the chance p. The relative variance of the pairs of k documents is
    4 / k. Fewer than 30 pairs have no weight: a sample has them by luck.
    """
    bins, bins_at = (
        np.minimum((each * _BINS).astype(np.int64), _BINS - 1) for each in (by_pairs.similarity, at)
    )
    pairs = np.bincount(bins, by_pairs.seen / 2, _BINS)[bins_at]
    chance = meeting(at, banded)
    of_tokens = (1.0 - chance) / np.maximum(chance, 1e-300)
    of_pairs = 4.0 / np.sqrt(2.0 * np.maximum(pairs, 1.0))
    share = np.where(pairs >= _FEWEST_PAIRS, of_tokens / (of_tokens + of_pairs), 0.0)
    return np.where(at < least, 1.0, share)


def pair_similarities(sets: Ragged) -> tuple[F64, I64]:
    """(distinct similarities, pairs of each) of all pairs of sets: ascending, 0 among them.

    The similarities are exact; an empty set has similarity 0 to any. Memory grows with n * n / 2 at
    most, in blocks. Time grows with the postings that pairs share. sets: as in `from_pairs`.
    """
    values, counts = np.zeros(1), np.zeros(1, np.int64)
    for first, shared in _shared(sets):
        rows, columns = np.nonzero(shared)
        later = columns > rows + first
        rows, columns = rows[later], columns[later]
        both = shared[rows, columns]
        union = sets.counts[rows + first] + sets.counts[columns] - both
        fresh, fresh_counts = np.unique(both / union, return_counts=True)
        values, at = np.unique(np.concatenate([values, fresh]), return_inverse=True)
        # Exact: the counts are whole numbers below 2**53.
        counts = np.bincount(at, np.concatenate([counts, fresh_counts])).astype(np.int64)
    counts[0] = len(sets) * (len(sets) - 1) // 2 - counts[1:].sum()
    return values, counts


def _shared(sets: Ragged) -> Iterator[tuple[int, I64]]:
    """Blocks of rows: (first row, number of elements shared with every row, shape (rows, n))."""
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
        yield first, shared + np.rint(matrix[first:last] @ matrix.T).astype(np.int64)


@dataclass(frozen=True)
class Choice:
    """Bands and rows that reach the recall, with their cost.

    tokens: of a document, those of segments and single values included. bytes: of a document,
    estimated. terms: of a query by bands at the threshold, with the default recall.
    recall_at_threshold: chance that such a query meets a document exactly at the threshold.
    expected: by such a query. chosen: True
    for the choice of `banding.choose_banding`, or of the given rows.
    """

    sketch: Banded
    tokens: int
    terms: int
    bytes: float
    recall_at_threshold: float
    expected: Expectation
    chosen: bool = False


def choices(
    threshold: float,
    recall: float,
    neighbours: Neighbours,
    scheme: Scheme,
    rows: int | None = None,
) -> list[Choice]:
    """All numbers of rows, each with the bands that it needs, fewest rows first.

    scheme: whose bands are chosen; their permutations and token bits and the other sketches stay.
    rows: the number to choose; None for the most that the permutations allow.

    Raises UsageError if no number of rows reaches the recall, or if the given one does not.
    """
    banded = scheme.banded
    _, best = banding.choose_banding(threshold, recall, banded.permutations)
    wanted = best if rows is None else rows
    found = []
    for each in range(1, best + 1):
        bands = banding.bands_needed(threshold, recall, each, SWAPS)
        if bands is None or bands * each > banded.permutations or bands > MAX_TOKENS:
            continue
        made = banded.banded_by(bands, each)
        whole = scheme.replaced(made)
        size = bytes_a_document(whole)
        swaps = made.swaps(Limits(threshold=threshold))
        chance = banding.candidate_probability(threshold, bands, each, swaps)
        expected = expectation(neighbours, threshold, made, swaps)
        terms = bands * banding.probes(each, swaps)
        tokens = sum(one.tokens for one in whole.sketches)
        found.append(Choice(made, tokens, terms, size, chance, expected, each == wanted))
    if not any(choice.chosen for choice in found):
        possible = ", ".join(str(choice.sketch.rows) for choice in found)
        raise UsageError(
            f"rows {wanted}: recall {recall} at threshold {threshold} within"
            f" {banded.permutations} permutations takes {possible} rows"
        )
    return found


def bytes_a_document(scheme: Scheme) -> float:
    """Return the estimated bytes of the field of one document in an index of Elasticsearch."""
    return _BYTES_OF_THE_FIELD + sum(each.tokens * each.token_bytes for each in scheme.sketches)
