"""Winnowing misses no passage of the guaranteed length, and shared runs are all of them."""

import itertools

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from esdedup.text.arrays import U64, Ragged
from esdedup.text.hashing import xxh3
from esdedup.text.passages import covered, shared_runs, winnow
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import tokenise

Text = list[int]
Layout = tuple[int, int]
LAYOUTS = st.tuples(st.integers(1, 6), st.integers(1, 9))
FEW = st.lists(st.integers(0, 2), max_size=30)
"""Texts of three words: most runs occur several times."""
MANY = st.lists(st.integers(0, 2**64 - 1), max_size=40)
TEXTS = FEW | MANY
ENGLISH = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "it",
    "rains",
]
CHINESE = list("市图书馆今天开放，读者可以借阅新书，也可以参加下午的讲座。")


def hashes(numbers: list[int]) -> U64:
    return xxh3(map(str, numbers), 1)


def rows(texts: list[list[int]]) -> Ragged:
    return Ragged.of_rows([hashes(text) for text in texts])


def winnowed(text: U64, run: int, window: int) -> list[int]:
    """Winnow a text as the paper describes it."""
    every = shingle(Ragged.of_rows([text]), run).hashes.tolist()
    last = max(len(every) - window, 0)
    return sorted({min(every[at : at + window]) for at in range(last + 1) if every})


def longest_runs(left: list[int], right: list[int], least: int) -> list[tuple[int, int, int]]:
    """Compare every pair of positions."""
    found = []
    for i, j in itertools.product(range(len(left)), range(len(right))):
        if left[i] == right[j] and not (i and j and left[i - 1] == right[j - 1]):
            equal = zip(left[i:], right[j:], strict=False)
            size = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], equal))
            if size >= least or size == len(left) == len(right):
                found.append((i, j, size))
    return found


@given(st.lists(TEXTS, max_size=5), LAYOUTS)
@example([[]], (5, 8))
@example([[0] * 12, [1, 2, 3], [], [4]], (5, 8))
def test_winnowing_keeps_the_smallest_hash_of_each_window(
    texts: list[Text], layout: Layout
) -> None:
    found = winnow(rows(texts), *layout)
    assert [row.tolist() for row in found] == [winnowed(hashes(text), *layout) for text in texts]


@given(TEXTS, TEXTS, TEXTS, TEXTS, st.data(), LAYOUTS)
def test_texts_that_share_a_passage_share_a_token(
    before: Text, after: Text, head: Text, tail: Text, data: st.DataObject, layout: Layout
) -> None:
    run, window = layout
    words = st.integers(0, 2**64 - 1)
    passage = data.draw(st.lists(words, min_size=run + window - 1, max_size=run + window + 5))
    texts = [before + passage + after, head + passage + tail]
    left, right = winnow(rows(texts), run, window, 36)
    assert np.intersect1d(left, right).size


@given(st.sampled_from([ENGLISH, CHINESE]), st.data(), LAYOUTS)
def test_passages_of_english_and_chinese_share_a_token(
    words: list[str], data: st.DataObject, layout: Layout
) -> None:
    shingling = Shingling()
    between = " " if words is ENGLISH else ""
    kept = sum(layout) - 1
    some = st.lists(st.sampled_from(words), max_size=20)
    # Commas are no words.
    counted = st.sampled_from([word for word in words if word.isalnum()])
    passage = data.draw(st.lists(counted, min_size=kept, max_size=kept * 2))
    texts = [between.join([*data.draw(some), *passage, *data.draw(some)]) for _ in range(2)]
    tokens = tokenise(texts, shingling, 1)
    starts, _, lengths = shared_runs(tokens[0], tokens[1], kept)
    left, right = winnow(tokens, *layout, 36)
    assert not starts.size or np.intersect1d(left, right).size
    assert lengths.max(initial=0) >= kept


@given(TEXTS, LAYOUTS)
def test_every_text_with_words_has_a_token_and_equal_texts_share_all(
    text: Text, layout: Layout
) -> None:
    left, right = winnow(rows([text, text]), *layout, 36)
    assert left.tolist() == right.tolist()
    assert bool(left.size) == bool(text)
    assert (left >> np.uint64(36) == 0).all()


@given(TEXTS, TEXTS, st.integers(1, 6))
@example([0] * 30, [0] * 20, 5)
@example([0, 1], [0, 1], 5)
@example([0, 1], [0, 1, 2], 5)
@example([], [], 1)
@example([], [1], 1)
def test_shared_runs_are_all_that_cannot_be_extended(left: Text, right: Text, least: int) -> None:
    found = np.stack(shared_runs(hashes(left), hashes(right), least), axis=1)
    assert [*map(tuple, found.tolist())] == longest_runs(left, right, least)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4), st.integers(1, 6))
def test_covered_words_are_those_in_shared_runs(pairs: list[tuple[Text, Text]], least: int) -> None:
    sides = [rows([left for left, _ in pairs]), rows([right for _, right in pairs])]
    masks = zip(covered(sides[0], sides[1], least), sides, strict=True)
    found = [Ragged(mask.astype(np.uint64), side.offsets) for mask, side in masks]
    for row, pair in enumerate(pairs):
        runs = longest_runs(*pair, least)
        for side in (0, 1):
            expected = {at for run in runs for at in range(run[side], run[side] + run[2])}
            assert set(np.flatnonzero(found[side][row]).tolist()) == expected


def test_shared_runs_of_texts_that_repeat_themselves_are_few() -> None:
    """Comparing every pair of equal runs would need 10^10 of them."""
    one = xxh3(["a"], 1).repeat(100_000)
    _, _, lengths = shared_runs(one, one[:99_999], 12)
    assert lengths.size == 99_989 + 99_988 - 1
