"""Tables, JSON lines, messages and progress.

Texts and ids of documents may hold anything: control characters are shown, not sent.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import typer

from esdedup.cli.command import CONTEXT
from esdedup.cli.options import sketch_of
from esdedup.exceptions import EsdedupError, InputError, StoreError, UsageError
from esdedup.groups.constraints import JudgedCounts
from esdedup.index import Index
from esdedup.search.buckets import Capped
from esdedup.search.warnings import cut_buckets, lacking_recall, without_tokens
from esdedup.sketch.limits import Limits
from esdedup.stores.private_files import open_private
from esdedup.stores.stop_list import stopped_tokens
from esdedup.text.characters import JSON_ESCAPES, message_of, visible

Kind = Literal["number", "key", "line", "text"]
Advance = Callable[[int], None]
Documents = Callable[[int], None]
WIDTH_WITHOUT_TERMINAL = 80
_ENCODERS = {plain: json.JSONEncoder(ensure_ascii=plain) for plain in (False, True)}
_KEPT_WIDTH = 22
_LEAST_LINE = 10
_SNIPPET = 80
SECONDS_A_LINE = 30.0
"""Between lines of progress without a terminal."""


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as "1 duplicate". many: by default, with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def wants_json(choice: bool | None) -> bool:
    """Return the choice; without one, True unless standard output is a terminal."""
    return not sys.stdout.isatty() if choice is None else choice


def print_json(document: dict[str, Any]) -> None:
    """Print one line of JSON."""
    line = _ENCODERS[only_plain()].encode(document)
    if not line.isascii() or "\x7f" in line:
        line = line.translate(JSON_ESCAPES)
    sys.stdout.write(line + "\n")


def print_table(
    columns: list[tuple[str, Kind]], rows: Iterable[Iterable[str]], title: str | None = None
) -> None:
    """Print a table. columns: titles and kinds.

    A "number" keeps its width, a long "key" or "text" is wrapped, a "line" is truncated to fit.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Texts may hold anything, also rich's own markup.
    cells = [[Text(visible(cell)) for cell in row] for row in rows]
    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    kept = {}
    for at, (name, kind) in enumerate(columns):
        if kind in ("number", "key"):
            widths = [line.cell_len for row in cells for line in row[at].split()]
            kept[name] = min(_KEPT_WIDTH, max([len(name), *widths]))
    # Each column has a border and a space on either side.
    taken = sum(kept.values()) + 3 * len(columns) + 1
    least = taken + _LEAST_LINE * (len(columns) - len(kept))
    if console.width < least:
        # A terminal wraps longer lines; truncated to its width, columns would be missing.
        console.width = least
    room = max(_LEAST_LINE, console.width - taken)
    table = Table(show_header=any(name for name, _ in columns))
    for name, kind in columns:
        table.add_column(
            name,
            justify="right" if kind == "number" else "left",
            no_wrap=kind in ("number", "line"),
            overflow="ellipsis" if kind == "line" else "fold",
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
    """Return True if standard output accepts ASCII only."""
    return not (sys.stdout.encoding or "utf-8").lower().startswith("utf")


def snippet(text: Any) -> str:
    """Return the beginning of a text, on one line, truncated by the width of its characters."""
    from rich.text import Text

    line = Text(visible(" ".join(text.split())) if isinstance(text, str) else "")
    line.truncate(_SNIPPET, overflow="ellipsis")
    return line.plain


def check_page(option: str, path: Path) -> None:
    """Raise UsageError if a page can't be written, before any work."""
    if path.is_dir():
        raise UsageError(f"{option} {path}: Is a directory")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}")


def first_bytes(path: Path, size: int) -> bytes:
    """Return the beginning of a file; empty if the file is missing."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(size)


def write_page(option: str, path: Path, page: str) -> None:
    """Write a page of HTML, which only its owner may read if it is new.

    Raises UsageError, naming the option, if it can't be written, or if the file holds something
    else than such a page.
    """
    try:
        begin = first_bytes(path, 10)
        if begin and begin != page[:10].encode():
            raise UsageError(f"{option} {path}: it exists, and holds something else: name another")
        with open_private(path, "w", encoding="utf-8", errors="xmlcharrefreplace") as file:
            file.write(page)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error


def message(text: str) -> None:
    """Print a message to standard error."""
    typer.echo(message_of(text), err=True)


def place_of(index: Index) -> dict[str, str]:
    """Return the name and the address of an index, for the report of a command."""
    return {"index": index.place.index, "address": index.store.address}


def print_counts(
    counts: Mapping[str, int],
    as_json: bool,
    of: str = "Documents",
    title: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print counts as a line of JSON, with more entries, or as a table. of: noun of the counts."""
    if as_json:
        print_json({**counts, **(more or {})})
        return
    rows = [(name.replace("_", " "), f"{number:,}") for name, number in counts.items()]
    print_table([(of, "text"), ("", "number")], rows, title=title)


def shown(rows: int, of: int, noun: str, more: str, nouns: str | None = None) -> str | None:
    """Return how many rows of how many a table shows, if not all. more: how to see the rest."""
    return None if rows == of else f"{rows:,} of {count(of, noun, nouns)} shown; {more}"


def capital(text: str) -> str:
    """Return the text with a capital letter."""
    return text[:1].upper() + text[1:]


def warn(*sentences: str | None) -> None:
    """Print the warnings that there are to standard error."""
    for sentence in sentences:
        if sentence is not None:
            message(sentence)


def warn_before(index: Index, limits: Limits) -> None:
    """Warn of documents without tokens, and of the stop list, before a comparison.

    Raises UsageError for limits of another measure than the sketch's, StoreError if no document has
    tokens.
    """
    chosen = sketch_of(index.scheme, limits)
    found = index.statistics()
    if found.documents and not found.sketched + found.other:
        raise StoreError(
            f"none of the {found.documents:,} documents of {index.store.where} has tokens: run"
            f" `esdedup backfill -i {index.store.index}`"
        )
    warn(without_tokens(found))
    if stopped := stopped_tokens(index.meta.stop, chosen.key):
        message(
            f"{len(stopped):,} tokens are in the stop list of the index: documents that share only"
            " these are not compared, unless their texts are equal"
        )


def warn_after(
    recall: float | None, capped: Capped, limits: Limits, judged: JudgedCounts | None = None
) -> None:
    """Warn of pairs that can be missing, and report which judgements were respected."""
    if counted := str(judged or ""):
        message(f"Judged pairs: {counted}")
    warn(lacking_recall(recall, limits), cut_buckets(capped, limits.max_per_bucket))


def can_answer() -> bool:
    """Return whether a question can be answered. A service may have no standard input at all."""
    return sys.stdin is not None and sys.stdin.isatty()


def agreed(question: str, yes: bool) -> bool:
    """Ask a question on a terminal, and return the answer; True without asking if `yes` is set."""
    if yes:
        return True
    if not can_answer():
        message(f"{question} Not a terminal: pass --yes to confirm")
        return False
    try:
        return typer.confirm(message_of(question), err=True)
    except typer.Abort as error:
        raise KeyboardInterrupt from error


@contextmanager
def resumable(before: Callable[[], str], otherwise: str = "") -> Iterator[None]:
    """Report the counts so far, and how to resume, if the work fails or is interrupted.

    before: returns the counts in words. otherwise: another way than to resume.
    """
    advice = "Before this: {}. Run the same command again to resume{}"
    try:
        yield
    except (UsageError, InputError) as error:
        # The same command would fail again.
        raise type(error)(f"{error}\nBefore this: {before()}") from error
    except EsdedupError as error:
        raise type(error)(f"{error}\n{advice.format(before(), otherwise)}") from error
    except KeyboardInterrupt:
        message(f"Interrupted. {advice.format(before(), otherwise)}")
        raise


@contextmanager
def progress(
    title: str, total: int | None, of: str = "documents"
) -> Iterator[tuple[Advance, Documents]]:
    """Show on standard error how far a job is: a bar on a terminal, elsewhere a line now and then.

    --quiet shows nothing. total: the steps of the bar, or None if they are not known. of: noun of
    the count. Yields two functions: one that advances the bar by a number of steps, one that sets
    the number of documents done.
    """
    if CONTEXT.get().params.get("quiet"):
        yield (lambda _: None), (lambda _: None)
        return
    if not sys.stderr.isatty():
        lines = _Lines(title, total, of)
        yield lines.advance, lines.show
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[documents]:,} " + of + ", {task.fields[rate]:,.0f}/s"),
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


class _Lines:
    """Prints how far a job is, at most every 30 seconds."""

    def __init__(self, title: str, total: int | None, of: str) -> None:
        self._title, self._total, self._of = title, total, of
        self._begun = self._printed = time.monotonic()
        self._steps = 0

    def advance(self, steps: int) -> None:
        self._steps += steps

    def show(self, documents: int) -> None:
        """Print a line if one is due. documents: done so far."""
        now = time.monotonic()
        if now - self._printed < SECONDS_A_LINE:
            return
        self._printed, passed = now, now - self._begun
        line = f"{self._title}: {documents:,}"
        # The steps of a job may be bytes.
        if self._total is not None and self._steps == documents:
            line += f" of {self._total:,}"
        line += f" {self._of}, {documents / passed:,.0f}/s"
        if self._total and self._steps:
            left = passed * max(0, self._total / self._steps - 1)
            line += f", {min(1, self._steps / self._total):.0%}, about {_duration(left)} left"
        message(line)


def _duration(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{seconds / 3600:.1f} h"


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of each step. Yields a function of its name, done, and total."""
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
