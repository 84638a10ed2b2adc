"""Probes of queries: their hashes, and the recall that the formula gives."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.sketch.banding import (
    MOST_SWAPS,
    MOST_TERMS,
    expected_recall,
    meeting,
    probes,
    swaps_for,
)
from esdedup.sketch.kinds.bands import EMPTY, band_hashes, probe_hashes, signatures, smallest
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import shingle_sets, sketch
from esdedup.text.arrays import U64
from esdedup.text.jaccard import jaccard
from esdedup.text.shingles import Shingling, distinct
from tests.helpers.reference import ragged

HASHES = st.integers(0, 2**64 - 1)


@given(st.lists(st.lists(HASHES, max_size=9), min_size=1, max_size=5), st.integers(1, 4))
def test_the_smallest_values_are_those_of_a_sort(rows: list[list[int]], count: int) -> None:
    sets = distinct(ragged(rows))
    found = smallest(sets, 6, 1, count)
    assert found.shape == (count, len(rows), 6)
    assert (found[0] == signatures(sets, 6, 1)).all()
    for row, hashes in enumerate(sets):
        alone = [signatures(ragged([[int(each)]]), 6, 1)[0] for each in hashes]
        for column in range(6):
            values = sorted({int(each[column]) for each in alone} - {int(EMPTY)})
            wanted = (values + count * [int(EMPTY)])[:count]
            assert found[:, row, column].tolist() == wanted


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2), st.integers(0, 2**32))
def test_probes_are_the_bands_of_swapped_minima(
    bands: int, rows: int, swaps: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = np.sort(rng.integers(0, 2**32 - 1, (swaps + 1, 2, bands * rows)), axis=0)
    values[1:, 1, 0] = EMPTY
    least = values.astype(np.uint32)
    found, whole = probe_hashes(least, bands, rows, 30, swaps)
    assert found.shape == whole.shape == (2, bands, probes(rows, swaps))
    assert (found[:, :, 0] == band_hashes(least[0], bands, rows, 30)).all()
    places = [p for p in itertools.product(range(swaps + 1), repeat=rows) if sum(p) <= swaps]
    for text, band in itertools.product(range(2), range(bands)):
        wanted = set()
        for place in places:
            chosen = [least[at, text, band * rows + row] for row, at in enumerate(place)]
            if EMPTY not in chosen:
                wanted.add(int(band_hashes(np.array([chosen], np.uint32), 1, rows, 30)[0, 0]))
        assert set(found[text, band][whole[text, band]].tolist()) == wanted


@given(st.floats(0.01, 1), st.floats(0.01, 0.9999), st.integers(1, 200), st.integers(1, 8))
def test_the_fewest_swaps_that_reach_the_recall(
    threshold: float, recall: float, bands: int, rows: int
) -> None:
    swaps = swaps_for(threshold, recall, bands, rows)
    assert 0 <= swaps <= MOST_SWAPS
    assert not swaps or bands * probes(rows, swaps) <= MOST_TERMS
    if swaps:
        assert expected_recall(threshold, bands, rows, 1, swaps - 1) < recall
    more = swaps + 1
    if more <= MOST_SWAPS and bands * probes(rows, more) <= MOST_TERMS:
        assert expected_recall(threshold, bands, rows, 1, swaps) >= recall


def exact_meeting(union: int, both: int, own: int, rows: int, swaps: int) -> float:
    """The chance of `banding.meeting` for sets of `union` shingles, drawn without replacement."""
    places = []
    for place in range(swaps + 1):
        before = math.prod((own - n) / (union - n) for n in range(place))
        places.append(before * both / (union - place))
    return sum(
        math.prod(places[each] for each in chosen)
        for chosen in itertools.product(range(swaps + 1), repeat=rows)
        if sum(chosen) <= swaps
    )


def pairs_of(
    words: list[str], joint: str, both: int, own: int, other: int, pairs: int
) -> list[str]:
    """Texts of distinct words, the queries first, that share `both` words with their documents."""
    rng = np.random.default_rng(both)
    queries, documents = [], []
    for _ in range(pairs):
        chosen = rng.choice(len(words), both + own + other, replace=False).tolist()
        made = [words[each] for each in chosen]
        queries.append(joint.join(made[: both + own]))
        documents.append(joint.join(made[:both] + made[both + own :]))
    return queries + documents


ENGLISH = [f"w{number}" for number in range(200_000)], " "
CHINESE = [chr(0x4E00 + number) for number in range(20_000)], ""


@pytest.mark.parametrize("language", [ENGLISH, CHINESE], ids=["english", "chinese"])
@pytest.mark.parametrize("union", [20, 200], ids=["short", "long"])
@pytest.mark.parametrize("share", [0.5, 0.2, 0.8], ids=["equal", "shorter", "longer"])
@pytest.mark.parametrize("similarity", [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_recall_is_that_of_the_formula(
    language: tuple[list[str], str], union: int, share: float, similarity: float
) -> None:
    """The pairs are independent: each has words of its own."""
    both, pairs = round(union * similarity), 400
    own = round((union - both) * share)
    texts = pairs_of(*language, both, own, union - both - own, pairs)
    scheme = Scheme([MinHash(bands=12)], shingling=Shingling("word", 1))
    at = np.arange(pairs)
    assert set(jaccard(shingle_sets(texts, scheme), at, at + pairs).tolist()) == {both / union}
    stored = sketch(texts[pairs:], scheme).values["minhash"]
    for swaps in range(MOST_SWAPS + 1):
        met = bands_met(texts[:pairs], stored, scheme, swaps)
        meets = exact_meeting(union, both, own, 3, swaps)
        # The 99.9% interval of the binomial distribution: there are 504 of them here.
        within(int(met.sum()), pairs * 12, meets)
        within(int((met > 0).sum()), pairs, 1 - (1 - meets) ** 12)
        if (union, share) == (200, 0.5):
            assert meeting(both / union, 3, swaps) == pytest.approx(meets, rel=0.02)


def bands_met(queries: list[str], stored: U64, scheme: Scheme, swaps: int) -> Any:
    """The number of bands that each query meets of its document."""
    values, present = sketch(queries, scheme, limits=Limits(swaps=swaps)).probes["minhash"]
    met = (values == stored[:, :, None]) & present
    return met.any(axis=2).sum(axis=1, dtype=np.int64)


def within(count: int, trials: int, chance: float) -> None:
    assert abs(count - trials * chance) <= 3.29 * math.sqrt(trials * chance * (1 - chance)) + 2
