"""Cut spans from texts, with the punctuation and the blanks that would be left around them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
"""The first character, and the end."""

_CLOSING = ".!?…,;:。！？，；：、｡"
_PAIRS = {*zip("\"'([{“‘«（「『【", "\"')]}”’»）」』】", strict=True)}
_SENTENCE_END = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s|$)|[。！？｡]+[”’」』）]*|\n+""")


def without_spans(text: str, spans: Sequence[Interval], *, whole_sentences: bool = False) -> str:
    """Return a text without spans, which may overlap. spans: by start.

    With each go its closing punctuation, quotes or brackets that would be empty, and one of the two
    blanks around it: that with more line breaks stays, at the beginning or end none but the outer.

    whole_sentences: cut all sentences that a span has a part of.
    """
    if whole_sentences:
        spans = _sentences(text, spans)
    cuts = [_with_punctuation(text, cut) for cut in _joined(text, spans)]
    position, pieces = 0, list[str]()
    for start, end in _joined(text, cuts):
        start, end = _with_blank(text, start, end)
        pieces.append(text[position:start])
        position = end
    return "".join([*pieces, text[position:]])


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
    """Return the sentences that spans have a part of. A line break ends a sentence, too."""
    ends, starts = list[int](), [0]
    for match in _SENTENCE_END.finditer(text):
        is_line_break = match[0].startswith("\n")
        ends.append(match.start() if is_line_break else match.end())
        starts.append(match.end())
    ends.append(len(text))
    sentences = list[Interval]()
    for start, end in spans:
        first = starts[bisect_right(starts, start) - 1]
        leading = text[first:start]
        # The blank between two sentences is of neither.
        first += len(leading) - len(leading.lstrip())
        sentences.append((first, ends[bisect_left(ends, end)]))
    return sentences


def _with_punctuation(text: str, cut: Interval) -> Interval:
    """Return a cut with its closing punctuation, and the quotes or brackets around only that."""
    start, end = cut
    while end < len(text):
        if text[end] in _CLOSING:
            end += 1
        elif start and (text[start - 1], text[end]) in _PAIRS:
            start, end = start - 1, end + 1
        else:
            break
    return start, end


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
