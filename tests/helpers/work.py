"""Work for the worker processes of tests, which import no more than this."""

import multiprocessing
import os
import signal
import time
from typing import Any


def slow_square(number: int) -> int:
    """The first item takes longest."""
    time.sleep(0.5 if number == 0 else 0)
    return number * number


def count_down(number: int) -> tuple[int, int | None]:
    return number, number - 1 if number > 1 else None


class Odd(Exception):
    """Can't be made from its message."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left} and {right}")


def fails_in_worker(item: Any) -> Any:
    """Fail as an item says, or return it. This process, which may get any item, returns None."""
    if is_this_process():
        return None
    if isinstance(item, Exception):
        raise item
    if item == "odd":
        raise Odd("this", "that")
    if item == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def fails_in_this_process(item: Exception) -> None:
    """Raise an item; a worker process returns None."""
    if is_this_process():
        raise item


def is_this_process() -> bool:
    """Return whether the process that started the workers calls this."""
    return multiprocessing.parent_process() is None
