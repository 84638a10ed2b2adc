"""Turn values of tables, frames, arrays and programs into those of JSON (reference/files.md)."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Iterable
from types import NoneType

import numpy as np

from esdedup.exceptions import RecordError

_AS_IT_IS = {NoneType, str, int, float, bool}
"""Types of values that JSON has."""
_DIGITS_OF_A_FLOAT = 15
"""Decimal digits that any 64-bit float keeps (IEEE 754)."""
_NO_FORM = "is an interval, or a duration in a list, which has no form in JSON"
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds of each unit of times."""


def plain_values(values: list[object]) -> list[object]:
    """Return values as values of JSON. Raises the errors of `plain`."""
    return values if _AS_IT_IS.issuperset(map(type, values)) else [*map(plain, values)]


def plain(value: object) -> object:
    """Return a value as a value of JSON, which may be NaN or infinite.

    Raises RecordError for a value without such a form, UnicodeDecodeError for bytes that are no
    text, and OverflowError for a time that is out of range in UTC.
    """
    match value:
        case None | str() | int() | float():
            return value
        case list() | tuple():
            return [*map(plain, value)]
        case dict():
            return {str(name): plain(item) for name, item in value.items()}
        case bytes():
            return value.decode()
        case decimal.Decimal():
            return _of_decimal(value)
        case datetime.date() if value != value:
            # The missing time of pandas.
            return None
        case datetime.datetime(tzinfo=datetime.tzinfo()):
            return f"{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat()}Z"
        case datetime.date() | datetime.time():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
        case np.ndarray() | np.generic():
            return _of_numpy(value)
    raise RecordError(_NO_FORM)


def in_memory_values(values: Iterable[object]) -> list[object]:
    """Return values of a frame or a list as values of JSON, None for missing ones."""
    listed = values if isinstance(values, list) else [*values]
    types = {*map(type, listed)}
    if types <= _AS_IT_IS and float not in types:
        return listed
    return [*map(in_memory, listed)]


def in_memory(value: object) -> object:
    """Return a value that a program has as a value of JSON, None for a missing one.

    NaN is missing. A duration is a number of its units, or of microseconds. A value without a form
    in JSON stays as it is.
    """
    if type(value) is str or type(value) is int:
        return value
    if is_nan(value) or type(value).__name__ == "NAType":
        return None
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return _of_duration(value)
    try:
        plain_value = plain(value)
    except OverflowError:
        return value.isoformat() if isinstance(value, datetime.datetime) else value
    except (RecordError, ValueError, TypeError):
        return value
    return None if is_nan(plain_value) else plain_value


def listed(value: object) -> object:
    """Return an array of numpy, or a tuple, as the list of its items; another value itself."""
    if type(value) is tuple:
        return [*value]
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    # As a list, times of nanoseconds would be numbers.
    return [*value] if value.dtype.kind in "mM" else value.tolist()


def time_of(number: int, unit: str = "ns") -> str:
    """Return a time since 1970 in ISO 8601, as pandas writes it, without a zone.

    number: of its unit, "s", "ms", "us" or "ns". A year beyond 9999 has more digits.
    """
    nanoseconds = number * _NANOSECONDS[unit]
    microseconds, below = divmod(nanoseconds, 1_000)
    try:
        moment = _EPOCH + microseconds * _MICROSECOND
    except OverflowError:
        return str(np.int64(number).view(f"M8[{unit}]"))
    return f"{moment.isoformat(timespec='microseconds')}{below:03}" if below else moment.isoformat()


def date_of(days: int) -> str:
    """Return a day since 1970 in ISO 8601. A year beyond 9999 has more digits."""
    try:
        return (_EPOCH.date() + datetime.timedelta(days)).isoformat()
    except OverflowError:
        return str(np.datetime64(days, "D"))


def is_nan(value: object) -> bool:
    """Return whether a value is NaN, which data frames have where a value is missing."""
    return isinstance(value, float | np.floating) and math.isnan(value)


def _of_decimal(value: decimal.Decimal) -> int | float | str:
    if value.is_nan():
        return float("nan")
    _, digits, exponent = value.as_tuple()
    if exponent == 0:
        return int(value)
    return float(value) if len(digits) <= _DIGITS_OF_A_FLOAT else f"{value:f}"


def _of_numpy(value: np.ndarray | np.generic) -> object:
    """Return an array or a scalar of numpy as a value of JSON."""
    if isinstance(value, np.datetime64):
        item = value.item()
        if not isinstance(item, int):
            return plain(item)
        # Python's times have no nanoseconds, and no years beyond 9999.
        nanoseconds = value.astype("datetime64[ns]")
        if nanoseconds.astype(value.dtype) != value:
            text = str(value)
            # A year alone would be a number of seconds, as texts of digits are.
            return text + "-01" * (2 - text.lstrip("-").count("-"))
        return time_of(int(nanoseconds.astype(np.int64)))
    if isinstance(value, np.timedelta64) and not np.isnat(value):
        raise RecordError(_NO_FORM)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "mMO":
        # As lists, times of nanoseconds would be numbers.
        return [*map(plain, value)]
    item = value.item() if isinstance(value, np.generic) else value.tolist()
    if isinstance(item, np.generic):
        raise RecordError("has no form in JSON")
    return plain(item)


def _of_duration(value: datetime.timedelta | np.timedelta64) -> int | None:
    if value != value:
        return None
    exact = getattr(value, "asm8", value)
    if isinstance(exact, np.timedelta64):
        return int(exact.astype(np.int64))
    return exact // _MICROSECOND
