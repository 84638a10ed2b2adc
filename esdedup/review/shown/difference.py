"""Mark every difference between two texts, and cut them to excerpts around the differences.

Texts are aligned by words and single other characters (`alignment`). A difference is *ignored* if
the comparison sees the same words there: a difference in case, punctuation or spaces. It is judged
together with what touches it, because a symbol may be a part of a word.
"""

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from esdedup.review.shown.alignment import Region, aligned
from esdedup.sketch.scheme import Scheme
from esdedup.text.arrays import I64
from esdedup.text.characters import IGNORED, MARK, WORD, character_classes, code_points
from esdedup.text.highlight import MarkedText
from esdedup.text.normalise import normalise
from esdedup.text.words import tokenise

_MOST_UNITS = 1_000_000
"""Words and other characters of a text that are aligned: about two seconds for two such texts."""
_MOST_BESIDE = 20
"""Units on either side of a difference that decide whether it is ignored."""
_EDGE = 120
"""Characters that are kept at either end of a piece that is longer than three of them."""

_CONTEXT = 60
"""Characters that are shown on either side of a change."""
_LONGEST_WORD = 20
"""Characters within which an excerpt ends at a space, so that no word is cut."""
_MOST_IGNORED = 0.3
"""Ignored differences are marked up to this fraction of the words: more of them hide the others."""

Kind = Literal["", "differs", "ignored", "removed", "added"]
"""How a piece differs: the last two are of a text that shows those words of another one too."""


class TextPiece(NamedTuple):
    """A piece of a text.

    text: empty if characters are left out here.
    kind: how it differs from the other text.
    left_out: number of characters that are left out here.
    """

    text: str
    kind: Kind = ""
    left_out: int = 0


class Difference(NamedTuple):
    """A difference in a text.

    start, end: it is text[start:end], which may be empty.
    kind: whether the comparison ignores it.
    """

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
    left_edges, right_edges = edges = [_edges(text) for text in texts]
    if max(len(left_edges), len(right_edges)) > _MOST_UNITS:
        return None
    left_units, right_units = (
        [text[start:end] for start, end in itertools.pairwise(text_edges)]
        for text, text_edges in zip(texts, edges, strict=True)
    )
    regions = _regions(left_units, right_units, scheme)
    kinds = _kinds(left_units, right_units, regions, scheme)
    left_differences = [
        Difference(left_edges[region.left_start], left_edges[region.left_end], kind)
        for region, kind in zip(regions, kinds, strict=True)
    ]
    right_differences = [
        Difference(right_edges[region.right_start], right_edges[region.right_end], kind)
        for region, kind in zip(regions, kinds, strict=True)
    ]
    return left_differences, right_differences


def _regions(left_units: Sequence[str], right_units: Sequence[str], scheme: Scheme) -> list[Region]:
    """Return the regions of different units, in order; those that touch each other are one."""
    left_keys = normalise(left_units, scheme.normalisation)
    right_keys = normalise(right_units, scheme.normalisation)
    regions: list[Region] = []
    for region, is_equal in aligned(left_keys, right_keys):
        if is_equal:
            rows = zip(
                range(region.left_start, region.left_end),
                range(region.right_start, region.right_end),
                strict=True,
            )
            # Equal once normalised: each unit is a difference that is judged by itself.
            regions += [
                Region(left, left + 1, right, right + 1)
                for left, right in rows
                if left_units[left] != right_units[right]
            ]
            continue
        last = regions[-1] if regions else None
        if last and (last.left_end, last.right_end) == (region.left_start, region.right_start):
            regions[-1] = last._replace(left_end=region.left_end, right_end=region.right_end)
        else:
            regions.append(region)
    return regions


def outside_passages(text: MarkedText) -> list[Difference]:
    """Return the stretches outside of passages, of a text in which these are marked."""
    stretches, passage_end = [], 0
    for start, end in [*text.shared, (len(text.text), 0)]:
        if passage_end < start:
            stretches.append(Difference(passage_end, start, "differs"))
        passage_end = end
    return stretches


def _edges(text: str) -> list[int]:
    """Return the starts of the words and other characters of a text, and its end."""
    kinds = character_classes()[code_points(text)]
    behind = (kinds == MARK) | (kinds == IGNORED)
    positions = np.arange(kinds.size)
    # Of the character that a mark or an ignored one follows.
    base = kinds[np.maximum.accumulate(np.where(behind, 0, positions))]
    joined = behind[1:] | ((base[1:] == WORD) & (base[:-1] == WORD))
    starts: I64 = np.flatnonzero(np.concatenate(([True], ~joined))) if text else positions
    return [*starts.tolist(), len(text)]


def _kinds(
    left_units: Sequence[str],
    right_units: Sequence[str],
    regions: Sequence[Region],
    scheme: Scheme,
) -> list[Kind]:
    """Return whether the comparison sees each region of different units, with what touches it."""
    texts = []
    for left_start, left_end, right_start, right_end in regions:
        before = _touching(left_units[max(0, left_start - _MOST_BESIDE) : left_start][::-1])
        behind = _touching(left_units[left_end : left_end + _MOST_BESIDE])
        texts.append("".join(left_units[left_start - before : left_end + behind]))
        texts.append("".join(right_units[max(0, right_start - before) : right_end + behind]))
    words = tokenise(normalise(texts, scheme.normalisation), scheme.shingling, scheme.seed)
    words_of_texts = [words[row].tobytes() for row in range(len(texts))]
    pairs = zip(words_of_texts[::2], words_of_texts[1::2], strict=True)
    return ["ignored" if left == right else "differs" for left, right in pairs]


def changes(
    texts: tuple[str, str],
    spans: tuple[Sequence[Difference], Sequence[Difference]],
    most: int,
    *,
    all_ignored: bool = False,
) -> tuple[TextPiece, ...]:
    """Return the second text where it differs from the first, with a few words around each change.

    Words of the first text precede the words that are in their place. texts: the first and the
    second one. spans: their `differences`. most: characters, about. all_ignored: mark ignored
    differences even if they are more than 30% of the words.
    """
    first, second = texts
    pairs = [*zip(*spans, strict=True)]
    ignored = sum(new.kind == "ignored" for _, new in pairs)
    if not all_ignored and ignored > _MOST_IGNORED * len(second.split()):
        pairs = [pair for pair in pairs if pair[1].kind != "ignored"]
    changed: list[TextPiece] = []
    end_of_last = shown = 0
    for position, (old, new) in enumerate(pairs):
        changed += _between(second[end_of_last : new.start], first=not position, last=False)
        new_text = second[new.start : new.end]
        if new.kind == "ignored":
            changed += _cut(new_text or "\u00a0", "ignored", most - shown)
        else:
            changed += _replaced(first[old.start : old.end])
            changed += _cut(new_text, "added", most - shown)
        end_of_last = new.end
        shown = sum(len(piece.text) for piece in changed)
        if shown > most:
            break
    end_of_text = second[end_of_last:]
    if not pairs:
        return _beginning(end_of_text)
    return (*changed, *_between(end_of_text, first=False, last=True))


def around(text: str, spans: Sequence[Difference]) -> tuple[TextPiece, ...]:
    """Return some places of a text with a few words around each; its beginning without places."""
    if not spans:
        return _beginning(text)
    text_pieces: list[TextPiece] = []
    end_of_last = 0
    for position, (start, end, kind) in enumerate(spans):
        text_pieces += _between(text[end_of_last:start], first=not position, last=False)
        text_pieces.append(TextPiece(text[start:end], kind))
        end_of_last = end
    return (*text_pieces, *_between(text[end_of_last:], first=False, last=True))


def _beginning(text: str) -> tuple[TextPiece, ...]:
    beginning = first_words(text, 4 * _CONTEXT)
    if len(beginning) == len(text):
        return (TextPiece(text),)
    return TextPiece(beginning), TextPiece("", left_out=len(text) - len(beginning))


def _replaced(text: str) -> list[TextPiece]:
    """Return a text that another one replaces, as one piece, cut to its ends if it is long."""
    if len(text) > 3 * _EDGE:
        text = f"{text[:_EDGE]} … {text[-_EDGE:]}"
    return [TextPiece(text, "removed")] if text else []


def _cut(text: str, kind: Kind, most: int) -> list[TextPiece]:
    """Return a text of up to about `most` characters, of a longer one its beginning and its end."""
    most = max(most, 3 * _EDGE)
    if len(text) <= most:
        return [TextPiece(text, kind)] if text else []
    return [
        TextPiece(text[: most - _EDGE], kind),
        TextPiece("", left_out=len(text) - most),
        TextPiece(text[-_EDGE:], kind),
    ]


def _between(text: str, *, first: bool, last: bool) -> list[TextPiece]:
    """Return an equal stretch of text between changes, of which a long one is cut.

    first, last: whether no change precedes it, or follows it.
    """
    if first and last:
        return [TextPiece(text)]
    head, tail = 0 if first else _CONTEXT, 0 if last else _CONTEXT
    if len(text) <= head + tail + _CONTEXT:
        return [TextPiece(text)] if text else []
    start_of_text, end_of_text = first_words(text, head), _last_words(text, tail)
    left_out = len(text) - len(start_of_text) - len(end_of_text)
    kept = [TextPiece(start_of_text), TextPiece("", left_out=left_out), TextPiece(end_of_text)]
    return [piece for piece in kept if piece.text or piece.left_out]


def first_words(text: str, most: int) -> str:
    """Return the beginning of a text up to `most` characters, up to a space if one is near."""
    if len(text) <= most:
        return text
    space = text.rfind(" ", max(0, most - _LONGEST_WORD), most + 1)
    return text[: most if space <= 0 else space]


def _last_words(text: str, most: int) -> str:
    start = len(text) - most
    space = text.find(" ", start, start + _LONGEST_WORD)
    return text[start if space < 0 else space + 1 :]


def _touching(units: Sequence[str]) -> int:
    """Return the number of units before the first space."""
    return len([*itertools.takewhile(lambda unit: not unit.isspace(), units)])


def pieces(text: str, spans: Sequence[Difference], most: int) -> tuple[TextPiece, ...]:
    """Return a text in pieces around its differences, in order, up to about `most` characters."""
    stretches: list[Difference] = []
    last_end = 0
    for span in [*spans, Difference(len(text), len(text), "")]:
        for stretch in (Difference(last_end, span.start, ""), span):
            if spans and stretch.end - stretch.start > 3 * _EDGE and len(text) > most:
                stretches.append(stretch._replace(end=stretch.start + _EDGE))
                stretches.append(stretch._replace(start=stretch.end - _EDGE))
            else:
                stretches.append(stretch)
        last_end = span.end
    text_pieces: list[TextPiece] = []
    shown_end = shown_characters = 0
    for start, end, kind in stretches:
        end = min(end, start + most - shown_characters)
        if start < end:
            if shown_end < start:
                text_pieces.append(TextPiece("", left_out=start - shown_end))
            text_pieces.append(TextPiece(text[start:end], kind))
            shown_end = end
            shown_characters += end - start
    if shown_end < len(text):
        text_pieces.append(TextPiece("", left_out=len(text) - shown_end))
    return tuple(text_pieces)
