"""Documents of a template differ in the same places, and copies do not."""

import random
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import esdedup
from esdedup.analysis.templates import looks_like_template
from esdedup.groups.templates import FEWEST, split_templates
from esdedup.text.arrays import I64
from tests.helpers.arrivals import family
from tests.helpers.commands import words

PLAIN = esdedup.Scheme()
SCHEMES = [
    PLAIN,
    esdedup.Scheme(shingling=esdedup.Shingling("word", 1)),
    esdedup.Scheme(shingling=esdedup.Shingling("char", 5)),
]
ENGLISH = (
    "Dear {name}, we thank you for the order {number} that you placed in our shop. The goods leave"
    " the store in {city} within two days and reach you by mail. Please keep this letter."
)
CHINESE = (
    "尊敬的{name}，感谢您在本店下单，订单编号为{number}，商品将在两日之内从{city}的仓库发出，请注意查收。"
    "如有疑问请与客服联系，祝您生活愉快。"
)
NAMES = {
    ENGLISH: ["Anna Berg", "Ben Castillo", "Carla Duval"],
    CHINESE: ["王小明", "李丽", "陈国强"],
}
CITIES = {ENGLISH: ["Oslo", "Porto"], CHINESE: ["上海", "成都"]}
languages = pytest.mark.parametrize("template", [ENGLISH, CHINESE], ids=["english", "chinese"])


def filled(template: str, count: int) -> list[str]:
    """Documents with numbers of their own, and names and cities that come again."""
    names, cities = NAMES[template], CITIES[template]
    return [
        template.format(
            name=names[row % len(names)], number=4_711 + 13 * row, city=cities[row % len(cities)]
        )
        for row in range(count)
    ]


def base(rng: random.Random, is_chinese: bool) -> list[str]:
    if is_chinese:
        return [chr(rng.randint(0x4E00, 0x9FA0)) for _ in range(120)]
    return words(rng.randrange(1_000), 100).split()


def edited(rng: random.Random, text: list[str]) -> list[str]:
    """A copy with one to four words replaced or left out."""
    copy = list(text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(copy))
        copy[at : at + 1] = rng.choice([[], [f"x{rng.randrange(1_000)}"]])
    return copy


def split(texts: list[str], scheme: esdedup.Scheme = SCHEMES[0]) -> list[int]:
    """The first row of each row's group, if all were one group."""
    one_group = np.zeros(len(texts), np.int64)
    found = split_templates(one_group, lambda rows: [texts[row] for row in rows], scheme)
    return [int(row) for row in found]


@languages
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: str(scheme.shingling))
def test_documents_of_a_template_look_like_one(template: str, scheme: esdedup.Scheme) -> None:
    found = looks_like_template(filled(template, 20), scheme)
    assert found is not None
    assert "4724" in found.examples[1]
    assert len(found.examples) == 3
    if scheme is PLAIN:
        assert found.places == 3
        shown = {text.replace(" ", "") for text in found.examples[0]}
        # Fewer than two words before a slot belong to it.
        name = "dearannaberg" if template is ENGLISH else "王小明"
        assert shown == {name, "4711", CITIES[template][0].casefold()}


@languages
def test_examples_fill_their_places(template: str) -> None:
    """The first texts lack what the others differ in."""
    bare = re.sub(r"[，,]?[^，,。.]*\{\w+\}[^，,。.]*", "", template)
    found = looks_like_template([f"{bare} {row}" for row in range(3)] + filled(template, 20), PLAIN)
    assert found is not None
    assert len(found.examples) == 3
    assert all(any(each) for each in found.examples)


@languages
def test_too_few_documents_are_no_template(template: str) -> None:
    assert looks_like_template(["", "!", "?"] * 10, SCHEMES[0]) is None
    nine = filled(template, FEWEST - 1)
    assert looks_like_template(nine * 3, SCHEMES[0]) is None
    assert looks_like_template(filled(template, FEWEST), SCHEMES[0]) is not None


@given(st.randoms(use_true_random=False), st.booleans(), st.integers(10, 20))
def test_copies_with_edits_anywhere_are_no_template(
    rng: random.Random, is_chinese: bool, count: int
) -> None:
    text = base(rng, is_chinese)
    texts = [" ".join(edited(rng, text)) for _ in range(count)]
    assert looks_like_template(texts, SCHEMES[0]) is None
    assert split(texts) == [0] * count


@pytest.mark.parametrize("is_chinese", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda text, rng: text,
        lambda text, rng: text if rng.random() < 0.5 else f"{text} Sent from my phone. {text[:9]}",
        lambda text, rng: text.upper().replace(" ", rng.choice([" ", "  ", "\n"])),
        lambda text, rng: f"{words(rng.randrange(99), 5)} {text}",
    ],
    ids=["equal", "footer", "space", "headers"],
)
def test_other_copies_are_no_template(
    change: Callable[[str, random.Random], str], is_chinese: bool
) -> None:
    rng = random.Random(3)
    text = family(0, 0, chinese=is_chinese)
    texts = [change(text, rng) for _ in range(20)]
    assert looks_like_template(texts, SCHEMES[0]) is None
    assert split(texts) == [0] * 20


@languages
def test_documents_of_a_template_are_taken_apart_and_copies_stay(template: str) -> None:
    texts = filled(template, 30)
    row = 7
    copies = [
        texts[row].upper(),
        f"{texts[row]} {'版权所有，不得转载。' if template is CHINESE else 'All rights reserved.'}",
        texts[row].replace("from our", "form our").replace("客服", "客户"),
    ]
    found = split([*copies[:1], *texts, *copies[1:]])
    # The first of them leads, in whatever order they come.
    assert found == [0, *range(1, row + 1), 0, *range(row + 2, 31), 0, 0]


@given(st.lists(st.integers(0, 19), min_size=1, max_size=15), st.sampled_from([ENGLISH, CHINESE]))
def test_equal_places_stay_together_and_others_do_not(drawn: list[int], template: str) -> None:
    """Any number of documents of a template, in any order, is one group for each number.

    Many documents may have the same number by chance, which shows no copies.
    """
    assume(max(Counter(drawn).values()) < 7)
    numbers = [*range(20), *drawn]
    texts = [template.format(name="Xi", number=1_000 + each, city="Y") for each in numbers]
    assert split(texts) == [numbers.index(each) for each in numbers]


def test_a_misprint_in_a_name_is_one_and_another_number_is_not() -> None:
    texts = filled(ENGLISH, 20)
    misprinted = texts[4].replace("Castillo", "Castilo")
    other = texts[4].replace("4763", "4764")
    # A document that lacks most places joins no other.
    bare = ENGLISH.replace("Dear {name}, we thank you for the order {number} that you", "You")
    found = split([*texts, misprinted, other, bare.format(city="Oslo")])
    assert found == [*range(20), 4, 21, 22]


def test_two_templates_in_one_group_are_told_apart_and_the_rest_stays() -> None:
    articles = [f"{family(0, 0)} {row}" for row in range(5)]
    texts = [*filled(ENGLISH, 15), *filled(CHINESE, 15), *articles]
    assert split(texts) == [*range(30), *[30] * 5]


def test_small_groups_are_not_read() -> None:
    def texts_of(rows: I64) -> list[str]:
        raise AssertionError(rows)

    partition = np.arange(20) // (FEWEST - 1) * (FEWEST - 1)
    found = split_templates(partition, texts_of, SCHEMES[0])
    np.testing.assert_array_equal(found, partition)
