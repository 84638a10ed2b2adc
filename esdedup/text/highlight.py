"""Mark the words that two texts share and those that differ, and cut a text around the latter.

A word is shared if it is in a shingle of both texts. Words are found in the normalised
text, as for every sketch (`words.py`), and their positions are mapped back to the original text.
Normalisation acts within a unit of one character and the marks behind it (Unicode Standard Annex
15, section 9.1: what may compose with the character before it). So each unit is normalised by
itself. If the units joined are not the normalised text, the normalised text is shown in place of
the original, and the result reports it.
"""

from __future__ import annotations

import bisect
import itertools
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from esdedup.text.arrays import I64, U64, Mask, Ragged
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import place

Span = tuple[int, int]
Marked = Literal["", "shared", "differs"]
_FEWEST_CUT = 10
"""Leaving out fewer words saves less room than the note about them takes."""
_BLOCK = 1 << 16
"""Characters that are strings of their own at the same time: a text may have millions."""


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

    def runs(self) -> Iterator[tuple[int, int, bool]]:
        """Yield the longest runs of words [first, last) that are all shared, or all not."""
        edges = np.flatnonzero(self.shared[1:] != self.shared[:-1]) + 1
        for first, last in itertools.pairwise([0, *edges.tolist(), len(self)]):
            if first < last:
                yield first, last, bool(self.shared[first])


class Piece(NamedTuple):
    """A piece of a text. If `text` is empty, something is left out here.

    marked: "shared" or "differs" for words, "" for what is between. left_out: number of words.
    rest: number of characters, of the whole rest of the text.
    """

    text: str
    marked: Marked = ""
    left_out: int = 0
    rest: int = 0


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
        """Return the text in pieces, in order.

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
                return [*found, Piece("", rest=len(self.text) - stop)]
            at = end
            if left_out:
                found.append(Piece("", "shared", left_out))
        return found

    def _cuts(self, context: int | None) -> Iterator[tuple[int, int, int]]:
        """Yield the middles of long shared runs, (start, end, words), and the end of the text."""
        for first, last, shared in self.words.runs():
            if context is None or not shared or last - first - 2 * context < _FEWEST_CUT:
                continue
            start, end = self.words.ends[first + context - 1], self.words.starts[last - context]
            if start < end:
                yield int(start), int(end), last - first - 2 * context
        yield len(self.text), len(self.text), 0

    @cached_property
    def _spans(self) -> list[tuple[int, int, Marked]]:
        """All stretches that are marked, in order, none over another."""
        spans: list[tuple[int, int, Marked]] = [(*span, "shared") for span in self.shared]
        starts, ends = self.words.starts, np.maximum.accumulate(self.words.ends)
        for first, last, shared in self.words.runs():
            if not shared:
                start = max(starts[first], ends[first - 1] if first else 0)
                end = min(ends[last - 1], starts[last] if last < len(self.words) else ends[-1])
                spans.append((int(start), int(end), "differs"))
        return sorted(span for span in spans if span[0] < span[1])

    def _split(self, start: int, end: int) -> Iterator[Piece]:
        """Yield the pieces of text[start:end], without gaps."""
        first = bisect.bisect_right(self._spans, start, key=lambda span: span[1])
        for begin, stop, marked in itertools.islice(self._spans, first, None):
            if begin >= end:
                break
            if start < begin:
                yield Piece(self.text[start:begin])
            yield Piece(self.text[max(start, begin) : min(stop, end)], marked)
            start = min(stop, end)
        if start < end:
            yield Piece(self.text[start:end])


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
    edges = ends[gaps].tolist(), starts[gaps + 1].tolist()
    joined[gaps] = [text[a:b].isspace() for a, b in zip(*edges, strict=True)]
    breaks = np.flatnonzero(~joined)
    firsts = starts[np.concatenate(([0], breaks + 1))]
    lasts = ends[np.concatenate((breaks, [at.size - 1]))]
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))


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
    """Return whether a character may change or compose with the one before it."""
    if character.isascii():
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    # Besides marks, only the vowels and finals of Hangul syllables do so.
    return unicodedata.category(first).startswith("M") or (
        "\u1161" <= first <= "\u1175" or "\u11a8" <= first <= "\u11c2"
    )
