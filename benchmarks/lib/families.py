"""Families of documents that follow one template, with copies of some, and which are copies.

A family is a fixed text with a few slots. Its documents are distinct: each differs from every other
in a slot at least, and a document with another number, amount or date is another document. Of ten
documents, seven fill all slots by chance; two repeat an earlier one but for two slots, and one but
for a number alone. Copies are of the kinds found in the field (`KINDS`). Beside the families are
articles that nothing else resembles, some with a few copies, and two with forty each.

`CHOOSING` are the families that a setting may be chosen with, `HELD_OUT` those that figures are of.
Those of `ITEMS` say a phrase with a number several times, or have a clause in brackets, which two
of five documents have. They were added when a review had found that such numbers were not compared.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.lib.texts import chinese, english

Draw = np.random.Generator
SLOT = re.compile(r"\{(\w+)\}")
CLAUSE = re.compile(r"\[(.+?)\]")
SENTENCE = re.compile(r".+?(?:[.:;] |[。；]|$)")
WITH_CLAUSE = 0.4
"""Documents that have a clause, as a share of those of its family."""
COPIED = 0.2
"""Copies, as a share of the distinct documents."""
MANY = 40
"""Copies of an article that went around."""

_TEXTS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
CHOOSING: dict[str, str] = _TEXTS["choosing"]
HELD_OUT: dict[str, str] = _TEXTS["held_out"]
ITEMS: dict[str, str] = _TEXTS["items"]
_FIRST, _LAST, _CITY, _MONTH, _PRODUCT, SURNAMES, GIVEN, _PLACE, _GOODS = _TEXTS["words"].values()

_Filler = Callable[[Draw], str]


def _of(*words: str, between: str = " ") -> _Filler:
    lists = [each.split("|") if "|" in each else each.split() for each in words]
    lists = [[*each[0]] if len(each) == 1 else each for each in lists]
    return lambda rng: between.join(str(rng.choice(each)) for each in lists)


FILL: dict[str, _Filler] = {
    "name": _of(_FIRST, _LAST),
    "other": _of(_FIRST, _LAST),
    "firm": _of(_LAST, "Trading Systems Logistics Foods Partners Energy"),
    "city": _of(_CITY),
    "product": _of(_PRODUCT),
    "number": lambda rng: str(rng.integers(10_000, 1_000_000)),
    "count": lambda rng: str(rng.integers(2, 90)),
    "amount": lambda rng: f"{rng.integers(10, 9_000)}.{rng.integers(10, 100)}",
    "date": lambda rng: (
        f"{rng.integers(1, 29)} {rng.choice(_MONTH.split())} {rng.integers(2016, 2026)}"
    ),
    "version": lambda rng: f"{rng.integers(1, 9)}.{rng.integers(0, 40)}.{rng.integers(0, 90)}",
    "degrees": lambda rng: f"{rng.integers(-9, 35)}",
    "time": lambda rng: f"{rng.integers(0, 24):02}:{rng.integers(0, 60):02}",
    "姓名": _of(SURNAMES, GIVEN, GIVEN, between=""),
    "城市": _of(_PLACE),
    "商品": _of(_GOODS),
    "编号": lambda rng: str(rng.integers(10_000, 1_000_000)),
    "金额": lambda rng: f"{rng.integers(10, 9_000)}.{rng.integers(10, 100)}",
    "日期": lambda rng: (
        f"{rng.integers(2016, 2026)}年{rng.integers(1, 13)}月{rng.integers(1, 29)}日"
    ),
    "数量": lambda rng: str(rng.integers(2, 90)),
}
NUMERIC = ("number", "version", "编号")
"""Slots whose value alone makes another document."""

HEADERS = (
    "---------- Forwarded message ---------- From: the office To: the archive ",
    "Skip to content Home About us News Contact Search ",
    "This message was scanned for viruses. ",
)
FOOTERS = (
    " Sent from my phone.",
    " All rights reserved. Imprint Privacy Sitemap Back to top",
    " This message is confidential. If it is not meant for you, please delete it.",
)
HEADERS_ZH = ("转发邮件：请各位查收并妥善保存。", "首页 新闻 产品 关于我们 联系方式 ")
FOOTERS_ZH = ("版权所有，未经许可不得转载。", "本邮件由系统自动发送，请勿直接回复。")
LONGEST_CUT = 0.2
"""Characters of a sentence that a copy may lack, as a share of the text."""


@dataclass(frozen=True)
class Labelled:
    """Texts in any order. source: number of the document that each is, or is a copy of.

    family: its name, or "articles". kind: of the copy, or "" for the document itself.
    """

    texts: list[str]
    source: list[int]
    family: list[str]
    kind: list[str]


def labelled(families: dict[str, str], distinct: int, large: int, seed: int) -> Labelled:
    """Families with copies, and articles with copies.

    distinct: documents of each family and of the articles. large: of the first family.
    """
    rng = np.random.default_rng(seed)
    texts: list[tuple[str, str, str]] = []
    for place, (name, template) in enumerate(families.items()):
        filled = _filled(template, distinct if place else large, rng)
        texts += [(name, text, form) for text, form in filled]
    copies = rng.choice(len(texts), round(COPIED * len(texts))).tolist()
    half, first = distinct // 2, len(texts)
    texts += [("articles", text, "") for text in english(half, 900, seed)]
    texts += [("articles", text, "") for text in chinese(half, 300, seed)]
    copies += (first + rng.choice(2 * half, round(COPIED * 2 * half))).tolist()
    copies += [first] * MANY + [first + half] * MANY
    rows = [(text, number, family, "") for number, (family, text, _) in enumerate(texts)]
    for number in copies:
        family, text, template = texts[number]
        kind = list(KINDS)[rng.integers(len(KINDS))]
        rows.append((KINDS[kind](text, rng, template), number, family, kind))
    rows = [rows[at] for at in rng.permutation(len(rows)).tolist()]
    return Labelled(
        [text for text, *_ in rows],
        [source for _, source, *_ in rows],
        [family for *_, family, _ in rows],
        [kind for *_, kind in rows],
    )


def _filled(template: str, count: int, rng: Draw) -> list[tuple[str, str]]:
    """Documents that differ from each other in a slot at least, and the template of each."""
    slots = list(dict.fromkeys(SLOT.findall(template)))
    first = next((slot for slot in slots if slot in NUMERIC), "date")
    numeric = [slot for slot in slots if _kind(slot) == first]
    made: dict[str, tuple[str, dict[str, str]]] = {}
    while len(made) < count:
        form = CLAUSE.sub(lambda clause: clause[1] if rng.random() < WITH_CLAUSE else "", template)
        values = {slot: FILL[_kind(slot)](rng) for slot in slots}
        chance = rng.random()
        if made and chance < 0.3:
            _, earlier = list(made.values())[rng.integers(len(made))]
            changed = _some(numeric, 1, rng) if chance < 0.1 else _some(slots, 2, rng)
            values = earlier | {slot: values[slot] for slot in changed}
        made.setdefault(form.format(**values), (form, values))
    return [(text, form) for text, (form, _) in made.items()]


def _kind(slot: str) -> str:
    """The kind of words in a slot. If there are several numbers, each has a name, as number_2."""
    return slot.partition("_")[0]


def _some(slots: list[str], count: int, rng: Draw) -> list[str]:
    """Draw slots; of a single one there is nothing to draw."""
    if len(slots) == count == 1:
        return slots
    drawn: list[str] = rng.choice(slots, count, replace=False).tolist()
    return drawn


def _is_han(text: str) -> bool:
    return "\u4e00" <= max(text[:40]) <= "\uffef"


def _spaced(text: str, rng: Draw, _: str) -> str:
    """In capitals, with other white space; in Chinese, with full-width digits and line feeds."""
    if _is_han(text):
        wide = str.maketrans("0123456789", "０１２３４５６７８９")
        return text.translate(wide).replace("。", "。\n")
    return text.upper().replace(" ", "  ").replace(".  ", ".\n")


def _punctuated(text: str, rng: Draw, _: str) -> str:
    for mark, other in ((". ", " - "), (", ", " / "), ("，", "、"), ("。", "！")):
        text = text.replace(mark, other)
    return text


def _headed(text: str, rng: Draw, _: str) -> str:
    return str(rng.choice(HEADERS_ZH if _is_han(text) else HEADERS)) + text


def _footed(text: str, rng: Draw, _: str) -> str:
    return text + str(rng.choice(FOOTERS_ZH if _is_han(text) else FOOTERS))


def _cut(text: str, rng: Draw, template: str) -> str:
    """Without one of its sentences, but for one with half of the slots: it tells which it is."""
    sentences = SENTENCE.findall(text)
    slots = [len(SLOT.findall(each)) for each in SENTENCE.findall(template)] or [0] * len(sentences)
    chosen = [
        at
        for at, (each, held) in enumerate(zip(sentences, slots, strict=True))
        if len(each) <= LONGEST_CUT * len(text) and 2 * held <= sum(slots)
    ]
    if chosen:
        del sentences[int(rng.choice(chosen))]
    return "".join(sentences)


def _mistyped(text: str, rng: Draw, _: str) -> str:
    """Two to four words with two letters swapped or one left out; never in a number."""
    letters = re.compile("[\u4e00-\u9fff]" if _is_han(text) else r"[^\W\d_]{4,}")
    places = [found.span() for found in letters.finditer(text)]
    chosen = rng.choice(len(places), int(rng.integers(2, 5)), replace=False).tolist()
    for start, end in sorted((places[at] for at in chosen), reverse=True):
        if end - start == 1:
            text = text[:start] + str(rng.choice(list(GIVEN))) + text[end:]
            continue
        at = start + int(rng.integers(1, end - start - 1))
        pair = text[at + 1] + text[at] if rng.random() < 0.5 else text[at]
        text = text[:at] + pair + text[at + 2 :]
    return text


KINDS: dict[str, Callable[[str, Draw, str], str]] = {
    "exact": lambda text, *_: text,
    "case and spaces": _spaced,
    "punctuation": _punctuated,
    "header": _headed,
    "footer": _footed,
    "sentence cut": _cut,
    "typos": _mistyped,
}
"""Ways to copy a document."""
