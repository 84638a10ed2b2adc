"""An index with tokens, and requests to it through the proxy."""

import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import elasticsearch
import elasticsearch.helpers
import httpx
import opensearchpy
import opensearchpy.helpers
import pytest

import esdedup
from tests.conftest import delete_index
from tests.helpers.http import HTTP
from tests.servers.enriching import Enriching

JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
GZIP = {"content-encoding": "gzip"}
MB = 1 << 20


@dataclass(frozen=True)
class Setup:
    """A server, the proxy before it, and the product's client."""

    direct: str
    proxy: Enriching
    product: str

    def client(self, url: str, **options: Any) -> Any:
        # The Elasticsearch 9 client does not speak to version 8; the other one does.
        if self.product == "elasticsearch":
            return elasticsearch.Elasticsearch(url, **options)
        return opensearchpy.OpenSearch(url, **options)

    @property
    def helpers(self) -> Any:
        return elasticsearch.helpers if self.product == "elasticsearch" else opensearchpy.helpers


@pytest.fixture(scope="module", params=["elasticsearch", "elasticsearch8", "opensearch"])
def setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Setup]:
    url: str = request.getfixturevalue(f"{request.param}_url")
    with Enriching(url, tmp_path_factory.mktemp("proxy")) as proxy:
        yield Setup(url, proxy, request.param)


@pytest.fixture
def name(elasticsearch_url: str) -> Iterator[str]:
    """An index with tokens, in which the other fields cost nothing."""
    found = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    with esdedup.open(elasticsearch_url, found) as index:
        index.create()
    disabled = {"properties": {"x": {"type": "object", "enabled": False}}}
    HTTP.put(f"{elasticsearch_url}/{found}/_mapping", json=disabled).raise_for_status()
    yield found
    delete_index(elasticsearch_url, found)


def post(url: str, body: Any, **headers: str) -> httpx.Response:
    return HTTP.post(url, content=body, headers={**NDJSON, **headers}, timeout=600)


def connect(proxy: Enriching, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(proxy.address, timeout=60)
    connection.sendall(sent)
    return connection


def items(answer: httpx.Response) -> list[dict[str, Any]]:
    return [result for item in answer.json()["items"] for result in item.values()]


def source(url: str, name: str, id: str) -> dict[str, Any]:
    found: dict[str, Any] = HTTP.get(f"{url}/{name}/_doc/{id}").json()["_source"]
    return found


def metric(proxy: Enriching, name: str) -> float:
    page = HTTP.get(f"{proxy.url}/-/metrics").text
    wanted = f"esdedup_proxy_{name}"
    return sum(float(line.split()[1]) for line in page.splitlines() if line.startswith(wanted))


@pytest.fixture
def place_of_tokens(setup: Setup) -> Iterator[str]:
    """An index with tokens, on the server of this setup."""
    name = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    with esdedup.open(setup.direct, name) as index:
        index.create()
    yield name
    delete_index(setup.direct, name)
