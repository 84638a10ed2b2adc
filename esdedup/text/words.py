"""Splits texts into hashed tokens: words, characters, or Chinese words by jieba.

Words follow the classes in `characters.py`. A token's hash is XXH3-64 of its UTF-8 bytes.
`tokenise` hashes the tokens of many texts at once. `place` also returns their positions in a text.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import I64, U32, U64, Mask, Ragged, Unsigned, offsets_of
from esdedup.text.characters import (
    IGNORED,
    MARK,
    OTHER,
    SINGLE,
    character_classes,
    code_points,
    utf8_lengths,
)
from esdedup.text.hashing import PADDING, xxh3, xxh3_slices
from esdedup.text.jieba import cut
from esdedup.text.shingles import Shingling

_TABLED = 0x10000
"""The hashes of characters below this one are in a table, nearly all Han characters among them."""
_ASCII = bytes(range(128))
_NOWHERE = np.empty(0, np.int64)


def tokenise(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    """Splits normalised texts into hashed tokens, without stop words: one row a text."""
    tokens = _split(texts, shingling, seed)
    if not shingling.stop_words:
        return tokens
    return tokens.only(~np.isin(tokens.hashes, xxh3(shingling.stop_words, seed)))


def place(text: str, shingling: Shingling, seed: int) -> tuple[U64, I64, I64]:
    """The hashed tokens that `tokenise` returns for one text, their starts and their ends in it.

    Each of shape (tokens,). Token i is text[starts[i]:ends[i]], which may also hold ignored
    characters, or several spaces for one.
    """
    hashes = _split([text], shingling, seed).hashes
    places = {"word": _word_places, "char": _character_places, "jieba": _jieba_places}
    starts, ends = places[shingling.unit](text, shingling)
    keep = ~np.isin(hashes, xxh3(shingling.stop_words, seed))
    return hashes[keep], starts[keep], ends[keep]


def _split(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    if shingling.unit == "word":
        return _words(texts, seed)
    if shingling.unit == "char":
        return _characters(texts, seed)
    return _jieba_words(texts, shingling, seed)


def _joined(texts: Sequence[str]) -> tuple[bytes, I64]:
    """UTF-8 of all texts, a line feed before and after each; where each begins: (texts + 1,)."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return b"\n" + b"\n".join(encoded) + b"\n", offsets_of(lengths + 1) + 1


def _words(texts: Sequence[str], seed: int) -> Ragged:
    data, others, bounds = _without_ignored(*_joined(texts))
    starts, ends = _word_spans(data, others)
    return Ragged(_hash_words(data, others, starts, ends, seed), np.searchsorted(starts, bounds))


@dataclass(frozen=True)
class _Others:
    """The characters of a text beyond ASCII, in order; all arrays have shape (characters,).

    points: code points. classes: of `characters.py`. starts: their first bytes in UTF-8.
    """

    points: U32
    classes: NDArray[np.uint8]
    starts: I64

    @staticmethod
    def of(data: bytes) -> _Others:
        """data: UTF-8."""
        others = data.translate(None, _ASCII) if not data.isascii() else b""
        points = code_points(others.decode("utf-8", "surrogatepass"))
        # A byte from 0xC0 begins a character of several bytes.
        starts = np.flatnonzero(np.frombuffer(data, np.uint8) >= 0xC0) if others else _NOWHERE
        return _Others(points, character_classes().take(points), starts)

    def only(self, chosen: Mask | I64) -> _Others:
        """Some of the characters."""
        return _Others(self.points[chosen], self.classes[chosen], self.starts[chosen])

    @property
    def sizes(self) -> I64:
        """Bytes a character, 2 to 4."""
        return utf8_lengths(self.points)

    def write(self, values: Unsigned | np.uint8 | bool, target: NDArray[Any]) -> None:
        """Writes a value to all bytes of each character. values: one, or shape (characters,)."""
        each = np.broadcast_to(values, self.points.shape)
        sizes = self.sizes
        for byte in range(4):
            there = sizes > byte
            target[self.starts[there] + byte] = each[there]


def _without_ignored(data: bytes, bounds: I64) -> tuple[bytes, _Others, I64]:
    """UTF-8 without IGNORED characters, those beyond ASCII, and the bounds in what is left."""
    others = _Others.of(data)
    ignored = others.classes == IGNORED
    if not ignored.any():
        return data, others, bounds
    keep = np.ones(len(data), np.bool_)
    others.only(ignored).write(False, keep)
    data = np.frombuffer(data, np.uint8)[keep].tobytes()
    return data, _Others.of(data), offsets_of(keep)[bounds]


def _word_spans(data: bytes, others: _Others) -> tuple[I64, I64]:
    """Starts and ends of words, in bytes. The text begins and ends outside a word."""
    if not others.points.size:
        return _alternating(np.frombuffer(data.translate(_byte_classes(OTHER)), np.uint8))
    # bytes.translate looks bytes up faster than numpy does. Few characters differ from the most.
    common = max(range(MARK), key=lambda kind: np.count_nonzero(others.classes == kind))
    classes = np.frombuffer(data.translate(_byte_classes(common)), np.uint8).copy()
    rare = others.only(np.flatnonzero(others.classes != common))
    rare.write(rare.classes, classes)
    marks = rare.only(rare.classes == MARK)
    if marks.points.size:
        # A mark belongs to the character before it, so all marks of a run have the class of that.
        first = np.ones(marks.starts.size, np.bool_)
        first[1:] = marks.starts[1:] != marks.starts[:-1] + marks.sizes[:-1]
        bases = classes[marks.starts[first] - 1]
        marks.write(bases[np.cumsum(first) - 1], classes)
    singles = others.starts[others.classes == SINGLE]
    if not singles.size:
        return _alternating(classes)
    before, after = classes[:-1], classes[1:]
    edges = after != before
    edges[singles - 1] = True
    # Two searches: splitting one list of all edges takes several times as long.
    starts = np.flatnonzero(edges & (after != OTHER)) + 1
    return starts, np.flatnonzero(edges & (before != OTHER)) + 1


def _alternating(inside: NDArray[np.uint8]) -> tuple[I64, I64]:
    """Starts and ends of words if words touch no other words. inside: not 0 inside a word."""
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    return edges[0::2], edges[1::2]


@functools.cache
def _byte_classes(beyond: int) -> bytes:
    """The class of each byte value: of its ASCII character, or `beyond`."""
    return character_classes()[:128].tobytes() + bytes([beyond]) * 128


def _hash_words(data: bytes, others: _Others, starts: I64, ends: I64, seed: int) -> U64:
    """The hash of each word: shape (words,)."""
    lengths = ends - starts
    data += bytes(PADDING)
    single = np.flatnonzero(others.classes == SINGLE)
    if not single.size:
        return xxh3_slices(data, starts, lengths, seed)
    # Each of these characters begins a word. A word of three bytes is that character alone.
    begins = np.zeros(len(data), np.bool_)
    begins[others.starts.take(single)] = True
    words = np.flatnonzero(begins.take(starts))
    alone = lengths.take(words) == 3
    words = words[alone]
    hashes = np.empty(starts.size, np.uint64)
    hashes[words] = _character_hashes(seed).take(others.points.take(single[alone]))
    remaining = np.ones(starts.size, np.bool_)
    remaining[words] = False
    rest = np.flatnonzero(remaining)
    hashes[rest] = xxh3_slices(data, starts.take(rest), lengths.take(rest), seed)
    return hashes


def _hash_characters(points: U32, seed: int) -> U64:
    """The hash of each character by itself: shape (characters,)."""
    data = points.tobytes().decode("utf-32-le", "surrogatepass").encode("utf-8", "surrogatepass")
    lengths = utf8_lengths(points)
    return xxh3_slices(data + bytes(PADDING), offsets_of(lengths)[:-1], lengths, seed)


@functools.lru_cache(maxsize=2)
def _character_hashes(seed: int) -> U64:
    """The hashes of all characters of the basic plane: shape (65536,)."""
    hashes = _hash_characters(np.arange(_TABLED, dtype=np.uint32), seed)
    hashes.setflags(write=False)
    return hashes


def _characters(texts: Sequence[str], seed: int) -> Ragged:
    collapsed = [" ".join(text.split()) for text in texts]
    points = code_points("".join(collapsed))
    bounds = offsets_of(np.fromiter(map(len, collapsed), np.int64, len(collapsed)))
    keep = character_classes().take(points) != IGNORED
    if not keep.all():
        points, bounds = points[keep], offsets_of(keep)[bounds]
    hashes = _character_hashes(seed).take(points, mode="clip")
    rest = np.flatnonzero(points >= _TABLED)
    hashes[rest] = _hash_characters(points[rest], seed)
    return Ragged(hashes, bounds)


def _jieba_words(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    rows = [list(filter(_has_word, pieces)) for pieces in cut(texts, shingling.segmenter)]
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    return Ragged(xxh3((word for row in rows for word in row), seed), offsets_of(counts))


def _has_word(piece: str) -> bool:
    return bool((character_classes()[code_points(piece)] != OTHER).any())


def _word_places(text: str, _: Shingling) -> tuple[I64, I64]:
    data, others, _bounds = _without_ignored(*_joined([text]))
    starts, ends = _word_spans(data, others)
    # Every byte but a continuation byte (10xxxxxx) begins a character.
    character = np.cumsum((np.frombuffer(data, np.uint8) & 0xC0) != 0x80) - 1
    kept = np.flatnonzero(character_classes().take(code_points(f"\n{text}\n")) != IGNORED)
    # The joined text has one line feed more at its start.
    return kept[character[starts]] - 1, kept[character[ends - 1]]


def _character_places(text: str, _: Shingling) -> tuple[I64, I64]:
    # A character, or the white space between two.
    places = re.finditer(r"\S|(?<=\S)\s+(?=\S)", text)
    starts, ends = _columns([found.span() for found in places])
    kept = character_classes().take(code_points(text)[starts]) != IGNORED
    return starts[kept], ends[kept]


def _jieba_places(text: str, shingling: Shingling) -> tuple[I64, I64]:
    (pieces,) = cut([text], shingling.segmenter)
    edges = itertools.pairwise(itertools.accumulate(map(len, pieces), initial=0))
    return _columns([span for span, piece in zip(edges, pieces, strict=True) if _has_word(piece)])


def _columns(places: list[tuple[int, int]]) -> tuple[I64, I64]:
    table = np.array(places, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
