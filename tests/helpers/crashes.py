"""Ends a command, as if it were killed, at a chosen call of its store."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from esdedup.stores import Cluster, LocalStore, Store

CALLS = [
    (Cluster, "request"),
    *((LocalStore, name) for name in vars(Store) if not name.startswith("_") and name != "close"),
]


class Crash(BaseException):
    """The process ends here, as far as the command can tell."""


@contextlib.contextmanager
def crash_at(number: int) -> Iterator[None]:
    """Raise Crash at a call, counted from 0: before an even one, after an odd one was done.

    Each later call raises it too, in any thread, until all threads of windows have ended.
    """
    counted, threads = itertools.count(), set[threading.Thread]()

    def crashing(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **options: Any) -> Any:
            at = next(counted)
            threads.add(threading.current_thread())
            crashes = at == number
            if at > number or (crashes and number % 2 == 0):
                raise Crash
            answer = call(*arguments, **options)
            if crashes:
                raise Crash
            return answer

        return instead

    # A command opens its stores itself, some of them by name, so none can be passed to it.
    with contextlib.ExitStack() as patches:
        for owner, name in CALLS:
            call = vars(owner)[name]
            if callable(call) and not isinstance(call, staticmethod):
                patches.enter_context(mock.patch.object(owner, name, crashing(call)))
        try:
            yield
        finally:
            for thread in threads - {threading.current_thread()}:
                thread.join()


def crash_everywhere(command: Callable[[], Any]) -> int:
    """Run a command until it ends, with a crash at one call later each time.

    Returns the number of crashes.
    """
    for number in itertools.count():
        try:
            with crash_at(number):
                command()
        except Crash:
            continue
        return number
    raise AssertionError
