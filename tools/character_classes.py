"""Write esdedup/text/character_classes.json from tools/unicode_properties.json.

The file is part of the token format: a change to it needs another version of schemes. That of
version 3, `character_classes_3.json`, was written by an earlier state of this tool from Unicode
14.0, and stays as it is.
"""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

CODE_POINTS = 0x110000
OTHER, WORD, SINGLE, MARK, IGNORED, SYMBOL, PUNCTUATION = range(7)
# A line can break between any two clusters of these scripts, because they put no spaces between
# words: Unicode Standard Annex 14, classes SA (complex context), ID (ideographic), AK, AP and AS
# (orthographic syllables).
BROKEN_ANYWHERE = {"SA", "ID", "AK", "AP", "AS"}
# Full width letters of Latin and letters of Hangul are ideographic in lines. Both put spaces
# between words.
SPACED_SCRIPTS = {"Latin", "Hangul", "Common", "Inherited"}
# Marks of length and repetition that several of these scripts share, such as the one of Katakana.
SHARED_BREAKS = {"ID", "NS", "CJ"}
IDEOGRAPHIC_ZERO = 0x3007
# Planes 2 and 3 are reserved for ideographs, and 1F000 to 1FAFF for pictographs: characters that
# later versions add there are classed now as they will be.
IDEOGRAPHIC_PLANES = range(0x20000, 0x40000)
PICTOGRAPHS = range(0x1F000, 0x1FB00)
# Beside the symbol categories.
SYMBOLS = "#%\u066a\u2030\u2031"
# A fraction slash is part of the normal form of one half in version 3, and a backtick quotes.
NO_SYMBOLS = "`\u2044\u2215\ufffc"
# The selectors of a character's form as a text or an emoji.
SELECTORS = "\ufe0e\ufe0f"
# Letters by their category that only stretch a word: Joining_Type=Join_Causing, category Lm.
STRETCHING = "\u0640\u07fa"

TOOLS = Path(__file__).parent
TEXT = TOOLS.parent / "esdedup" / "text"


def values_of(runs: Sequence[tuple[int, str]]) -> list[str]:
    """Return the value of each code point."""
    starts = [start for start, _ in runs]
    lengths = [end - start for start, end in itertools.pairwise([*starts, CODE_POINTS])]
    return [value for (_, value), length in zip(runs, lengths, strict=True) for _ in range(length)]


def runs_of(values: Sequence[int]) -> list[list[int]]:
    """Return the first code point and the value of each run of equal values."""
    runs, point = [], 0
    for value, group in itertools.groupby(values):
        runs.append([point, value])
        point += sum(1 for _ in group)
    return runs


def character_classes() -> list[int]:
    """Return the class of each code point."""
    properties = json.loads((TOOLS / "unicode_properties.json").read_text("ascii"))
    categories, breaks, scripts = (
        values_of(properties[name]) for name in ("General_Category", "Line_Break", "Script")
    )
    unspaced = {
        script
        for category, line_break, script in zip(categories, breaks, scripts, strict=True)
        if category[0] == "L" and line_break in BROKEN_ANYWHERE
    } - SPACED_SCRIPTS

    def is_single(point: int) -> bool:
        if scripts[point] == "Common":
            return breaks[point] in SHARED_BREAKS
        return scripts[point] in unspaced

    return [
        _class_of(point, category, is_single(point)) for point, category in enumerate(categories)
    ]


def _class_of(point: int, category: str, single: bool) -> int:
    character = chr(point)
    if category == "Cn":
        if point in IDEOGRAPHIC_PLANES:
            return SINGLE
        if point in PICTOGRAPHS:
            return SYMBOL
        noncharacter = 0xFDD0 <= point <= 0xFDEF or point & 0xFFFE == 0xFFFE
        return OTHER if noncharacter else WORD
    if category == "Cf" or character in SELECTORS or character in STRETCHING:
        return IGNORED
    if character in SYMBOLS or (category[0] == "S" and character not in NO_SYMBOLS):
        return SYMBOL
    if category[0] == "M":
        return MARK
    if category[0] == "L" or point == IDEOGRAPHIC_ZERO:
        return SINGLE if single else WORD
    if category[0] == "N" or category == "Pc":
        return WORD
    return PUNCTUATION if category[0] in "PS" else OTHER


def main() -> None:
    """Write the file. Which characters Unicode 14.0 does not assign stays as it is."""
    target = TEXT / "character_classes.json"
    document = {
        "unicode": "16.0.0",
        "classes": {
            "other": OTHER,
            "word": WORD,
            "single": SINGLE,
            "mark": MARK,
            "ignored": IGNORED,
            "symbol": SYMBOL,
            "punctuation": PUNCTUATION,
        },
        "class_runs": runs_of(character_classes()),
        "unassigned_runs": json.loads(target.read_text("ascii"))["unassigned_runs"],
    }
    target.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
