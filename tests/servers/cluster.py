"""Several nodes that form one cluster, for tests that take some of them away."""

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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

    def stop(self) -> None:
        """End all nodes at once: one after the other, the last would wait for a lost master."""
        for node in self.nodes:
            node.ask_to_stop()
        for node in self.nodes:
            node.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start_cluster(
    product: str,
    version: str,
    home: Path,
    size: int = 3,
    heap: str = "512m",
    settings: Mapping[str, Any] | None = None,
    jvm_flags: Sequence[str] = QUICK_START,
) -> Cluster:
    """Start a cluster of `size` nodes, with their homes below `home`."""
    installation = install(product, version)
    for attempts_left in (2, 1, 0):
        # Every member knows the ports of all, so a port lost to another process costs a new try
        # of the whole, in fresh homes.
        nodes = _members(
            installation, home / f"try-{3 - attempts_left}", size, heap, settings, jvm_flags
        )
        try:
            _start_together(nodes)
            break
        except PortTaken:
            if not attempts_left:
                raise
    return Cluster(nodes)


def _members(
    installation: Installation,
    home: Path,
    size: int,
    heap: str,
    settings: Mapping[str, Any] | None,
    jvm_flags: Sequence[str],
) -> list[Node]:
    names = [f"node-{number}" for number in range(1, size + 1)]
    ports = [(free_port(), free_port()) for _ in names]
    common = {
        "cluster.name": f"esdedup-{secrets.token_hex(4)}",
        "discovery.seed_hosts": [f"127.0.0.1:{transport}" for _, transport in ports],
        "cluster.initial_master_nodes": names,
        **(settings or {}),
    }
    return [
        Node(
            installation,
            home / name,
            heap=heap,
            name=name,
            ports=pair,
            settings=common,
            jvm_flags=jvm_flags,
        )
        for name, pair in zip(names, ports, strict=True)
    ]


def _start_together(nodes: list[Node]) -> None:
    try:
        for node in nodes:
            node.launch()
        for node in nodes:
            node.await_ready(nodes=len(nodes))
    except BaseException:
        for node in nodes:
            with contextlib.suppress(Exception):
                node.kill()
        raise
