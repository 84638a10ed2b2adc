"""Weights of features: inverse document frequencies of a corpus.

Inverse document frequency: Spaerck Jones, "A statistical interpretation of term specificity and
its application in retrieval", 1972; here the smoothed form ln((1 + N) / (1 + df)) + 1. The last
bit of a logarithm may differ between platforms. So weights are rounded to 1/256 once, and only
these whole numbers are stored.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import I64, U64, Ragged
from esdedup.text.shingles import distinct

UNIT = 256


@dataclass(frozen=True, eq=False)
class FeatureWeights:
    """A frozen table of weights.

    hashes: feature hashes, ascending, shape (n,). weights: their weights in 1/256, shape (n,).
    default: the weight in 1/256 of every other feature.
    """

    hashes: U64
    weights: NDArray[np.uint16]
    default: int

    def of(self, hashes: U64) -> I64:
        """The weight of each feature in 1/256, in the shape of `hashes`."""
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
        """A JSON object that `from_json` reads."""
        return {
            "default": self.default,
            "hashes": base64.b64encode(self.hashes.astype("<u8").tobytes()).decode("ascii"),
            "weights": base64.b64encode(self.weights.astype("<u2").tobytes()).decode("ascii"),
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> FeatureWeights:
        """Read the object of `to_json`. Raises KeyError or ValueError for any other form."""
        texts, default = [document["hashes"], document["weights"]], document["default"]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("hashes and weights are texts in base64")
        if type(default) is not int or not 0 <= default < UNIT * UNIT:
            raise ValueError(f"the default is a whole number from 0 to {UNIT * UNIT - 1}")
        raw = [base64.b64decode(text, validate=True) for text in texts]
        hashes = np.frombuffer(raw[0], "<u8").astype(np.uint64)
        weights = np.frombuffer(raw[1], "<u2").astype(np.uint16)
        if hashes.shape != weights.shape:
            raise ValueError("a weight table needs one weight for each feature")
        if (hashes[1:] <= hashes[:-1]).any():
            raise ValueError("the hashes are not in ascending order")
        return FeatureWeights(hashes, weights, default)


def inverse_document_frequency(batches: Iterable[Ragged], limit: int = 4096) -> FeatureWeights:
    """Return weights of the `limit` most frequent features of a corpus.

    Every other feature is rarer. It gets the weight of the most frequent one left out, or of an
    unseen feature if none is left out. Memory grows with the number of different features.

    batches: features of some documents each, one row a document.
    """
    hashes, counts, documents = np.empty(0, np.uint64), np.empty(0, np.int64), 0
    for batch in batches:
        fresh, of_each = np.unique(distinct(batch).hashes, return_counts=True)
        hashes, at = np.unique(np.concatenate([hashes, fresh]), return_inverse=True)
        counts = np.bincount(at, np.concatenate([counts, of_each])).astype(np.int64)
        documents += len(batch)
    # By falling frequency, then by hash, so that a tie at the limit is always cut at one place.
    order = np.lexsort((hashes, -counts))
    weights = np.log((1 + documents) / (1 + np.append(counts[order], 0))) + 1
    fixed = np.rint(weights * UNIT)
    kept = np.sort(order[:limit])
    default = fixed[min(limit, order.size)]
    by_feature = np.empty(order.size, np.uint16)
    by_feature[order] = fixed[:-1]
    return FeatureWeights(hashes[kept], by_feature[kept], int(default))
