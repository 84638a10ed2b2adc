"""What is expected of a corpus, from how alike its documents are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.analysis.tuning import (
    Neighbours,
    bytes_a_document,
    choices,
    expectation,
    from_pairs,
    least_met,
    meeting,
    pair_similarities,
    unrelated,
    with_found,
)
from esdedup.exceptions import UsageError
from esdedup.sketch.banding import candidate_probability, choose_banding
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


def ragged(rows: list[list[int]]) -> Ragged:
    counts = np.array([len(row) for row in rows], np.int64)
    hashes = np.array([element for row in rows for element in row], np.uint64)
    return distinct(Ragged(hashes, offsets_of(counts)))


def some_neighbours(similarity: list[float], expected: list[float], documents: float) -> Neighbours:
    return Neighbours(
        np.array(similarity), np.array(expected), np.zeros(len(similarity), np.int64), documents
    )


# Sets of few different elements share many of them, and some elements are in most of the sets.
@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=45))
def test_the_similarities_of_all_pairs_are_exact(rows: list[list[int]]) -> None:
    similarity, pairs = pair_similarities(ragged(rows))
    sets = [set(row) for row in rows]
    wanted: dict[float, int] = {0.0: 0}
    for a, b in itertools.combinations(sets, 2):
        value = len(a & b) / len(a | b) if a & b else 0.0
        wanted[value] = wanted.get(value, 0) + 1
    assert dict(zip(similarity.tolist(), pairs.tolist(), strict=True)) == wanted
    assert similarity.tolist() == sorted(wanted)


def test_the_similarities_of_many_texts_are_exact() -> None:
    rng = np.random.default_rng(1)
    # More than one block, with elements that all sets have and ones that two have.
    rows = [[*range(n % 7), *rng.integers(100, 4_000, 9).tolist()] for n in range(900)]
    similarity, pairs = pair_similarities(ragged(rows))
    sets = [set(row) for row in rows]
    wanted = np.unique(
        [len(a & b) / len(a | b) for a, b in itertools.combinations(sets, 2)], return_counts=True
    )
    assert similarity.tolist() == wanted[0].tolist()
    assert pairs.tolist() == wanted[1].tolist()


@given(BANDINGS, st.floats(0, 1))
def test_two_documents_meet_as_the_s_curve_says(minhash: MinHash, similarity: float) -> None:
    (met,) = meeting(np.array([similarity]), minhash).tolist()
    curve = candidate_probability(similarity, minhash.bands, minhash.rows)
    assert curve - 1e-12 <= met <= curve + minhash.bands * 2.0**-30 + 1e-12


def test_short_tokens_collide() -> None:
    minhash = MinHash(60, 20, 3, token_bits=12)
    (met,) = meeting(np.zeros(1), minhash).tolist()
    assert met == pytest.approx(1 - (1 - 2.0**-12) ** 20)


@given(
    st.lists(st.tuples(st.floats(0, 1), NUMBERS), min_size=1, max_size=20),
    st.floats(0.01, 1),
    BANDINGS,
)
def test_expectations_are_sums_over_the_neighbours(
    points: list[tuple[float, float]], threshold: float, minhash: MinHash
) -> None:
    points.sort()
    similarity, expected = map(list, zip(*points, strict=True))
    found = expectation(some_neighbours(similarity, expected, 1e7), threshold, minhash)
    met = [float(meeting(np.array([s]), minhash)[0]) * n for s, n in points]
    near = sum(n for s, n in points if s >= threshold)
    assert found.candidates == pytest.approx(sum(met))
    assert found.similar == pytest.approx(near)
    assert found.candidates == pytest.approx(found.similar - found.missed + found.wasted)
    assert (found.recall is None) == (near == 0)
    if found.recall is not None:
        # No pair over the threshold is found less surely than one just there.
        least = candidate_probability(threshold, minhash.bands, minhash.rows)
        assert found.recall >= least - 1e-9


@given(st.integers(2, 500), st.floats(0.01, 1), st.floats(1, 1e9))
def test_a_corpus_of_the_same_kind_has_neighbours_as_its_size(
    sampled: int, similarity: float, documents: float
) -> None:
    pairs = from_pairs(ragged([[1, 2, 3]] * sampled), sampled)
    assert pairs.expected.sum() == pytest.approx(sampled - 1)
    assert pairs.of(documents).expected.sum() == pytest.approx(documents - 1, abs=1e-6)
    assert unrelated(documents, similarity).expected.sum() == documents - 1


@given(st.integers(1, 200), st.lists(st.floats(0, 1), max_size=30))
def test_a_histogram_holds_every_neighbour_in_its_bin(bins: int, values: list[float]) -> None:
    found = some_neighbours(sorted(values), [2.0] * len(values), 1e3).histogram(bins)
    assert found.sum() == 2.0 * len(values)
    edges = some_neighbours([0.0, 0.3, 0.7, 1.0], [1.0, 2.0, 4.0, 8.0], 16).histogram(10)
    assert edges.tolist() == [1, 0, 0, 2, 0, 0, 0, 4, 0, 8]


@given(st.integers(2, 1_000), st.integers(2, 1_000_000), BANDINGS)
def test_tokens_are_asked_where_they_find_more_surely(
    sampled: int, more: int, minhash: MinHash
) -> None:
    least = least_met(minhash, sampled, sampled + more)
    chance = (sampled - 1) / (sampled + more - 1)
    curve = candidate_probability(least, minhash.bands, minhash.rows)
    assert curve == pytest.approx(chance, rel=1e-6)
    assert least_met(minhash, sampled, sampled) > 1


def test_what_tokens_find_is_corrected_by_its_chance() -> None:
    rng = np.random.default_rng(3)
    minhash, sampled, documents = MinHash(60, 10, 6), 400, 50_000
    # Every document has three neighbours at 0.5, of which the tokens find one in seven, and one
    # at 0.9; nearly none of them is in the sample.
    truth = np.repeat([0.5, 0.5, 0.5, 0.9], sampled)
    estimates = []
    for _ in range(50):
        found = truth[rng.random(truth.size) < meeting(truth, minhash)]
        base = from_pairs(ragged([[n] for n in range(sampled)]), documents)
        least = least_met(minhash, sampled, documents)
        assert least < 0.5
        estimates.append(with_found(base, found, sampled, minhash, least))
    for one in estimates:
        assert one.expected.sum() == pytest.approx(documents - 1)
        assert one.seen_from(0.4) == one.seen[1:].sum() > 0
    at_half = np.mean([one.expected[one.similarity == 0.5].sum() for one in estimates])
    # The standard deviation of a mean of 50 is 0.02.
    assert at_half == pytest.approx(3.0, abs=0.1)
    assert estimates[0].expected[-1] == pytest.approx(1.0, abs=0.05)


def test_pairs_of_the_sample_tell_of_clusters_that_tokens_miss() -> None:
    # A tenth of the documents are alike; the tokens meet in all of their pairs, or in none.
    minhash, sampled, documents = MinHash(69, 23, 3), 1_000, 10_000
    rows = [[1, 2, 3, 4, n + 10, n + 2_000, n + 4_000] for n in range(100)]
    base = from_pairs(ragged(rows + [[n + 9_000] for n in range(900)]), documents)
    (value,) = base.similarity[base.similarity > 0].tolist()
    (chance,) = meeting(np.array([value]), minhash).tolist()
    assert 0.6 < chance < 0.9
    least = least_met(minhash, sampled, documents)
    truth = 0.1 * 999
    for met in (0, 999):
        found = np.full(100 * met, value)
        one = with_found(base, found, sampled, minhash, least)
        got = one.expected[one.similarity == value].sum()
        assert got == pytest.approx(truth, rel=0.35)
    # What is seen but a few times in pairs is not believed over the tokens.
    few = from_pairs(ragged(rows[:5] + [[n + 9_000] for n in range(995)]), documents)
    nothing = with_found(few, np.empty(0), sampled, minhash, least)
    assert nothing.expected[nothing.similarity == value].tolist() == [0.0]


def test_a_sample_needs_two_texts() -> None:
    for rows in ([], [[1, 2]]):
        with pytest.raises(UsageError, match="give two or more"):
            from_pairs(ragged(rows), 10)
    assert from_pairs(ragged([[], []]), 10).expected.tolist() == [9.0]


@given(st.floats(0.3, 0.95), st.floats(0.5, 0.999), st.integers(64, 512))
def test_every_choice_reaches_the_recall_within_the_permutations(
    threshold: float, recall: float, permutations: int
) -> None:
    found = choices(
        threshold, recall, unrelated(1e6, 0.02), Scheme([MinHash(permutations, 1, 1), SimHash()])
    )
    for choice in found:
        assert choice.sketch.bands * choice.sketch.rows <= permutations
        assert choice.recall_at_threshold >= recall - 1e-9
        assert choice.tokens == choice.sketch.bands + 4
    (chosen,) = [choice.sketch for choice in found if choice.chosen]
    assert (chosen.bands, chosen.rows) == choose_banding(threshold, recall, permutations)
    first = found[0].sketch.rows
    by_hand = choices(
        threshold, recall, unrelated(1e6, 0.02), Scheme([MinHash(permutations, 1, 1)]), first
    )
    assert [choice.sketch.rows for choice in by_hand if choice.chosen] == [first]


def test_rows_that_do_not_reach_the_recall_are_refused() -> None:
    with pytest.raises(UsageError, match=r"rows 9: recall 0\.95 at threshold 0\.8 within 128"):
        choices(0.8, 0.95, unrelated(1e6, 0.02), Scheme([MinHash()]), rows=9)


def test_bytes_are_as_measured() -> None:
    # On Elasticsearch, merged, at 100,000 documents.
    assert bytes_a_document(Scheme([MinHash(128, 23, 3), SimHash()])) == pytest.approx(
        416.6, rel=0.02
    )
    assert bytes_a_document(Scheme([MinHash(128, 12, 3), SimHash()])) == pytest.approx(
        250.9, rel=0.02
    )
    assert bytes_a_document(Scheme([MinHash(128, 11, 3), SimHash()])) == pytest.approx(
        235.7, rel=0.02
    )
    assert bytes_a_document(Scheme([MinHash(128, 12, 3)])) == pytest.approx(211.1, rel=0.02)
