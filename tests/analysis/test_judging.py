"""The pool of pairs to judge, from indices on every store."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from esdedup.analysis.judging import FLOOR, Pool, drawn_of, estimates, make_pool
from esdedup.exceptions import UsageError
from esdedup.models import Document, natural
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import shingle_sets
from esdedup.stores import Store
from esdedup.stores.judgements import Judgements
from tests.helpers.documents import with_tokens
from tests.helpers.places import META, local, write


def corpus(groups: int, seed: int = 5) -> list[str]:
    """Texts in groups of 4: one, an equal one, and two with 1 to 20 of 60 words replaced."""
    rng = np.random.default_rng(seed)
    texts = []
    for number in range(groups):
        words = [f"w{at}" for at in rng.integers(0, 50_000, 60).tolist()]
        texts += [" ".join(words), " ".join(words).upper()]
        for copy in range(2):
            edited = list(words)
            for at in rng.choice(60, int(rng.integers(1, 21)), replace=False).tolist():
                edited[at] = f"x{number}-{copy}-{at}"
            texts.append(" ".join(edited))
    return texts


def fill(store: Store, texts: list[str]) -> None:
    documents = [Document(f"d{at}", {"text": text}) for at, text in enumerate(texts)]
    write(store, with_tokens(documents, META))


def pairs_of(texts: list[str]) -> dict[tuple[str, str], float]:
    """All pairs of different texts from the floor on; each text by its first document."""
    first: dict[str, str] = {}
    for at, text in enumerate(texts):
        first.setdefault(text.lower(), f"d{at}")
    sets = [set(row.tolist()) for row in shingle_sets([*first], META.scheme)]
    found = {}
    for (one, a), (other, b) in itertools.combinations(zip(first.values(), sets, strict=True), 2):
        similarity = len(a & b) / len(a | b)
        if similarity >= FLOOR:
            left, right = sorted((one, other), key=natural)
            found[left, right] = similarity
    return found


def test_the_pool_of_a_small_index_has_its_pairs_once(store: Store) -> None:
    texts = corpus(30)
    fill(store, texts)
    truth = pairs_of(texts)
    steps: list[tuple[int, int]] = []
    pool = make_pool(store, META, on_step=lambda *step: steps.append(step))
    assert (pool.documents, pool.sampled, pool.truncated, pool.whole) == (120, 120, 0, True)
    assert steps[-1] == (120, 120)
    found = {pair[:2]: pair.similarity for pair in pool.pairs}
    assert len(found) == len(pool.pairs)
    # All pairs of the index were compared.
    assert found == truth
    assert pool.exact
    assert pool.total(FLOOR) == pytest.approx(len(truth))
    # Two documents of every four have equal texts.
    assert sorted(pool.copies.tolist()) == [1.0] * 60 + [2.0] * 60


@local
def test_documents_removed_of_a_small_index_are_known(store: Store) -> None:
    texts = corpus(30)
    fill(store, texts)
    pool = make_pool(store, META)
    sets = [set(row.tolist()) for row in shingle_sets(texts, META.scheme)]
    for each in estimates(pool, drawn_of(pool, Judgements()), (0.3, 0.4, 0.6, 0.8)):
        near = [sum(len(a & b) >= each.threshold * len(a | b) for b in sets) for a in sets]
        removed = sum(1 - 1 / count for count in near)
        assert each.removed == pytest.approx((removed,) * 3)


@local
def test_bands_and_comparisons_agree(store: Store) -> None:
    texts = corpus(150)
    fill(store, texts)
    known, found = make_pool(store, META), make_pool(store, META, most=0)
    assert (known.exact, found.exact) == (True, False)
    assert known.copies.tolist() == found.copies.tolist()
    pairs = {pair[:2]: pair.similarity for pair in known.pairs}
    assert {pair[:2] for pair in found.pairs} <= pairs.keys()
    assert all(pairs[pair[:2]] == pair.similarity for pair in found.pairs)
    assert 0.6 * len(pairs) < len(found.pairs) < len(pairs)
    assert found.total(0.0) == pytest.approx(known.total(0.0), rel=0.1)
    removed = [
        estimates(pool, drawn_of(pool, Judgements()), [FLOOR])[0].removed for pool in (known, found)
    ]
    assert removed[1].low <= removed[0].value <= removed[1].high


@local
def test_shingles_of_most_texts_are_counted_too(store: Store) -> None:
    rng = np.random.default_rng(2)
    # More texts than are counted one by one share the first words.
    words = [f"w{at}" for at in range(20)]
    texts = [" ".join([*words, *map(str, rng.integers(0, 99, 15))]) for _ in range(60)]
    texts.append("nothing of this")
    fill(store, texts)
    truth = pairs_of(texts)
    assert len(truth) > 1_000
    pool = make_pool(store, META)
    assert pool.total(FLOOR) == pytest.approx(len(truth))
    assert sorted(pool.similarity.tolist()) == sorted([*truth.values()] * 2)


@pytest.mark.parametrize("most", [0, 1_000])
@local
def test_a_sample_tells_how_many_pairs_there_are(store: Store, most: int) -> None:
    texts = corpus(120)
    fill(store, texts)
    truth = np.array([*pairs_of(texts).values()])
    pools = [make_pool(store, META, 100, seed, most=most) for seed in range(8)]
    for low, high in ((FLOOR, 0.5), (0.5, 0.8), (0.8, 1.01)):
        wanted = ((truth >= low) & (truth < high)).sum()
        mean = np.mean([pool.total(low, high) for pool in pools])
        assert mean == pytest.approx(wanted, rel=0.25)
    assert all(pool.sampled == 100 and not pool.whole for pool in pools)


@local
def test_a_seed_gives_the_same_pool_again(store: Store) -> None:
    fill(store, corpus(60))
    one, again, other = (ids(make_pool(store, META, 80, seed)) for seed in (1, 1, 2))
    assert one == again != other


def ids(pool: Pool) -> list[tuple[str, str]]:
    return [pair[:2] for pair in pool.pairs]


@local
def test_an_empty_index_has_an_empty_pool(store: Store) -> None:
    pool = make_pool(store, META)
    assert (pool.pairs, pool.documents, pool.sampled) == ((), 0, 0)
    (found,) = estimates(pool, drawn_of(pool, Judgements()), [0.8])
    assert (found.precision, found.recall, found.removed.value) == (None, None, 0.0)


@local
def test_an_index_without_minhash_is_refused(store: Store) -> None:
    meta = replace(META, scheme=Scheme([SimHash()]))
    with pytest.raises(UsageError, match="no sketch with bands"):
        make_pool(store, meta)
