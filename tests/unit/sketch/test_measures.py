"""Each measure orders, bounds and shows the values of pairs."""

import pickle

import numpy as np
import pytest

from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.kinds.bits import Bits
from esdedup.sketch.kinds.vectors import Vectors
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import COSINE, COVER, HAMMING, JACCARD, MEASURES, Measure
from esdedup.sketch.scheme import KINDS

NEAR_AND_FAR = [(JACCARD, 0.9, 0.5), (HAMMING, 3.0, 20.0), (COVER, 0.9, 0.5), (COSINE, 0.9, 0.5)]


@pytest.mark.parametrize(("measure", "near", "far"), NEAR_AND_FAR)
def test_nearer_values_have_a_greater_nearness(measure: Measure, near: float, far: float) -> None:
    assert measure.nearness(near) > measure.nearness(far) >= measure.no_nearness(1)
    assert measure.nearness(measure.equal) >= measure.nearness(near)
    values = np.array([far, near, np.nan])
    assert measure.nearnesses(values)[:2].tolist() == [*map(measure.nearness, (far, near))]
    assert measure.farthest(values) == far
    assert measure.nearest_first(values[:2]).tolist() == [1, 0]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_value_is_a_similarity_or_a_distance(measure: Measure) -> None:
    similarity, distance = measure.marks(measure.equal)
    assert [similarity, distance].count(None) == 1
    assert getattr(measure, measure.column)(measure.equal) == measure.equal
    low, high = measure.bounds(np.array([measure.equal]))
    assert low <= measure.equal <= high


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_measure_is_pickled(measure: Measure) -> None:
    assert pickle.loads(pickle.dumps(measure)) == measure


def test_values_are_shown_with_their_unit() -> None:
    assert [JACCARD.text(0.9996), JACCARD.in_words(0.9996)] == ["1.000", ">0.999"]
    assert [JACCARD.in_words(1.0), COVER.in_words(0.25)] == ["1.000", "0.250"]
    assert [HAMMING.text(3.0), HAMMING.in_words(1.0), HAMMING.in_words(3.0)] == [
        "3", "1 bit", "3 bits",
    ]  # fmt: skip
    assert repr(HAMMING.typed(3.0)) == "3"
    assert repr(COVER.typed(1.0)) == "1.0"


def test_a_limit_is_the_value_of_the_least_similar_documents() -> None:
    limits = Limits(threshold=0.7, distance=3, cosine=0.9)
    assert [measure.limit_of(limits) for measure in MEASURES] == [0.7, 3.0, 0.7, 0.9]
    assert COVER.limit_of(Limits(threshold=0.7, cover=0.2)) == 0.2
    assert HAMMING.within(limits) == "Hamming distance of 3 bits or less"
    assert COSINE.within(limits) == "cosine of 0.9 or more"
    assert JACCARD.within(limits) == "Jaccard similarity of 0.7 or more"
    with pytest.raises(UsageError, match="a threshold is needed"):
        JACCARD.limit_of(Limits(threshold=None))


def test_a_query_without_a_limit_matches_what_has_anything_in_common() -> None:
    without_limits = Limits(threshold=None)
    assert [measure.least_of_query(without_limits) > 0.0 for measure in (JACCARD, COVER)] == [
        True, True,
    ]  # fmt: skip
    assert JACCARD.least_of_query(Limits(threshold=0.7)) == 0.7
    assert HAMMING.least_of_query(Limits(distance=3)) == -3.0
    assert COVER.least_of_query(Limits(threshold=0.7, cover=0.2)) == 0.2
    assert COSINE.least_of_query(Limits(cosine=0.9)) == 0.9


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_value_follows_from_its_nearness(measure: Measure) -> None:
    assert measure.value_of(measure.nearness(measure.equal)) == measure.equal
    assert repr(measure.value_of(measure.nearness(1.0))) == repr(measure.typed(1.0))


def sketch_of(kind: str) -> Sketch:
    """Make a sketch of a kind. Fingerprints and vectors need a size."""
    sized: dict[str, Sketch] = {"bits": Bits(64), "vectors": Vectors(8)}
    return sized.get(kind) or KINDS[kind]()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sketch_refuses_the_limits_of_another_measure(kind: str) -> None:
    sketch = sketch_of(kind)
    limits = {
        "distance": Limits(distance=1),
        "cover": Limits(cover=0.5),
        "words": Limits(words=9),
        "cosine": Limits(cosine=0.9),
    }
    for name, own in limits.items():
        if name in sketch.measure.limits:
            sketch.check(own)
        else:
            with pytest.raises(UsageError, match=f"{name} .* compares by {sketch.measure}"):
                sketch.check(own)


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_follows_from_the_sketch_if_it_is_not_set(kind: str) -> None:
    sketch = sketch_of(kind)
    settled = sketch.settled(Limits())
    of_measure = {HAMMING: Limits(distance=settled.distance), COSINE: Limits(cosine=0.95)}
    assert settled == of_measure.get(sketch.measure, Limits())
    assert (settled.distance is None) == (sketch.measure is not HAMMING)
