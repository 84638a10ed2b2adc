"""What ends a command, or happens beside it, at a step that it shows or a message."""

import io
import itertools
from collections.abc import Callable

from esdedup.cli.surroundings import Surroundings


def at_step(title: str, then: Callable[[], object], call: int = 0) -> Surroundings:
    """Call a function at one call of a step, counted from 0. title: of the step."""
    calls = itertools.count()

    def on_step(name: str, done: int, total: int) -> None:
        if name == title and next(calls) == call:
            then()

    return Surroundings(on_step=on_step)


def interrupt() -> None:
    """End a command as Ctrl-C does."""
    raise KeyboardInterrupt


def killed_at(title: str, call: int = 0) -> Surroundings:
    """Interrupt a command at one call of a step, as `at_step`."""
    return at_step(title, interrupt, call)


def titles_into(titles: set[str]) -> Surroundings:
    """Collect the titles of the steps."""
    return Surroundings(on_step=lambda name, done, total: titles.add(name))


class Listener(io.StringIO):
    """Standard error that calls a function when some words are first written."""

    def __init__(self, words: str, then: Callable[[], object]) -> None:
        super().__init__()
        self._words, self._then = words, then
        self._is_called = False

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._words in text and not self._is_called:
            self._is_called = True
            self._then()
        return written
