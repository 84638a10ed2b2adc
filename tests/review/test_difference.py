"""Differences between two texts, as the pages mark them."""

import random

import pytest

from esdedup.review.shown.difference import Difference, differences, pieces
from esdedup.sketch.scheme import Scheme

SCHEME = Scheme()


def marked(left: str, right: str) -> list[tuple[str, str, str]]:
    """The kind of each difference, with what either text has there."""
    found = differences(left, right, SCHEME)
    assert found is not None
    return [
        (one.kind, left[one.start : one.end], right[other.start : other.end])
        for one, other in zip(*found, strict=True)
    ]


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("the river is high", "the canal is high", [("differs", "river", "canal")]),
        ("GNU Objective-C++ compiler", "GNU Objective-C compiler", [("differs", "++", "")]),
        ("costs $100 now", "costs €100 now", [("differs", "$", "€")]),
        ("from -20 degrees", "from +20 degrees", [("differs", "-", "+")]),
        ("track #1 of it", "track 1 of it", [("differs", "#", "")]),
        ("grade A+ is good", "grade A- is good", [("differs", "+", "-")]),
        ("Hello, World", "hello World", [("ignored", "Hello,", "hello")]),
        ("A storm", "Bulletin: a storm", [("differs", "", "Bulletin: "), ("ignored", "A", "a")]),
        ("one  two", "one two", [("ignored", " ", "")]),
        ("市图书馆举行读书会", "市图书馆举办读书会", [("differs", "行", "办")]),
        ("cafe\u0301 bar", "caf\u00e9 bar", [("ignored", "cafe\u0301", "caf\u00e9")]),
        ("\U0001f44d good", "\U0001f44e good", [("differs", "\U0001f44d", "\U0001f44e")]),
        ("", "word", [("differs", "", "word")]),
        ("", "", []),
        ("same text", "same text", []),
    ],
)
def test_each_difference_is_marked(
    left: str, right: str, wanted: list[tuple[str, str, str]]
) -> None:
    assert marked(left, right) == wanted
    assert marked(right, left) == [(kind, other, one) for kind, one, other in wanted]


def test_no_differing_character_is_left_unmarked() -> None:
    rng = random.Random(5)
    for _ in range(200):
        left, right = ("".join(rng.choices("aB +-#.\u0301é市", k=rng.randrange(40))) for _ in "12")
        found = differences(left, right, SCHEME)
        assert found is not None
        kept = []
        for text, spans in zip((left, right), found, strict=True):
            edges = [0, *(edge for span in spans for edge in span[:2]), len(text)]
            kept.append([text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)])
        assert kept[0] == kept[1]


def test_excerpts_keep_the_differences() -> None:
    text = "x" * 5_000 + "here" + "y" * 5_000
    found = pieces(text, [Difference(5_000, 5_004, "differs")], 1_500)
    assert [(each.kind, len(each.text), each.left_out) for each in found] == [
        ("", 120, 0),
        ("", 0, 4_760),
        ("", 120, 0),
        ("differs", 4, 0),
        ("", 120, 0),
        ("", 0, 4_760),
        ("", 120, 0),
    ]
    assert pieces(text, [], 1_500) == ((text[:1_500], "", 0), ("", "", len(text) - 1_500))


def test_long_texts_are_not_aligned() -> None:
    assert differences("a " * 40_000, "b", SCHEME) is None
