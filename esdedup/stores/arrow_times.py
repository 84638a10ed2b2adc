"""Times of Arrow as whole numbers, and as values of JSON with all of their digits.

Python's times have no nanoseconds, and no years beyond 9999.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from esdedup.stores.plain_values import date_of, time_of
from esdedup.tabular import require_pyarrow

# pyarrow has no types.
ArrowArray = Any
ArrowType = Any


def numbers_of(array: ArrowArray) -> list[object]:
    """Return the values of an array or a column, with whole numbers in place of times."""
    stored = stored_type(array.type)
    return [*(array if array.type == stored else array.cast(stored)).to_pylist()]


def with_times(array: ArrowArray) -> list[object]:
    """Return the values of an array or a column, with times as texts, durations as numbers."""
    return [*map(_converter(array.type), numbers_of(array))]


def stored_type(kind: ArrowType) -> ArrowType:
    """Return a type with whole numbers in place of times."""
    pa = require_pyarrow()
    types = pa.types
    if types.is_list(kind):
        return pa.list_(stored_type(kind.value_type))
    if types.is_large_list(kind):
        return pa.large_list(stored_type(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(stored_type(kind.value_type), kind.list_size)
    if types.is_struct(kind):
        return pa.struct([field.with_type(stored_type(field.type)) for field in kind.fields])
    if types.is_temporal(kind) and not types.is_interval(kind):
        return pa.int64() if kind.bit_width == 64 else pa.int32()
    return kind


def has_nanoseconds_of_day(kind: ArrowType) -> bool:
    """Return whether a type is of times of day in nanoseconds, or holds such a type."""
    types = require_pyarrow().types
    if types.is_time64(kind):
        return str(kind) == "time64[ns]"
    if types.is_struct(kind):
        return any(has_nanoseconds_of_day(field.type) for field in kind.fields)
    return _is_list(kind) and has_nanoseconds_of_day(kind.value_type)


def _is_list(kind: ArrowType) -> bool:
    types = require_pyarrow().types
    is_list = types.is_list(kind) or types.is_large_list(kind)
    return bool(is_list or types.is_fixed_size_list(kind))


def _converter(kind: ArrowType) -> Callable[[object], object]:
    """Return a function that puts times in place of their numbers in a value of a type."""
    if _is_list(kind):
        of_item = _converter(kind.value_type)
        return lambda value: [*map(of_item, value)] if isinstance(value, list) else value
    if require_pyarrow().types.is_struct(kind):
        of_field = {field.name: _converter(field.type) for field in kind.fields}

        def convert(value: object) -> object:
            if not isinstance(value, dict):
                return value
            return {name: of_field[name](field) for name, field in value.items()}

        return convert
    written = _writer(kind)
    if written is None:
        return lambda value: value
    return lambda value: written(value) if isinstance(value, int) else value


def _writer(kind: ArrowType) -> Callable[[int], str] | None:
    """Return a function that writes the number of a time as text; None for another type."""
    types = require_pyarrow().types
    if types.is_timestamp(kind):
        zone = "Z" if kind.tz else ""
        return lambda number: time_of(number, kind.unit) + zone
    if types.is_date32(kind):
        return date_of
    if types.is_date64(kind):
        return lambda number: date_of(number // 86_400_000)
    if types.is_time(kind):
        unit = str(kind).partition("[")[2].removesuffix("]")
        return lambda number: time_of(number, unit).partition("T")[2]
    return None
