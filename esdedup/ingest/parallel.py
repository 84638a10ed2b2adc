"""Worker processes, each with a pipe of its own, which ends if either side is killed.

With the shared pipe of `concurrent.futures`, a worker that is killed within a result would leave
the pool waiting for the rest for ever.
"""

import gc
import itertools
import logging
import multiprocessing
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue
from typing import Any, TypeVar

from esdedup.exceptions import EsdedupError, StoreError
from esdedup.text.characters import message_of

log = logging.getLogger("esdedup")

Item = TypeVar("Item")
Done = TypeVar("Done")
_Queue = SimpleQueue[Any]
_KILLED = "a worker process was killed, perhaps for lack of memory; run this again"


def in_order(workers: int, work: Callable[[Item], Done], items: Iterable[Item]) -> Generator[Done]:
    """Yield `work(item)` of each item, in the order of the items.

    workers: number of processes; 1 is this process. At most `2 * workers` items are read ahead.
    Raises the first error of `work`, and StoreError if a process was killed or can't be started.
    What `items` raises comes after the results of all items before it.
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

    early: dict[int, Any] = {}
    given, waiting = enumerate(readable()), deque[int]()
    with _processes(workers, work) as (tasks, results):
        while True:
            for number, item in itertools.islice(given, 2 * workers + 1 - len(waiting)):
                tasks.put((number, item))
                waiting.append(number)
            if not waiting:
                break
            while waiting[0] not in early:
                early.update([results.get()])
            yield _value(early.pop(waiting.popleft()))
    if failures:
        raise failures[0]


def in_pieces(
    workers: int, work: Callable[[Item], tuple[Done, Item | None]], items: Iterable[Item]
) -> Generator[Done]:
    """Yield the results of all pieces of the items, in any order, with the errors of `in_order`.

    work: returns the result of a piece of an item, and the rest of the item or None.
    """
    waiting = 0
    with _processes(workers, work) as (tasks, results):
        for item in items:
            tasks.put((0, item))
            waiting += 1
        while waiting:
            done, rest = _value(results.get()[1])
            if rest is None:
                waiting -= 1
            else:
                tasks.put((0, rest))
            yield done


def _value(result: Any) -> Any:
    """Return the result of a process, or raise it if it is an error."""
    if isinstance(result, Exception):
        raise result
    return result


@contextmanager
def _processes(workers: int, work: Callable[[Any], Any]) -> Iterator[tuple[_Queue, _Queue]]:
    """Start processes that call a function. Return the queues of items and results, by number."""
    # A forked process would hold our files, locks and connections.
    context = multiprocessing.get_context("spawn")
    processes: list[SpawnProcess] = []
    tasks: _Queue = SimpleQueue()
    results: _Queue = SimpleQueue()
    try:
        for _ in range(workers):
            try:
                with _uninterrupted():
                    here, there = context.Pipe()
                    process = context.Process(target=_serve, args=(there, work), daemon=True)
                    process.start()
                    processes.append(process)
                    feed = threading.Thread(target=_feed, args=(here, tasks, results), daemon=True)
                    feed.start()
            except OSError as error:
                raise StoreError(
                    f"only {len(processes)} of {workers} worker processes can be started:"
                    f" {error.strerror}; use fewer"
                ) from error
            there.close()
        yield tasks, results
    finally:
        for process in processes:
            process.terminate()
            tasks.put(None)
        for process in processes:
            process.join()


def _feed(pipe: Connection, tasks: _Queue, results: _Queue) -> None:
    """Send items to a process, and put its results into a queue."""
    with pipe:
        while (task := tasks.get()) is not None:
            number, item = task
            try:
                pipe.send(item)
                results.put((number, pipe.recv()))
            except (EOFError, OSError):
                results.put((number, StoreError(_KILLED)))
            except Exception as error:
                results.put((number, error))


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """Work on the items of a pipe, in a worker process, until the pipe ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    be_a_program()
    with suppress(EOFError, OSError):
        while True:
            item = pipe.recv()
            try:
                result: Any = work(item)
            except EsdedupError as error:
                result = error
            except Exception as error:
                log.exception("a worker process failed")
                result = StoreError(f"a worker process failed: {type(error).__name__}: {error}")
            pipe.send(result)


class _Messages(logging.Handler):
    """Writes messages to standard error, without control characters."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{message_of(self.format(record))}\n")


def be_a_program() -> None:
    """Set up garbage collection, logging and warnings of a process that is esdedup's alone."""
    # Documents have no cycles. Searching many of them for cycles takes a sixth of the time.
    gc.set_threshold(100_000, 20, 20)
    logging.basicConfig(handlers=[_Messages()], level=logging.WARNING, format="%(message)s")
    warnings.showwarning = lambda text, kind, *_: log.warning("%s: %s", kind.__name__, text)
    sys.excepthook = lambda *error: log.critical("%s", "".join(traceback.format_exception(*error)))
    # Our own messages report failed requests.
    logging.getLogger("elastic_transport").setLevel(logging.CRITICAL)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block. Processes and threads started in it never get it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Python unblocks interrupts again when it starts this process.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
