"""Predict what bands and rows find and cost, from the similarities or cosines of a corpus.

A neighbour of a document is any other one. A sample shows how many of each similarity a document
has; everything else follows from the S-curve of `banding.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from esdedup.analysis.sampling import Sample, chance_of_meeting
from esdedup.exceptions import UsageError
from esdedup.sketch import banding
from esdedup.sketch.banding import SWAPS
from esdedup.sketch.kinds.bands import CHANCE_SIMILARITY
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.tokens import MAX_TOKENS
from esdedup.text.arrays import F64, I64

# Measured, as `Sketch.token_bytes` is, by the sizes of 100,000 documents, `_source` included,
# merged: 12 bands and 4 segments take 250.9, 23 and 4 take 416.6, 12 without segments 211.1. 128
# single values take 1,390, see docs/explanation/design.md.
_BYTES_OF_THE_FIELD = 30.5


@dataclass(frozen=True)
class Neighbours:
    """The expected neighbours of a document.

    similarity: exact Jaccard similarities or cosines, ascending, shape (n,).
    expected: number of neighbours, shape (n,); together one less than `documents`.
    sampled: number of neighbours in the sample, shape (n,).
    documents: number of documents of the corpus.
    """

    similarity: F64
    expected: F64
    sampled: I64
    documents: float

    def of(self, documents: float) -> Neighbours:
        """Return the neighbours in a larger or smaller corpus of the same kind."""
        scale = max(0.0, documents - 1) / max(1.0, self.documents - 1)
        return replace(self, expected=self.expected * scale, documents=documents)

    def histogram(self, bins: int) -> F64:
        """Return the expected neighbours in equal bins from 0 to 1, shape (bins,).

        A bin holds its lower edge; the last one holds 1 too.
        """
        bin_of = np.minimum((self.similarity * bins + 1e-9).astype(np.int64), bins - 1)
        counts: F64 = np.bincount(bin_of, self.expected, bins).astype(np.float64)
        return counts

    def sampled_from(self, similarity: float) -> int:
        """Return the number of neighbours at or over a similarity in the sample."""
        return int(self.sampled[self.similarity >= similarity].sum())


@dataclass(frozen=True)
class Expectation:
    """Documents that a query meets on average, with a threshold on similarity.

    candidates: documents to fetch and verify.
    similar: neighbours at or over the threshold.
    missed: similar ones that are not candidates.
    wasted: candidates below the threshold.
    """

    candidates: float
    similar: float
    missed: float
    wasted: float

    @property
    def recall(self) -> float | None:
        """The fraction of similar neighbours that is found, or None if there are none."""
        return 1.0 - self.missed / self.similar if self.similar > 0 else None


def neighbours_in(sample: Sample) -> Neighbours:
    """Estimate the neighbours of a document. Raises UsageError for fewer than two texts."""
    sampled, neighbours = sample.sampled, sample.documents - 1
    if sampled < 2:
        raise UsageError(f"a sample of {sampled} texts has no pairs: give two or more")
    # Each pair is a neighbour to both.
    distant = sample.distant
    expected_distant = 2.0 * distant.pairs / sampled * neighbours / (sampled - 1)
    similarity = np.concatenate([distant.similarity, sample.similarity])
    expected = np.concatenate([expected_distant, 1.0 / (sample.chances * sampled)])
    counts = np.concatenate([2 * distant.pairs, np.ones(sample.row.size, np.int64)])
    # All neighbours together are one less than the documents.
    expected[0] = max(0.0, neighbours - expected[1:].sum())
    return Neighbours(similarity, expected, counts, sample.documents)


def unrelated(documents: float) -> Neighbours:
    """Return the neighbours in a corpus whose documents are similar by chance alone."""
    similarity, expected = np.array([CHANCE_SIMILARITY]), np.array([max(0.0, documents - 1)])
    return Neighbours(similarity, expected, np.zeros(1, np.int64), documents)


def expectation(
    neighbours: Neighbours, threshold: float, sketch: Sketch, swaps: int = 0, least: int = 1
) -> Expectation:
    """Predict the candidates of a query by the bands of a scheme.

    swaps, least: as of `chance_of_meeting`.
    """
    met = neighbours.expected * chance_of_meeting(neighbours.similarity, sketch, swaps, least)
    over_threshold = neighbours.similarity >= threshold
    similar = float(neighbours.expected[over_threshold].sum())
    similar_candidates, candidates = float(met[over_threshold].sum()), float(met.sum())
    return Expectation(
        candidates,
        similar,
        missed=max(0.0, similar - similar_candidates),
        wasted=candidates - similar_candidates,
    )


@dataclass(frozen=True)
class Choice:
    """Bands and rows that reach the recall, with their cost.

    sketch: has these bands and rows.
    tokens: of a document, those of segments and single values included.
    terms: of a query by bands at the threshold, with the default recall, or that of vectors.
    bytes: of a document, estimated.
    recall_at_threshold: chance that such a query meets a document exactly at the threshold.
    expected: by such a query.
    chosen: True for the choice of `banding.choose_banding`, or of vectors for the cheapest one.
    """

    sketch: Sketch
    tokens: int
    terms: int
    bytes: float
    recall_at_threshold: float
    expected: Expectation
    chosen: bool = False


def choices(
    threshold: float, recall: float, neighbours: Neighbours, scheme: Scheme
) -> list[Choice]:
    """Return all numbers of rows, each with the bands that it needs, fewest rows first.

    Everything else of the scheme stays. Raises UsageError if no number of rows reaches the recall.
    """
    banded = scheme.banded
    _, chosen_rows = banding.choose_banding(threshold, recall, banded.permutations)
    reaching = list[Choice]()
    for rows in range(1, chosen_rows + 1):
        bands = banding.bands_needed(threshold, recall, rows, SWAPS)
        if bands is None or bands * rows > banded.permutations or bands > MAX_TOKENS:
            continue
        sketch = replace(banded, bands=bands, rows=rows)  # type: ignore[call-arg]
        choice = _choice_of(sketch, Limits(threshold=threshold), neighbours, scheme, least=1)
        reaching.append(replace(choice, chosen=rows == chosen_rows))
    return reaching


_STEPS_OF_COSTS = 100
"""Number of similarities whose neighbours the cost of a query is computed by."""


def choices_by_cost(limits: Limits, neighbours: Neighbours, scheme: Scheme) -> list[Choice]:
    """Return the numbers of rows, each with the bands whose queries cost least, fewest rows first.

    limits: whose sketch is the first one, with the least similarity and the recall. Raises
    UsageError if no layout of bands and rows reaches the recall.
    """
    current = scheme.sketch(limits.sketch)
    similarity = (np.arange(_STEPS_OF_COSTS) + 0.5) / _STEPS_OF_COSTS
    documents = neighbours.histogram(_STEPS_OF_COSTS)
    cost_of = {
        sketch: sketch.query_cost(limits, similarity, documents)
        for sketch in current.layouts(limits)
    }
    if not cost_of:
        measure, recall = current.measure, limits.wanted_recall
        raise UsageError(
            f"no bands and rows reach a recall of {recall:g} at a {measure} of"
            f" {measure.limit_of(limits):g}: use a lower recall, or a higher {measure}"
        )
    cheapest = min(cost_of, key=cost_of.__getitem__)
    of_rows: dict[int, Sketch] = {}
    for sketch in sorted(cost_of, key=cost_of.__getitem__):
        of_rows.setdefault(sketch.rows_of_band, sketch)
    choices_of_rows = []
    for rows in sorted(of_rows):
        sketch = of_rows[rows]
        least = sketch.least(limits, sketch.tokens)
        choice = _choice_of(sketch, limits, neighbours, scheme, least)
        choices_of_rows.append(replace(choice, chosen=sketch is cheapest))
    return choices_of_rows


def _choice_of(
    sketch: Sketch, limits: Limits, neighbours: Neighbours, scheme: Scheme, least: int
) -> Choice:
    """Return a choice for the scheme, in place of its sketch of the same name.

    least: number of bands that a query requires.
    """
    threshold, swaps = sketch.measure.limit_of(limits), sketch.swaps(limits)
    sketches = scheme.replaced(sketch).sketches
    return Choice(
        sketch,
        tokens=sum(of_scheme.tokens for of_scheme in sketches),
        terms=sketch.query_terms(limits),
        bytes=_BYTES_OF_THE_FIELD
        + sum(of_scheme.tokens * of_scheme.token_bytes for of_scheme in sketches),
        recall_at_threshold=sketch.recall(limits, sketch.tokens, least) or 0.0,
        expected=expectation(neighbours, threshold, sketch, swaps, least),
    )
