"""Work in several processes, its results as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from esdedup.ingest.pool import Pool
from esdedup.ingest.turns import Claim, Turn

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
