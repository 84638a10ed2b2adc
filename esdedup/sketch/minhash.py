"""MinHash signatures and their bands.

Broder, "On the resemblance and containment of documents", 1997, section 3; banding: Leskovec,
Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4.

The k permutations are h_i(x) = a_i * x + b_i mod 2**32, with a_i odd, over the upper 32 bits x of
the shingle hashes; a_i and b_i are fixed by the seed (`hashing.keys`). Shingle hashes are already
mixed, so this simplest family reaches the binomial error, also on sets of 5 shingles:
`benchmarks/minhash_families.py` compares it with one-permutation hashing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import UsageError
from esdedup.sketch.tokens import MAX_TOKENS
from esdedup.text.arrays import U32, U64, Ragged
from esdedup.text.hashing import PRIME64_1, avalanche, keys

EMPTY = np.uint32(0xFFFFFFFF)
"""Every row of the signature of an empty set."""

MOST_PERMUTATIONS = 4096

VALUE_BITS = 18
"""Bits of a single value that its token keeps. Documents meet in single values by their likeness
far more often than by the chance of 1 in 2**18; a longer token would only take more room."""

_VALUES_AT_ONCE = 1 << 13
"""Permuted values of a call of numpy: of one text all permutations at once, as a call costs more
than the work; of many texts two, whose block still fits the cache."""


@dataclass(frozen=True)
class MinHash:
    """MinHash parameters.

    permutations: length k of a full signature, 1 to 4096; the similarity estimated from two of
        them has the standard error sqrt(J (1 - J) / k).
    bands, rows: the first bands * rows values of a signature become `bands` tokens.
    token_bits: bits of a band's hash that its token keeps, 12 to 60, a multiple of 6.
    signature: so many of the first values of a signature become tokens by themselves, for the
        nearest documents however unlike; 0 for none.

    Raises UsageError for values out of range.
    """

    permutations: int = 128
    bands: int = 23
    rows: int = 3
    token_bits: int = 30
    signature: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.permutations <= MOST_PERMUTATIONS:
            raise UsageError(f"permutations {self.permutations}: use 1 to {MOST_PERMUTATIONS}")
        if self.bands < 1 or self.rows < 1:
            raise UsageError(f"bands {self.bands}, rows {self.rows}: both must be at least 1")
        if self.bands * self.rows > self.permutations:
            raise UsageError(
                f"{self.bands} bands of {self.rows} rows need {self.bands * self.rows}"
                f" permutations, but there are {self.permutations}"
            )
        if self.bands > MAX_TOKENS:
            raise UsageError(f"bands {self.bands}: use at most {MAX_TOKENS}")
        if not 12 <= self.token_bits <= 60 or self.token_bits % 6:
            raise UsageError(f"token bits {self.token_bits}: use a multiple of 6 from 12 to 60")
        if not 0 <= self.signature <= min(self.permutations, MAX_TOKENS):
            raise UsageError(
                f"signature {self.signature}: use 0 to {min(self.permutations, MAX_TOKENS)}, the"
                " permutations that there are"
            )


def signatures(shingles: Ragged, permutations: int, seed: int) -> U32:
    """MinHash signatures: shape (rows, permutations), uint32.

    Repeated shingles change nothing. The first columns do not depend on `permutations`. An empty
    row has EMPTY in every column.
    """
    minima = np.full((permutations, len(shingles)), EMPTY, np.uint32)
    filled = np.flatnonzero(shingles.counts)
    if filled.size:
        minima[:, filled] = _minima(shingles.hashes, shingles.offsets[filled], permutations, seed)
    return minima.T


def _minima(hashes: U64, starts: NDArray[np.int64], permutations: int, seed: int) -> U32:
    values = (hashes >> np.uint64(32)).astype(np.uint32)
    at_once = min(permutations, max(2, _VALUES_AT_ONCE // max(1, values.size)))
    permuted = np.empty((at_once, values.size), np.uint32)
    minima = np.empty((permutations, starts.size), np.uint32)
    multipliers, addends = _permutations(permutations, seed)
    for first in range(0, permutations, at_once):
        some = slice(first, first + at_once)
        block = permuted[: len(multipliers[some])]
        np.multiply(values, multipliers[some, None], out=block)
        np.add(block, addends[some, None], out=block)
        np.minimum.reduceat(block, starts, axis=1, out=minima[some])
    return minima


@functools.lru_cache(8)
def _permutations(count: int, seed: int) -> tuple[U32, U32]:
    """a_i and b_i, shape (count,) each; kept, as every block of texts needs the same."""
    multipliers = keys(count, "minhash-multiplier", seed).astype(np.uint32) | np.uint32(1)
    return multipliers, keys(count, "minhash-addend", seed).astype(np.uint32)


def band_hashes(signature: U32, bands: int, rows: int, bits: int) -> U64:
    """A hash of each band: shape (n, bands), uint64 below 2**bits.

    signature: shape (n, at least bands * rows). The hash is the upper `bits` bits of
    avalanche(fold(rows)), folded as shingles are.
    """
    banded = signature[:, : bands * rows].reshape(len(signature), bands, rows).astype(np.uint64)
    folded = banded[:, :, 0].copy()
    for row in range(1, rows):
        folded *= PRIME64_1
        folded += banded[:, :, row]
    return avalanche(folded) >> np.uint64(64 - bits)


def value_hashes(signature: U32, count: int) -> U64:
    """A hash of each of the first `count` values: shape (n, count), uint64 below 2**VALUE_BITS."""
    return band_hashes(signature, count, 1, VALUE_BITS)


def estimate_jaccard(left: U32, right: U32) -> NDArray[np.float64]:
    """Estimated Jaccard similarities of rows: shape (n,); 0 where a set is empty.

    left, right: signatures, shape (n, k).
    """
    alike: NDArray[np.float64] = np.mean(left == right, axis=1)
    return np.where((left == EMPTY).all(axis=1), 0.0, alike)
