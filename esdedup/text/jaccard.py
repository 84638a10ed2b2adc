"""Exact similarities of pairs, in numpy: Jaccard of shingle sets, Hamming of fingerprints."""

import numpy as np

from esdedup.text.arrays import F64, I64, U64, Ragged, blocks, offsets_of, ranges

ELEMENTS_A_BLOCK = 1 << 20
"""Set elements compared at once, which keeps the temporary arrays near 50 MB."""
_WORDS_AN_ELEMENT = 2
"""Sets become bits if that takes at most so many words for each element of a pair: comparing 64
bits takes a tenth of the time to sort an element."""


def jaccard(sets: Ragged, left: I64, right: I64, block_elements: int = ELEMENTS_A_BLOCK) -> F64:
    """Exact Jaccard similarity of pairs of shingle sets: shape (pairs,), 0 to 1.

    sets: 64-bit shingle hashes, sorted, without repetitions, as `shingles.distinct` returns them.
    left, right: rows of `sets`, shape (pairs,).
    block_elements: set elements compared at once.
    Two empty sets have similarity 0: an empty text resembles nothing.
    """
    similarity = np.zeros(left.size, np.float64)
    if not left.size or not sets.hashes.size:
        return similarity
    distinct_hashes, identity = np.unique(sets.hashes, return_inverse=True)
    counts = sets.counts
    sizes = counts[left] + counts[right]
    # Only hashes of several sets can be shared.
    is_shared = np.bincount(identity) > 1
    words = -(-int(np.count_nonzero(is_shared)) // 64)
    if words <= _WORDS_AN_ELEMENT * sizes.mean():
        chosen = is_shared[identity]
        column = np.cumsum(is_shared)[identity[chosen]] - 1
        bits = np.zeros((len(sets), words), np.uint64)
        row = np.repeat(np.arange(len(sets)), counts)[chosen]
        np.bitwise_or.at(bits, (row, column >> 6), np.uint64(1) << (column & 63).astype(np.uint64))
        for block in blocks(np.full(left.size, words), block_elements):
            shared = np.bitwise_count(bits[left[block]] & bits[right[block]])
            similarity[block] = shared.sum(axis=1, dtype=np.int64)
        return similarity / np.maximum(sizes - similarity, 1)
    for block in blocks(sizes, block_elements):
        keys_of_sides = []
        for rows in (left[block], right[block]):
            # One number for each element: its pair and its identity.
            pair = np.repeat(np.arange(rows.size), counts[rows]) * distinct_hashes.size
            keys_of_sides.append(pair + identity[ranges(sets.offsets[rows], counts[rows])])
        keys = np.concatenate(keys_of_sides)
        # Sorting in place is several times as fast as looking each element up.
        keys.sort()
        shared = keys[1:][keys[1:] == keys[:-1]]
        intersection = np.bincount(shared // distinct_hashes.size, minlength=left[block].size)
        similarity[block] = intersection / np.maximum(sizes[block] - intersection, 1)
    return similarity


def jaccard_with(shingles: U64, sets: Ragged) -> F64:
    """Exact Jaccard similarity of one shingle set with each row of `sets`: shape (len(sets),).

    Faster than `jaccard` for few sets.

    shingles: the set, sorted and without repetitions, as the rows are.
    """
    if not shingles.size:
        return np.zeros(len(sets), np.float64)
    # The last 16 bits, which few share, find the only element that a hash may be equal to.
    places, numbers = np.zeros(1 << 16, np.int64), np.arange(shingles.size)
    places[shingles.astype(np.uint16)] = numbers
    shared = shingles.take(places.take(sets.hashes.astype(np.uint16))) == sets.hashes
    unplaced = shingles[places.take(shingles.astype(np.uint16)) != numbers]
    if unplaced.size:
        shared |= np.isin(sets.hashes, unplaced)
    intersection = np.diff(offsets_of(shared)[sets.offsets])
    similarity: F64 = intersection / (shingles.size + sets.counts - intersection)
    return similarity


def hamming(left: U64, right: U64) -> I64:
    """Hamming distances of fingerprints, shape (n, words) each: shape (n,), in bits."""
    distances: I64 = np.bitwise_count(left ^ right).sum(axis=1, dtype=np.int64)
    return distances
