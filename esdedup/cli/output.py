"""Tables for people, JSON lines for programs, messages to standard error.

Texts and ids of documents may hold anything: what a terminal would obey is shown, not sent.

Answers to similar: as JSON, as a table, and what they lack in words.

Progress of long work, on a terminal only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from esdedup.exceptions import UsageError
from esdedup.models import FIELD, Match, Result
from esdedup.search.limits import Limits
from esdedup.search.warnings import GOOD_RECALL, percent
from esdedup.stores.fields import value_at
from esdedup.text.characters import visible

Kind = Literal["number", "key", "line", "text"]
_KEPT_WIDTH = 40
_LEAST_LINE = 10
_SNIPPET = 80
WIDTH_WITHOUT_TERMINAL = 120
_ESCAPED = {point: f"\\u{point:04x}" for point in range(127, 160)}
"""What JSON would hold as it is; all of it stands in strings."""


def wants_json(choice: bool | None) -> bool:
    """Whether to print JSON: as chosen, else where standard output is no terminal."""
    return not sys.stdout.isatty() if choice is None else choice


def print_json(document: dict[str, Any]) -> None:
    """One line of JSON on standard output."""
    line = json.dumps(document, ensure_ascii=only_plain()).translate(_ESCAPED)
    sys.stdout.write(line + "\n")


def print_table(
    columns: list[tuple[str, Kind]], rows: Iterable[Iterable[str]], title: str | None = None
) -> None:
    """A table on standard output. columns: titles and kinds.

    A "number" and a "key" keep their width, a "line" is cut to the room there is, a "text" is
    wrapped.
    """
    # Texts may hold anything, also rich's own markup.
    cells = [[Text(visible(cell)) for cell in row] for row in rows]
    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    kept = {
        name: _kept_width(name, [row[at] for row in cells])
        for at, (name, kind) in enumerate(columns)
        if kind in ("number", "key")
    }
    # Each column has a border and a space on either side.
    taken = sum(kept.values()) + 3 * len(columns) + 1
    least = taken + _LEAST_LINE * (len(columns) - len(kept))
    if console.width < least:
        # A terminal wraps lines that are too long for it; cut to its width, columns would be lost.
        console.width = least
    room = max(_LEAST_LINE, console.width - taken)
    table = Table(show_header=any(name for name, _ in columns))
    for name, kind in columns:
        table.add_column(
            name,
            justify="right" if kind == "number" else "left",
            no_wrap=kind != "text",
            overflow="fold" if kind == "text" else "ellipsis",
            min_width=kept.get(name),
            max_width=room if kind == "line" else None,
        )
    for row in cells:
        table.add_row(*row)
    if title is not None:
        # Not as the table's own title, which would be wrapped to the table's width.
        console.print(Text(visible(title), style="bold"))
    console.print(table)


def only_plain() -> bool:
    """Whether standard output takes no other characters than plain ones."""
    return not (sys.stdout.encoding or "utf-8").lower().startswith("utf")


def print_text(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")


def _kept_width(name: str, cells: list[Text]) -> int:
    lines = [line.cell_len for cell in cells for line in cell.split()]
    return min(_KEPT_WIDTH, max([len(name), *lines]))


def snippet(text: Any) -> str:
    """The beginning of a text, on one line, cut by the room that its characters take."""
    line = Text(visible(" ".join(text.split())) if isinstance(text, str) else "")
    line.truncate(_SNIPPET, overflow="ellipsis")
    return line.plain


def check_page(option: str, path: Path) -> None:
    """Raises UsageError where a page can't be written, before the work that it takes."""
    if path.is_dir():
        raise UsageError(f"{option} {path}: Is a directory")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}")


def write_page(option: str, path: Path, page: str) -> None:
    """Writes a page of HTML. Raises UsageError, naming the option, where that can't be done."""
    try:
        path.write_text(page, "utf-8", "xmlcharrefreplace")
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error


def message(text: str) -> None:
    """A message to standard error."""
    typer.echo(visible(text), err=True)


def answer(result: Result, id: str | None, with_source: bool) -> dict[str, Any]:
    """An answer as JSON."""
    return {
        "query": id,
        "matches": [_match(match, with_source) for match in result.matches],
        "candidates": result.candidates,
        "truncated": result.truncated,
        "expected_recall": result.recall,
        "asked": result.asked,
        "stopped": result.stopped,
    }


def _match(match: Match, with_source: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"id": match.id}
    if match.similarity is not None:
        document["similarity"] = match.similarity
    else:
        document["distance"] = match.distance
    document["matched"] = match.matched
    if with_source:
        document["source"] = {name: value for name, value in match.source.items() if name != FIELD}
    return document


def show(result: Result, limits: Limits, text_field: str) -> None:
    """An answer as a table."""
    matches = result.matches
    if not matches:
        message("No similar documents")
        return
    by_distance = matches[0].similarity is None
    print_table(
        [
            ("distance" if by_distance else "similarity", "number"),
            ("id", "key"),
            ("text", "line"),
        ],
        [
            (
                str(match.distance) if by_distance else f"{match.similarity:.3f}",
                match.id,
                snippet(value_at(match.source, text_field)),
            )
            for match in matches
        ],
        title=_title(result, limits),
    )


def _title(result: Result, limits: Limits) -> str | None:
    if result.recall is None or result.recall < GOOD_RECALL:
        return None
    at = "as near as the last" if limits.threshold is None else f"at Jaccard {limits.threshold:g}"
    return f"Of documents {at} about {percent(result.recall)} are found"


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
