"""Normalises texts by Unicode form and case folding, with the same result on every Python.

Unicode promises that the normal form and the case folding of an assigned character never change
(Unicode Standard Annex 15, section 3, and the stability policy). A character that Unicode 14.0 does
not assign stays as it is, even if this Python knows it.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from esdedup.arguments import check_fields
from esdedup.exceptions import UsageError
from esdedup.text.arrays import U32
from esdedup.text.characters import code_points, unassigned

Form = Literal["NFC", "NFKC", "none"]


@dataclass(frozen=True)
class Normalisation:
    """How a text is normalised before it is split.

    form: the Unicode normal form ("NFKC", "NFC") or "none".
    casefold: remove differences of case, by full Unicode case folding.
    Raises UsageError for an unknown form.
    """

    form: Form = "NFKC"
    casefold: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        if self.form not in get_args(Form):
            raise UsageError(f"normalisation form {self.form!r}: use NFKC, NFC or none")


def normalise(texts: Sequence[str], normalisation: Normalisation) -> list[str]:
    """The normalised texts, in order. Normalising twice changes nothing."""
    # ASCII is in every normal form, and folding it is lowering it.
    fold = normalisation.casefold
    normalised = [text.lower() if fold and text.isascii() else text for text in texts]
    rows = [row for row, text in enumerate(texts) if not text.isascii()]
    if rows:
        others = _normalise_others([texts[row] for row in rows], normalisation)
        for row, text in zip(rows, others, strict=True):
            normalised[row] = text
    return normalised


def _normalise_others(texts: list[str], normalisation: Normalisation) -> list[str]:
    joined = "".join(texts)
    points = code_points(joined)
    if unassigned().take(points).any():
        return [_normalise_around_young(text, normalisation) for text in texts]
    if normalisation.form == "NFKC":
        joined = _narrowed(joined, points)
    spans = list(itertools.pairwise(itertools.accumulate(map(len, texts), initial=0)))
    folded = joined.casefold() if normalisation.casefold else joined
    # Folding removes no character, so an equal length means one character for each. And every part
    # of a text in a normal form is in that form.
    form = normalisation.form
    if len(folded) == len(joined) and (
        form == "none" or all(unicodedata.is_normalized(form, each) for each in {joined, folded})
    ):
        return [folded[a:b] for a, b in spans]
    return [_normalise_assigned(joined[a:b], normalisation) for a, b in spans]


def _narrowed(text: str, points: U32) -> str:
    """Replaces each full-width form by its ASCII character.

    NFKC would do so too, but takes ten times as long for a text that has any. Nearly all Chinese
    texts have some, in their punctuation. If none is left, NFKC sees at once that nothing is to do.
    """
    wide = (points >= 0xFF01) & (points <= 0xFF5E)
    space = points == 0x3000
    if not (wide.any() or space.any()):
        return text
    narrow = np.where(wide, points - np.uint32(0xFEE0), points)
    narrow[space] = 0x20
    return narrow.tobytes().decode("utf-32-le", "surrogatepass")


def _normalise_assigned(text: str, normalisation: Normalisation) -> str:
    form = normalisation.form
    if form != "none":
        text = unicodedata.normalize(form, text)
    if not normalisation.casefold:
        return text
    folded = text.casefold()
    # Folding can leave the normal form (U+0390 folds to three characters).
    return folded if form == "none" or folded == text else unicodedata.normalize(form, folded)


def _normalise_around_young(text: str, normalisation: Normalisation) -> str:
    """Normalises the runs of characters that Unicode 14.0 assigns, and keeps the others."""
    table = unassigned()
    return "".join(
        "".join(run) if young else _normalise_assigned("".join(run), normalisation)
        for young, run in itertools.groupby(text, lambda c: bool(table[ord(c)]))
    )
