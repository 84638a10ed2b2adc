"""Work in several processes, its results as they come."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any, TypeVar

from esdedup.exceptions import StoreError

Done = TypeVar("Done")


def in_processes(
    work: Callable[..., Iterator[Done]], arguments: Sequence[tuple[Any, ...]]
) -> Iterator[Done]:
    """What `work` yields for each tuple of arguments, one process for each, in the order it comes.

    The processes end when this one does, however that happens: each result is sent through a pipe,
    which breaks. Raises the first error of any of them, after all have been stopped, and StoreError
    where one was killed.
    """
    # Forked, they would hold the ends of each other's pipes.
    context = multiprocessing.get_context("spawn")
    pipes: dict[Pipe, Any] = {}
    try:
        for some in arguments:
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(sending, work, some), daemon=True)
            process.start()
            sending.close()
            pipes[receiving] = process
        open_pipes = list(pipes)
        while open_pipes:
            for ready in wait(open_pipes):
                assert isinstance(ready, Pipe)
                kind, value = _received(ready, pipes[ready])
                if kind == "error":
                    raise value
                if kind == "end":
                    open_pipes.remove(ready)
                else:
                    yield value
    finally:
        for pipe, process in pipes.items():
            pipe.close()
            process.terminate()
            process.join()


def _received(pipe: Pipe, process: Any) -> tuple[str, Any]:
    try:
        kind, value = pipe.recv()
    except EOFError:
        process.join()
        return "error", StoreError(
            f"a worker process ended with status {process.exitcode}; run this again to go on"
        )
    return kind, value


def _run(pipe: Pipe, work: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]) -> None:
    """In the worker's process."""
    try:
        for done in work(*arguments):
            pipe.send(("done", done))
        pipe.send(("end", None))
    except (BrokenPipeError, KeyboardInterrupt):
        # The one that we work for has gone; what is written stays.
        return
    except Exception as error:
        pipe.send(("error", error))
