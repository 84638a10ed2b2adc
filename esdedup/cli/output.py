"""Tables, JSON lines, messages and progress.

Texts and ids of documents may hold anything: control characters are shown, not sent.
"""

import itertools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar

import typer

from esdedup import EsdedupError, Index, Limits, UsageError, admin
from esdedup.cli.command import CONTEXT
from esdedup.cli.options import check_limits
from esdedup.cli.setting_names import with_options
from esdedup.cli.steps import Step
from esdedup.cli.surroundings import surroundings
from esdedup.exceptions import InputError
from esdedup.results import Groups, Unattached
from esdedup.text.characters import count as count
from esdedup.text.characters import json_line as json_line
from esdedup.text.characters import message_of as message_of
from esdedup.text.characters import visible as visible

Kind = Literal["number", "key", "line", "text"]


class _Counts(Protocol):
    """Counts of a part of a job, which can be added."""

    def __add__(self, other: Self, /) -> Self: ...


_Report = TypeVar("_Report", bound=_Counts)
WIDTH_WITHOUT_TERMINAL = 80
_IDS = 20
_KEPT_WIDTH = 22
_LEAST_LINE = 10
_SNIPPET = 80
_SECONDS_IN_PLACE = 0.2
_CLEAR = "\x1b[2K"


def print_json(document: object) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json_line(document, plain=only_plain()))


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
    width_by_name = {}
    for column, (name, kind) in enumerate(columns):
        if kind in ("number", "key"):
            widths = [line.cell_len for row in cells for line in row[column].split()]
            width_by_name[name] = min(_KEPT_WIDTH, max([len(name), *widths]))
    # Each column has a border and a space on either side.
    fixed_width = sum(width_by_name.values()) + 3 * len(columns) + 1
    least = fixed_width + _LEAST_LINE * (len(columns) - len(width_by_name))
    if console.width < least:
        # A terminal wraps longer lines; truncated to its width, columns would be missing.
        console.width = least
    room = max(_LEAST_LINE, console.width - fixed_width)
    table = Table(show_header=any(name for name, _ in columns))
    for name, kind in columns:
        table.add_column(
            name,
            justify="right" if kind == "number" else "left",
            no_wrap=kind in ("number", "line"),
            overflow="ellipsis" if kind == "line" else "fold",
            min_width=width_by_name.get(name),
            max_width=room if kind == "line" else None,
        )
    for row in cells:
        table.add_row(*row)
    if title is not None:
        # Not as the table's own title, which would be wrapped to the table's width.
        console.print(Text(visible(title), style="bold"))
    console.print(table)


def print_facts(rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print a table of names and facts, without a head."""
    facts = list(rows)
    print_table([("", "text")] * len(facts[0]), facts, title)


def print_groups(groups: Groups, most: int, advice: str, title: str | None = None) -> None:
    """Print groups, if any, and how many of them are shown. advice: how to see all."""
    measure, rows = groups.measure, []
    for group in itertools.islice(groups, most):
        farthest = measure.text(measure.farthest([member.value for member in group.members]))
        ids = ", ".join(member.id for member in group.members[:_IDS])
        rows.append((f"{len(group.members):,}", farthest, group.representative, ids))
    columns: list[tuple[str, Kind]] = [("duplicates", "number"), (measure.farthest_words, "number")]
    columns += [("representative", "key"), ("ids of duplicates", "line")]
    if rows:
        print_table(columns, rows, title)
    message(shown(len(rows), len(groups), "group", advice))


def print_left_whole(
    groups: Sequence[Sequence[Sequence[object]]], total: int, names: Sequence[str], advice: str
) -> None:
    """Print the first groups of documents whose labels differ, and how many of them are shown.

    groups: of each document its label first, then other values. total: number of all groups.
    names: of the columns. advice: how to see all groups.
    """
    columns: list[tuple[str, Kind]] = [(name, "text") for name in names]
    rows = [
        ["\n".join(map(_on_one_line, values)) for values in zip(*group, strict=True)]
        for group in groups
    ]
    if rows:
        print_table(columns, rows, f"Left whole: {count(total, 'group')}")
    message(shown(len(rows), total, "group left whole", advice, "groups left whole"))


def _on_one_line(value: object) -> str:
    return "-" if value is None else " ".join(str(value).split())


def merged_summary(documents: int, values: Mapping[str, int]) -> str:
    """Return how many documents take values from their duplicates. values: numbers by field."""
    new_values = ", ".join(f"{number:,} of {path}" for path, number in values.items())
    verb = "takes" if documents == 1 else "take"
    return f"{count(documents, 'document')} {verb} values of duplicates: {new_values}"


def print_merged(rows: Sequence[tuple[str, str, object]], documents: int) -> None:
    """Print new values of documents, if any: the document, the field and its value.

    documents: number of all that take values.
    """
    cells = [
        (document, path, json.dumps(value, ensure_ascii=False)) for document, path, value in rows
    ]
    columns: list[tuple[str, Kind]] = [("document", "text"), ("field", "key")]
    if cells:
        title = f"New values of {count(documents, 'document')}"
        print_table([*columns, ("with values of its duplicates", "line")], cells, title)


def only_plain() -> bool:
    """Return True if standard output accepts ASCII only."""
    return not (sys.stdout.encoding or "utf-8").lower().startswith("utf")


def snippet(text: Any) -> str:
    """Return the beginning of a text, on one line, truncated by the width of its characters."""
    from rich.text import Text

    line = Text(visible(" ".join(text.split())) if isinstance(text, str) else "")
    line.truncate(_SNIPPET, overflow="ellipsis")
    return line.plain


def check_folder(setting: str, path: Path) -> None:
    """Raise UsageError if there is no folder to write a file to."""
    if path.is_dir():
        raise UsageError(f"{setting} {path}: Is a directory")
    if not path.parent.is_dir():
        raise UsageError(f"{setting} {path}: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise UsageError(f"{setting} {path}: it is not a plain file")


def write_page(path: Path, page: str) -> None:
    """Write a page that only its owner may read."""
    private = partial(os.open, mode=0o600)
    try:
        with open(path, "w", encoding="utf-8", errors="xmlcharrefreplace", opener=private) as file:
            file.write(page)
    except OSError as error:
        raise UsageError(f"--output {path}: {error.strerror}") from error


def message(*texts: str | None) -> None:
    """Print the messages that there are to standard error."""
    # Progress may be shown on this line.
    clear = _CLEAR if sys.stderr.isatty() else ""
    for text in texts:
        if text is not None:
            typer.echo(clear + message_of(with_options(text)), err=True)


def place_of(index: Index) -> dict[str, str]:
    """Return the name and the address of an index, for the report of a command."""
    return {"index": index.location.index, "address": index.address}


def print_counts(
    counts: Mapping[str, int],
    as_json: bool,
    noun: str = "Documents",
    title: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Print counts as a line of JSON, with its details, or as a table. noun: what is counted."""
    if as_json:
        print_json({**counts, **(details or {})})
        return
    rows = [(name.replace("_", " "), f"{number:,}") for name, number in counts.items()]
    print_table([(noun, "text"), ("", "number")], rows, title=title)


def shown(rows: int, total: int, noun: str, advice: str, nouns: str | None = None) -> str | None:
    """Return how many rows of how many a table shows, if not all. advice: how to see all."""
    if rows == total:
        return None
    return f"{rows:,} of {count(total, noun, nouns)} shown; {advice}"


def index_of(key: str, index: str | None) -> dict[str, str]:
    """Return the key of JSON with the index of a document; nothing if only one has its id."""
    return {} if index is None else {key: index}


def unattached_of(unattached: Unattached) -> dict[str, list[str]]:
    """Return the key of JSON with the indices that lack our fields; nothing if there are none."""
    return {"unattached": [*unattached.indices]} if unattached else {}


def repeated_ids(documents: int, place: str) -> str | None:
    """Return how many documents have an id that several places have, if any.

    place: what these are, "index" or "file".
    """
    if not documents:
        return None
    have = count(documents, "document has an id", "documents have ids")
    plural = {"index": "indices", "file": "files"}[place]
    return f"{have} that several {plural} have: shown as {place.upper()}/ID"


def in_brackets(words: str | None) -> str:
    """Return words to append to a result, or nothing if there are none."""
    return "" if words is None else f" ({words})"


def bound_of(groups: Groups) -> str | None:
    """Return in words which documents are in a group."""
    grouping = groups.grouping
    return "equal texts" if grouping.exact else groups.measure.bound_of_pairs(grouping.limits)


def capital(text: str) -> str:
    """Return the text with a capital letter."""
    return text[:1].upper() + text[1:]


def warn_before(index: Index, limits: Limits) -> None:
    """Warn of documents without tokens, and of the stop list. Raise StoreError without tokens."""
    check_limits(index.scheme, limits)
    message(*admin.check_ready(index, limits))


def require_answer(yes: bool, question: str) -> None:
    """Raise UsageError if a question can't be answered, unless `yes` is set."""
    # A service may have no standard input at all.
    if not yes and (sys.stdin is None or not sys.stdin.isatty()):
        raise UsageError(f"{question} Not a terminal: pass --yes to confirm")


def confirm(question: str, yes: bool) -> None:
    """Ask a question on a terminal, unless `yes` is set. End with status 1 if it is declined."""
    require_answer(yes, question)
    try:
        if yes or typer.confirm(message_of(with_options(question)), err=True):
            return
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    message("Nothing was changed")
    raise typer.Exit(1)


@contextmanager
def resumable(before: Callable[[], str], otherwise: str = "") -> Iterator[None]:
    """Report the counts so far, in words, and how to resume, if the work does not end."""
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
def totalling(
    total: _Report,
    title: str,
    most: int,
    settled: Callable[[_Report], int],
    in_words: Callable[[_Report], str],
    otherwise: str = "",
) -> Iterator[Callable[[_Report], None]]:
    """Show the progress of reports, and their total, in words, if the work does not end."""
    with Progress() as progress, resumable(lambda: in_words(total), otherwise):

        def on_report(report: _Report) -> None:
            nonlocal total
            total += report
            progress.step(title, min(settled(total), most), most)

        yield on_report


class Progress:
    """Shows on standard error how far a job is. total: the bytes of its first step, if known.

    A terminal shows the current step in place, and each step that is over on a line of its own.
    Otherwise each line is written, at intervals (`Surroundings.seconds_a_line`).
    """

    def __init__(self, title: str = "", total: int | None = None) -> None:
        self._surroundings = surroundings()
        self._seconds_a_line = self._surroundings.seconds_a_line
        self._in_place = sys.stderr.isatty()
        if CONTEXT.get().params.get("quiet"):
            self._seconds_a_line = math.inf
        elif self._in_place:
            self._seconds_a_line = _SECONDS_IN_PLACE
        self._step = self._begun(title)
        self._step.total_bytes = total

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self.end()
        elif self._in_place:
            sys.stderr.write(_CLEAR)

    def begin(self, title: str, total: int | None) -> None:
        """Begin a step of a job. total: its bytes, if known."""
        self.end()
        self._step = self._begun(title)
        self._step.total_bytes = total

    def step(self, title: str, settled: int, total: int) -> None:
        """Show the documents that a step of a job has processed, of how many."""
        is_repeated = self._step.is_over and settled < total
        if title != self._step.title or is_repeated:
            self.begin(title, None)
        self._step.total_documents = total
        self.show(settled)
        if 0 < total <= settled:
            self.end()

    def advance(self, steps: int) -> None:
        """Count bytes that are read."""
        self._step.bytes += steps

    def compare(self, candidates: int) -> None:
        """Count candidate pairs that are compared."""
        self._step.candidates = (self._step.candidates or 0) + candidates

    def count(self, documents: int) -> None:
        """Count and show documents that are done."""
        self.show(self._step.documents + documents)

    def show(self, documents: int) -> None:
        """Show the documents done, if it is time to."""
        step = self._step
        step.documents = documents
        total = step.total_bytes or step.total_documents or 0
        self._surroundings.on_step(step.title, documents, total)
        now = self._surroundings.clock()
        if step.is_over or now - step.shown < self._seconds_a_line:
            return
        step.shown, step.is_shown = now, True
        line = step.line(now)
        if self._in_place:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"{_CLEAR}{visible(line)[:width]}\r")
            sys.stderr.flush()
        else:
            message(line)

    def end(self) -> None:
        """End the step, and show what it did if it took long enough to be shown before."""
        if self._step.is_shown and not self._step.is_over:
            message(self._step.end_line(self._surroundings.clock()))
        self._step.is_over = True

    def say(self, text: str) -> None:
        """Print a sentence."""
        message(text)

    def _begun(self, title: str) -> Step:
        """Return a step that begins now."""
        now = self._surroundings.clock()
        return Step(title, now, shown=now)
