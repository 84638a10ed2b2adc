"""Splits texts into hashed tokens: words, characters, or Chinese words by jieba.

Words follow the classes in `characters.py`. A token's hash is XXH3-64 of its UTF-8 bytes. A run of
one symbol is a word, of which the first three characters are hashed: "C+" differs from "C++", but a
ruler of 60 equals signs does not differ from one of 70. A hyphen before a digit is a symbol, unless
a word, a symbol or a hyphen is before it: it is the sign of the number. `tokenise` hashes the
tokens of many texts at once. `place` also returns their positions in a text.
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

from esdedup.text.arrays import I64, U32, U64, Mask, Ragged, Unsigned, offsets_of, run_starts
from esdedup.text.characters import (
    IGNORED,
    MARK,
    OTHER,
    SINGLE,
    SYMBOL,
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
_LONGEST_RUN = 3
"""Characters of a run of one symbol that are hashed."""
_HYPHEN, _ZERO = b"-0"
_OWN = 0x80
"""Added to the byte of a hyphen or an ASCII symbol, its own class: two that touch are two words."""


def tokenise(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    """Split normalised texts into hashed tokens, without stop words: one row a text."""
    tokens = _split(texts, shingling, seed)
    if not shingling.stop_words:
        return tokens
    return tokens.only(~np.isin(tokens.hashes, xxh3(shingling.stop_words, seed)))


def place(text: str, shingling: Shingling, seed: int) -> tuple[U64, I64, I64]:
    """Return the hashed tokens of `tokenise` for one text, their starts and their ends in it.

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


def _joined(texts: Sequence[str]) -> tuple[str, I64]:
    """Join texts, a line feed before and after each; return their begins too: (texts + 1,)."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return "\n" + "\n".join(texts) + "\n", offsets_of(lengths + 1) + 1


def _words(texts: Sequence[str], seed: int) -> Ragged:
    """Words by their bytes in UTF-8, or by code points if most are single characters."""
    if not all(map(str.isascii, texts)) and _mostly_single(texts):
        points, bounds = _drop_ignored(*_joined(texts))
        starts, ends, symbols = _word_spans(points)
        ends[symbols] = np.minimum(ends[symbols], starts[symbols] + _LONGEST_RUN)
        return Ragged(
            _hash_short_spans(points, starts, ends, seed), np.searchsorted(starts, bounds)
        )
    data, others, bounds = _without_ignored(*_encoded(texts))
    starts, ends, symbols = _byte_spans(data, others)
    if symbols.size:
        first = np.frombuffer(data, np.uint8)[starts[symbols]]
        sizes = 1 + sum((first >= more).astype(np.int64) for more in (0xC0, 0xE0, 0xF0))
        ends[symbols] = np.minimum(ends[symbols], starts[symbols] + _LONGEST_RUN * sizes)
    hashes = xxh3_slices(data + bytes(PADDING), starts, ends - starts, seed)
    return Ragged(hashes, np.searchsorted(starts, bounds))


def _mostly_single(texts: Sequence[str]) -> bool:
    """Guess by a few characters. Both ways give the same words; code points suit Chinese."""
    some = code_points("".join([text[:32] for text in texts[:: 1 + len(texts) // 32]]))
    return bool(3 * np.count_nonzero(character_classes().take(some) == SINGLE) > some.size)


def _word_spans(points: U32) -> tuple[I64, I64, I64]:
    """Return start and ends of words, in characters, and which of the words are of symbols.

    The text begins and ends outside a word.
    """
    classes = character_classes().take(points)
    hyphens = np.flatnonzero(points == _HYPHEN)
    classes[hyphens[_are_signs(hyphens, points, classes)]] = SYMBOL
    base = None
    marks = np.flatnonzero(classes == MARK)
    if marks.size:
        # A mark belongs to the character before it, but is dropped behind a symbol.
        bases = np.arange(classes.size)
        bases[marks] = 0
        behind = classes[np.maximum.accumulate(bases)[marks]]
        classes[marks[behind == SYMBOL]] = OTHER
        base = np.flatnonzero(classes != MARK)
        classes, points = classes[base], points[base]
    before, after = classes[:-1], classes[1:]
    edges = (after != before) | (after == SINGLE)
    edges |= (after == SYMBOL) & (points[1:] != points[:-1])
    # Two searches: splitting one list of all edges takes several times as long.
    starts = np.flatnonzero(edges & (after != OTHER)) + 1
    ends = np.flatnonzero(edges & (before != OTHER)) + 1
    symbols = np.flatnonzero(classes[starts] == SYMBOL)
    return (starts, ends, symbols) if base is None else (base[starts], base[ends], symbols)


def _drop_ignored(text: str, bounds: I64) -> tuple[U32, I64]:
    """Return the code points without IGNORED characters, and the bounds of rows among them."""
    points = code_points(text)
    keep = character_classes().take(points) != IGNORED
    if keep.all():
        return points, bounds
    return points[keep], offsets_of(keep)[bounds]


def _hash_spans(points: U32, starts: I64, ends: I64, seed: int) -> U64:
    """Return the hash of each span of characters: shape (spans,)."""
    data = points.tobytes().decode("utf-32-le", "surrogatepass").encode("utf-8", "surrogatepass")
    if len(data) != len(points):
        # Every byte but a continuation byte (10xxxxxx) begins a character.
        begins = np.flatnonzero((np.frombuffer(data, np.uint8) & 0xC0) != 0x80)
        begins = np.append(begins, len(data))
        starts, ends = begins[starts], begins[ends]
    return xxh3_slices(data + bytes(PADDING), starts, ends - starts, seed)


def _hash_short_spans(points: U32, starts: I64, ends: I64, seed: int) -> U64:
    """Do as `_hash_spans`, faster if many spans are one character long, as in Chinese."""
    first = points.take(starts)
    tabled = (ends - starts == 1) & (first < _TABLED)
    hashes = _character_hashes(seed).take(first, mode="clip")
    rest = np.flatnonzero(~tabled)
    if rest.size:
        starts, ends = starts[rest], ends[rest]
        if 2 * (ends - starts).sum() < points.size:
            # Only the characters inside spans are encoded.
            steps = np.zeros(points.size + 1, np.int8)
            steps[starts] = 1
            steps[ends] -= 1
            points = points[np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)]
            lengths = ends - starts
            ends = np.cumsum(lengths)
            starts = ends - lengths
        hashes[rest] = _hash_spans(points, starts, ends, seed)
    return hashes


@functools.lru_cache(maxsize=2)
def _character_hashes(seed: int) -> U64:
    """XXH3-64 of the UTF-8 bytes of every character of the basic plane: shape (65536,)."""
    positions = np.arange(_TABLED)
    hashes = _hash_spans(positions.astype(np.uint32), positions, positions + 1, seed)
    hashes.setflags(write=False)
    return hashes


def _encoded(texts: Sequence[str]) -> tuple[bytes, I64]:
    """UTF-8 of all texts, a line feed before and after each; where each begins: (texts + 1,)."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return b"\n" + b"\n".join(encoded) + b"\n", offsets_of(lengths + 1) + 1


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
        if data.isascii():
            return _NONE
        points = code_points(data.translate(None, _ASCII).decode("utf-8", "surrogatepass"))
        # A byte from 0xC0 begins a character of several bytes.
        starts = np.flatnonzero(np.frombuffer(data, np.uint8) >= 0xC0)
        return _Others(points, character_classes().take(points), starts)

    def only(self, chosen: Mask | I64) -> _Others:
        """Some of the characters."""
        return _Others(self.points[chosen], self.classes[chosen], self.starts[chosen])

    @property
    def sizes(self) -> I64:
        """Bytes a character, 2 to 4."""
        return utf8_lengths(self.points)

    def write(self, values: Unsigned | np.uint8 | bool, target: NDArray[Any]) -> None:
        """Write a value to all bytes of each character. values: one, or shape (characters,)."""
        each = np.broadcast_to(values, self.points.shape)
        sizes = self.sizes
        for byte in range(4):
            there = sizes > byte
            target[self.starts[there] + byte] = each[there]


_NONE = _Others(np.empty(0, np.uint32), np.empty(0, np.uint8), np.empty(0, np.int64))


def _without_ignored(data: bytes, bounds: I64) -> tuple[bytes, _Others, I64]:
    """Return UTF-8 without IGNORED characters, those beyond ASCII, and the bounds of rows in it."""
    others = _Others.of(data)
    ignored = others.classes == IGNORED
    if not ignored.any():
        return data, others, bounds
    keep = np.ones(len(data), np.bool_)
    others.only(ignored).write(False, keep)
    data = np.frombuffer(data, np.uint8)[keep].tobytes()
    return data, _Others.of(data), offsets_of(keep)[bounds]


def _byte_spans(data: bytes, others: _Others) -> tuple[I64, I64, I64]:
    """Return start and ends of words, in bytes, and which of the words are of symbols.

    The text begins and ends outside a word.
    """
    # bytes.translate looks bytes up faster than numpy does. Few characters differ from the most.
    common = max(range(MARK), key=lambda kind: np.count_nonzero(others.classes == kind))
    classes = np.frombuffer(bytearray(data.translate(_byte_classes(common))), np.uint8)
    rare = others.only(np.flatnonzero(others.classes != common))
    # Two symbols that touch have two classes, SYMBOL and the next number, unless they are equal.
    kinds = rare.classes.copy()
    symbols = np.flatnonzero(kinds == SYMBOL)
    kinds[symbols] += (np.cumsum(run_starts(rare.points[symbols])) & 1).astype(np.uint8)
    rare.write(kinds, classes)
    written, marks = classes, rare.only(rare.classes == MARK)
    if marks.points.size:
        classes = written.copy()
        # A mark belongs to the character before it, so all marks of a run have the class of that.
        first = np.ones(marks.starts.size, np.bool_)
        first[1:] = marks.starts[1:] != marks.starts[:-1] + marks.sizes[:-1]
        bases = classes[marks.starts[first] - 1]
        bases[bases >= SYMBOL] = OTHER
        marks.write(bases[np.cumsum(first) - 1], classes)
    differing = classes[1:] != classes[:-1]
    differing[others.starts[others.classes == SINGLE] - 1] = True
    edges = np.flatnonzero(differing) + 1
    runs = classes.take(edges)
    hyphens = np.flatnonzero(runs == _OWN | _HYPHEN)
    signs = _are_signs(edges[hyphens], np.frombuffer(data, np.uint8), written)
    runs[hyphens[~signs]] = OTHER
    words = np.flatnonzero(runs != OTHER)
    symbols = np.flatnonzero(runs.take(words) >= SYMBOL)
    return edges.take(words), edges.take(words + 1), symbols


def _are_signs(hyphens: I64, values: NDArray[Any], classes: NDArray[np.uint8]) -> Mask:
    """Mark the hyphens that are signs of numbers: shape (hyphens,).

    hyphens: places in `values`, bytes of UTF-8 or code points, of which `classes` are the classes.
    """
    before, after = hyphens - 1, values[hyphens + 1]
    signs: Mask = (classes[before] == OTHER) & (values[before] != _HYPHEN)
    return signs & (after - _ZERO < 10)


@functools.cache
def _byte_classes(beyond: int) -> bytes:
    """Return the class of each byte value: of its ASCII character, or `beyond`."""
    kinds = character_classes()[:128].tolist()
    for byte, kind in enumerate(kinds):
        if kind == SYMBOL or byte == _HYPHEN:
            kinds[byte] = _OWN | byte
    return bytes(kinds) + bytes([beyond]) * 128


def _characters(texts: Sequence[str], seed: int) -> Ragged:
    collapsed = [" ".join(text.split()) for text in texts]
    lengths = np.fromiter(map(len, collapsed), np.int64, len(collapsed))
    points, bounds = _drop_ignored("".join(collapsed), offsets_of(lengths))
    starts = np.arange(points.size)
    return Ragged(_hash_short_spans(points, starts, starts + 1, seed), bounds)


def _jieba_words(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    rows = [list(filter(_has_word, pieces)) for pieces in cut(texts, shingling.segmenter)]
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    return Ragged(xxh3((word for row in rows for word in row), seed), offsets_of(counts))


def _has_word(piece: str) -> bool:
    return bool((character_classes()[code_points(piece)] != OTHER).any())


def _word_places(text: str, _: Shingling) -> tuple[I64, I64]:
    joined, bounds = _joined([text])
    points = _drop_ignored(joined, bounds)[0]
    starts, ends = _word_spans(points)[:2]
    kept = np.flatnonzero(character_classes().take(code_points(joined)) != IGNORED)
    # The joined text has one line feed more at its start.
    return kept[starts] - 1, kept[ends - 1]


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
