"""Servers for the benchmarks: one that runs, or nodes of their own, started from jars."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.servers.cluster import Cluster


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="a server that runs; otherwise nodes are started")
    parser.add_argument(
        "--product", choices=("elasticsearch", "opensearch"), default="elasticsearch"
    )
    parser.add_argument("--version", help="of the product, by default that of the tests")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--heap", default="1g", help="of each node")


@contextlib.contextmanager
def served(options: argparse.Namespace) -> Iterator[str]:
    """The address of the server that the options ask for; nodes that it starts are stopped."""
    if options.url is not None:
        yield options.url
        return
    with started(options.product, options.version, options.nodes, options.heap) as cluster:
        yield cluster.urls[0]


@contextlib.contextmanager
def started(product: str, version: str | None, nodes: int, heap: str) -> Iterator[Cluster]:
    """Nodes of their own, which end with the block. version: None for that of the tests."""
    # Nodes are made as for the tests, which need the packages of the `test` extra.
    from tests.servers.cluster import Cluster, start_cluster
    from tests.servers.node import Node
    from tools.servers.versions import ELASTICSEARCH, OPENSEARCH

    default = ELASTICSEARCH if product == "elasticsearch" else OPENSEARCH
    wanted = product, version or default.version
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as folder:
        home = Path(folder)
        # No flags: those of the tests start nodes quickly, and make them slow.
        if nodes == 1:
            with Node.start(*wanted, home, heap, jvm_flags=()) as node:
                yield Cluster([node])
        else:
            with start_cluster(*wanted, home, nodes, heap, jvm_flags=()) as cluster:
                yield cluster


def drop(url: str, index: str) -> None:
    """Delete an index."""
    urllib.request.urlopen(urllib.request.Request(f"{url}/{index}", method="DELETE")).close()
