"""Finds or starts the servers that a test run needs, in parallel.

A server comes from an address in the environment, from a container where a Docker engine answers,
or from jars, in this order. If none of them works, tests that need it are skipped.
"""

import contextlib
import multiprocessing
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.managers import BaseManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest

from tests.helpers.packages import is_required
from tests.servers.node import REQUIRE_VARIABLE, Node, NodeFailed
from tests.servers.secured import SecuredNode
from tools.servers.containers import engine_answers, start_container
from tools.servers.jdk import Unavailable
from tools.servers.versions import SERVERS, Server

Address = tuple[str, bytes]
"""Of the provider of the main process, and the key that it requires."""


Running = tuple[str, Callable[[], None]]
"""The address of a server, and what ends it."""


class Provider:
    """The servers of one test session, each started at most once.

    `share` lets the other processes of the run ask for them.
    """

    def __init__(self) -> None:
        engine_answers()  # Here, because no thread may be the first to ask.
        self._home = TemporaryDirectory(prefix="esdedup-servers-", ignore_cleanup_errors=True)
        self._started: dict[str, Future[Running]] = {}
        self._threads = ThreadPoolExecutor(len(SERVERS))
        self._lock = threading.Lock()

    def start(self, fixtures: Iterable[str]) -> None:
        """Start servers without waiting for them."""
        with self._lock:
            for name in sorted({*fixtures} - self._started.keys()):
                home = Path(self._home.name, name)
                self._started[name] = self._threads.submit(provide, SERVERS[name], home)

    def url(self, fixture: str) -> str:
        """Return the address of a server. Raises Unavailable or NodeFailed."""
        self.start([fixture])
        return self._started[fixture].result()[0]

    def share(self) -> Address:
        """Return the address at which `connected` finds this provider."""
        key = secrets.token_bytes(16)
        _Manager.register("provider", callable=lambda: self, exposed=["start", "url"])
        server = _Manager(authkey=key).get_server()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return str(server.address), key

    def stop(self) -> None:
        """End all servers concurrently."""
        started = [each for each in self._started.values() if each.exception() is None]
        list(self._threads.map(lambda each: each.result()[1](), started))
        self._threads.shutdown()
        self._home.cleanup()


class _Manager(BaseManager):
    """Carries the calls of test processes to the provider of the main process."""


def connected(address: Address) -> Provider:
    """Return the provider of the main process."""
    _Manager.register("provider")
    manager = _Manager(*address)
    # The calls of a proxy authenticate by the key of the process.
    multiprocessing.current_process().authkey = address[1]
    manager.connect()
    found: Provider = manager.provider()  # type: ignore[attr-defined]
    return found


def provide(server: Server, home: Path) -> Running:
    """Start this server, from the first source that has it."""
    url = os.environ.get(server.variable)
    if url:
        return url.rstrip("/"), lambda: None
    reasons = []
    if server.secured:
        reasons.append("container: their certificates and users are not ours")
    elif engine_answers():
        try:
            return start_container(server.product, server.version)
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
    return node.url, node.kill


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
    if not is_required():
        pytest.skip(reason)
    raise pytest.fail.Exception(f"{reason} ({REQUIRE_VARIABLE} is set)", pytrace=False) from None


def servers_wanted(items: Iterable[pytest.Item]) -> set[str]:
    """The server fixtures that these tests use, directly, through others, or by a parameter."""
    return {name for item in items for name in names_of(item, "{}_url")} & SERVERS.keys()


def names_of(item: pytest.Item, pattern: str) -> set[str]:
    """The fixtures of a test, and those that its parameters name by a pattern."""
    chosen = getattr(item, "callspec", None)
    values = chosen.params.values() if chosen is not None else ()
    # Others are no names, and some of them are long when they are written.
    names = (value for value in values if isinstance(value, str))
    return {*getattr(item, "fixturenames", ()), *(pattern.format(name) for name in names)}
