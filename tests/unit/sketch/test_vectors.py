"""Vectors that documents bring: their forms, their tokens, and the recall of these by a formula."""

import base64
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup import Limits, Scheme, UsageError, Vectors
from esdedup.exceptions import RecordError
from esdedup.sketch.hyperplanes import (
    SignFilter,
    bands_needed,
    expected_recall,
    hyperplanes,
    meeting,
    probe_bands,
    projections,
    sign_bands,
)
from esdedup.sketch.kinds.vectors import VectorEncoding
from esdedup.sketch.sketch import sketch, token_fields
from esdedup.sketch.vectors import (
    F32,
    cosines,
    packed_vectors,
    pairs_of_vectors,
    written_vector,
)
from esdedup.text.arrays import U64
from tests.helpers.vectors import directions, pairs_at

NUMBERS = [0.5, -2.0, 0.0, 3.25]
BIG_ENDIAN = base64.b64encode(np.array(NUMBERS, ">f4").tobytes()).decode()
LITTLE_ENDIAN = base64.b64encode(np.array(NUMBERS, "<f4").tobytes()).decode()
TEXT = "0000003f000000c00000000000005040"
GOLDEN_PLANES = [
    -376542,
    -462547,
    319385,
    189109,
    61859,
    137400,
    37275,
    -112646,
    -195303,
    553457,
    251649,
    -240743,
]
GOLDEN_TOKENS = [".1ITl", "01b6w", "12ISW", "20pW4"]
GOLDEN_ID = "v4-2faf9c3b837f"


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("list", NUMBERS),
        ("list", tuple(NUMBERS)),
        ("list", np.array(NUMBERS)),
        ("list", [0.5, -2, -0.0, 3.25]),
        ("list", TEXT),
        ("base64", NUMBERS),
        ("base64", BIG_ENDIAN),
        ("base64", TEXT),
        ("base64-little", LITTLE_ENDIAN),
        ("list", "[0.5, -2.0, 0, 3.25]"),
        ("base64", " [0.5, -2.0, 0, 3.25]\n"),
        ("list", np.array(NUMBERS, object)),
        ("list", np.array(NUMBERS, np.float16)),
    ],
)
def test_each_form_of_a_vector_is_read(encoding: VectorEncoding, value: object) -> None:
    assert Vectors(4, encoding=encoding).text(value) == TEXT


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], "a vector of 2 numbers, where the sketch 'vectors' has 4"),
        ([1.0] * 5, "a vector of 5 numbers"),
        ([0, 0.0, -0.0, 0], "a vector of zeros"),
        ([1.0, math.nan, 0.0, 0.0], "not finite"),
        ([1.0, math.inf, 0.0, 0.0], "not finite"),
        ([1.0, 1e39, 0.0, 0.0], "not finite"),
        ([1e-60, 0.0, 0.0, 0.0], "a vector of zeros"),
        ([], "a vector of 0 numbers"),
        (["1", "2", "3", "4"], "number 1 of the vector is '1'"),
        ([1.0, None, 0.0, 0.0], "number 2 of the vector is None"),
        ([True, False, True, True], "number 1 of the vector is True"),
        ([[1.0, 2.0], [3.0, 4.0]], r"number 1 of the vector is \[1.0, 2.0\]"),
        ([[1.0], [2.0, 3.0]], r"number 1 of the vector is \[1.0\]"),
        ([1.0, 2.0, [3.0] * 90, 4.0], r"number 3 of the vector is \[3.0, .*\.\.\.$"),
        ([10**400, 1, 1, 1], "not finite"),
        ([10**39, 1.0, 1, 1], "not finite"),
        (np.array(1.0), "is not a vector"),
        ("[1.0, 2.0]", "a vector of 2 numbers"),
        ("[1.0, 2.0, ", "is not a vector of 4 numbers: a list of numbers"),
        ("[0.1 0.2 0.3 0.4]", "is not a vector of 4 numbers: a list of numbers"),
        ("0.1 0.2 0.3 0.4", r"numbers, in a text as \[0.25, -0.5\], or in base64"),
        ("[1, 2, 3, null]", "number 4 of the vector is None"),
        ("[1, 2, 3, NaN]", "not finite"),
        ("[" * 100_000, "is not a vector"),
        (1.0, "is not a vector"),
        ({"a": 1}, "is not a vector"),
        (BIG_ENDIAN, "is not a vector"),
        ("some text", "is not a vector"),
    ],
)
def test_other_values_are_rejected(value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        Vectors(4).text(value)


@pytest.mark.parametrize("value", [BIG_ENDIAN[:-1], BIG_ENDIAN + "AAAA", "AAAA", "ä" * 24, ""])
def test_base64_of_another_length_is_rejected(value: str) -> None:
    with pytest.raises(RecordError, match="vector of"):
        Vectors(4, encoding="base64").text(value)


@pytest.mark.parametrize(
    ("encoding", "other"), [("base64", "base64-little"), ("base64-little", "base64")]
)
def test_base64_of_the_other_byte_order_is_rejected(
    encoding: VectorEncoding, other: VectorEncoding
) -> None:
    (vector,) = directions(1, 64, seed=9)
    is_big = encoding == "base64"
    right, wrong = (">f4", "<f4") if is_big else ("<f4", ">f4")
    sketch_of_vectors = Vectors(64, encoding=encoding)
    written = base64.b64encode(vector.astype(right).tobytes()).decode()
    assert sketch_of_vectors.text(written) == written_vector(vector)
    with pytest.raises(RecordError, match=f"in the other byte order: use the encoding '{other}'"):
        sketch_of_vectors.text(base64.b64encode(vector.astype(wrong).tobytes()).decode())
    # Great numbers that are not usual in the other order are kept.
    great = np.full(64, 2.0**100, np.float32)
    written = base64.b64encode(great.astype(right).tobytes()).decode()
    assert sketch_of_vectors.text(written) == written_vector(great)


def test_parameters_out_of_range_are_rejected() -> None:
    for wrong in (
        {"dimensions": 1}, {"dimensions": 4097}, {"cosine": 0.0}, {"cosine": 1.5}, {"rows": 31},
        {"bands": 513}, {"encoding": "hex"}, {"fields": ("a", "b")},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            Vectors(**{"dimensions": 4, **wrong})  # type: ignore[arg-type]


def test_texts_that_are_not_vectors_are_refused() -> None:
    with pytest.raises(UsageError, match="compares vectors of 4 numbers: a list of numbers"):
        sketch(["some text"], Scheme([Vectors(4)]))
    # A document whose vector was removed has none.
    assert sketch(["", TEXT], Scheme([Vectors(4)])).filled.tolist() == [False, True]


def test_golden_tokens() -> None:
    assert hyperplanes(3, 4, 1).ravel().tolist() == GOLDEN_PLANES
    scheme = Scheme([Vectors(4, bands=4, rows=20)])
    (fields,) = token_fields(sketch([TEXT], scheme), scheme)
    assert fields["vectors"] == GOLDEN_TOKENS
    assert scheme.id == GOLDEN_ID


def test_hyperplanes_are_normal_and_do_not_depend_on_the_number_of_them() -> None:
    planes = hyperplanes(64, 1000, 1)
    np.testing.assert_array_equal(planes[:8, :10], hyperplanes(8, 10, 1))
    scaled = planes / planes.std()
    assert abs(scaled.mean()) < 0.02
    assert (scaled**4).mean() == pytest.approx(3.0, abs=0.1)
    # Two planes, and two numbers of a plane, are independent.
    correlations = np.corrcoef(planes) - np.eye(64)
    assert np.abs(correlations).max() < 0.16
    assert np.abs(np.corrcoef(planes.T[:100]) - np.eye(100)).max() < 0.7
    assert np.abs(planes).max() < 1 << 22


@given(st.integers(2, 300), st.integers(0, 2**32), st.floats(1e-30, 1e30))
def test_projections_are_exact_in_any_order(dimensions: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = (rng.standard_normal((5, dimensions)) * scale).astype(np.float32)
    products = projections(vectors, 30, seed)
    greatest = np.abs(vectors.astype(np.float64)).max(axis=1, keepdims=True)
    whole = np.rint(vectors / greatest * 2.0**19).astype(np.int64)
    planes = hyperplanes(dimensions, 30, seed).astype(np.int64)
    # Python's numbers have any size.
    exact = whole.astype(object) @ planes.astype(object)
    assert products.tolist() == exact.tolist()
    order = rng.permutation(dimensions)
    assert (whole[:, order].astype(np.float64) @ planes[order].astype(np.float64) == exact).all()


def test_the_tokens_of_a_vector_do_not_depend_on_its_length_or_on_other_vectors() -> None:
    vectors = directions(20, 48, seed=1)
    kind = Vectors(48)
    together = sketch([written_vector(vector) for vector in vectors], Scheme([kind]))
    for row, vector in enumerate(vectors):
        text = written_vector(vector * np.float32(1024))
        alone = sketch([text], Scheme([kind]))
        assert (alone.values["vectors"][0] == together.values["vectors"][row]).all()


@pytest.mark.parametrize(
    ("cosine", "rows", "flips"),
    [(0.95, 20, 0), (0.95, 20, 1), (0.95, 16, 4), (0.9, 12, 12), (0.5, 4, 2), (0.999, 30, 0)],
)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_pairs_at_a_cosine_share_bands_as_often_as_the_formula_says(
    cosine: float, rows: int, flips: int, form: str
) -> None:
    count, bands = 1_000, 48
    left, right = pairs_at(cosine, count, 64, seed=rows, is_sparse=form == "sparse")
    values = probe_bands(projections(left, bands * rows, 1), bands, rows, flips)
    stored = sign_bands(projections(right, bands * rows, 1), bands, rows)
    share = (values == stored[:, :, None]).any(axis=2).mean()
    chance = meeting(cosine, rows, flips)
    deviation = math.sqrt(chance * (1 - chance) / (count * bands))
    # Sparse pairs are few directions: 64 * 63 pairs of the same planes.
    assert share == pytest.approx(chance, abs=5 * deviation + (0.03 if form == "sparse" else 0.004))


def test_the_formula_without_flips_is_that_of_charikar() -> None:
    same = 1 - math.acos(0.9) / math.pi
    assert meeting(0.9, 12) == pytest.approx(same**12)
    assert expected_recall(0.9, 10, 12) == pytest.approx(1 - (1 - same**12) ** 10)
    assert [meeting(1.0, 12), meeting(-1.0, 12), meeting(0.0, 1)] == [1.0, 0.0, 0.5]
    # Of one sign, both values are looked up.
    assert meeting(0.3, 1, 1) == pytest.approx(1.0, abs=1e-4)
    # All single flips are all values at one bit's distance.
    assert meeting(0.8, 6, 6) == pytest.approx(
        sum(math.comb(6, k) * s ** (6 - k) * (1 - s) ** k for s in [1 - math.acos(0.8) / math.pi]
            for k in (0, 1)), abs=1e-4,
    )  # fmt: skip
    met = [meeting(0.9, 16, flips) for flips in range(5)]
    assert met == sorted(met)
    assert expected_recall(0.9, bands_needed(0.9, 0.999, 16), 16) >= 0.999


def test_layouts_reach_the_recall_at_their_cosine() -> None:
    for cosine in (0.5, 0.8, 0.9, 0.95, 0.98, 1.0):
        kind = Vectors(16, cosine)
        least = kind.least(Limits(), kind.bands)
        assert (kind.recall(Limits(), kind.bands, least) or 0) >= 0.999
        of_pairs = kind.for_texts(Limits())
        without_flips = Limits(swaps=0)
        least = of_pairs.least(without_flips, of_pairs.bands)
        assert (of_pairs.recall(without_flips, of_pairs.bands, least) or 0) >= 0.999
        assert Vectors.from_json(kind.to_json()) == kind
    # A stored layout serves other cosines by flips.
    kind = Vectors(16, 0.95)
    far = Limits(cosine=0.9)
    assert (kind.recall(far, kind.bands, kind.least(far, kind.bands)) or 0) >= 0.999
    assert [name for name, _ in kind.costs(1e6)] == ["recall of queries"]
    assert "16 numbers" in kind.describe()


def test_a_threshold_of_words_is_no_cosine() -> None:
    kind = Vectors(4)
    kind.check(Limits())
    kind.check(Limits(threshold=0.8, cosine=0.9))
    with pytest.raises(UsageError, match="compares by cosine, so use a cosine"):
        kind.check(Limits(threshold=0.95))
    with pytest.raises(UsageError, match="the nearest documents; use a cosine"):
        kind.check(Limits(threshold=None))


def test_cosines_are_those_of_float64() -> None:
    vectors = directions(30, 7, seed=3)
    texts = [written_vector(vector * (row + 1)) for row, vector in enumerate(vectors)]
    left, right = np.triu_indices(30, 1)
    wide: np.ndarray[Any, np.dtype[np.float64]] = np.array(
        [vector * np.float32(row + 1) for row, vector in enumerate(vectors)]
    ).astype(np.float64)
    norms = np.linalg.norm(wide, axis=1)
    expected = (wide @ wide.T / np.outer(norms, norms))[left, right]
    np.testing.assert_allclose(cosines(packed_vectors(texts), left, right), expected, atol=1e-12)


def test_a_scaled_vector_is_at_cosine_1_and_a_missing_one_at_0() -> None:
    vector: F32 = directions(1, 9, seed=4)[0]
    texts = [written_vector(vector), written_vector(vector * np.float32(3)), "", TEXT]
    packed = packed_vectors(texts)
    left, right = np.array([0, 0, 2, 0]), np.array([1, 2, 2, 3])
    assert cosines(packed, left, right).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert cosines(packed_vectors([""]), np.array([0]), np.array([0])).tolist() == [0.0]
    assert cosines(packed, np.array([], np.int64), np.array([], np.int64)).size == 0


def sign_values(vectors: F32, bands: int, rows: int) -> U64:
    """Return the signs of the bands of vectors, shape (bands, n)."""
    return sign_bands(projections(vectors, bands * rows, 1), bands, rows).T


@pytest.mark.parametrize("lost", [0.1, 0.01])
def test_the_filter_by_signs_loses_as_many_pairs_at_the_cosine_as_it_says(lost: float) -> None:
    left, right = pairs_at(0.9, 2_000, 32, seed=6)
    values = sign_values(np.concatenate([left, right]), 40, 12)
    sign_filter = SignFilter.at(0.9, 40, 12, lost)
    rows = np.arange(len(left))
    kept = sign_filter.keeps(values, rows, rows + len(left))
    # At most the share: three standard deviations over it would be a wrong bound.
    most = lost + 3 * math.sqrt(lost / len(left))
    assert 1.0 - kept.mean() <= most
    # It is a bound of use: with a share of 10% it leaves out more than 1%.
    assert lost < 0.1 or kept.mean() < 0.99


def test_the_filter_by_signs_leaves_out_what_is_far_and_nothing_that_is_equal() -> None:
    vectors = directions(400, 32, seed=8)
    values = sign_values(np.concatenate([vectors, vectors]), 64, 20)
    sign_filter = SignFilter.at(0.95, 64, 20, 1e-6)
    rows = np.arange(400)
    assert sign_filter.keeps(values, rows, rows + 400).all()
    assert not sign_filter.keeps(values, rows, np.roll(rows, 1)).any()
    assert SignFilter.at(1.0, 8, 4, 1e-6).bounds == (0,)
    assert sign_filter.keeps(values, rows[:0], rows[:0]).size == 0


def test_the_recall_of_pairs_stays_over_the_wanted_one_with_the_filter() -> None:
    for cosine in (0.7, 0.9, 0.95, 0.99):
        kind = Vectors(16, cosine)
        for wanted in (0.9, 0.99, 0.999):
            limits = Limits(cosine=cosine, recall=wanted, swaps=0)
            recall = kind.recall(limits, kind.bands, kind.least(limits, kind.bands)) or 0.0
            if recall > wanted and (sign_filter := kind.pair_filter(limits, recall)):
                assert recall - sign_filter.lost >= wanted
                assert sign_filter.lost <= 1e-6


def test_all_pairs_of_vectors_are_yielded_once() -> None:
    vectors = directions(50, 6, seed=9)
    vectors[3] = 0.0
    blocks = [*pairs_of_vectors(vectors)]
    left, right = (np.concatenate([block[side] for block in blocks]) for side in (0, 1))
    assert {*zip(left.tolist(), right.tolist(), strict=True)} == {
        (low, high) for high in range(50) for low in range(high)
    }
    cosine = np.concatenate([block[2] for block in blocks])
    packed = packed_vectors([written_vector(vector) for vector in vectors])
    np.testing.assert_allclose(cosine, cosines(packed, left, right), atol=1e-11)
