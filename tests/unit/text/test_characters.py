"""The classes of characters, and that they are those of Unicode 14.0 on every Python."""

import json
import runpy
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.text.characters import (
    CODE_POINTS,
    IGNORED,
    MARK,
    OTHER,
    PUNCTUATION,
    SINGLE,
    SYMBOL,
    WORD,
    character_classes,
    code_points,
    unassigned,
)

ROOT = Path(__file__).parents[3]

EXAMPLES = {
    WORD: "aZéßиЯαΩأבक한\u1160ʼ0９٣१๑²½Ⅷ_‿ऄཀՀაአ",
    SINGLE: "中国々〇ひらガカｶーㇰ豈𠀀𪜀\U0001b000กขฯๆໜຂកမᥐᦀᨠꪀ"
    "ꦄꦲᬅꨀꨁ\U00011700ꀀㄅ\U00017000\U0001b170",
    MARK: "\u0301\u0308\u3099\u093f\u094d\u0e34\u0eb1\u17b6\u102c\u064e\u20e3\ufe00\U000e0100"
    "\ua9c0\u1b44",
    IGNORED: "\u00ad\u200b\u200c\u200d\u200e\u2060\ufeff\u0600\ufe0e\ufe0f\U000e0041\u0640\u07fa",
    SYMBOL: "+=<>|~^$€¥￥©°±×→●★│😀👨🏽🇩#%‰٪−\ufffd",
    PUNCTUATION: ".,!-'&@*/`⁄。、「」・…–\ufffc",
    OTHER: " \t\n\u00a0\u3000\ue000\ud800\udfff\x00\x7f",
}
# Where version 3 differs.
VERSION_3 = {
    WORD: "ꦄᬅꨀ\U00011700ꀀㄅ\U00017000\U0001b170\u0640",
    OTHER: "*/&\ufffd",
    SINGLE: "中ひกកမᥐᦀᨠꪀ",
}


def cases(examples: dict[int, str]) -> list[tuple[int, str]]:
    return [(kind, character) for kind, characters in examples.items() for character in characters]


def shown(value: object) -> str:
    return f"U+{ord(value):04X}" if isinstance(value, str) else str(value)


@pytest.mark.parametrize(("kind", "character"), cases(EXAMPLES), ids=shown)
def test_the_class_of_a_character(kind: int, character: str) -> None:
    assert character_classes(punctuation=True)[ord(character)] == kind
    plain = OTHER if kind == PUNCTUATION else kind
    assert character_classes()[ord(character)] == plain


@pytest.mark.parametrize(("kind", "character"), cases(VERSION_3), ids=shown)
def test_version_3_has_the_classes_that_it_had(kind: int, character: str) -> None:
    assert character_classes(3)[ord(character)] == kind


def test_no_script_without_spaces_is_missing() -> None:
    """A script whose letters Unicode breaks lines between, without spaces, is split into them."""
    path = ROOT / "tools" / "unicode_properties.json"
    properties = json.loads(path.read_text("ascii"))
    values = runpy.run_path(str(ROOT / "tools" / "character_classes.py"))["values_of"]
    breaks, scripts, categories = (
        values(properties[name]) for name in ("Line_Break", "Script", "General_Category")
    )
    classes = character_classes().tolist()
    split, whole = set[str](), set[str]()
    for point, kind in enumerate(classes):
        if categories[point][0] == "L" and breaks[point] in ("SA", "ID", "AK", "AS", "AP"):
            (split if kind == SINGLE else whole).add(scripts[point])
    assert whole == {"Latin", "Hangul"}
    named = "Thai Lao Khmer Myanmar Javanese Balinese Cham Ahom Yi Tangut Nushu Bopomofo Han Kawi"
    assert split > {*named.split()}


def test_what_is_unassigned_today_was_so_in_unicode_14() -> None:
    now = [unicodedata.category(chr(point)) == "Cn" for point in range(CODE_POINTS)]
    then = unassigned().tolist()
    assert not any(today and not before for today, before in zip(now, then, strict=True))
    if unicodedata.unidata_version == "14.0.0":
        assert now == then
    # Of 1,114,112 code points Unicode 14.0 assigned 144,697, and named as many for private use
    # (137,468), surrogates (2,048) and controls (65).
    assert then.count(False) == 144_697 + 137_468 + 2_048 + 65


@pytest.mark.parametrize(
    ("point", "kind", "what"),
    [
        (0x2EBF0, SINGLE, "CJK extension I, of Unicode 15.1"),
        (0x31350, SINGLE, "CJK extension H, of Unicode 15.0"),
        (0x3FFFD, SINGLE, "plane 3, reserved for ideographs"),
        (0x1FAE8, SYMBOL, "an emoji of Unicode 15.0"),
        (0x1FAFF, SYMBOL, "a place for an emoji, unassigned in Unicode 16.0"),
        (0x1E4D0, WORD, "Nag Mundari, of Unicode 15.0"),
        (0x11F04, SINGLE, "Kawi, of Unicode 15.0, a script without spaces"),
        (0x11F34, MARK, "a vowel sign of Kawi"),
        (0x10D4A, WORD, "Garay, of Unicode 16.0"),
        (0x16EA0, WORD, "Beria Erfe, of Unicode 17.0"),
    ],
)
def test_characters_younger_than_unicode_14_have_a_class_for_good(
    point: int, kind: int, what: str
) -> None:
    assert unassigned()[point], what
    assert character_classes()[point] == kind, what


def test_the_file_is_what_the_tool_writes() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "character_classes.py"))
    stored = json.loads((ROOT / "esdedup" / "text" / "character_classes.json").read_text("ascii"))
    classes = tool["character_classes"]()
    assert classes == character_classes(punctuation=True).tolist()
    assert tool["runs_of"](classes) == stored["class_runs"]
    properties = json.loads((ROOT / "tools" / "unicode_properties.json").read_text("ascii"))
    assert stored["unicode"] == properties["unicode"]


@given(st.lists(st.integers(0, 0x10FFFF)))
def test_code_points_are_those_of_the_text(points: list[int]) -> None:
    text = "".join(map(chr, points))
    assert code_points(text).tolist() == points
