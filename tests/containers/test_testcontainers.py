"""The way on which tests take their servers from containers."""

import pytest

from tests.containers.conftest import Provide
from tests.helpers.commands import call
from tests.servers.containers import IMAGES, start_container
from tests.servers.engine import Engine
from tests.servers.provide import ELASTICSEARCH, OPENSEARCH, Server

# One process has the engine.
pytestmark = pytest.mark.xdist_group("containers")


@pytest.mark.parametrize("server", [ELASTICSEARCH, OPENSEARCH], ids=str)
def test_both_products_start(
    server: Server, engine: Engine, provide: Provide, monkeypatch: pytest.MonkeyPatch
) -> None:
    provide(f"{IMAGES[server.product]}:{server.version}")
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    # It removes containers of tests that were killed, and its image may not be to be had.
    monkeypatch.setattr("testcontainers.core.config.testcontainers_config.ryuk_disabled", True)
    url, stop = start_container(server.product, server.version)
    try:
        nodes = call(url, "GET", "/_nodes?filter_path=nodes.*.version")["nodes"]
        assert [node["version"] for node in nodes.values()] == [server.version]
    finally:
        stop()
