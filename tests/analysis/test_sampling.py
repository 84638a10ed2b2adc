"""Samples of indices, on every store."""

import itertools
from collections import Counter

import numpy as np
import pytest

from esdedup.analysis.judging import Pool, drawn_at_random, estimates
from esdedup.analysis.sampling import FLOOR, Sample, draw_sample
from esdedup.analysis.tuning import expectation, neighbours_in
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, find_groups
from esdedup.models import Document, Query
from esdedup.search.similar import similar
from esdedup.sketch.kinds.vectors import Vectors
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import shingle_sets
from esdedup.sketch.vectors import F32
from esdedup.stores import Store
from esdedup.stores.changes import delete, update
from esdedup.stores.judgements import Judgements
from esdedup.stores.mapping import IndexMeta
from tests.helpers.arrivals import family
from tests.helpers.indices import open_index
from tests.helpers.places import META, Place, local, write_texts
from tests.helpers.vectors import clustered

BANDS = META.scheme.banded


def corpus(groups: int) -> list[str]:
    """Texts in groups of 4: one, an equal one, and two with 1 to 20 of 60 words replaced."""
    rng, texts = np.random.default_rng(5), []
    for number in range(0, 100 * groups, 100):
        texts += [family(number, 0), family(number, 0).upper()]
        texts += [family(number + 1 + copy, int(rng.integers(1, 21))) for copy in range(2)]
    return texts


def all_pairs(texts: list[str]) -> list[tuple[str, str, float]]:
    """All pairs of texts with a similarity from the floor on: both texts, and the similarity."""
    sets = [set(row.tolist()) for row in shingle_sets(texts, META.scheme)]
    found = []
    for (one, a), (other, b) in itertools.combinations(zip(texts, sets, strict=True), 2):
        if len(a & b) >= FLOOR * len(a | b):
            found.append((one.lower(), other.lower(), len(a & b) / len(a | b)))
    return found


def of_texts(texts: list[str]) -> dict[frozenset[str], float]:
    """The pairs of different texts."""
    return {frozenset((a, b)): value for a, b, value in all_pairs(texts) if a != b}


def total(sample: Sample, low: float = 0.0, high: float = 2.0) -> float:
    return Pool.of(sample).total(low, high)


@pytest.mark.on_every_server
def test_the_sample_of_a_small_index_has_its_pairs_once(store: Store) -> None:
    texts = corpus(30)
    write_texts(store, texts)
    sample = draw_sample(store, META)
    assert (sample.documents, sample.sampled, sample.truncated, sample.whole) == (120, 120, 0, True)
    found = {
        frozenset(texts[int(id[1:])].lower() for id in pair[:2]): pair.similarity
        for pair in sample.pairs
    }
    truth = of_texts(texts)
    assert len(found) == len(sample.pairs)
    assert found == truth
    assert total(sample) == pytest.approx(len(truth))
    for threshold in (0.3, 0.5, 0.8, 1.0):
        got = expectation(neighbours_in(sample), threshold, BANDS).similar
        near = sum(value >= threshold for *_, value in all_pairs(texts))
        assert got == pytest.approx(2 * near / 120)


@local
def test_pairs_over_the_threshold_are_those_of_the_groups(store: Store) -> None:
    texts = corpus(60)
    write_texts(store, texts)
    groups = find_groups(store, META, Grouping(Limits(threshold=0.5)))
    sample = draw_sample(store, META, 40)
    pool = Pool.of(sample, groups)
    near = [pair for pair in pool.pairs if pair.similarity >= 0.5]
    assert pool.duplicates is not None
    # The sample alone has fewer of them.
    few = sum(pair.similarity >= 0.5 for pair in sample.pairs)
    assert len(near) == pool.duplicates.size > few
    row_of = {id: row for row, id in enumerate(groups.ids)}
    for pair in near:
        left, right = (row_of[id] for id in pair[:2])
        assert groups.representative[left] == groups.representative[right]
    words = Counter(frozenset(texts[int(id[1:])].lower() for id in pair[:2]) for pair in near)
    assert max(words.values()) == 1
    assert set(pool.pairs) - set(near) == {p for p in sample.pairs if p.similarity < 0.5}


@local
def test_similarities_of_unrelated_texts_are_exact(store: Store) -> None:
    drawn = np.random.default_rng(2).integers(0, 60, (40, 600))
    texts = [" ".join(f"w{word}" for word in row) for row in drawn]
    write_texts(store, texts)
    found = neighbours_in(draw_sample(store, META))
    sets = [set(row.tolist()) for row in shingle_sets(texts, META.scheme)]
    values = [len(a & b) / len(a | b) for a, b in itertools.combinations(sets, 2)]
    assert max(values) < 0.01
    assert found.similarity @ found.expected / 39 == pytest.approx(np.mean(values))


def test_a_sample_shows_the_whole(store: Store) -> None:
    texts = corpus(150)
    write_texts(store, texts)
    steps: list[tuple[int, int]] = []
    samples = [
        draw_sample(store, META, 150, seed=seed, on_drawn=lambda *step: steps.append(step))
        for seed in range(4)
    ]
    assert steps[-1] == (150, 150)
    assert {(each.documents, each.sampled, each.whole) for each in samples} == {(600, 150, False)}
    neighbours = [neighbours_in(sample) for sample in samples]
    assert [each.expected.sum() for each in neighbours] == pytest.approx([599] * 4)
    expected = [expectation(each, 0.5, BANDS) for each in neighbours]
    # Servers draw at random. The standard error of the mean of four samples is 3%, of one 6%, and
    # of the pairs within one sample, one pair of sixteen, over 20%.
    near = 2 * sum(value >= 0.5 for *_, value in all_pairs(texts)) / 600
    assert np.mean([each.similar for each in expected]) == pytest.approx(near, rel=0.18)
    queries = [Query(text, f"d{at}") for at, text in enumerate(texts)]
    results = similar(store, META, queries, Limits(k=1_000, swaps=0, least=1))
    candidates = sum(result.candidates for result in results) / 600
    assert np.mean([each.candidates for each in expected]) == pytest.approx(candidates, rel=0.15)


@local
def test_the_mean_of_samples_is_the_number_of_pairs(store: Store) -> None:
    texts = corpus(120)
    write_texts(store, texts)
    truth = np.array([*of_texts(texts).values()])
    samples = [draw_sample(store, META, 100, seed) for seed in range(8)]
    for low, high in ((FLOOR, 0.5), (0.5, 0.8), (0.8, 1.01)):
        wanted = ((truth >= low) & (truth < high)).sum()
        mean = np.mean([total(sample, low, high) for sample in samples])
        assert mean == pytest.approx(wanted, rel=0.25)


def test_documents_without_a_text_and_too_many_candidates_are_counted(store: Store) -> None:
    write_texts(store, ["the same words in each of them"] * 50 + ["", "!"])
    update(store, [Document("d7", {"text": None}), Document("d8", {"text": None})])
    store.refresh()
    found = draw_sample(store, META, 30, seed=1, candidates=10)
    assert found.sampled + found.without_text == 30
    assert found.truncated > 20
    delete(store, [f"d{at}" for at in range(52)])
    store.refresh()
    with pytest.raises(UsageError, match="a sample of 0 texts has no pairs"):
        neighbours_in(draw_sample(store, META, 10))
    pool = Pool.of(draw_sample(store, META))
    assert (pool.pairs, pool.sample.documents, pool.sample.sampled) == ((), 0, 0)
    (nothing,) = estimates(pool, drawn_at_random(pool, Judgements()), [0.8])
    assert (nothing.precision, nothing.recall, nothing.removed.value) == (None, None, 0.0)


@pytest.mark.on_every_server
def test_neighbours_of_vectors_are_found_by_their_cosine(place: Place) -> None:
    vectors = clustered(400, 32, seed=2)
    documents = [
        {"id": f"d{row:03}", "embedding": vector.tolist()} for row, vector in enumerate(vectors)
    ]
    scheme = Scheme([Vectors(32, 0.95)])
    with open_index(place, documents, scheme=scheme, text_field="embedding") as index:
        check_neighbours(vectors, index.store, index.meta)


def check_neighbours(vectors: F32, store: Store, meta: IndexMeta) -> None:
    """Compare samples of 400 vectors with all of their cosines."""
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    cosine = (wide @ wide.T)[np.triu_indices(400, 1)]
    whole = draw_sample(store, meta)
    assert (whole.sampled, whole.whole) == (400, True)
    assert whole.floor > 0.7
    near = cosine[cosine >= whole.floor]
    assert whole.similarity.size == 2 * near.size
    assert np.sort(whole.similarity)[::2] == pytest.approx(np.sort(near))
    neighbours = neighbours_in(whole)
    for least in (0.2, 0.5, 0.9, 0.95):
        expected = 2 * (cosine >= least).sum() / 400
        at_least = neighbours.expected[neighbours.similarity >= least].sum()
        assert at_least == pytest.approx(expected, rel=0.02, abs=0.02)
    part = draw_sample(store, meta, 200)
    assert (part.documents, part.sampled, part.whole) == (400, 200, False)
    estimated = neighbours_in(part)
    over = estimated.expected[estimated.similarity >= 0.9].sum()
    assert over == pytest.approx(2 * (cosine >= 0.9).sum() / 400, rel=0.25)
