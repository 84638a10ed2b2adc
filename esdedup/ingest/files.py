"""Reads documents from files: JSON lines, CSV, TSV and plain text, also compressed.

A record that can't be read becomes a BadRecord, and reading goes on after it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Literal, NoReturn, TypeVar

import zstandard

from esdedup.exceptions import InputError, RecordError, UsageError

Format = Literal["jsonl", "csv", "tsv", "text"]
STDIN = "-"
BATCH_DOCUMENTS = 10_000
BATCH_CHARACTERS = 8_000_000
CHUNK_BYTES = 2 << 20
"""A chunk ends after this many bytes, or after BATCH_DOCUMENTS lines."""

_FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "text",
}
_COMPRESSED = (".gz", ".zst")
OnBytes = Callable[[int], None]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Record:
    """A record of an input.

    file: path of the file as it was given, with forward slashes. line: number of its first line,
    from 1. spare_id: the id if the record has none of its own, or None for its place.
    """

    file: str
    line: int
    source: Mapping[str, Any]
    spare_id: str | None = None

    @property
    def place(self) -> str:
        """The path and the line: "news/a.txt:3"."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class BadRecord:
    """A record that can't be used. raw: the record as it was read. reason: why not."""

    file: str
    line: int
    raw: str
    reason: str


@dataclass(frozen=True)
class Chunk:
    """Records of a part of a file, which are read when asked for, also by another process."""

    records: Callable[[], Iterable[Record | BadRecord]]


def format_of(path: str) -> Format:
    """Returns the format that a file's name says. Standard input is read as JSON lines.

    Raises UsageError for an unknown ending.
    """
    if path == STDIN:
        return "jsonl"
    name = PurePath(path.lower())
    suffix = PurePath(name.stem).suffix if name.suffix in _COMPRESSED else name.suffix
    if suffix not in _FORMATS:
        raise UsageError(
            f"{path}: unknown ending {suffix!r}; name the format: --format jsonl, csv, tsv or text"
        )
    return _FORMATS[suffix]


def read_records(path: str, format: Format | None = None) -> Iterator[Record | BadRecord]:
    """Yields the records of a file, or of standard input for "-".

    Raises UsageError if the file can't be opened, InputError if it breaks off.
    """
    kind = format or format_of(path)
    with _opened(path) as (name, _, stream):
        if kind == "csv" or kind == "tsv":
            yield from _read_rows(name, kind, stream)
        else:
            yield from _read_lines(name, kind, stream)


def chunks_in(
    path: str, format: Format | None = None, on_bytes: OnBytes | None = None
) -> Iterator[Chunk]:
    """Yields the records of a file in chunks, with the errors of `read_records`.

    on_bytes: called with the number of bytes read from the file since the last call.
    """
    kind = format or format_of(path)
    with _opened(path) as (name, file, stream):
        done, seekable = 0, file.seekable()
        for chunk in _chunks(name, kind, stream):
            if on_bytes is not None and seekable:
                on_bytes(file.tell() - done)
                done = file.tell()
            yield chunk


def _chunks(name: str, kind: Format, stream: BinaryIO) -> Iterator[Chunk]:
    if kind == "csv" or kind == "tsv":
        # The rows of a table can't be told apart without the lines before them.
        for rows in batches(_read_rows(name, kind, stream), CHUNK_BYTES):
            yield Chunk(partial(list, rows))
        return
    first = 1
    for lines in _grouped(stream, len, CHUNK_BYTES):
        yield Chunk(partial(_read_lines, name, kind, lines, first))
        first += len(lines)


def batches(
    records: Iterable[Record | BadRecord], characters: int = BATCH_CHARACTERS
) -> Iterator[list[Record | BadRecord]]:
    """Yields records in batches of about `characters`, and at most BATCH_DOCUMENTS."""

    def size_of(record: Record | BadRecord) -> int:
        if isinstance(record, BadRecord):
            return len(record.raw)
        return sum(len(value) for value in record.source.values() if isinstance(value, str))

    return _grouped(records, size_of, characters)


def _grouped(
    items: Iterable[Item], size_of: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Yields items in groups that end when they reach a size, or BATCH_DOCUMENTS."""
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= most or len(group) >= BATCH_DOCUMENTS:
            yield group
            group, size = [], 0
    if group:
        yield group


@contextmanager
def _opened(path: str) -> Iterator[tuple[str, BinaryIO, BinaryIO]]:
    """Gives the name by which records call a file, the file, and its bytes unpacked."""
    try:
        file: Any = sys.stdin.buffer if path == STDIN else Path(path).open("rb")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    suffix = PurePath(path).suffix.lower()
    stream = file
    try:
        if suffix == ".gz":
            stream = gzip.GzipFile(fileobj=file)
        elif suffix == ".zst":
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            stream = io.BufferedReader(reader)
        yield "stdin" if path == STDIN else _name(path), file, stream
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"{path} can't be read to its end: {error}") from error
    finally:
        if path != STDIN:
            file.close()


def _name(path: str) -> str:
    """A path as records have it: with forward slashes, and valid Unicode."""
    return os.fsencode(PurePath(path).as_posix()).decode("utf-8", "backslashreplace")


def _lines(lines: Iterable[bytes], first: int = 1) -> Iterator[tuple[int, str]]:
    """Yields numbers and lines without their ends. Invalid UTF-8 becomes lone surrogates."""
    for number, line in enumerate(lines, first):
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")
        yield number, text.rstrip("\r\n")


def _read_lines(
    name: str, format: Literal["jsonl", "text"], lines: Iterable[bytes], first: int = 1
) -> Iterator[Record | BadRecord]:
    """Yields the records of lines, leaving out empty ones. first: number of the first line."""
    # Making one for each line would take as long as reading a short document.
    decoder = json.JSONDecoder(parse_constant=_refuse_number, parse_float=_finite)
    for number, line in _lines(lines, first):
        if not line.strip():
            continue
        if format == "text":
            yield _checked(name, number, line, {"text": line})
            continue
        try:
            source = decoder.decode(line)
            if not isinstance(source, dict):
                raise RecordError(f"a JSON object is expected, not {_json_name(source)}")
            if "\\u" in line or not line.isascii():
                _check_unicode(source)
        except json.JSONDecodeError as error:
            reason = f"not valid JSON: {error.msg} at character {error.colno}"
            yield BadRecord(name, number, line, reason)
        except (ValueError, RecursionError) as error:
            yield BadRecord(name, number, line, str(error))
        else:
            yield Record(name, number, source)


def _read_rows(
    name: str, format: Literal["csv", "tsv"], stream: BinaryIO
) -> Iterator[Record | BadRecord]:
    """Yields the records of a table. Its first row names the fields."""
    consumed: list[str] = []
    header: list[str] | None = None

    def lines() -> Iterator[str]:
        for _, line in _lines(stream):
            consumed.append(line + "\n")
            yield consumed[-1]

    # A document may be longer than the 128 KiB that the module takes by default.
    csv.field_size_limit(sys.maxsize)
    if format == "tsv":
        # Fields of tab-separated values are never quoted (IANA, text/tab-separated-values).
        reader = csv.reader(lines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        # Without strict, a quote that is never closed swallows the rest of the file.
        reader = csv.reader(lines(), strict=True)
    while True:
        first = reader.line_num + 1
        consumed.clear()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadRecord(name, first, "".join(consumed), f"not valid CSV: {error}")
            continue
        if header is None:
            header = row
            if repeated := sorted(column for column in row if row.count(column) > 1):
                raise UsageError(f"{name}: the header names {repeated[0]!r} more than once")
        elif row and len(row) == len(header):
            source = dict(zip(header, row, strict=True))
            yield _checked(name, first, json.dumps(source, ensure_ascii=False), source)
        elif row:
            reason = f"{len(row)} fields, but the header has {len(header)}"
            yield BadRecord(name, first, json.dumps(row), reason)


def _checked(name: str, line: int, raw: str, source: dict[str, Any]) -> Record | BadRecord:
    try:
        _check_unicode(source)
    except RecordError as error:
        return BadRecord(name, line, raw, str(error))
    return Record(name, line, source)


def _check_unicode(source: Any) -> None:
    """Raises RecordError for text that no server takes: not UTF-8, or half of a character."""
    try:
        json.dumps(source, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        point = ord(error.object[error.start])
        if 0xDC80 <= point <= 0xDCFF:
            raise RecordError(f"byte 0x{point - 0xDC00:02x} is not valid UTF-8") from None
        raise RecordError(f"\\u{point:04x} is half of a surrogate pair") from None


def _refuse_number(text: str) -> NoReturn:
    raise RecordError(f"the number {text} has no place in JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _json_name(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
