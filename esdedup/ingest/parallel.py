"""Worker processes: they compute, and this process takes their results.

The pool is that of `concurrent.futures`. This module starts it so that Ctrl-C reaches only this
process, stops it at once after an error, and ends the workers when this process is killed.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, TypeVar

from esdedup.exceptions import EsdedupError, StoreError
from esdedup.text.characters import message_of

log = logging.getLogger("esdedup")

Item = TypeVar("Item")
Done = TypeVar("Done")
Submit = Callable[..., "Future[Path]"]
_LOOK = 0.1
"""Seconds for which Ctrl-C may have to wait."""


def in_order(workers: int, work: Callable[[Item], Done], items: Iterable[Item]) -> Generator[Done]:
    """Yield `work(item)` of each item, in the order of the items.

    workers: number of processes; with 1, this process does it. At most `2 * workers` items are read
    ahead. Raises the first error of `work`, and StoreError if a process was killed or can't be
    started. What `items` raises comes after the results of all items before it.
    """
    if workers == 1:
        yield from map(work, items)
        return
    failures: list[Exception] = []

    def readable() -> Iterator[Item]:
        try:
            yield from items
        except Exception as error:
            failures.append(error)

    with _processes(workers) as submit:
        waiting: deque[Future[Path]] = deque()
        for item in readable():
            waiting.append(submit(work, item))
            while waiting and (len(waiting) > 2 * workers or _ended([waiting[0]], 0)):
                yield _taken(waiting.popleft())
        while waiting:
            yield _taken(waiting.popleft())
    if failures:
        raise failures[0]


def in_pieces(
    workers: int, work: Callable[[Item], tuple[Done, Item | None]], items: Iterable[Item]
) -> Generator[Done]:
    """Yield the results of all pieces of the items, in any order.

    work: returns the result of a piece of an item, and the rest of the item or None. It is called
    again with the rest. workers and errors: as in `in_order`.
    """
    with _processes(workers) as submit:
        running = {submit(work, item) for item in items}
        while running:
            ended = _ended(running)
            running -= ended
            for future in ended:
                done, rest = _taken(future)
                if rest is not None:
                    running.add(submit(work, rest))
                yield done


@contextmanager
def _processes(workers: int) -> Iterator[Submit]:
    """Return a function that submits a call to a pool of processes."""
    others = set(multiprocessing.active_children())
    # A forked process would hold our files, locks and connections.
    context = multiprocessing.get_context("spawn")
    results = TemporaryDirectory(prefix="esdedup-")
    begin = partial(_begin, results.name)
    with _interrupts_later():
        pool = ProcessPoolExecutor(workers, context, initializer=begin)

    def submit(work: Callable[..., Any], item: Any) -> Future[Path]:
        try:
            # This may start a process.
            with _interrupts_later():
                return pool.submit(_stored, work, item, results.name)
        except OSError as error:
            started = len(set(multiprocessing.active_children()) - others)
            raise StoreError(
                f"only {started} of {workers} worker processes can be started: {error.strerror};"
                " use fewer"
            ) from error

    try:
        yield submit
    except BaseException as error:
        # The pool would wait until its processes have finished.
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenExecutor):
            raise StoreError(
                "a worker process was killed, perhaps for lack of memory; run this again"
            ) from error
        raise
    finally:
        with _interrupts_later():
            pool.shutdown()
            results.cleanup()


def _begin(results: str) -> None:
    """Prepare a worker process, and end it when its parent ends in any way."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        shutil.rmtree(results, ignore_errors=True)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    be_a_program()
    threading.Thread(target=end_with_parent, daemon=True).start()


def _stored(work: Callable[[Any], Any], item: Any, folder: str) -> Path:
    """Call `work`, in a worker process, and return a file with its result.

    If a process is killed while it sends a large result, the pool waits for the rest for ever. The
    name of a file is sent whole or not at all. Raises only errors that can be sent.
    """
    try:
        done = work(item)
        try:
            with NamedTemporaryFile(dir=folder, delete=False) as file:
                pickle.dump(done, file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise StoreError(f"{folder}: can't be written: {error.strerror}") from error
        return Path(file.name)
    except EsdedupError:
        raise
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            said = f"a worker process failed: {type(error).__name__}: {error}"
            raise StoreError(said) from error
        raise


def _ended(futures: Collection[Future[Path]], seconds: float = _LOOK) -> set[Future[Path]]:
    """Wait some seconds at most, and return the futures that have ended.

    Ctrl-C comes after that. Within, it could leave the lock of a future taken, and the pool would
    wait for that for ever.
    """
    with _interrupts_later():
        return wait(futures, seconds, FIRST_COMPLETED).done


def _taken(future: Future[Path]) -> Any:
    """Wait for the result of a call, and remove its file."""
    while not _ended([future]):
        pass
    with _interrupts_later():
        path = future.result()
    with path.open("rb") as file:
        done = pickle.load(file)
    path.unlink()
    return done


class _Messages(logging.StreamHandler[Any]):
    """Writes messages to standard error, without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return message_of(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        # A bar of progress puts another stream in the place of the first.
        self.stream = sys.stderr
        super().emit(record)


def be_a_program() -> None:
    """Set up garbage collection, logging and warnings of a process that is esdedup's alone."""
    # Documents have no cycles. Searching many of them for cycles takes a sixth of the time.
    gc.set_threshold(100_000, 20, 20)
    logging.basicConfig(handlers=[_Messages()], level=logging.WARNING, format="%(message)s")
    warnings.showwarning = lambda text, kind, *_: log.warning("%s: %s", kind.__name__, text)
    sys.excepthook = lambda *error: log.critical("%s", "".join(traceback.format_exception(*error)))
    # The client logs failed requests, which our own messages report.
    logging.getLogger("elastic_transport").setLevel(logging.CRITICAL)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block. Processes started in it never get it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with ExitStack() as stack:
            if hasattr(signal, "pthread_sigmask"):
                from multiprocessing import resource_tracker

                # Python unblocks interrupts again when it starts this process.
                resource_tracker.ensure_running()
                # A process that is started inherits this, but not a handler.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
            yield
    finally:
        signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)
