"""Read tables: Parquet, and Arrow files and streams (`esdedup[parquet]`).

Only the requested columns are read, in parts, so memory does not grow with the file. Values become
those of JSON (docs/reference/files.md). A row with another value is rejected alone.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, repeat
from types import MappingProxyType
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from esdedup.exceptions import EsdedupError, InputError, UsageError
from esdedup.models import Fields, grouped
from esdedup.records.locations import AHEAD, open_file
from esdedup.records.merge import NO_MERGE, Merge
from esdedup.stores.arrow_times import ArrowArray, ArrowType, has_nanoseconds_of_day, with_times
from esdedup.stores.plain_values import is_nan, plain_values
from esdedup.tabular import TableFormat, require_pyarrow
from esdedup.text.arrays import Mask, run_starts

_ARROW_FILE = b"ARROW1"
"""The first bytes of an Arrow file. A stream begins with the size of its schema."""
_ARROW_FILE_HEAD = 8
"""Bytes before the stream that an Arrow file is within."""
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The last bytes of a stream. Its first four also begin a stream, since Arrow 0.15."""
_FRAMES = {"lz4": b"\x04\x22\x4d\x18", "zstd": b"\x28\xb5\x2f\xfd"}
"""How packed buffers of a batch begin: RFC 8878, and the LZ4 frame format."""
_BUFFER_BYTES = 1 << 20
"""Bytes of a column to read at a time. Parquet's reader reads whole columns by default."""
_SLICE_BYTES = 32 << 20
_PART_BYTES = 8 << 20
"""Bytes of rows that are copied together."""
_ROWS_OF_PART = 1 << 14
_FEW_ROWS = 32
"""Rows of Parquet that are always read together. Reading one by one takes ten times as long."""
# pyarrow has no types.
_Table = Any
_Batch = Any
_Schema = Any
_Array = ArrowArray
_Type = ArrowType
_ParquetFile = Any
_Batches = Callable[[list[str], int, int], Iterator[tuple[_Batch, float]]]
"""A function that yields batches of columns, each with the bytes read for it.

It is called with the names of the columns, and about how many bytes and at most how many rows a
batch has.
"""
_Parts = Iterator[_Table]
"""The rows of a row group or batch, in order."""
_OpenWriter = Callable[[IO[bytes], _Schema], Any]
"""A function that opens a writer of tables."""
_HUGGINGFACE = b"huggingface"
"""The key of what `datasets` writes on the types of columns."""
NO_JSON = ValueError, ArithmeticError, LookupError, RuntimeError
"""Errors of values, also those of Arrow."""


@dataclass(frozen=True)
class BadRow:
    """A row with a value that has no form in JSON.

    good_columns: its other columns, as JSON.
    reason: why it can't be read.
    """

    good_columns: str
    reason: str


_Row = Fields | BadRow


class RetainedRows(NamedTuple):
    """The rows of a file that stay.

    path: of the file.
    stays: True for the rows that stay, shape (rows,).
    changed: by row, from 1, the new texts of some rows.
    new_values: by row the new values of columns of some rows, as JSON by name.
    """

    path: str
    stays: Mask
    changed: Mapping[int, str] = MappingProxyType({})
    new_values: Mapping[int, str] = MappingProxyType({})


def check_columns(path: str, kind: TableFormat, columns: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the columns of a file. Raises MissingExtra without pyarrow.

    Raises UsageError if the file can't be opened, is not of the format, lacks one of `columns`, or
    has two columns of one name.
    """
    with _opened(path, kind) as (_, schema, _):
        for name in columns:
            if _column(schema, name) is None:
                listed = ", ".join(schema.names[:20]) + ", ..." * (len(schema.names) > 20)
                raise UsageError(
                    f"{path}: there is no column {name!r}. There are: {listed or 'none'}"
                )
        return tuple(schema.names)


@dataclass(frozen=True)
class TableRows:
    """Consecutive rows of a table in their columns, which another process may convert.

    path: of the table.
    first: the number of the first row, from 1.
    batch: the columns.
    """

    path: str
    first: int
    batch: _Batch

    def __iter__(self) -> Iterator[_Row]:
        """Yield the rows, converted. Raises InputError if the file is damaged."""
        with _reporting_damage(self.path):
            yield from rows_of(self.batch)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        names: list[str] = self.batch.schema.names
        return names

    @property
    def is_plain(self) -> bool:
        """Whether all values are text, whole numbers, or true or false, of which JSON has any."""
        return all(map(_is_plain, self.batch.schema.types))

    def columns(self) -> dict[str, list[object]] | None:
        """Return the values by column; None if one has no form in JSON."""
        try:
            with _reporting_damage(self.path):
                return dict(zip(self.names, map(values_of, self.batch.columns), strict=True))
        except (*NO_JSON, InputError):
            return None

    def __reduce__(self) -> tuple[object, ...]:
        # pyarrow pickles the whole buffers of which a batch is a part.
        sink = require_pyarrow().BufferOutputStream()
        with require_pyarrow().ipc.new_stream(sink, self.batch.schema) as stream:
            stream.write_batch(self.batch)
        return _rows_of_stream, (self.path, self.first, sink.getvalue().to_pybytes())


def _rows_of_stream(path: str, first: int, stream: bytes) -> TableRows:
    """Return rows that were pickled."""
    return TableRows(path, first, require_pyarrow().ipc.open_stream(stream).read_next_batch())


def rows_in(
    path: str,
    kind: TableFormat,
    columns: Sequence[str] | None,
    size: int,
    most: int,
    on_bytes: Callable[[int], None],
) -> Iterator[list[TableRows]]:
    """Yield the rows of a file in parts of at most `most` rows and about `size` bytes.

    columns: the columns to read, None for all; "a.b" is in the column "a". Columns that the file
        lacks are ignored.
    on_bytes: called with the number of bytes read since the last call.

    Raises the errors of `check_columns`, and InputError if the file breaks off.
    """

    def weigh(rows: TableRows) -> int:
        """Return the bytes of rows, more for many short ones, so that a part has few enough."""
        return max(_bytes_of(rows.batch), -(-len(rows.batch) * size // most))

    return grouped(_slices(path, kind, columns, size, most, on_bytes), weigh, size, most)


def _slices(
    path: str,
    kind: TableFormat,
    columns: Sequence[str] | None,
    size: int,
    most: int,
    on_bytes: Callable[[int], None],
) -> Iterator[TableRows]:
    """Yield the rows of a file as it has them, in slices of the size; arguments of `rows_in`."""
    with _opened(path, kind) as (_, schema, batches):
        names = schema.names
        if columns is not None:
            column_names = (_column(schema, column) for column in columns)
            names = [*dict.fromkeys(name for name in column_names if name is not None)]
        first = 1
        for batch, read in batches(names, size, most):
            batch = batch.select(names)
            for column in batch.columns:
                try:
                    # A damaged file may make it refer to missing data.
                    column.validate(full=True)
                except require_pyarrow().ArrowInvalid as error:
                    # `_row` rejects rows with text that is not UTF-8, each alone.
                    if "UTF8" not in str(error):
                        raise
            # Batches of Parquet have about this size already, and are not halved for little more.
            for part in _parts(batch, size if kind == "arrow" else 2 * size, most):
                yield TableRows(path, first, _decoded(part))
                first += len(part)
            on_bytes(int(read))


def _parts(batch: _Batch, size: int, most: int) -> Iterator[_Batch]:
    """Yield a batch in slices of at most `most` rows and `size` bytes, or one row."""
    if len(batch) <= most and (len(batch) < 2 or _bytes_of(batch) <= size):
        if len(batch):
            yield batch
        return
    half = len(batch) // 2
    yield from _parts(batch[:half], size, most)
    yield from _parts(batch[half:], size, most)


def _bytes_of(batch: _Batch) -> int:
    """Return how many bytes the values of a batch have at most, if no row shares one."""
    return sum(map(_bytes_of_values, batch.columns))


def _bytes_of_values(array: _Array) -> int:
    pa = require_pyarrow()
    if _is_coded_text(array.type):
        lengths = pa.compute.binary_length(array.dictionary).take(array.indices)
        return int(array.indices.nbytes + (pa.compute.sum(lengths).as_py() or 0))
    # Each row may refer to a value that is as long as the array.
    return int(array.nbytes) * (len(array) if _shares_values(array.type) else 1)


def _is_coded_text(kind: _Type) -> bool:
    """Return whether a type is that of texts of which equal ones are stored once."""
    types = require_pyarrow().types
    texts = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    return bool(types.is_dictionary(kind) and any(is_text(kind.value_type) for is_text in texts))


def _shares_values(kind: _Type) -> bool:
    """Return whether several rows of a type may refer to one value."""
    types = require_pyarrow().types
    shares = (
        types.is_dictionary,
        types.is_run_end_encoded,
        types.is_string_view,
        types.is_binary_view,
        types.is_list_view,
        types.is_large_list_view,
    )
    if any(is_kind(kind) for is_kind in shares):
        return True
    kind = getattr(kind, "storage_type", kind)
    return any(_shares_values(kind.field(number).type) for number in range(kind.num_fields))


def _is_plain(kind: _Type) -> bool:
    """Return whether any value of a type is one of JSON's."""
    types = require_pyarrow().types
    plain = types.is_string, types.is_large_string, types.is_integer, types.is_boolean
    return any(is_kind(kind) for is_kind in plain)


def _is_bytes(kind: _Type) -> bool:
    """Return whether the values of a type are bytes."""
    types = require_pyarrow().types
    of_bytes = (
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
    )
    return any(is_kind(kind) for is_kind in of_bytes)


def _decoded(batch: _Batch) -> _Batch:
    """Return a batch whose columns hold each text of a row apart."""
    for position, column in enumerate(batch.columns):
        if _is_coded_text(column.type):
            batch = batch.set_column(
                position, batch.schema.names[position], column.dictionary_decode()
            )
    return batch


def copy_rows(
    sources: Sequence[RetainedRows],
    kind: TableFormat,
    out: IO[bytes],
    field: str = "",
    merge: Merge = NO_MERGE,
) -> None:
    """Write the rows that stay of some files as one file of the same kind.

    The result has the first file's schema with its metadata, its compression and, of Parquet, its
    choice of columns with a dictionary. A row group or batch stays one unless it becomes empty; its
    rows that stay are in memory together.

    field: the column of the texts that change.
    merge: the columns that rows take values for; those that they collect become lists.
    Raises UsageError if a file has other columns, InputError if it can't be read or has other rows.
    """
    writer, first_schema = None, None
    with ExitStack() as written:
        for source in sources:
            path, stays = source.path, source.stays
            with _opened(path, kind) as (file, schema, _):
                if first_schema is not None and not schema.equals(first_schema):
                    raise UsageError(f"{path}: its columns are not those of the first file")
                groups, open_writer = (_row_groups if kind == "parquet" else _arrow_batches)(file)
                new_schema = schema_with_lists(path, schema, kind, merge)
                writer = writer or written.enter_context(open_writer(out, new_schema))
                first_schema, end = schema, 0
                for tables in groups:
                    retained = []
                    for table in tables:
                        start, end = end, end + len(table)
                        table_stays = stays[start:end]
                        if source.changed:
                            table = _with_texts(path, table, field, source.changed, start + 1)
                        if merge:
                            table = _with_new_values(
                                table, new_schema, merge, source.new_values, start + 1
                            )
                        if table_stays.any() and table_stays.size == len(table):
                            if not table_stays.all():
                                table = _only(table, table_stays)
                            retained.append(table)
                        del table  # Before the next one is read.
                    if retained:
                        writer.write(require_pyarrow().concat_tables(retained))
                if end != stays.size:
                    raise InputError(f"{path} has changed since it was read: it has other rows")


def check_merge(path: str, kind: TableFormat, merge: Merge) -> None:
    """Raise UsageError if the rows of a file can't take values for the columns of a merge."""
    check_columns(path, kind)
    with _opened(path, kind) as (_, schema, _):
        schema_with_lists(path, schema, kind, merge)


def check_text_column(path: str, kind: TableFormat, setting: str, text_field: str) -> None:
    """Raise UsageError if texts of a field can't be changed, as a setting requires.

    They are in lists or structs then. A field that is missing is none of these.
    """
    check_columns(path, kind)
    with _opened(path, kind) as (_, schema, _):
        position = schema.get_field_index(text_field)
        is_nested = any(text_field.startswith(f"{name}.") for name in schema.names)
        if position >= 0:
            is_nested = require_pyarrow().types.is_nested(schema.field(position).type)
    if is_nested:
        raise UsageError(
            f"{path}: `{setting}` can't change texts in structs and lists, as {text_field!r} is:"
            " write them into a column"
        )


def schema_with_lists(path: str, schema: _Schema, kind: TableFormat, merge: Merge) -> _Schema:
    """Return the schema of a file whose collected columns are lists.

    Raises UsageError if a column is missing, or has no values of JSON.
    """
    types = require_pyarrow().types
    new_schema = schema
    for name in merge.paths:
        position = schema.get_field_index(name)
        if position < 0:
            setting = "collect" if name in merge.collect else "fill"
            raise UsageError(
                f"{path}: `{setting}` requires a column, and there is no column {name!r}. There"
                f" are: {', '.join(schema.names[:20]) or 'none'}"
            )
        column = schema.field(position)
        is_list = types.is_list(column.type) or types.is_large_list(column.type)
        item_type = column.type.value_type if is_list else column.type
        if types.is_dictionary(item_type) and not is_list:
            item_type = item_type.value_type
        if not _has_values(item_type):
            raise UsageError(
                f"{path}: the column {name!r} has values of type {column.type}, which can't be"
                " merged: only text, numbers and true or false can"
            )
        if name in merge.collect and not is_list:
            list_type = require_pyarrow().list_(item_type)
            new_schema = new_schema.set(position, column.with_type(list_type))
    if new_schema is not schema and _HUGGINGFACE in (schema.metadata or {}):
        if kind == "arrow":
            raise UsageError(
                f"{path}: a Dataset on the disk can't be changed by `collect`: save it as Parquet"
            )
        # It describes the old types; without it, `datasets` reads those of the file.
        metadata = {key: text for key, text in schema.metadata.items() if key != _HUGGINGFACE}
        new_schema = new_schema.with_metadata(metadata)
    return new_schema


def _has_values(column_type: _Type) -> bool:
    """Return whether the values of a type are read from JSON as they were written."""
    types = require_pyarrow().types
    is_text = types.is_string(column_type) or types.is_large_string(column_type)
    is_number = types.is_integer(column_type) or types.is_floating(column_type)
    return bool(is_text or is_number or types.is_boolean(column_type))


def _with_new_values(
    table: _Table, schema: _Schema, merge: Merge, new_values: Mapping[int, str], first: int
) -> _Table:
    """Return a table whose rows have new values. first: number of the table's first row."""
    pa = require_pyarrow()
    rows = range(first, first + len(table))
    values_of_rows = {row: json.loads(new_values[row]) for row in rows if row in new_values}
    for name in merge.paths:
        position = schema.get_field_index(name)
        column_type = schema.field(position).type
        values = table[name].to_pylist()
        if name in merge.collect and table.schema.field(position).type != column_type:
            values = [None if value is None or is_nan(value) else [value] for value in values]
        for row, values_of_row in values_of_rows.items():
            if name in values_of_row:
                values[row - first] = values_of_row[name]
        table = table.set_column(position, schema.field(position), pa.array(values, column_type))
    return table.replace_schema_metadata(schema.metadata)


def _with_texts(
    path: str, table: _Table, field: str, changed: Mapping[int, str], first: int
) -> _Table:
    """Return a table with new texts in a column. first: number of the table's first row."""
    pa = require_pyarrow()
    column = table.schema.get_field_index(field)
    if column < 0 or pa.types.is_nested(table.schema.field(column).type):
        raise InputError(f"{path}: no column {field!r} has texts to change")
    rows = enumerate(table[field], first)
    values = [changed.get(row, text.as_py()) for row, text in rows]
    field_type = table.schema.field(column)
    return table.set_column(column, field_type, pa.array(values, field_type.type))


def _only(table: _Table, stays: Mask) -> _Table:
    """Return a table with some of its rows. stays: shape (rows,)."""
    pa = require_pyarrow()
    try:
        return table.filter(pa.array(stays))
    except pa.ArrowNotImplementedError:
        # Views and run-end encoded values can be joined, though not chosen.
        edges = [*np.flatnonzero(run_starts(stays)).tolist(), len(table)]
        runs = [table[start:end] for start, end in itertools.pairwise(edges) if stays[start]]
        return pa.concat_tables(runs).combine_chunks()


def _row_groups(file: BinaryIO) -> tuple[Iterator[_Parts], _OpenWriter]:
    """Return the row groups of a Parquet file, and a function that opens one to write like it."""
    parquet = require_pyarrow().parquet
    open_table = _table_opener(file)
    opened = open_table()
    groups, options = opened.metadata.num_row_groups, {}
    if groups:
        group = opened.metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        codecs = {column.path_in_schema: _codec_of(column.compression) for column in columns}
        coded = [column.path_in_schema for column in columns if column.has_dictionary_page]
        options = {"compression": codecs, "use_dictionary": coded}
    by_code = open_table(metadata=opened.metadata, read_dictionary=_coded_columns(opened))
    groups_of_rows = (_parts_of_row_group(opened, by_code, number) for number in range(groups))
    return groups_of_rows, partial(parquet.ParquetWriter, **options)


def _parts_of_row_group(opened: _ParquetFile, by_code: _ParquetFile, number: int) -> _Parts:
    """Yield the rows of a row group of an open Parquet file.

    A part takes little memory. A whole row group is one if parts of it could have dictionaries of
    their own.

    by_code: the same file, opened to read texts as dictionaries.
    """
    pa = require_pyarrow()
    if any(_shares_values(field.type) for field in opened.schema_arrow):
        yield opened.read_row_group(number)
        return
    group = opened.metadata.row_group(number)
    rows = _PART_BYTES * group.num_rows // max(1, group.total_byte_size)
    rows = max(1, min(rows, _ROWS_OF_PART))
    # pyarrow ends the process if the numbers of a column are damaged, unless a read has found that
    # before.
    next(by_code.iter_batches(1, [number], use_threads=False), None)
    for batch in opened.iter_batches(rows, [number], use_threads=False):
        yield pa.Table.from_batches([batch])


def _codec_of(compression: str) -> str:
    """Return the compression of a column of a row group, as a writer names it."""
    codec = compression.lower()
    return "none" if codec == "uncompressed" else codec


def _arrow_batches(file: BinaryIO) -> tuple[Iterator[_Parts], _OpenWriter]:
    """Return the batches of an Arrow file, and a function that opens one like it."""
    pa = require_pyarrow()
    is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    file.seek(_ARROW_FILE_HEAD if is_file else 0)
    messages = pa.ipc.MessageReader.open_stream(file)
    first = next((message for message in messages if message.type == "record batch"), None)
    body = b"" if first is None else first.body.to_pybytes()
    codec = next((name for name, begin in _FRAMES.items() if begin in body), None)
    options = pa.ipc.IpcWriteOptions(compression=codec)
    file.seek(0)
    if is_file:
        opened = pa.ipc.open_file(file)
        batches = map(opened.get_batch, range(opened.num_record_batches))
    else:
        batches = iter(pa.ipc.open_stream(file))
    groups = (iter([pa.Table.from_batches([batch])]) for batch in batches)
    return groups, partial(pa.ipc.new_file if is_file else pa.ipc.new_stream, options=options)


@contextmanager
def _opened(path: str, kind: TableFormat) -> Iterator[tuple[BinaryIO, _Schema, _Batches]]:
    """Open a file: return it, its schema, and a function that yields batches and their bytes."""
    # Of Parquet, the columns that are read are apart.
    with open_file(path, AHEAD if kind == "arrow" else 0) as file:
        try:
            schema, batches = _parquet(file) if kind == "parquet" else _arrow(file)
            names = schema.names
        except _damages() as error:
            article = "a Parquet" if kind == "parquet" else "an Arrow"
            raise UsageError(
                f"{path} is not {article} file, or was cut: {_first_line(error)}"
            ) from error
        if repeated := Counter(names) - Counter(set(names)):
            raise UsageError(f"{path}: two columns have the name {next(iter(repeated))!r}")
        with _reporting_damage(path):
            file.seek(0)
            yield file, schema, batches


@contextmanager
def _reporting_damage(path: str) -> Iterator[None]:
    """Raise InputError in place of the errors of a damaged file."""
    try:
        yield
    except EsdedupError:
        raise
    except _damages() as error:
        raise InputError(f"{path} can't be read to its end: {_first_line(error)}") from error


def _damages() -> tuple[type[BaseException], ...]:
    """Return the errors of a file that can't be read as a table."""
    return OSError, EOFError, ValueError, MemoryError, require_pyarrow().ArrowException


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(". ")


def _table_opener(file: BinaryIO) -> Callable[..., _ParquetFile]:
    """Return a function that opens a Parquet file, with more options of pyarrow's."""
    return partial(
        require_pyarrow().parquet.ParquetFile,
        file,
        pre_buffer=False,
        buffer_size=_BUFFER_BYTES,
        page_checksum_verification=True,
    )


def _coded_columns(opened: _ParquetFile, leaves: Iterable[int] | None = None) -> list[str]:
    """Return the columns of texts of a Parquet file, whose equal values have one code.

    leaves: the numbers of the columns to choose from, None for all.
    """
    metadata = opened.metadata
    numbers = range(metadata.num_columns) if leaves is None else leaves
    columns = [metadata.schema.column(number) for number in numbers]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _parquet(file: BinaryIO) -> tuple[_Schema, _Batches]:
    open_table = _table_opener(file)
    opened = open_table()
    metadata, size_of_file = opened.metadata, file.seek(0, 2)
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]

    def batches(names: list[str], size: int, most: int) -> Iterator[tuple[_Batch, float]]:
        requested = {*names}
        read_leaves = {
            number: leaf
            for number, leaf in enumerate(leaves)
            if requested.intersection(accumulate(leaf.path.split("."), "{}.{}".format))
        }
        by_code = open_table(metadata=metadata, read_dictionary=_coded_columns(opened, read_leaves))
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            # pyarrow ends the process if the numbers of a column are damaged, unless a read has
            # found that before.
            head = next(by_code.iter_batches(1, [number], names, use_threads=False), None)
            columns = {leaf: group.column(leaf) for leaf in read_leaves}
            # A few bytes may encode any number of equal values, such as zeros in lists.
            values = sum(
                column.num_values * max(8, read_leaves[leaf].length)
                for leaf, column in columns.items()
            )
            # Of all columns: pyarrow ends the process if the sizes of one column are damaged.
            group_bytes = max(1, group.total_byte_size)
            row_bytes = None
            # Texts that share their beginnings may take any multiple of the bytes of a row group.
            if not any("DELTA_BYTE_ARRAY" in column.encodings for column in columns.values()):
                row_values = max((column.num_values for column in columns.values()), default=0)
                row_bytes = _longest_coded(head, -(-row_values // max(1, group.num_rows)))
            if row_bytes is None:
                # Each row may refer to a text that is nearly as long as the row group.
                row_bytes = group_bytes
            rows = size * group.num_rows // max(group_bytes, values)
            rows = max(1, min(rows, most, max(_FEW_ROWS, _SLICE_BYTES // max(1, row_bytes))))
            for batch in opened.iter_batches(rows, [number], names, use_threads=False):
                yield batch, size_of_file * len(batch) / metadata.num_rows

    return opened.schema_arrow, batches


def _longest_coded(head: _Batch | None, values: int) -> int | None:
    """Return how many bytes a row takes at most for texts that other rows may refer to too.

    head: the first row, with the dictionaries of its row group. Return None if one is missing.
    values: the number of values of a row in a column, on average.
    """
    compute, row_bytes = require_pyarrow().compute, 0
    for column in () if head is None else head.columns:
        for dictionary in _dictionaries(column):
            if not len(dictionary):
                return None
            longest = compute.max(compute.binary_length(dictionary)).as_py()
            row_bytes += longest * max(1, values)
    return row_bytes


def _dictionaries(array: _Array) -> Iterator[_Array]:
    """Yield the dictionaries of an array that was read from Parquet."""
    types, kind = require_pyarrow().types, array.type
    if types.is_dictionary(kind):
        yield array.dictionary
    elif hasattr(kind, "storage_type"):
        yield from _dictionaries(array.storage)
    elif types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _dictionaries(array.field(number))
    elif types.is_map(kind):
        yield from _dictionaries(array.keys)
        yield from _dictionaries(array.items)
    elif types.is_nested(kind):
        yield from _dictionaries(array.values)


def _arrow(file: BinaryIO) -> tuple[_Schema, _Batches]:
    ipc = require_pyarrow().ipc
    is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    size = file.seek(0, 2)
    file.seek(0)
    opened = (ipc.open_file if is_file else ipc.open_stream)(file)
    schema = opened.schema

    def batches(names: list[str], *_: int) -> Iterator[tuple[_Batch, float]]:
        # No fields at all would be all of them.
        fields = [*map(schema.get_field_index, names or schema.names[:1])]
        options = ipc.IpcReadOptions(use_threads=False, included_fields=fields)
        file.seek(0)
        if is_file:
            table = ipc.open_file(file, options=options)
            for number in range(table.num_record_batches):
                yield table.get_batch(number), size / table.num_record_batches
            return
        position = 0
        for batch in ipc.open_stream(file, options=options):
            yield batch, file.tell() - position
            position = file.tell()
        if position < size and file.read(1):
            raise EOFError("there is more after the end of the stream")
        file.seek(0)
        is_marked = file.read(4) == _STREAM_END[:4]
        file.seek(-len(_STREAM_END), 2)
        # A writer that was killed between two batches leaves no mark.
        if is_marked and file.read() != _STREAM_END:
            raise EOFError("the mark of the end is missing, so rows may be missing too")

    return opened.schema, batches


def _column(schema: _Schema, path: str) -> str | None:
    """Return the column that holds the value of a dotted path, or None if there is none."""
    names = path.split(".")
    ends = (".".join(names[:end]) for end in range(len(names), 0, -1))
    return next((name for name in ends if name in schema.names), None)


def rows_of(batch: _Batch) -> Iterator[_Row]:
    """Yield rows, of which bad ones are found one by one."""
    names = batch.schema.names
    try:
        columns = [*map(values_of, batch.columns)]
    except NO_JSON:
        yield from (_row(batch[row : row + 1]) for row in range(len(batch)))
    else:
        rows = zip(*columns, strict=True) if names else repeat((), len(batch))
        yield from (dict(zip(names, row, strict=True)) for row in rows)


def _row(batch: _Batch) -> _Row:
    """Return the only row of a batch."""
    good: Fields = {}
    reasons = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            (good[name],) = values_of(column)
        except NO_JSON as error:
            reason = _first_line(error)
            if isinstance(error, UnicodeDecodeError) or "UTF8" in reason:
                reason = "holds bytes that are not text in UTF-8"
                if _is_bytes(column.type):
                    reason += ": write a vector as a list of numbers, and other bytes in base64"
            elif isinstance(error, ArithmeticError):
                reason = "holds a time that is out of range"
            reasons.append(f"the column {name!r} {reason}")
    if reasons:
        return BadRow(json.dumps(good, ensure_ascii=False), "; ".join(reasons))
    return good


def values_of(array: _Array) -> list[Any]:
    """Return the values of an array as values of JSON; raise one of `NO_JSON` if one has none."""
    pa = require_pyarrow()
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Python may lack the rules of the zone.
        array = array.cast(pa.timestamp(kind.unit, "UTC"))
    elif pa.types.is_duration(kind):
        array = array.cast(pa.int64())
    types = pa.types
    if has_nanoseconds_of_day(kind):
        values: list[Any] = with_times(array)
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_primitive(kind):
        # With any argument, it converts one value after the other, in 10 times the time.
        values = array.to_pylist()
    else:
        values = array.to_pylist(maps_as_pydicts="strict")
    return plain_values(values)
