"""Highlights the words that two texts share, and cuts a text to excerpts around its differences.

A word is shared if it is in a shingle of both texts. Words are found in the normalised
text, as for every sketch (`words.py`), and their positions are mapped back to the original text.
Normalisation acts within a unit of one character and the marks behind it (Unicode Standard Annex
15, section 9.1: what may compose with the character before it). So each unit is normalised by
itself. If the units joined are not the normalised text, the normalised text is shown in place of
the original, and the result says so.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from esdedup.text.arrays import I64, U64, Mask, Ragged
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import place

Span = tuple[int, int]
_FEWEST_WORDS_CUT = 10
"""Leaving out fewer words saves less room than the note about them takes."""
_FEWEST_CHARACTERS_CUT = 40
"""The same for an excerpt, in characters."""
_CONTEXT = 12
"""Words that an excerpt keeps at either end of a run of shared words."""
_PIECE = 400
"""Characters of one piece of an excerpt. A longer one loses its middle."""
_KEPT_END = 100
"""Characters kept at the end of such a piece."""
_BLOCK = 1 << 16
"""Characters or words that are Python objects at the same time: a text may have millions."""


class Word(NamedTuple):
    """A word of a text, text[start:end]. shared: it lies in a shingle that the other has too."""

    start: int
    end: int
    shared: bool


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a text in order, each text[starts[i]:ends[i]]; all arrays have shape (words,).

    shared: marks words that lie in a shingle that the other text has too.
    """

    starts: I64
    ends: I64
    shared: Mask

    def __len__(self) -> int:
        return self.starts.size

    def __iter__(self) -> Iterator[Word]:
        for some in _blocks(len(self)):
            columns = (each[some].tolist() for each in (self.starts, self.ends, self.shared))
            yield from itertools.starmap(Word, zip(*columns, strict=True))

    def runs(self) -> Iterator[tuple[int, int, bool]]:
        """Yield the longest runs of words [first, last) that are all shared, or all not."""
        if not len(self):
            return
        edges = np.flatnonzero(self.shared[1:] != self.shared[:-1]) + 1
        for some in _blocks(edges.size + 1):
            lasts = [*edges[some].tolist(), *([len(self)] if some.stop > edges.size else [])]
            first = int(edges[some.start - 1]) if some.start else 0
            for last in lasts:
                yield first, last, bool(self.shared[first])
                first = last


class Piece(NamedTuple):
    """A piece of a text. If `text` is empty, something is left out here.

    left_out: number of words. rest: number of characters, of the whole rest of the text.
    """

    text: str
    shared: bool
    left_out: int = 0
    rest: int = 0


class Excerpt(NamedTuple):
    """A piece of an excerpt. If `text` is empty, `left_out` characters are left out here.

    differs: its words lie in no shingle of the other text.
    """

    text: str
    differs: bool = False
    left_out: int = 0


@dataclass(frozen=True)
class MarkedText:
    """A text, with the words that it shares with another.

    text: the original text, or the normalised one if `original` is False.
    words: characters, if the shingles are of characters. Two may overlap if one character is
        normalised to several words.
    shared: stretches of words in shared shingles, in order. White space between two words of one
        such shingle belongs to them; punctuation and stop words do not.
    """

    text: str
    original: bool
    words: Words
    shared: tuple[Span, ...]

    def pieces(self, context: int | None = None, most: int | None = None) -> list[Piece]:
        """Return the text in pieces, in order, each shared or not.

        context: keep this many words at either end of a long run of shared words; None: all.
        most: end after this many characters; None: all.
        """
        found: list[Piece] = []
        at, room = 0, len(self.text) if most is None else most
        for start, end, left_out in self._cuts(context):
            stop = min(start, at + room)
            found += self._split(at, stop)
            room -= stop - at
            if stop < start or (left_out and not room):
                return [*found, Piece("", False, rest=len(self.text) - stop)]
            at = end
            if left_out:
                found.append(Piece("", True, left_out))
        return found

    def _cuts(self, context: int | None) -> Iterator[tuple[int, int, int]]:
        """Yield the middles of long shared runs, (start, end, words), and the end of the text."""
        if context is not None:
            yield from _cuts(self.words, context)
        yield len(self.text), len(self.text), 0

    def _split(self, start: int, end: int) -> Iterator[Piece]:
        """Return the pieces of text[start:end], without gaps."""
        first = bisect.bisect_right(self.shared, start, key=lambda span: span[1])
        for span in itertools.islice(self.shared, first, None):
            if span[0] >= end:
                break
            if start < span[0]:
                yield Piece(self.text[start : span[0]], False)
            start, stop = max(start, span[0]), min(end, span[1])
            yield Piece(self.text[start:stop], True)
            start = stop
        if start < end:
            yield Piece(self.text[start:end], False)


def mark_shared(
    texts: tuple[str, str], normalisation: Normalisation, shingling: Shingling, seed: int
) -> tuple[MarkedText, MarkedText]:
    """Mark in both texts the words that lie in a shingle of both."""
    size = shingling.size
    normalised = normalise(texts, normalisation)
    places = [place(text, shingling, seed) for text in normalised]
    left, right = (
        shingle(Ragged(hashes, np.array([0, hashes.size])), size).hashes for hashes, *_ in places
    )
    shared = np.isin(left, right), np.isin(right, left)
    first, second = (
        _marked(*each, normalisation, size)
        for each in zip(texts, normalised, places, shared, strict=True)
    )
    return first, second


def _covered(first: I64, length: int, count: int) -> Mask:
    """Mark the positions first[i] to first[i] + length - 1 of `count`: shape (count,)."""
    edges = np.zeros(count + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, np.minimum(first + length, count), -1)
    covered: Mask = np.cumsum(edges)[:count] > 0
    return covered


def _marked(
    text: str,
    normalised: str,
    places: tuple[U64, I64, I64],
    shared: Mask,
    normalisation: Normalisation,
    size: int,
) -> MarkedText:
    """shared: marks the text's shingles that the other text has, shape (shingles,)."""
    _, starts, ends = places
    original = _original(text, normalised, normalisation, starts, ends)
    if original is not None:
        starts, ends = original
    shown = normalised if original is None else text
    first = np.flatnonzero(shared)
    words = Words(starts, ends, _covered(first, size, starts.size))
    # A word is linked if it lies in one shared shingle with the next word.
    linked = _covered(first, size - 1, starts.size)
    return MarkedText(shown, original is not None, words, _stretches(shown, words, linked))


def _stretches(text: str, words: Words, linked: Mask) -> tuple[Span, ...]:
    """Return the stretches of shared words. linked: marks words linked to the next: (words,)."""
    at = np.flatnonzero(words.shared)
    if not at.size:
        return ()
    starts, ends = words.starts[at], np.maximum.accumulate(words.ends[at])
    joined = starts[1:] <= ends[:-1]
    gaps = np.flatnonzero(~joined & linked[at[1:] - 1])
    for some in _blocks(gaps.size):
        edges = ends[gaps[some]].tolist(), starts[gaps[some] + 1].tolist()
        joined[gaps[some]] = [text[a:b].isspace() for a, b in zip(*edges, strict=True)]
    breaks = np.flatnonzero(~joined)
    firsts = starts[np.concatenate(([0], breaks + 1))]
    lasts = ends[np.concatenate((breaks, [at.size - 1]))]
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, first + _BLOCK) for first in range(0, count, _BLOCK))


def _original(
    text: str, normalised: str, normalisation: Normalisation, starts: I64, ends: I64
) -> tuple[I64, I64] | None:
    """Return the places of words in the original text, from those in the normalised one.

    None if the units of the text, each normalised by itself, do not give the normalised text.
    """
    if text.isascii():
        return starts, ends
    lasts = ends - 1
    firsts, stops = np.empty_like(starts), np.empty_like(ends)
    begun = done = 0
    while begun < len(text):
        end = min(begun + _BLOCK, len(text))
        while end < len(text) and _acts_backwards(text[end]):
            end += 1
        inside = range(begun + 1, end)
        edges = [begun, *(at for at in inside if not _acts_backwards(text[at])), end]
        parts = normalise([text[a:b] for a, b in itertools.pairwise(edges)], normalisation)
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        size = int(lengths.sum())
        if "".join(parts) != normalised[done : done + size]:
            return None
        for places, origins, found in ((starts, edges[:-1], firsts), (lasts, edges[1:], stops)):
            some = slice(*np.searchsorted(places, [done, done + size]).tolist())
            found[some] = np.repeat(np.array(origins), lengths)[places[some] - done]
        begun, done = end, done + size
    return (firsts, stops) if done == len(normalised) else None


def _acts_backwards(character: str) -> bool:
    """True if a character may change or compose with the one before it."""
    if character.isascii():
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    # Besides marks, only the vowels and finals of Hangul syllables do so.
    return unicodedata.category(first).startswith("M") or (
        "\u1161" <= first <= "\u1175" or "\u11a8" <= first <= "\u11c2"
    )


def _cuts(words: Words, context: int) -> Iterator[tuple[int, int, int]]:
    """Return the middles of long runs of shared words: (start, end, words)."""
    for first, last, shared in words.runs():
        left_out = last - first - 2 * context
        if shared and left_out >= _FEWEST_WORDS_CUT:
            start, end = int(words.ends[first + context - 1]), int(words.starts[last - context])
            if start < end:
                yield start, end, left_out


def _differing(words: Words) -> Iterator[Span]:
    for first, last, shared in words.runs():
        if not shared:
            yield int(words.starts[first]), int(words.ends[first:last].max())


def differing(text: MarkedText) -> list[Span]:
    """Stretches of words that lie in no shared shingle, with the characters between them."""
    return list(_differing(text.words))


def excerpts(text: MarkedText, most: int) -> tuple[Excerpt, ...]:
    """Return the text in pieces, in order, cut to about `most` characters.

    The middles of long runs of shared words are left out, then the middles of long pieces, then all
    that follows `most` characters. Every gap has the number of characters left out.
    """
    found: list[Excerpt] = []
    kept = 0
    pieces = itertools.chain.from_iterable(map(_shortened, _excerpts(text)))
    for piece in pieces:
        if kept and kept + len(piece.text) > most:
            left_out = sum(len(each.text) + each.left_out for each in (piece, *pieces))
            found.append(Excerpt("", left_out=left_out))
            break
        kept += len(piece.text)
        found.append(piece)
    merged: list[Excerpt] = []
    for gap, group in itertools.groupby(found, lambda piece: not piece.text):
        if not gap:
            merged += group
        elif left_out := sum(piece.left_out for piece in group):
            merged.append(Excerpt("", left_out=left_out))
    return tuple(merged)


def _excerpts(text: MarkedText) -> Iterator[Excerpt]:
    cuts = (
        (start, end, False)
        for start, end, _ in _cuts(text.words, _CONTEXT)
        if end - start >= _FEWEST_CHARACTERS_CUT
    )
    differing = ((start, end, True) for start, end in _differing(text.words))
    at = 0
    for *span, differs in heapq.merge(cuts, differing):
        # Two words may overlap if one character is normalised to several.
        start, end = (max(edge, at) for edge in span)
        yield Excerpt(text.text[at:start])
        if differs:
            yield Excerpt(text.text[start:end], differs=True)
        else:
            yield Excerpt("", left_out=end - start)
        at = end
    yield Excerpt(text.text[at:])


def _shortened(piece: Excerpt) -> list[Excerpt]:
    if len(piece.text) <= _PIECE:
        return [piece]
    first, last = piece.text[: _PIECE - _KEPT_END], piece.text[-_KEPT_END:]
    gap = Excerpt("", left_out=len(piece.text) - _PIECE)
    return [piece._replace(text=first), gap, piece._replace(text=last)]
