"""Show where two texts differ, in one line of a table for each."""

import re
from difflib import SequenceMatcher

from esdedup.cli.output import only_plain, snippet

_WORD = re.compile(r"[\u3000-\u9fff\uac00-\ud7af]|[^\s\u3000-\u9fff\uac00-\ud7af]+")
"""A word; characters of Chinese, Japanese and Korean are words by themselves."""
_BEFORE = 3
"""Words that are shown before the first difference."""
Range = tuple[int, int]


def with_differences(text: str, other: str) -> tuple[str, str]:
    """Return the line of each of two texts, from shortly before the first word that differs.

    Words that differ are in brackets, but for those that follow the end of the other text: both
    texts may be truncated, and a document goes on after an item that it contains.
    """
    words, other_words = (_compared_words(piece) for piece in (text, other))
    matcher = SequenceMatcher(None, words, other_words, autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    if changes and changes[-1][0] != "replace":
        _, _, end, _, other_end = changes[-1]
        if (end, other_end) == (len(words), len(other_words)):
            changes.pop()
    return (
        _line(text, [(start, end) for _, start, end, _, _ in changes]),
        _line(other, [(start, end) for _, _, _, start, end in changes]),
    )


def _compared_words(text: str) -> list[str]:
    """Return the words of a text as they are compared: without case and punctuation."""
    return ["".join(filter(str.isalnum, word.casefold())) or word for word in _WORD.findall(text)]


def _line(text: str, changes: list[Range]) -> str:
    """Return a text from its first change on, with brackets. changes: ranges of its words."""
    if not changes:
        return snippet(text)
    opened, closed = ("[[", "]]") if only_plain() else ("⟦", "⟧")
    spans = [match.span() for match in _WORD.finditer(text)]
    first = max(0, changes[0][0] - _BEFORE)
    pieces = ["… "] if first else []
    position = spans[first][0] if first < len(spans) else len(text)
    for start, end in changes:
        if start == end:
            continue
        (begin, _), (_, stop) = spans[start], spans[end - 1]
        pieces += [text[position:begin], opened, text[begin:stop], closed]
        position = stop
    return snippet("".join([*pieces, text[position:]]))
