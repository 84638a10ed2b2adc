"""SimHash fingerprints.

Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002, section 3;
applied to documents: Manku, Jain, Das Sarma, "Detecting near-duplicates for web crawling",
WWW 2007, section 2.

Bit i of a fingerprint is 1 if the features whose hash has bit i set weigh more than half of all.
Weights are whole numbers and sums are exact, so a fingerprint is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from esdedup.arguments import check_fields
from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.segments import Layout
from esdedup.sketch.kinds.weights import FeatureWeights
from esdedup.text.arrays import I64, U64, Ragged, offsets_of, ranges
from esdedup.text.hashing import PRIME64_1, avalanche
from esdedup.text.shingles import distinct

Weighting = Literal["tf", "binary"]

_LANES = np.array(
    [sum(((byte >> bit) & 1) << (8 * bit) for bit in range(8)) for byte in range(256)], np.uint64
)
"""The eight bits of each byte value, spread to eight counters of eight bits."""
_LANE_CAPACITY = 255


@dataclass(frozen=True)
class SimHash:
    """SimHash parameters.

    layout: bits of a fingerprint and how it is cut into segment tokens.
    feature_size: tokens a feature; features are shingles of this size.
    weighting: "tf" counts each occurrence of a feature, "binary" each feature once.
    table: weights of features, multiplied with these counts; None for 1 each.
    Raises UsageError for values out of range.
    """

    layout: Layout = field(default_factory=Layout)
    feature_size: int = 2
    weighting: Weighting = "tf"
    table: FeatureWeights | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.feature_size <= 64:
            raise UsageError(f"feature size {self.feature_size}: use 1 to 64")
        if self.weighting not in get_args(Weighting):
            raise UsageError(f"weighting {self.weighting!r}: use tf or binary")


def fingerprints(features: Ragged, simhash: SimHash) -> U64:
    """Fingerprints, shape (rows, bits // 64), high words first; 0 if all features weigh nothing."""
    if simhash.weighting == "binary":
        features = distinct(features)
    words, hashes = [], features.hashes
    for word in range(simhash.layout.bits // 64):
        if word:
            hashes = avalanche(features.hashes * PRIME64_1 + np.uint64(word))
        if simhash.table is None:
            ones, total = _count_bits(hashes, features), features.counts
        else:
            ones, total = _weigh_bits(hashes, features, simhash.table.of(features.hashes))
        packed = np.packbits(2 * ones > total[:, None], axis=1, bitorder="little")
        words.append(packed.view("<u8")[:, 0].astype(np.uint64))
    return np.stack(words, axis=1)


def _count_bits(hashes: U64, features: Ragged) -> I64:
    """The number of a row's hashes with each bit set: shape (rows, 64)."""
    ones = np.zeros((len(features), 64), np.int64)
    filled = np.flatnonzero(features.counts)
    if not filled.size:
        return ones
    # Eight counters share a word, so a sum runs over at most 255 hashes, and long rows are cut.
    counts = features.counts[filled]
    pieces = -(-counts // _LANE_CAPACITY)
    first_piece = offsets_of(pieces)[:-1]
    starts = np.repeat(features.offsets[filled], pieces) + ranges(0, pieces) * _LANE_CAPACITY
    counters = np.empty((starts.size, 8), "<u8")
    for byte in range(8):
        octets = (hashes >> np.uint64(8 * byte)) & np.uint64(255)
        lanes = _LANES.take(octets.view(np.int64))
        counters[:, byte] = np.add.reduceat(lanes, starts)
    by_piece = counters.view(np.uint8).astype(np.int64)
    ones[filled] = np.add.reduceat(by_piece, first_piece, axis=0)
    return ones


def _weigh_bits(hashes: U64, features: Ragged, weights: I64) -> tuple[I64, I64]:
    """The weight of each bit, shape (rows, 64), and of each row, shape (rows,)."""
    ones = np.zeros((len(features), 64), np.int64)
    total = np.zeros(len(features), np.int64)
    filled = np.flatnonzero(features.counts)
    if filled.size:
        octets = hashes.astype("<u8").view(np.uint8).reshape(-1, 8)
        set_bits = np.unpackbits(octets, axis=1, bitorder="little")
        starts = features.offsets[filled]
        ones[filled] = np.add.reduceat(set_bits * weights[:, None], starts, axis=0)
        total[filled] = np.add.reduceat(weights, starts)
    return ones, total


def to_hex(fingerprint: U64) -> list[str]:
    """Write fingerprints, shape (n, words), as 16 hexadecimal digits a word."""
    digits = fingerprint.astype(">u8").tobytes().hex()
    width = 16 * fingerprint.shape[1]
    return [digits[i : i + width] for i in range(0, len(digits), width)]
