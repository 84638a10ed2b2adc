"""Windows of successive words, and the anchors by which equal windows meet.

A window is its first word and the `size` - 1 words after it. Each has one anchor: the smallest hash
of the shorter windows inside it, of equal ones the last. Equal windows have equal anchors, at the
same place in each, and windows that overlap mostly share theirs, so that a text of windows of 50
words has some 7 anchors in 100 words. Schleimer, Wilkerson, Aiken, "Winnowing: local algorithms for
document fingerprinting", SIGMOD 2003, section 3.
"""

from dataclasses import dataclass

import numpy as np

from esdedup.text.arrays import I64, U64, Ragged, ranges, run_starts
from esdedup.text.hashing import PRIME64_1, avalanche

_INVERSE = np.uint64(pow(int(PRIME64_1), -1, 1 << 64))
_POSITION = np.uint64((1 << 32) - 1)
"""The bits of a key that hold the position of a hash; the others are the upper bits of the hash."""


def window_hashes(words: U64, size: int) -> U64:
    """Return a hash of each window by its first word: shape (max(0, words - size + 1),).

    It is the polynomial of the words' hashes modulo 2**64, mixed: 5 operations a word for any size.
    Equal hashes are no proof of equal words.
    """
    count = max(0, words.size - size + 1)
    powers = np.full(words.size + 1, PRIME64_1, np.uint64)
    powers[0] = 1
    np.cumprod(powers, out=powers)
    sums = np.zeros(words.size + 1, np.uint64)
    np.cumsum(words * powers[:-1], out=sums[1:])
    hashes = sums[size : size + count] - sums[:count]
    inverses = np.full(count, _INVERSE, np.uint64)
    inverses[:1] = 1
    hashes *= np.cumprod(inverses)
    return avalanche(hashes)


@dataclass(frozen=True)
class Anchors:
    """The anchors of texts, by their windows.

    hashes: of the shorter windows, shape (n,).
    starts: the first window that has each anchor, by its first word, ascending, shape (n,).
    counts: the number of successive windows that have it, shape (n,).
    """

    hashes: U64
    starts: I64
    counts: I64


def anchors_of(words: Ragged, size: int) -> Anchors:
    """Return the anchors of all windows of texts. A text of fewer words has no window."""
    inner = (size + 1) // 2
    hashes = window_hashes(words.hashes, inner)
    # Of equal hashes in a window, the key of the last one is the smallest.
    keys = hashes & ~_POSITION
    keys |= _POSITION - np.arange(hashes.size, dtype=np.uint64)
    smallest = _smallest_of(keys, size - inner + 1)
    windows = np.maximum(words.counts - size + 1, 0)
    starts = ranges(words.offsets[:-1], windows)
    positions = (_POSITION - (smallest[starts] & _POSITION)).view(np.int64)
    # A window's anchor is in its own text, so that another text has another one.
    first_windows = np.flatnonzero(run_starts(positions))
    counts = np.diff(np.append(first_windows, positions.size))
    return Anchors(hashes[positions[first_windows]], starts[first_windows], counts)


def _smallest_of(keys: U64, count: int) -> U64:
    """Return the smallest of each `count` successive keys, by the first."""
    smallest, width = keys, 1
    while width < count:
        step = min(width, count - width)
        smallest, width = np.minimum(smallest[:-step], smallest[step:]), width + step
    return smallest
