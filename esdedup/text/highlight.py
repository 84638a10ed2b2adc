"""Which words of two texts lie in a shingle that both have, and where in the texts they are.

Words are found in the normalised text, by `splitting.py` as for every sketch; here their places are
carried back to the text as it was written. Normalisation acts within clusters, a character with the
marks behind it (Unicode Standard Annex 15, section 9.1: what may compose with the character
before it); so each cluster is normalised by itself, and where all of them together are not the
normalised text, that one is shown in place of the original, and says so.

A text cut to what differs from another, with a little of what both share around it.
"""

from __future__ import annotations

import bisect
import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import I64, U64, Ragged, offsets_of
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import Places, place

Span = tuple[int, int]
_FEWEST_LEFT_OUT = 10
"""Words; to leave out fewer saves less than the words cost that say so."""


class Word(NamedTuple):
    """A word of a text, text[start:end]. shared: it lies in a shingle that the other has too."""

    start: int
    end: int
    shared: bool


class Piece(NamedTuple):
    """A piece of a text, or, where it is empty, so many words left out."""

    text: str
    shared: bool
    left_out: int = 0


@dataclass(frozen=True)
class MarkedText:
    """A text, with what it shares with another.

    text: as it was written; or, unless original, normalised. words: in order; characters, where
    the shingles are of those. Two may overlap, where one character is normalised to several words.
    shared: stretches of words in shared shingles, in order; white space between two words of one
    such shingle belongs to them, punctuation and stop words do not.
    """

    text: str
    original: bool
    words: tuple[Word, ...]
    shared: tuple[Span, ...]

    def pieces(self, context: int | None = None) -> list[Piece]:
        """The text in pieces, in order, each shared or not.

        context: where many shared words follow each other, keep so many at either end.
        """
        cuts = [] if context is None else shared_cuts(self.words, context)
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
    """Both texts, with what lies in the shingles that both have."""
    left, right = normalise(texts, normalisation)
    ours, theirs = place(left, shingling, seed), place(right, shingling, seed)
    size = shingling.size
    a, b = _shingles(ours, size), _shingles(theirs, size)
    return (
        _marked(texts[0], left, normalisation, ours, _Met.of(a, b, size, ours.hashes.size)),
        _marked(texts[1], right, normalisation, theirs, _Met.of(b, a, size, theirs.hashes.size)),
    )


def _shingles(places: Places, size: int) -> U64:
    tokens = Ragged(places.hashes, offsets_of(np.array([places.hashes.size])))
    return shingle(tokens, size).hashes


@dataclass(frozen=True)
class _Met:
    """For each token whether it is in a shared shingle, and whether so with the next one.

    tokens, with_next: shape (tokens,).
    """

    tokens: NDArray[np.bool_]
    with_next: NDArray[np.bool_]

    @staticmethod
    def of(own: U64, other: U64, size: int, tokens: int) -> _Met:
        first = np.flatnonzero(np.isin(own, other))
        return _Met(_covered(first, size, tokens), _covered(first, size - 1, tokens))


def _covered(first: I64, length: int, count: int) -> NDArray[np.bool_]:
    """Which of `count` positions are among the `length` from any of the first ones on."""
    edges = np.zeros(count + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, np.minimum(first + length, count), -1)
    covered: NDArray[np.bool_] = np.cumsum(edges)[:count] > 0
    return covered


def _marked(
    text: str, normalised: str, normalisation: Normalisation, places: Places, met: _Met
) -> MarkedText:
    starts, ends = places.starts, places.ends
    origins = _origins(text, normalised, normalisation)
    if origins is not None and starts.size:
        starts, ends = origins[0][starts], origins[1][ends - 1]
    shown = normalised if origins is None else text
    words = tuple(
        Word(start, end, shared)
        for start, end, shared in zip(
            starts.tolist(), ends.tolist(), met.tokens.tolist(), strict=True
        )
    )
    return MarkedText(shown, origins is not None, words, _stretches(shown, words, met))


def _stretches(text: str, words: Sequence[Word], met: _Met) -> tuple[Span, ...]:
    found: list[Span] = []
    for at, word in enumerate(words):
        if not word.shared:
            continue
        if found and _continues(text[found[-1][1] : word.start], bool(met.with_next[at - 1])):
            found[-1] = found[-1][0], max(word.end, found[-1][1])
        else:
            found.append((word.start, word.end))
    return tuple(found)


def _continues(gap: str, linked: bool) -> bool:
    return not gap or (linked and gap.isspace())


def _origins(text: str, normalised: str, normalisation: Normalisation) -> tuple[I64, I64] | None:
    """Where each character of a normalised text comes from: (starts, ends) in the original.

    None where the clusters, each normalised by itself, are not the normalised text.
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
    """Whether a character may change or compose with the one before it."""
    if character.isascii():
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    # Of characters that are no marks, the vowels and finals of Hangul syllables alone do so.
    return unicodedata.category(first).startswith("M") or (
        "\u1161" <= first <= "\u1175" or "\u11a8" <= first <= "\u11c2"
    )


def shared_cuts(words: Sequence[Word], context: int) -> list[tuple[int, int, int]]:
    """What to leave out of long runs of shared words: (start, end, words)."""
    found = []
    for shared, group in itertools.groupby(words, lambda word: word.shared):
        run = list(group)
        left_out = len(run) - 2 * context
        if shared and left_out >= _FEWEST_LEFT_OUT:
            start, end = run[context - 1].end, run[-context].start
            if start < end:
                found.append((start, end, left_out))
    return found


def _is_inside(spans: Sequence[Span], at: int) -> bool:
    before = bisect.bisect_right(spans, at, key=lambda span: span[0])
    return before > 0 and at < spans[before - 1][1]


_CONTEXT = 12
"""Words kept at either end of what is shared."""
_FEWEST_CUT = 40
"""Characters; to leave out fewer saves less than the words take that say so."""
_PIECE = 400
_KEPT_END = 100
"""Characters of one piece, and those kept at its end where it is longer."""


class Excerpt(NamedTuple):
    """A piece of a text, or, where it is empty, so many characters left out.

    differs: it is of words that lie in no shingle of the other text.
    """

    text: str
    differs: bool = False
    left_out: int = 0


def excerpts(text: MarkedText, most: int) -> tuple[Excerpt, ...]:
    """The text in pieces, in order; about `most` characters of it at most.

    What is left out is counted: long runs of shared words but for their ends, the middle of a long
    piece, and all that comes after `most` characters.
    """
    found: list[Excerpt] = []
    kept = 0
    pieces = itertools.chain.from_iterable(map(_cut, _pieces(text)))
    for piece in pieces:
        if kept and kept + len(piece.text) > most:
            left_out = sum(len(each.text) + each.left_out for each in (piece, *pieces))
            found.append(Excerpt("", left_out=left_out))
            break
        kept += len(piece.text)
        found.append(piece)
    return tuple(_together(found))


def differing(text: MarkedText) -> list[Span]:
    """Stretches of words that lie in no shared shingle, with what stands between them."""
    found = []
    for shared, group in itertools.groupby(text.words, lambda word: word.shared):
        if not shared:
            run = list(group)
            found.append((run[0].start, max(word.end for word in run)))
    return found


def _pieces(text: MarkedText) -> Iterator[Excerpt]:
    cuts = {
        (start, end)
        for start, end, _ in shared_cuts(text.words, _CONTEXT)
        if end - start >= _FEWEST_CUT
    }
    unlike = differing(text)
    at = 0
    for span in sorted({*cuts, *unlike}):
        # Two words may overlap, where one character is normalised to several.
        start, end = (max(edge, at) for edge in span)
        yield Excerpt(text.text[at:start])
        if span in cuts:
            yield Excerpt("", left_out=end - start)
        else:
            yield Excerpt(text.text[start:end], differs=True)
        at = end
    yield Excerpt(text.text[at:])


def _cut(piece: Excerpt) -> list[Excerpt]:
    """A piece without its middle, if it is long."""
    if len(piece.text) <= _PIECE:
        return [piece]
    first, last = piece.text[: _PIECE - _KEPT_END], piece.text[-_KEPT_END:]
    left_out = len(piece.text) - _PIECE
    return [
        piece._replace(text=first),
        Excerpt("", left_out=left_out),
        piece._replace(text=last),
    ]


def _together(pieces: list[Excerpt]) -> Iterator[Excerpt]:
    """The same without empty pieces, and with what is left out in one place counted together."""
    for blank, group in itertools.groupby(pieces, lambda piece: not piece.text):
        if not blank:
            yield from group
        elif left_out := sum(piece.left_out for piece in group):
            yield Excerpt("", left_out=left_out)
