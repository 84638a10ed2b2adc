"""Classes of characters (part of a word, mark, separator, ...), pinned at one version of Unicode.

Python's own tables grow with every release, and tokens must not follow them. So the classes come
from files in the package, one for each version of schemes, written by `tools/character_classes.py`,
and every Python splits a text in the same way.
"""

import functools
import json
import pkgutil
import re

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import U32, Mask

CODE_POINTS = 0x110000
PIECE = 1 << 17
"""Characters of a text above which it is cut into pieces."""

OTHER, WORD, SINGLE, MARK, IGNORED, SYMBOL, PUNCTUATION = range(7)
"""OTHER separates words (space, controls). A run of WORD characters is a word (letters, digits,
connectors). A SINGLE character is a word by itself (scripts that put no spaces between words, such
as Han, Thai and Javanese). A MARK belongs to the character before it, and is dropped behind a
symbol. IGNORED characters (format controls, soft hyphen, the selectors of an emoji's form,
stretching) are dropped. A run of one SYMBOL is a word (currencies, mathematics, emoji, # and %).
PUNCTUATION is either: `character_classes` returns it as OTHER, unless it is requested."""
VERSION = 4
"""The latest version of the rules for tokens, which is that of schemes."""
VERSIONS = (3, VERSION)
"""The versions of schemes whose tokens are computed."""


_CLASSES = "character_classes.json"
_CONTROLS = (*range(32), *range(127, 160), *range(0xD800, 0xE000))
"""Controls of a terminal, and surrogates, which no encoding writes."""
_BIDI = (0x061C, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Controls that change the order of the characters around them, and separators of lines."""
_SHOWN = {point: "\ufffd" for point in _CONTROLS if point not in (9, 10)}
_SHOWN |= {point: f"<U+{point:04X}>" for point in _BIDI}
JSON_ESCAPES = {point: f"\\u{point:04x}" for point in (*_CONTROLS[32:], *_BIDI)}
"""The same characters for lines of JSON, which hold them in strings only."""
_ENCODERS = {plain: json.JSONEncoder(ensure_ascii=plain) for plain in (False, True)}


@functools.cache
def _table(file: str, runs: str) -> NDArray[np.uint8]:
    # It imports fewer modules than importlib.resources, and reads from zip files as well.
    text = pkgutil.get_data("esdedup.text", file) or b""
    starts, values = np.array(json.loads(text)[runs]).T
    table = np.repeat(values.astype(np.uint8), np.diff(starts, append=CODE_POINTS))
    table.setflags(write=False)
    return table


@functools.cache
def character_classes(version: int = VERSION, punctuation: bool = False) -> NDArray[np.uint8]:
    """Return the class of every code point: shape (0x110000,), read-only.

    version: of schemes.
    punctuation: keep PUNCTUATION apart from OTHER, from version 4 on.
    """
    if version == 3:
        return _table("character_classes_3.json", "class_runs")
    table = _table(_CLASSES, "class_runs")
    if not punctuation:
        table = np.where(table == PUNCTUATION, np.uint8(OTHER), table)
        table.setflags(write=False)
    return table


def unassigned() -> Mask:
    """Mark the code points that Unicode 14.0 does not assign: shape (0x110000,), read-only."""
    return _table(_CLASSES, "unassigned_runs").view(np.bool_)


def code_points(text: str) -> U32:
    """Return the code points of a text, shape (len(text),). Lone surrogates are kept."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def pieces(text: str, before: str = "[ \n]") -> list[str]:
    """Cut a long text before a character of a pattern, across which no other one acts."""
    cut_pieces, start = [], 0
    boundaries = re.compile(before)
    while boundary := boundaries.search(text, start + PIECE):
        cut_pieces.append(text[start : boundary.start()])
        start = boundary.start()
    return [*cut_pieces, text[start:]]


def visible(text: str) -> str:
    """Return the text with visible control characters, which a terminal or a page would obey.

    Tabs and line ends are kept. Every text for people passes through this or `message_of`.
    """
    return text.replace("\r\n", "\n").translate(_SHOWN)


def message_of(text: str) -> str:
    """Return the text as one message: `visible`, with all lines after the first indented."""
    return visible(text).replace("\n", "\n  ")


def is_unicode(text: str) -> bool:
    """Return whether a text has no half surrogate pairs, which SQLite and JSON reject."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as "1 duplicate".

    plural: by default the singular with an s.
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def json_line(document: object, *, plain: bool = False) -> str:
    """Return a line of JSON without characters that a terminal obeys. plain: in ASCII."""
    line = _ENCODERS[plain].encode(document)
    if not line.isascii() or "\x7f" in line:
        line = line.translate(JSON_ESCAPES)
    return f"{line}\n"
