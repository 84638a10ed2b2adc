"""Cut spans from texts, with the punctuation and the blanks that would be left around them."""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from esdedup.text.characters import IGNORED, MARK, SYMBOL, WORD, character_classes

Interval = tuple[int, int]
"""The first character, and the end."""
Part = Literal["sentences", "lines"]

_CLOSING = ".!?…,;:。！？，；：、｡"
_PAIRS = {*zip("\"'([{“‘«（「『【", "\"')]}”’»）」』】", strict=True)}
_CLOSER_OF = dict(zip("([{“«（「『【", ")]}”»）」』】", strict=True))
_BRACKET = re.compile("[" + re.escape("".join([*_CLOSER_OF, *_CLOSER_OF.values()])) + "]")
_MARKS = '"*'
"""Quotes and stars of emphasis, which open and close: a cut with an odd number opens one."""
_SENTENCE_END = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s|$)|[。！？｡]+[”’」』）]*|\n+""")


@dataclass(frozen=True)
class Remainder:
    """The rest of a text after cuts.

    original: the text.
    intervals: those of it that are left, in order.
    """

    original: str
    intervals: Sequence[Interval]

    @cached_property
    def text(self) -> str:
        """The rest, joined."""
        return "".join(self.original[start:end] for start, end in self.intervals)

    @cached_property
    def _starts(self) -> list[int]:
        """The start of each interval in the joined text, and the end of the last one."""
        return [0, *itertools.accumulate(end - start for start, end in self.intervals)]

    def original_interval(self, start: int, end: int) -> Interval:
        """Return the interval of the original text, with the cuts in it. start: in the rest."""
        return self._original_position(start), self._original_position(end - 1) + 1

    def _original_position(self, position: int) -> int:
        row = bisect_right(self._starts, position) - 1
        return self.intervals[row][0] + position - self._starts[row]


def without_spans(text: str, spans: Sequence[Interval], *, whole_sentences: bool = False) -> str:
    """Return a text without spans, as `remainder_of`."""
    return remainder_of(text, spans, whole_sentences=whole_sentences).text


def remainder_of(
    text: str, spans: Sequence[Interval], *, whole_sentences: bool = False
) -> Remainder:
    """Return the rest of a text without spans, which may overlap. spans: by start.

    With each go its closing punctuation, quotes or brackets that would be empty, those right after
    it that close what it opens, and one of the two blanks around it: that with more line breaks
    stays, at the beginning or end none but the outer.

    whole_sentences: cut all sentences that a span has a part of.
    """
    if whole_sentences:
        spans = _sentences(text, spans)
    return Remainder(text, _remaining(text, spans))


def without_words(text: str, spans: Sequence[Interval]) -> str:
    """Return a text without spans of whole words, as `remainder_of`.

    Two words that would become one get a blank between them.
    """
    remaining = [text[start:end] for start, end in _remaining(text, spans) if start < end]
    joined = remaining[:1]
    for before, after in itertools.pairwise(remaining):
        joined += [" ", after] if _are_one_word(before, after) else [after]
    return "".join(joined)


def parts_of(text: str, part: Part) -> list[Interval]:
    """Return the sentences or the lines of a text, without the blanks between them."""
    if part == "sentences":
        starts, ends = _edges_of_sentences(text)
    else:
        line_feeds = [match.start() for match in re.finditer("\n", text)]
        starts, ends = [0, *(end + 1 for end in line_feeds)], [*line_feeds, len(text)]
    intervals = list[Interval]()
    for start, end in zip(starts, ends, strict=True):
        content = text[start:end]
        if not content.isspace() and content:
            first = start + len(content) - len(content.lstrip())
            intervals.append((first, start + len(content.rstrip())))
    return intervals


def _are_one_word(before: str, after: str) -> bool:
    """Return whether a word would go from the end of a text to the beginning of another one."""
    classes = character_classes()
    # What belongs to the character before it, or is dropped, ends no word.
    last = next((c for c in reversed(before) if classes[ord(c)] not in (MARK, IGNORED)), " ")
    first = next((c for c in after if classes[ord(c)] != IGNORED), " ")
    is_word = classes[ord(last)] == classes[ord(first)] == WORD
    return is_word or (last == first and classes[ord(last)] == SYMBOL)


def _remaining(text: str, spans: Sequence[Interval]) -> list[Interval]:
    """Return the pieces of a text before, between and after spans."""
    cuts = [_with_punctuation(text, cut) for cut in _joined(text, spans)]
    position, pieces = 0, list[Interval]()
    for start, end in _joined(text, cuts):
        start, end = _with_blank(text, start, end)
        pieces.append((position, start))
        position = end
    return [*pieces, (position, len(text))]


def _joined(text: str, spans: Iterable[Interval]) -> list[Interval]:
    """Return spans of which no two overlap, or have only blanks between them."""
    joined = list[Interval]()
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip():
            first, last = joined.pop()
            joined.append((first, max(last, end)))
        else:
            joined.append((start, end))
    return joined


def _sentences(text: str, spans: Iterable[Interval]) -> list[Interval]:
    """Return the sentences that spans have a part of."""
    starts, ends = _edges_of_sentences(text)
    sentences = list[Interval]()
    for start, end in spans:
        first = starts[bisect_right(starts, start) - 1]
        leading = text[first:start]
        # The blank between two sentences is of neither.
        first += len(leading) - len(leading.lstrip())
        sentences.append((first, ends[bisect_left(ends, end)]))
    return sentences


def _edges_of_sentences(text: str) -> tuple[list[int], list[int]]:
    """Return the starts and the ends of sentences. A line break ends a sentence, too."""
    ends, starts = list[int](), [0]
    for match in _SENTENCE_END.finditer(text):
        is_line_break = match[0].startswith("\n")
        ends.append(match.start() if is_line_break else match.end())
        starts.append(match.end())
    return starts, [*ends, len(text)]


def _with_punctuation(text: str, cut: Interval) -> Interval:
    """Return a cut with its closing punctuation, and the quotes or brackets of only that."""
    start, end = cut
    brackets, marks = _unclosed(text[start:end])
    while end < len(text):
        if text[end] in _CLOSING:
            end += 1
        elif brackets[-1:] == [text[end]]:
            brackets.pop()
            end += 1
        elif text[end] in marks:
            marks.remove(text[end])
            end += 1
        elif start and (text[start - 1], text[end]) in _PAIRS:
            start, end = start - 1, end + 1
        else:
            break
    return start, end


def _unclosed(cut: str) -> tuple[list[str], set[str]]:
    """Return what closes the brackets that a cut opens, the next one last, and its single marks."""
    brackets = list[str]()
    for match in _BRACKET.finditer(cut):
        if match[0] in _CLOSER_OF:
            brackets.append(_CLOSER_OF[match[0]])
        elif brackets[-1:] == [match[0]]:
            brackets.pop()
    return brackets, {mark for mark in _MARKS if cut.count(mark) % 2}


def _with_blank(text: str, start: int, end: int) -> Interval:
    """Return a cut with one of the blanks before and after it, if there are two."""
    before, after = start, end
    while before and text[before - 1].isspace():
        before -= 1
    while after < len(text) and text[after].isspace():
        after += 1
    if after == len(text):
        # The end of the text: a line break that ends it stays.
        return before, end
    if not before:
        return start, after
    if before == start or after == end:
        return start, end
    if text.count("\n", before, start) > text.count("\n", end, after):
        return start, after
    return before, end
