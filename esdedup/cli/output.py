"""Tables for people, JSON lines for programs, messages to standard error.

Texts and ids of documents may hold anything: what a terminal would obey is shown, not sent.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from esdedup.exceptions import UsageError

Kind = Literal["number", "key", "line", "text"]

_KEPT_WIDTH = 40
_LEAST_LINE = 10

_SNIPPET = 80
WIDTH_WITHOUT_TERMINAL = 120

_SHOWN = {point: "\ufffd" for point in (*range(32), *range(127, 160)) if point not in (9, 10)}
_ESCAPED = {point: f"\\u{point:04x}" for point in range(127, 160)}
"""What JSON would hold as it is; all of it stands in strings."""


def wants_json(choice: bool | None) -> bool:
    """Whether to print JSON: as chosen, else where standard output is no terminal."""
    return not sys.stdout.isatty() if choice is None else choice


def print_json(document: dict[str, Any]) -> None:
    """One line of JSON on standard output."""
    line = json.dumps(document, ensure_ascii=only_plain()).translate(_ESCAPED)
    sys.stdout.write(line + "\n")


def visible(text: str) -> str:
    """The text with control characters shown, which a terminal would obey."""
    return text.translate(_SHOWN)


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
