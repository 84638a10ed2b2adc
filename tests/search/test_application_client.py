"""An index through a client that the application has, of Elasticsearch and of OpenSearch."""

from collections.abc import Callable, Iterator
from typing import Any

import elasticsearch
import opensearchpy
import pytest

import esdedup
from esdedup.exceptions import StoreUnavailable
from tests.helpers.places import Place, clusters

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


@pytest.mark.on_every_server
@clusters
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
