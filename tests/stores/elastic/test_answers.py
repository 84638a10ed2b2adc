"""Answers that no cluster gives: pages of load balancers, other services, other shapes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.models import CandidateQuery, Document
from esdedup.stores import Cluster, ClusterStore
from esdedup.stores.base import Store
from esdedup.stores.changes import delete
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import Ran, run_command
from tests.helpers.fuzz import fuzz
from tests.servers.proxy import Answer, Proxy

JSON = ("Content-Type", "application/json")
ELASTIC = ("X-Elastic-Product", "Elasticsearch")
PAGE = b"<!doctype html><html><h1>Please log in</h1></html>"


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """A server that answers only what a test says."""
    with Proxy("http://127.0.0.1:1") as made:
        yield made


def stats(proxy: Proxy) -> Ran:
    return run_command("stats", "--url", proxy.url, "--retry-for", "0")


FIRST = {
    "a page": (Answer(200, [("Content-Type", "text/html")], PAGE), 2, "neither"),
    "a page of another type": (Answer(200, [("Content-Type", "image/x")], PAGE), 2, "neither"),
    "nothing": (Answer(200, [], b""), 2, "neither"),
    "not JSON": (Answer(200, [JSON], b"{"), 2, "neither"),
    "deep JSON": (Answer(200, [JSON], b"[" * 100_000), 2, "neither"),
    "a list": (Answer(200, [JSON], b"[]"), 2, "neither"),
    "another shape": (Answer(200, [JSON], b'{"version": 3}'), 2, "neither"),
    "another service": (Answer(404, [("Content-Type", "text/html")], PAGE), 2, "returns 404: <!do"),
    "a redirection": (Answer(302, [("Location", "/login")], PAGE), 2, "returns 302"),
    "not ready": (Answer(503, [("Content-Type", "text/html")], PAGE), 1, "not ready (503)"),
    "not JSON, not ready": (Answer(503, [JSON], PAGE), 1, "not ready (503)"),
    "not ready, empty": (Answer(502, [], b""), 1, "not ready (502)"),
    "not text": (Answer(429, [JSON], b"\xff\x00\x1b"), 1, "not ready (429)"),
}


@pytest.mark.parametrize("case", FIRST)
def test_the_first_answer(proxy: Proxy, case: str) -> None:
    answer, status, said = FIRST[case]
    proxy.answer_next(99, answer)
    ran = stats(proxy)
    assert ran.status == status, ran.err
    assert said in ran.err
    assert proxy.url in ran.err
    assert len(ran.err.splitlines()) == 1


NAMES = [
    "_shards", "total", "successful", "count", "responses", "error", "type", "docs", "found",
    "hits", "pit_id", "id", "items", "index", "status", "_id", "_source", "_score", "_seq_no",
    "relation", "value", "mappings", "_meta", "esdedup", "documents",
]  # fmt: skip
SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
META = IndexMeta(esdedup.Scheme())
WORKS: list[Callable[[Store], Any]] = [
    lambda store: store.meta(),
    lambda store: store.create(META),
    lambda store: store.write([Document("1", {}), Document("2", {})]),
    lambda store: delete(store, ["1"]),
    lambda store: store.get(["1"]),
    lambda store: store.hold(["1"]),
    lambda store: list(store.scan([], META)),
    lambda store: store.sample([], META, 2, 1),
    lambda store: store.candidates([CandidateQuery("minhash", [["a"]])], 5),
    lambda store: store.statistics(META),
]


@pytest.fixture(scope="module")
def store(proxy: Proxy) -> Iterator[Store]:
    proxy.answer_next(1, Answer(200, [JSON, ELASTIC], b"{}"))
    made = ClusterStore(Cluster(esdedup.Connection((proxy.url,), retry_for=0)), "documents")
    yield made
    made.close()


@fuzz
@given(SHAPES | st.binary(max_size=20), st.sampled_from(WORKS), st.sampled_from([200, 404, 500]))
def test_answers_of_another_shape(
    proxy: Proxy, store: Store, shape: Any, work: Callable[[Store], Any], status: int
) -> None:
    body = shape if isinstance(shape, bytes) else json.dumps(shape).encode()
    proxy.answer_next(20, Answer(status, [JSON, ELASTIC], body))
    with contextlib.suppress(esdedup.EsdedupError):
        work(store)


def test_another_number_of_answers_than_of_searches(proxy: Proxy, store: Store) -> None:
    proxy.answer_next(1, Answer(200, [JSON, ELASTIC], b'{"responses": []}'))
    with pytest.raises(esdedup.StoreError, match="0 answers to 1 searches"):
        store.candidates([CandidateQuery("minhash", [["a"]])], 5)


def test_a_page_in_place_of_an_index(proxy: Proxy) -> None:
    proxy.answer_next(1, Answer(200, [JSON, ELASTIC], b"{}"))
    cluster = Cluster(esdedup.Connection((proxy.url,), retry_for=0))
    proxy.answer_next(1, Answer(200, [("Content-Type", "text/html")], PAGE))
    with pytest.raises(esdedup.StoreError, match=r"answer to GET /x is not a JSON object: <!doc"):
        cluster.ask("GET", "/x")
    cluster.close()
