"""What makes a document like another as they come in: a metric, and the tokens that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from esdedup.search.buckets import Pairs, band_pairs, segment_pairs
from esdedup.search.limits import Limits, distance_for, require_simhash
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.segments import probe_masks, segment_values
from esdedup.sketch.sketch import shingle_sets, sketch
from esdedup.text.hashing import U64
from esdedup.text.jaccard import hamming, jaccard_of_rows
from esdedup.text.words import tokenise

Value = float
"""A Jaccard similarity, or a Hamming distance in bits."""


class Likeness:
    """Compares texts within the limits, as an index's scheme does.

    Raises UsageError where the scheme lacks the tokens for the metric, or they can't guarantee the
    distance.
    """

    def __init__(self, scheme: Scheme, limits: Limits) -> None:
        self._by_bands = limits.metric == "jaccard"
        self._threshold = limits.threshold or 0.0
        # The other half is made when a document is written.
        if self._by_bands:
            self._scheme = replace(scheme, simhash=None)
        else:
            self._distance = distance_for(require_simhash(scheme), limits.distance)
            self._scheme = replace(scheme, minhash=None)

    def columns(self, texts: Mapping[str, str]) -> dict[str, U64]:
        """The bands of texts, shape (bands,) each, or their fingerprints, shape (words,).

        Those of texts without any shingle are left out. The keys are kept.
        """
        sketches = sketch(list(texts.values()), self._scheme)
        found = sketches.bands if self._by_bands else sketches.fingerprints
        assert found is not None
        rows = zip(texts, found, sketches.filled.tolist(), strict=True)
        return {key: column for key, column, is_filled in rows if is_filled}

    def filled(self, texts: Mapping[str, str]) -> set[str]:
        """The keys of those normalised texts that have any shingle."""
        scheme = self._scheme
        counts = tokenise(list(texts.values()), scheme.shingling, scheme.seed).counts
        return {key for key, count in zip(texts, counts.tolist(), strict=True) if count}

    def pairs(
        self, texts: Sequence[str], columns: U64, new: NDArray[np.bool_]
    ) -> Iterator[tuple[int, int, Value]]:
        """Pairs of rows that are alike, of which one is new: (left, right, value)."""
        for left, right in self._meeting(columns):
            wanted = new[left] | new[right]
            left, right = left[wanted], right[wanted]
            if not left.size:
                continue
            values, near = self._values(texts, columns, left, right)
            found = (left[near].tolist(), right[near].tolist(), values[near].tolist())
            yield from zip(*found, strict=True)

    def order(self, value: Value) -> Value:
        """A number that is the less the more alike documents are."""
        return -value if self._by_bands else value

    @property
    def equal(self) -> Value:
        """The value of equal texts."""
        return 1.0 if self._by_bands else 0

    def measured(self, value: Value) -> tuple[float | None, int | None]:
        """A value as a similarity or a distance."""
        return (value, None) if self._by_bands else (None, int(value))

    def _meeting(self, columns: U64) -> Iterator[Pairs]:
        if self._by_bands:
            return band_pairs(columns)
        layout = require_simhash(self._scheme)
        radius = layout.radius_for(self._distance)
        masks = [probe_masks(width, radius) for width in layout.widths]
        return segment_pairs(segment_values(columns, layout), masks, radius)

    def _values(
        self, texts: Sequence[str], columns: U64, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64] | NDArray[np.int64], NDArray[np.bool_]]:
        if not self._by_bands:
            distance = hamming(columns[left], columns[right])
            return distance, distance <= self._distance
        similarity = jaccard_of_rows(
            left, right, lambda rows: shingle_sets([texts[row] for row in rows], self._scheme)
        )
        return similarity, similarity >= self._threshold
