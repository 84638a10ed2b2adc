"""Weights of features for SimHash: given ones, or inverse document frequency.

Inverse document frequency: Spaerck Jones, "A statistical interpretation of term specificity and
its application in retrieval", 1972; here the smoothed form ln((1 + N) / (1 + df)) + 1. Logarithms
may differ in the last bit from one platform to the next, so weights are rounded to 1/256 once, and
from then on the whole numbers are what is stored.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import UsageError
from esdedup.hashing import U64
from esdedup.shingles import Ragged, distinct

UNIT = 256
MAX_FEATURES = 65_536
"""More would make the mapping that carries the table a burden to the cluster."""


@dataclass(frozen=True, eq=False)
class FeatureWeights:
    """A frozen table of weights.

    hashes: feature hashes, ascending, shape (n,), uint64. weights: their weights in 1/256, shape
    (n,), uint16. default: the weight in 1/256 of every other feature.
    """

    hashes: U64
    weights: NDArray[np.uint16]
    default: int

    def of(self, hashes: U64) -> NDArray[np.int64]:
        """The weight of each feature, in 1/256: the shape of `hashes`."""
        if not self.hashes.size:
            return np.full(hashes.shape, self.default, np.int64)
        at = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        known = self.hashes[at] == hashes
        return np.where(known, self.weights[at], self.default).astype(np.int64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureWeights) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.hashes.tobytes(), self.weights.tobytes(), self.default))

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return {
            "default": self.default,
            "hashes": base64.b64encode(self.hashes.astype("<u8").tobytes()).decode("ascii"),
            "weights": base64.b64encode(self.weights.astype("<u2").tobytes()).decode("ascii"),
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> FeatureWeights:
        """The inverse of `to_json`. Raises KeyError or ValueError for another form."""
        hashes = np.frombuffer(base64.b64decode(document["hashes"]), "<u8").astype(np.uint64)
        weights = np.frombuffer(base64.b64decode(document["weights"]), "<u2").astype(np.uint16)
        if hashes.shape != weights.shape:
            raise ValueError("a weight table has not as many weights as features")
        return FeatureWeights(hashes, weights, int(document["default"]))


def given_weights(weights: Mapping[int, float], default: float = 1.0) -> FeatureWeights:
    """A table from weights by feature hash, 0 to 255 each.

    Raises UsageError for a weight out of range or too many features.
    """
    if len(weights) > MAX_FEATURES:
        raise UsageError(f"{len(weights)} weighted features: use at most {MAX_FEATURES}")
    for weight in (*weights.values(), default):
        if not 0 <= weight < UNIT:
            raise UsageError(f"feature weight {weight}: use 0 to 255")
    hashes = np.array(sorted(weights), np.uint64)
    fixed = [round(weights[int(feature)] * UNIT) for feature in hashes]
    return FeatureWeights(hashes, np.array(fixed, np.uint16), round(default * UNIT))


def count_documents(batches: Iterable[Ragged]) -> tuple[Counter[int], int]:
    """(documents by feature hash, documents) of a corpus that comes in batches of features."""
    frequencies: Counter[int] = Counter()
    documents = 0
    for batch in batches:
        features, counts = np.unique(distinct(batch).hashes, return_counts=True)
        frequencies.update(dict(zip(features.tolist(), counts.tolist(), strict=True)))
        documents += len(batch)
    return frequencies, documents


def inverse_document_frequency(
    frequencies: Mapping[int, int], documents: int, limit: int = 4096
) -> FeatureWeights:
    """The table of the `limit` most frequent features.

    Every other feature is rarer and gets the weight of the most frequent one left out, or of a
    feature not seen at all.

    Raises UsageError for a frequency above the number of documents or below 1, or a limit
    above 65,536.
    """
    if not 0 <= limit <= MAX_FEATURES:
        raise UsageError(f"limit {limit}: use 0 to {MAX_FEATURES} features")
    for count in frequencies.values():
        if not 1 <= count <= documents:
            raise UsageError(f"document frequency {count}: use 1 to the {documents} documents")
    # By falling frequency, then by hash, so that a tie at the limit is always cut alike.
    ranked = sorted(frequencies.items(), key=lambda item: (-item[1], item[0]))
    kept, rest = ranked[:limit], ranked[limit : limit + 1]
    return given_weights(
        {feature: _idf(count, documents) for feature, count in kept},
        default=_idf(rest[0][1] if rest else 0, documents),
    )


def _idf(count: int, documents: int) -> float:
    return float(np.log((1 + documents) / (1 + count)) + 1)
