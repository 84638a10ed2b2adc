"""Pairs are drawn to be judged, and judgements show precision and recall."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.analysis.judging import (
    NEAR,
    Interval,
    JudgedPairs,
    Pool,
    changing,
    drawn_at_random,
    estimates,
    judgements_needed,
)
from esdedup.analysis.sampling import DistantPairs, Sample, SampledPair, chance_of_meeting
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.stores.judgements import Judgement, Judgements, Verdict
from esdedup.text.arrays import F64, I64
from esdedup.text.normalise import Normalisation

FLOOR = 0.3
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
NOTHING = JudgedPairs(np.zeros(0), np.zeros(0))


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

    def removed(self, threshold: float) -> float:
        """The documents that are removed at a threshold."""
        above = self.similarity >= threshold
        ends = np.concatenate([self.left[above], self.right[above]])
        return float((1 - 1 / (1 + np.bincount(ends, minlength=self.documents))).sum())

    def pool(self, rng: np.random.Generator, sampled: int, exact: bool = False) -> Pool:
        """The pool of a sample of the documents, with the pairs that bands find, or all."""
        row_of = np.full(self.documents, -1)
        sampled = min(sampled, self.documents)
        row_of[rng.permutation(self.documents)[:sampled]] = np.arange(sampled)
        chance = chance_of_meeting(self.similarity, MinHash(), 2)
        if exact:
            chance = np.ones_like(chance)
        seen = rng.random(self.similarity.size) < chance
        found = np.flatnonzero(seen & (self.similarity >= FLOOR))
        pair = np.concatenate([found, found])
        row = row_of[np.concatenate([self.left[found], self.right[found]])]
        pair, row = pair[row >= 0], row[row >= 0]
        turns = rng.random(pair.size).tolist()
        pairs = [
            SampledPair(str(self.left[at]), str(self.right[at]), float(self.similarity[at]), turn)
            for at, turn in zip(pair.tolist(), turns, strict=True)
        ]
        once = {each[:2]: each for each in pairs}.values()
        sample = sample_of(self.documents, sampled, row, self.similarity[pair], chance[pair])
        return Pool(sample, tuple(once))

    def judged(self, pairs: Sequence[SampledPair]) -> JudgedPairs:
        """True judgements of pairs."""
        both = zip(self.left.tolist(), self.right.tolist(), strict=True)
        truth = dict(zip(both, self.duplicate.tolist(), strict=True))
        known = [truth[int(pair.left), int(pair.right)] for pair in pairs]
        return JudgedPairs(np.array([pair.similarity for pair in pairs]), np.array(known))


def sample_of(documents: int, sampled: int, row: I64, similarity: F64, chances: F64) -> Sample:
    chance = 1.0 if sampled == documents else 0.6
    columns = row, similarity, chances, np.ones(row.size)
    distant = DistantPairs(np.zeros(1), np.zeros(1, np.int64))
    return Sample(documents, sampled, 0, 0, FLOOR, chance, *columns, (), distant)


def population(rng: np.random.Generator, documents: int) -> Population:
    """Groups of 2 to 6 documents, duplicates by a chance that grows with the similarity."""
    left, right, similarity = [], [], []
    for first in range(0, documents, 8):
        base = rng.uniform(0.3, 1.0)
        for a, b in itertools.combinations(range(first, first + int(rng.integers(1, 7))), 2):
            left.append(a)
            right.append(b)
            similarity.append(min(1.0, max(0.0, base + rng.normal(0, 0.03))))
    near = np.round(similarity, 3)
    duplicate = rng.random(near.size) < 1 / (1 + np.exp((0.65 - near) / 0.06))
    columns = np.array(left), np.array(right), near, duplicate.astype(np.float64)
    return Population(documents, *columns)


def judgement(pair: SampledPair, verdict: Verdict = "duplicate", drawn: bool = True) -> Judgement:
    digests, normal = ("", ""), Normalisation()
    return Judgement(*pair[:2], verdict, digests, normal, pair.similarity, "", drawn)


@given(st.integers(0, 2**32), st.floats(0.3, 1.0))
def test_a_restart_continues_where_it_was(seed: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    pool = population(rng, 400).pool(rng, 200)
    order = pool.in_turn(threshold)
    assert len(order) == len(pool.pairs) == len({pair[:2] for pair in order})
    assert Pool(pool.sample, pool.pairs[::-1]).in_turn(threshold) == order


@given(st.integers(0, 2**32), st.sampled_from([0.5, 0.7, 0.8, 0.85]))
def test_half_of_the_judgements_are_near_the_threshold(seed: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    pool = population(rng, 3_000).pool(rng, 800)
    some = [pair.similarity for pair in pool.in_turn(threshold)[:100]]
    near = sum(abs(each - threshold) <= NEAR + 0.011 for each in some)
    assert 45 <= near <= 60
    # The whole range has some.
    assert min(some) < 0.36
    assert max(some) > 0.96


def test_judgements_count_if_their_pair_was_drawn() -> None:
    pair = SampledPair("a", "b", 0.85, 0.0)
    pool = Pool(sample_of(100, 10, np.zeros(0, np.int64), np.zeros(0), np.zeros(0)), (pair,))
    judged = (
        judgement(pair),
        judgement(pair._replace(right="c"), "different"),
        judgement(pair._replace(right="d"), "unsure"),
        judgement(pair._replace(right="e"), drawn=False),
        judgement(pair._replace(right="f", similarity=FLOOR - 0.01)),
    )
    assert drawn_at_random(pool, Judgements(judged)).duplicate.tolist() == [1.0, 0.0]


def test_without_judgements_nothing_is_claimed() -> None:
    rng = np.random.default_rng(1)
    some = population(rng, 800)
    pool = some.pool(rng, 200)
    for each in estimates(pool, NOTHING, THRESHOLDS):
        assert (each.precision, each.recall, each.above, each.below) == (None, None, 0, 0)
        assert each.removed.low < each.removed.value < each.removed.high
    # All judgements are above: nothing is known about what is below.
    above = [pair for pair in pool.pairs if pair.similarity >= 0.8]
    (found,) = estimates(pool, some.judged(above), [0.8])
    assert found.precision is not None
    assert found.recall is None


def test_an_index_that_is_judged_whole_has_no_error() -> None:
    rng = np.random.default_rng(1)
    some = population(rng, 300)
    pool = some.pool(rng, 300, exact=True)
    judged = some.judged(pool.pairs)
    similarity, duplicate = judged.similarity, judged.duplicate
    for each in estimates(pool, judged, THRESHOLDS):
        above = similarity >= each.threshold
        recall = duplicate[above].sum() / duplicate.sum()
        assert each.precision == pytest.approx((duplicate[above].mean(),) * 3)
        assert each.recall == pytest.approx((recall,) * 3)


def test_precision_is_about_the_duplicates_of_groups() -> None:
    """The sample has few pairs over the threshold; groups have 200, half of them duplicates."""
    rng = np.random.default_rng(1)
    row, similarity = np.arange(40), np.append(np.full(37, 0.5), [0.85, 0.9, 0.95])
    sample = sample_of(100_000, 1_000, row, similarity, np.ones(40))
    found = rng.uniform(0.8, 1.0, 200)
    pairs = tuple(
        SampledPair("a", str(at), each, float(at)) for at, each in enumerate(found.tolist())
    )
    pool = Pool(sample, pairs, 0.8, found)
    judged = JudgedPairs(found[:100], (np.arange(100) % 2).astype(np.float64))
    (found_at,) = estimates(pool, judged, [0.8])
    assert found_at.precision is not None
    assert found_at.precision.value == pytest.approx(0.5, abs=0.02)
    assert found_at.precision.high - found_at.precision.low < 0.2
    (low,) = estimates(pool, judged, [0.4])
    assert low.precision is not None


@given(st.integers(0, 2**32), st.integers(1, 120), st.integers(20, 500))
def test_estimates_are_shares_and_fall_with_the_threshold(
    seed: int, count: int, sample: int
) -> None:
    rng = np.random.default_rng(seed)
    some = population(rng, 800)
    pool = some.pool(rng, sample)
    judged = some.judged(pool.in_turn(0.8)[:count])
    found = estimates(pool, judged, THRESHOLDS)
    for each in found:
        for interval in (each.precision, each.recall):
            if interval is not None:
                assert 0.0 <= interval.low <= interval.value <= interval.high <= 1.0
        assert each.above + each.below == judged.similarity.size
        assert 0.0 <= each.removed.low <= each.removed.value <= each.removed.high
    removed = [each.removed.value for each in found]
    assert removed == sorted(removed, reverse=True)


@pytest.mark.parametrize("exact", [False, True])
def test_intervals_hold_the_truth_about_as_often_as_they_promise(exact: bool) -> None:
    rng = np.random.default_rng(5)
    names, thresholds = ("precision", "recall", "removed"), (0.6, 0.7, 0.8)
    held = dict.fromkeys(names, 0)
    runs = 30
    for _ in range(runs):
        some = population(rng, 1_200)
        pool = some.pool(rng, 300, exact)
        judged = some.judged(pool.in_turn(0.8)[:100])
        for each in estimates(pool, judged, thresholds):
            truth = *some.truth(each.threshold), some.removed(each.threshold)
            for name, value in zip(names, truth, strict=True):
                interval = getattr(each, name)
                held[name] += bool(interval.low <= value <= interval.high)
    for count in held.values():
        assert 0.91 <= count / (len(thresholds) * runs) <= 1.0


def test_pairs_that_change_sides_are_those_between_both_thresholds() -> None:
    rng = np.random.default_rng(1)
    pool = population(rng, 800).pool(rng, 300)
    judged = Judgements(tuple(judgement(pair) for pair in pool.in_turn(0.8)[:40]))
    sides = changing(pool, judged, 0.8, 0.7)
    assert {side[:2] for side in sides} == {p[:2] for p in pool.pairs if 0.7 <= p.similarity < 0.8}
    assert changing(pool, judged, 0.7, 0.8) == sides
    known = [side.judgement is not None for side in sides]
    assert known == sorted(known, reverse=True)
    assert 0 < sum(known) < len(sides)


def test_further_judgements_grow_with_the_square_of_the_width() -> None:
    assert judgements_needed(None, 0) == 20
    assert judgements_needed(Interval(0.5, 0.375, 0.625), 100) == 530
    assert judgements_needed(Interval(0.97, 0.95, 0.99), 100) == 0
