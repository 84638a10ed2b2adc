"""A text cut to what differs from another, with a little of what both share around it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from esdedup.text.highlight import MarkedText, Span, shared_cuts

_CONTEXT = 12
"""Words kept at either end of what is shared."""
_FEWEST_LEFT_OUT = 40
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
        if end - start >= _FEWEST_LEFT_OUT
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
