"""Progress of long work, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Advance = Callable[[int], None]
Documents = Callable[[int], None]


@contextmanager
def progress(title: str, total: int | None) -> Iterator[tuple[Advance, Documents]]:
    """A bar on standard error with rate and time left; nothing where that is no terminal.

    total: the steps of the bar, or None where they are not known. Gives two functions: one that
    advances the bar by a number of steps, one that sets the number of documents done.
    """
    if not sys.stderr.isatty():
        yield (lambda _: None), (lambda _: None)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[documents]:,} documents, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=total, documents=0, rate=0.0)

        def done(documents: int) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = documents / elapsed if elapsed else 0.0
            bar.update(task, documents=documents, rate=rate)

        yield (lambda steps: bar.advance(task, steps)), done


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Bars, one after the other, of work in steps; nothing where standard error is no terminal.

    Gives a function of a step's name, the documents done, and those to do.
    """
    with ExitStack() as stack:
        current: tuple[str, Advance, Documents] | None = None
        reached = 0

        def on_step(name: str, done: int, total: int) -> None:
            nonlocal current, reached
            if current is None or current[0] != name:
                stack.close()
                current = (name, *stack.enter_context(progress(name, total)))
                reached = 0
            _, advance, documents = current
            advance(done - reached)
            documents(done)
            reached = done

        yield on_step
