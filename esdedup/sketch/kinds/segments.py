"""Cuts fingerprints into segments, each a token, and computes which distance they guarantee.

By the pigeonhole principle two fingerprints that differ in fewer bits than they have segments share
one. Looking up a segment's neighbours too is multi-index hashing: Norouzi, Punjani, Fleet, "Fast
search in Hamming space with multi-index hashing", CVPR 2012, section 2.
"""

import functools
import itertools
import math

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.base import Block, Probes, Sketch
from esdedup.sketch.limits import Limits
from esdedup.text.arrays import U64

_RADII = 3
MAX_PROBES = 65_536
"""The maximum number of terms that servers accept in one query by default."""


class Segmented(Sketch):
    """A fingerprint whose tokens are its segments: pieces of widths as equal as possible.

    Wider pieces come first. With several words of 64 bits their number is a multiple of the words,
    so that no piece spans two. Values are fingerprints, shape (n, size // 64), high words first.
    """

    metric = "hamming"
    token_bytes = 9.9

    size: int
    segments: int

    @property
    def tokens(self) -> int:
        return self.segments

    @property
    def width(self) -> int:
        return self.size // 64

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each segment, from the most significant."""
        words = self.size // 64
        a_word = self.segments // words
        return tuple(64 // a_word + (i < 64 % a_word) for i in range(a_word)) * words

    @property
    def bits(self) -> int:
        return max(self.widths)

    @property
    def dtype(self) -> type[np.uint64]:
        return np.uint64

    def guarantee(self, radius: int = 0) -> int:
        """Return the distance up to which probes of `radius` bits always meet."""
        return self.segments * (radius + 1) - 1

    def distance(self, limits: Limits) -> int:
        """Return the distance of limits; by default the one that equal segments guarantee.

        Raises UsageError if it is out of range, or requires more probes than a query can have.
        """
        if limits.distance is None:
            return self.guarantee()
        if not 0 <= limits.distance < self.size:
            raise UsageError(f"distance {limits.distance}: use 0 to {self.size - 1} bits")
        probes = self.probes(limits.distance // self.segments)
        if probes > MAX_PROBES:
            raise UsageError(
                f"distance {limits.distance} needs {probes:,} terms a query with"
                f" {self.segments} segments; a cluster accepts {MAX_PROBES:,}: use a smaller"
                " distance, or an index with more segments"
            )
        return limits.distance

    def probes(self, radius: int = 0) -> int:
        """Return the number of terms of a query: every segment with its neighbours."""
        return sum(_neighbours(width, radius) for width in self.widths)

    def masks(self, limits: Limits) -> list[U64]:
        """Return the masks of the neighbours of each segment to probe, fewest bits first."""
        radius = self.distance(limits) // self.segments
        return [probe_masks(width, radius) for width in self.widths]

    def token_values(self, values: U64) -> U64:
        found, left = [], 0
        for width in self.widths:
            word, offset = divmod(left, 64)
            shift = np.uint64(64 - offset - width)
            found.append((values[:, word] >> shift) & np.uint64((1 << width) - 1))
            left += width
        return np.stack(found, axis=1)

    def stored_values(self, tokens: U64) -> U64:
        words = np.zeros((len(tokens), self.width), np.uint64)
        for column, end in enumerate(itertools.accumulate(self.widths)):
            word, offset = divmod(end - 1, 64)
            words[:, word] |= tokens[:, column] << np.uint64(63 - offset)
        return words

    def query(self, block: Block, limits: Limits) -> tuple[U64, Probes]:
        values = self.values(block)
        segments, masks = self.token_values(values), self.masks(limits)
        most = max(each.size for each in masks)
        probes = np.empty((*segments.shape, most), np.uint64)
        present = np.zeros((self.segments, most), np.bool_)
        for position, mask in enumerate(masks):
            probes[:, position, : mask.size] = segments[:, position, None] ^ mask
            present[position, : mask.size] = True
        return values, Probes(probes, np.broadcast_to(present, probes.shape))

    def check(self, limits: Limits) -> None:
        if limits.threshold is None:
            raise UsageError(
                f"the sketch {self.name!r} compares by Hamming distance: it can't be combined with"
                " the nearest documents; use a distance, or another sketch"
            )
        self.distance(limits)

    def costs(self, documents: float) -> list[tuple[str, str]]:
        rows = []
        for radius in range(_RADII):
            # Of unrelated fingerprints: an upper bound, tight if it is small.
            met = math.fsum(_neighbours(width, radius) / 2.0**width for width in self.widths)
            effect = (
                f"guaranteed with {self.probes(radius):,} terms a query; about"
                f" {documents * min(1.0, met):,.1f} chance candidates at {documents:,.0f} documents"
            )
            rows.append((f"Hamming distance up to {self.guarantee(radius)}", effect))
        return rows

    def describe(self) -> str:
        return (
            f"{self.size} bits in {self.segments} segments of {self.bits} bits; equal segments"
            f" guarantee distance {self.guarantee()}"
        )


def _neighbours(width: int, radius: int) -> int:
    return sum(math.comb(width, flips) for flips in range(min(radius, width) + 1))


@functools.lru_cache(64)
def probe_masks(width: int, radius: int) -> U64:
    """Return all masks of `width` bits with at most `radius` bits set, fewest first: shape (m,)."""
    bits = [1 << bit for bit in range(width)]
    flipped = (itertools.combinations(bits, flips) for flips in range(min(radius, width) + 1))
    return np.array(list(map(sum, itertools.chain.from_iterable(flipped))), np.uint64)
