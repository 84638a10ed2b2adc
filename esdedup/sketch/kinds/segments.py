"""Cuts SimHash fingerprints into segments, and says which distance the segments guarantee.

A fingerprint is cut into blocks; a segment is `choose` of them. With one block a segment these are
plain equal segments. With several they are the tables of Manku, Jain, Das Sarma, "Detecting
near-duplicates for web crawling", WWW 2007, section 3. Looking up a segment's neighbours too is
multi-index hashing: Norouzi, Punjani, Fleet, "Fast search in Hamming space with multi-index
hashing", CVPR 2012, section 2.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from esdedup.arguments import check_fields
from esdedup.exceptions import UsageError
from esdedup.sketch.tokens import MAX_TOKENS
from esdedup.text.arrays import U64

MAX_SEGMENT_BITS = 60


@dataclass(frozen=True)
class Layout:
    """How a fingerprint is cut into segments.

    bits: 64 or 128.
    blocks: pieces of widths as equal as possible, the wider ones first. With 128 bits their number
        is even, so that no piece spans two words.
    choose: blocks a segment. There are C(blocks, choose) segments, each a token.
    Raises UsageError for values out of range.
    """

    bits: int = 64
    blocks: int = 4
    choose: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.bits not in (64, 128):
            raise UsageError(f"fingerprint bits {self.bits}: use 64 or 128")
        words = self.bits // 64
        if not words <= self.blocks <= self.bits // 2 or self.blocks % words:
            even = "an even number of " if words == 2 else ""
            raise UsageError(f"blocks {self.blocks}: use {even}{words} to {self.bits // 2} blocks")
        if not 1 <= self.choose <= self.blocks:
            raise UsageError(f"choose {self.choose}: use 1 to {self.blocks} blocks a segment")
        if math.comb(self.blocks, self.choose) > MAX_TOKENS:
            raise UsageError(f"{self} makes more than {MAX_TOKENS} segments")
        if self.segment_bits > MAX_SEGMENT_BITS:
            raise UsageError(
                f"{self} makes segments of {self.segment_bits} bits;"
                f" use at most {MAX_SEGMENT_BITS}: more blocks, or fewer blocks a segment"
            )

    def __str__(self) -> str:
        if self.choose == 1 and self.bits % self.blocks == 0:
            return f"{self.blocks}x{self.bits // self.blocks}"
        return f"{self.bits}:{self.blocks}c{self.choose}"

    @property
    def block_bits(self) -> tuple[int, ...]:
        """The width of each block, from the most significant."""
        words = self.bits // 64
        a_word = self.blocks // words
        return tuple(64 // a_word + (i < 64 % a_word) for i in range(a_word)) * words

    @property
    def combinations(self) -> list[tuple[int, ...]]:
        """The blocks of each segment, in lexicographic order."""
        return list(itertools.combinations(range(self.blocks), self.choose))

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each segment."""
        widths = self.block_bits
        return tuple(sum(widths[block] for block in blocks) for blocks in self.combinations)

    @property
    def segment_bits(self) -> int:
        """Bits of the widest segment."""
        return sum(sorted(self.block_bits)[-self.choose :])

    def guarantee(self, radius: int = 0) -> int:
        """The Hamming distance k up to which two fingerprints always meet.

        By the pigeonhole principle, some `choose` blocks hold at most `radius` of k differing bits.
        radius: differing bits that a probe of a segment forgives.
        """
        return next(k for k in itertools.count() if self._fewest(k + 1) > radius)

    def _fewest(self, distance: int) -> int:
        """The most of `distance` bits that the `choose` blocks with the fewest of them can hold."""
        each, over = divmod(distance, self.blocks)
        return self.choose * each + max(0, over - (self.blocks - self.choose))

    def radius_for(self, distance: int) -> int:
        """The smallest radius that guarantees a distance. Raises UsageError if out of range."""
        if not 0 <= distance < self.bits:
            raise UsageError(f"distance {distance}: use 0 to {self.bits - 1} bits")
        return self._fewest(distance)

    def probes(self, radius: int = 0) -> int:
        """Number of terms of a query: every segment with its neighbours within the radius."""
        return sum(_neighbours(width, radius) for width in self.widths)

    def expected_candidates(self, documents: float, radius: int = 0) -> float:
        """Chance candidates of a query among `documents` unrelated, uniform fingerprints.

        The sum over segments of N * neighbours / 2**width. An upper bound, tight if it is small.
        """
        chances = (_neighbours(width, radius) / 2.0**width for width in self.widths)
        return documents * min(1.0, math.fsum(chances))


def parse_layout(text: str, bits: int = 64) -> Layout:
    """Read "4x16" (segments x bits) or "6c3" (blocks, choose). Raises UsageError for others."""
    for sign in "xc":
        first, found, second = text.partition(sign)
        if found and first.isdecimal() and second.isdecimal():
            left, right = int(first), int(second)
            return Layout(left * right, left) if sign == "x" else Layout(bits, left, right)
    raise UsageError(f"segment layout {text!r}: use segments x bits, as 4x16, or 6c3")


def _neighbours(width: int, radius: int) -> int:
    return sum(math.comb(width, flips) for flips in range(min(radius, width) + 1))


def segment_values(fingerprint: U64, layout: Layout) -> U64:
    """Cut fingerprints, shape (n, bits // 64), into segments: shape (n, segments), uint64."""
    blocks, left = [], 0
    widths = layout.block_bits
    for width in widths:
        word, offset = divmod(left, 64)
        shift = np.uint64(64 - offset - width)
        blocks.append((fingerprint[:, word] >> shift) & np.uint64((1 << width) - 1))
        left += width
    columns = []
    for chosen in layout.combinations:
        value = blocks[chosen[0]]
        for block in chosen[1:]:
            value = (value << np.uint64(widths[block])) | blocks[block]
        columns.append(value)
    return np.stack(columns, axis=1)


def fingerprints_of(segments: U64, layout: Layout) -> U64:
    """The fingerprints, shape (n, bits // 64), of which `segment_values` made these segments.

    segments: shape (n, segments). Every block is in some segment.
    """
    widths = layout.block_bits
    words = np.zeros((len(segments), layout.bits // 64), np.uint64)
    for block, end in enumerate(itertools.accumulate(widths)):
        column, chosen = next(
            (column, chosen) for column, chosen in enumerate(layout.combinations) if block in chosen
        )
        # The bits of the segment's later blocks are below those of this one.
        below = sum(widths[each] for each in chosen if each > block)
        value = (segments[:, column] >> np.uint64(below)) & np.uint64((1 << widths[block]) - 1)
        word, offset = divmod(end - 1, 64)
        words[:, word] |= value << np.uint64(63 - offset)
    return words


def probe_masks(width: int, radius: int) -> U64:
    """All masks of `width` bits with at most `radius` bits set, fewest first: shape (m,)."""
    bits = [1 << bit for bit in range(width)]
    flipped = (itertools.combinations(bits, flips) for flips in range(min(radius, width) + 1))
    return np.array(list(map(sum, itertools.chain.from_iterable(flipped))), np.uint64)
