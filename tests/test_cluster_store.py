"""What only clusters have: missing shards, documents with a routing, reasons in many parts."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

import esdedup
from tests.clusters import call
from tests.conftest import delete_index


@pytest.fixture(params=["elasticsearch", "elasticsearch8", "opensearch"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def name(url: str) -> Iterator[str]:
    made = f"esdedup-cluster-{uuid.uuid4().hex[:12]}"
    yield made
    delete_index(url, made)


@pytest.fixture
def index(url: str, name: str) -> Iterator[esdedup.Index]:
    policy = esdedup.BulkPolicy(retries=1, base=0.01)
    with esdedup.open(url, name, policy=policy) as opened:
        yield opened


def test_a_missing_shard_is_no_smaller_count(
    request: pytest.FixtureRequest, url: str, name: str, index: esdedup.Index
) -> None:
    index.add([{"id": "1", "text": "one two three"}])
    assert index.statistics().documents == 1
    alias, nowhere = f"{name}-alias", f"{name}-nowhere"
    request.addfinalizer(lambda: delete_index(url, nowhere))
    mappings = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]
    settings = {"number_of_shards": 1, "index.routing.allocation.require._name": "nobody"}
    body = {"settings": settings, "mappings": mappings, "aliases": {alias: {}}}
    call(url, "PUT", f"/{nowhere}?wait_for_active_shards=0", body)
    call(url, "PUT", f"/{name}/_alias/{alias}")
    policy = esdedup.BulkPolicy(retries=2, base=0.2)
    with esdedup.open(url, alias, policy=policy) as both:
        start = time.monotonic()
        with pytest.raises(esdedup.StoreUnavailable, match=f"{alias}: 1 of 2 shards did not"):
            both.statistics()
        # Twice it was asked again.
        assert time.monotonic() - start >= 0.3
