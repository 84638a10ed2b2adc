"""Cuts fingerprints into segments, each a token, and computes which distance they guarantee.

By the pigeonhole principle two fingerprints that differ in fewer bits than they have segments share
one. Looking up a segment's neighbours too is multi-index hashing: Norouzi, Punjani, Fleet, "Fast
search in Hamming space with multi-index hashing", CVPR 2012, section 2.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.base import Block, Probes, Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import HAMMING
from esdedup.text.arrays import U64

_RADII = 3
MAX_PROBES = 65_536
"""The maximum number of terms of one query."""


class Segmented(Sketch):
    """A fingerprint whose tokens are its segments: pieces of widths as equal as possible.

    Wider pieces come first. Values are fingerprints, shape (n, words of 64 bits), high words first;
    unused bits are the highest of the first word.

    size: bits of a fingerprint.
    segments: number of tokens.
    """

    measure = HAMMING

    size: int
    segments: int

    @property
    def tokens(self) -> int:
        return self.segments

    @property
    def width(self) -> int:
        return -(-self.size // 64)

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each segment, from the most significant."""
        return widths_of(self.size, self.segments)

    @property
    def reach(self) -> int:
        """The maximum distance by default."""
        return self.guarantee()

    @property
    def bits(self) -> int:
        return max(self.widths)

    @property
    def dtype(self) -> type[np.uint64]:
        return np.uint64

    def guarantee(self, radius: int = 0) -> int:
        """Return the distance up to which probes of `radius` bits always meet."""
        return self.segments * (radius + 1) - 1

    def max_distance(self, limits: Limits) -> int:
        """Return the distance of limits, by default `reach`.

        Raises UsageError if it is out of range, or requires more probes than a query can have.
        """
        distance = self.reach if limits.distance is None else limits.distance
        if not 0 <= distance < self.size:
            raise UsageError(f"distance {distance}: use 0 to {self.size - 1} bits")
        probes = self.probes(distance // self.segments)
        if probes > MAX_PROBES:
            raise UsageError(
                f"distance {distance} needs {probes:,} terms per query with"
                f" {self.segments} segments; a cluster accepts {MAX_PROBES:,}: use a smaller"
                " distance, or an index with more segments"
            )
        return distance

    def probes(self, radius: int = 0) -> int:
        """Return the number of terms of a query: every segment with its neighbours."""
        return sum(neighbours(width, radius) for width in self.widths)

    def masks(self, limits: Limits, sides: int = 1) -> list[U64]:
        """Return the masks of the neighbours of each segment to probe, fewest bits first."""
        # Two values that differ in r bits have a neighbour in common at half of r.
        radius = -(-(self.max_distance(limits) // self.segments) // sides)
        return [probe_masks(width, radius) for width in self.widths]

    def token_values(self, values: U64) -> U64:
        segments = []
        for width, (word, shift) in zip(self.widths, self._places(), strict=True):
            piece = values[:, word] >> np.uint64(shift)
            if shift + width > 64:
                piece = piece | values[:, word - 1] << np.uint64(64 - shift)
            segments.append(piece & np.uint64((1 << width) - 1))
        return np.stack(segments, axis=1)

    def _places(self) -> Iterator[tuple[int, int]]:
        """Yield for each segment the word that holds its last bit, and the bits after that."""
        unused = 64 * self.width - self.size
        for end in itertools.accumulate(self.widths):
            yield (unused + end - 1) // 64, -(unused + end) % 64

    def stored_values(self, tokens: U64) -> U64:
        words = np.zeros((len(tokens), self.width), np.uint64)
        for column, (word, shift) in enumerate(self._places()):
            words[:, word] |= tokens[:, column] << np.uint64(shift)
            if shift + self.widths[column] > 64:
                words[:, word - 1] |= tokens[:, column] >> np.uint64(64 - shift)
        return words

    def query(self, block: Block, limits: Limits) -> tuple[U64, Probes]:
        values = self.values(block)
        segments, masks = self.token_values(values), self.masks(limits)
        most = max(mask.size for mask in masks)
        probes = np.empty((*segments.shape, most), np.uint64)
        present = np.zeros((self.segments, most), np.bool_)
        for position, mask in enumerate(masks):
            probes[:, position, : mask.size] = segments[:, position, None] ^ mask
            present[position, : mask.size] = True
        return values, Probes(probes, np.broadcast_to(present, probes.shape))

    def settled(self, limits: Limits) -> Limits:
        return replace(limits, distance=self.max_distance(limits))

    def check(self, limits: Limits) -> None:
        super().check(limits)
        self.max_distance(limits)

    def costs(self, documents: float) -> list[tuple[str, str]]:
        rows = []
        for radius in range(_RADII):
            # Of unrelated fingerprints: an upper bound, tight if it is small.
            met = math.fsum(neighbours(width, radius) / 2.0**width for width in self.widths)
            effect = (
                f"guaranteed with {self.probes(radius):,} terms per query; about"
                f" {documents * min(1.0, met):,.1f} chance candidates at {documents:,.0f} documents"
            )
            rows.append((f"Hamming distance up to {self.guarantee(radius)}", effect))
        return rows

    def describe(self) -> str:
        return (
            f"{self.size} bits in {self.segments} segments of {self.bits} bits; equal segments"
            f" guarantee distance {self.guarantee()}"
        )


def widths_of(size: int, segments: int) -> tuple[int, ...]:
    """Return widths that are as equal as possible, wider ones first."""
    return tuple(size // segments + (i < size % segments) for i in range(segments))


@functools.cache
def neighbours(width: int, radius: int) -> int:
    """Return the number of values that differ in at most `radius` of `width` bits."""
    return sum(math.comb(width, flips) for flips in range(min(radius, width) + 1))


@functools.lru_cache(64)
def probe_masks(width: int, radius: int) -> U64:
    """Return all masks of `width` bits with at most `radius` bits set, fewest first: shape (m,)."""
    bits = [1 << bit for bit in range(width)]
    flipped = (itertools.combinations(bits, flips) for flips in range(min(radius, width) + 1))
    return np.array(list(map(sum, itertools.chain.from_iterable(flipped))), np.uint64)
