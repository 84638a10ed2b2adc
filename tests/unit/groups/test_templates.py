"""Documents of a template that differ in a number are taken apart, wherever the number stands."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.groups.templates import paired, pattern_of, split_templates

ITEM = {
    "english": "An article with the serial number {} was packed and checked by hand. ",
    "chinese": "货物序列号{}已经由专人清点并装箱。",
}
LETTER = {
    "english": (
        "Delivery note of the northern warehouse. Dear customer, number {customer} in our books,"
        " {clause}the carrier {name} brings your goods on one of the next 2 working days. {items}"
        "Please count all boxes when they come, and tell us within 30 days if one is missing or"
        " was opened."
    ),
    "chinese": (
        "北方仓库的送货单据。尊敬的客户，您在我们账簿中的号码是{customer}，请妥善保存，{clause}承运人{name}"
        "将在2个工作日之内送达您的货物。{items}请您在收货的时候清点所有的箱子，如有缺失或者破损，"
        "请在30天之内告诉我们。"
    ),
}
CLAUSE = {
    "english": "for whom an extra fee of {} euros is now due, ",
    "chinese": "需要另外支付加急费用{}元，",
}
NAMES = {
    "english": ["Anna Berg", "Ben Castillo", "Carla Duval", "David Eriksen", "Elena Fischer"],
    "chinese": ["王小明", "李丽", "陈国强", "赵敏", "周杰"],
}
FULL_WIDTH = str.maketrans("0123456789", "０１２３４５６７８９")
languages = pytest.mark.parametrize("language", list(LETTER))


def letter(
    language: str, row: int, *, clause: object = "", items: Sequence[object] = (), customer: int = 0
) -> str:
    """The letter of a row: customers and names come again, but not both for the same rows."""
    names = NAMES[language]
    return LETTER[language].format(
        customer=customer or 300 + row,
        name=names[row % len(names)],
        clause=clause and CLAUSE[language].format(clause),
        items="".join(ITEM[language].format(item) for item in items),
    )


def split(texts: Sequence[str]) -> list[int]:
    """The first row of each row's group, if all were one group."""
    one_group = np.zeros(len(texts), np.int64)
    scheme = esdedup.Scheme()
    found = split_templates(one_group, lambda rows: [texts[row] for row in rows], scheme)
    return [int(row) for row in found]


@languages
def test_each_time_that_a_phrase_comes_counts(language: str) -> None:
    """Notes of four articles, by twos equal but for the last number."""
    texts = [
        letter(language, row // 2, items=[70 + row // 2, 800, 900, 1_000 + row])
        for row in range(40)
    ]
    copy = texts[9].upper().translate(FULL_WIDTH)
    assert split([*texts, copy]) == [*range(40), 9]


@languages
def test_words_of_a_phrase_that_comes_again_count(language: str) -> None:
    goods = {"english": ["lamp", "chair", "knife"], "chinese": ["台灯", "椅子", "刀具"]}[language]
    texts = [
        letter(language, row, customer=500 + row // 3, items=[f"{row // 3}", goods[row % 3]])
        for row in range(0, 45, 5)
    ]
    texts += [letter(language, 1, customer=700, items=["1", each]) for each in goods]
    assert split(texts) == [*range(len(texts))]


@languages
def test_a_copy_may_lack_a_phrase_that_comes_again(language: str) -> None:
    texts = [letter(language, row, items=range(100 + row, 900, 200)) for row in range(30)]
    copy = texts[4].replace(ITEM[language].format(304), "")
    assert copy != texts[4]
    assert split([*texts, copy, copy]) == [*range(30), 4, 4]


@languages
def test_a_number_in_a_clause_that_few_have_counts(language: str) -> None:
    texts = [
        letter(language, row // 2, clause=90_000 + row if row % 10 < 2 else "") for row in range(40)
    ]
    # Where both lack the clause, they are one letter.
    expected = [row if row % 10 < 2 else row - row % 2 for row in range(40)]
    copy = f"{texts[11]} {'版权所有。' if language == 'chinese' else 'All rights reserved.'}"
    assert split([*texts, copy]) == [*expected, 11]


@languages
@pytest.mark.parametrize(("one", "other"), [("1,200", "200"), ("12.50", "50"), ("7", "7 000")])
def test_a_part_of_a_number_is_another_number(language: str, one: str, other: str) -> None:
    texts = [letter(language, row) for row in range(20)]
    texts += [letter(language, 3, clause=one), letter(language, 3, clause=other)]
    found = split(texts)
    assert found[20] != found[21]


@languages
def test_a_number_of_the_fixed_text_counts_where_it_differs(language: str) -> None:
    texts = [letter(language, row) for row in range(20)]
    others = [re.sub(r"(?<!\d)30(?!\d)", "60", text) for text in texts[4:6]]
    assert split([*texts, *others, others[0]]) == [*range(22), 20]


@languages
def test_a_misprint_beside_a_number_does_not_hide_it(language: str) -> None:
    wrong = {"english": ("number 305 in our", "numbr 306 inn oru"), "chinese": ("号码是", "号吗事")}
    old, new = wrong[language]
    texts = [letter(language, row, items=[f"{row}{row}7"]) for row in range(20)]
    misprinted = texts[5].replace(old, new).replace("305", "306")
    assert "306" in misprinted
    copy = misprinted.replace("306", "305")
    assert split([*texts, misprinted, copy]) == [*range(21), 5]


@languages
@pytest.mark.parametrize(
    "change",
    [
        lambda text, number: f"Page {number} of 99. {text}",
        lambda text, number: f"{text} Printed for desk {number}.",
        lambda text, number: f"第{number}页，共99页。{text}",
        lambda text, number: f"{text}打印编号{number}。",
    ],
    ids=["header", "footer", "chinese header", "chinese footer"],
)
def test_numbers_of_headers_and_footers_do_not_count(
    change: Callable[[str, int], str], language: str
) -> None:
    texts = [letter(language, row) for row in range(30)]
    copies = [change(texts[7], number) for number in (11, 12)]
    # With and without the text itself.
    assert split([*texts, *copies]) == [*range(30), 7, 7]
    texts[7] = copies[0]
    assert split([*texts, copies[1]]) == [*range(30), 7]


@languages
def test_who_lacks_a_clause_needs_more_in_common(language: str) -> None:
    """A customer's number that three letters have tells less than one with a name."""
    texts = [
        LETTER[language].format(customer=300 + row, name="X", clause="", items="")
        for row in range(20)
    ]
    clause = CLAUSE[language].format(77)
    one = LETTER[language].format(customer=304, name="X", clause=clause, items="")
    assert split([*texts, one]) == [*range(21)]
    named = [letter(language, row, items=[f"{row}55"]) for row in range(20)]
    one = letter(language, 4, clause=77, items=["455"])
    found = split([*named, one])
    assert found == [*range(4), 4, *range(5, 20), 4]


def test_chinese_numerals_are_words() -> None:
    numerals = [f"{ten}十{one}" for ten in "二三四五" for one in "一二三四五六七八九"]
    template = LETTER["chinese"].replace("2", "{items}")
    texts = [
        template.format(customer=each, name="王小明", clause="", items="") for each in numerals
    ]
    assert split([*texts, texts[8]]) == [*range(len(texts)), 8]


def test_places_show_each_time_that_a_phrase_comes() -> None:
    texts = list(
        paired(
            [letter("english", row, items=[70 + row, 80 + row]) for row in range(12)],
            esdedup.Scheme(),
        )
    )
    pattern = pattern_of(texts)
    assert pattern is not None
    filling = pattern.filling(texts[1])
    assert filling is not None
    assert ("71", "81") in filling.places


LISTS = st.lists(st.integers(0, 3), min_size=3, max_size=3)


@given(st.lists(st.tuples(LISTS, st.integers(0, 3)), max_size=12), st.sampled_from([*LETTER]))
def test_letters_of_other_numbers_are_never_one(
    drawn: list[tuple[list[int], int]], language: str
) -> None:
    """Each with three articles, with a clause or without."""
    texts = [letter(language, row, customer=50, items=[row, 1, 2]) for row in range(4, 20)]
    numbers = [([row, 1, 2], 0) for row in range(4, 20)]
    for items, clause in drawn:
        texts.append(letter(language, 4, customer=50, items=items, clause=clause or ""))
        numbers.append((items, clause))
    found = split(texts)
    for row, (first, number) in enumerate(zip(found, numbers, strict=True)):
        (items, clause), (others, other) = number, numbers[first]
        assert items == others, (row, first)
        assert clause == other or 0 in (clause, other), (row, first)
