"""Mark the words that two texts share and those that differ, and cut a text around the latter.

A word is shared if it is in a shingle of both texts. Words are found in the normalised
text, as for every sketch (`words.py`), and their positions are mapped back to the original text.
Normalisation acts within a unit of one character and the marks behind it (Unicode Standard Annex
15, section 9.1: what may compose with the character before it). So each unit is normalised by
itself.
"""

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import I64, Mask, Ragged, spanned
from esdedup.text.fold import Table, fold
from esdedup.text.normalise import Normalisation, acting_characters, lengths_of, normalise
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import PlacedWords, place, places_of_words

Span = tuple[int, int]
Marked = Literal["", "shared", "differs"]
_KINDS: tuple[Marked, ...] = ("", "shared", "differs")
_FEWEST_CUT = 10
"""Leaving out fewer words saves less room than the note about them takes."""


class Piece(NamedTuple):
    """A piece of a text. If `text` is empty, something is left out here.

    text: the piece.
    marked: "shared" or "differs" for words, "" for what is between.
    left_out: number of words that are left out here.
    remaining: number of characters up to the end of the text that are left out here.
    """

    text: str
    marked: Marked = ""
    left_out: int = 0
    remaining: int = 0


@dataclass(frozen=True, eq=False)
class MarkedText:
    """A text, with the words that it shares with another.

    text: as it came.
    starts: of each word in the text, shape (words,). Words are characters if the shingles are of
        characters. Two may overlap if one character is normalised to several words.
    ends: of each word, shape (words,).
    common: marks the words in shared shingles, shape (words,).
    kinds: of each character: 1 in shared words, 2 in others, 0 between them, shape (characters,).
        White space between two words of one shared shingle is shared; punctuation and stop words
        are not.
    """

    text: str
    starts: I64
    ends: I64
    common: Mask
    kinds: NDArray[np.int8]

    @property
    def shared(self) -> tuple[Span, ...]:
        """Return the stretches of shared words, in order, each (start, end)."""
        return tuple((start, end) for start, end, kind in _runs(self.kinds) if kind == 1)

    def pieces(self, context: int | None = None, most: int | None = None) -> list[Piece]:
        """Return the text in pieces, in order.

        context: keep this many words at either end of a long run of shared words; None: all.
        most: end after this many characters; None: all.
        """
        # What is left out: the middles of long shared runs, (start, end, words).
        cuts: list[tuple[int, int, int]] = []
        margin = self.common.size if context is None else context
        for first, last, shared in _runs(self.common):
            if shared and last - first - 2 * margin >= _FEWEST_CUT:
                start, end = self.ends[first + margin - 1], self.starts[last - margin]
                if start < end:
                    cuts.append((int(start), int(end), last - first - 2 * margin))
        pieces: list[Piece] = []
        position, remaining = 0, len(self.text) if most is None else most
        for start, end, left_out in [*cuts, (len(self.text), len(self.text), 0)]:
            stop = min(start, position + remaining)
            for first, last, kind in _runs(self.kinds[position:stop]):
                pieces.append(Piece(self.text[position + first : position + last], _KINDS[kind]))
            remaining -= stop - position
            if stop < start or (left_out and not remaining):
                return [*pieces, Piece("", remaining=len(self.text) - stop)]
            position = end
            if left_out:
                pieces.append(Piece("", "shared", left_out))
        return pieces


def mark_shared(
    texts: tuple[str, str], normalisation: Normalisation, shingling: Shingling, seed: int
) -> tuple[MarkedText, MarkedText]:
    """Mark in both texts the words that are in a shingle of both."""
    size = shingling.size
    left, right = (placed(text, normalisation, shingling, seed) for text in texts)
    left_shingles, right_shingles = (
        shingle(Ragged.of_rows([words.hashes]), size).hashes for words in (left, right)
    )
    return (
        _marked(texts[0], left, np.isin(left_shingles, right_shingles), size),
        _marked(texts[1], right, np.isin(right_shingles, left_shingles), size),
    )


def placed(text: str, normalisation: Normalisation, shingling: Shingling, seed: int) -> PlacedWords:
    """Return the words of the normalised text, with their places in the text itself."""
    (normalised,) = normalise([text], normalisation)
    words = place(normalised, shingling, seed)
    starts, ends = _original(text, normalisation, words.starts, words.ends)
    return PlacedWords(words.hashes, starts, ends)


def placed_words(
    text: str, normalisation: Normalisation, shingling: Shingling, seed: int
) -> tuple[I64, I64]:
    """Return the starts and the ends of the words of the normalised text, in the text itself."""
    (normalised,) = normalise([text], normalisation)
    starts, ends = places_of_words(normalised, shingling, seed)
    return _original(text, normalisation, starts, ends)


def _runs(values: NDArray[np.generic]) -> Iterator[tuple[int, int, int]]:
    """Yield the longest runs of equal values, (first, last + 1, value)."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    for first, last in itertools.pairwise([0, *edges.tolist(), values.size]):
        if first < last:
            yield first, last, int(values[first])


def _marked(text: str, words: PlacedWords, is_shared: Mask, size: int) -> MarkedText:
    """Mark one text.

    words: of the text.
    is_shared: marks its shingles that the other text has too, shape (shingles,).
    size: words of a shingle.
    """
    _, starts, ends = words
    shared_shingles, count = np.flatnonzero(is_shared), starts.size
    common = spanned(shared_shingles, shared_shingles + size, count)
    # A word is linked if it is in one shared shingle with the next word.
    linked = spanned(shared_shingles, shared_shingles + size - 1, count)[:-1]
    gaps = np.flatnonzero(linked & (ends[:-1] < starts[1:]))
    between = zip(ends[gaps].tolist(), starts[gaps + 1].tolist(), strict=True)
    gaps = gaps[np.array([text[end:start].isspace() for end, start in between], np.bool_)]
    kinds = np.zeros(len(text), np.int8)
    kinds[spanned(starts[~common], ends[~common], kinds.size)] = 2
    kinds[spanned(starts[common], ends[common], kinds.size)] = 1
    kinds[spanned(ends[gaps], starts[gaps + 1], kinds.size)] = 1
    return MarkedText(text, starts, ends, common, kinds)


@dataclass(frozen=True, eq=False)
class _Tracked:
    """A text of which it is known where each character comes from.

    text: as it is by now.
    normalisation: without a fold, for units of one character and the marks behind it.
    starts: of the part of the original text that each character is of, shape (characters,).
    ends: of these parts, shape (characters,).
    """

    text: str
    normalisation: Normalisation
    starts: I64
    ends: I64

    def substitute(
        self, pattern: re.Pattern[str], by: Callable[[re.Match[str]], str]
    ) -> "_Tracked":
        texts, starts, ends, position = list[str](), list[I64](), list[I64](), 0
        for match in pattern.finditer(self.text):
            replacement, first, last = by(match), match.start(), match.end()
            texts += [self.text[position:first], replacement]
            starts += [self.starts[position:first], np.full(len(replacement), self.starts[first])]
            ends += [self.ends[position:first], np.full(len(replacement), self.ends[last - 1])]
            position = last
        texts.append(self.text[position:])
        starts.append(self.starts[position:])
        ends.append(self.ends[position:])
        return self._of("".join(texts), np.concatenate(starts), np.concatenate(ends))

    def translate(self, table: Table) -> "_Tracked":
        return self._of_parts(
            [table.get(ord(character), character) for character in self.text],
            np.arange(len(self.text) + 1),
        )

    def normalise(self) -> "_Tracked":
        text = self.text
        inside = range(1, len(text))
        boundaries = [position for position in inside if not _acts_backwards(text[position])]
        edges = np.array([0, *boundaries, len(text)])
        units = [text[start:end] for start, end in itertools.pairwise(edges.tolist())]
        return self._of_parts(normalise(units, self.normalisation), edges)

    def _of_parts(self, units: Sequence[str], edges: I64) -> "_Tracked":
        """Return the text of units, which replace the characters between the edges."""
        if not self.text:
            return self
        # The number of the unit of each character.
        numbers = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
        starts, ends = self.starts[edges[numbers]], self.ends[edges[numbers + 1] - 1]
        return self._of("".join(units), starts, ends)

    def _of(self, text: str, starts: I64, ends: I64) -> "_Tracked":
        return _Tracked(text, self.normalisation, starts, ends)


def _original(text: str, normalisation: Normalisation, starts: I64, ends: I64) -> tuple[I64, I64]:
    """Return the places of words in the original text, from those in the normalised one."""
    if not normalisation.fold:
        return _original_without_fold(text, normalisation, starts, ends)
    positions = np.arange(len(text))
    tracked = _Tracked(text, replace(normalisation, fold=()), positions, positions + 1)
    folded = fold(tracked, normalisation.fold)
    return folded.starts[starts], folded.ends[ends - 1]


def _original_without_fold(
    text: str, normalisation: Normalisation, starts: I64, ends: I64
) -> tuple[I64, I64]:
    """Return the places of words in the original text, as `_original`.

    Nothing acts across a line feed, and characters that act on others are in few lines.
    """
    if text.isascii():
        return starts, ends
    first, last = list[I64](), list[I64]()
    position = 0
    for lines in _stretches(text, acting_characters(text, normalisation)):
        # The place in the text of each character of the normalised lines.
        lengths = lengths_of(lines, normalisation)
        if lengths is not None:
            characters = position + np.repeat(np.arange(len(lines)), lengths)
            first.append(characters)
            last.append(characters + 1)
        else:
            positions = position + np.arange(len(lines))
            tracked = _Tracked(lines, normalisation, positions, positions + 1).normalise()
            first.append(tracked.starts)
            last.append(tracked.ends)
        position += len(lines)
    return np.concatenate(first)[starts], np.concatenate(last)[ends - 1]


def _stretches(text: str, acting: I64) -> list[str]:
    """Return a text in stretches of lines; each line with an acting character is one of its own.

    acting: the positions of these characters, ascending.
    """
    stretches, position = list[str](), 0
    for character in acting.tolist():
        if character < position:
            continue
        start = text.rfind("\n", 0, character) + 1
        stretches.append(text[position:start])
        position = text.find("\n", character) + 1 or len(text)
        stretches.append(text[start:position])
    stretches.append(text[position:])
    return [stretch for stretch in stretches if stretch]


def _acts_backwards(character: str) -> bool:
    """Return whether a character may change or compose with the one before it."""
    if character.isascii():
        return False
    first = unicodedata.normalize("NFKD", character)[0]
    # Besides marks, only the vowels and finals of Hangul syllables do so.
    return unicodedata.category(first).startswith("M") or (
        "\u1161" <= first <= "\u1175" or "\u11a8" <= first <= "\u11c2"
    )
