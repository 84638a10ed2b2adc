"""Several nodes that form one cluster, for tests that take some of them away."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.servers.node import Node
from tests.servers.ports import free_port
from tools.servers.jars import install
from tools.servers.settings import QUICK_START


class Cluster:
    """Nodes that know each other; every one has a home folder of its own."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End all nodes at once: one after the other, the last would wait for a lost master."""
        for node in self.nodes:
            node.ask_to_stop()
        for node in self.nodes:
            node.stop()


def start_cluster(
    product: str,
    version: str,
    home: Path,
    size: int = 3,
    heap: str = "512m",
    jvm_flags: Sequence[str] = QUICK_START,
) -> Cluster:
    """Start a cluster of `size` nodes, with their homes below `home`."""
    names = [f"node-{number}" for number in range(1, size + 1)]
    # Every member knows the ports of all.
    ports = [(free_port(), free_port()) for _ in names]
    settings = {
        "cluster.name": f"esdedup-{secrets.token_hex(4)}",
        "discovery.seed_hosts": [f"127.0.0.1:{transport}" for _, transport in ports],
        "cluster.initial_master_nodes": names,
    }
    installation = install(product, version)
    nodes = [
        Node(
            installation,
            home / name,
            heap=heap,
            name=name,
            ports=pair,
            settings=settings,
            jvm_flags=jvm_flags,
        )
        for name, pair in zip(names, ports, strict=True)
    ]
    try:
        for node in nodes:
            node.launch()
        for node in nodes:
            node.await_ready(nodes=size)
    except BaseException:
        for node in nodes:
            node.kill()
        raise
    return Cluster(nodes)
