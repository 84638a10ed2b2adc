"""Normalises texts by Unicode form and case folding, with the same result on every Python.

Unicode promises that the normal form and the case folding of an assigned character never change
(Unicode Standard Annex 15, section 3, and the stability policy). A character that Unicode 14.0 does
not assign stays as it is, even if this Python knows it.

From version 4 of schemes on, NFKC keeps superscripts, subscripts and fractions: 10⁶ is not 106.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from esdedup.arguments import check_fields, check_list
from esdedup.exceptions import UsageError
from esdedup.text.arrays import I64, U32, offsets_of
from esdedup.text.characters import PIECE, VERSION, code_points, pieces, unassigned
from esdedup.text.fold import FOLDS, Fold, Plain, fold

Form = Literal["NFC", "NFKC", "none"]


@dataclass(frozen=True)
class Normalisation:
    """How a text is normalised before it is split.

    form: the Unicode normal form ("NFKC", "NFC") or "none".
    casefold: remove differences of case, by full Unicode case folding.
    fold: spellings of one script to fold: "marks", "arabic", "turkish", "hyphens", "entities".
    version: of the scheme, which sets it.
    Raises UsageError for an unknown form or fold.
    """

    form: Form = "NFKC"
    casefold: bool = True
    fold: Sequence[Fold] = ()
    version: int = field(default=VERSION, kw_only=True, metadata={"of_scheme": True})

    def __post_init__(self) -> None:
        check_fields(self)
        check_list("fold", self.fold)
        for name in self.fold:
            if name not in FOLDS:
                raise UsageError(f"fold {name!r}: use {', '.join(FOLDS)}")
        object.__setattr__(self, "fold", tuple(name for name in FOLDS if name in self.fold))
        if self.fold and self.version < 4:
            raise UsageError("fold needs a scheme of version 4")

    def to_json(self) -> dict[str, object]:
        """Return a JSON object of the parameters, without the version."""
        document: dict[str, object] = {"form": self.form, "casefold": self.casefold}
        # A parameter that is off is left out, so that it does not change the ids of schemes.
        return document | ({"fold": [*self.fold]} if self.fold else {})

    @property
    def keeps_scripts(self) -> bool:
        """Whether superscripts, subscripts and fractions keep their form."""
        return self.form == "NFKC" and self.version > 3


def normalise(texts: Sequence[str], normalisation: Normalisation) -> list[str]:
    """Return the normalised texts, in order. Normalising twice changes nothing."""
    if normalisation.fold:
        return _folded(texts, normalisation)
    # ASCII is in every normal form, and folding it is lowering it.
    casefold = normalisation.casefold
    normalised = [text.lower() if casefold and text.isascii() else text for text in texts]
    short_rows = []
    for row, text in enumerate(texts):
        if text.isascii():
            continue
        if len(text) <= PIECE:
            short_rows.append(row)
            continue
        # U+FDFA grows 18 times, and its own spaces come with the normal form.
        text_pieces = pieces(text, "[ \n\ufdfa]")
        normalised_pieces = (_normalise_unicode([piece], normalisation) for piece in text_pieces)
        normalised[row] = "".join(itertools.chain.from_iterable(normalised_pieces))
    if short_rows:
        short_texts = _normalise_unicode([texts[row] for row in short_rows], normalisation)
        for row, text in zip(short_rows, short_texts, strict=True):
            normalised[row] = text
    return normalised


def lengths_of(text: str, normalisation: Normalisation) -> I64 | None:
    """Return how many characters each character of a text becomes, without a fold: shape (n,).

    None if a character may act on those before it, so that it becomes no characters of its own.
    """
    table = _replacements(replace(normalisation, fold=()))
    points = code_points(text)
    kinds = table.kinds.take(points, mode="clip")
    if (kinds == _ACTING).any():
        return None
    lengths = np.ones(points.size, np.int64)
    longer = np.flatnonzero(kinds == _LONGER)
    lengths[longer] = [1 + len(table.tails[point]) for point in points[longer].tolist()]
    return lengths


def acting_characters(text: str, normalisation: Normalisation) -> I64:
    """Return the positions of characters that may act on those before them, without a fold."""
    table = _replacements(replace(normalisation, fold=()))
    kinds = table.kinds.take(code_points(text), mode="clip")
    return np.flatnonzero(kinds == _ACTING)


def _folded(texts: Sequence[str], normalisation: Normalisation) -> list[str]:
    unfolded = replace(normalisation, fold=())

    def form(text: str) -> str:
        return normalise([text], unfolded)[0]

    return [fold(Plain(text, form), normalisation.fold).text for text in texts]


def _normalise_unicode(texts: list[str], normalisation: Normalisation) -> list[str]:
    """Replace the characters of all texts at once. Texts for which this won't do go one by one."""
    points = code_points("".join(texts))
    if points.size <= _FEW:
        return _one_by_one(texts, normalisation)
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    table = _replacements(normalisation)
    kinds = table.kinds.take(points, mode="clip")
    if not kinds.any():
        return texts
    first = table.first.take(points, mode="clip")
    longer = np.flatnonzero(kinds == _LONGER)
    if longer.size:
        tails = [table.tails[point] for point in points[longer].tolist()]
        counts = np.fromiter(map(len, tails), np.int64, len(tails))
        first = np.insert(first, np.repeat(longer + 1, counts), code_points("".join(tails)))
    added = offsets_of(counts)[np.searchsorted(longer, ends)] if longer.size else 0
    joined = first.tobytes().decode("utf-32-le", "surrogatepass")
    edges = itertools.pairwise([0, *(ends + added).tolist()])
    normalised = [joined[start:end] for start, end in edges]
    acting = np.flatnonzero(kinds == _ACTING)
    acting_rows = [*dict.fromkeys(np.searchsorted(ends, acting, side="right").tolist())]
    acting_texts = [texts[row] for row in acting_rows]
    form = normalisation.form
    if form != "none" and (acting[_LONG_RUN:] - acting[:-_LONG_RUN] == _LONG_RUN).any():
        long_runs = _long_runs(form)
        acting_texts = [
            long_runs.sub(lambda run: _ordered(run[0], form), text) for text in acting_texts
        ]
    for row, text in zip(acting_rows, _one_by_one(acting_texts, normalisation), strict=True):
        normalised[row] = text
    return normalised


def _one_by_one(texts: list[str], normalisation: Normalisation) -> list[str]:
    kind = _unusual().take(code_points("".join(texts))).max(initial=_PLAIN)
    functions = {_PLAIN: _normalise_plainly, _SCRIPT: _normalise_assigned}
    normalise_text = functions.get(int(kind), _normalise_around_young)
    return [normalise_text(text, normalisation) for text in texts]


@dataclass(frozen=True, eq=False)
class _Replacements:
    """The normal form of each character that acts on no character before it, by its code point.

    A text of such characters is normalised by replacing each one (Unicode Standard Annex 15,
    section 9.1).

    kinds: _SAME, _ONE, _LONGER or _ACTING, shape (_TABLED_TO + 1,). The last one stands for all
        later characters, as that of `first` does.
    first: the first character of the normal form, shape (_TABLED_TO + 1,).
    tails: the other characters of the _LONGER ones.
    """

    kinds: NDArray[np.uint8]
    first: U32
    tails: dict[int, str]


_SAME, _ONE, _LONGER, _ACTING = range(4)
"""The character stays, becomes one other, becomes several, or may act on those before it."""
_UNCHANGED = ((0x3400, 0xA000), (0xAC00, 0xD7A4), (0xD800, 0xF900))
"""Han characters, syllables of Hangul, surrogates and private use: no normal form changes them."""
_TABLED = (*range(0x80, 0x3400), *range(0xA000, 0xAC00), *range(0xF900, 0x10000))
_TABLED += (*range(0x1F000, 0x1FB00),)
"""All other characters that are frequent today, such as emoji."""
_TABLED_TO = 0x1FB00
_MARKS_TO = 0x20000
_FEW = 1 << 12
"""Characters that a search may have. Without a table, which takes 30 ms to make, they take at most
0.5 ms, and as many marks in one run 25."""
_LONG_RUN = 30
"""Marks in a run that `unicodedata` sorts fast (Unicode Standard Annex 15, section 12)."""
_MEDIAL_AND_FINAL = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
"""Letters of Hangul that form a syllable with the ones before them."""


@functools.lru_cache(4)
def _replacements(normalisation: Normalisation) -> _Replacements:
    kinds = np.full(_TABLED_TO + 1, _ACTING, np.uint8)
    first = np.arange(_TABLED_TO + 1, dtype=np.uint32)
    kinds[:0x80] = _SAME
    if normalisation.casefold:
        kinds[0x41:0x5B] = _ONE
        first[0x41:0x5B] += 0x20
    for start, end in _UNCHANGED:
        kinds[start:end] = _SAME
    characters = [chr(point) for point in _TABLED]
    joined = "\n".join(characters)  # Nothing acts across a line feed.
    forms = _normalise_assigned(joined, normalisation).split("\n")
    decomposed = unicodedata.normalize("NFKD", joined).split("\n")
    # The characters that change their place, or compose with one before them.
    acting = {character for character in characters if unicodedata.combining(character)}
    pairs = [unicodedata.decomposition(character).split() for character in characters]
    acting |= {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    acting |= set(map(chr, _MEDIAL_AND_FINAL))
    chosen = np.array(_TABLED)
    kinds[chosen] = [
        _ACTING
        if character in acting or form[0] in acting or letters[0] in acting
        else (_LONGER if form[1:] else form != character)
        for character, form, letters in zip(characters, forms, decomposed, strict=True)
    ]
    first[chosen] = code_points("".join([form[0] for form in forms]))
    tails = {point: form[1:] for point, form in zip(_TABLED, forms, strict=True) if form[1:]}
    kinds[:-1][unassigned()[:_TABLED_TO]] = _ACTING
    return _Replacements(kinds, first, tails)


_SCRIPTS = (
    "aa b2-b3 b9-ba bc-be 2b0-2b8 2e0-2e4 10fc 1d2c-1d2e 1d30-1d3a 1d3c-1d4d 1d4f-1d6a 1d78"
    " 1d9b-1dbf 2070-2071 2074-208e 2090-209c 2120 2122 2150-215f 2189 2c7c-2c7d 2d6f 3192-319f"
    " a69c-a69d a770 a7f2-a7f4 a7f8-a7f9 ab5c-ab5f ab69 10781-10785 10787-107b0 107b2-107ba"
    " 1f16a-1f16c"
)
"""Characters of Unicode 14.0 whose Decomposition_Type is Super, Sub or Fraction. None of them is a
mark, has a case or is a part of a composed character."""
_SQUARED = dict(
    zip(
        map(ord, "㍸㍹㎟㎠㎡㎢㎣㎤㎥㎦㎨㎯"),
        ["dm²", "dm³", "mm²", "cm²", "m²", "km²", "mm³", "cm³", "m³", "km³", "m∕s²", "rad∕s²"],
        strict=True,
    )
)
"""Characters whose decomposition contains one of those."""
_PLAIN, _SCRIPT, _YOUNG = range(3)


@functools.cache
def _unusual() -> NDArray[np.uint8]:
    """Return which characters NFKC treats apart, shape (0x110000,).

    Each is _SCRIPT, also if its decomposition contains one; _YOUNG, of a later version than Unicode
    14.0; or else _PLAIN.
    """
    table = np.where(unassigned(), np.uint8(_YOUNG), np.uint8(_PLAIN))
    table[[*_SQUARED, *_script_points()]] = _SCRIPT
    return table


def _script_points() -> list[int]:
    bounds = (run.partition("-") for run in _SCRIPTS.split())
    runs = (range(int(first, 16), int(last or first, 16) + 1) for first, _, last in bounds)
    return [*itertools.chain.from_iterable(runs)]


@functools.cache
def _script_runs() -> re.Pattern[str]:
    return re.compile(f"([{''.join(map(chr, _script_points()))}]+)")


def _normalise_assigned(text: str, normalisation: Normalisation) -> str:
    """Normalise a text of characters that Unicode 14.0 assigns."""
    if text.isascii() or not normalisation.keeps_scripts:
        return _normalise_plainly(text, normalisation)
    runs = _script_runs().split(text.translate(_SQUARED))
    runs[::2] = [_normalise_plainly(run, normalisation) for run in runs[::2]]
    return "".join(runs)


def _normalise_plainly(text: str, normalisation: Normalisation) -> str:
    form = normalisation.form
    if form != "none":
        text = unicodedata.normalize(form, text)
    if not normalisation.casefold:
        return text
    folded = text.casefold()
    # Folding can leave the normal form (U+0390 folds to three characters).
    return folded if form == "none" or folded == text else unicodedata.normalize(form, folded)


@functools.cache
def _long_runs(form: Form) -> re.Pattern[str]:
    """Match long runs of marks, which `unicodedata` sorts in quadratic time."""
    assigned = map(chr, np.flatnonzero(~unassigned()[:_MARKS_TO]).tolist())
    marks = [
        character
        for character in assigned
        if all(map(unicodedata.combining, _decomposed(character, form)))
    ]
    return re.compile(f"[{''.join(marks)}]{{{_LONG_RUN + 1},}}")


def _ordered(run: str, form: Form) -> str:
    """Decompose a run of marks in canonical order (Unicode Standard 14.0, D109), stably."""
    decomposed = "".join([_decomposed(mark, form) for mark in run])
    return "".join(sorted(decomposed, key=unicodedata.combining))


def _decomposed(text: str, form: Form) -> str:
    return unicodedata.normalize("NFKD" if form == "NFKC" else "NFD", text)


def _normalise_around_young(text: str, normalisation: Normalisation) -> str:
    """Normalise the runs of characters that Unicode 14.0 assigns, and keep the others."""
    table = unassigned()
    return "".join(
        "".join(run) if young else _normalise_assigned("".join(run), normalisation)
        for young, run in itertools.groupby(text, lambda c: bool(table[ord(c)]))
    )
