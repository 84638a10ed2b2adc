"""Pairs are drawn to be judged, and judgements tell precision and recall."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from esdedup.analysis.neighbours import met
from hypothesis import given
from hypothesis import strategies as st

from esdedup.analysis.judging import FLOOR as LOWEST
from esdedup.analysis.judging import (
    NEAR,
    AtThreshold,
    Drawn,
    Pool,
    PooledPair,
    changing,
    drawn_of,
    estimates,
    floor_of,
    in_turn,
    more_wanted,
)
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.stores.judgements import Judgement, Judgements, Verdict
from esdedup.text.arrays import F64, I64
from esdedup.text.normalise import Normalisation

MINHASH = MinHash()
FLOOR = floor_of(MINHASH)
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, eq=False)
class Population:
    """All similar pairs of documents 0, 1, ..., `documents` - 1, with the truth about them."""

    documents: int
    left: I64
    right: I64
    similarity: F64
    duplicate: F64

    def truth(self, threshold: float) -> tuple[float, float]:
        """Precision and recall."""
        above = self.similarity >= threshold
        known = self.duplicate[self.similarity >= FLOOR].sum()
        return float(self.duplicate[above].mean()), float(self.duplicate[above].sum() / known)

    def pool(self, rng: np.random.Generator, sample: int, exact: bool = False) -> Pool:
        """The pool of a sample of the documents, with the pairs that bands find, or all."""
        row_of = np.full(self.documents, -1)
        sample = min(sample, self.documents)
        row_of[rng.permutation(self.documents)[:sample]] = np.arange(sample)
        chance = met(self.similarity, MINHASH, LOWEST)
        if exact:
            chance = np.ones_like(chance)
        seen = rng.random(self.similarity.size) < chance
        found = np.flatnonzero(seen & (self.similarity >= FLOOR))
        pair = np.concatenate([found, found])
        row = row_of[np.concatenate([self.left[found], self.right[found]])]
        pair, row = pair[row >= 0], row[row >= 0]
        weight = self.documents / sample / 2 / chance[pair]
        turn = rng.standard_exponential(weight.size) / weight
        pairs = {}
        for at in np.argsort(-turn).tolist():
            ids = str(self.left[pair[at]]), str(self.right[pair[at]])
            alike = float(self.similarity[pair[at]])
            pairs[ids] = PooledPair(*ids, alike, int(row[at]), float(turn[at]))
        kept = tuple(sorted(pairs.values(), key=lambda each: each.turn))
        found_columns = row, self.similarity[pair], weight, chance[pair], np.ones(pair.size)
        return Pool(
            FLOOR,
            1.0 if exact else 0.6,
            self.documents,
            sample,
            0,
            kept,
            *found_columns,
            np.ones(sample),
        )

    def judged(self, pairs: Sequence[PooledPair]) -> Drawn:
        """True judgements of pairs."""
        both = zip(self.left.tolist(), self.right.tolist(), strict=True)
        truth = dict(zip(both, self.duplicate.tolist(), strict=True))
        return Drawn(
            np.array([pair.similarity for pair in pairs]),
            np.array([truth[int(pair.left), int(pair.right)] for pair in pairs]),
            np.array([pair.row for pair in pairs], np.int64),
        )


def population(rng: np.random.Generator, documents: int) -> Population:
    """Groups of 2 to 6 documents, duplicates by a chance that grows with the similarity."""
    left, right, similarity = [], [], []
    for first in range(0, documents, 8):
        base = rng.uniform(0.3, 1.0)
        for a, b in itertools.combinations(range(first, first + int(rng.integers(1, 7))), 2):
            left.append(a)
            right.append(b)
            similarity.append(min(1.0, max(0.0, base + rng.normal(0, 0.03))))
    alike = np.round(similarity, 3)
    duplicate = rng.random(alike.size) < 1 / (1 + np.exp((0.65 - alike) / 0.06))
    columns = np.array(left), np.array(right), alike, duplicate.astype(np.float64)
    return Population(documents, *columns)


def judgement(pair: PooledPair, verdict: Verdict = "duplicate", drawn: bool = True) -> Judgement:
    digests, normal = ("", ""), Normalisation()
    return Judgement(*pair[:2], verdict, digests, normal, pair.similarity, "", drawn)


# Drawing


@given(st.integers(0, 2**32), st.floats(0.3, 1.0), st.integers(0, 60))
def test_a_restart_goes_on_where_it_was(seed: int, threshold: float, before: int) -> None:
    rng = np.random.default_rng(seed)
    pool = population(rng, 400).pool(rng, 200)
    order = [pair[:2] for pair in in_turn(pool, threshold, ())]
    assert len(order) == len(pool.pairs) == len(set(order))
    judged = set(order[:before])
    assert [pair[:2] for pair in in_turn(pool, threshold, judged)] == order[before:]


@given(st.integers(0, 2**32), st.sampled_from([0.5, 0.7, 0.8, 0.85]))
def test_half_of_the_judgements_are_near_the_threshold(seed: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    pool = population(rng, 3_000).pool(rng, 800)
    some = [pair.similarity for pair in itertools.islice(in_turn(pool, threshold, ()), 100)]
    near = sum(abs(each - threshold) <= NEAR + 0.011 for each in some)
    assert 45 <= near <= 60
    # The whole range has some.
    assert min(some) < 0.36
    assert max(some) > 0.96


def test_nothing_is_drawn_twice_and_the_end_comes() -> None:
    rng = np.random.default_rng(1)
    pool = population(rng, 400).pool(rng, 100)
    assert not [*in_turn(pool, 0.8, {pair[:2] for pair in pool.pairs})]


# What counts


def test_a_pair_chosen_by_eye_counts_from_when_its_turn_has_come() -> None:
    pairs = [PooledPair("a", str(number), 0.85, 0, float(number)) for number in range(4)]
    pool = pool_of(pairs)
    eye = judgement(pairs[1], "different", drawn=False)
    assert drawn_of(pool, Judgements((eye,))).duplicate.tolist() == []
    first = judgement(pairs[0])
    assert drawn_of(pool, Judgements((eye, first))).duplicate.tolist() == [1.0]
    later = judgement(pairs[2])
    assert drawn_of(pool, Judgements((eye, first, later))).duplicate.tolist() == [0.0, 1.0, 1.0]


def test_pairs_chosen_by_eye_count_if_all_of_their_kind_are_judged() -> None:
    pairs = [PooledPair("a", str(number), 0.85, 0, float(number)) for number in range(3)]
    judged = Judgements(tuple(judgement(pair, drawn=False) for pair in pairs))
    assert drawn_of(pool_of(pairs), judged).duplicate.tolist() == [1.0, 1.0, 1.0]


def test_skipped_pairs_and_pairs_below_the_floor_do_not_count() -> None:
    pair = PooledPair("a", "b", 0.85, 0, 1.0)
    low = pair._replace(right="c", similarity=FLOOR - 0.01)
    judged = Judgements((judgement(pair, "unsure"), judgement(low)))
    assert drawn_of(pool_of([pair]), judged).duplicate.size == 0


def test_a_drawn_pair_counts_if_the_sample_is_another_one_now() -> None:
    gone = PooledPair("x", "y", 0.9, 7, 1.0)
    counted = drawn_of(pool_of([]), Judgements((judgement(gone),)))
    assert (counted.similarity.tolist(), counted.row.tolist()) == ([0.9], [-1])


def pool_of(pairs: Sequence[PooledPair], documents: int = 100) -> Pool:
    count = len(pairs)
    similarity = np.array([pair.similarity for pair in pairs], np.float64)
    row = np.array([pair.row for pair in pairs], np.int64)
    columns = row, similarity, np.full(count, 5.0), np.ones(count), np.ones(count)
    return Pool(FLOOR, 0.6, documents, 10, 0, tuple(pairs), *columns, np.ones(10))


# Estimates


def test_without_judgements_nothing_is_claimed() -> None:
    rng = np.random.default_rng(1)
    some = population(rng, 800)
    pool = some.pool(rng, 200)
    for each in estimates(pool, some.judged([]), THRESHOLDS):
        assert (each.precision, each.recall, each.above, each.below) == (None, None, 0, 0)
        assert each.removed.low < each.removed.value < each.removed.high
    # All judgements are above: nobody knows what is below.
    above = [pair for pair in pool.pairs if pair.similarity >= 0.8]
    (found,) = estimates(pool, some.judged(above), [0.8])
    assert found.precision is not None
    assert found.recall is None


def test_an_index_that_is_judged_whole_has_no_error() -> None:
    rng = np.random.default_rng(1)
    some = population(rng, 300)
    pool = some.pool(rng, 300, exact=True)
    drawn = some.judged(pool.pairs)
    for each in estimates(pool, drawn, THRESHOLDS):
        above = drawn.similarity >= each.threshold
        precision = drawn.duplicate[above].mean()
        recall = drawn.duplicate[above].sum() / drawn.duplicate.sum()
        assert each.precision == pytest.approx((precision,) * 3)
        assert each.recall == pytest.approx((recall,) * 3)


def test_documents_removed_are_exact_for_groups_of_equal_similarity() -> None:
    # Two groups of four and two; the first ones stay.
    pairs = [*itertools.combinations(range(4), 2), (4, 5)]
    row = np.array([each for pair in pairs for each in pair])
    ones = np.ones(row.size)
    copies = np.ones(10)
    pool = Pool(FLOOR, 1.0, 10, 10, 0, (), row, 0.9 * ones, ones, ones, ones, copies)
    nothing = Drawn(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    low, at, high = estimates(pool, nothing, [0.5, 0.9, 0.95])
    assert low.removed == at.removed == pytest.approx((4.0, 4.0, 4.0))
    assert high.removed == pytest.approx((0.0, 0.0, 0.0))


@given(st.integers(0, 2**32), st.integers(1, 120), st.integers(20, 500))
def test_estimates_are_shares_and_fall_with_the_threshold(
    seed: int, count: int, sample: int
) -> None:
    rng = np.random.default_rng(seed)
    some = population(rng, 800)
    pool = some.pool(rng, sample)
    drawn = some.judged([*itertools.islice(in_turn(pool, 0.8, ()), count)])
    found = estimates(pool, drawn, THRESHOLDS)
    for each in found:
        for interval in (each.precision, each.recall):
            if interval is not None:
                assert 0.0 <= interval.low <= interval.value <= interval.high <= 1.0
        assert each.above + each.below == drawn.similarity.size
    removed = [each.removed.value for each in found]
    assert removed == sorted(removed, reverse=True)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(5)
    held = {"precision": 0, "recall": 0}
    runs = 40
    for _ in range(runs):
        some = population(rng, 1_200)
        pool = some.pool(rng, 200)
        drawn = some.judged([*itertools.islice(in_turn(pool, 0.8, ()), 100)])
        for each in estimates(pool, drawn, (0.6, 0.7, 0.8)):
            for name, truth in zip(held, some.truth(each.threshold), strict=True):
                held[name] += holds(each, name, truth)
    for count in held.values():
        # 95% are expected; those of one run are not independent.
        assert 0.90 <= count / (3 * runs) <= 0.995


def test_intervals_of_an_index_that_is_taken_whole_hold_the_truth() -> None:
    rng = np.random.default_rng(3)
    held = {"precision": 0, "recall": 0}
    runs, thresholds = 60, (0.4, 0.5, 0.6, 0.7)
    for _ in range(runs):
        some = population(rng, 504)
        pool = some.pool(rng, 504, exact=True)
        drawn = some.judged([*itertools.islice(in_turn(pool, 0.8, ()), 60)])
        for each in estimates(pool, drawn, thresholds):
            for name, truth in zip(held, some.truth(each.threshold), strict=True):
                held[name] += holds(each, name, truth)
    for count in held.values():
        assert 0.94 <= count / (len(thresholds) * runs) <= 0.995


def families(rng: np.random.Generator, documents: int) -> Population:
    """Groups of 1 to 8 documents, each of one similarity to each other."""
    left, right, similarity = [], [], []
    first = 0
    while first < documents:
        size = min(int(rng.integers(1, 9)), documents - first)
        for a, b in itertools.combinations(range(first, first + size), 2):
            left.append(a)
            right.append(b)
            similarity.append(0.35 + 0.1 * ((first * 7 + size) % 5))
        first += size
    columns = np.array(left), np.array(right), np.array(similarity), np.zeros(len(left))
    return Population(documents, *columns)


def removed_of(some: Population, threshold: float) -> float:
    """The documents that are removed at a threshold."""
    above = some.similarity >= threshold
    ends = np.concatenate([some.left[above], some.right[above]])
    return float((1 - 1 / (1 + np.bincount(ends, minlength=some.documents))).sum())


@pytest.mark.parametrize("exact", [True, False])
def test_documents_removed_have_no_bias_and_their_intervals_hold_the_truth(exact: bool) -> None:
    rng = np.random.default_rng(3)
    runs, thresholds = 60, (0.34, 0.4, 0.5, 0.6)
    held, missed = np.zeros(len(thresholds)), np.zeros(len(thresholds))
    for _ in range(runs):
        some = families(rng, 2_000)
        found = estimates(some.pool(rng, 300, exact), some.judged([]), thresholds)
        for at, each in enumerate(found):
            truth = removed_of(some, each.threshold)
            held[at] += each.removed.low <= truth <= each.removed.high
            missed[at] += (each.removed.value - truth) / truth / runs
    # Four errors of a mean of 60, at most.
    assert np.abs(missed).max() < 0.03
    assert 0.91 <= held.mean() / runs <= 0.995


def test_documents_removed_of_a_whole_index_that_bands_searched_are_not_taken_as_sure() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(30):
        some = families(rng, 500)
        (found,) = estimates(some.pool(rng, 500), some.judged([]), [0.34])
        assert found.removed.low < found.removed.high
        held += found.removed.low <= removed_of(some, 0.34) <= found.removed.high
    assert held >= 26


def test_texts_that_a_query_may_miss_count_without_bias() -> None:
    # Two texts of 2 and 1 documents beside one of 2; each is found with its chance, or not.
    met, many = np.array([0.6, 0.8]), np.array([2.0, 1.0])
    expected = 0.0
    for seen in itertools.product([False, True], repeat=2):
        chosen = np.array(seen)
        chance = float(np.where(chosen, met, 1 - met).prod())
        ones = np.ones(int(chosen.sum()))
        columns = ones.astype(np.int64) - 1, 0.9 * ones, ones, met[chosen], many[chosen]
        pool = Pool(FLOOR, 0.6, 1, 1, 0, (), *columns, np.array([2.0]))
        nothing = Drawn(np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
        (found,) = estimates(pool, nothing, [0.5])
        expected += chance * found.removed.value
    assert expected == pytest.approx(1 - 1 / (2 + 2 + 1))


def holds(each: AtThreshold, name: str, truth: float) -> bool:
    interval = getattr(each, name)
    return bool(interval.low <= truth <= interval.high)


# Words about it


def test_pairs_that_change_sides_are_those_between_both_thresholds() -> None:
    rng = np.random.default_rng(1)
    pool = population(rng, 800).pool(rng, 300)
    judged = [judgement(pair) for pair in itertools.islice(in_turn(pool, 0.8, ()), 40)]
    sides = changing(pool, Judgements(tuple(judged)), 0.8, 0.7)
    assert {side[:2] for side in sides} == {p[:2] for p in pool.pairs if 0.7 <= p.similarity < 0.8}
    assert changing(pool, Judgements(tuple(judged)), 0.7, 0.8) == sides
    known = [side.judgement is not None for side in sides]
    assert known == sorted(known, reverse=True)
    assert 0 < sum(known) < len(sides)


def test_four_times_the_judgements_halve_an_interval() -> None:
    rng = np.random.default_rng(1)
    some = population(rng, 2_000)
    pool = some.pool(rng, 500)
    drawn = some.judged([*itertools.islice(in_turn(pool, 0.8, ()), 100)])
    (found,) = estimates(pool, drawn, [0.7])
    assert found.precision is not None
    more = more_wanted(found.precision, found.above)
    assert more % 10 == 0
    width = found.precision.high - found.precision.low
    assert more == pytest.approx(found.above * (width**2 * 100 - 1), abs=10)
    assert more_wanted(None, 0) == 20
    narrow = found.precision._replace(low=0.95, high=0.99)
    assert more_wanted(narrow, 100) == 0
