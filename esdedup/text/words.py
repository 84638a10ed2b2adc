"""Splits texts into hashed tokens: words, characters, or Chinese words by jieba.

Words follow the classes in `characters.py`. A token's hash is XXH3-64 of its UTF-8 bytes. A run of
one symbol is a word, of which the first three characters are hashed: "C+" differs from "C++", but a
ruler of 60 equals signs does not differ from one of 70. A hyphen before a digit is a symbol, unless
a word, a symbol or a hyphen is before it: it is the sign of the number. From version 4 of schemes
on, a minus (U+2212) or an en dash (U+2013) in its place is the same sign. `tokenise` hashes the
tokens of many texts at once. `place` also returns their positions in a text.
"""

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import I64, U64, Ragged, Unsigned, offsets_of, ranges, run_starts
from esdedup.text.characters import (
    IGNORED,
    MARK,
    OTHER,
    PIECE,
    PUNCTUATION,
    SINGLE,
    SYMBOL,
    character_classes,
    code_points,
    pieces,
)
from esdedup.text.hashing import PADDING, xxh3, xxh3_slices
from esdedup.text.jieba import cut
from esdedup.text.shingles import Shingling

_TABLED = 0x10000
"""The hashes of characters below this one are in a table, nearly all Han characters among them."""
_LONGEST_RUN = 3
"""Characters of a run of one symbol that are hashed."""
_HYPHEN, _ZERO = b"-0"
_MINUS, _EN_DASH = 0x2212, 0x2013


def tokenise(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    """Split normalised texts into hashed tokens, without stop words: one row a text."""
    if shingling.unit == "word":
        if len(texts) == 1 and len(texts[0]) > PIECE:
            hashes = np.concatenate(
                [_words([piece], shingling, seed).hashes for piece in pieces(texts[0])]
            )
            tokens = Ragged(hashes, np.array([0, hashes.size]))
        else:
            tokens = _words(texts, shingling, seed)
    elif shingling.unit == "char":
        tokens = _characters(texts, shingling, seed)
    else:
        tokens = _jieba_words(texts, shingling, seed)
    if not shingling.stop_words:
        return tokens
    return tokens.only(~np.isin(tokens.hashes, xxh3(shingling.stop_words, seed)))


def spell(texts: Sequence[str], shingling: Shingling) -> list[list[str]]:
    """Return the words of normalised texts whose hashes `tokenise` returns."""
    if shingling.unit == "word":
        classified, starts, ends = _spans(texts, shingling)
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        words = [classified.text[start:end] for start, end in spans]
        edges = itertools.pairwise(np.searchsorted(starts, classified.bounds).tolist())
        rows = [words[first:last] for first, last in edges]
    elif shingling.unit == "char":
        collapsed = (" ".join(text.split()) for text in texts)
        table, bounds = character_classes(shingling.version), np.zeros(1, np.int64)
        rows = [list(_without_ignored(text, bounds, table).text) for text in collapsed]
    else:
        rows = _jieba_rows(texts, shingling)
    if not shingling.stop_words:
        return rows
    stop_words = {*shingling.stop_words}
    return [[word for word in row if word not in stop_words] for row in rows]


class PlacedWords(NamedTuple):
    """The hashed tokens of a text, and where they are in it.

    Token i is text[starts[i]:ends[i]], which may also hold ignored characters, or several spaces
    for one.

    hashes: of the tokens, shape (tokens,).
    starts: of each token, in characters, shape (tokens,).
    ends: of each token, shape (tokens,).
    """

    hashes: U64
    starts: I64
    ends: I64


def place(text: str, shingling: Shingling, seed: int) -> PlacedWords:
    """Return the tokens of `tokenise` for one text, with their places in it."""
    hashes = tokenise([text], replace(shingling, stop_words=()), seed).hashes
    starts, ends = _places(text, shingling)
    keep = ~np.isin(hashes, xxh3(shingling.stop_words, seed))
    return PlacedWords(hashes[keep], starts[keep], ends[keep])


def places_of_words(text: str, shingling: Shingling, seed: int) -> tuple[I64, I64]:
    """Return the starts and the ends of the tokens of `tokenise` for one text, in characters."""
    if shingling.stop_words:
        return place(text, shingling, seed)[1:]
    # Hashing words takes most of the time, and only stop words are known by their hashes.
    return _places(text, shingling)


def _places(text: str, shingling: Shingling) -> tuple[I64, I64]:
    """Return the starts and the ends of all tokens of a text, stop words among them."""
    spans_of = {"word": _spans_of_words, "char": _spans_of_characters, "jieba": _spans_by_jieba}
    return spans_of[shingling.unit](text, shingling)


@dataclass(frozen=True, eq=False)
class _Classified:
    """Texts in a row, without IGNORED characters, and the classes of their characters.

    text: all of them. As `_classified` returns it, it begins and ends outside a word.
    points: its code points, shape (characters,).
    classes: of the points, shape (characters,). As `_classified` returns them, signs of numbers are
        symbols.
    bounds: the first character of each text and the end, shape (texts + 1,).
    """

    text: str
    points: Unsigned
    classes: NDArray[np.uint8]
    bounds: I64


def _words(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    classified, starts, ends = _spans(texts, shingling)
    hashes = _hash_spans(classified.text, classified.points, starts, ends, seed)
    return Ragged(hashes, np.searchsorted(starts, classified.bounds))


def _spans(texts: Sequence[str], shingling: Shingling) -> tuple[_Classified, I64, I64]:
    """Return the classified texts, and the starts and ends of the words that are hashed."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    bounds = offsets_of(lengths + 1) + 1
    classified = _classified("\n" + "\n".join(texts) + "\n", bounds, shingling)
    starts, ends, symbols = _word_spans(classified.points, classified.classes)
    ends[symbols] = np.minimum(ends[symbols], starts[symbols] + _LONGEST_RUN)
    return classified, starts, ends


def _classified(text: str, bounds: I64, shingling: Shingling) -> _Classified:
    """Classify the characters of texts, and turn the signs of numbers into symbols."""
    table = character_classes(shingling.version, shingling.punctuation)
    if text.isascii():
        data = text.encode("ascii")
        # bytes.translate looks bytes up faster than numpy does.
        classes = np.frombuffer(bytearray(data.translate(table[:256].tobytes())), np.uint8)
        classified = _Classified(text, np.frombuffer(data, np.uint8), classes, bounds)
    else:
        classified = _without_ignored(text, bounds, table)
    points, classes = classified.points, classified.classes
    signs = _signs(points, classes, shingling.version)
    if signs.size:
        classes[signs] = SYMBOL
        if (points[signs] != _HYPHEN).any():
            # A minus or an en dash is hashed as the hyphen that it stands for.
            points = points.copy()
            points[signs] = _HYPHEN
            classified = replace(classified, text=_text_of(points), points=points)
    if shingling.punctuation:
        classes[classes == PUNCTUATION] = SYMBOL
    return classified


def _signs(points: Unsigned, classes: NDArray[np.uint8], version: int) -> I64:
    """Return the positions of the signs of numbers, in a text that begins and ends with others."""
    hyphens = points == _HYPHEN
    if version > 3 and points.itemsize > 1:
        hyphens |= (points == _MINUS) | (points == _EN_DASH)
    positions = np.flatnonzero(hyphens)
    before = classes[positions - 1]
    is_free = ((before == OTHER) | (before == PUNCTUATION)) & ~hyphens[positions - 1]
    # The difference of unsigned numbers is large for characters below the digit 0.
    precedes_digit = points[positions + 1] - _ZERO < 10
    signs: I64 = positions[is_free & precedes_digit]
    return signs


def _without_ignored(text: str, bounds: I64, table: NDArray[np.uint8]) -> _Classified:
    """Return texts without IGNORED characters.

    bounds: the first character of each text and the end, shape (texts + 1,).
    table: the class of each character, by its code point.
    """
    points = code_points(text)
    classes = table.take(points)
    keep = classes != IGNORED
    if keep.all():
        return _Classified(text, points, classes, bounds)
    points = points[keep]
    return _Classified(_text_of(points), points, classes[keep], offsets_of(keep)[bounds])


def _text_of(points: Unsigned) -> str:
    return points.tobytes().decode("utf-32-le", "surrogatepass")


def _word_spans(points: Unsigned, classes: NDArray[np.uint8]) -> tuple[I64, I64, I64]:
    """Return the starts and ends of words, in characters, and which words are of symbols.

    The text begins and ends outside a word. classes: of the points; they are changed.
    """
    base = None
    marks = np.flatnonzero(classes == MARK)
    if marks.size:
        # A mark belongs to the character before it, but is dropped after a symbol.
        bases = np.arange(classes.size)
        bases[marks] = 0
        classes_of_bases = classes[np.maximum.accumulate(bases)[marks]]
        classes[marks[classes_of_bases == SYMBOL]] = OTHER
        base = np.flatnonzero(classes != MARK)
        classes, points = classes[base], points[base]
    before, after = classes[:-1], classes[1:]
    edges = (after != before) | (after == SINGLE)
    edges |= (after == SYMBOL) & (points[1:] != points[:-1])
    # Two searches: splitting one list of all edges takes several times as long.
    starts = np.flatnonzero(edges & (after != OTHER)) + 1
    ends = np.flatnonzero(edges & (before != OTHER)) + 1
    # Symbols are few: searching them among the characters takes less time than among the words.
    symbols = np.searchsorted(starts, np.flatnonzero(edges & (after == SYMBOL)) + 1)
    return (starts, ends, symbols) if base is None else (base[starts], base[ends], symbols)


def _hash_spans(text: str, points: Unsigned, starts: I64, ends: I64, seed: int) -> U64:
    """Return the hash of each span of characters: shape (spans,). points: of the text."""
    wide = points >= 0x80
    wides = np.count_nonzero(wide)
    lengths = ends - starts
    alone = lengths == 1
    if wides and 2 * np.count_nonzero(alone) >= alone.size:
        # Most characters are words by themselves, as in Chinese, and are looked up.
        first = points.take(starts)
        hashes = _character_hashes(seed).take(first, mode="clip")
        unhashed = np.flatnonzero(~alone | (first >= _TABLED))
    elif 256 * wides < points.size:
        # Nearly all words are ASCII, and the others are hashed again.
        data = points.astype(np.uint8).tobytes() + bytes(PADDING)
        hashes = xxh3_slices(data, starts, lengths, seed)
        unhashed = np.searchsorted(starts, np.flatnonzero(wide), "right") - 1
        # The first call of `np.unique` imports numpy.ma, half of the time of a first search.
        unhashed = unhashed[run_starts(unhashed)]
    else:
        return _hash_encoded(text, starts, ends, seed)
    if unhashed.size:
        # Only the characters of the other words are encoded.
        counts = lengths[unhashed]
        edges = offsets_of(counts)
        inside = points[ranges(starts[unhashed], counts)]
        hashes[unhashed] = _hash_encoded(_text_of(inside), edges[:-1], edges[1:], seed)
    return hashes


def _hash_encoded(text: str, starts: I64, ends: I64, seed: int) -> U64:
    data = text.encode("utf-8", "surrogatepass")
    # Every byte but a continuation byte (10xxxxxx, negative) begins a character.
    begins = np.append(np.flatnonzero(np.frombuffer(data, np.int8) >= -64), len(data))
    starts, ends = begins.take(starts), begins.take(ends)
    return xxh3_slices(data + bytes(PADDING), starts, ends - starts, seed)


@functools.lru_cache(maxsize=2)
def _character_hashes(seed: int) -> U64:
    """XXH3-64 of the UTF-8 bytes of every character of the basic plane: shape (65536,)."""
    positions = np.arange(_TABLED)
    hashes = _hash_encoded(_text_of(positions.astype(np.uint32)), positions, positions + 1, seed)
    hashes.setflags(write=False)
    return hashes


def _characters(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    collapsed = [" ".join(text.split()) for text in texts]
    lengths = np.fromiter(map(len, collapsed), np.int64, len(collapsed))
    table = character_classes(shingling.version)
    characters = _without_ignored("".join(collapsed), offsets_of(lengths), table)
    starts = np.arange(characters.points.size)
    hashes = _hash_spans(characters.text, characters.points, starts, starts + 1, seed)
    return Ragged(hashes, characters.bounds)


def _jieba_words(texts: Sequence[str], shingling: Shingling, seed: int) -> Ragged:
    rows = _jieba_rows(texts, shingling)
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    return Ragged(xxh3((word for row in rows for word in row), seed), offsets_of(counts))


def _jieba_rows(texts: Sequence[str], shingling: Shingling) -> list[list[str]]:
    return [
        [piece for piece in pieces if _has_word(piece, shingling)]
        for pieces in cut(texts, shingling.segmenter)
    ]


def _has_word(piece: str, shingling: Shingling) -> bool:
    table = character_classes(shingling.version, shingling.punctuation)
    return bool((table[code_points(piece)] != OTHER).any())


def _spans_of_words(text: str, shingling: Shingling) -> tuple[I64, I64]:
    joined = f"\n{text}\n"
    classified = _classified(joined, np.zeros(1, np.int64), shingling)
    starts, ends = _word_spans(classified.points, classified.classes)[:2]
    if classified.points.size == len(joined):
        return starts - 1, ends - 1
    is_kept = character_classes(shingling.version).take(code_points(joined)) != IGNORED
    # The position of each character that is not ignored. The joined text has one line feed more at
    # its start.
    positions = np.flatnonzero(is_kept) - 1
    return positions[starts], positions[ends - 1] + 1


def _spans_of_characters(text: str, shingling: Shingling) -> tuple[I64, I64]:
    # A character, or the white space between two.
    matches = re.finditer(r"\S|(?<=\S)\s+(?=\S)", text)
    starts, ends = _columns([match.span() for match in matches])
    keep = character_classes(shingling.version).take(code_points(text)[starts]) != IGNORED
    return starts[keep], ends[keep]


def _spans_by_jieba(text: str, shingling: Shingling) -> tuple[I64, I64]:
    (pieces,) = cut([text], shingling.segmenter)
    edges = itertools.pairwise(itertools.accumulate(map(len, pieces), initial=0))
    spans = zip(edges, pieces, strict=True)
    return _columns([span for span, piece in spans if _has_word(piece, shingling)])


def _columns(spans: list[tuple[int, int]]) -> tuple[I64, I64]:
    """Return the starts and the ends of spans."""
    table = np.array(spans, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
