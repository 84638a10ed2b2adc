"""SimHash fingerprints.

Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002, section 3;
applied to documents: Manku, Jain, Das Sarma, "Detecting near-duplicates for web crawling",
WWW 2007, section 2.

Bit i of a fingerprint is 1 if more than half of the features have bit i set in their hash. Counts
are exact, so a fingerprint is the same on every machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.base import Block
from esdedup.sketch.kinds.segments import Segmented, widths_of
from esdedup.text.arrays import I64, U64, Ragged, offsets_of, ranges
from esdedup.text.hashing import PRIME64_1, avalanche
from esdedup.text.shingles import distinct, shingle

Weighting = Literal["tf", "binary"]

_LANE_CAPACITY = 255
_LANES = np.uint64(0x0101010101010101)
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
    Raises UsageError for values out of range.
    """

    size: int = 64
    segments: int = 4
    feature_size: int = 2
    weighting: Weighting = "tf"

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

    def values(self, block: Block) -> U64:
        """Return fingerprints, shape (n, size // 64)."""
        return fingerprints(shingle(block.words, self.feature_size), self)

    def to_json(self) -> dict[str, Any]:
        # The ids of schemes cover this name, which once held weights of features.
        return {**super().to_json(), "table": None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        given = {
            name: value for name, value in document.items() if (name, value) != ("table", None)
        }
        return super().from_json(given)


def fingerprints(features: Ragged, simhash: SimHash) -> U64:
    """Fingerprints, shape (rows, bits // 64), high words first; 0 without features."""
    if simhash.weighting == "binary":
        features = distinct(features)
    words, hashes = [], features.hashes
    for word in range(simhash.width):
        if word:
            hashes = avalanche(features.hashes * PRIME64_1 + np.uint64(word))
        ones = _count_bits(hashes, features)
        packed = np.packbits(2 * ones > features.counts[:, None], axis=1, bitorder="little")
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
    at_once = max(1, _LANES_AT_ONCE // hashes.size)
    some = (_BITS[first : first + at_once] for first in range(0, 8, at_once))
    # Lane i of the sums of bit k counts bit 8 * i + k.
    lanes = [np.add.reduceat((hashes >> bits) & _LANES, starts, axis=1) for bits in some]
    octets = np.concatenate(lanes).T.astype("<u8", order="C").view(np.uint8).reshape(-1, 8, 8)
    by_piece = octets.swapaxes(1, 2).reshape(-1, 64).astype(np.int64)
    if starts.size > filled.size:
        by_piece = np.add.reduceat(by_piece, first_piece, axis=0)
    ones[filled] = by_piece
    return ones
