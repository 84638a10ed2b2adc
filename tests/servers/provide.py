"""Finds or starts the servers that a test run needs, in parallel.

A server comes from an address in the environment, from a container where a Docker engine answers,
or from jars, in this order. If none of them works, tests that need it are skipped.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

import pytest

from tests.servers.containers import engine_answers, start_container
from tests.servers.jdk import Unavailable
from tests.servers.node import REQUIRE_VARIABLE, Node, NodeFailed, servers_required
from tests.servers.secured import SecuredNode


@dataclass(frozen=True)
class Server:
    """A kind of server that tests may ask for."""

    product: str
    version: str
    variable: str
    secured: bool = False

    def __str__(self) -> str:
        return f"{'secured ' if self.secured else ''}{self.product} {self.version}"


ELASTICSEARCH = Server("elasticsearch", "9.5.3", "ESDEDUP_TEST_ELASTICSEARCH_URL")
ELASTICSEARCH8 = Server("elasticsearch", "8.19.21", "ESDEDUP_TEST_ELASTICSEARCH8_URL")
OPENSEARCH = Server("opensearch", "3.3.2", "ESDEDUP_TEST_OPENSEARCH_URL")
SECURED_ELASTICSEARCH = Server(
    "elasticsearch", "9.5.3", "ESDEDUP_TEST_SECURED_ELASTICSEARCH_URL", secured=True
)
# The security plugin is not published for every version.
SECURED_OPENSEARCH = Server(
    "opensearch", "3.4.0", "ESDEDUP_TEST_SECURED_OPENSEARCH_URL", secured=True
)

# By the fixtures that hand out their addresses.
SERVERS = {
    "elasticsearch_url": ELASTICSEARCH,
    "elasticsearch8_url": ELASTICSEARCH8,
    "opensearch_url": OPENSEARCH,
    "secured_elasticsearch_url": SECURED_ELASTICSEARCH,
    "secured_opensearch_url": SECURED_OPENSEARCH,
}

# A usual run tests one major version, and one of the secured products.
ONLY_WITH_ALL = {"elasticsearch8", "secured_opensearch"}


@dataclass
class Running:
    url: str
    stop: Callable[[], None]


class Provider:
    """The servers of one test session, each started at most once."""

    def __init__(self, home: Path, wanted: Iterable[str]) -> None:
        self._home = home
        self._wanted = set(wanted)
        self._started: dict[str, Future[Running]] = {}
        self._lock = threading.Lock()

    def url(self, fixture: str) -> str:
        """Start all servers that the session will need, and wait for this one."""
        self.start(fixture)
        return self._started[fixture].result().url

    def start(self, *more: str) -> None:
        """Start all servers that the session will need, and others; does not wait for them."""
        engine_answers()  # Here, because no thread may be the first to ask.
        with self._lock:
            for name in sorted({*more, *self._wanted} - self._started.keys()):
                self._started[name] = _in_thread(
                    functools.partial(provide, SERVERS[name], self._home / name)
                )

    def stop(self) -> None:
        """End all servers at the same time."""
        threads = [
            threading.Thread(target=_stop_quietly, args=(future,))
            for future in self._started.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def provide(server: Server, home: Path) -> Running:
    """This server, from the first source that has it."""
    url = os.environ.get(server.variable)
    if url:
        return Running(url.rstrip("/"), _nothing)
    reasons = []
    if server.secured:
        reasons.append("container: their certificates and users are not ours")
    elif engine_answers():
        try:
            return Running(*start_container(server.product, server.version))
        except Exception as error:  # Whatever a container library throws, jars may still work.
            reasons.append(f"container: {type(error).__name__}: {error}")
    else:
        reasons.append("container: no Docker engine answers")
    try:
        kind = SecuredNode if server.secured else Node
        node = kind.start(server.product, server.version, home)
    except Unavailable as error:
        reasons.append(f"jars: {error}")
        raise Unavailable(
            f"no {server} server: {'; '.join(reasons)}; or set {server.variable}"
        ) from None
    return Running(node.url, node.end)


class NodeFactory:
    """Starts nodes that tests may kill, which only nodes from jars allow, and ends them."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._nodes: list[Node] = []

    def __call__(self, server: Server, **options: Any) -> Node:
        """A running node; `options` are those of Node.start."""
        home = self._home / f"node-{len(self._nodes) + 1}"
        with refusing():
            try:
                node = Node.start(server.product, server.version, home, **options)
            except Unavailable as error:
                raise Unavailable(f"no private {server} server: jars: {error}") from None
        self._nodes.append(node)
        return node

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Nobody looks at their data again, so they need not end in order.
        for node in self._nodes:
            node.kill()


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn a missing server into a skipped test, or a failed one where servers are required."""
    try:
        yield
    except Unavailable as error:
        refuse(str(error))
    except NodeFailed as error:
        # It could be had and does not run: that is a fault, never a reason to skip.
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def refuse(reason: str) -> NoReturn:
    if not servers_required():
        pytest.skip(reason)
    raise pytest.fail.Exception(f"{reason} ({REQUIRE_VARIABLE} is set)", pytrace=False) from None


def servers_wanted(items: Iterable[pytest.Item]) -> set[str]:
    """The server fixtures that these tests use, directly, through others, or by a parameter."""
    return {name for item in items for name in names_of(item, "{}_url")} & SERVERS.keys()


def names_of(item: pytest.Item, pattern: str) -> set[str]:
    """The fixtures of a test, and those that its parameters name by a pattern."""
    chosen = getattr(item, "callspec", None)
    values = chosen.params.values() if chosen is not None else ()
    return {*getattr(item, "fixturenames", ()), *(pattern.format(value) for value in values)}


def _in_thread(start: Callable[[], Running]) -> Future[Running]:
    future: Future[Running] = Future()

    def run() -> None:
        try:
            future.set_result(start())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _stop_quietly(future: Future[Running]) -> None:
    if future.exception() is None:
        future.result().stop()


def _nothing() -> None:
    """Servers that somebody else started stay as they are."""
