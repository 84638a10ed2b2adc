"""Reading documents from files: JSON lines, CSV, TSV and plain text, also compressed.

A record that can't be read is handed on as a BadRecord; the rest of the file goes on.

Files in chunks that can be read apart from each other, and records in batches.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Literal, NoReturn

import zstandard

from esdedup.exceptions import InputError, RecordError, UsageError

Format = Literal["jsonl", "csv", "tsv", "text"]
STDIN = "-"
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


@dataclass(frozen=True)
class Record:
    """A record of an input. file: its name without folders. line: where it begins, from 1."""

    file: str
    line: int
    source: Mapping[str, Any]


@dataclass(frozen=True)
class BadRecord:
    """A record that can't be used, as it was read, and why."""

    file: str
    line: int
    raw: str
    reason: str


def format_of(path: str) -> Format:
    """The format that a file's name says; standard input is taken for JSON lines.

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


def read_records(
    path: str, format: Format | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Record | BadRecord]:
    """The records of a file, or of standard input for "-".

    on_bytes: called with the number of bytes read from the file since the last call.
    Raises UsageError where the file can't be opened, InputError where it breaks off.
    """
    kind = format or format_of(path)
    name = name_of(path)
    with opened(path, on_bytes) as stream:
        if kind == "csv" or kind == "tsv":
            yield from read_rows(name, kind, stream)
        else:
            yield from read_lines(name, kind, stream)


def name_of(path: str) -> str:
    """What records call their file."""
    return "stdin" if path == STDIN else PurePath(path).name


def read_lines(
    name: str, format: Literal["jsonl", "text"], lines: Iterable[bytes], first: int = 1
) -> Iterator[Record | BadRecord]:
    """The records of lines, one in each that is not empty. first: the number of the first line."""
    numbered = _lines(lines, first)
    return _json_lines(name, numbered) if format == "jsonl" else _text_lines(name, numbered)


@contextmanager
def opened(path: str, on_bytes: Callable[[int], None] | None) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked.

    Raises UsageError where the file can't be opened, InputError where it breaks off.
    """
    try:
        raw = sys.stdin.buffer if path == STDIN else Path(path).open("rb")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    try:
        yield _unpacked(path, _Counted(raw, on_bytes) if on_bytes else raw)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"{path} can't be read to its end: {error}") from error
    finally:
        if path != STDIN:
            raw.close()


def _unpacked(path: str, raw: Any) -> Any:
    suffix = PurePath(path).suffix.lower()
    if isinstance(raw, io.RawIOBase):
        raw = io.BufferedReader(raw, 1 << 20)
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if suffix == ".zst":
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return io.BufferedReader(reader)
    return raw


class _Counted(io.RawIOBase):
    """A stream that tells how much was read from it."""

    def __init__(self, raw: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self._raw = raw
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self._on_bytes(len(data))
        return len(data)


def _lines(lines: Iterable[bytes], first: int = 1) -> Iterator[tuple[int, str]]:
    """Lines by number, without their ends; bytes that are no UTF-8 become lone surrogates."""
    for number, line in enumerate(lines, first):
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")
        yield number, text.rstrip("\r\n")


def _json_lines(name: str, lines: Iterable[tuple[int, str]]) -> Iterator[Record | BadRecord]:
    # To make one for each line takes as long as to read a short document.
    decoder = json.JSONDecoder(parse_constant=_refuse_number, parse_float=_finite)
    for number, line in lines:
        if not line.strip():
            continue
        try:
            source = decoder.decode(line)
            if not isinstance(source, dict):
                raise RecordError(f"a JSON object is expected, not {_json_name(source)}")
            if "\\u" in line or not line.isascii():
                _check_unicode(source)
        except (ValueError, RecursionError) as error:
            yield BadRecord(name, number, line, _json_reason(error))
        else:
            yield Record(name, number, source)


def _text_lines(name: str, lines: Iterable[tuple[int, str]]) -> Iterator[Record | BadRecord]:
    for number, line in lines:
        if line.strip():
            yield _checked(name, number, line, {"text": line})


def read_rows(
    name: str, format: Literal["csv", "tsv"], stream: BinaryIO
) -> Iterator[Record | BadRecord]:
    """The records of a table, whose first row names the fields."""
    consumed: list[str] = []
    reader = _row_reader(stream, "," if format == "csv" else "\t", consumed)
    header: list[str] | None = None
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
            header = _header(name, row)
        elif row:
            yield _row(name, first, header, row)


def _row_reader(stream: BinaryIO, delimiter: str, consumed: list[str]) -> Any:
    """A reader of rows that leaves the lines it takes in `consumed`."""
    # A document may be longer than the 128 KiB that the module takes by default.
    csv.field_size_limit(sys.maxsize)

    def lines() -> Iterator[str]:
        for _, line in _lines(stream):
            consumed.append(line + "\n")
            yield consumed[-1]

    if delimiter == "\t":
        # As registered with IANA, fields of tab-separated values are never quoted.
        return csv.reader(lines(), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    # Strict, because otherwise a quote that is never closed swallows the rest of the file.
    return csv.reader(lines(), delimiter=delimiter, strict=True)


def _header(name: str, row: list[str]) -> list[str]:
    repeated = {column for column in row if row.count(column) > 1}
    if repeated:
        raise UsageError(f"{name}: the header names {sorted(repeated)[0]!r} more than once")
    return row


def _row(name: str, line: int, header: list[str], row: list[str]) -> Record | BadRecord:
    if len(row) != len(header):
        reason = f"{len(row)} fields, but the header has {len(header)}"
        return BadRecord(name, line, json.dumps(row), reason)
    source = dict(zip(header, row, strict=True))
    return _checked(name, line, json.dumps(source, ensure_ascii=False), source)


def _checked(name: str, line: int, raw: str, source: dict[str, Any]) -> Record | BadRecord:
    try:
        _check_unicode(source)
    except RecordError as error:
        return BadRecord(name, line, raw, str(error))
    return Record(name, line, source)


def _check_unicode(source: Any) -> None:
    """Raises RecordError for text that no server would take: not UTF-8, or half a character."""
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


def _json_reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {error.msg} at character {error.colno}"
    return str(error)


def _json_name(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


BATCH_DOCUMENTS = 10_000
BATCH_CHARACTERS = 8_000_000
CHUNK_BYTES = 2 << 20
"""A chunk is as long, or has as many lines as a batch has documents."""


@dataclass(frozen=True)
class Lines:
    """Whole lines of a file, the first of which has this number, as they stand there."""

    file: str
    format: Literal["jsonl", "text"]
    first: int
    data: bytes

    def records(self) -> Iterator[Record | BadRecord]:
        """The records of these lines."""
        return read_lines(self.file, self.format, BytesIO(self.data), self.first)


@dataclass(frozen=True)
class Rows:
    """Records of a table, whose lines can't be told apart without those before."""

    read: list[Record | BadRecord]

    def records(self) -> Iterator[Record | BadRecord]:
        """These records."""
        return iter(self.read)


Chunk = Lines | Rows


def chunks_in(
    path: str, format: Format | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Chunk]:
    """The records of a file as `read_records` reads them, to be read elsewhere, some at a time.

    Raises UsageError where the file can't be opened, InputError where it breaks off.
    """
    kind = format or format_of(path)
    name = name_of(path)
    with opened(path, on_bytes) as stream:
        if kind == "csv" or kind == "tsv":
            for batch in batches(read_rows(name, kind, stream), CHUNK_BYTES):
                yield Rows(batch)
            return
        first, size = 1, 0
        lines: list[bytes] = []
        for line in stream:
            lines.append(line)
            size += len(line)
            if size >= CHUNK_BYTES or len(lines) >= BATCH_DOCUMENTS:
                yield Lines(name, kind, first, b"".join(lines))
                first, size, lines = first + len(lines), 0, []
        if lines:
            yield Lines(name, kind, first, b"".join(lines))


def batches(
    records: Iterable[Record | BadRecord], characters: int = BATCH_CHARACTERS
) -> Iterator[list[Record | BadRecord]]:
    """Records in batches of bounded size."""
    batch: list[Record | BadRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += _characters(record)
        if len(batch) >= BATCH_DOCUMENTS or size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _characters(record: Record | BadRecord) -> int:
    if isinstance(record, BadRecord):
        return len(record.raw)
    size = 0
    for value in record.source.values():
        if isinstance(value, str):
            size += len(value)
    return size
