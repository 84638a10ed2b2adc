"""Columns of frames and tables of any library: their values, and columns with other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from esdedup.records.columnar import NO_JSON, values_of
from esdedup.stores.arrow_times import numbers_of, stored_type, with_times
from esdedup.stores.plain_values import in_memory_values, listed
from esdedup.tabular import require_pyarrow
from esdedup.text.arrays import I64

# Frames are of libraries that need not be installed.
Column = Any
_Table = Any
_Type = Any
_CALLS = "to_pylist", "to_list", "tolist", "__iter__"


def given_values(column: Column) -> list[object]:
    """Return the values of a column as its library has them, None for missing ones."""
    if hasattr(column, "notna"):
        column = column.astype(object).where(column.notna(), None)
    return [*getattr(column, next(call for call in _CALLS if hasattr(column, call)))()]


def read_values(column: Column) -> list[object]:
    """Return the values of a column as values of JSON, as of a file; None for missing ones.

    A time beyond the calendar of Python is a text of its year.
    """
    if hasattr(column, "to_physical") and _has_times(column.dtype):
        require_pyarrow("Times in frames of Polars need")
        column = column.to_arrow()
    elif _has_type_of_arrow(column):
        column = column.array.__arrow_array__()
    if not _is_of_arrow(column):
        return in_memory_values(given_values(column))
    try:
        return in_memory_values(values_of(column))
    except NO_JSON:
        # One value has no form in JSON, and all others have theirs.
        return in_memory_values(with_times(column))


def unreadable_row(column: Column) -> int:
    """Return the first row of a column of Arrow that `read_values` can't read."""
    for row in range(len(column)):
        try:
            read_values(column[row : row + 1])
        except NO_JSON:
            return row
    return 0


def exact_values(column: Column) -> list[object]:
    """Return values of which `column_of` makes the same column; times can be numbers.

    Python's times have no nanoseconds.
    """
    if _has_type_of_arrow(column):
        column = column.array.__arrow_array__()
    if _is_of_arrow(column):
        return numbers_of(column)
    if hasattr(column, "to_physical"):
        return given_values(column.cast(_numbers_type(column)))
    return [*map(listed, given_values(column))]


def column_of(column: Column, values: list[object], *, becomes_list: bool = False) -> Column:
    """Return a column of the type of another, with lists of any length if it has fixed ones.

    values: as `exact_values` returns them. becomes_list: they are lists of such values.
    """
    if _is_of_arrow(column):
        pa = require_pyarrow()
        kind = _list_type(column)
        if becomes_list:
            kind = pa.list_(kind)
        stored = stored_type(kind)
        array = pa.array(values, stored)
        return array if kind == stored else array.cast(kind)
    if hasattr(column, "to_physical"):
        column_type, kind = type(column), _list_type(column)
        if becomes_list:
            kind = column_type("", [], kind).implode().dtype
        stored = _numbers_type(column_type("", [], kind))
        new_column = column_type(column.name, values, stored)
        return new_column if kind == stored else new_column.cast(kind)
    if _has_type_of_arrow(column):
        of_arrow = column.array.__arrow_array__()
        array = column_of(of_arrow, values, becomes_list=becomes_list)
        return type(column)(array, index=column.index, dtype=type(column.dtype)(array.type))
    kind = object if becomes_list else column.dtype
    return type(column)(values, index=column.index, dtype=kind)


def has_fixed_length(column: Column) -> bool:
    """Return whether a column is of lists that all have one length."""
    kind = column.type if _is_of_arrow(column) else column.dtype
    kind = getattr(kind, "pyarrow_dtype", kind)
    return hasattr(kind, "list_size") or type(kind).__name__ == "Array"


def _list_type(column: Column) -> _Type:
    """Return the type of a column of Arrow or Polars, with lists of any length."""
    is_of_arrow = _is_of_arrow(column)
    if not has_fixed_length(column):
        return column.type if is_of_arrow else column.dtype
    if is_of_arrow:
        return require_pyarrow().list_(column.type.value_type)
    return column.head(0).arr.to_list().dtype


def fault_of_lists(column: Column) -> str | None:
    """Return why no lists can be made of the values of a column; None if they can."""
    if _has_type_of_arrow(column):
        column = column.array.__arrow_array__()
    if _is_of_arrow(column):
        try:
            column_of(column, [], becomes_list=True)
        except require_pyarrow().ArrowException:
            return f"values of type {column.type}"
    elif hasattr(column, "to_physical") and type(column.dtype).__name__ == "Object":
        return f"values of type {column.dtype}"
    return None


def with_texts(column: Column, texts: Mapping[int, str]) -> Column:
    """Return a column with other texts in some rows.

    The categories of a column are a fixed list, and would hold the texts of before, too. So such a
    column becomes one of texts. texts: by row.
    """
    values = given_values(column)
    for row, text in texts.items():
        values[row] = text
    if _is_of_arrow(column):
        return require_pyarrow().array(values, column.type)
    if hasattr(column, "to_physical"):
        is_fixed = type(column.dtype).__name__ == "Enum"
        return type(column)(column.name, values, None if is_fixed else column.dtype)
    categories = getattr(column.dtype, "categories", None)
    dtype = column.dtype if categories is None else categories.dtype
    return type(column)(values, index=column.index, dtype=dtype)


def taken(column: Column, rows: I64) -> Column:
    """Return the values at some rows, in their order, as a column of the same type."""
    if not _is_of_arrow(column):
        return column.take(rows) if hasattr(column, "iloc") else column[rows]
    try:
        return column.take(rows)
    except require_pyarrow().ArrowNotImplementedError:
        # Views and run-end encoded values can be joined, though not chosen.
        starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
        lengths = np.diff(starts, append=rows.size).tolist()
        firsts = rows[starts].tolist()
        runs = [column.slice(*run) for run in zip(firsts, lengths, strict=True)]
        return _joined(column, runs)


def rows_of_table(table: _Table, rows: I64) -> _Table:
    """Return some rows of a table of Arrow, or of a batch."""
    try:
        return table.take(rows)
    except require_pyarrow().ArrowNotImplementedError:
        columns = [taken(column, rows) for column in table.columns]
        return type(table).from_arrays(columns, schema=table.schema)


def _joined(column: Column, runs: list[Column]) -> Column:
    """Return parts of a column of Arrow as one of the same kind."""
    pa = require_pyarrow()
    if not runs:
        return column.slice(0, 0)
    if not hasattr(column, "chunks"):
        return pa.concat_arrays(runs)
    chunks = [chunk for run in runs for chunk in run.chunks]
    return pa.chunked_array([pa.concat_arrays(chunks)], column.type)


def _is_of_arrow(column: Column) -> bool:
    return hasattr(column, "to_pylist")


def _has_type_of_arrow(column: Column) -> bool:
    """Return whether a column of pandas has a type of Arrow."""
    return hasattr(column, "dtype") and hasattr(column.dtype, "pyarrow_dtype")


def _has_times(kind: _Type) -> bool:
    """Return whether a type of Polars is of times, or of lists or structs of them."""
    if hasattr(kind, "fields"):
        return any(_has_times(field.dtype) for field in kind.fields)
    inner = getattr(kind, "inner", None)
    return bool(kind.is_temporal() if inner is None else _has_times(inner))


def _numbers_type(column: Column) -> _Type:
    """Return the type of a column of Polars with whole numbers in place of times.

    The numbers of other types, such as decimals, could not be cast back.
    """
    kind, column_type = column.dtype, type(column)
    if not _has_times(kind):
        return kind
    if hasattr(kind, "fields"):
        fields = kind.fields
        return type(kind)({f.name: _numbers_type(column_type("", [], f.dtype)) for f in fields})
    inner = getattr(kind, "inner", None)
    if inner is None:
        return column.to_physical().dtype
    numbers = _numbers_type(column_type("", [], inner))
    return column_type("", [], numbers).implode().dtype
