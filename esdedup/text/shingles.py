"""From texts to shingles: the one way that MinHash, SimHash and verification all use.

A text is split into hashed tokens (`splitting.py`), and a shingle is the hash of n consecutive
tokens t0 .. t(n-1):

    avalanche((((t0 * P + t1) * P + t2) * P + ...)  mod 2**64),   P = XXH64's first prime

Shingling as resemblance of documents: Broder, "On the resemblance and containment of documents",
1997, section 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import UsageError
from esdedup.text.hashing import PRIME64_1, U64, avalanche
from esdedup.text.jieba import installed_version

Unit = Literal["word", "char", "jieba"]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Shingling:
    """How a normalised text becomes shingles.

    unit: "word" (runs of word characters; a Han, Hiragana or Katakana character is a word by
        itself), "char" (characters, white space collapsed) or "jieba" (Chinese words).
    size: tokens a shingle.
    stop_words: tokens left out before shingles are formed, normalised as the text is.
    segmenter: with "jieba", the package version whose dictionary split the words; "" takes the
        one that is installed.

    Raises UsageError for values out of range, MissingExtra where jieba is not installed.
    """

    unit: Unit = "word"
    size: int = 3
    stop_words: tuple[str, ...] = ()
    segmenter: str = ""

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            raise UsageError(f"shingle unit {self.unit!r}: use word, char or jieba")
        if not 1 <= self.size <= 64:
            raise UsageError(f"shingle size {self.size}: use 1 to 64")
        object.__setattr__(self, "stop_words", tuple(sorted(set(self.stop_words))))
        if self.unit == "jieba" and not self.segmenter:
            object.__setattr__(self, "segmenter", installed_version())

    def __str__(self) -> str:
        return f"{self.unit}:{self.size}"


@dataclass(frozen=True)
class Ragged:
    """Rows of 64-bit hashes of unequal length, one row a text.

    hashes: shape (total,). offsets: shape (rows + 1,); row i is
    hashes[offsets[i]:offsets[i + 1]].
    """

    hashes: U64
    offsets: I64

    @property
    def counts(self) -> I64:
        """Hashes a row: shape (rows,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> U64:
        return self.hashes[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[U64]:
        bounds = self.offsets.tolist()
        return (self.hashes[start:end] for start, end in itertools.pairwise(bounds))


def offsets_of(counts: I64) -> I64:
    """Row offsets, shape (rows + 1,), from row lengths, shape (rows,)."""
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def shingle(tokens: Ragged, size: int) -> Ragged:
    """The shingles of `size` consecutive tokens, in order, repetitions kept.

    A row shorter than `size` gives one shingle of all it has; an empty row gives none.
    """
    counts, starts, ends = tokens.counts, tokens.offsets[:-1], tokens.offsets[1:]
    total = tokens.hashes.size
    folded = np.zeros(total, np.uint64)
    windows = max(total - size + 1, 0)
    folded[:windows] = _fold([tokens.hashes[i : i + windows] for i in range(size)])
    keep = np.ones(total, np.bool_)
    for back in range(1, size):
        keep[(ends - back)[counts >= back]] = False
    for short in range(1, size):
        first = starts[counts == short]
        if first.size:
            folded[first] = _fold([tokens.hashes[first + i] for i in range(short)])
            keep[first] = True
    hashes = avalanche(folded[keep] if size > 1 else folded)
    return Ragged(hashes, offsets_of(np.maximum(counts - size + 1, np.minimum(counts, 1))))


def distinct(shingles: Ragged) -> Ragged:
    """Each row sorted, repetitions removed: the shingle sets that Jaccard similarity compares."""
    if not shingles.hashes.size:
        return shingles
    hashes, offsets = shingles.hashes.copy(), shingles.offsets
    # Row by row: to sort all at once, by row and hash, takes eight times as long.
    for start, end in itertools.pairwise(offsets.tolist()):
        hashes[start:end].sort()
    fresh = np.ones(hashes.size, np.bool_)
    fresh[1:] = hashes[1:] != hashes[:-1]
    fresh[offsets[:-1][shingles.counts > 0]] = True
    before = np.concatenate([[0], np.cumsum(fresh)])
    return Ragged(hashes[fresh], before[offsets])


def _fold(columns: list[U64]) -> U64:
    folded = columns[0].copy()
    for column in columns[1:]:
        folded *= PRIME64_1
        folded += column
    return folded
