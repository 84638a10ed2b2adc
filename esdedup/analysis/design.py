"""Design a scheme for a threshold or a cosine: its bands and rows, their recall and cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from esdedup.analysis.distribution import BINS, Bin, bars, similarity_histogram
from esdedup.analysis.plain_json import to_json
from esdedup.analysis.sampling import Sample, chance_of_meeting
from esdedup.analysis.tuning import (
    Choice,
    Neighbours,
    choices,
    choices_by_cost,
    neighbours_in,
    unrelated,
)
from esdedup.sketch.banding import bands_needed
from esdedup.sketch.kinds.bands import MOST_PERMUTATIONS
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import JACCARD, Measure
from esdedup.sketch.scheme import Scheme

_BINS_OF_JSON = 50
_DOCUMENTS = 1e6
"""Documents of the corpus, unless there is a sample or a number."""


@dataclass(frozen=True)
class SimilarityBar:
    """A bar of the S-curve.

    bin: similarities, and the chance that a query meets a document of these.
    length: of the bar, in percent.
    neighbours: expected number of neighbours of these similarities.
    """

    bin: Bin
    length: float
    neighbours: float


@dataclass(frozen=True)
class SchemeDesign:
    """A scheme for a threshold, and what its bands find and cost.

    scheme: has the chosen bands and rows.
    threshold: minimum Jaccard similarity to find, or cosine.
    recall: probability to find it.
    choices: the bands and rows that reach the recall, by ascending rows.
    neighbours: the expected neighbours of a document.
    sample: from which these are estimated, or None.
    measure: of the threshold.
    """

    scheme: Scheme
    threshold: float
    recall: float
    choices: list[Choice]
    neighbours: Neighbours
    sample: Sample | None = None
    measure: Measure = JACCARD

    @staticmethod
    def of_server(
        scheme: Scheme, threshold: float, recall: float, documents: float | None = None
    ) -> SchemeDesign:
        """Return the design of a scheme whose bands a server computes, which has no choices."""
        neighbours = expected_neighbours(documents, None)
        return SchemeDesign(scheme, threshold, recall, [], neighbours)

    def s_curve(self) -> Iterator[SimilarityBar]:
        """Yield the bars of the S-curve of the chosen bands, the most similar first."""
        chosen = next(choice.sketch for choice in self.choices if choice.chosen)
        limits, least = Limits(threshold=self.threshold), 1
        if self.measure != JACCARD:
            limits = self.measure.limited(Limits(recall=self.recall), self.threshold)
            least = chosen.least(limits, chosen.tokens)
        swaps = chosen.swaps(limits)
        centres = (np.arange(BINS) + 0.5) / BINS
        bins = similarity_histogram(chance_of_meeting(centres, chosen, swaps, least))
        numbers = reversed(self.neighbours.histogram(BINS).tolist())
        for (bin, length), number in zip(bars(bins), numbers, strict=True):
            yield SimilarityBar(bin, length, number)

    def to_json(self) -> object:
        """Return the scheme as JSON; with a sample, also what it shows."""
        if self.sample is None:
            return to_json(self.scheme)
        return to_json(
            {
                self.measure.limit: self.threshold,
                "recall": self.recall,
                "documents": self.neighbours.documents,
                "choices": self.choices,
                "scheme": self.scheme,
                "histogram": similarity_histogram(self.neighbours.histogram(_BINS_OF_JSON)),
                "sample": {
                    "sampled": self.sample.sampled,
                    "without_text": self.sample.without_text,
                    "truncated": self.sample.truncated,
                    "neighbours_at_threshold": self.neighbours.sampled_from(self.threshold),
                },
            }
        )


def design_scheme(
    scheme: Scheme,
    threshold: float,
    recall: float,
    documents: float | None = None,
    sample: Sample | None = None,
) -> SchemeDesign:
    """Return a scheme with the bands and rows that reach a recall at the least cost.

    scheme: everything but the bands and rows, and the length of signatures, stays.
    threshold: minimum Jaccard similarity to find.
    recall: probability to find it.
    documents: of the corpus; None for those of the sample's index, or a million.
    sample: of an index, None for documents that are similar by chance alone.

    Raises UsageError if no bands reach the recall, and for a sample of fewer than two texts.
    """
    neighbours = expected_neighbours(documents, sample)
    if 0 < threshold < 1 and 0 < recall < 1:
        # Signatures long enough for the recall, if any length is.
        needed = bands_needed(threshold, recall, 1) or 1
        length = max(scheme.banded.permutations, 1 << (needed - 1).bit_length())
        scheme = scheme.replaced(scheme.banded.wide(min(length, MOST_PERMUTATIONS)))
    banding_choices = choices(threshold, recall, neighbours, scheme)
    chosen = next(choice.sketch for choice in banding_choices if choice.chosen)
    designed = scheme.replaced(chosen)
    return SchemeDesign(designed, threshold, recall, banding_choices, neighbours, sample)


def design_by_cost(
    scheme: Scheme, limits: Limits, sample: Sample, documents: float | None = None
) -> SchemeDesign:
    """Return a scheme of vectors with the bands and rows whose queries cost least.

    scheme: everything but the bands and rows of the sketch, and its cosine, stays.
    limits: the name of the sketch, the cosine to find, and the recall.
    sample: of an index, by this sketch.
    documents: of the corpus; None for those of the index.

    Raises UsageError if no bands reach the recall, and for a sample of fewer than two vectors.
    """
    measure = scheme.chosen(limits).measure
    neighbours = expected_neighbours(documents, sample)
    of_rows = choices_by_cost(limits, neighbours, scheme)
    designed = scheme.replaced(next(choice.sketch for choice in of_rows if choice.chosen))
    return SchemeDesign(
        designed,
        measure.limit_of(limits),
        limits.wanted_recall,
        of_rows,
        neighbours,
        sample,
        measure,
    )


def expected_neighbours(documents: float | None, sample: Sample | None) -> Neighbours:
    """Return the expected neighbours of a document, as for `design_scheme`."""
    if sample is None:
        return unrelated(documents or _DOCUMENTS)
    return neighbours_in(sample).of(documents or sample.documents)
