"""Work for the worker processes of tests, which import no more than this."""

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


def fails(item: Any) -> Any:
    if isinstance(item, Exception):
        raise item
    if item == "odd":
        raise Odd("this", "that")
    if item == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return item
