"""Reads documents from files: JSON lines, CSV, TSV, plain text, also compressed, and tables.

A record that can't be read becomes a BadRecord, and reading goes on after it.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, BinaryIO, Literal, NamedTuple, NoReturn

from esdedup.exceptions import InputError, RecordError, UsageError
from esdedup.records.columnar import (
    BadRow,
    TableRows,
    check_columns,
    objects_of,
    rows_in,
)
from esdedup.records.streams import (
    COMPRESSED,
    MOST_BYTES,
    STDIN,
    Head,
    blocks_of_lines,
    grouped,
    lines_of,
    name_of,
    opened,
)
from esdedup.stores.to_json import ENCODER, json_fault
from esdedup.tabular import TableFormat

TextFormat = Literal["jsonl", "csv", "tsv", "text"]
Format = Literal[TextFormat, TableFormat]
BATCH_DOCUMENTS = 10_000
BATCH_CHARACTERS = 8_000_000
CHUNK_BYTES = 2 << 20
"""A chunk ends after about this many bytes, or after BATCH_DOCUMENTS lines."""

_ENDINGS: dict[Format, str] = {
    "jsonl": ".jsonl .ndjson .json",
    "csv": ".csv",
    "tsv": ".tsv .tab",
    "text": ".txt",
    "parquet": ".parquet .pq",
    "arrow": ".arrow .feather .ipc",
}
_FORMATS = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings.split()}
_TOO_LONG = (
    f"longer than {MOST_BYTES >> 20} MiB: only its beginning is kept here. Is a line feed missing?"
)
_TOO_LONG_ELEMENT = f"longer than {MOST_BYTES >> 20} MiB"
_TOO_LONG_ROW = f"longer than {MOST_BYTES >> 20} MiB. Is a quote not closed?"
_SPACES = re.compile("[ \\t\\r\\n]*")
_COLON = re.compile('"[ \\t\\r]*:')
OnBytes = Callable[[int], None]


class Record(NamedTuple):
    """A record of an input.

    file: path of the file as passed, with forward slashes. line: number of its first line,
    or of an element of a JSON array, from 1. spare_id: the id if the record has none of its own, or
    None for its place. json: the source as JSON in one line that every store takes as it is, or
    None if it must be written first.
    """

    file: str
    line: int
    source: Mapping[str, Any]
    spare_id: str | None = None
    json: str | None = None

    @property
    def place(self) -> str:
        """The path and the line: "news/a.txt:3"."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class BadRecord:
    """A record that can't be used. raw: the record as read. reason: why not."""

    file: str
    line: int
    raw: str
    reason: str


@dataclass(frozen=True)
class Chunk:
    """Records of a part of a file, which are read on request, maybe by another process.

    fields: names of all fields of a table's records, also those that are not read.
    """

    records: Callable[[], Iterable[Record | BadRecord]]
    fields: tuple[str, ...] = ()


def format_of(path: str) -> Format:
    """Return the format that a file's name says. Standard input is read as JSON lines.

    Raises UsageError for an unknown ending.
    """
    if path == STDIN:
        return "jsonl"
    name = PurePath(path.lower())
    suffix = PurePath(name.stem).suffix if name.suffix in COMPRESSED else name.suffix
    if suffix not in _FORMATS:
        raise UsageError(
            f"{path}: unknown ending {suffix!r}; name the format: --format jsonl, csv, tsv, text,"
            " parquet or arrow"
        )
    return _FORMATS[suffix]


def check_file(
    path: str,
    format: Format | None = None,
    encoding: str | None = None,
    columns: Sequence[str] = (),
) -> None:
    """Raise UsageError if a file can't be read as requested. Only tables are opened.

    columns: those that the file must have. Raises MissingExtra for a table without pyarrow.
    """
    kind = format or format_of(path)
    if kind == "parquet" or kind == "arrow":
        _check_table(path, encoding)
        check_columns(path, kind, columns)
    elif columns:
        raise UsageError(f"{path}: --column requires Parquet or Arrow files")


def _check_table(path: str, encoding: str | None) -> None:
    if path == STDIN:
        raise UsageError("standard input can't be Parquet or Arrow: name a file")
    if PurePath(path.lower()).suffix in COMPRESSED:
        raise UsageError(f"{path}: unpack it first; Parquet and Arrow files are packed within")
    if encoding is not None:
        raise UsageError(f"{path}: --encoding requires text files")


def read_records(
    path: str,
    format: Format | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[Record | BadRecord]:
    """Yield the records of a file, or of standard input for "-".

    columns: of a table, the columns to read, None for all. The file may lack some of them.
    Raises UsageError if the file can't be opened, InputError if it breaks off.
    """
    kind = format or format_of(path)
    if kind == "parquet" or kind == "arrow":
        for chunk in chunks_in(path, kind, None, encoding, columns, columns is None):
            yield from chunk.records()
        return
    with opened(path, encoding) as (_, stream):
        if kind == "text" or (kind == "jsonl" and not _is_array(stream)):
            yield from _read_lines(name_of(path), kind, lines_of(stream))
        else:
            yield from _read_whole(name_of(path), kind, stream)


def chunks_in(
    path: str,
    format: Format | None = None,
    on_bytes: OnBytes | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    as_json: bool = True,
) -> Iterator[Chunk]:
    """Yield the records of a file in chunks, with the errors of `read_records`.

    on_bytes: called with the number of bytes read from the file since the last call. encoding: as
    in `streams.opened`. columns: as in `read_records`. as_json: give the rows of a table as JSON
    too, which only a store needs; without, numbers that JSON lacks are let through.
    """
    kind = format or format_of(path)
    if kind == "parquet" or kind == "arrow":
        _check_table(path, encoding)
        for rows in rows_in(path, kind, columns, CHUNK_BYTES, BATCH_DOCUMENTS):
            if on_bytes is not None:
                on_bytes(rows.read)
            yield Chunk(partial(_read_table, name_of(path), rows, as_json), rows.names)
        return
    with opened(path, encoding) as (file, stream):
        done, seekable = 0, file.seekable()
        for chunk in _chunks(name_of(path), kind, stream):
            if on_bytes is not None and seekable:
                on_bytes(file.tell() - done)
                done = file.tell()
            yield chunk


def _chunks(name: str, kind: TextFormat, stream: io.BufferedReader) -> Iterator[Chunk]:
    if kind in ("csv", "tsv") or (kind == "jsonl" and _is_array(stream)):
        for some in batches(_read_whole(name, kind, stream), CHUNK_BYTES):
            yield Chunk(partial(list, some))
        return
    first = 1
    for block in blocks_of_lines(stream, CHUNK_BYTES, BATCH_DOCUMENTS):
        yield Chunk(partial(_read_block, name, kind, block, first))
        first += block.count(b"\n") + isinstance(block, Head)


def _read_whole(
    name: str, kind: TextFormat, stream: io.BufferedReader
) -> Iterator[Record | BadRecord]:
    """Yield records whose boundaries are only known from the beginning of the file."""
    return _read_array(name, stream) if kind == "jsonl" else _read_rows(name, kind, stream)


def batches(
    records: Iterable[Record | BadRecord], characters: int = BATCH_CHARACTERS
) -> Iterator[list[Record | BadRecord]]:
    """Yield records in batches of about `characters`, and at most BATCH_DOCUMENTS."""

    def weigh(record: Record | BadRecord) -> tuple[int, int]:
        if isinstance(record, BadRecord):
            return len(record.raw), 1
        return sum(len(value) for value in record.source.values() if isinstance(value, str)), 1

    return grouped(records, weigh, characters, BATCH_DOCUMENTS)


def _line(line: bytes, number: int) -> str:
    """Decode a line, without its end. Invalid UTF-8 becomes lone surrogates."""
    text = line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")
    return text.rstrip("\r\n")


def _read_lines(
    name: str, format: TextFormat, lines: Iterable[bytes], first: int = 1
) -> Iterator[Record | BadRecord]:
    """Yield the records of lines, leaving out empty ones. first: number of the first line."""
    # Making one for each line would take as long as reading a short document.
    decoder = _decoder()
    for number, given in enumerate(lines, first):
        line = _line(given, number)
        if isinstance(given, Head):
            yield BadRecord(name, number, line, _TOO_LONG)
        elif not line.strip():
            continue
        elif format == "text":
            yield _checked(name, number, {"text": line}, line)
        else:
            yield _object(name, number, line, decoder)


def _read_block(
    name: str, format: TextFormat, block: bytes, first: int
) -> Iterator[Record | BadRecord]:
    lines = [block] if isinstance(block, Head) else io.BytesIO(block)
    return _read_lines(name, format, lines, first)


def _read_table(name: str, rows: TableRows, as_json: bool) -> Iterator[Record | BadRecord]:
    for number, row in enumerate(objects_of(rows), rows.first):
        if isinstance(row, BadRow):
            yield BadRecord(name, number, row.raw, row.reason)
        else:
            yield _checked(name, number, row) if as_json else Record(name, number, row)


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=_refuse_number, parse_float=_finite)


def _object(name: str, number: int, raw: str, decoder: json.JSONDecoder) -> Record | BadRecord:
    """Return the record of a JSON object. raw: its text."""
    try:
        source = _decoded(raw, decoder)
        if not isinstance(source, dict):
            raise RecordError(f"a JSON object is expected, not {_json_name(source)}")
        # Escapes may hide half of a character. Servers refuse a key that comes twice.
        if "\\u" in raw or not _has_each_key_once(raw, source):
            return Record(name, number, source, None, _written(source))
        _check_unicode(raw)
    except json.JSONDecodeError as error:
        reason = f"{json_fault(error)} at character {error.colno}"
        return BadRecord(name, number, raw, reason)
    except (ValueError, RecursionError) as error:
        return BadRecord(name, number, raw, json_fault(error))
    return Record(name, number, source, None, raw)


def _decoded(raw: str, decoder: json.JSONDecoder) -> Any:
    """Return what `decoder.decode` returns, in half the time if no space is around the value."""
    try:
        value, end = decoder.raw_decode(raw)
    except json.JSONDecodeError:
        end = -1
    return value if end == len(raw) else decoder.decode(raw)


def _has_each_key_once(raw: str, source: dict[str, Any]) -> bool:
    """Return whether no object in a JSON object has a key twice. False if in doubt.

    raw: its text. If that has no more colons after quotes than there are keys, none comes twice.
    """
    if raw[0] != "{" or raw[-1] != "}" or "\n" in raw:
        return False
    keys = _keys_in(source)
    return raw.count(":") == keys or len(_COLON.findall(raw)) == keys


def _keys_in(value: dict[str, Any] | list[Any]) -> int:
    """Return the number of keys of all objects in a JSON value."""
    keys = 0
    if isinstance(value, dict):
        keys, value = len(value), list(value.values())
    for each in value:
        if isinstance(each, (dict, list)):
            keys += _keys_in(each)
    return keys


def _is_array(stream: io.BufferedReader) -> bool:
    """Return whether a stream begins with an array, and not with a line of JSON."""
    head = stream.peek(CHUNK_BYTES).removeprefix(codecs.BOM_UTF8)
    return head.lstrip()[:1] == b"["


def _read_array(name: str, stream: io.BufferedReader) -> Iterator[Record | BadRecord]:
    """Yield the elements of one JSON array. Their lines are their numbers.

    Raises InputError where the array is not valid JSON, as no further element can be found.
    """
    text = _ArrayText(stream)
    text.skip("[")
    decoder = _decoder()
    for number in itertools.count(1):
        if text.skip("]"):
            break
        if number > 1 and not text.skip(","):
            raise InputError(f"{name}: after element {number - 1} of the array: ',' is expected")
        try:
            raw = text.value()
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{name}: element {number} of the array is {json_fault(error)}. What follows it was"
                " not read"
            ) from error
        yield _object(name, number, raw, decoder)
    if text.next():
        raise InputError(f"{name}: there is more after the array: give one array, or lines of JSON")


class _ArrayText:
    """The text of a stream, of which a part is in memory."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._ended = False
        self._broken: Exception | None = None
        self._text = ""
        self._at = 0
        # It only finds the end of a value.
        self._decoder = json.JSONDecoder(parse_int=str, parse_float=str)

    def next(self) -> str:
        """Return the next character that is not a space, or nothing at the end."""
        while True:
            self._at = _SPACES.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read()

    def skip(self, character: str) -> bool:
        """Skip the next character if it is this one, and return whether it is."""
        found = self.next() == character
        self._at += found
        return found

    def value(self) -> str:
        """Return the text of the next JSON value. Raise ValueError if it is invalid or too long."""
        self.next()
        while True:
            try:
                _, end = self._decoder.raw_decode(self._text, self._at)
                # A number might go on.
                if end < len(self._text) or self._ended:
                    raw, self._at = self._text[self._at : end], end
                    return raw
            except ValueError:
                if self._ended:
                    raise
                if len(self._text) - self._at > MOST_BYTES:
                    raise ValueError(_TOO_LONG_ELEMENT) from None
            self._read()

    def _read(self) -> None:
        rest = self._text[self._at :]
        # As much again, so that a long value is not parsed again for each small part.
        size, block = max(CHUNK_BYTES, len(rest)), bytearray()
        if self._broken is not None:
            raise self._broken
        try:
            while len(block) < size and (more := self._stream.read1(size)):
                block += more
        except Exception as error:
            # It comes after all that was read.
            self._broken = error
        self._ended = not block and self._broken is None
        self._text, self._at = rest + self._utf8.decode(block, self._ended), 0


def _read_rows(name: str, format: TextFormat, stream: BinaryIO) -> Iterator[Record | BadRecord]:
    """Yield the records of a table. Its first row names the fields.

    Raises UsageError for a header that names a field twice, InputError for one that can't be read.
    """
    lines = _RowLines(stream)
    header: list[str] | None = None
    # A document may be longer than the 128 KiB that the module takes by default.
    csv.field_size_limit(sys.maxsize)
    if format == "tsv":
        # Fields of tab-separated values are never quoted (IANA, text/tab-separated-values).
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        # Without strict, a quote that is never closed swallows the rest of the file.
        reader = csv.reader(lines, strict=True)
    while True:
        first = lines.begin()
        try:
            row = next(reader)
        except StopIteration:
            return
        except (csv.Error, RecordError) as error:
            reason = str(error)
            if isinstance(error, csv.Error):
                lone = "new-line character" in reason
                what = "lines end with CR alone: end them with LF" if lone else reason
                reason = f"not valid {format.upper()}: {what}"
            if header is None:
                said = f"{name}: the first row, which names the fields, is {reason}"
                raise InputError(said) from error
            yield BadRecord(name, first, "".join(lines.row), reason)
            continue
        if header is None and row:
            header = row
            if repeated := sorted(column for column, count in Counter(row).items() if count > 1):
                raise UsageError(f"{name}: the header names {repeated[0]!r} more than once")
        elif header is not None and row and len(row) == len(header):
            source = dict(zip(header, row, strict=True))
            yield _checked(name, first, source)
        elif header is not None and row:
            reason = f"{len(row)} fields, but the header has {len(header)}"
            yield BadRecord(name, first, json.dumps(row), reason)


class _RowLines:
    """The lines of a table, for the `csv` module. number: of the last. row: those of this row."""

    def __init__(self, stream: BinaryIO) -> None:
        self.number = 0
        self.row: list[str] = []
        self._size = 0
        self._lines = lines_of(stream)

    def begin(self) -> int:
        """Begin a row; returns the number of its first line."""
        self.row, self._size = [], 0
        return self.number + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        given = next(self._lines)
        self.number += 1
        self.row.append(_line(given, self.number) + "\n")
        self._size += len(given)
        if isinstance(given, Head):
            raise RecordError(_TOO_LONG)
        if self._size > MOST_BYTES + 2:
            raise RecordError(_TOO_LONG_ROW)
        return self.row[-1]


def _checked(
    name: str, line: int, source: dict[str, Any], raw: str | None = None
) -> Record | BadRecord:
    """Return a record, or a bad one if its text is not valid Unicode. raw: as in `BadRecord`."""
    try:
        return Record(name, line, source, None, _written(source))
    except RecordError as error:
        raw = json.dumps(source, ensure_ascii=False) if raw is None else raw
        return BadRecord(name, line, raw, str(error))


def _written(source: Any) -> str:
    """Return the source as JSON in one line.

    Raises RecordError as `_check_unicode` does, and for a number that JSON lacks.
    """
    try:
        written = ENCODER.encode(source)
    except ValueError as error:
        raise RecordError("the number NaN or Infinity has no place in JSON") from error
    _check_unicode(written)
    return written


def _check_unicode(text: str) -> None:
    """Raise RecordError for text that no server takes: not UTF-8, or half of a character."""
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        point = ord(error.object[error.start])
        if 0xDC80 <= point <= 0xDCFF:
            raise RecordError(
                f"byte 0x{point - 0xDC00:02x} is not valid UTF-8; name another encoding by"
                " --encoding, such as latin-1 or gb18030"
            ) from None
        raise RecordError(f"\\u{point:04x} is half of a surrogate pair") from None


def _refuse_number(text: str) -> NoReturn:
    raise RecordError(f"the number {text} has no place in JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _json_name(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
