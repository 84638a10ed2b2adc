"""Cut repeated spans from texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import hashed_words
from esdedup.text.arrays import I64, Mask, Ragged, offsets_of, runs_of, spanned
from esdedup.text.cuts import Interval, parts_of, without_words
from esdedup.text.highlight import placed_words

Cut = Literal["words", "sentences", "lines"]
MIN_WORDS = 50
"""Words of a window, as Lee et al. compare 50 tokens."""
_CONNECTORS = frozenset("-‐‑./:_@&'’\\")
"""Characters between the words of a compound, as in paths, versions and addresses."""
START, END, CUT_FROM = range(3)
"""Columns of the spans of a text: the first word, the end, and the first word to cut."""


class TextBlock(NamedTuple):
    """Texts, which a process reads.

    texts: returns them.
    spans: of each text.
    """

    texts: Callable[[], list[str]]
    spans: list[I64]


@dataclass(frozen=True)
class SpanRule:
    """Which spans are cut from documents.

    min_words: minimum number of words of a span.
    max_repeats: spans that do not occur more often stay.
    drop_over: documents that lose a larger fraction of their words to others are dropped.
    cut: "words" to cut spans as they are, or only the "sentences" or "lines" that are whole in one.
    hash_mask: as of `Repetition`.
    words_at_once: likewise.
    bytes_at_once: of texts of documents.
    """

    min_words: int = MIN_WORDS
    max_repeats: int = 1
    drop_over: float = 0.9
    cut: Cut = "words"
    hash_mask: int = (1 << 64) - 1
    words_at_once: int = 1 << 17
    bytes_at_once: int = 1 << 20

    def __post_init__(self) -> None:
        if not 1 <= self.min_words <= 1 << 20:
            raise UsageError(f"min_words {self.min_words}: use 1 to {1 << 20:,}")
        if self.max_repeats < 1:
            raise UsageError(f"max_repeats {self.max_repeats}: use 1 or more")
        if not 0.0 <= self.drop_over <= 1.0:
            raise UsageError(f"drop_over {self.drop_over}: use 0 to 1")
        if self.cut not in ("words", "sentences", "lines"):
            raise UsageError(f"cut {self.cut!r}: use 'words', 'sentences' or 'lines'")

    def to_json(self) -> dict[str, object]:
        """Return the settings."""
        names = ("min_words", "max_repeats", "drop_over", "cut")
        return {name.replace("_", " "): getattr(self, name) for name in names}

    def drops(self, lost: I64, words: I64) -> Mask:
        """Mark documents that lose too much, or all: shape (n,). lost: words that others have."""
        is_dropped: Mask = (lost > 0) & ((lost > self.drop_over * words) | (lost == words))
        return is_dropped


class TextCut(NamedTuple):
    """What a text loses.

    lost: number of words.
    bytes: of its UTF-8.
    cuts: the characters that are cut, shape (m, 2).
    rows: those of its spans that are listed, shape (n,).
    first_words: of these, shape (n,).
    ends: of their words, shape (n,).
    characters: their start and end, shape (n, 2).
    """

    lost: int
    bytes: int
    cuts: I64
    rows: I64
    first_words: I64
    ends: I64
    characters: I64


@dataclass(frozen=True)
class Cutter:
    """Cuts spans from texts.

    rule: which ones.
    scheme: how texts become words.
    """

    rule: SpanRule
    scheme: Scheme

    def words_of(self, block: TextBlock) -> Ragged:
        """Return the hashed words of texts."""
        return hashed_words(block.texts(), self.scheme)[1]

    def cut(self, block: TextBlock) -> list[TextCut]:
        """Return what texts lose. Their spans have the columns `START`, `END` and `CUT_FROM`."""
        return [*map(self._cut, block.texts(), block.spans)]

    def places(self, block: TextBlock) -> I64:
        """Return the first characters and the ends of spans of words, one text after another.

        The columns of the spans are their first words and their ends.
        """
        places = [np.empty((0, 2), np.int64)]
        for text, spans in zip(block.texts(), block.spans, strict=True):
            starts, ends = self._placed(text)
            places.append(np.stack([starts[spans[:, 0]], ends[spans[:, 1] - 1]], axis=1))
        return np.concatenate(places)

    def _placed(self, text: str) -> tuple[I64, I64]:
        """Return the starts and the ends of the words of a text, in characters."""
        scheme = self.scheme
        return placed_words(text, scheme.normalisation, scheme.shingling, scheme.seed)

    def _cut(self, text: str, spans: I64) -> TextCut:
        """Return what a text loses. spans: of the text, as of `cut`."""
        word_starts, word_ends = self._placed(text)
        is_cut = spanned(spans[:, CUT_FROM], spans[:, END], word_starts.size)
        if self.rule.cut == "words":
            first, last = _whole_compounds(text, word_starts, word_ends, runs_of(is_cut))
            is_cut = spanned(first, last, is_cut.size)
            cuts = np.stack([word_starts[first], word_ends[last - 1]], axis=1)
        else:
            bounds = np.array(parts_of(text, self.rule.cut), np.int64).reshape(-1, 2)
            first, last = np.searchsorted(word_starts, bounds.T)
            counts = np.diff(offsets_of(is_cut)[np.stack([first, last])], axis=0)[0]
            is_whole = (last > first) & (counts == last - first)
            cuts = bounds[is_whole]
            is_cut = spanned(first[is_whole], last[is_whole], is_cut.size)
        intervals: list[Interval] = [*map(tuple, cuts.tolist())]
        remainder = without_words(text, intervals)
        listed = _needed(spans[:, START], spans[:, END])
        # A span is listed from the first to the last of its words that are cut.
        positions = np.flatnonzero(is_cut)
        begins = np.searchsorted(positions, spans[listed, CUT_FROM])
        finishes = np.searchsorted(positions, spans[listed, END]) - 1
        has_words = begins <= finishes
        listed = listed[has_words]
        first_words, ends = positions[begins[has_words]], positions[finishes[has_words]] + 1
        characters = np.stack([word_starts[first_words], word_ends[ends - 1]], axis=1)
        lost_bytes = len(_encoded(text)) - len(_encoded(remainder))
        return TextCut(int(is_cut.sum()), lost_bytes, cuts, listed, first_words, ends, characters)


def _whole_compounds(text: str, starts: I64, ends: I64, spans: I64) -> tuple[I64, I64]:
    """Return spans of words without the parts of compounds at their edges: first words and ends.

    A compound is what is written without a blank, such as 6.12, x86-64, or the characters between
    two marks of a script without blanks, whose words are not known. starts, ends: of all words, in
    characters. spans: the first word and the end of each, shape (n, 2).
    """

    def is_inside(word: int) -> bool:
        """Return whether a word goes on with the one before it."""
        if not 0 < word < starts.size:
            return False
        between = text[int(ends[word - 1]) : int(starts[word])]
        return not between or between in _CONNECTORS

    whole = list[tuple[int, int]]()
    for first, last in spans.tolist():
        while first < last and is_inside(first):
            first += 1
        while first < last and is_inside(last):
            last -= 1
        if first < last:
            whole.append((first, last))
    columns = np.array(whole, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _needed(starts: I64, ends: I64) -> I64:
    """Return the spans that cover all that the others do, ascending.

    starts, ends: of spans, both ascending. A text of one repeated phrase has a span for each time
    that it goes on, nearly all of them inside the others.
    """
    chosen = np.arange(starts.size)
    while chosen.size > 2:
        inside = np.zeros(chosen.size, np.bool_)
        inside[1:-1] = ends[chosen[:-2]] >= starts[chosen[2:]]
        # Of neighbours, one stays.
        inside[::2] = False
        if not inside.any():
            break
        chosen = chosen[~inside]
    return chosen
