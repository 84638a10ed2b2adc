"""Normalisation of texts: Unicode form and case folding, the same on every Python.

Unicode promises that the normal form and the case folding of an assigned character never
change (Unicode Standard Annex 15, section 3, and the stability policy). Characters younger than
Unicode 14.0 are left as they are, whatever this Python knows of them.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from esdedup.characters import code_points, unassigned
from esdedup.exceptions import UsageError

Form = Literal["NFC", "NFKC", "none"]


@dataclass(frozen=True)
class Normalisation:
    """How a text is normalised before it is split.

    form: the Unicode normal form ("NFKC", "NFC") or "none".
    casefold: whether differences of case are removed (full Unicode case folding).

    Raises UsageError for a form of another name.
    """

    form: Form = "NFKC"
    casefold: bool = True

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise UsageError(f"normalisation form {self.form!r}: use NFKC, NFC or none")


def normalise(texts: Sequence[str], normalisation: Normalisation) -> list[str]:
    """The normalised texts, in order. Normalising twice changes nothing."""
    young = _has_young("".join(text for text in texts if not text.isascii()))
    normalise_one = _normalise_around_young if young else _normalise_assigned
    # ASCII is in every normal form, and folding it is lowering it.
    if normalisation.casefold:
        return [
            text.lower() if text.isascii() else normalise_one(text, normalisation) for text in texts
        ]
    return [text if text.isascii() else normalise_one(text, normalisation) for text in texts]


def _normalise_assigned(text: str, normalisation: Normalisation) -> str:
    form = normalisation.form
    if form != "none":
        text = unicodedata.normalize(form, text)
    if not normalisation.casefold:
        return text
    folded = text.casefold()
    # Folding can leave the normal form (U+0390 folds to three characters).
    return folded if form == "none" else unicodedata.normalize(form, folded)


def _has_young(text: str) -> bool:
    return bool(text) and bool(unassigned()[code_points(text)].any())


def _normalise_around_young(text: str, normalisation: Normalisation) -> str:
    table = unassigned()
    return "".join(
        part if young else _normalise_assigned(part, normalisation)
        for young, part in (
            (young, "".join(group))
            for young, group in itertools.groupby(text, lambda c: bool(table[ord(c)]))
        )
    )
