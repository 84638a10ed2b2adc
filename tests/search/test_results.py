"""The same results from all stores; what each must do is in test_store_contract.py."""

from collections.abc import Iterator

import numpy as np
import pytest

import esdedup
from esdedup.search.warnings import missing_matches
from esdedup.sketch.banding import expected_recall
from esdedup.sketch.sketch import shingle_sets, sketch
from esdedup.stores.mapping import IndexMeta
from esdedup.text.jaccard import hamming, jaccard
from tests.helpers.commands import words
from tests.helpers.indices import open_index
from tests.helpers.places import Place

META = IndexMeta(esdedup.Scheme())


@pytest.fixture
def signature(request: pytest.FixtureRequest) -> int:
    """The number of minima that the scheme keeps whole; a test may choose another by parameter."""
    return int(getattr(request, "param", 0))


@pytest.fixture
def index(place: Place, signature: int) -> Iterator[esdedup.Index]:
    kept = [esdedup.Signature(signature)] if signature else []
    scheme = esdedup.Scheme([esdedup.MinHash(), *kept, esdedup.SimHash()])
    with open_index(place, scheme=scheme) as index:
        yield index


@pytest.mark.on_every_server
def test_pairs_and_similar_are_exact_and_alike_in_all_stores(index: esdedup.Index) -> None:
    texts = corpus()
    index.add({"id": f"t{row:03}", "text": text} for row, text in enumerate(texts))
    expected = brute_force(texts)
    got = {(pair.left, pair.right): pair.similarity for pair in index.pairs(threshold=0.7)}
    assert got == {ids: value for ids, value in expected.items() if value >= 0.7}
    order = [(-(pair.similarity or 0), pair.left, pair.right) for pair in index.pairs()]
    assert order == sorted(order)
    for distance in (3, 7):
        near = {
            (pair.left, pair.right): pair.distance
            for pair in index.pairs(sketch="simhash", distance=distance)
        }
        assert near == brute_force_hamming(texts, distance)
        result = index.similar(id="t010", sketch="simhash", distance=distance, k=1000)
        assert {match.id: match.distance for match in result.matches} == {
            a if b == "t010" else b: value for (a, b), value in near.items() if "t010" in (a, b)
        }
    result = index.similar(id="t010", threshold=0.7)
    assert {match.id: match.similarity for match in result.matches} == {
        a if b == "t010" else b: value
        for (a, b), value in expected.items()
        if "t010" in (a, b) and value >= 0.7
    }
    assert not result.truncated
    assert index.similar(id="t010", candidates=1).truncated
    assert index.similar("").matches == []
    assert index.similar("...!").matches == []


@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.8, 0.9])
def test_any_threshold_from_one_index(index: esdedup.Index, threshold: float) -> None:
    texts = unlike()
    index.add({"id": f"t{row:03}", "text": text} for row, text in enumerate(texts))
    near = {ids for ids, value in brute_force(texts).items() if value >= threshold}
    queries = [index.query(id=f"t{row:03}") for row in range(len(texts))]
    strict, loose = (
        index.similar_many(queries, esdedup.Limits(threshold=threshold, k=1_000, recall=recall))
        for recall in (0.999, 0.5)
    )
    for results, recall in ((strict, 0.999), (loose, 0.5)):
        found = {
            (min(str(query.exclude), match.id), max(str(query.exclude), match.id))
            for query, result in zip(queries, results, strict=True)
            for match in result.matches
        }
        expected = results[0].recall
        assert expected is not None
        assert expected >= min(recall, expected_recall(threshold, 12, 3, 1, 2))
        assert found <= near
        # Most pairs are more similar than the threshold, so that more of them are found.
        assert len(found) >= expected * len(near) - 1
    candidates = [sum(result.candidates for result in results) for results in (strict, loose)]
    assert candidates[1] < candidates[0] or threshold < 0.5
    assert index.similar("x y z", sketch="simhash").recall is None


@pytest.mark.parametrize("signature", [0, 128], indirect=True)
def test_the_nearest_however_unlike(index: esdedup.Index, signature: int) -> None:
    texts = unlike()
    index.add({"id": f"t{row:03}", "text": text} for row, text in enumerate(texts))
    similarity = brute_force(texts)
    queries = [index.query(id=f"t{row:03}") for row in range(0, len(texts), 7)]
    results = index.similar_many(queries, esdedup.Limits(threshold=None, k=5))
    found = true = 0
    for query, result in zip(queries, results, strict=True):
        own = {
            a if b == query.exclude else b: value
            for (a, b), value in similarity.items()
            if query.exclude in (a, b) and value > 0
        }
        order = [(-(match.similarity or 0), match.id) for match in result.matches]
        assert order == sorted((-own[match.id], match.id) for match in result.matches)
        assert len(result.matches) <= result.candidates
        assert (result.recall is None) == (len(result.matches) < 5)
        assert not result.truncated
        nearest = sorted(own.values(), reverse=True)[:5]
        true += len(nearest)
        found += sum((match.similarity or 0) >= nearest[-1] for match in result.matches)
    share = found / true
    assert share > 0.95 if signature else 0.2 < share < 0.95
    # An answer that is cut off says so.
    (cut,) = index.similar_many(queries[:1], esdedup.Limits(threshold=None, candidates=1))
    assert len(cut.matches) == 1
    assert cut.truncated
    assert index.similar("...!", threshold=None).matches == []
    nothing = esdedup.results.Result([], 0, False, None, 12 + signature)
    assert index.similar("zzz yyy xxx", threshold=None) == nothing
    with pytest.raises(esdedup.UsageError, match="compares by Hamming distance"):
        index.similar("x", threshold=None, sketch="simhash")
    # What reads band tokens goes on as ever.
    (first, *_) = index.pairs(threshold=0.3)
    assert first.similarity == max(similarity.values())


def test_a_truncated_answer_promises_a_lower_bound(index: esdedup.Index) -> None:
    texts = [" ".join(words(1, 60).split()[at:]) for at in range(20)]
    index.add([*texts, *texts[:4], "?", "!", "?"])
    whole, cut = (esdedup.Limits(threshold=0.4, k=100, candidates=some) for some in (100, 6))
    query = index.query(texts[0])
    (result,), (truncated,) = (index.similar_many([query], each) for each in (whole, cut))
    assert (result.total, truncated.total, truncated.truncated) == (24, 6, True)
    bands = META.scheme.chosen(cut)
    least = min(match.matched for match in truncated.matches) + 1
    assert truncated.recall == bands.recall(cut, bands.tokens, least)
    assert 0 <= (truncated.recall or 0) < 0.5 < (result.recall or 0)
    (warning,) = missing_matches(truncated, cut, META.scheme)
    assert warning.startswith("More than 6 candidates")
    assert [index.similar("?", candidates=some).recall for some in (1, 2)] == [None, 1.0]


def test_matches_have_positions() -> None:
    with open_index(":memory:", [{"id": id, "text": "one text of all"} for id in "abc"]) as index:
        result = index.similar("one text of all")
    assert [match.id for match in result] == [result[at].id for at in range(3)] == ["a", "b", "c"]
    assert result[1:] == [result[1], result[-1]] == result.matches[1:]


def unlike() -> list[str]:
    """English and Chinese texts in families of eight, down to few shingles in common."""
    rng = np.random.default_rng(17)
    texts = []
    for family in range(30):
        chinese = family % 2 == 1
        han = [chr(0x4E00 + point) for point in rng.integers(0, 3_000, 90).tolist()]
        first = han if chinese else words(family, 90).split()
        for number in range(8):
            edited = list(first)
            for at in rng.integers(0, 90, 6 * number).tolist():
                new = int(rng.integers(2_000))
                edited[at] = chr(0x6E00 + new) if chinese else f"edit{new}"
            texts.append(("" if chinese else " ").join(edited))
    return texts


def corpus() -> list[str]:
    """300 texts; every tenth is followed by three edited copies of it, at 3 to 30 words' edits."""
    rng = np.random.default_rng(11)
    texts: list[str] = []
    for number in range(300):
        if number % 10 in (1, 2, 3):
            edited = texts[number - number % 10].split()
            for at in rng.integers(0, len(edited), 2 * (number % 10) ** 2 - 1).tolist():
                edited[at] = f"edit{rng.integers(10**6)}"
            texts.append(" ".join(edited))
        else:
            texts.append(words(number, 120))
    return [*texts, "", "!"]


def brute_force(texts: list[str]) -> dict[tuple[str, str], float]:
    left, right = np.triu_indices(len(texts), 1)
    similarity = jaccard(shingle_sets(texts, META.scheme), left, right)
    return {
        (f"t{a:03}", f"t{b:03}"): value
        for a, b, value in zip(left.tolist(), right.tolist(), similarity.tolist(), strict=True)
    }


def brute_force_hamming(texts: list[str], distance: int) -> dict[tuple[str, str], int]:
    made = sketch(texts, META.scheme)
    left, right = np.triu_indices(len(texts), 1)
    apart = hamming(made.values["simhash"][left], made.values["simhash"][right])
    real = made.filled[left] & made.filled[right] & (apart <= distance)
    return {
        (f"t{a:03}", f"t{b:03}"): value
        for a, b, value in zip(
            left[real].tolist(), right[real].tolist(), apart[real].tolist(), strict=True
        )
    }
