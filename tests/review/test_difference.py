"""Differences between two texts, as the pages mark them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.review.shown.difference import Difference, changes, differences, pieces
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


@pytest.mark.parametrize(
    ("words", "between"),
    [
        ([f"word{number}" for number in range(20_000)], " "),
        ([chr(0x4E00 + number) for number in range(3_000)], ""),
    ],
)
def test_long_texts_are_aligned_by_the_passages_that_they_share(
    words: list[str], between: str
) -> None:
    rng = random.Random(3)
    left = rng.choices(words, k=60_000)
    right = [*left]
    for place in range(1_000, 60_000, 7_000):
        right[place] = "NEW"
    # A part of it is elsewhere in the other text.
    right = [*right[:30_500], *right[31_000:50_500], *right[30_500:31_000], *right[50_500:]]
    found = marked(between.join(left), between.join(right))
    changed = {other.strip() for _, _, other in found if 0 < len(other) < 10}
    assert changed == {"NEW"}
    assert len([other for _, _, other in found if "NEW" in other]) == 9
    moved = between.join(left[30_500:31_000])
    assert [text.strip() for _, text, _ in found if len(text) > 10] == [moved]
    assert [text.strip() for _, _, text in found if len(text) > 10] == [moved]


@pytest.mark.parametrize("words", [["same"], ["one", "two", "three"], [*"abcdefghijklmnop"]])
def test_texts_of_the_same_words_over_and_over_are_aligned_too(words: list[str]) -> None:
    rng = random.Random(4)
    left = " ".join(rng.choices(words, k=12_000))
    right = f"{left[:20_000]} NEW {left[20_000:]}"
    for one, other in ((left, right), (left, "none of these words"), ("", left)):
        found = differences(one, other, SCHEME)
        assert found is not None
        for text, spans in zip((one, other), found, strict=True):
            edges = [edge for span in spans for edge in span[:2]]
            assert edges == sorted(edges)
            assert not edges or edges[-1] <= len(text)


@given(
    st.lists(
        st.tuples(st.sampled_from(["same ", "Same ", "word ", "! ", "读"]), st.integers(1, 4_000)),
        max_size=4,
    ),
    st.integers(0, 3),
    st.booleans(),
)
def test_of_long_changes_the_ends_are_shown(
    parts: list[tuple[str, int]], kept: int, all_ignored: bool
) -> None:
    """The cut holds for words that were added or removed, or whose difference is ignored."""
    longer = "".join(word * count for word, count in parts)
    shorter = "".join(word.lower() * count for word, count in parts[:kept])
    for texts in ((shorter, longer), (longer, shorter), (longer.lower(), longer)):
        spans = differences(*texts, SCHEME)
        assert spans is not None
        changed = changes(texts, spans, 1_500, all_ignored=all_ignored)
        assert sum(len(piece.text) for piece in changed) <= 1_500 + 4 * 360
        # The shown pieces of the second text are in it, in its order.
        start = 0
        for piece in changed:
            start += piece.left_out
            if piece.text and piece.kind != "removed" and piece.text != "\u00a0":
                assert texts[1].startswith(piece.text, start)
                start += len(piece.text)


def test_an_added_text_is_shown_whole_up_to_the_size_of_a_list() -> None:
    added = "a new paragraph of some length " * 40
    text = f"the beginning {added}and the end"
    spans = differences("the beginning and the end", text, SCHEME)
    assert spans is not None
    shown = changes(("the beginning and the end", text), spans, 1_500)
    assert "".join(piece.text for piece in shown) == text
    spans = differences("the beginning and the end", text * 3, SCHEME)
    assert spans is not None
    shown = changes(("the beginning and the end", text * 3), spans, 1_500)
    assert sum(piece.left_out for piece in shown) > 2_000


def test_longer_texts_than_any_page_shows_are_not_aligned() -> None:
    assert differences("a " * 600_000, "b", SCHEME) is None
