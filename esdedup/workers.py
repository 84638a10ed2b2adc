"""OnItem in several processes, its results as they come."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any, TypeVar

from esdedup.exceptions import StoreError

Item = TypeVar("Item")
Done = TypeVar("Done")
OnItem = Callable[[Item], Iterator[Done]]
"""What is done with an item, and what comes of it."""


def in_processes(
    workers: int,
    begin: Callable[[], AbstractContextManager[OnItem[Item, Done]]],
    items: Iterable[tuple[int, Item]],
) -> Iterator[Done]:
    """What comes of each item, in any order; the items of one worker are done in theirs.

    begin: called once in each process. items: each with the number of its worker, from 0; the next
    is read while the processes work on those before. All must be of the kind that can be sent.

    The processes end when this one does, however that happens: their pipes break. Raises the first
    error of any of them, after all have been stopped, and StoreError where one was killed.
    """
    pool = _Pool(workers, begin)
    try:
        for worker, item in items:
            while worker not in pool.ready:
                yield from pool.received()
            pool.send(worker, item)
        while pool.working:
            pool.end()
            yield from pool.received()
    finally:
        pool.stop()


def collect_rarely() -> None:
    """Has this process look for cycles among its objects less often.

    Documents have none, and among many of them the search takes a sixth of the time. For a program
    that is ours from end to end, not for one that we are a part of.
    """
    gc.set_threshold(100_000, 20, 20)


class _Pool:
    """Processes, each with a pipe to it."""

    def __init__(self, workers: int, begin: Any) -> None:
        # Forked, they would hold the ends of each other's pipes.
        context = multiprocessing.get_context("spawn")
        self.ready: set[int] = set()
        self.working: list[int] = []
        self._pipes: list[Any] = []
        self._processes: list[Any] = []
        for worker in range(workers):
            pipe, theirs = context.Pipe()
            process = context.Process(target=_run, args=(theirs, begin), daemon=True)
            with _deaf_to_interrupts():
                process.start()
            theirs.close()
            self._pipes.append(pipe)
            self._processes.append(process)
            self.working.append(worker)

    def send(self, worker: int, item: Any) -> None:
        """Gives an item to a worker that waits for one."""
        self._tell(worker, ("item", item))

    def end(self) -> None:
        """Tells those that wait that nothing comes any more."""
        for worker in sorted(self.ready):
            self._tell(worker, ("end", None))

    def received(self) -> Iterator[Any]:
        """What has come, after waiting for at least one message."""
        open_pipes = {self._pipes[worker]: worker for worker in self.working}
        for pipe in wait(list(open_pipes)):
            worker = open_pipes[pipe]
            try:
                kind, value = self._pipes[worker].recv()
            except (EOFError, ConnectionResetError):
                raise self._killed(worker) from None
            if kind == "error":
                raise value
            if kind == "done":
                yield value
            elif kind == "ready":
                self.ready.add(worker)
            else:
                self.working.remove(worker)

    def stop(self) -> None:
        """Ends all, whatever they are at."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.close()
            process.terminate()
            process.join()

    def _tell(self, worker: int, message: tuple[str, Any]) -> None:
        self.ready.discard(worker)
        try:
            self._pipes[worker].send(message)
        except BrokenPipeError:
            raise self._killed(worker) from None

    def _killed(self, worker: int) -> StoreError:
        process = self._processes[worker]
        process.join()
        return StoreError(f"a worker process ended with status {process.exitcode}; run this again")


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """What is started meanwhile does not hear Ctrl-C, which is for us: we end what we started."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run(pipe: Pipe, begin: Any) -> None:
    """In the worker's process."""
    collect_rarely()
    try:
        with begin() as work:
            pipe.send(("ready", None))
            while (message := pipe.recv())[0] == "item":
                for done in work(message[1]):
                    pipe.send(("done", done))
                pipe.send(("ready", None))
        pipe.send(("end", None))
    except (BrokenPipeError, ConnectionResetError, EOFError):
        # The one that we work for has gone; what is written stays.
        return
    except Exception as error:
        pipe.send(("error", error))
