"""Tables for people, JSON lines for programs, messages to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_SNIPPET = 60
_WIDTH_WITHOUT_TERMINAL = 120


def wants_json(choice: bool | None) -> bool:
    """Whether to print JSON: as chosen, else where standard output is no terminal."""
    return not sys.stdout.isatty() if choice is None else choice


def print_json(document: dict[str, Any]) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")


def print_table(
    columns: list[tuple[str, bool]], rows: Iterable[Iterable[str]], title: str | None = None
) -> None:
    """A table on standard output. columns: titles, and whether a column is of numbers."""
    table = Table(show_header=any(name for name, _ in columns))
    for name, numeric in columns:
        # A number is never cut or wrapped; texts share what room there is.
        table.add_column(
            name, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold"
        )
    for row in rows:
        # Texts may hold anything, also rich's own markup.
        table.add_row(*(Text(cell) for cell in row))
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    console = Console(width=width)
    if title is not None:
        # Not as the table's own title, which would be wrapped to the table's width.
        console.print(Text(title, style="bold"))
    console.print(table)


def snippet(text: Any) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split()) if isinstance(text, str) else ""
    return line if len(line) <= _SNIPPET else line[: _SNIPPET - 1] + "…"


def message(text: str) -> None:
    """A message to standard error."""
    typer.echo(text, err=True)
