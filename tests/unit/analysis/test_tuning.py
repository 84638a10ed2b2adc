"""What is expected of a corpus, from the similarities of its documents."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.analysis.sampling import chance_of_meeting, pairs_of_sets
from esdedup.analysis.tuning import Neighbours, choices, expectation, unrelated
from esdedup.sketch.banding import choose_banding, expected_recall
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.sketch.scheme import Scheme
from esdedup.text.arrays import Ragged, offsets_of
from esdedup.text.shingles import distinct

NUMBERS = st.just(0.0) | st.floats(1e-9, 1e6)
"""Numbers of neighbours. Much smaller ones have no exact product with a chance."""
BANDINGS = st.builds(
    lambda bands, rows: MinHash(bands * rows, bands, rows), st.integers(1, 40), st.integers(1, 9)
)


def check_pairs(rows: list[list[int]]) -> None:
    counts = np.array([len(row) for row in rows], np.int64)
    hashes = np.array([element for row in rows for element in row], np.uint64)
    found = {}
    for blocks in pairs_of_sets(distinct(Ragged(hashes, offsets_of(counts)))):
        for left, right, value in zip(*(each.tolist() for each in blocks), strict=True):
            assert (left, right) not in found
            found[left, right] = value
    sets = [set(row) for row in rows]
    assert found == {
        (left, right): len(a & b) / len(a | b)
        for (left, a), (right, b) in itertools.combinations(enumerate(sets), 2)
        if a & b
    }


# Sets of few different elements share many of them, and some elements are in most of the sets.
@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=45))
def test_the_similarities_of_all_pairs_are_exact(rows: list[list[int]]) -> None:
    check_pairs(rows)


def test_the_similarities_of_many_texts_are_exact() -> None:
    rng = np.random.default_rng(1)
    # More than one block, with elements that all sets have and ones that two have.
    check_pairs([[*range(n % 7), *rng.integers(100, 4_000, 9).tolist()] for n in range(900)])


@given(BANDINGS, st.floats(0, 1))
def test_two_documents_meet_by_the_s_curve(minhash: MinHash, similarity: float) -> None:
    (met,) = chance_of_meeting(np.array([similarity]), minhash).tolist()
    curve = expected_recall(similarity, minhash.bands, minhash.rows)
    assert curve - 1e-12 <= met <= curve + minhash.bands * 2.0**-30 + 1e-12


def test_short_tokens_collide() -> None:
    minhash = MinHash(60, 20, 3, token_bits=12)
    (met,) = chance_of_meeting(np.zeros(1), minhash).tolist()
    assert met == pytest.approx(1 - (1 - 2.0**-12) ** 20)


@given(
    st.lists(st.tuples(st.floats(0, 1), NUMBERS), min_size=1, max_size=20),
    st.floats(0.01, 1),
    BANDINGS,
)
def test_expectations_are_sums_over_the_neighbours(
    points: list[tuple[float, float]], threshold: float, minhash: MinHash
) -> None:
    similarity, expected = map(np.array, zip(*points, strict=True))
    neighbours = Neighbours(similarity, expected, np.zeros(similarity.size, np.int64), 1e7)
    found = expectation(neighbours, threshold, minhash)
    met = [float(chance_of_meeting(np.array([s]), minhash)[0]) * n for s, n in points]
    near = sum(n for s, n in points if s >= threshold)
    assert found.candidates == pytest.approx(sum(met))
    assert found.similar == pytest.approx(near)
    assert found.candidates == pytest.approx(found.similar - found.missed + found.wasted)
    assert (found.recall is None) == (near == 0)
    if found.recall is not None:
        # No pair over the threshold is found less surely than one just there.
        least = expected_recall(threshold, minhash.bands, minhash.rows)
        assert found.recall >= least - 1e-9
    assert neighbours.histogram(10).sum() == pytest.approx(expected.sum())


def test_a_corpus_of_the_same_kind_has_neighbours_as_its_size() -> None:
    few = unrelated(101)
    assert few.of(1_001).expected.tolist() == [1_000]
    assert few.of(1).expected.tolist() == [0]


@given(st.floats(0.3, 0.95), st.floats(0.5, 0.999), st.integers(64, 512))
def test_every_choice_reaches_the_recall_within_the_permutations(
    threshold: float, recall: float, permutations: int
) -> None:
    scheme = Scheme([MinHash(permutations, 1, 1), SimHash()])
    found = choices(threshold, recall, unrelated(1e6), scheme)
    for choice in found:
        assert choice.sketch.tokens * choice.sketch.rows_of_band <= permutations
        assert choice.recall_at_threshold >= recall - 1e-9
        assert choice.tokens == choice.sketch.tokens + 4
    (chosen,) = [choice.sketch for choice in found if choice.chosen]
    assert (chosen.tokens, chosen.rows_of_band) == choose_banding(threshold, recall, permutations)
