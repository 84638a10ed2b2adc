"""Work in several processes, its results as they come."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any, Literal, TypeVar

from esdedup.exceptions import StoreError
from esdedup.hashing import U64
from esdedup.turns import Turns

Item = TypeVar("Item")
Done = TypeVar("Done")


@dataclass(frozen=True)
class Claim:
    """Keys (uint64) that no two items may be at in another order than that in which they came."""

    keys: U64


TURN: Literal["turn"] = "turn"
"""What waits until every earlier item has made its claim, and is done if it shares a key."""

OnItem = Callable[[Item], Iterator[Done | Claim | Literal["turn"]]]
"""What is done with an item, and what comes of it.

Where the order of items matters, it yields its claim as soon as it can, and TURN before it does
what the claim is for.
"""


def in_processes(
    workers: int,
    begin: Callable[[], AbstractContextManager[OnItem[Item, Done]]],
    items: Iterable[Item],
) -> Iterator[Done]:
    """What comes of each item, in any order; each goes to the next process that is free.

    begin: called once in each process. The next item is read while the processes work on those
    before. All must be of the kind that can be sent.

    The processes end when this one does, however that happens: their pipes break. Raises the first
    error of any of them, after all have been stopped, and StoreError where one was killed.
    """
    pool = _Pool(workers, begin)
    try:
        for item in items:
            yield from pool.received(lambda: bool(pool.ready))
            pool.send(item)
        pool.end()
        yield from pool.received(lambda: not pool.working)
    finally:
        pool.stop()


def collect_rarely() -> None:
    """Has this process look for cycles among its objects less often.

    Documents have none, and among many of them the search takes a sixth of the time. For a program
    that is ours from end to end, not for one that we are a part of.
    """
    gc.set_threshold(100_000, 20, 20)


class _Pool:
    """Processes, each with a pipe to it, and a thread that hears them.

    They are heard also while the next item is waited for, which may take as long as it likes.
    """

    def __init__(self, workers: int, begin: Any) -> None:
        # Forked, they would hold the ends of each other's pipes.
        context = multiprocessing.get_context("spawn")
        self.ready: list[int] = []
        self.working = set(range(workers))
        self._changed = threading.Condition()
        self._turns = Turns()
        self._items: dict[int, int] = {}
        self._sent = 0
        self._ending = False
        self._results: list[Any] = []
        self._error: Exception | None = None
        self._pipes: list[Any] = []
        self._processes: list[Any] = []
        for _ in range(workers):
            pipe, theirs = context.Pipe()
            process = context.Process(target=_run, args=(theirs, begin), daemon=True)
            with _deaf_to_interrupts():
                process.start()
            theirs.close()
            self._pipes.append(pipe)
            self._processes.append(process)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def received(self, enough: Callable[[], bool]) -> Iterator[Any]:
        """What has come, until there is enough of what is waited for."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._results or self._error or enough())
                results, self._results = self._results, []
                over = not results and enough()
            yield from results
            if self._error is not None:
                raise self._error
            if over:
                return

    def send(self, item: Any) -> None:
        """Gives an item to a worker that is ready."""
        with self._changed:
            worker = self.ready.pop(0)
            number = self._sent = self._sent + 1
            self._items[worker] = number
            self._turns.begin(number)
        # It reads nothing else meanwhile, so that none but this thread writes to it.
        self._tell(worker, ("item", item))

    def end(self) -> None:
        """Tells each, as soon as it is ready, that nothing comes any more."""
        with self._changed:
            self._ending = True
            for worker in self.ready:
                self._tell(worker, ("end", None))

    def stop(self) -> None:
        """Ends all, whatever they are at."""
        for process in self._processes:
            process.terminate()
            process.join()
        self._thread.join()
        for pipe in self._pipes:
            pipe.close()

    def _listen(self) -> None:
        """The thread: hears workers until each has ended."""
        heard: dict[Any, int] = {pipe: worker for worker, pipe in enumerate(self._pipes)}
        while heard:
            ready: list[Any] = wait(list(heard))
            for pipe in ready:
                worker = heard[pipe]
                try:
                    kind, value = pipe.recv()
                except (EOFError, OSError):
                    kind, value = "error", self._killed(worker)
                except Exception as error:
                    kind, value = "error", error
                if kind in ("error", "end"):
                    del heard[pipe]
                with self._changed:
                    self._take(worker, kind, value)
                    self._changed.notify_all()

    def _take(self, worker: int, kind: str, value: Any) -> None:
        if kind == "done":
            self._results.append(value)
        elif kind == "error":
            self._error = self._error or value
        elif kind == "end":
            self.working.discard(worker)
        elif kind == "ready":
            if worker in self._items:
                self._turns.end(self._items.pop(worker))
            self.ready.append(worker)
            if self._ending:
                self._tell(worker, ("end", None))
        elif kind == "claim":
            self._turns.claim(self._items[worker], value)
        else:
            self._turns.wait(self._items[worker])
        workers = {number: each for each, number in self._items.items()}
        for number in self._turns.come():
            self._tell(workers[number], ("turn", None))

    def _tell(self, worker: int, message: tuple[str, Any]) -> None:
        try:
            self._pipes[worker].send(message)
        except OSError:
            # Its end of the pipe is gone, which the thread hears.
            return

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
                    _report(pipe, done)
                pipe.send(("ready", None))
        pipe.send(("end", None))
    except (BrokenPipeError, ConnectionResetError, EOFError):
        # The one that we work for has gone; what is written stays.
        return
    except Exception as error:
        pipe.send(("error", error))


def _report(pipe: Pipe, done: Any) -> None:
    if isinstance(done, Claim):
        pipe.send(("claim", done.keys))
    elif done is TURN:
        pipe.send(("wait", None))
        pipe.recv()
    else:
        pipe.send(("done", done))
