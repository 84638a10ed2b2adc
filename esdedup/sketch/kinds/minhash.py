"""MinHash signatures, their bands, and the probes of queries.

Broder, "On the resemblance and containment of documents", 1997, section 3; banding: Leskovec,
Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; probes near a bucket: Lv, Josephson,
Wang, Charikar, Li, "Multi-probe LSH: efficient indexing for high-dimensional similarity search",
VLDB 2007, section 4. `banding.meeting` says how much probes find.

The k permutations are h_i(x) = a_i * x + b_i mod 2**32, with a_i odd, over the upper 32 bits x of
the shingle hashes. The seed fixes a_i and b_i (`hashing.keys`). Shingle hashes are already mixed.
So this simplest family reaches the binomial error, also on sets of 5 shingles:
`benchmarks/minhash_families.py` at commit 4d72008 compares it with one-permutation hashing.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from esdedup.arguments import check_fields
from esdedup.exceptions import UsageError
from esdedup.sketch.tokens import MAX_TOKENS
from esdedup.text.arrays import F64, I64, U32, U64, Mask, Ragged
from esdedup.text.hashing import PRIME64_1, avalanche, keys

EMPTY = np.uint32(0xFFFFFFFF)
"""Every value of the signature of an empty set."""

MOST_PERMUTATIONS = 4096

VALUE_BITS = 18
"""Bits of a single value that its token keeps. Documents meet in single values by similarity far
more often than by the chance of 1 in 2**18. A longer token would only take more room."""

_VALUES_AT_ONCE = 1 << 13
"""Permuted values of one call of numpy. For one text that is all permutations at once, because a
call costs more than the work. For many texts it is two, so that the block fits the cache."""

_SHORT = 48
_MANY = 256
"""Rows of at most _SHORT shingles are reduced together if they are _MANY, and nine of ten."""
_PIECE = 8
"""Values of a row that are reduced in one step then."""
_SHORT_AT_ONCE = 1 << 18
"""Permuted values of one step then, a megabyte: fewer would cost more calls."""


@dataclass(frozen=True)
class MinHash:
    """MinHash parameters.

    permutations: length k of a full signature, 1 to 4096. A similarity estimated from two
        signatures has the standard error sqrt(J (1 - J) / k).
    bands, rows: the first bands * rows values of a signature become `bands` tokens.
    token_bits: bits of a band's hash that its token keeps, 12 to 60, a multiple of 6.
    signature: number of first values of a signature that become tokens by themselves, which find
        the nearest documents at any similarity; 0 for none.
    Raises UsageError for values out of range.
    """

    permutations: int = 128
    bands: int = 12
    rows: int = 3
    token_bits: int = 30
    signature: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
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
                " number of permutations"
            )


def signatures(shingles: Ragged, permutations: int, seed: int) -> U32:
    """MinHash signatures: shape (rows, permutations), uint32.

    Repeated shingles change nothing. The first columns do not depend on `permutations`. An empty
    row has EMPTY in every column.
    """
    short = shingles.counts <= _SHORT
    many = np.count_nonzero(short)
    if many < _MANY or 10 * many < 9 * len(shingles):
        return _minima(shingles, permutations, seed)
    if many == len(shingles):
        return _minima_of_short(shingles, permutations, seed)
    made = np.empty((len(shingles), permutations), np.uint32)
    made[short] = _minima_of_short(shingles.rows(short), permutations, seed)
    made[~short] = _minima(shingles.rows(~short), permutations, seed)
    return made


def _minima(shingles: Ragged, permutations: int, seed: int) -> U32:
    """The signatures of rows of any length."""
    filled = np.flatnonzero(shingles.counts)
    minima = np.empty((permutations, filled.size), np.uint32)
    values = (shingles.hashes >> np.uint64(32)).astype(np.uint32)
    at_once = min(permutations, max(2, _VALUES_AT_ONCE // max(1, values.size)))
    permuted = np.empty((at_once, values.size), np.uint32)
    multipliers, addends = _permutations(permutations, seed)
    for first in range(0, permutations, at_once) if filled.size else ():
        some = slice(first, first + at_once)
        block = permuted[: len(multipliers[some])]
        np.multiply(values, multipliers[some, None], out=block)
        np.add(block, addends[some, None], out=block)
        np.minimum.reduceat(block, shingles.offsets[filled], axis=1, out=minima[some])
    made = np.full((permutations, len(shingles)), EMPTY, np.uint32)
    made[:, filled] = minima
    return made.T


def _minima_of_short(shingles: Ragged, permutations: int, seed: int) -> U32:
    """The same, faster for many short rows: a loop over one row costs more than its work.

    Rows are cut into pieces of _PIECE values; the last piece of a row repeats its last value. The
    first values of all pieces come first, then their second values, and so on. The first pieces of
    all rows come before their second pieces. So every step is one of few long arrays.
    """
    counts, ends = shingles.counts, shingles.offsets[1:]
    pieces = -(-counts // _PIECE)
    order = np.argsort(-pieces, kind="stable")
    having = [int(np.count_nonzero(pieces > piece)) for piece in range(max(1, pieces.max()))]
    edges = [0, *itertools.accumulate(having)]
    rows = np.concatenate([order[:many] for many in having])
    starts = shingles.offsets[rows] + np.repeat(np.arange(len(having)) * _PIECE, having)
    at = np.minimum(starts + np.arange(_PIECE)[:, None], ends[rows] - 1)
    values = (shingles.hashes.take(at.ravel()) >> np.uint64(32)).astype(np.uint32)
    multipliers, addends = _permutations(permutations, seed)
    minima = np.empty((permutations, having[0]), np.uint32)
    at_once = max(2, _SHORT_AT_ONCE // max(1, values.size))
    permuted = np.empty((min(permutations, at_once), values.size), np.uint32)
    for first in range(0, permutations, at_once):
        some = slice(first, first + at_once)
        block = permuted[: len(multipliers[some])]
        np.multiply(values, multipliers[some, None], out=block)
        np.add(block, addends[some, None], out=block)
        while block.shape[1] > rows.size:
            half = block.shape[1] // 2
            block = np.minimum(block[:, :half], block[:, half:], out=block[:, :half])
        for start, end in itertools.pairwise(edges[1:]):
            heads = block[:, : end - start]
            np.minimum(heads, block[:, start:end], out=heads)
        minima[some] = block[:, : having[0]]
    made = np.full((len(shingles), permutations), EMPTY, np.uint32)
    made[order[: having[0]]] = minima.T
    return made


@functools.lru_cache(8)
def _permutations(count: int, seed: int) -> tuple[U32, U32]:
    """a_i and b_i, shape (count,) each. Every block of texts needs the same."""
    multipliers = keys(count, "minhash-multiplier", seed).astype(np.uint32) | np.uint32(1)
    return multipliers, keys(count, "minhash-addend", seed).astype(np.uint32)


def smallest(shingles: Ragged, permutations: int, seed: int, count: int) -> U32:
    """The `count` smallest values of each permutation: shape (count, rows, permutations), uint32.

    The first are the signatures. shingles: rows of different hashes, as `shingles.distinct` gives
    them. A row with fewer hashes has EMPTY in the places that are left.
    """
    filled = np.flatnonzero(shingles.counts)
    found = np.full((count, permutations, len(shingles)), EMPTY, np.uint32)
    values = (shingles.hashes >> np.uint64(32)).astype(np.uint32)
    at_once = min(permutations, max(2, _VALUES_AT_ONCE // max(1, values.size)))
    multipliers, addends = _permutations(permutations, seed)
    counts = shingles.counts[filled]
    # The hashes are sorted, and so are their upper halves.
    different = bool((values[1:] != values[:-1]).all())
    for first in range(0, permutations, at_once) if filled.size else ():
        some = slice(first, first + at_once)
        permuted = values * multipliers[some, None] + addends[some, None]
        if len(shingles) == 1 and different:
            # This takes a third of the time for one text.
            if values.size > count:
                permuted.partition(count - 1, axis=1)
            least = np.sort(permuted[:, :count], axis=1)
            found[: least.shape[1], some, 0] = least.T
            continue
        for place in range(count):
            minima = np.minimum.reduceat(permuted, shingles.offsets[filled], axis=1)
            found[place, some, filled] = minima.T
            permuted[permuted == np.repeat(minima, counts, axis=1)] = EMPTY
    return found.transpose(0, 2, 1)


def band_hashes(signature: U32, bands: int, rows: int, bits: int) -> U64:
    """A hash of each band: shape (n, bands), uint64 below 2**bits.

    It is the upper `bits` bits of avalanche(fold(rows)), folded as shingles are.
    signature: shape (n, at least bands * rows).
    """
    banded = signature[:, : bands * rows].reshape(len(signature), bands, rows)
    return _folded(banded, bits)


def probe_hashes(smallest: U32, bands: int, rows: int, bits: int, swaps: int) -> tuple[U64, Mask]:
    """The hashes that a query looks for in each band, its own first: shape (n, bands, probes).

    In a probe, the values of some rows are the second-smallest, or third-smallest, and so on, in
    place of the minimum: a document that lacks the shingle of the minimum may have that one. Each
    place down counts as one swap, and a probe has at most `swaps` of them. Those with fewer come
    first. `banding.probes` gives their number. The mask, of the same shape, is False for a probe
    that a text has too few shingles for.

    smallest: shape (at least swaps + 1, n, at least bands * rows).
    """
    length = bands * rows
    banded = smallest[:, :, :length].reshape(len(smallest), -1, bands, rows)
    # Shape (probes, rows), to pick values of the shape (probes, rows, n, bands).
    picked = banded[_places(rows, swaps), :, :, np.arange(rows)]
    values = picked.transpose(2, 3, 0, 1)
    return _folded(values, bits), (values != EMPTY).all(axis=-1)


@functools.lru_cache
def _places(rows: int, swaps: int) -> I64:
    """How far down each row's value is in each probe, shape (probes, rows), fewest swaps first."""
    every = (
        chosen
        for many in range(swaps + 1)
        for chosen in itertools.combinations_with_replacement(range(rows), many)
    )
    return np.array([[chosen.count(row) for row in range(rows)] for chosen in every], np.int64)


def _folded(values: U32, bits: int) -> U64:
    """The hash of the values along the last axis, of `bits` bits."""
    folded = values[..., 0].astype(np.uint64)
    for row in range(1, values.shape[-1]):
        folded *= PRIME64_1
        folded += values[..., row]
    return avalanche(folded) >> np.uint64(64 - bits)


def estimate_jaccard(left: U32, right: U32) -> F64:
    """Estimated Jaccard similarities, shape (n,), of signatures, shape (n, k); 0 for empty sets."""
    alike: F64 = np.mean(left == right, axis=1)
    return np.where((left == EMPTY).all(axis=1), 0.0, alike)
