"""Shares the servers of one test run among all processes of the run.

The main process has the provider and answers on a local socket. The other processes ask it.
"""

import contextlib
import secrets
import threading
from collections.abc import Iterable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.servers.containers import engine_answers
from tests.servers.jdk import Unavailable
from tests.servers.node import NodeFailed
from tests.servers.provide import Provider

Address = tuple[str, bytes]


class SharedProvider:
    """Starts the servers that test processes ask for, each once, and keeps them until stop()."""

    def __init__(self) -> None:
        engine_answers()  # Here, because no thread may be the first to ask.
        self._provider: Provider | None = None
        self._lock = threading.Lock()
        self._home = TemporaryDirectory(prefix="esdedup-servers-", ignore_cleanup_errors=True)
        key = secrets.token_bytes(16)
        self._listener = Listener(authkey=key)
        self.address: Address = (str(self._listener.address), key)
        threading.Thread(target=self._listen, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()
        if self._provider is not None:
            self._provider.stop()
        self._home.cleanup()

    def _listen(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except (AuthenticationError, EOFError):
                continue
            except OSError:  # It is closed.
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection, contextlib.suppress(OSError, EOFError):
            wanted, fixture = connection.recv()
            provider = self._provider_of(wanted)
            try:
                provider.start()
                answer: str | Exception = provider.url(fixture) if fixture else ""
            except (Unavailable, NodeFailed) as error:
                answer = error
            except Exception as error:  # It may not be possible to send it as it is.
                answer = NodeFailed(f"{type(error).__name__}: {error}")
            connection.send(answer)

    def _provider_of(self, wanted: Iterable[str]) -> Provider:
        with self._lock:
            if self._provider is None:
                self._provider = Provider(Path(self._home.name), wanted)
            return self._provider


def ask_for_url(address: Address, wanted: set[str], fixture: str = "") -> str:
    """Return the address of a server that the main process starts.

    wanted: all servers that the run needs. fixture: without one, they start and nobody waits.
    Raises Unavailable or NodeFailed as the provider there did.
    """
    with Client(address[0], authkey=address[1]) as connection:
        connection.send((wanted, fixture))
        answer = connection.recv()
    if isinstance(answer, Exception):
        raise answer
    return str(answer)
