"""Read documents from files: JSON lines, CSV, TSV, plain text, also compressed, and tables.

A record that can't be read becomes a BadRecord, and reading goes on after it.
"""

import csv
import io
import json
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from pathlib import PurePath
from types import NoneType
from typing import Literal, NoReturn, cast, get_args

import orjson

from esdedup.exceptions import EsdedupError, InputError, RecordError, UsageError, json_fault
from esdedup.models import Fields, grouped
from esdedup.records.columnar import BadRow, TableRows, check_columns, rows_in
from esdedup.records.csv_rows import has_whole_rows, rows_in_text
from esdedup.records.locations import SpooledPipe, look_up
from esdedup.records.pipes import is_pipe
from esdedup.records.record_columns import BadRecord as BadRecord
from esdedup.records.record_columns import ReadByColumns, RecordColumns, RowsOfColumns
from esdedup.records.record_columns import Record as Record
from esdedup.records.text_files import (
    COMPRESSED,
    LONGEST,
    STDIN,
    TruncatedLine,
    begins_with,
    lines_of,
    name_of,
    opened,
)
from esdedup.stores.json_text import after_blanks
from esdedup.stores.to_json import ENCODER, check_depth
from esdedup.tabular import TableFormat
from esdedup.text.characters import is_unicode

TextFormat = Literal["jsonl", "csv", "tsv", "text"]
Format = Literal[TextFormat, TableFormat, "file"]
"""The format of a file. "file": the whole file is the text of one document."""


@dataclass(frozen=True)
class Delimited:
    """The format of CSV files with another delimiter than a comma; other files are as without it.

    delimiter: one character.
    format: of all files, or None to go by their endings.

    Raises UsageError for another delimiter, and for a format other than CSV.
    """

    delimiter: str
    format: Format | None = None

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise UsageError(
                f"`delimiter` {self.delimiter!r}: use one character, such as ; or | or a tab"
            )
        if self.format not in (None, "csv"):
            raise UsageError(f"`delimiter` can't be combined with `format` {self.format}")

    @staticmethod
    def named(delimiter: str, format: Format | None = None) -> "Delimited":
        r"""Return the format by a delimiter as users name it: a tab also as \t, as in shells."""
        return Delimited("\t" if delimiter == r"\t" else delimiter, format)


@dataclass(frozen=True)
class ReadSizes:
    """How many records a chunk has, and how long a record can be.

    documents: maximum number of records of a chunk.
    characters: of a chunk of records in memory, about.
    bytes: of a chunk of a file, about.
    longest: characters of the longest line, or of the longest file that is one record or one array.
    """

    documents: int = 2_000
    characters: int = 8_000_000
    bytes: int = 1 << 20
    longest: int = LONGEST


SIZES = ReadSizes()
_LINES_AT_ONCE = 50
"""Lines of a chunk whose records are yielded one by one."""
_FORMATS: dict[str, Format] = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "text"},
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
}
_PLAIN = {str, int, bool, NoneType}
"""Types of values that `orjson` writes as ENCODER does, in a tenth of the time."""
_LEAST, _MOST = 1e-4, 1e16
"""Positive floats from the first to below the second, which `orjson` writes as ENCODER does. Beyond
these ENCODER writes an exponent of two digits, and `orjson` writes NaN as null."""
_DIGITS = bytes(ord("0") if chr(code) in "0123456789" else code for code in range(256))
"""Translates every digit to 0, so that long numbers are found by searching."""
_UNCLOSED = 4
"""Sizes of a chunk of a table after which a quote that is still open counts as a fault."""
_LINES_A_PART = 50
"""Of a chunk with a line that is not exact: the lines around it are left to `_object` in parts."""
_HEAD = 1_000
"""Characters of a file that is a bad record."""
_NEXT = re.compile(r"[^\s,]")
"""The beginning of the next element of an array, or its end."""
_STRING_OR_BLANKS = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|\s+')
"""A string of JSON, or blanks between values."""


@dataclass(frozen=True)
class Chunk:
    """Records of a part of a file, which are read on request, maybe by another process.

    records: returns the records.
    fields: names of all fields of a table's records, also those that are not read.
    """

    records: Callable[[], Iterable[Record | BadRecord]]
    fields: tuple[str, ...] = ()

    def columns(self, *, with_json: bool) -> RecordColumns | None:
        """Return the same records by columns; None if they have to be read one by one."""
        if not isinstance(self.records, ReadByColumns):
            return None
        return self.records.columns(with_json=with_json)


def format_of(path: str) -> Format:
    """Return the format by a file's ending. Raises UsageError for an unknown one.

    A pipe without a known ending has JSON lines.
    """
    if path == STDIN:
        return "jsonl"
    name = PurePath(name_of(path).lower())
    suffix = PurePath(name.stem).suffix if name.suffix in COMPRESSED else name.suffix
    if suffix not in _FORMATS and (isinstance(path, SpooledPipe) or is_pipe(path)):
        return "jsonl"
    if suffix not in _FORMATS:
        raise UsageError(
            f"{path}: unknown ending {suffix!r}; name the format: `format` jsonl, csv, tsv, text,"
            " parquet, arrow or file"
        )
    return _FORMATS[suffix]


def check_file(
    path: str,
    format: Format | None = None,
    encoding: str | None = None,
    columns: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the columns of a table; a file of another format is not opened, and has none.

    columns: those that the file must have. Raises UsageError if a file can't be read as requested,
    MissingExtra for a table without pyarrow.
    """
    format = format or format_of(path)
    if format not in get_args(TableFormat):
        if columns:
            raise UsageError(f"{path}: `column` requires Parquet or Arrow files")
        return ()
    if is_pipe(path):
        pipe = "standard input" if path == STDIN else path
        raise UsageError(f"{pipe} can't be Parquet or Arrow: name a file")
    if PurePath(name_of(path).lower()).suffix in COMPRESSED:
        raise UsageError(f"{path}: unpack it first; Parquet and Arrow files are packed within")
    if encoding is not None:
        raise UsageError(f"{path}: `encoding` requires text files")
    return check_columns(path, cast("TableFormat", format), columns)


def read_records(
    path: str,
    format: Format | Delimited | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    sizes: ReadSizes = SIZES,
) -> Iterator[Record | BadRecord]:
    """Yield the records of a file, or of standard input for "-".

    columns: of a table, the columns to read, None for all. The file may lack some of them.
    Raises UsageError if the file can't be opened, InputError if it breaks off.
    """
    kind = (format.format if isinstance(format, Delimited) else format) or format_of(path)
    if kind not in get_args(TableFormat):
        # A pipe may give one line after the other, and each is waited for.
        sizes = replace(sizes, documents=_LINES_AT_ONCE)
    for chunk in chunks_of_file(path, format, None, encoding, columns, sizes):
        yield from chunk.records()


def chunks_of_file(
    path: str,
    format: Format | Delimited | None = None,
    on_bytes: Callable[[int], None] | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    sizes: ReadSizes = SIZES,
) -> Iterator[Chunk]:
    """Yield the records of a file in chunks, with the arguments and errors of `read_records`.

    on_bytes: called with the number of bytes read from the file since the last call.
    """
    delimiter = ","
    if isinstance(format, Delimited):
        delimiter, format = format.delimiter, format.format
    format = format or format_of(path)
    if format == "parquet" or format == "arrow":
        fields, report = check_file(path, format, encoding), on_bytes or (lambda _: None)
        for tables in rows_in(path, format, columns, sizes.bytes, sizes.documents, report):
            yield Chunk(_RowsOfTables(name_of(path), tables), fields)
        return
    if format == "file":
        yield from chunks_of_files([path], format, on_bytes, encoding, sizes=sizes)
        return
    with opened(path, encoding) as (file, stream):
        position, seekable = 0, file.seekable()
        for chunk in _chunks_of_text(name_of(path), format, stream, sizes, delimiter):
            if on_bytes is not None and seekable:
                on_bytes(file.tell() - position)
                position = file.tell()
            yield chunk


def chunks_of_files(
    paths: Iterable[str],
    format: Format | Delimited | None = None,
    on_bytes: Callable[[int], None] | None = None,
    encoding: str | None = None,
    columns: Sequence[str] | None = None,
    sizes: ReadSizes = SIZES,
) -> Iterator[Chunk]:
    """Yield the records of files in chunks, as `chunks_of_file` does, small files in one chunk."""

    def size(path: str) -> int:
        # Standard input has no size, and a file that `_read_files` rejects may have none.
        located = look_up(path)
        return located.size or 0 if located else 0

    if format != "file":
        for path in paths:
            yield from chunks_of_file(path, format, on_bytes, encoding, columns, sizes)
        return
    for batch in grouped(paths, size, sizes.bytes, sizes.documents):
        if on_bytes is not None:
            on_bytes(sum(map(size, batch)))
        yield Chunk(partial(_read_files, batch, encoding, sizes.longest))


@dataclass(frozen=True)
class _RowsOfTables(ReadByColumns):
    """Consecutive rows of a table.

    name: of the file.
    tables: the rows.
    """

    name: str
    tables: Sequence[TableRows]

    def __call__(self) -> Iterator[Record | BadRecord]:
        for rows in self.tables:
            for number, row in enumerate(rows, rows.first):
                if isinstance(row, BadRow):
                    yield BadRecord(self.name, number, row.good_columns, row.reason)
                else:
                    yield _checked(self.name, number, row)

    def columns(self, *, with_json: bool) -> RecordColumns | None:
        parts = [rows.columns() for rows in self.tables]
        columns = {
            name: [*chain.from_iterable([part[name] for part in parts if part is not None])]
            for name in self.tables[0].names
        }
        if None in parts or not columns:
            return None
        sources, written = RowsOfColumns(columns), list[str]()
        if all(rows.is_plain for rows in self.tables):
            # Text of Arrow is valid, so that each row has a form in JSON.
            if with_json:
                written = [orjson.dumps(source).decode() for source in sources]
        else:
            try:
                written = [*map(_written, sources)]
            except RecordError:
                return None
        first = self.tables[0].first
        return RecordColumns(self.name, range(first, first + len(sources)), sources, written)


def _read_files(
    paths: Sequence[str], encoding: str | None, longest: int
) -> Iterator[Record | BadRecord]:
    """Yield each file as a record with its path as id; as a bad one if it can't be read."""
    for path in paths:
        name, text = name_of(path), ""
        try:
            with opened(path, encoding) as (_, stream):
                text = stream.read(longest + 1)
            if len(text) > longest:
                raise RecordError(_too_long(longest))
            source = {"text": text}
            yield Record(name, 1, source, name, _written(source))
        except EsdedupError as error:
            yield BadRecord(name, 1, text[:_HEAD], str(error).removeprefix(f"{path}: "))


def _too_long(longest: int) -> str:
    """Return the reason why a record of more characters is a bad one."""
    millions, characters = divmod(longest, 1_000_000)
    number = f"{longest:,}" if characters else f"{millions} million"
    return f"longer than {number} characters"


def _chunks_of_text(
    name: str, format: TextFormat, stream: io.TextIOWrapper, sizes: ReadSizes, delimiter: str
) -> Iterator[Chunk]:
    """Yield the records of an opened file in chunks. name: of the file, in records."""
    if format == "jsonl" and begins_with(stream, "["):
        records = _read_array(name, stream, sizes.longest)
        yield from chunks_of_records(records, replace(sizes, characters=sizes.bytes))
        return
    if format == "csv" or format == "tsv":
        yield from _chunks_of_rows(
            name, format, stream, sizes, "\t" if format == "tsv" else delimiter
        )
        return
    # A small compressed file may hold a billion empty lines.
    numbered_lines = (
        (number, line)
        for number, line in enumerate(lines_of(stream, sizes.longest), 1)
        if not line.isspace() or isinstance(line, TruncatedLine)
    )

    def size(numbered_line: tuple[int, str]) -> int:
        return len(numbered_line[1])

    for batch in grouped(numbered_lines, size, sizes.bytes, sizes.documents):
        numbers, lines = zip(*batch, strict=True)
        yield Chunk(_RecordLines(name, format, numbers, lines, sizes.longest))


def chunks_of_records(
    records: Iterable[Record | BadRecord],
    sizes: ReadSizes = SIZES,
    fields: tuple[str, ...] = (),
) -> Iterator[Chunk]:
    """Yield records in chunks of the sizes. fields: as of `Chunk`."""

    def weigh(record: Record | BadRecord) -> int:
        if isinstance(record, BadRecord):
            return len(record.raw)
        if record.json is not None:
            return len(record.json)
        return sum(len(value) for value in record.source.values() if isinstance(value, str))

    for batch in grouped(records, weigh, sizes.characters, sizes.documents):
        yield Chunk(partial(iter, batch), fields)


@dataclass(frozen=True)
class _RecordLines(ReadByColumns):
    """Lines that are not empty, each a record.

    name: of the file.
    format: of the lines.
    numbers: of the lines, from 1.
    lines: as in the file.
    longest: characters of a line that is not truncated.
    """

    name: str
    format: TextFormat
    numbers: Sequence[int]
    lines: Sequence[str]
    longest: int = LONGEST

    def __call__(self, *, together: bool = True) -> Iterator[Record | BadRecord]:
        """Yield the records.

        together: parse many lines at once, which needs a quarter of the time.
        """
        name, can_parse = self.name, together and self.format != "text"
        parsed = _parsed(self.lines) if can_parse else repeat(None, len(self.lines))
        for number, raw_line, source in zip(self.numbers, self.lines, parsed, strict=True):
            # Most lines are parsed exactly, and without an escape no half of a character can hide:
            # the line is its own JSON.
            if source is not None and "\\" not in raw_line:
                yield Record(name, number, source, None, raw_line.strip())
                continue
            line = raw_line.rstrip("\r\n")
            try:
                if isinstance(raw_line, TruncatedLine):
                    raise RecordError(
                        f"{_too_long(self.longest)}: only its beginning is kept here."
                        " Is a line feed missing?"
                    )
                if self.format == "text":
                    source = {"text": line}
                    json_text = _written(source)
                else:
                    source = _object(line) if source is None else source
                    json_text = line.strip()
                    if "\\u" in line:
                        # Escapes may hide half of a character, which this refuses.
                        _written(source)
                yield Record(name, number, source, None, json_text)
            except RecordError as error:
                readable = None if self.format == "text" else _readable(line)
                yield BadRecord(name, number, line, str(error), readable)

    def columns(self, *, with_json: bool) -> RecordColumns | None:
        if self.format == "text" or TruncatedLine in map(type, self.lines):
            return None
        parsed = _parsed(self.lines)
        sources = [source for source in parsed if source is not None]
        if len(sources) < len(parsed):
            return None
        # `orjson` refuses halves of characters, so that each line is its own JSON.
        written = [line.strip() for line in self.lines] if with_json else []
        return RecordColumns(self.name, self.numbers, sources, written)


def _parsed(lines: Sequence[str]) -> Sequence[Fields | None]:
    """Return the objects of lines of JSON; None for a line that is left to `_object`.

    `orjson` parses in a quarter of the time of `_object`, but reads two kinds of objects wrongly.
    All lines are parsed together, and in smaller parts only if one may be of these kinds:

    - An object that has a key twice. `orjson` drops one of them, so that the result has fewer
      quotes than the line: each string has two, and one for each quote in it, unless that is
      written as \\u0022.
    - An object with an integer beyond 64 bits, which becomes a float. It has at least 20 digits, or
      a sign and 19.
    """
    try:
        sources = [*map(orjson.loads, lines)]
        text, written = "".join(lines).encode(), orjson.dumps(sources)
        digits = text.translate(_DIGITS)
        are_objects = {*map(type, sources)} == {dict}
        has_keys_once = written.count(b'"') == text.count(b'"')
        hides_quotes = b"\\" in text and b"\\u0022" in text
        has_long_number = b"0" * 20 in digits or b"-" + b"0" * 19 in digits
        if are_objects and has_keys_once and not (hides_quotes or has_long_number):
            return sources
    except (ValueError, TypeError):
        pass  # Not valid, or nested too deeply for `orjson`.
    if len(lines) == 1:
        return [None]
    size = _LINES_A_PART if len(lines) > _LINES_A_PART else 1
    slices = (lines[start : start + size] for start in range(0, len(lines), size))
    return [*chain.from_iterable(map(_parsed, slices))]


def _readable(raw: str) -> Fields | None:
    """Return an object that Python's json module reads, of a repeated key the last value.

    Return None for other text.
    """
    try:
        # Python limits the digits of whole numbers, by default to 4,300, and at least to 640.
        source = json.loads(raw, parse_int=lambda text: int(text) if len(text) < 640 else text)
    except (ValueError, RecursionError):
        return None
    return source if isinstance(source, dict) else None


def _refuse_number(text: str) -> NoReturn:
    raise RecordError(f"the number {text} has no place in JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _with_keys_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object. Raise RecordError if it has a key twice, which servers refuse."""
    members = dict(pairs)
    if len(members) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise RecordError(f"the key {key!r} comes twice in an object")
    return members


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_number, parse_float=_finite, object_pairs_hook=_with_keys_once
)


def _object(raw: str) -> Fields:
    """Parse a JSON object. Raises RecordError for other text."""
    try:
        source = _DECODER.decode(raw)
        if not isinstance(source, dict):
            raise RecordError(_no_object(source))
        if "\\u" not in raw:
            check_unicode(raw)
            check_depth(raw, source)
    except json.JSONDecodeError as error:
        raise RecordError(f"{json_fault(error)} at character {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(json_fault(error)) from error
    return source


def _read_array(name: str, stream: io.TextIOWrapper, longest: int) -> Iterator[Record | BadRecord]:
    """Yield the elements of one JSON array, by number. Raises InputError if it is not valid."""
    text = stream.read(longest + 1)
    if len(text) > longest:
        raise InputError(
            f"{name}: an array {_too_long(longest)}: convert it to JSON lines, as jq -c '.[]' does"
        )
    try:
        try:
            elements = [*_elements(text)]
        except RecordError:
            json.loads(text)
            yield from _read_elements(name, text)
            return
    except json.JSONDecodeError as error:
        place = f"at line {error.lineno}, character {error.colno}"
        raise InputError(f"{name}: the array is {json_fault(error)} {place}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: in the array, {json_fault(error)}") from error
    for number, (source, start, end) in enumerate(elements, 1):
        raw = text[start:end]
        try:
            if not isinstance(source, dict):
                raise RecordError(_no_object(source))
            if "\\u" in raw:
                # Escapes may hide half of a character, which this refuses.
                _written(source)
            check_unicode(raw)
            check_depth(raw, source)
            yield Record(name, number, source, None, _in_one_line(raw))
        except RecordError as error:
            yield BadRecord(name, number, raw, str(error), _readable(raw))


def _elements(array: str) -> Iterator[tuple[object, int, int]]:
    """Yield each element of a JSON array, with where it begins and ends.

    Raises ValueError if the array is not valid, RecordError if an element has no form in a store.
    """
    try:
        position = after_blanks(array, array.index("[") + 1)
        is_open = array[position] != "]"
        while is_open:
            element, end = _DECODER.raw_decode(array, position)
            yield element, position, end
            position = after_blanks(array, end)
            if is_open := array[position] == ",":
                position = after_blanks(array, position + 1)
        is_valid = array[position] == "]" and not array[position + 1 :].strip(" \t\n\r")
    except IndexError:
        is_valid = False
    if not is_valid:
        _DECODER.decode(array)  # Raises the error of the place.


def _in_one_line(element: str) -> str:
    """Return an element of an array in one line: without blanks between values if it has several.

    All else stays as it came, also the digits of numbers.
    """
    return _STRING_OR_BLANKS.sub(r"\1", element) if "\n" in element else element


def elements_of(array: str) -> Iterator[tuple[int, int]]:
    """Yield where each element of a valid JSON array begins and ends."""
    decoder, end = json.JSONDecoder(), array.index("[") + 1
    while array[start := cast(re.Match[str], _NEXT.search(array, end)).start()] != "]":
        _, end = decoder.raw_decode(array, start)
        yield start, end


def _read_elements(name: str, array: str) -> Iterator[Record | BadRecord]:
    """Yield the elements of a valid JSON array, of which some have no form in a store."""
    for number, (start, end) in enumerate(elements_of(array), 1):
        raw = array[start:end]
        try:
            source = _object(raw)
            _written(source)
            yield Record(name, number, source, None, _in_one_line(raw))
        except RecordError as error:
            yield BadRecord(name, number, raw, str(error), _readable(raw))


def _chunks_of_rows(
    name: str, format: TextFormat, stream: io.TextIOWrapper, sizes: ReadSizes, delimiter: str
) -> Iterator[Chunk]:
    """Yield the records of a table in chunks: CSV or TSV, whose first row names the fields.

    Raises UsageError for a header that names a field twice, InputError for one that can't be read,
    and for quotes in a TSV that do not match.
    """
    lines = _LinesOfTable(stream, sizes.longest)
    rows = _rows(lines, format, delimiter, sizes.longest)
    if (header := _header(name, rows)) is None:
        return
    while part := lines.take(sizes.bytes, sizes.documents):
        first, text = lines.number - len(part) + 1, "".join(part)
        is_truncated = len(text) > sizes.longest or TruncatedLine in map(type, part)
        text = _with_line_feeds(text)
        if not text.strip("\n"):
            continue
        if not is_truncated and has_whole_rows(text, delimiter):
            yield Chunk(_WholeRows(name, header, delimiter, first, text))
        else:
            lines.put_back(part)
            records = _read_rows(name, format, header, lines, rows)
            yield from chunks_of_records(records, replace(sizes, characters=sizes.bytes))


def _with_line_feeds(text: str) -> str:
    """Return lines that end with a line feed alone."""
    if not text.endswith("\n"):
        text += "\n"
    while "\r\n" in text:
        text = text.replace("\r\n", "\n")
    return text


@dataclass(frozen=True)
class _Row:
    """A row of a table.

    line: the number of its first line, from 1.
    fields: of the row, none if it can't be read.
    raw: its lines, as in the file.
    fault: why it can't be read, or empty.
    """

    line: int
    fields: list[str]
    raw: str
    fault: str


def _rows(
    lines: "_LinesOfTable", format: TextFormat, delimiter: str, longest: int
) -> Iterator[_Row]:
    """Yield the rows of a table that are not empty, one by one."""
    csv.field_size_limit(longest)
    # Without strict, a quote that is never closed swallows the rest of the file.
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    while True:
        lines.of_row.clear()
        fields: list[str] = []
        fault = ""
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fault = _reason_of(error, format)
        if "field limit" in fault or TruncatedLine in map(type, lines.of_row):
            fault = f"{_too_long(longest)}. Is a line feed missing, or a quote not closed?"
        if fields or fault:
            yield _Row(lines.first, fields, "".join(lines.of_row), fault)


def _header(name: str, rows: Iterator[_Row]) -> list[str] | None:
    """Return the names of the fields, or None if there is no row."""
    if (row := next(rows, None)) is None:
        return None
    if row.fault:
        raise InputError(f"{name}: the first row, which names the fields, is {row.fault}")
    if repeated := sorted(column for column, count in Counter(row.fields).items() if count > 1):
        raise UsageError(f"{name}: the header names {repeated[0]!r} more than once")
    return row.fields


def _read_rows(
    name: str,
    format: TextFormat,
    header: Sequence[str],
    lines: "_LinesOfTable",
    rows: Iterator[_Row],
) -> Iterator[Record | BadRecord]:
    """Yield the records of the lines that were put back, one by one, up to the end of a row."""
    while lines.returned and (row := next(rows, None)) is not None:
        if row.fault and format == "tsv":
            # Some programs write fields with quotes in them unquoted: the rows after this one may
            # be parts of a field, or this one of several rows.
            advice = "quote fields as Python's csv module does, or convert the file to JSON lines"
            raise InputError(f"{name}, line {row.line}: {row.fault}: {advice}")
        if row.fault:
            yield BadRecord(name, row.line, row.raw, row.fault)
        else:
            yield _record_of_row(name, header, row.line, row.fields)


@dataclass(frozen=True)
class _WholeRows(ReadByColumns):
    """Rows of a text that `has_whole_rows`.

    name: of the file.
    header: the names of the fields.
    delimiter: between two fields.
    first: number of the first line, from 1.
    text: the rows.
    """

    name: str
    header: Sequence[str]
    delimiter: str
    first: int
    text: str

    def __call__(self) -> Iterator[Record | BadRecord]:
        for line, fields in zip(*rows_in_text(self.text, self.delimiter), strict=True):
            yield _record_of_row(self.name, self.header, self.first + line, fields)

    def columns(self, *, with_json: bool) -> RecordColumns | None:
        lines, rows = rows_in_text(self.text, self.delimiter)
        if {*map(len, rows)} != {len(self.header)} or not is_unicode(self.text):
            return None
        columns = zip(self.header, map(list, zip(*rows, strict=True)), strict=True)
        sources = RowsOfColumns(dict(columns))
        written = [orjson.dumps(source).decode() for source in sources] if with_json else []
        return RecordColumns(self.name, [self.first + line for line in lines], sources, written)


def _record_of_row(
    name: str, header: Sequence[str], line: int, fields: Sequence[str]
) -> Record | BadRecord:
    """Return a row as a record, a bad one if it has not as many fields as the header."""
    if len(fields) == len(header):
        source = dict(zip(header, fields, strict=True))
        try:
            return Record(name, line, source, None, orjson.dumps(source).decode())
        except TypeError:
            return _checked(name, line, source)  # It holds half of a surrogate pair.
    reason = f"{len(fields)} fields, but the header has {len(header)}"
    return BadRecord(name, line, json.dumps(fields), reason)


class _LinesOfTable:
    """The lines of a table, many at a time, or as the csv module reads them.

    returned: lines that were put back, to be read again.
    number: of the last line, from 1.
    of_row: the lines of the row that is read, as in the file. The caller clears it before each row.
    first: the number of the first of them.
    """

    def __init__(self, stream: io.TextIOWrapper, longest: int) -> None:
        self._lines = lines_of(stream, longest)
        self._error: Exception | None = None
        self.returned = deque[str]()
        self.number = 0
        self.of_row: list[str] = []
        self.first = 1

    def take(self, size: int, most: int) -> list[str]:
        """Return the next lines: about as many characters or lines, up to one with even quotes.

        No line may be put back. If the file breaks off, the lines before that are returned, and the
        error comes later.
        """
        if self._error is not None:
            raise self._error
        part: list[str] = []
        total = 0
        try:
            for line in self._lines:
                part.append(line)
                total += len(line)
                if total >= size or len(part) >= most:
                    break
            quotes = "".join(part).count('"')
            while quotes % 2 and total < _UNCLOSED * size and (line := next(self._lines, "")):
                part.append(line)
                total += len(line)
                quotes += line.count('"')
        except Exception as error:
            if not part:
                raise
            self._error = error
        self.number += len(part)
        return part

    def put_back(self, part: Sequence[str]) -> None:
        """Let lines that were taken be read again."""
        self.returned.extendleft(reversed(part))
        self.number -= len(part)

    def _next(self) -> str | None:
        """Return the next line, or None at the end."""
        if not self.returned and self._error is not None:
            raise self._error
        line = self.returned.popleft() if self.returned else next(self._lines, None)
        self.number += line is not None
        return line

    def __iter__(self) -> Iterator[str]:
        for line in iter(self._next, None):
            content = line.rstrip("\r\n")
            # Of an empty line between rows, the reader would make an empty row. Within quotes, it
            # is a part of a field.
            if content or self.of_row:
                if not self.of_row:
                    self.first = self.number
                self.of_row.append(line)
                yield content + "\n"


def _reason_of(error: csv.Error, format: TextFormat) -> str:
    """Return why a row can't be read."""
    fault = str(error)
    if "new-line character" in fault:
        fault = "lines end with CR alone: end them with LF"
    elif "unexpected end" in fault:
        fault = "a quote is never closed"
    return f"not valid {format.upper()}: {fault}"


def _checked(name: str, line: int, source: Fields) -> Record | BadRecord:
    """Return a record, or a bad one if it has no form in JSON."""
    try:
        return Record(name, line, source, None, _written(source))
    except RecordError as error:
        return BadRecord(name, line, json.dumps(source, ensure_ascii=False), str(error), source)


def _written(source: Mapping[str, object]) -> str:
    """Return the source as JSON in one line. Raises RecordError if it has no such form."""
    try:
        if _PLAIN.issuperset(map(type, source.values())) or _is_plain(source):
            return orjson.dumps(source).decode()
    except (TypeError, RecursionError):
        pass  # It refuses integers beyond 64 bits, halves of surrogate pairs, and many levels.
    try:
        written = ENCODER.encode(source)
    except ValueError as error:
        raise RecordError("the number NaN or Infinity has no place in JSON") from error
    check_unicode(written)
    check_depth(written, source)
    return written


def _is_plain(value: object) -> bool:
    """Return whether `orjson` writes a value as ENCODER does, or refuses it."""
    kind = type(value)
    if kind is float:
        return _LEAST <= abs(cast(float, value)) < _MOST or value == 0
    if kind is list:
        return all(map(_is_plain, cast("list[object]", value)))
    if kind is dict:
        fields = cast("Fields", value)
        return {str}.issuperset(map(type, fields)) and all(map(_is_plain, fields.values()))
    return kind in _PLAIN


def check_unicode(text: str) -> None:
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
                " `encoding`, such as latin-1 or gb18030"
            ) from None
        raise RecordError(f"\\u{point:04x} is half of a surrogate pair") from None


def _no_object(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return f"a JSON object is expected, not {names.get(type(value), 'a number')}"
