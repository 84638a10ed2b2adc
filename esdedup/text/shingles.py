"""Makes shingles of tokens; MinHash, SimHash and exact comparison all use them.

`words.py` splits a text into hashed tokens. A shingle is the hash of n consecutive tokens
t0 .. t(n-1):

    avalanche((((t0 * P + t1) * P + t2) * P + ...)  mod 2**64),   P = XXH64's first prime

Broder, "On the resemblance and containment of documents", 1997, section 2.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from esdedup.arguments import check_fields
from esdedup.exceptions import UsageError
from esdedup.text.arrays import U64, Ragged, offsets_of, run_starts
from esdedup.text.characters import VERSION
from esdedup.text.hashing import PRIME64_1, avalanche
from esdedup.text.jieba import installed_version

Unit = Literal["word", "char", "jieba"]


@dataclass(frozen=True)
class Shingling:
    """How a normalised text becomes shingles.

    unit: "word" (runs of word characters; a character of a script without spaces, such as Han, is a
        word by itself), "char" (characters, white space collapsed) or "jieba" (Chinese words).
    size: tokens per shingle.
    stop_words: tokens left out before shingles are formed, normalised as the text is.
    segmenter: with "jieba", the package version whose dictionary splits the words; "" takes the
        installed one.
    punctuation: every punctuation mark is a word, for code and formulas. By default marks only
        separate words. Characters as tokens contain punctuation in any case.
    version: of the scheme, which sets it.
    Raises UsageError for values out of range, MissingExtra if jieba is needed and not installed.
    """

    unit: Unit = "word"
    size: int = 3
    stop_words: tuple[str, ...] = ()
    segmenter: str = ""
    punctuation: bool = False
    version: int = field(default=VERSION, kw_only=True, metadata={"of_scheme": True})

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.size <= 64:
            raise UsageError(f"shingle size {self.size}: use 1 to 64")
        if self.punctuation and self.version < 4:
            raise UsageError("punctuation as words needs a scheme of version 4")
        object.__setattr__(self, "stop_words", tuple(sorted(set(self.stop_words))))
        if self.unit == "jieba" and not self.segmenter:
            object.__setattr__(self, "segmenter", installed_version())

    def __str__(self) -> str:
        return f"{self.unit}:{self.size}"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object of the parameters, without the version."""
        document: dict[str, object] = {"unit": self.unit, "size": self.size}
        document |= {"stop_words": [*self.stop_words], "segmenter": self.segmenter}
        # A parameter that is off is left out, so that it does not change the ids of schemes.
        return document | ({"punctuation": True} if self.punctuation else {})


def shingle(tokens: Ragged, size: int) -> Ragged:
    """Make the shingles of `size` consecutive tokens, in order, repetitions kept.

    A row shorter than `size` gives one shingle of all its tokens. An empty row gives none.
    """
    hashes = tokens.hashes
    windows = max(hashes.size - size + 1, 0)
    folded = hashes.copy()
    _fold(folded[:windows], [hashes[i : i + windows] for i in range(1, size)])
    if len(tokens) == 1 and windows:
        # For one text the calls of numpy cost more than the work.
        return Ragged(avalanche(folded[:windows]), np.array([0, windows]))
    counts, starts, ends = tokens.counts, tokens.offsets[:-1], tokens.offsets[1:]
    keep = np.ones(hashes.size, np.bool_)
    for back in range(1, size):
        keep[(ends - back)[counts >= back]] = False
    for short in range(1, size):
        first = starts[counts == short]
        if first.size:
            folded[first] = _fold(hashes[first], [hashes[first + i] for i in range(1, short)])
            keep[first] = True
    shingles = avalanche(folded[keep] if size > 1 else folded)
    return Ragged(shingles, offsets_of(np.maximum(counts - size + 1, np.minimum(counts, 1))))


def distinct(shingles: Ragged) -> Ragged:
    """Sort each row and remove repetitions: the sets that Jaccard similarity compares."""
    if not shingles.hashes.size:
        return shingles
    if len(shingles) == 1:
        hashes = np.sort(shingles.hashes)
        hashes = hashes[run_starts(hashes)]
        return Ragged(hashes, np.array([0, hashes.size]))
    rows = Ragged(shingles.hashes.copy(), shingles.offsets)
    # Row by row: sorting all at once, by row and hash, takes eight times as long.
    for row in rows:
        row.sort()
    keep = run_starts(rows.hashes)
    keep[rows.offsets[:-1][rows.counts > 0]] = True
    return rows.only(keep)


def _fold(folded: U64, tokens: list[U64]) -> U64:
    """Fold further tokens into the first ones, in place."""
    for token in tokens:
        folded *= PRIME64_1
        folded += token
    return folded
