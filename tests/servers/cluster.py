"""Several nodes that form one cluster, for tests that take some of them away."""

import contextlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.servers.jars import Installation, install
from tests.servers.node import QUICK_START, Node, PortTaken
from tests.servers.ports import free_port


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
    installation = install(product, version)
    for attempt in (1, 2, 3):
        # Every member knows the ports of all, so a port lost to another process costs a new try
        # of the whole, in fresh homes.
        nodes = _members(installation, home / f"try-{attempt}", size, heap, jvm_flags)
        try:
            for node in nodes:
                node.launch()
            for node in nodes:
                node.await_ready(nodes=len(nodes))
            break
        except BaseException as error:
            for node in nodes:
                with contextlib.suppress(Exception):
                    node.kill()
            if attempt == 3 or not isinstance(error, PortTaken):
                raise
    return Cluster(nodes)


def _members(
    installation: Installation, home: Path, size: int, heap: str, jvm_flags: Sequence[str]
) -> list[Node]:
    names = [f"node-{number}" for number in range(1, size + 1)]
    ports = [(free_port(), free_port()) for _ in names]
    settings = {
        "cluster.name": f"esdedup-{secrets.token_hex(4)}",
        "discovery.seed_hosts": [f"127.0.0.1:{transport}" for _, transport in ports],
        "cluster.initial_master_nodes": names,
    }
    options = {"heap": heap, "settings": settings, "jvm_flags": jvm_flags}
    return [
        Node(installation, home / name, name=name, ports=pair, **options)  # type: ignore[arg-type]
        for name, pair in zip(names, ports, strict=True)
    ]
