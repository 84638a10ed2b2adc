"""Processes that work for this one, and what is heard of them."""

from __future__ import annotations

import multiprocessing
import queue
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

from esdedup.exceptions import StoreError
from esdedup.ingest.program import interrupts_later
from esdedup.ingest.turns import Turns
from esdedup.ingest.worker import run


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
