"""Work in several processes, its results as they come.

Whose turn it is, among items that are worked at side by side and are not to overtake others.

What runs in a worker process: it asks for items, and says what comes of them.

Processes that work for this one, and what is heard of them.

Settings for a process that is ours from end to end: for none that we are only a part of.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any, Literal, TypeVar

from esdedup.exceptions import EsdedupError, StoreError
from esdedup.text.arrays import U64


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


class Pool:
    """Processes, each with a pipe to it, and a thread that hears them.

    They are heard also while the next item is waited for, which may take as long as it likes. The
    thread alone knows of turns, and tells what else it hears through a queue: a lock of Python's
    own would stay held where an interrupt comes at a bad moment.
    """

    def __init__(self) -> None:
        self.ready: list[int] = []
        self.working: set[int] = set()
        self._sent = 0
        self._ending = False
        self._heard: queue.SimpleQueue[tuple[str, int, Any]] = queue.SimpleQueue()
        self._pipes: list[Any] = []
        self._processes: list[Any] = []
        self._thread = threading.Thread(target=self._listen_or_fail, daemon=True)

    def start(self, workers: int, begin: Any) -> None:
        """Starts all. Raises StoreError where the system does not let us."""
        # Forked, they would hold the ends of each other's pipes.
        context = multiprocessing.get_context("spawn")
        try:
            with interrupts_later():
                for worker in range(workers):
                    pipe, theirs = context.Pipe()
                    process = context.Process(target=run, args=(theirs, begin), daemon=True)
                    process.start()
                    self._pipes.append(pipe)
                    self._processes.append(process)
                    self.working.add(worker)
                    theirs.close()
        except OSError as error:
            started = len(self._processes)
            raise StoreError(
                f"only {started} of {workers} worker processes can be started: {error.strerror};"
                " use fewer"
            ) from error
        self._thread.start()

    def results(self, enough: Callable[[], bool]) -> Iterator[Any]:
        """What has come, and what comes until there is enough of what is waited for."""
        while not (self._heard.empty() and enough()):
            kind, worker, value = self._heard.get()
            if kind == "error":
                raise value
            if kind == "done":
                yield value
            elif kind == "end":
                self.working.discard(worker)
            elif self._ending:
                self._tell(worker, ("end", None))
            else:
                self.ready.append(worker)

    def send(self, item: Any) -> None:
        """Gives an item to a worker that is ready."""
        # It waits for no turn, so that none but this thread writes to it.
        self._tell(self.ready.pop(0), ("item", (self._sent, item)))
        self._sent += 1

    def end(self) -> None:
        """Tells each, as soon as it is ready, that nothing comes any more."""
        self._ending = True
        while self.ready:
            self._tell(self.ready.pop(), ("end", None))

    def stop(self) -> None:
        """Ends all, whatever they are at."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
        if self._thread.ident is not None:
            self._thread.join()
        for pipe in self._pipes:
            pipe.close()

    def _listen_or_fail(self) -> None:
        """In the thread: a failure here shall not leave the others waiting."""
        try:
            self._listen()
        except Exception as error:
            self._heard.put(("error", -1, error))

    def _listen(self) -> None:
        """Hears workers until each has ended, and tells them when it is their turn.

        Items are numbered in the order in which they were sent.
        """
        turns = Turns()
        workers: dict[int, int] = {}
        heard: dict[Any, int] = {pipe: worker for worker, pipe in enumerate(self._pipes)}
        while heard:
            ready: list[Any] = wait(list(heard))
            for pipe in ready:
                worker = heard[pipe]
                kind, value = self._message(worker)
                if kind in ("error", "end"):
                    del heard[pipe]
                if kind == "claim":
                    turns.claim(*value)
                elif kind == "wait":
                    workers[value] = worker
                    turns.wait(value)
                else:
                    if kind == "ready" and value is not None:
                        turns.end(value)
                    self._heard.put((kind, worker, value))
                for number in turns.granted():
                    self._tell(workers.pop(number), ("turn", None))

    def _message(self, worker: int) -> tuple[str, Any]:
        try:
            kind, value = self._pipes[worker].recv()
        except (EOFError, OSError):
            process = self._processes[worker]
            process.join()
            status = process.exitcode
            return "error", StoreError(
                f"a worker process ended with status {status}; run this again"
            )
        except Exception as error:
            return "error", error
        return kind, value

    def _tell(self, worker: int, message: tuple[str, Any]) -> None:
        try:
            self._pipes[worker].send(message)
        except OSError:
            # Its end of the pipe is gone, which the thread hears.
            return


@dataclass(frozen=True)
class Claim:
    """Keys (uint64) that no two items may be at in another order than that in which they came."""

    keys: U64


Turn = Literal["turn"]
TURN: Turn = "turn"
"""What waits until no earlier item that shares a key, or may do so, is still worked at."""


@dataclass
class _Item:
    """One that is worked at. before: earlier ones that it may not overtake, as far as is known."""

    before: set[int]
    keys: frozenset[int] | None = None
    waits: bool = False


class Turns:
    """Items, numbered from 0 in the order in which they begin, that two with a shared key keep."""

    def __init__(self) -> None:
        self._items: dict[int, _Item] = {}
        self._begun = 0

    def claim(self, number: int, keys: U64) -> None:
        """What an item is about."""
        self._begin(number)
        mine = self._items[number]
        mine.keys = frozenset(keys.tolist())
        for other, item in self._items.items():
            if other != number and item.keys is not None and item.keys.isdisjoint(mine.keys):
                later = self._items[max(other, number)]
                later.before.discard(min(other, number))

    def wait(self, number: int) -> None:
        """An item goes no further before it is its turn."""
        self._items[number].waits = True

    def end(self, number: int) -> None:
        """An item is done with."""
        self._begin(number)
        del self._items[number]
        for item in self._items.values():
            item.before.discard(number)

    def granted(self) -> list[int]:
        """Those that waited for their turn, which has come; each once."""
        found = [number for number, item in self._items.items() if item.waits and not item.before]
        for number in found:
            self._items[number].waits = False
        return found

    def _begin(self, number: int) -> None:
        """One that is heard of is begun, and so are all before it."""
        for each in range(self._begun, number + 1):
            self._items[each] = _Item(set(self._items))
        self._begun = max(self._begun, number + 1)


Item = TypeVar("Item")
Done = TypeVar("Done")
OnItem = Callable[[Item], Iterator[Done | Claim | Turn]]
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
    error of any of them, after all have been stopped, and StoreError where one was killed or can't
    be started. What `items` raises comes after all before it is done.
    """
    pool = Pool()
    failure: Exception | None = None
    try:
        pool.start(workers, begin)
        reading = iter(items)
        while True:
            try:
                item = next(reading)
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            yield from pool.results(lambda: bool(pool.ready))
            pool.send(item)
        pool.end()
        yield from pool.results(lambda: not pool.working)
    finally:
        pool.stop()
    if failure is not None:
        raise failure


class _Left(Exception):
    """The process that we work for has gone; what is written stays."""


def run(pipe: Pipe, begin: Any) -> None:
    """Works until nothing comes any more. begin: gives what is done with an item."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    be_a_program()
    try:
        with begin() as work:
            _say(pipe, "ready")
            while (message := _asked(pipe))[0] == "item":
                number, item = message[1]
                for done in work(item):
                    _report(pipe, number, done)
                _say(pipe, "ready", number)
        _say(pipe, "end")
    except _Left:
        return
    except Exception as error:
        with suppress(_Left):
            _say(pipe, "error", _portable(error))


def _report(pipe: Pipe, number: int, done: Any) -> None:
    if isinstance(done, Claim):
        _say(pipe, "claim", (number, done.keys))
    elif done is TURN:
        _say(pipe, "wait", number)
        _asked(pipe)
    else:
        _say(pipe, "done", done)


def _say(pipe: Pipe, kind: str, value: Any = None) -> None:
    try:
        pipe.send((kind, value))
    except (BrokenPipeError, ConnectionResetError):
        raise _Left from None


def _asked(pipe: Pipe) -> tuple[str, Any]:
    try:
        message: tuple[str, Any] = pipe.recv()
    except (EOFError, ConnectionResetError):
        raise _Left from None
    return message


def _portable(error: Exception) -> Exception:
    """An error as it can be sent, with where it came from if it is none of ours."""
    if isinstance(error, EsdedupError):
        return error
    error.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return StoreError(f"a worker process failed: {type(error).__name__}: {error}")
    return error
