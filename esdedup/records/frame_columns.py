"""Columns of frames and tables of any library: their values, and columns with other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from esdedup.records.columnar import NO_JSON, values_of
from esdedup.stores.plain_values import in_memory_values, time_of
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
    """Return the values of a column as values of JSON, as of a file; None for missing ones."""
    if _is_of_arrow(column):
        try:
            return in_memory_values(values_of(column))
        except NO_JSON:
            return in_memory_values(column.to_pylist())
    if hasattr(column, "to_physical") and _needs_numbers(column.dtype):
        return _from_numbers(column.to_physical().to_list(), column.dtype)
    return in_memory_values(given_values(column))


def exact_values(column: Column) -> list[object]:
    """Return values of which `column_of` makes the same column; times can be numbers.

    Python's times have no nanoseconds.
    """
    if _is_of_arrow(column):
        stored = _stored_type(column.type)
        return [*(column if column.type == stored else column.cast(stored)).to_pylist()]
    if hasattr(column, "to_physical"):
        return given_values(column.to_physical() if _has_times(column.dtype) else column)
    return [*map(_listed, given_values(column))]


def column_of(column: Column, values: list[object], *, becomes_list: bool = False) -> Column:
    """Return a column of the type of another.

    values: as `exact_values` returns them. becomes_list: they are lists of such values.
    """
    if _is_of_arrow(column):
        kind, stored = column.type, _stored_type(column.type)
        if becomes_list:
            kind, stored = require_pyarrow().list_(kind), require_pyarrow().list_(stored)
        array = require_pyarrow().array(values, stored)
        return array if kind == stored else array.cast(kind)
    if hasattr(column, "to_physical"):
        kind, column_type = column.dtype, type(column)
        stored = column.to_physical().dtype if _has_times(kind) else kind
        if becomes_list:
            kind = column.head(0).implode().dtype
            stored = column_type("", [], stored).implode().dtype
        new_column = column_type(column.name, values, stored)
        return new_column if kind == stored else new_column.cast(kind)
    return type(column)(values, index=column.index, dtype=object if becomes_list else column.dtype)


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


def _stored_type(kind: _Type) -> _Type:
    """Return a type of Arrow with whole numbers in place of times."""
    pa = require_pyarrow()
    types = pa.types
    if types.is_list(kind):
        return pa.list_(_stored_type(kind.value_type))
    if types.is_large_list(kind):
        return pa.large_list(_stored_type(kind.value_type))
    if types.is_temporal(kind) and not types.is_interval(kind):
        return pa.int64() if kind.bit_width == 64 else pa.int32()
    return kind


def _has_times(kind: _Type) -> bool:
    """Return whether a type of Polars is of times, or of lists of them."""
    inner = getattr(kind, "inner", None)
    return bool(kind.is_temporal() if inner is None else _has_times(inner))


def _needs_numbers(kind: _Type) -> bool:
    """Return whether values of a type of Polars are durations, or times of nanoseconds."""
    inner = getattr(kind, "inner", None)
    if inner is not None:
        return _needs_numbers(inner)
    unit = getattr(kind, "time_unit", None)
    return unit is not None and (unit == "ns" or not hasattr(kind, "time_zone"))


def _from_numbers(numbers: Column, kind: _Type) -> list[object]:
    """Return the values of JSON of a type's numbers: times as texts, durations as they are."""
    inner = getattr(kind, "inner", None)
    if inner is not None:
        return [None if listed is None else _from_numbers(listed, inner) for listed in numbers]
    if not hasattr(kind, "time_zone"):
        return [*numbers]
    zone = "Z" if kind.time_zone else ""
    return [None if number is None else time_of(number) + zone for number in numbers]


def _listed(value: object) -> object:
    """Return an array, which frames of pandas have in place of lists, as a list."""
    if not isinstance(value, np.ndarray):
        return value
    # As a list, times of nanoseconds would be numbers.
    return [*value] if value.dtype.kind in "mM" else value.tolist()
