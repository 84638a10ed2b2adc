"""Settings for a process that is ours from end to end: for none that we are only a part of."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def be_a_program() -> None:
    """Sets when garbage is collected, and what is logged."""
    # Documents have no cycles, and to search many of them for such takes a sixth of the time.
    gc.set_threshold(100_000, 20, 20)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    # What the clients log of a failed request, our own messages say.
    logging.getLogger("elastic_transport").setLevel(logging.CRITICAL)
    logging.getLogger("opensearch").setLevel(logging.CRITICAL)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Puts Ctrl-C off, for good in what is started meanwhile: it is for us, who end the others."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with _interrupts_blocked():
            yield
    finally:
        signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """What is started meanwhile has them blocked too; a handler it does not get."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # To start this one, Python lets interrupts through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
