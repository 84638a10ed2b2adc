"""Show how far a call is: by a function of the program, or as lines on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from esdedup.exceptions import UsageError
from esdedup.runs.run import OnStep

Progress = OnStep | bool | None
"""A function that is called with the name of a step, the amount done, and the total (0 if unknown);
or True for lines on standard error."""
_CLEAR = "\r\033[K"


@dataclass
class ProgressLines:
    """Writes a line for each step. A terminal shows it from the beginning of the step.

    stream: that is written to.
    seconds_in_place: until a terminal shows the line again.
    seconds_a_line: until another line, if the stream is no terminal, such as a log.
    clock: returns seconds.
    """

    stream: TextIO
    seconds_in_place: float = 0.1
    seconds_a_line: float = 30.0
    clock: Callable[[], float] = time.monotonic
    _step: str | None = None
    _line: str | None = None
    _shown_at: float = 0.0

    def __call__(self, name: str, amount: int, total: int) -> None:
        """Show a step. total: 0 if unknown."""
        now = self.clock()
        if name != self._step:
            self.close()
            self._step, self._shown_at = name, now
        self._line = f"{name}: {amount:,}"
        if total:
            self._line += f" of {total:,} ({min(1.0, amount / total):.0%})"
        in_place = self.stream.isatty()
        if now - self._shown_at < (self.seconds_in_place if in_place else self.seconds_a_line):
            return
        self._shown_at = now
        self.stream.write(f"{_CLEAR}{self._line}" if in_place else f"{self._line}\n")
        self.stream.flush()

    def close(self) -> None:
        """Write the last line of the step."""
        if self._line is not None:
            self.stream.write(f"{_CLEAR if self.stream.isatty() else ''}{self._line}\n")
            self.stream.flush()
        self._step = self._line = None


@contextmanager
def shown(progress: Progress) -> Iterator[OnStep]:
    """Return a function that shows the progress of the block.

    Raises UsageError if it is neither a function nor True, False or None.
    """
    if progress is True:
        # A process without a console has no standard error.
        lines = ProgressLines(sys.stderr) if sys.stderr is not None else None
        try:
            yield lines or _ignore
        finally:
            if lines is not None:
                lines.close()
    elif progress is None or progress is False:
        yield _ignore
    elif callable(progress):
        yield progress
    else:
        raise UsageError(f"progress: use True or a function, not {type(progress).__name__}")


def _ignore(name: str, amount: int, total: int) -> None:
    """Ignore progress."""
