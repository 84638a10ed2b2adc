"""Measures: how two documents are compared, and how the value of a pair is bounded and shown.

A kind of sketch has one measure, which verifies the candidates that share its tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from esdedup.sketch.comparisons import (
    AnyComparison,
    CosineSimilarity,
    HammingDistance,
    JaccardSimilarity,
    SharedPassages,
    ValueComparison,
)
from esdedup.sketch.limits import Limits
from esdedup.text.characters import count

if TYPE_CHECKING:
    from esdedup.text.arrays import F64, I64


@dataclass(frozen=True, repr=False)
class Measure:
    """How two documents are compared, and how that is shown.

    name: of the measure, and the JSON key of what is not one number.
    words: the measure in words.
    limits: names of the fields of `Limits` that bound it, the main one first.
    comparison: computes the values of pairs of documents. A sketch may replace its parameters.
    column: the column of tables, JSON key and mark of a value.
    equal: the value of equal texts.
    sign: 1 if a greater value is nearer, -1 if a lesser one is.
    whole_numbers: values are whole numbers.
    by_threshold: the threshold bounds it, unless a limit of its own is set.
    has_recall: documents are found by chance, so that results have an expected recall.
    of_duplicate: the value of a duplicate, in words, as of a table's head.
    pair_title: the title of the column of the values of pairs.
    farthest_words: the value of the least similar duplicate of a group, likewise.
    query_columns: the columns of the matches of a query.
    tokens: what the tokens of a document are called.
    stopped: documents that may be missing if tokens are stopped, in words.
    unguaranteed: what a stop list costs, in words; "" if nothing is guaranteed without one.
    """

    name: str
    words: str
    limits: tuple[str, ...]
    comparison: AnyComparison
    column: Literal["similarity", "distance"]
    equal: float
    sign: Literal[1, -1]
    whole_numbers: bool
    by_threshold: bool
    has_recall: bool
    of_duplicate: str
    pair_title: str
    farthest_words: str
    query_columns: tuple[str, ...]
    tokens: str
    stopped: str
    unguaranteed: str = ""

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        return self.name.upper()

    @property
    def limit(self) -> str:
        """The name of the main limit."""
        return self.limits[0]

    @property
    def by_values(self) -> bool:
        """Whether stored values are compared, so that no texts are needed."""
        return isinstance(self.comparison, ValueComparison)

    @property
    def directed(self) -> bool:
        """Whether a pair has two values: how much of each document the other one holds."""
        return self.comparison.sides == 2

    def limit_of(self, limits: Limits) -> float:
        """Return the value of the least similar documents within limits.

        Raises UsageError if there is none.
        """
        if self.by_threshold:
            return limits.least_similarity
        return float(getattr(limits, self.limit) or 0)

    def limited(self, limits: Limits, value: float) -> Limits:
        """Return the limits with another value of the least similar documents."""
        if self.by_threshold:
            return limits.at(value)
        return replace(limits, **{self.limit: self.typed(value)})  # type: ignore[arg-type]

    def least_of_query(self, limits: Limits) -> float:
        """Return the least nearness of a match of a query.

        Without a limit, any document matches that has something in common with the query.
        """
        limit: float | None = getattr(limits, self.limit)
        return sys.float_info.min if limit is None else self.nearness(limit)

    @property
    def is_similarity(self) -> bool:
        """Return whether greater values, up to 1, are nearer."""
        return self.column == "similarity"

    def within(self, limits: Limits) -> str:
        """Return in words which values are within limits."""
        if self.whole_numbers:
            return f"{self.of_duplicate} of {getattr(limits, self.limit)} bits or less"
        return f"{self.of_duplicate} of {self.limit_of(limits):g} or more"

    def bound(self, value: float | None) -> str | None:
        """Return in words that a value is a limit, or None without one."""
        if value is None:
            return None
        within = "bits or less" if self.whole_numbers else "or more"
        return f"{self.words} of {value:g} {within}"

    def bound_of_pairs(self, limits: Limits) -> str | None:
        """Return in words which pairs are within limits, or None if the sketch decides."""
        if self.whole_numbers:
            return self.bound(getattr(limits, self.limit))
        return self.bound(self.limit_of(limits))

    def bound_of_query(self, limits: Limits) -> str | None:
        """Return in words which matches of a query are within limits, or None if all are."""
        return self.bound(getattr(limits, self.limit))

    def similarity(self, value: float) -> float | None:
        """Return the value if it is a similarity, else None."""
        return value if self.is_similarity else None

    def distance(self, value: float) -> int | None:
        """Return the value if it is a distance, else None."""
        return int(value) if self.column == "distance" else None

    def marks(self, value: float) -> tuple[float | None, int | None]:
        """Return the similarity and the distance of a value, of which one is None."""
        return self.similarity(value), self.distance(value)

    def typed(self, value: float) -> float | int:
        """Return a value as JSON shows it."""
        return int(value) if self.whole_numbers else value

    def text(self, value: float) -> str:
        """Return a value as a column of a table shows it."""
        return str(int(value)) if self.whole_numbers else f"{value:.3f}"

    def in_words(self, value: float) -> str:
        """Return a value with its unit. Only equal texts are shown as 1."""
        if self.whole_numbers:
            return count(int(value), "bit")
        return ">0.999" if 0.9995 <= value < 1.0 else f"{value:.3f}"

    def nearness(self, value: float) -> float:
        """Return a number that is greater for nearer documents."""
        return self.sign * value + 0.0

    def nearnesses(self, values: F64) -> F64:
        """Return the `nearness` of each value, of the same shape."""
        return self.sign * values

    def value_of(self, nearness: float) -> float | int:
        """Return the value of a `nearness`, as JSON shows it."""
        return self.typed(self.sign * nearness)

    def no_nearness(self, words: int) -> float:
        """Return the nearness of documents that have nothing in common.

        words: of 64 bits of a document's values.
        """
        return -64.0 * words if self.whole_numbers else 0.0

    def nearest_first(self, values: F64) -> I64:
        """Return the order of values in which the nearest comes first."""
        order = np.argsort(values, kind="stable")
        return order if self.sign < 0 else order[::-1]

    def farthest(self, values: F64 | Sequence[float]) -> float:
        """Return the value of the least similar documents. nan is left out."""
        return float((np.nanmin if self.sign > 0 else np.nanmax)(values))

    def bounds(self, values: F64) -> tuple[float, float]:
        """Return the range in which a histogram shows values."""
        if self.whole_numbers:
            return 0.0, float(values.max(initial=10))
        return float(values.min(initial=0.9)), 1.0


JACCARD = Measure(
    name="jaccard",
    words="Jaccard similarity",
    limits=("threshold",),
    comparison=JaccardSimilarity(),
    column="similarity",
    equal=1.0,
    sign=1,
    whole_numbers=False,
    by_threshold=True,
    has_recall=True,
    of_duplicate="Jaccard similarity",
    pair_title="similarity",
    farthest_words="least similar",
    query_columns=("similarity",),
    tokens="bands",
    stopped="that share only these are",
)
"""The shingles that two documents share, divided by those that either has."""

HAMMING = Measure(
    name="hamming",
    words="Hamming distance",
    limits=("distance",),
    comparison=HammingDistance(),
    column="distance",
    equal=0.0,
    sign=-1,
    whole_numbers=True,
    by_threshold=False,
    has_recall=False,
    of_duplicate="Hamming distance",
    pair_title="distance",
    farthest_words="most distant",
    query_columns=("distance",),
    tokens="segments",
    stopped="within the distance may be",
    unguaranteed="no Hamming distance is guaranteed any more",
)
"""The number of bits in which two fingerprints differ."""

COVER = Measure(
    name="cover",
    words="shared passages",
    limits=("cover", "words"),
    comparison=SharedPassages(),
    column="similarity",
    equal=1.0,
    sign=1,
    whole_numbers=False,
    by_threshold=True,
    has_recall=False,
    of_duplicate="share of its words that the representative holds",
    pair_title="held",
    farthest_words="least similar",
    query_columns=("words", "of query", "of document"),
    tokens="tokens",
    stopped="that share only these are",
)
"""The fraction of the words of a document that are in passages of the other one."""

COSINE = Measure(
    name="cosine",
    words="cosine",
    limits=("cosine",),
    comparison=CosineSimilarity(),
    column="similarity",
    equal=1.0,
    sign=1,
    whole_numbers=False,
    by_threshold=False,
    has_recall=True,
    of_duplicate="cosine",
    pair_title="cosine",
    farthest_words="least similar",
    query_columns=("cosine",),
    tokens="bands",
    stopped="that share only these are",
)
"""The cosine of the angle between two vectors."""

MEASURES = (JACCARD, HAMMING, COVER, COSINE)
