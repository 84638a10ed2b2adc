"""Where words are, and what two texts share: nothing more is marked, and nothing less."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.text.characters import IGNORED, SYMBOL, character_classes
from esdedup.text.hashing import xxh3
from esdedup.text.highlight import MarkedText, _acts_backwards, mark_shared
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import place, tokenise
from tests.unit.text.test_normalise import ALL, CHARACTERS, CHOICES, LIVELY

PLAIN = Normalisation()
WORDS = [
    "bridge", "Bridge", "river,", "straße", "STRASSE", "ﬁne", "fine", "ＡＢＣ", "abc", "１０", "10",
    "e\u0301tude", "étude", "q\u0323\u0307", "你好", "市图书馆", "。", "㍿", "株式会社", "½", "ｶﾞ",
    "ガ", "ภาษาไทย", "น้ำ", "한국어", "\u1112\u1161\u11ab", "😀", "👨‍👩‍👧", "soft\u00adhyphen",
    "zero\u200bwidth", "हिन्दी", "العَرَبِيَّة", "İı", "ᾳ\u0301", "!", "[bold]", "<b>", "\u0301",
    "=====", "C++", "-20", "❤️", "$+😀😀",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
    st.lists(st.one_of(CHARACTERS, st.sampled_from(" \t\n")), max_size=20).map("".join),
)
SHINGLINGS = [
    Shingling(),
    Shingling("word", 1),
    Shingling("word", 2, ("bridge", "好")),
    Shingling("char", 3),
]
UNITS = st.sampled_from(SHINGLINGS)


def without_ignored(text: str) -> str:
    return "".join(c for c in text if character_classes()[ord(c)] != IGNORED)


@given(TEXTS, UNITS)
def test_places_hold_the_tokens_of_every_sketch(text: str, shingling: Shingling) -> None:
    (normalised,) = normalise([text], PLAIN)
    hashes, starts, ends = place(normalised, shingling, 7)
    assert hashes.tolist() == tokenise([normalised], shingling, 7)[0].tolist()
    found = [normalised[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    words = [" " if piece.isspace() else without_ignored(piece) for piece in found]
    # A run of one symbol counts as at most three of it.
    symbols = [character_classes()[ord(word[0])] == SYMBOL for word in words]
    words = [word[:3] if symbol else word for word, symbol in zip(words, symbols, strict=True)]
    assert xxh3(words, 7).tolist() == hashes.tolist()


def test_places_of_chinese_words() -> None:
    pytest.importorskip("jieba")
    text = "我来到北京，清华大学。"
    shingling = Shingling("jieba", 1)
    hashes, starts, ends = place(text, shingling, 1)
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    assert [text[a:b] for a, b in spans] == ["我", "来到", "北京", "清华大学"]
    assert hashes.tolist() == tokenise([text], shingling, 1)[0].tolist()


@given(TEXTS, TEXTS, UNITS, CHOICES)
def test_words_are_marked_that_lie_in_a_shingle_of_both_and_no_others(
    left: str, right: str, shingling: Shingling, normalisation: Normalisation
) -> None:
    marked = mark_shared((left, right), normalisation, shingling, 3)
    rows = normalise([left, right], normalisation)
    tokens = tokenise(rows, shingling, 3)
    shingles = shingle(tokens, shingling.size)
    for row, text in enumerate((left, right)):
        assert marked[row].text == text
        count = len(tokens[row])
        wanted = {
            token
            for at, one in enumerate(shingles[row].tolist())
            if one in set(shingles[1 - row].tolist())
            for token in range(at, min(at + shingling.size, count))
        }
        assert {*np.flatnonzero(marked[row].common).tolist()} == wanted
        check_stretches(marked[row])


def check_stretches(marked: MarkedText) -> None:
    """Every word is in a stretch of its kind, and a shared one holds words and space, no more."""
    pieces = marked.pieces()
    assert "".join(piece.text for piece in pieces) == marked.text
    kinds = np.array([kind for text, kind, *_ in pieces for _ in text], dtype="U7")
    shared = np.zeros(len(marked.text), np.bool_)
    own = marked.common
    for start, end in zip(marked.starts[own], marked.ends[own], strict=True):
        shared[start:end] = True
    assert (kinds[shared] == "shared").all()
    inside = np.flatnonzero((kinds == "shared") & ~shared)
    assert all(marked.text[at].isspace() for at in inside.tolist())
    for start, end in zip(marked.starts[~own], marked.ends[~own], strict=True):
        assert (kinds[start:end] != "").all()
    found = [(start, end) for start, end in marked.shared for _ in range(start, end)]
    assert len(found) == int((kinds == "shared").sum())


def marks(left: str, right: str, shingling: Shingling = SHINGLINGS[0]) -> list[list[str]]:
    both = mark_shared((left, right), PLAIN, shingling, 1)
    return [[text.text[start:end] for start, end in text.shared] for text in both]


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        (
            "We met on Monday, all of us",
            "They MET on monday all of them",
            [["met on Monday", "all of"], ["MET on monday all of"]],
        ),
        (
            "今天下午三点，市图书馆",
            "今天下午四点,市图書馆今天下",
            [["今天下午", "点", "市图"], ["今天下午", "点", "市图", "今天下"]],
        ),
        (
            "ＡＢＣ　ﬁne Cafe\u0301 x",
            "abc fine café y",
            [["ＡＢＣ　ﬁne Cafe\u0301"], ["abc fine café"]],
        ),
        ("㍿ 東京都港区", "株式会社 新潟", [["㍿"], ["株式会社"]]),
        ("ภาษาไทย", "xภาษาจีน", [["ภาษา"], ["ภาษา"]]),
        ("😀 one two three 😀", "one two 😀 three", [[], []]),
        (
            "C++ and C#, 5% ====",
            "C++ and C %5%=====",
            [["C++ and C", "5% ===="], ["C++ and C", "5%====="]],
        ),
        ("👍🏽 ❤️❤", "👍🏽❤❤", [["👍🏽 ❤️❤"], ["👍🏽❤❤"]]),
        ("two words", "Two Words!", [["two words"], ["Two Words"]]),
        ("two words", "two words more", [[], []]),
        ("", "two words more", [[], []]),
    ],
)  # fmt: skip
def test_what_is_marked(left: str, right: str, shared: list[list[str]]) -> None:
    assert marks(left, right) == shared


def test_stop_words_are_not_marked() -> None:
    shingling = Shingling("word", 2, ("the",))
    assert marks("of the bridge", "of a the bridge of bridge", shingling) == [
        ["of", "bridge"],
        ["of bridge"],
    ]


@pytest.mark.parametrize("normalisation", ALL)
def test_clusters_hold_what_normalisation_changes(normalisation: Normalisation) -> None:
    # Each character that normalisation may change, behind a letter and with more marks behind it.
    text = "".join(f"a{c}\u0301{c}\u0345\u0323{c}가{c}" for c in LIVELY)
    edges = [0, *(at for at in range(1, len(text)) if not _acts_backwards(text[at])), len(text)]
    units = [text[a:b] for a, b in itertools.pairwise(edges)]
    assert "".join(normalise(units, normalisation)) == normalise([text], normalisation)[0]


def test_long_shared_runs_are_cut() -> None:
    run = " ".join(f"w{number}" for number in range(100))
    left, _ = mark_shared((f"one {run}. Two", f"three {run}"), PLAIN, Shingling(), 1)
    pieces = left.pieces(context=5)
    assert [piece[:3] for piece in pieces] == [
        ("one", "differs", 0),
        (" ", "", 0),
        ("w0 w1 w2 w3 w4", "shared", 0),
        ("", "shared", 90),
        ("w95 w96 w97 w98 w99", "shared", 0),
        (". ", "", 0),
        ("Two", "differs", 0),
    ]
    assert "".join(piece.text for piece in left.pieces(context=50)) == left.text


@given(TEXTS, TEXTS, st.integers(0, 40), st.sampled_from([None, 1, 2]))
def test_pieces_end_after_some_characters(
    left: str, right: str, most: int, context: int | None
) -> None:
    marked, _ = mark_shared((f"{left} {right}" * 3, right), PLAIN, Shingling("word", 1), 1)
    pieces, every = marked.pieces(context, most), marked.pieces(context)
    kept, whole = ("".join(piece.text for piece in some) for some in (pieces, every))
    assert whole.startswith(kept)
    assert len(kept) == min(most, len(whole))
    if len(kept) < len(whole):
        remaining = pieces[-1].remaining
        assert marked.text[: len(marked.text) - remaining].endswith(kept[-1:])
        assert context is not None or remaining == len(marked.text) - len(kept)
        assert all(piece.text or piece.left_out for piece in pieces[:-1])
    else:
        assert pieces == every
