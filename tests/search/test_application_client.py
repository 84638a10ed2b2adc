"""An index through a client that the application has, of Elasticsearch and of OpenSearch."""

from collections.abc import Callable, Iterator
from typing import Any

import elasticsearch
import opensearchpy
import pytest

import esdedup
from esdedup.exceptions import StoreUnavailable
from tests.helpers.places import Place

TEXTS = {
    "a": "The council met on Monday to discuss the budget of the new harbour bridge",
    "b": "The council met on Monday to discuss the budget of the old harbour bridge",
    "c": "A storm from the west brought rain and wind to the coast on Tuesday evening",
}
NOWHERE = "http://localhost:1"
CLIENTS: dict[str, Callable[[str], Any]] = {
    "elasticsearch": elasticsearch.Elasticsearch,
    "opensearch": opensearchpy.OpenSearch,
}


@pytest.fixture
def client(place: Place, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield the client of the product, as the application made it."""
    client = CLIENTS[request.node.callspec.params["place"]](str(place.target))
    yield client
    client.close()


# A server refuses clients of a later major version, as of Elasticsearch 8.
@pytest.mark.on_every_server
@pytest.mark.parametrize("place", CLIENTS, indirect=True)
def test_an_index_through_the_client_of_the_application(place: Place, client: Any) -> None:
    with esdedup.open(client, place.index) as index:
        index.create()
        documents = [{"id": id, "text": text, "price": 0.1} for id, text in TEXTS.items()]
        assert index.add(documents).created == 3
        assert [match.id for match in index.similar(id="a").matches] == ["b"]
        assert index.get("b").source["price"] == 0.1
        assert str(place.target) in repr(index)
        with pytest.raises(esdedup.EsdedupError, match="no document 'none'"):
            index.get("none")
    # The client is still open, and parses answers as before.
    assert client.count(index=place.index)["count"] == 3


@pytest.mark.parametrize("kind", CLIENTS.values())
def test_a_client_whose_cluster_is_gone(kind: Callable[[str], Any]) -> None:
    with kind(NOWHERE) as client, pytest.raises(StoreUnavailable, match=NOWHERE):
        esdedup.open(client, "news", retry_for=0)


def test_clients_and_settings_that_are_rejected() -> None:
    with elasticsearch.Elasticsearch(NOWHERE) as client:
        with pytest.raises(esdedup.UsageError, match="`api_key` can't be combined with a client"):
            esdedup.open(client, "news", api_key="id:key")
        with pytest.raises(esdedup.UsageError, match="did you mean 'timeout'"):
            esdedup.open(client, "news", timeuot=5)  # type: ignore[call-arg]
    asynchronous: Any = elasticsearch.AsyncElasticsearch(NOWHERE)
    with pytest.raises(esdedup.UsageError, match="use the synchronous client, in a thread"):
        esdedup.open(asynchronous, "news")


@pytest.mark.on_every_server
@pytest.mark.parametrize("place", CLIENTS, indirect=True)
def test_an_answer_of_the_client_is_verified(place: Place, client: Any) -> None:
    with esdedup.open(client, place.index) as index:
        index.create()
        index.add([{"id": id, "text": text} for id, text in TEXTS.items()])
        for threshold in (0.3, 0.9, None):
            body = index.request_body(TEXTS["a"], threshold=threshold)
            answer = client.search(index=place.index, body=body)
            result = index.verify(TEXTS["a"], answer, threshold=threshold)
            expected = index.similar(TEXTS["a"], threshold=threshold)
            assert result.matches[: len(expected)] == expected.matches
            assert "esdedup" not in result.matches[0].source
        # Another document of the same text, and conditions of the application.
        body = index.request_body(id="a", filters=[{"ids": {"values": ["b"]}}], threshold=0.3)
        hits = client.search(index=place.index, body=body)["hits"]["hits"]
        assert [match.id for match in index.verify(TEXTS["a"], hits, threshold=0.3)] == ["b"]
        body = index.request_body("...")
        nothing = index.verify("...", client.search(index=place.index, body=body))
        assert (nothing.matches, nothing.total) == ([], 0)


def test_hits_are_verified_without_a_server() -> None:
    with esdedup.open(":memory:") as index:
        index.create()
        hits = [{"_id": id, "_score": 1.0, "_source": {"text": TEXTS[id]}} for id in TEXTS]
        result = index.verify(TEXTS["a"], hits, threshold=0.5)
        assert [match.id for match in result] == ["a", "b"]
        assert (result.candidates, result.truncated, result.total) == (3, False, 2)
        total = {"value": 3, "relation": "gte"}
        answer = {"hits": {"total": total, "hits": hits}}
        assert index.verify(TEXTS["a"], answer, threshold=0.5).truncated
        assert index.verify(TEXTS["a"], hits, threshold=0.5, k=1).matches == result.matches[:1]
        with pytest.raises(esdedup.UsageError, match="no `_source` holds text: request it"):
            index.verify(TEXTS["a"], [{"_id": "a", "_score": 1.0}])
        for wrong in ({"took": 1}, [{"_id": "a"}], 5):
            with pytest.raises(esdedup.UsageError, match="use the answer to a search"):
                index.verify(TEXTS["a"], wrong)  # type: ignore[arg-type]


def test_a_closed_index_is_an_error() -> None:
    index = esdedup.open("closed.db")
    index.create()
    index.close()
    calls: list[Callable[[], object]] = [
        lambda: index.similar("a text"),
        lambda: index.add([{"id": "a", "text": "a text"}]),
        lambda: index.get("a"),
        index.pairs,
        index.groups,
        index.statistics,
    ]
    for call in calls:
        with pytest.raises(esdedup.UsageError, match="is closed: open it again"):
            call()
    assert repr(index).endswith("closed>")
    index.close()
