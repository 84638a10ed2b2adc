"""Worker processes, each with a pipe of its own, which ends if either side is killed.

With the shared pipe of `concurrent.futures`, a worker that is killed within a result would leave
the pool waiting for the rest for ever.
"""

import gc
import logging
import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue

from esdedup.exceptions import EsdedupError, StoreError
from esdedup.stores import concurrency
from esdedup.stores.concurrency import Answer, Item, Submit
from esdedup.text.characters import message_of

log = logging.getLogger("esdedup")
_CLEAR = "\x1b[2K"
"""Clears a line of a terminal."""
MOST_PROCESSES = 4
"""Processes that read files, unless their number is set."""
_BYTES_OF_PROCESS = 12 << 20
"""A process starts in 0.2 s, in which another one sketches some 2 MB. Parquet and packed files hold
more text than their size."""


def in_order(
    workers: int, work: Callable[[Item], Answer], items: Iterable[Item], ahead: int = 1
) -> Generator[Answer]:
    """Yield `work(item)` of each item, as `concurrency.in_order`.

    workers: number of processes; one is this process.
    ahead: number of items to submit before the result of the first one is taken, besides two for
        each process.

    Raises StoreError, too, if a process was killed or can't be started.
    """
    if workers == 1:
        yield from map(work, items)
        return
    with _processes(workers - 1, work, with_thread=True) as submit:
        yield from concurrency.in_order(submit, items, lambda: 2 * workers + ahead)


def beside(work: Callable[[Item], Answer], items: Iterable[Item]) -> Generator[Answer]:
    """Yield `work(item)` of each item, which a thread does while the next item is computed.

    Ctrl-C ends the items: the result of the last one comes before KeyboardInterrupt.
    """
    interrupts: list[KeyboardInterrupt] = []

    def until_interrupted() -> Iterator[Item]:
        try:
            yield from items
        except KeyboardInterrupt as error:
            interrupts.append(error)

    def submit(item: Item) -> Future[Answer]:
        return pool.submit(work, item)

    with ThreadPoolExecutor(1) as pool:
        yield from concurrency.in_order(submit, until_interrupted(), lambda: 1)
    for error in interrupts:
        raise error


def in_pieces(
    workers: int, work: Callable[[Item], tuple[Answer, Item | None]], items: Iterable[Item]
) -> Generator[Answer]:
    """Yield the results of all pieces of the items, as `concurrency.in_pieces`, in processes."""
    with _processes(workers, work) as submit:
        yield from concurrency.in_pieces(submit, items, lambda: workers)


@contextmanager
def _processes(
    workers: int, work: Callable[[Item], Answer], *, with_thread: bool = False
) -> Iterator[Submit[Item, Answer]]:
    """Start processes that call a function. Return a function that submits an item to them.

    with_thread: a thread of this process calls it too, also while the others start.
    """
    # A forked process would hold our files, locks and connections.
    context = multiprocessing.get_context("spawn")
    processes: list[SpawnProcess] = []
    pipes: SimpleQueue[Connection | None] = SimpleQueue()
    pool = ThreadPoolExecutor(workers + with_thread)
    try:
        if with_thread:
            pipes.put(None)
        for _ in range(workers):
            try:
                with _uninterrupted():
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
                    process.start()
                    processes.append(process)
            except OSError as error:
                started, requested = len(processes) + with_thread, workers + with_thread
                raise StoreError(
                    f"only {started} of {requested} processes can be started: {error.strerror};"
                    " use fewer"
                ) from error
            theirs.close()
            pipes.put(ours)
        yield lambda item: pool.submit(_result, work, pipes, item)
    finally:
        for process in processes:
            process.terminate()
        pool.shutdown(cancel_futures=True)
        for process in processes:
            process.join()


def _result(
    work: Callable[[Item], Answer], pipes: SimpleQueue[Connection | None], item: Item
) -> Answer:
    """Send an item to a process that is idle, and return its result, or raise its error."""
    pipe = pipes.get()
    try:
        if pipe is None:
            result: Answer | EsdedupError = _outcome(work, item)
        else:
            pipe.send(item)
            result = pipe.recv()
    except (EOFError, OSError) as error:
        raise StoreError(
            "a worker process was killed, perhaps for lack of memory; run this again"
        ) from error
    finally:
        pipes.put(pipe)
    if isinstance(result, EsdedupError):
        raise result
    return result


def _serve(pipe: Connection, work: Callable[[Item], object]) -> None:
    """Work on the items of a pipe, in a worker process, until the pipe ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    be_a_program()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_outcome(work, pipe.recv()))


def _outcome(work: Callable[[Item], Answer], item: Item) -> Answer | EsdedupError:
    """Return the result of the work on an item, or the error to raise."""
    try:
        return work(item)
    except EsdedupError as error:
        return error
    except Exception as error:
        log.exception("a worker process failed")
        return StoreError(f"a worker process failed: {type(error).__name__}: {error}")


class _Messages(logging.Handler):
    """Writes messages to standard error, without control characters."""

    def emit(self, record: logging.LogRecord) -> None:
        # Progress may be shown on this line.
        clear = _CLEAR if sys.stderr.isatty() else ""
        sys.stderr.write(f"{clear}{message_of(self.format(record))}\n")


def number_of_processes(size: int, cores: int | None = None) -> int:
    """Return the number of processes that read a number of bytes. cores: None for all there are."""
    if cores is None:
        cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):
            cores = len(os.sched_getaffinity(0))
    return max(1, min(MOST_PROCESSES, cores, size // _BYTES_OF_PROCESS))


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
    """Delay Ctrl-C until the end of the block. Processes started in it never get it."""
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
