"""Write documents as JSON."""

import datetime
import decimal
import json
import uuid
from typing import Any

import numpy as np

from esdedup.exceptions import RecordError

MOST_NESTED = 500
"""Levels of arrays and objects; Python reads 990 at the top of its stack, and servers 1,000."""


def to_json(value: object, subject: str) -> str:
    """Return compact JSON, with characters beyond ASCII unescaped.

    Dates become ISO 8601, decimals numbers, UUIDs strings, numpy values plain ones, as in the
    servers' own clients. subject: names the value in messages. Raises RecordError for other types,
    NaN, infinity, and half of a surrogate pair.
    """
    try:
        text = ENCODER.encode(value)
        if not text.isascii():
            text.encode("utf-8")
        check_depth(text, value)
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"{subject} can't be written as JSON: {error}") from error
    return text


def check_depth(text: str, value: object) -> None:
    """Raise RecordError if arrays or objects are nested too deeply. text: the value as JSON."""
    if text.count("[") + text.count("{") <= MOST_NESTED:
        return
    level: list[Any] = [value]
    for _ in range(MOST_NESTED):
        children = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in children for item in items if isinstance(item, (dict, list))]
    if level:
        raise RecordError(f"nested too deeply: more than {MOST_NESTED} levels")


def same_json(left: object, right: object) -> bool:
    """Return whether two values are the same JSON. 1, 1.0 and true differ."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _plain(value: object) -> object:
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


# Shared, because making an encoder takes as long as writing a short document.
ENCODER = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain
)
