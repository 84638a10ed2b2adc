"""Fixtures that hand out real servers."""

import contextlib
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from esdedup.stores import BulkPolicy, Store
from tests.helpers.places import META, STORES, OpenStore, Place
from tests.servers.node import Node
from tests.servers.provide import NodeFactory, Provider, servers_wanted

# Tests assert results and not speed, on machines of any speed.
settings.register_profile("esdedup", deadline=None)
settings.load_profile("esdedup")

_wanted = pytest.StashKey[set[str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Notes what the selected tests will need, so that it can start in parallel."""
    session.config.stash[_wanted] = servers_wanted(session.items)


@pytest.fixture(scope="session")
def server_provider(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Provider]:
    wanted = request.config.stash.get(_wanted, set())
    provider = Provider(tmp_path_factory.mktemp("servers"), wanted)
    yield provider
    provider.stop()


@pytest.fixture(scope="session")
def elasticsearch_url(server_provider: Provider) -> str:
    """Elasticsearch 9, shared by the whole session: use indices of your own."""
    return server_provider.url("elasticsearch_url")


@pytest.fixture(scope="session")
def elasticsearch8_url(server_provider: Provider) -> str:
    """Elasticsearch 8, shared by the whole session: use indices of your own."""
    return server_provider.url("elasticsearch8_url")


@pytest.fixture(scope="session")
def opensearch_url(server_provider: Provider) -> str:
    """OpenSearch 3, shared by the whole session: use indices of your own."""
    return server_provider.url("opensearch_url")


@pytest.fixture(params=["elasticsearch", "elasticsearch8", "opensearch"])
def url(request: pytest.FixtureRequest) -> str:
    """Each of the clusters in turn; a module that needs fewer has a fixture of its own."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def node_factory(tmp_path: Path) -> Iterator[NodeFactory]:
    """Starts nodes that belong to one test, which may kill and restart them."""
    factory = NodeFactory(tmp_path / "nodes")
    yield factory
    factory.stop()


@pytest.fixture
def fresh_elasticsearch_node(node_factory: NodeFactory) -> Node:
    """An Elasticsearch 9 node of one test's own."""
    return node_factory()


def delete_index(url: str, name: str) -> None:
    """Deletes an index that a test made, if it came to that."""
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="DELETE")).close()


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    index = f"esdedup-contract-{uuid.uuid4().hex[:12]}"
    if request.param == "local":
        yield Place(tmp_path / "store.db", index)
        return
    url: str = request.getfixturevalue(f"{request.param}_url")
    yield Place(url, index)
    delete_index(url, index)


@pytest.fixture
def open_store(place: Place) -> Iterator[OpenStore]:
    opened: list[Store] = []

    def open_one(policy: BulkPolicy | None = None) -> Store:
        opened.append(place.open(policy))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    made = open_store()
    made.create(META)
    return made
