"""Write esdedup/text/character_classes.json from this Python's Unicode database.

Run once, on a Python whose database is Unicode 14.0 (Python 3.11): the file is part of the
token format and must not follow later versions.
"""

import itertools
import json
import sys
import unicodedata
from pathlib import Path

UNICODE_VERSION = "14.0.0"
OTHER, WORD, SINGLE, MARK, IGNORED, SYMBOL = range(6)
SINGLE_SCRIPTS = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "HENTAIGANA",
    "IDEOGRAPHIC ITERATION",
    "IDEOGRAPHIC NUMBER ZERO",
    "VERTICAL IDEOGRAPHIC ITERATION",
    # Scripts written without spaces, which no rule but a dictionary can split into words.
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
    "TAI LE ",
    "NEW TAI LUE ",
    "TAI THAM ",
    "TAI VIET ",
)
# Planes 2 and 3 are reserved for ideographs, and 1F000 to 1FAFF for pictographs: characters that
# later versions add there are classed now as they will be.
IDEOGRAPHIC_PLANES = range(0x20000, 0x40000)
PICTOGRAPHS = range(0x1F000, 0x1FB00)
# Beside the symbol categories. A fraction slash is part of the normal form of one half.
SYMBOLS = "#%\u066a\u2030\u2031"
# The selectors of a character's form as a text or an emoji.
SELECTORS = "\ufe0e\ufe0f"
NO_SYMBOLS = "`\u2044\u2215\ufffc\ufffd"


def character_class(point: int) -> int:
    character = chr(point)
    category = unicodedata.category(character)
    name = unicodedata.name(character, "")
    if category == "Cn":
        if point in IDEOGRAPHIC_PLANES:
            return SINGLE
        noncharacter = 0xFDD0 <= point <= 0xFDEF or point & 0xFFFE == 0xFFFE
        if point in PICTOGRAPHS:
            return SYMBOL
        return OTHER if noncharacter else WORD
    if category == "Cf" or character in SELECTORS:
        return IGNORED
    if character in SYMBOLS or (category[0] == "S" and character not in NO_SYMBOLS):
        return SYMBOL
    if category[0] == "M":
        return MARK
    if category[0] == "L" or "IDEOGRAPHIC NUMBER ZERO" in name:
        return SINGLE if name.startswith(SINGLE_SCRIPTS) else WORD
    return WORD if category[0] == "N" or category == "Pc" else OTHER


def runs(values: list[int]) -> list[list[int]]:
    """[[first code point, value], ...] of the runs of equal values."""
    found, point = [], 0
    for value, group in itertools.groupby(values):
        found.append([point, value])
        point += sum(1 for _ in group)
    return found


def main() -> None:
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"needs Unicode {UNICODE_VERSION}, has {unicodedata.unidata_version}")
    points = range(sys.maxunicode + 1)
    classes = [character_class(point) for point in points]
    unassigned = [int(unicodedata.category(chr(point)) == "Cn") for point in points]
    target = Path(__file__).parent.parent / "esdedup" / "text" / "character_classes.json"
    document = {
        "unicode": UNICODE_VERSION,
        "classes": {"other": 0, "word": 1, "single": 2, "mark": 3, "ignored": 4, "symbol": 5},
        "class_runs": runs(classes),
        "unassigned_runs": runs(unassigned),
    }
    target.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
