"""Folds spellings of one script that normal forms keep apart, such as letters with accents.

A fold is requested by name in `Normalisation.fold`. All of them act on single characters, or on
short sequences. So the same steps fold a text (`Plain`), and a text of which it is known where
each character comes from (`Tracked`, in `highlight.py`).
"""

import functools
import html
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, Self, TypeVar

from esdedup.text.characters import WORD, character_classes

Fold = Literal["marks", "arabic", "turkish", "hyphens", "entities"]
FOLDS: tuple[Fold, ...] = ("marks", "arabic", "turkish", "hyphens", "entities")
"""marks: letters without accents, vowel signs of Arabic and Hebrew, and nukta; ё is е, a Hindi
chandrabindu or a nasal before its stop is an anusvara. arabic: one alef, yeh and kaf, no tatweel,
ASCII digits. turkish: İ, I, ı and i are one letter. hyphens: a word that a hyphen cuts at the end
of a line is whole. entities: references of HTML, such as &amp;, are the characters."""
Table = Mapping[int, str]
"""The replacement of characters, by code point."""


class Foldable(Protocol):
    """A text that the steps of a fold change."""

    @property
    def text(self) -> str: ...

    def substitute(self, pattern: re.Pattern[str], by: Callable[[re.Match[str]], str]) -> Self:
        """Return the text with all matches replaced."""

    def translate(self, table: Table) -> Self:
        """Return the text with single characters replaced."""

    def normalise(self) -> Self:
        """Return the text in its normal form, with case folded if it is to be."""


_LEVELS = 8
"""How often a reference may be escaped: "&amp;lt;" twice. More is not undone."""
_REFERENCE = re.compile("&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ESCAPED = re.compile("&(?:amp;)+", re.IGNORECASE)
_AMPERSAND = re.compile("&")
_DOTTED = re.compile("([iI])\u0307+")
_LINE_END = re.compile("[-\u00ad\u2010][ \t]*\r?\n[ \t]*")
_NASALS = re.compile(
    "(?:ङ\u094d(?=[कखगघ])|ञ\u094d(?=[चछजझ])|ण\u094d(?=[टठडढ])|न\u094d(?=[तथदध])|म\u094d(?=[पफबभ]))"
)
_ANUSVARA = "\u0902"
_MARKS = (
    "300-36f 483-487 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-652 656-65f 670 6d6-6dc 6df-6e4"
    " 6e7-6e8 6ea-6ed 8d3-8e1 8e3-8ff 93c 1ab0-1ac0 1dc0-1dff fe20-fe2f"
)
"""Accents and marks of Cyrillic, vowel signs of Hebrew and Arabic but not the hamza, and nukta."""
_COMPOSED = (
    *range(0xC0, 0x250),
    *range(0x370, 0x400),
    *range(0x1E00, 0x2000),
    *range(0xFB1D, 0xFB50),
    *(0x929, 0x931, 0x934, 0x958, 0x959, 0x95A, 0x95B, 0x95C, 0x95D, 0x95E, 0x95F),
)
"""Letters of Latin, Greek, Hebrew and Devanagari that may be composed with such marks. In Cyrillic,
й and ї are letters that no writer leaves out."""
_CYRILLIC = {"ё": "е", "Ё": "Е", "ѐ": "е", "Ѐ": "Е", "ѝ": "и", "Ѝ": "И"}
_ARABIC = {**dict.fromkeys("أإآٱٲٳ", "ا"), "ى": "ي", "ی": "ي", "ک": "ك", "ڪ": "ك", "\u0640": ""}
_TURKISH = {"İ": "I", "ı": "i"}


_FoldedText = TypeVar("_FoldedText", bound=Foldable)


def fold(text: _FoldedText, names: Collection[str]) -> _FoldedText:
    """Return a text in its normal form, folded. Folding twice changes nothing."""
    if "entities" not in names:
        return _fold_characters(text.normalise(), names)
    # The normal form of full width characters, or a fold, can make another reference.
    for _ in range(_LEVELS):
        text = text.substitute(_ESCAPED, lambda _: "&")
        text = text.substitute(_REFERENCE, lambda reference: html.unescape(reference[0]))
        text = _fold_characters(text.normalise(), names)
        if not _refers(text.text):
            return text
    return text.substitute(_AMPERSAND, lambda _: "")


def _refers(text: str) -> bool:
    references = _REFERENCE.findall(text) if "&" in text else []
    return any(html.unescape(reference) != reference for reference in references)


def _fold_characters(text: _FoldedText, names: Collection[str]) -> _FoldedText:
    """Fold a text in its normal form, and return it in its normal form."""
    before = text.text
    if not before.isascii():
        if "turkish" in names:
            text = text.substitute(_DOTTED, lambda dotted: dotted[1])
        text = text.translate(_table(frozenset(names)))
        if "marks" in names:
            text = text.substitute(_NASALS, lambda _: _ANUSVARA)
    if "hyphens" in names and "\n" in before:
        text = text.substitute(_LINE_END, _joined_line)
    return text if text.text == before else text.normalise()


def _joined_line(end: re.Match[str]) -> str:
    """Return nothing in place of a hyphen and a line end between two letters."""
    before, after = end.string[end.start() - 1 : end.start()], end.string[end.end() : end.end() + 1]
    return "" if _is_letter(before) and _is_letter(after) else end[0]


def _is_letter(character: str) -> bool:
    digits = "0123456789_"
    return bool(
        character and character not in digits and character_classes()[ord(character)] == WORD
    )


@functools.cache
def _table(names: frozenset[str]) -> Table:
    table: dict[int, str] = {}
    if "marks" in names:
        bounds = (run.partition("-") for run in _MARKS.split())
        marks = {
            chr(point)
            for first, _, last in bounds
            for point in range(int(first, 16), int(last or first, 16) + 1)
        }
        for character in map(chr, _COMPOSED):
            letters = unicodedata.normalize("NFD", character)
            if not marks.isdisjoint(letters):
                plain = "".join(letter for letter in letters if letter not in marks)
                table[ord(character)] = unicodedata.normalize("NFC", plain)
        table |= {ord(mark): "" for mark in marks}
        table |= {ord(letter): plain for letter, plain in _CYRILLIC.items()}
        table[ord("\u0901")] = _ANUSVARA
    if "arabic" in names:
        table |= {ord(letter): plain for letter, plain in _ARABIC.items()}
        table |= {start + digit: str(digit) for start in (0x660, 0x6F0) for digit in range(10)}
    if "turkish" in names:
        table |= {ord(letter): plain for letter, plain in _TURKISH.items()}
    return table


@dataclass(frozen=True)
class Plain:
    """A text, and its normal form.

    text: as it is by now.
    form: returns the normal form of a text.
    """

    text: str
    form: Callable[[str], str]

    def substitute(self, pattern: re.Pattern[str], by: Callable[[re.Match[str]], str]) -> "Plain":
        return Plain(pattern.sub(by, self.text), self.form)

    def translate(self, table: Table) -> "Plain":
        return Plain(self.text.translate(table), self.form)

    def normalise(self) -> "Plain":
        return Plain(self.form(self.text), self.form)
