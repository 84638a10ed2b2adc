"""Weights of features for SimHash: given by the user, or inverse document frequencies.

Inverse document frequency: Spaerck Jones, "A statistical interpretation of term specificity and
its application in retrieval", 1972; here the smoothed form ln((1 + N) / (1 + df)) + 1. The last
bit of a logarithm may differ between platforms. So weights are rounded to 1/256 once, and only
these whole numbers are stored.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import UsageError
from esdedup.text.arrays import I64, U64, Ragged
from esdedup.text.shingles import distinct

UNIT = 256
MAX_FEATURES = 65_536
"""Limit of a weight table: it is part of the mapping, which every node of a cluster holds."""
MAX_COUNTED = 1 << 21
"""Features counted at once, in about 250 MB."""


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


def given_weights(weights: Mapping[int, float], default: float = 1.0) -> FeatureWeights:
    """Make a table of weights by feature hash. Raises UsageError for too many, or not 0 to 255."""
    if len(weights) > MAX_FEATURES:
        raise UsageError(f"{len(weights)} weighted features: use at most {MAX_FEATURES}")
    for weight in (*weights.values(), default):
        if not 0 <= weight < UNIT:
            raise UsageError(f"feature weight {weight}: use 0 to 255")
    hashes = np.array(sorted(weights), np.uint64)
    fixed = [round(weights[int(feature)] * UNIT) for feature in hashes]
    return FeatureWeights(hashes, np.array(fixed, np.uint16), round(default * UNIT))


@dataclass(frozen=True)
class Frequencies:
    """The number of documents that each feature is in.

    hashes: feature hashes, ascending, shape (n,). counts: documents counted for each, shape (n,).
    missed: the most documents that each count may be too low by, shape (n,); 0 if never forgotten.
    documents: number of all. error: the most that any feature lacks, also one that is not here.
    """

    hashes: U64
    counts: I64
    missed: I64
    documents: int
    error: int = 0

    def most(self, limit: int) -> dict[int, int]:
        """The `limit` most frequent features and their counts."""
        # By falling frequency, then by hash, so that a tie at the limit is always cut alike.
        order = np.lexsort((self.hashes, -self.counts))[:limit]
        return dict(zip(self.hashes[order].tolist(), self.counts[order].tolist(), strict=True))


def count_documents(batches: Iterable[Ragged], capacity: int = MAX_COUNTED) -> Frequencies:
    """Count the documents that each feature is in.

    Up to `capacity` different features, the counts are exact in any order of the documents. Beyond
    it, the rarest features are forgotten from time to time. A count is then too low by at most
    `error`, which is at most 1 / capacity of all features of all documents: Misra and Gries,
    "Finding repeated elements", Science of Computer Programming 1982; for batches: Agarwal et al.,
    "Mergeable summaries", PODS 2012, section 2.1. Each count keeps how much may have been forgotten
    before it, as in lossy counting: Manku and Motwani, "Approximate frequency counts over data
    streams", VLDB 2002, section 4.2. So the count of a feature that was never forgotten is exact.

    batches: features of some documents each, one row a document. capacity: features held at once.
    """
    nothing = np.empty(0, np.int64)
    held = Frequencies(np.empty(0, np.uint64), nothing, nothing, 0)
    fresh: list[U64] = []
    documents = waiting = 0
    for batch in batches:
        fresh.append(distinct(batch).hashes)
        documents += len(batch)
        waiting += fresh[-1].size
        if waiting >= capacity // 2:
            held = _with_more(held, fresh, capacity)
            fresh, waiting = [], 0
    return replace(_with_more(held, fresh, capacity), documents=documents)


def _with_more(held: Frequencies, fresh: list[U64], capacity: int) -> Frequencies:
    """Count more features, and keep the `capacity` that may be in the most documents."""
    hashes, counts = np.unique(np.concatenate([held.hashes[:0], *fresh]), return_counts=True)
    both, at = np.unique(np.concatenate([held.hashes, hashes]), return_inverse=True)
    total = np.zeros(both.size, np.int64)
    np.add.at(total, at, np.concatenate([held.counts, counts]))
    # A new feature may have been forgotten before.
    missed = np.full(both.size, held.error, np.int64)
    missed[at[: held.hashes.size]] = held.missed
    if both.size <= capacity:
        return Frequencies(both, total, missed, 0, held.error)
    most = total + missed
    error = int(np.partition(most, both.size - capacity - 1)[both.size - capacity - 1])
    kept = most > error
    return Frequencies(both[kept], total[kept], missed[kept], 0, error)


def inverse_document_frequency(
    frequencies: Mapping[int, int], documents: int, limit: int = 4096
) -> FeatureWeights:
    """Make a weight table of the `limit` most frequent features.

    Every other feature is rarer. It gets the weight of the most frequent one left out, or of an
    unseen feature if none is left out.
    Raises UsageError for a frequency below 1 or above `documents`, or a limit above 65,536.
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
