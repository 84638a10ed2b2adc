"""Files of documents on the command line: their options, checks, and the dead-letter file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, TextIO

import typer

from esdedup.cli.options import SchemeOption, TextField, Workers
from esdedup.cli.output import Advance, count, message
from esdedup.exceptions import StoreError, UsageError
from esdedup.ingest.files import BadRecord, Chunk, Format, chunks_in, format_of
from esdedup.ingest.repeated_ids import RepeatedIds
from esdedup.ingest.streams import STDIN

_SHOWN = 5
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="JSON lines, CSV, TSV, or plain text with one text a line. May end in .gz or .zst."
        " - is standard input.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option("--format", show_default="by the file's ending", help="Format of the files."),
]
IdField = Annotated[
    str | None,
    typer.Option(show_default="id, else path:line", help="Field with the document's id."),
]
DeadLetterPath = Annotated[
    Path | None,
    typer.Option(
        "--dead-letter",
        show_default="INDEX.dead-letter.jsonl, or pairs.dead-letter.jsonl",
        help="File for records that can't be taken.",
    ),
]


def check_files(files: list[str], format: Format | None) -> None:
    """Raises UsageError if a file can't be read, before the first document is sent."""
    named: set[Path] = set()
    for file in files:
        if file == STDIN:
            continue
        if Path(file).is_dir() or not Path(file).exists():
            kind = "is a folder" if Path(file).is_dir() else "there is no such file"
            raise UsageError(f"{file}: {kind}")
        if format is None:
            format_of(file)
        if (path := Path(file).resolve()) in named:
            raise UsageError(f"{file}: name the same file only once")
        named.add(path)
    if files.count(STDIN) > 1:
        raise UsageError("standard input (-) can be read only once")


def total_bytes(files: list[str]) -> int | None:
    """Returns the size of the files, or None if standard input is among them."""
    return None if STDIN in files else sum(Path(file).stat().st_size for file in files)


def chunks_of(files: list[str], format: Format | None, advance: Advance) -> Iterator[Chunk]:
    """Yields the records of all files in chunks. advance: called with numbers of bytes read."""
    for file in files:
        yield from chunks_in(file, format, advance)


@dataclass(frozen=True)
class FileOptions:
    """The options of a command that takes files of documents."""

    format: FormatOption = None
    text_field: TextField = None
    id_field: IdField = None
    scheme: SchemeOption = None
    dead_letter: DeadLetterPath = None
    workers: Workers = 1

    def refuse(self) -> None:
        """Raises UsageError if an option is given, for a command without files."""
        for option in fields(self):
            if getattr(self, option.name) != option.default:
                raise UsageError(f"--{option.name.replace('_', '-')} goes with FILES")


def warn_of_repeated(ids: RepeatedIds) -> None:
    """Tells the number of records whose id an earlier record had, and the first of them."""
    if ids.first is not None:
        records = count(ids.count, "record has", "records have")
        message(f"{records} the id of an earlier record, and took its place: first {ids.first}")


class DeadLetterFile(ExitStack):
    """Appends bad records as JSON lines. The file is made when the first one comes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.count = 0
        self._file: TextIO | None = None

    def __call__(self, record: BadRecord) -> None:
        where = {"file": record.file, "line": record.line}
        line = {**where, "reason": record.reason, "record": record.raw}
        try:
            if self._file is None:
                opened = self.path.open("a", encoding="utf-8", errors="backslashreplace")
                self._file = self.enter_context(opened)
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise StoreError(f"dead-letter file {self.path}: {error.strerror}") from error
        self.count += 1
        if self.count <= _SHOWN:
            message(f"{record.file}:{record.line}: {record.reason}")
        elif self.count == _SHOWN + 1:
            message(f"... more in {self.path}")
