"""Fixtures for tests of faults: a cluster of three nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.cluster import Cluster, start_cluster
from tests.servers.provide import refusing
from tools.servers.versions import ELASTICSEARCH, OPENSEARCH, Server


@pytest.fixture(params=[ELASTICSEARCH, OPENSEARCH], ids=str)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes."""
    server: Server = request.param
    with refusing():
        made = start_cluster(server.product, server.version, tmp_path / "cluster")
    yield made
    for node in made.nodes:
        node.kill()
