"""Reads tables: Parquet, and Arrow files and streams (`esdedup[parquet]`).

Only the requested columns are read, in pieces, so memory does not grow with the file. Values become
those of JSON: dates and times are ISO 8601, in UTC if they have a zone; durations are integers in
their unit; decimals of at most 15 digits are numbers, longer ones text, so that no digit is lost;
maps are objects; bytes are UTF-8 text. A row with another value is rejected alone.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from esdedup.exceptions import EsdedupError, InputError, RecordError, UsageError
from esdedup.records.streams import grouped
from esdedup.tabular import TableFormat, require_pyarrow

_ARROW_FILE = b"ARROW1"
"""The first bytes of an Arrow file. A stream begins with the size of its schema."""
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The last bytes of a stream. Its first four also begin a stream, since Arrow 0.15."""
_BUFFER_BYTES = 1 << 20
"""Bytes of a column to read at a time. Parquet's reader reads whole columns by default."""
_SLICE_BYTES = 32 << 20
_FEW_ROWS = 32
"""Rows of Parquet that are always read together. Reading one by one takes ten times as long."""
_Place = tuple[str, ...]
"""The name of a column, and those of the parts of structs that lead to a value within."""
_NAMES = 20
"""Names of columns in a message."""
_NOT_TEXT = "holds bytes that are not text in UTF-8"
_DIGITS_OF_A_FLOAT = 15
"""Decimal digits that any 64-bit float keeps (IEEE 754)."""


@dataclass(frozen=True)
class TableRows:
    """Some rows of a table, which can be sent to another process.

    data: the rows as an Arrow stream. first: number of the first row, from 1. read: bytes of the
    file read for them. names: all columns of the file, including those not read.
    """

    data: bytes
    first: int
    read: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class BadRow:
    """A row that can't be used. raw: its other columns as JSON."""

    raw: str
    reason: str


def check_columns(path: str, kind: TableFormat, columns: Sequence[str] = ()) -> None:
    """Raise UsageError if the file can't be opened, is not of the format, or lacks a column.

    Raises MissingExtra without pyarrow, and UsageError if two columns have one name.
    """
    with _opened(path, kind) as table:
        if missing := [name for name in columns if _place(table.schema, name) is None]:
            there = table.schema.names[:_NAMES] + ["..."] * (len(table.schema.names) > _NAMES)
            said = f"{path}: there is no column {missing[0]!r}"
            raise UsageError(f"{said}. There are: {', '.join(there) or 'none'}")


def rows_in(
    path: str, kind: TableFormat, columns: Sequence[str] | None, size: int, most: int
) -> Iterator[TableRows]:
    """Yield the rows of a file in pieces of at most `most` rows and about `size` bytes.

    columns: the columns to read, None for all; "a.b" is a part of the struct "a". Columns that the
    file lacks are ignored. Raises the errors of `check_columns`, and InputError if the file breaks
    off.
    """
    with _opened(path, kind) as table:
        first = 1
        chosen: list[_Place] | None = None
        if columns is not None:
            places = (_place(table.schema, column) for column in columns)
            chosen = [*dict.fromkeys(place for place in places if place)]
        parts = _parts(table, chosen, size, most)
        for group in grouped(parts, lambda part: (_weight(part[0]), len(part[0])), size, most):
            rows = group[0][0]
            if len(group) > 1:
                whole = require_pyarrow().Table.from_batches([batch for batch, _ in group])
                (rows,) = whole.combine_chunks().to_batches()
            read = int(sum(each for _, each in group))
            yield TableRows(_packed(rows), first, read, tuple(table.schema.names))
            first += len(rows)


def objects_of(rows: TableRows) -> Iterator[dict[str, Any] | BadRow]:
    """Yield the rows as objects, in order."""
    return _rows(_unpacked(rows.data))


@dataclass(frozen=True)
class _Table:
    """An open file. batches: yields its record batches, each with the bytes read for it."""

    schema: Any
    batches: Callable[[list[_Place] | None, int, int], Iterator[tuple[Any, float]]]


@contextmanager
def _opened(path: str, kind: TableFormat) -> Iterator[_Table]:
    require_pyarrow()
    try:
        file = Path(path).open("rb")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    with file:
        try:
            table = _parquet(file) if kind == "parquet" else _arrow(file)
            names = table.schema.names
        except _damage() as error:
            file.seek(0)
            if file.read(4) == b"FEA1":
                raise UsageError(f"{path}: it is Feather of version 1: write version 2") from error
            article = "a Parquet" if kind == "parquet" else "an Arrow"
            raise UsageError(f"{path} is not {article} file, or was cut: {_said(error)}") from error
        if repeated := Counter(names) - Counter(set(names)):
            raise UsageError(f"{path}: two columns have the name {next(iter(repeated))!r}")
        try:
            yield table
        except EsdedupError:
            raise
        except _damage() as error:
            raise InputError(f"{path} can't be read to its end: {_said(error)}") from error


def _damage() -> tuple[type[Exception], ...]:
    """Return the errors that pyarrow raises for a file that can't be read."""
    return OSError, EOFError, ValueError, MemoryError, require_pyarrow().ArrowException


def _said(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(". ")


def _parquet(file: BinaryIO) -> _Table:
    pa = require_pyarrow()

    opened = pa.parquet.ParquetFile(
        file, pre_buffer=False, buffer_size=_BUFFER_BYTES, page_checksum_verification=True
    )
    metadata, size_of_file = opened.metadata, _size_of(file)
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]

    def batches(places: list[_Place] | None, size: int, most: int) -> Iterator[tuple[Any, float]]:
        columns = None if places is None else [*map(".".join, places)]
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            # A few bytes may encode any number of equal values, such as zeros in lists.
            values = sum(
                group.column(at).num_values * max(8, leaf.length) for at, leaf in enumerate(leaves)
            )
            # Of all columns: pyarrow ends the process if the sizes of one column are damaged.
            whole = max(1, group.total_byte_size)
            rows = size * group.num_rows // max(whole, values)
            # Each row may refer to a text that is nearly as long as the row group.
            rows = max(1, min(rows, most, max(_FEW_ROWS, _SLICE_BYTES // whole)))
            for batch in opened.iter_batches(rows, [number], columns, use_threads=False):
                yield batch, size_of_file * len(batch) / metadata.num_rows

    return _Table(opened.schema_arrow, batches)


def _size_of(file: BinaryIO) -> int:
    """Return the size of a file, and seek to its beginning."""
    size = file.seek(0, 2)
    file.seek(0)
    return size


def _arrow(file: BinaryIO) -> _Table:
    pa = require_pyarrow()
    is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    size = _size_of(file)
    opened = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file)

    def batches(places: list[_Place] | None, *_: int) -> Iterator[tuple[Any, float]]:
        options = pa.ipc.IpcReadOptions(use_threads=False)
        if places:
            tops = {place[0] for place in places}
            options.included_fields = [*map(opened.schema.get_field_index, tops)]
        file.seek(0)
        if is_file:
            table = pa.ipc.open_file(file, options=options)
            for number in range(table.num_record_batches):
                yield _sound(table.get_batch(number)), size / table.num_record_batches
            return
        done = 0
        for batch in pa.ipc.open_stream(file, options=options):
            yield _sound(batch), file.tell() - done
            done = file.tell()
        if file.tell() < size:
            raise EOFError("there is more after the end of the stream")
        file.seek(0)
        is_marked = file.read(4) == _STREAM_END[:4]
        file.seek(-len(_STREAM_END), 2)
        # A writer that was killed between two batches leaves no mark.
        if is_marked and file.read() != _STREAM_END:
            raise EOFError("the mark of the end is missing, so rows may be missing too")

    return _Table(opened.schema, batches)


def _sound(batch: Any) -> Any:
    """Return a batch. Raise ArrowInvalid if a damaged file makes it refer to missing data.

    `objects_of` rejects rows with text that is not UTF-8, each alone.
    """
    for column in batch.columns:
        try:
            column.validate(full=True)
        except require_pyarrow().ArrowInvalid as error:
            if "UTF8" not in str(error):
                raise
    return batch


def _place(fields: Iterable[Any], path: str) -> _Place | None:
    """Return the place of a column, or of a part such as "a.b"; None if there is none."""
    types = require_pyarrow().types
    kinds = {field.name: field.type for field in fields}
    if path in kinds:
        return (path,)
    for cut, character in enumerate(path):
        kind = kinds.get(path[:cut]) if character == "." else None
        if kind is None or not types.is_nested(kind):
            continue
        # A list of structs, or a map, is read as a whole.
        inner = _place(kind, path[cut + 1 :]) if types.is_struct(kind) else ()
        if inner is not None:
            return (path[:cut], *inner)
    return None


def _chosen(batch: Any, places: list[_Place]) -> Any:
    """Return some columns of a batch. A part of a struct is named by its path."""
    pa = require_pyarrow()
    columns = [batch.column(top) for top, *_ in places]
    for at, (_, *path) in enumerate(places):
        columns[at] = pa.compute.struct_field(columns[at], path) if path else columns[at]
    names = [*map(".".join, places)]
    return pa.record_batch(columns, names) if names else batch.select([])


def _parts(
    table: _Table, places: list[_Place] | None, size: int, most: int
) -> Iterator[tuple[Any, float]]:
    """Yield the columns in parts of at most `most` rows, and about `size` bytes."""
    for batch, read in table.batches(places, size, most):
        chosen = batch if places is None else _chosen(batch, places)
        for rows in _cut(chosen, most, lambda rows: not rows.num_columns or _weight(rows) <= size):
            yield _plain(rows), read * len(rows) / len(batch)


def _weight(batch: Any) -> int:
    """Return the bytes of a batch. One without columns can't be joined with others."""
    return sum(map(_expanded, batch.columns)) if batch.num_columns else sys.maxsize


def _expanded(array: Any) -> int:
    """Return the bytes of an array, or more. A value counts for each row that refers to it."""
    pa = require_pyarrow()
    types, kind = pa.types, array.type
    if types.is_dictionary(kind):
        if types.is_primitive(kind.value_type):
            return len(array) * 16
        try:
            lengths = pa.compute.binary_length(array.dictionary).take(array.indices)
            return len(array) * 16 + int(pa.compute.sum(lengths).as_py() or 0)
        except pa.ArrowNotImplementedError:
            return len(array) * int(array.dictionary.nbytes)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        # A view has 16 bytes: its length is in the first four.
        lengths = np.frombuffer(array.buffers()[1], np.int32)[::4]
        return int(lengths[array.offset : array.offset + len(array)].sum(dtype=np.int64))
    if types.is_list_view(kind) or types.is_large_list_view(kind) or types.is_run_end_encoded(kind):
        return len(array) * int(array.values.nbytes)
    if types.is_struct(kind):
        return sum(map(_expanded, array.flatten()))
    if types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
        some = slice(array.offsets[0].as_py(), array.offsets[-1].as_py())
        return int(array.offsets.nbytes) + _expanded(array.values[some])
    return int(array.nbytes)


def _cut(batch: Any, most: int, fits: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield parts of a batch that have at most `most` rows and fit, or are one row."""
    if not len(batch):
        return
    if len(batch) == 1 or (len(batch) <= most and fits(batch)):
        yield batch
        return
    half = len(batch) // 2
    yield from _cut(batch[:half], most, fits)
    yield from _cut(batch[half:], most, fits)


def _plain(batch: Any) -> Any:
    """Return a batch whose columns refer to their own rows only."""
    pa = require_pyarrow()
    columns = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.dictionary_decode()
        elif pa.types.is_string_view(kind):
            column = column.cast(pa.large_string())
        elif pa.types.is_binary_view(kind):
            column = column.cast(pa.large_binary())
        columns.append(column)
    return pa.record_batch(columns, batch.schema.names) if columns else batch


def _packed(batch: Any) -> bytes:
    pa = require_pyarrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(data: bytes) -> Any:
    with require_pyarrow().ipc.open_stream(data) as stream:
        return stream.read_next_batch()


def _rows(batch: Any) -> Iterator[dict[str, Any] | BadRow]:
    """Yield rows. Bad rows are found by bisection."""
    names, number = batch.schema.names, len(batch)
    if not names:
        yield from ({} for _ in range(number))
        return
    try:
        batch.validate(full=True)
        columns = [_values(column) for column in batch.columns]
    except (ValueError, ArithmeticError, require_pyarrow().ArrowException):
        if number == 1:
            yield _bad_row(batch)
            return
        for half in (batch[: number // 2], batch[number // 2 :]):
            # A packed batch has no values of other rows, which may be the bad ones.
            yield from _rows(_unpacked(_packed(half)))
        return
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _bad_row(batch: Any) -> BadRow:
    good: dict[str, Any] = {}
    reasons = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
            (good[name],) = _values(column)
        except (ValueError, ArithmeticError, require_pyarrow().ArrowException) as error:
            reason = _NOT_TEXT if "UTF8" in str(error) else _said(error)
            reasons.append(f"the column {name!r} {reason}")
    return BadRow(json.dumps(good, ensure_ascii=False), "; ".join(reasons))


def _values(array: Any) -> list[Any]:
    """Return the values of an array as values of JSON.

    Raises RecordError or ArrowInvalid, which are ValueErrors, for a value without such a form.
    """
    pa = require_pyarrow()
    types, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return [None if value is None else str(value) for value in array.to_pylist()]
        return _values(array.storage)
    if types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if types.is_run_end_encoded(kind):
        return _values(pa.compute.run_end_decode(array))
    if types.is_struct(kind):
        return _objects(array)
    if types.is_map(kind):
        return _lists(array, _members, dict)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        # pyarrow's cast to lists loses the lists that share values.
        return [_values(each.values) if each.is_valid else None for each in array]
    if types.is_fixed_size_list(kind):
        array = array.cast(pa.large_list(kind.value_field))
        kind = array.type
    if types.is_list(kind) or types.is_large_list(kind):
        return _lists(array, lambda each, some: _values(each.values[some]), list)
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        return _times(array)
    if types.is_duration(kind):
        whole: list[Any] = array.cast(pa.int64()).to_pylist()
        return whole
    if types.is_decimal(kind):
        return _decimals(array)
    if types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        array = array.cast(pa.binary())
        kind = array.type
    if types.is_binary(kind) or types.is_large_binary(kind):
        array = array.cast(pa.large_string())
        if pa.compute.any(pa.compute.match_substring(array, "\0")).as_py():
            raise RecordError(_NOT_TEXT)
    elif types.is_interval(kind) and array.null_count < len(array):
        raise RecordError("is an interval, which has no form in JSON")
    values: list[Any] = array.to_pylist()
    return values


def _objects(array: Any) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [_values(column) for column in array.flatten()]
    rows = zip(*columns, strict=True) if columns else (() for _ in range(len(array)))
    objects = (dict(zip(names, row, strict=True)) for row in rows)
    valid = array.is_valid().to_pylist()
    return [each if there else None for each, there in zip(objects, valid, strict=True)]


def _lists(
    array: Any, values_in: Callable[[Any, slice], list[Any]], make: Callable[[list[Any]], Any]
) -> list[Any]:
    """Return the lists of an array, each made from a range of its values."""
    offsets = array.offsets.to_pylist()
    first = offsets[0]
    values = values_in(array, slice(first, offsets[-1]))
    ranges = zip(offsets[:-1], offsets[1:], array.is_valid().to_pylist(), strict=True)
    return [make(values[a - first : b - first]) if there else None for a, b, there in ranges]


def _members(array: Any, some: slice) -> list[tuple[str, Any]]:
    keys, values = _values(array.keys[some]), _values(array.items[some])
    return [*zip(map(str, keys), values, strict=True)]


def _times(array: Any) -> list[Any]:
    pa = require_pyarrow()
    kind, compute = array.type, pa.compute
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    if zoned:
        array = array.cast(pa.int64()).cast(pa.timestamp(kind.unit))
    text = array.cast(pa.string())
    if compute.any(compute.starts_with(text, "<")).as_py():
        raise RecordError("holds a time that is out of range")
    text = compute.replace_substring_regex(text, r"\.0+$", "")
    text = compute.replace_substring(text, " ", "T", max_replacements=1)
    if zoned:
        text = compute.binary_join_element_wise(text, "Z", "")
    values: list[Any] = text.to_pylist()
    return values


def _decimals(array: Any) -> list[Any]:
    kind = array.type
    form: Callable[[Any], Any] = lambda value: format(value, "f")  # noqa: E731
    if kind.scale <= 0:
        form = int
    elif kind.precision <= _DIGITS_OF_A_FLOAT:
        form = float
    return [None if value is None else form(value) for value in array.to_pylist()]
