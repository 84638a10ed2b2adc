"""Mark every difference between two texts, and cut them to excerpts around the differences.

Texts are aligned by words and single other characters with Levenshtein's distance (RapidFuzz, bit
by bit in parallel after Hyyrö, 2003). A difference is *ignored* if the comparison sees the same
words there: a difference in case, punctuation or spaces. It is judged together with what touches
it, because a symbol may be a part of a word.
"""

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from esdedup.sketch.scheme import Scheme
from esdedup.text.arrays import I64
from esdedup.text.characters import IGNORED, MARK, WORD, character_classes, code_points
from esdedup.text.highlight import MarkedText
from esdedup.text.normalise import normalise
from esdedup.text.words import tokenise

_MOST_UNITS = 60_000
"""Words and other characters of a text that are aligned: about a second for two such texts."""
_MOST_BESIDE = 20
"""Units on either side of a difference that decide whether it is ignored."""
_EDGE = 120
"""Characters that are kept at either end of a piece that is longer than three of them."""

Kind = Literal["", "differs", "ignored"]


class TextPiece(NamedTuple):
    """A piece of a text. If `text` is empty, `left_out` characters are left out here."""

    text: str
    kind: Kind = ""
    left_out: int = 0


class Difference(NamedTuple):
    """A difference in a text, text[start:end], which may be empty."""

    start: int
    end: int
    kind: Kind


def differences(
    left: str, right: str, scheme: Scheme
) -> tuple[list[Difference], list[Difference]] | None:
    """Return the differences of both texts, in order; None if the texts are too long.

    Item i of one list is in place of item i of the other.
    """
    texts = left, right
    edges = [_edges(text) for text in texts]
    if max(len(each) for each in edges) > _MOST_UNITS:
        return None
    units = [
        [text[a:b] for a, b in itertools.pairwise(each)]
        for text, each in zip(texts, edges, strict=True)
    ]
    keys = [normalise(each, scheme.normalisation) for each in units]
    regions: list[list[int]] = []
    for each in Levenshtein.opcodes(*keys):
        start, end, first, last = each.src_start, each.src_end, each.dest_start, each.dest_end
        if each.tag == "equal":
            pairs = zip(range(start, end), range(first, last), strict=True)
            regions += [[i, i + 1, j, j + 1] for i, j in pairs if units[0][i] != units[1][j]]
        elif regions and regions[-1][1] == start and regions[-1][3] == first:
            regions[-1][1::2] = end, last
        else:
            regions.append([start, end, first, last])
    kinds = _kinds(units, regions, scheme)
    one, other = (
        [
            Difference(each[region[at]], each[region[at + 1]], kind)
            for region, kind in zip(regions, kinds, strict=True)
        ]
        for at, each in zip((0, 2), edges, strict=True)
    )
    return one, other


def outside_passages(text: MarkedText) -> list[Difference]:
    """Return the stretches outside of passages, of a text in which these are marked."""
    found, at = [], 0
    for start, end in [*text.shared, (len(text.text), 0)]:
        if at < start:
            found.append(Difference(at, start, "differs"))
        at = end
    return found


def _edges(text: str) -> list[int]:
    """Return the starts of the words and other characters of a text, and its end."""
    kinds = character_classes()[code_points(text)]
    behind = (kinds == MARK) | (kinds == IGNORED)
    at = np.arange(kinds.size)
    base = kinds[np.maximum.accumulate(np.where(behind, 0, at))]
    joined = behind[1:] | ((base[1:] == WORD) & (base[:-1] == WORD))
    starts: I64 = np.flatnonzero(np.concatenate(([True], ~joined))) if text else at
    return [*starts.tolist(), len(text)]


def _kinds(
    units: Sequence[Sequence[str]], regions: Sequence[Sequence[int]], scheme: Scheme
) -> list[Kind]:
    """Whether the comparison sees each region of different units, with what touches it."""
    written = []
    for start, end, first, last in regions:
        left = _touching(units[0][max(0, start - _MOST_BESIDE) : start][::-1])
        right = _touching(units[0][end : end + _MOST_BESIDE])
        written.append("".join(units[0][start - left : end + right]))
        written.append("".join(units[1][max(0, first - left) : last + right]))
    words = tokenise(normalise(written, scheme.normalisation), scheme.shingling, scheme.seed)
    rows = [words[row].tobytes() for row in range(len(written))]
    return [
        "ignored" if one == other else "differs"
        for one, other in zip(rows[::2], rows[1::2], strict=True)
    ]


def _touching(units: Sequence[str]) -> int:
    """Return the number of units before the first space."""
    return len([*itertools.takewhile(lambda unit: not unit.isspace(), units)])


def pieces(text: str, spans: Sequence[Difference], most: int) -> tuple[TextPiece, ...]:
    """Return a text in pieces around its differences, in order, up to about `most` characters."""
    parts: list[Difference] = []
    at = 0
    for span in [*spans, Difference(len(text), len(text), "")]:
        for each in (Difference(at, span.start, ""), span):
            if spans and each.end - each.start > 3 * _EDGE and len(text) > most:
                parts.append(each._replace(end=each.start + _EDGE))
                parts.append(each._replace(start=each.end - _EDGE))
            else:
                parts.append(each)
        at = span.end
    found: list[TextPiece] = []
    at = kept = 0
    for start, end, kind in parts:
        end = min(end, start + most - kept)
        if start < end:
            if at < start:
                found.append(TextPiece("", left_out=start - at))
            found.append(TextPiece(text[start:end], kind))
            at, kept = end, kept + end - start
    if at < len(text):
        found.append(TextPiece("", left_out=len(text) - at))
    return tuple(found)
