"""The recall of values of one-permutation hashing with rotation, against simulated ones."""

import numpy as np
import pytest

from esdedup import Limits, Scheme, Server, Shingling, UsageError
from esdedup.sketch.kinds.server import expected_recall
from esdedup.stores.mapping import IndexMeta, analysis_of, index_mapping
from esdedup.text.arrays import F64, I64, Mask

PAIRS = 2_000
BUCKETS = 64


def values(hashes: F64, held: Mask) -> F64:
    """Return the values of texts: shape (pairs, buckets).

    hashes: of shingles, 0 to 1, shape (pairs, n). held: the shingles of the text, shape (n,).
    """
    found = np.full((len(hashes), BUCKETS), np.inf)
    rows = np.arange(len(hashes))
    for at in np.flatnonzero(held).tolist():
        bucket = (hashes[:, at] * BUCKETS).astype(np.int64)
        found[rows, bucket] = np.minimum(found[rows, bucket], hashes[:, at])
    # An empty bucket has the value of the next one that is not.
    twice = np.concatenate([found, found], axis=1)
    for at in reversed(range(2 * BUCKETS - 1)):
        empty = np.isinf(twice[:, at])
        twice[empty, at] = twice[empty, at + 1]
    return twice[:, :BUCKETS]


def equal_values(shared: int, query: int, document: int) -> I64:
    """Return how many values of a query the document has, for random pairs.

    shared, query, document: number of shingles in both, and in one of them alone.
    """
    size = shared + query + document
    hashes = np.random.default_rng(size).random((PAIRS, size))
    at = np.arange(size)
    own, theirs = (
        values(hashes, at < shared + query),
        values(hashes, (at < shared) | (at >= size - document)),
    )
    own_or_theirs = np.concatenate([own, theirs], axis=1)
    # A value is looked up among all of the document, not at its own place only.
    counts = np.zeros(PAIRS, np.int64)
    for row, both in enumerate(own_or_theirs):
        counts[row] = np.isin(both[:BUCKETS], both[BUCKETS:]).sum()
    return counts


@pytest.mark.parametrize("size", [2, 3, 5, 8, 15, 30, 80, 300])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("shares", ["query", "document", "both"])
def test_the_recall_is_at_least_that_of_the_theory(
    size: int, threshold: float, shares: str
) -> None:
    shared = int(np.ceil(threshold * size))
    of_query = {"query": size - shared, "document": 0, "both": (size - shared) // 2}[shares]
    of_document = size - shared - of_query
    equal = equal_values(shared, of_query, of_document)
    for recall in (0.9, 0.99):
        limits = Limits(threshold=threshold, recall=recall)
        least = Server().least(limits, shared + of_query)
        promised = min(recall, Server().recall(limits, shared + of_query, least) or 0.0)
        error = np.sqrt(promised * (1 - promised) / PAIRS)
        assert np.mean(equal >= least) >= promised - 3 * error


def test_many_shingles_are_binomial() -> None:
    chances = [expected_recall(0.5, 20, least, 10**6) for least in (1, 10, 20)]
    assert chances == pytest.approx([1 - 2.0**-20, 0.588099, 2.0**-20], abs=1e-4)
    assert expected_recall(1.0, 20, 20, 3) == 1.0
    fewer = [expected_recall(0.5, 64, 20, shingles) for shingles in (10, 30, 100, 1_000)]
    assert fewer == sorted(fewer)


def test_buckets_follow_from_the_threshold_and_the_recall() -> None:
    assert [Server.for_threshold(each, 0.99).buckets for each in (0.3, 0.5, 0.8)] == [88, 40, 16]
    assert Server.for_threshold(0.5, 0.999).buckets == Server().buckets
    for threshold, recall in ((0.0, 0.9), (0.5, 1.0)):
        with pytest.raises(UsageError, match="use a"):
            Server.for_threshold(threshold, recall)


def test_tokens_of_the_server_are_alone_and_of_words() -> None:
    with pytest.raises(UsageError, match="name a field of its own"):
        Scheme([Server(), Server(name="other")])
    with pytest.raises(UsageError, match="use word:N"):
        Scheme([Server()], shingling=Shingling("char", 5))
    with pytest.raises(UsageError, match="use 8 to 512"):
        Server(4)


def test_the_field_is_added_to_what_the_mapping_has() -> None:
    meta = IndexMeta(Scheme([Server()], shingling=Shingling("word", 1)), ("doc.body",))
    raw = {"type": "keyword"}
    body = {"type": "text", "analyzer": "german", "fields": {"raw": raw}}
    mapping = {"_meta": {"a": 1}, "properties": {"doc": {"properties": {"body": body}}}}
    made = index_mapping(meta, mapping)
    assert made["_meta"]["a"] == 1
    (doc,) = (made["properties"][name] for name in made["properties"] if name == "doc")
    fields = doc["properties"]["body"]["fields"]
    assert doc["properties"] == {"body": {**body, "fields": {"raw": raw, **fields}}}
    (name,) = analysis_of(meta)["analyzer"]
    assert fields["esdedup"]["analyzer"] == name
    assert analysis_of(IndexMeta(Scheme())) == {}
    assert IndexMeta.from_json(meta.to_json()) == meta
