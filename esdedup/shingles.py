"""From texts to shingles: the one way that MinHash, SimHash and verification all use.

A text is split into tokens (words or characters), each token is hashed with XXH3-64 of its
UTF-8 bytes, and a shingle is the hash of n consecutive tokens t0 .. t(n-1):

    avalanche((((t0 * P + t1) * P + t2) * P + ...)  mod 2**64),   P = XXH64's first prime

Shingling as resemblance of documents: Broder, "On the resemblance and containment of documents",
1997, section 2. Words follow the classes in `characters.py`.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from esdedup.characters import (
    IGNORED,
    MARK,
    OTHER,
    SINGLE,
    character_classes,
    code_points,
)
from esdedup.exceptions import MissingExtra, UsageError
from esdedup.hashing import PADDING, PRIME64_1, U64, avalanche, xxh3, xxh3_slices

Unit = Literal["word", "char", "jieba"]
U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]

_TABLED = 0x10000
"""Characters below this one have their hashes in a table; Han characters are nearly all there."""


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
            object.__setattr__(self, "segmenter", _jieba().__version__)

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


def tokenise(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    """The hashed tokens of normalised texts, stop words removed."""
    if shingling.unit == "word":
        tokens = _words(texts, seed)
    elif shingling.unit == "char":
        tokens = _characters(texts, seed)
    else:
        tokens = _jieba_words(texts, shingling, seed)
    return _without(tokens, xxh3(shingling.stop_words, seed)) if shingling.stop_words else tokens


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
    rows = np.repeat(np.arange(len(shingles)), shingles.counts)
    order = np.lexsort((shingles.hashes, rows))
    hashes = shingles.hashes[order]
    fresh = np.ones(hashes.size, np.bool_)
    fresh[1:] = (hashes[1:] != hashes[:-1]) | (rows[1:] != rows[:-1])
    return Ragged(hashes[fresh], offsets_of(np.bincount(rows[fresh], minlength=len(shingles))))


def _fold(columns: list[U64]) -> U64:
    folded = columns[0].copy()
    for column in columns[1:]:
        folded *= PRIME64_1
        folded += column
    return folded


def _without(tokens: Ragged, stop: U64) -> Ragged:
    keep = ~np.isin(tokens.hashes, stop)
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    return Ragged(tokens.hashes[keep], kept_before[tokens.offsets])


def _joined(texts: Sequence[str]) -> tuple[str, I64]:
    """All texts behind a line feed each, and where each begins, shape (texts + 1,)."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return "\n" + "\n".join(texts) + "\n", offsets_of(lengths + 1) + 1


def _words(texts: Sequence[str], seed: int) -> Ragged:
    joined, bounds = _joined(texts)
    if joined.isascii():
        starts, ends = _ascii_word_spans(joined)
        hashes = _hash_spans(joined, starts, ends, seed)
    else:
        joined, points, bounds = _drop_ignored(joined, bounds)
        starts, ends = _word_spans(points)
        hashes = _hash_short_spans(joined, points, starts, ends, seed)
    return Ragged(hashes, np.searchsorted(starts, bounds))


def _ascii_word_spans(text: str) -> tuple[I64, I64]:
    # bytes.translate looks bytes up faster than numpy does.
    inside = np.frombuffer(text.encode().translate(_ascii_inside_word()), np.bool_)
    # The text begins and ends outside a word, so that starts and ends alternate.
    edges = np.flatnonzero(inside[1:] ^ inside[:-1]) + 1
    return edges[0::2], edges[1::2]


@functools.cache
def _ascii_inside_word() -> bytes:
    """For each byte of ASCII, 1 where it is part of a word, else 0; 0 for all other bytes."""
    word: NDArray[np.bool_] = character_classes()[:128] != OTHER
    return word.tobytes() + bytes(128)


def _word_spans(points: U32) -> tuple[I64, I64]:
    """Where words start and end, in characters, in a text that begins and ends outside a word."""
    classes = character_classes().take(points)
    base = np.flatnonzero(classes != MARK)  # A mark belongs to the character before it.
    kept = classes[base]
    edges = np.flatnonzero((kept[1:] != kept[:-1]) | (kept[1:] == SINGLE)) + 1
    opens = np.flatnonzero(kept[edges] != OTHER)
    return base[edges[opens]], base[edges[opens + 1]]


def _drop_ignored(text: str, bounds: I64) -> tuple[str, U32, I64]:
    """The text without IGNORED characters, its code points, and where its rows begin then."""
    points = code_points(text)
    keep = character_classes().take(points) != IGNORED
    if keep.all():
        return text, points, bounds
    kept = points[keep]
    bounds = offsets_of(keep.astype(np.int64))[bounds]
    return kept.tobytes().decode("utf-32-le", "surrogatepass"), kept, bounds


def _hash_spans(text: str, starts: I64, ends: I64, seed: int) -> U64:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) != len(text):
        # Every byte but a continuation byte (10xxxxxx) begins a character.
        begins = np.flatnonzero((np.frombuffer(data, np.uint8) & 0xC0) != 0x80)
        begins = np.append(begins, len(data))
        starts, ends = begins[starts], begins[ends]
    return xxh3_slices(data + bytes(PADDING), starts, ends - starts, seed)


def _hash_short_spans(text: str, points: U32, starts: I64, ends: I64, seed: int) -> U64:
    """The same, quicker where many spans are one character long, as in Chinese."""
    first = points.take(starts)
    tabled = (ends - starts == 1) & (first < _TABLED)
    hashes = _character_hashes(seed).take(first, mode="clip")
    rest = np.flatnonzero(~tabled)
    if rest.size:
        hashes[rest] = _hash_spans(text, starts[rest], ends[rest], seed)
    return hashes


@functools.lru_cache(maxsize=2)
def _character_hashes(seed: int) -> U64:
    """XXH3-64 of the UTF-8 bytes of every character of the basic plane: shape (65536,)."""
    everything = "".join(map(chr, range(_TABLED)))
    positions = np.arange(_TABLED)
    hashes = _hash_spans(everything, positions, positions + 1, seed)
    hashes.setflags(write=False)
    return hashes


def _characters(texts: Sequence[str], seed: int) -> Ragged:
    collapsed = [" ".join(text.split()) for text in texts]
    lengths = np.fromiter(map(len, collapsed), np.int64, len(collapsed))
    joined, points, bounds = _drop_ignored("".join(collapsed), offsets_of(lengths))
    starts = np.arange(points.size)
    return Ragged(_hash_short_spans(joined, points, starts, starts + 1, seed), bounds)


def _jieba_words(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    installed = _jieba().__version__
    if installed != shingling.segmenter:
        raise UsageError(
            f"the scheme's words were split by jieba {shingling.segmenter}, but jieba {installed}"
            f" is installed: pip install 'jieba=={shingling.segmenter}'"
        )
    table = character_classes()
    cut = _segmenter().cut
    rows = [
        [word for word in cut(text) if (table[code_points(word)] != OTHER).any()] for text in texts
    ]
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    return Ragged(xxh3((word for row in rows for word in row), seed), offsets_of(counts))


def _jieba() -> Any:
    try:
        import jieba
    except ImportError as error:
        raise MissingExtra(
            "Chinese word segmentation needs jieba: pip install 'esdedup[jieba]'"
        ) from error
    return jieba


@functools.cache
def _segmenter() -> Any:
    """A segmenter of our own: jieba's global one may have had words added to it."""
    # It reports the loading of its dictionary on standard error.
    logging.getLogger("jieba").setLevel(logging.WARNING)
    segmenter = _jieba().Tokenizer()
    segmenter.initialize()
    return segmenter
