"""SimHash fingerprints.

Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002, section 3;
applied to documents: Manku, Jain, Das Sarma, "Detecting near-duplicates for web crawling",
WWW 2007, section 2.

Bit i of a fingerprint is 1 if the features that have bit i set in their hash weigh more than half
of all. A feature weighs 1, or what a table of weights holds. Weights are whole numbers and sums are
exact, so a fingerprint is the same on every machine.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.base import Block, Features
from esdedup.sketch.kinds.segments import Segmented, widths_of
from esdedup.text.arrays import I64, U64, Ragged, offsets_of, ranges
from esdedup.text.hashing import PRIME64_1, avalanche
from esdedup.text.normalise import Normalisation
from esdedup.text.shingles import Shingling, distinct, shingle
from esdedup.text.weights import TENTHS, U8, Weights, WeightTable, weight_table

Weighting = Literal["tf", "binary"]

_LANE_CAPACITY = 255
_LANES = np.uint64(0x0101010101010101)
_WIDE_CAPACITY = 257
"""Weights of at most 255 that fit a lane of 16 bits."""
_WIDE_LANES = np.uint64(0x00FF00FF00FF00FF)
_BITS = np.arange(8, dtype=np.uint64)[:, None]
_LANES_AT_ONCE = 1 << 14
"""Words of lanes of one call of numpy: for one text all, for many of one bit, in the cache."""
_MAX_SEGMENT_BITS = 60


@dataclass(frozen=True)
class SimHash(Segmented):
    """SimHash parameters.

    size: bits of a fingerprint, 64 or 128.
    segments: pieces that a fingerprint is cut into, each a token.
    feature_size: words or characters of a feature; features are shingles of this size.
    weighting: "tf" counts each occurrence of a feature, "binary" each feature once.
    weights: by which each count is multiplied; None for 1 each. A text whose features all weigh 0
        has the fingerprint that it has without weights.
    Raises UsageError for values out of range.
    """

    size: int = 64
    segments: int = 4
    feature_size: int = 2
    weighting: Weighting = "tf"
    weights: Weights | None = None

    kind = "simhash"
    token_bytes = 9.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size not in (64, 128):
            raise UsageError(f"fingerprint size {self.size}: use 64 or 128 bits")
        words = self.width
        if not words <= self.segments <= self.size // 2 or self.segments % words:
            even = f"a multiple of {words}, " if words > 1 else ""
            raise UsageError(f"segments {self.segments}: use {even}{words} to {self.size // 2}")
        if self.bits > _MAX_SEGMENT_BITS:
            raise UsageError(
                f"{self.segments} segments of {self.size} bits have {self.bits} bits; use more"
                f" segments, so that each has at most {_MAX_SEGMENT_BITS}"
            )
        if not 1 <= self.feature_size <= 64:
            raise UsageError(f"feature size {self.feature_size}: use 1 to 64")

    @property
    def widths(self) -> tuple[int, ...]:
        # No segment spans two words.
        return widths_of(64, self.segments // self.width) * self.width

    @property
    def table(self) -> Weights | None:
        return self.weights

    def weight_table(
        self, normalisation: Normalisation, shingling: Shingling, seed: int
    ) -> WeightTable | None:
        """Return the weights by the hashes of features; None without weights."""
        if self.weights is None:
            return None
        return weight_table(self.weights, normalisation, shingling, seed, self.feature_size)

    def require_words(self, normalisation: Normalisation, shingling: Shingling, seed: int) -> None:
        self.weight_table(normalisation, shingling, seed)

    def features(self, block: Block) -> Features:
        hashes = shingle(block.words, self.feature_size)
        table = self.weight_table(block.normalisation, block.shingling, block.seed)
        return Features(hashes, _feature_weights(hashes, table), self.weighting == "tf")

    def feature_hashes(self, features: U64, word: int) -> U64:
        return avalanche(features * PRIME64_1 + np.uint64(word)) if word else features

    def values(self, block: Block) -> U64:
        """Return fingerprints, shape (n, size // 64)."""
        table = self.weight_table(block.normalisation, block.shingling, block.seed)
        return fingerprints(shingle(block.words, self.feature_size), self, table)

    def describe(self) -> str:
        weights = self.weights
        return super().describe() + (
            f"; weights of {len(weights.words):,} words, others {weights.default:g}"
            f" ({weights.digest})"
            if weights
            else ""
        )

    def to_json(self) -> dict[str, object]:
        document = super().to_json()
        del document["weights"]
        # The ids of schemes cover this name.
        return {**document, "table": None if self.weights is None else self.weights.digest}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Self:
        named = {"table": "weights"}
        return super().from_json({named.get(key, key): value for key, value in document.items()})


def fingerprints(features: Ragged, simhash: SimHash, table: WeightTable | None = None) -> U64:
    """Fingerprints, shape (rows, bits // 64), high words first; 0 without features.

    table: the weights of features; None for 1 each.
    """
    if simhash.weighting == "binary":
        features = distinct(features)
    weights = None if table is None else _feature_weights(features, table)
    words = []
    for word in range(simhash.width):
        hashes = simhash.feature_hashes(features.hashes, word)
        if weights is None:
            bit_weights, total = _count_bits(hashes, features), features.counts
        else:
            bit_weights, total = weigh_bits(hashes, features, weights)
        packed = np.packbits(2 * bit_weights > total[:, None], axis=1, bitorder="little")
        words.append(packed.view("<u8")[:, 0].astype(np.uint64))
    return np.stack(words, axis=1)


def _feature_weights(features: Ragged, table: WeightTable | None) -> U8:
    """Return the weight of each feature in tenths: shape (total,).

    Where all features of a row weigh 0, and without a table, each weighs 1.
    """
    if table is None:
        return np.full(features.hashes.size, TENTHS, np.uint8)
    weights = table.tenths_of(features.hashes)
    filled = np.flatnonzero(features.counts)
    heaviest = np.maximum.reduceat(weights, features.offsets[filled])
    if not heaviest.all():
        light = np.zeros(len(features), np.bool_)
        light[filled] = heaviest == 0
        weights[np.repeat(light, features.counts)] = TENTHS
    return weights


def weigh_bits(hashes: U64, features: Ragged, weights: U8) -> tuple[I64, I64]:
    """Return the weight of each bit, shape (rows, 64), and of each row, shape (rows,).

    hashes: of the features, shape (total,).
    features: the rows that they are in.
    weights: of the features, shape (total,).
    """
    total = np.zeros(len(features), np.int64)
    filled = np.flatnonzero(features.counts)
    total[filled] = np.add.reduceat(weights, features.offsets[filled], dtype=np.int64)
    return _count_bits(hashes, features, weights), total


def _count_bits(hashes: U64, features: Ragged, weights: U8 | None = None) -> I64:
    """Return the number of a row's hashes with each bit set, or their weight: shape (rows, 64)."""
    bit_weights = np.zeros((len(features), 64), np.int64)
    filled = np.flatnonzero(features.counts)
    if not filled.size:
        return bit_weights
    # Several counters share a word, so a sum runs over as many hashes as can't overflow, and long
    # rows are cut.
    capacity = _LANE_CAPACITY if weights is None else _WIDE_CAPACITY
    counts = features.counts[filled]
    pieces = -(-counts // capacity)
    first_piece = offsets_of(pieces)[:-1]
    starts = np.repeat(features.offsets[filled], pieces) + ranges(0, pieces) * capacity
    at_once = max(1, _LANES_AT_ONCE // hashes.size)
    bits_at_once = (_BITS[first : first + at_once] for first in range(0, 8, at_once))
    # Byte i of the lanes of bit k is bit 8 * i + k of a hash.
    lanes = ((hashes >> bits) & _LANES for bits in bits_at_once)
    by_piece = (
        _narrow_sums(lanes, starts) if weights is None else _wide_sums(lanes, starts, weights)
    )
    if starts.size > filled.size:
        by_piece = np.add.reduceat(by_piece, first_piece, axis=0)
    bit_weights[filled] = by_piece
    return bit_weights


def _narrow_sums(lanes: Iterator[U64], starts: I64) -> I64:
    """Return the sums of lanes of eight bits from each start: shape (starts, 64)."""
    sums = np.concatenate([np.add.reduceat(lane, starts, axis=1) for lane in lanes])
    octets = sums.T.astype("<u8", order="C").view(np.uint8).reshape(-1, 8, 8)
    return octets.swapaxes(1, 2).reshape(-1, 64).astype(np.int64)


def _wide_sums(lanes: Iterator[U64], starts: I64, weights: U8) -> I64:
    """Return the weighted sums from each start, in lanes of sixteen bits: shape (starts, 64)."""
    # A product stays in its lane of eight bits, as each holds 0 or 1.
    wide, even, odd = weights.astype(np.uint64), [], []
    for lane in lanes:
        lane *= wide
        even.append(np.add.reduceat(lane & _WIDE_LANES, starts, axis=1))
        lane >>= np.uint64(8)
        lane &= _WIDE_LANES
        odd.append(np.add.reduceat(lane, starts, axis=1))
    sums = np.stack([np.concatenate(even), np.concatenate(odd)])
    # Of each start: bit k, even or odd byte, lane.
    by_lane = sums.T.astype("<u8", order="C").view("<u2").reshape(-1, 8, 2, 4)
    return by_lane.transpose(0, 3, 2, 1).reshape(-1, 64).astype(np.int64)
