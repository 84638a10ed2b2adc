"""Highlights the words that two texts share, and cuts a text to excerpts around its differences.

A word is shared if it lies in a shingle that both texts have. Words are found in the normalised
text, as for every sketch (`words.py`), and their positions are mapped back to the original text.
Normalisation acts within a unit of one character and the marks behind it (Unicode Standard Annex
15, section 9.1: what may compose with the character before it). So each unit is normalised by
itself. If the units joined are not the normalised text, the normalised text is shown in place of
the original, and the result says so.
"""

from __future__ import annotations

import bisect
import itertools
import unicodedata
from collections.abc import Iterator, Sequence
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


class Word(NamedTuple):
    """A word of a text, text[start:end]. shared: it lies in a shingle that the other has too."""

    start: int
    end: int
    shared: bool


class Piece(NamedTuple):
    """A piece of a text. If `text` is empty, `left_out` words are left out here."""

    text: str
    shared: bool
    left_out: int = 0


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
    words: in order; characters, if the shingles are of characters. Two may overlap if one character
        is normalised to several words.
    shared: stretches of words in shared shingles, in order. White space between two words of one
        such shingle belongs to them; punctuation and stop words do not.
    """

    text: str
    original: bool
    words: tuple[Word, ...]
    shared: tuple[Span, ...]

    def pieces(self, context: int | None = None) -> list[Piece]:
        """The text in pieces, in order, each shared or not.

        context: keep this many words at either end of a long run of shared words; None: all.
        """
        cuts = [] if context is None else _cuts(self.words, context)
        left_out = {start: count for start, _, count in cuts}
        cut_spans = [(start, end) for start, end, _ in cuts]
        spans = [(0, len(self.text)), *self.shared, *cut_spans]
        edges = sorted({edge for span in spans for edge in span})
        found: list[Piece] = []
        for start, end in itertools.pairwise(edges):
            if start in left_out:
                found.append(Piece("", True, left_out[start]))
            if not _is_inside(cut_spans, start):
                found.append(Piece(self.text[start:end], _is_inside(self.shared, start)))
        return found


def mark_shared(
    texts: tuple[str, str], normalisation: Normalisation, shingling: Shingling, seed: int
) -> tuple[MarkedText, MarkedText]:
    """Marks in both texts the words that lie in a shingle of both."""
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
    """Marks the positions first[i] to first[i] + length - 1 of `count`: shape (count,)."""
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
    origins = _origins(text, normalised, normalisation)
    if origins is not None and starts.size:
        starts, ends = origins[0][starts], origins[1][ends - 1]
    shown = normalised if origins is None else text
    first = np.flatnonzero(shared)
    columns = starts.tolist(), ends.tolist(), _covered(first, size, starts.size).tolist()
    words = tuple(itertools.starmap(Word, zip(*columns, strict=True)))
    # A word is linked if it lies in one shared shingle with the next word.
    linked = _covered(first, size - 1, starts.size).tolist()
    stretches: list[Span] = []
    for at, word in enumerate(words):
        if not word.shared:
            continue
        before = stretches[-1][1] if stretches else 0
        gap = shown[before : word.start]
        if stretches and (not gap or (linked[at - 1] and gap.isspace())):
            stretches[-1] = stretches[-1][0], max(word.end, before)
        else:
            stretches.append((word.start, word.end))
    return MarkedText(shown, origins is not None, words, tuple(stretches))


def _origins(text: str, normalised: str, normalisation: Normalisation) -> tuple[I64, I64] | None:
    """The origin of each character of a normalised text: (starts, ends) in the original.

    None if the units of the text, each normalised by itself, do not give the normalised text.
    """
    if text.isascii():
        starts = np.arange(len(text))
        return starts, starts + 1
    edges = [at for at, character in enumerate(text) if not at or not _acts_backwards(character)]
    edges.append(len(text))
    parts = normalise([text[a:b] for a, b in itertools.pairwise(edges)], normalisation)
    if "".join(parts) != normalised:
        return None
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    return np.repeat(np.array(edges[:-1]), lengths), np.repeat(np.array(edges[1:]), lengths)


def _acts_backwards(character: str) -> bool:
    """True if a character may change or compose with the one before it."""
    if character.isascii():
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    # Besides marks, only the vowels and finals of Hangul syllables do so.
    return unicodedata.category(first).startswith("M") or (
        "\u1161" <= first <= "\u1175" or "\u11a8" <= first <= "\u11c2"
    )


def _cuts(words: Sequence[Word], context: int) -> list[tuple[int, int, int]]:
    """The middles of long runs of shared words: (start, end, words)."""
    found = []
    for run in _runs(words, shared=True):
        left_out = len(run) - 2 * context
        if left_out >= _FEWEST_WORDS_CUT:
            start, end = run[context - 1].end, run[-context].start
            if start < end:
                found.append((start, end, left_out))
    return found


def _runs(words: Sequence[Word], *, shared: bool) -> Iterator[list[Word]]:
    for each, run in itertools.groupby(words, lambda word: word.shared):
        if each == shared:
            yield list(run)


def _is_inside(spans: Sequence[Span], at: int) -> bool:
    before = bisect.bisect_right(spans, at, key=lambda span: span[0])
    return before > 0 and at < spans[before - 1][1]


def differing(text: MarkedText) -> list[Span]:
    """Stretches of words that lie in no shared shingle, with the characters between them."""
    runs = _runs(text.words, shared=False)
    return [(run[0].start, max(word.end for word in run)) for run in runs]


def excerpts(text: MarkedText, most: int) -> tuple[Excerpt, ...]:
    """The text in pieces, in order, cut to about `most` characters.

    The middles of long runs of shared words are left out, then the middles of long pieces, then all
    that follows `most` characters. Every gap tells how many characters it leaves out.
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
    cuts = {
        (start, end)
        for start, end, _ in _cuts(text.words, _CONTEXT)
        if end - start >= _FEWEST_CHARACTERS_CUT
    }
    at = 0
    for span in sorted({*cuts, *differing(text)}):
        # Two words may overlap if one character is normalised to several.
        start, end = (max(edge, at) for edge in span)
        yield Excerpt(text.text[at:start])
        if span in cuts:
            yield Excerpt("", left_out=end - start)
        else:
            yield Excerpt(text.text[start:end], differs=True)
        at = end
    yield Excerpt(text.text[at:])


def _shortened(piece: Excerpt) -> list[Excerpt]:
    if len(piece.text) <= _PIECE:
        return [piece]
    first, last = piece.text[: _PIECE - _KEPT_END], piece.text[-_KEPT_END:]
    gap = Excerpt("", left_out=len(piece.text) - _PIECE)
    return [piece._replace(text=first), gap, piece._replace(text=last)]
