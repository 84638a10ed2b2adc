"""Sketches of bands: MinHash signatures, their bands, and the probes of queries.

Broder, "On the resemblance and containment of documents", 1997, section 3; banding: Leskovec,
Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; probes near a bucket: Lv, Josephson,
Wang, Charikar, Li, "Multi-probe LSH: efficient indexing for high-dimensional similarity search",
VLDB 2007, section 4. `banding.meeting` computes how much probes find.

The k permutations are h_i(x) = a_i * x + b_i mod 2**32, with a_i odd, over the upper 32 bits x of
the shingle hashes. The seed fixes a_i and b_i (`hashing.keys`). Shingle hashes are already mixed.
So this simplest family reaches the binomial error, also on sets of 5 shingles:
`benchmarks/minhash_families.py` at commit 4d72008 compares it with one-permutation hashing.
"""

import functools
import itertools
from typing import Self

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.sketch.banding import (
    MOST_SWAPS,
    expected_recall,
    least_bands,
    meeting,
    probes,
    swaps_for,
)
from esdedup.sketch.kinds.base import Block, Probes, Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import JACCARD
from esdedup.text.arrays import I64, U32, U64, Mask, Ragged, run_starts
from esdedup.text.hashing import PRIME64_1, avalanche, keys

EMPTY = np.uint32(0xFFFFFFFF)
"""Every value of the signature of an empty set."""

CHANCE_SIMILARITY = 0.02
"""Jaccard similarity that unrelated texts are taken to have, for the cost of a query."""
MOST_PERMUTATIONS = 4096
NEAREST = 0.1
"""The similarity by which swaps are chosen if there is no threshold."""

_VALUES_AT_ONCE = 1 << 15
"""Permuted values of one call of numpy. For one text that is all permutations, because a call costs
more than the work. For many texts it is a few, so that the block fits the cache."""


class Banded(Sketch):
    """A sketch whose tokens are the bands of a signature, of some rows each.

    bands: number of tokens.
    rows: values of the signature in each band.
    token_bits: bits of a band's hash that its token keeps.
    """

    measure = JACCARD
    leads = True
    nearest = "`esdedup scheme` with `signature` 128"

    bands: int
    rows: int
    token_bits: int

    @property
    def permutations(self) -> int:
        """The length of a full signature, from which similarities are estimated."""
        return self.length

    @property
    def length(self) -> int:
        """The number of values of a signature that the bands take."""
        return self.bands * self.rows

    @property
    def tokens(self) -> int:
        return self.bands

    @property
    def bits(self) -> int:
        return self.token_bits

    @property
    def rows_of_band(self) -> int:
        return self.rows

    def wide(self, permutations: int) -> Self:
        """Return the sketch with signatures of another length, and one band of one row."""
        raise UsageError(f"the sketch {self.name!r} has no signature of another length")

    def values(self, block: Block) -> U64:
        """Return the hashes of bands, shape (n, bands)."""
        signature: U32 | None = block.shared.get("signature")
        if signature is None:
            # One signature, as long as any sketch needs, serves all of them.
            length = max(sketch.length for sketch in block.sketches if isinstance(sketch, Banded))
            signature = signatures(block.shingles, length, block.seed)
            block.shared["signature"] = signature
        return band_hashes(signature, self.bands, self.rows, self.token_bits)

    def swaps(self, limits: Limits) -> int:
        """Return the swaps of the probes of queries (`banding`)."""
        if limits.swaps is not None:
            return limits.swaps
        return swaps_for(limits.threshold or NEAREST, limits.wanted_recall, self.bands, self.rows)

    def query_terms(self, limits: Limits) -> int:
        return self.bands * probes(self.rows, self.swaps(limits))

    def query(self, block: Block, limits: Limits) -> tuple[U64, Probes | None]:
        swaps = self.swaps(limits)
        if not swaps:
            return super().query(block, limits)
        least = smallest(block.sets, self.length, block.seed, swaps + 1)
        probes = Probes(*probe_hashes(least, self.bands, self.rows, self.token_bits, swaps))
        return probes.values[:, :, 0], probes

    def costs(self, documents: float) -> list[tuple[str, str]]:
        rows = []
        for swaps in range(MOST_SWAPS + 1):
            layout = self.bands, self.rows, 1, swaps
            recalls = ", ".join(
                f"{100 * expected_recall(similarity, *layout):.1f}% at {similarity}"
                for similarity in (0.3, 0.5, 0.7, 0.8, 0.9)
            )
            met = min(1.0, self.bands * meeting(CHANCE_SIMILARITY, self.rows, swaps))
            effect = (
                f"{recalls}; about {documents * met:,.1f} candidates at {documents:,.0f} documents"
                f" of chance similarity {CHANCE_SIMILARITY}"
            )
            terms = self.bands * probes(self.rows, swaps)
            rows.append((f"recall with {terms:,} terms per query", effect))
        return rows

    def least(self, limits: Limits, groups: int, similarity: float | None = None) -> int:
        if limits.least is not None:
            return limits.least
        target = limits.threshold if similarity is None else similarity
        if target is None:
            return 1
        return least_bands(target, limits.wanted_recall, groups, self.rows, self.swaps(limits))

    def recall(
        self, limits: Limits, groups: int, least: int, similarity: float | None = None
    ) -> float | None:
        target = limits.least_similarity if similarity is None else similarity
        return expected_recall(target, groups, self.rows, least, self.swaps(limits))


def signatures(shingles: Ragged, permutations: int, seed: int) -> U32:
    """Return MinHash signatures: shape (rows, permutations), uint32.

    Repeated shingles have no effect. The first columns do not depend on `permutations`. An empty
    row has EMPTY in every column.
    """
    filled = np.flatnonzero(shingles.counts)
    values = (shingles.hashes >> np.uint64(32)).astype(np.uint32)
    at_once = max(2, _VALUES_AT_ONCE // max(1, values.size))
    multipliers, addends = _permutations(permutations, seed)
    # Arrays that are written again stay in the cache: 20% of the time.
    buffer = np.empty((at_once, values.size), np.uint32)
    minima = np.empty((permutations, filled.size), np.uint32)
    for first in range(0, permutations if filled.size else 0, at_once):
        chunk = slice(first, first + at_once)
        block = np.multiply(values, multipliers[chunk, None], out=buffer[: permutations - first])
        block += addends[chunk, None]
        np.minimum.reduceat(block, shingles.offsets[filled], axis=1, out=minima[chunk])
    columns = np.full((permutations, len(shingles)), EMPTY, np.uint32)
    columns[:, filled] = minima
    return columns.T


@functools.lru_cache(8)
def _permutations(count: int, seed: int) -> tuple[U32, U32]:
    """Return a_i and b_i, shape (count,) each."""
    multipliers = keys(count, "minhash-multiplier", seed).astype(np.uint32) | np.uint32(1)
    return multipliers, keys(count, "minhash-addend", seed).astype(np.uint32)


def smallest(shingles: Ragged, permutations: int, seed: int, count: int) -> U32:
    """Return the `count` smallest values of each permutation: shape (count, rows, permutations).

    The first are the signatures. shingles: sorted rows of `shingles.distinct`. A row with fewer
    hashes has EMPTY in the remaining places.
    """
    minima = np.full((count, len(shingles), permutations), EMPTY, np.uint32)
    multipliers, addends = _permutations(permutations, seed)
    for row, hashes in enumerate(shingles):
        values = (hashes >> np.uint64(32)).astype(np.uint32)
        values = values[run_starts(values)]
        at_once = max(2, _VALUES_AT_ONCE // max(1, values.size))
        for first in range(0, permutations if values.size else 0, at_once):
            chunk = slice(first, first + at_once)
            permuted = values * multipliers[chunk, None] + addends[chunk, None]
            if values.size > count:
                permuted.partition(count - 1, axis=1)
            least = np.sort(permuted[:, :count], axis=1)
            minima[: least.shape[1], row, chunk] = least.T
    return minima


def band_hashes(signature: U32, bands: int, rows: int, bits: int) -> U64:
    """Return a hash of each band: shape (n, bands), uint64 below 2**bits.

    signature: shape (n, at least bands * rows). Its rows are folded as shingles are.
    """
    return _folded(signature[:, : bands * rows].reshape(len(signature), bands, rows), bits)


def probe_hashes(smallest: U32, bands: int, rows: int, bits: int, swaps: int) -> tuple[U64, Mask]:
    """Return the hashes that a query looks up in each band: shape (n, bands, probes).

    In a probe, the second-smallest, third-smallest, ... values of some rows replace the minimum:
    a document without the shingle of the minimum may have that one. Each place down is a swap, and
    a probe has at most `swaps` of them, those with fewer first. The mask, of the same shape, is
    False for a probe that a text has too few shingles for.

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
    """Return the swaps of each row in each probe, shape (probes, rows), fewest first."""
    swapped_rows = (
        chosen
        for swapped in range(swaps + 1)
        for chosen in itertools.combinations_with_replacement(range(rows), swapped)
    )
    return np.array(
        [[chosen.count(row) for row in range(rows)] for chosen in swapped_rows], np.int64
    )


def _folded(values: U32, bits: int) -> U64:
    """Hash the values along the last axis to `bits` bits."""
    folded = values[..., 0].astype(np.uint64)
    for row in range(1, values.shape[-1]):
        folded *= PRIME64_1
        folded += values[..., row]
    return avalanche(folded) >> np.uint64(64 - bits)
