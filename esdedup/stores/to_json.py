"""Write documents as JSON."""

import json
from typing import Any

from esdedup.exceptions import RecordError
from esdedup.stores.plain_values import plain

MOST_NESTED = 500
"""Levels of arrays and objects; Python reads 990 at the top of its stack, and servers 1,000."""


def to_json(value: object, subject: str) -> str:
    """Return compact JSON, with characters beyond ASCII unescaped.

    Values of programs become those of `plain`. subject: names the value in messages. Raises
    RecordError for other types, NaN, infinity, and half of a surrogate pair.
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
    if is_nested_beyond(MOST_NESTED, text, value):
        raise RecordError(f"nested too deeply: more than {MOST_NESTED} levels")


def is_nested_beyond(levels: int, text: str, value: object) -> bool:
    """Return whether arrays or objects are nested in more levels. text: the value as JSON."""
    if text.count("[") + text.count("{") <= levels:
        return False
    level: list[Any] = [value]
    for _ in range(levels):
        children = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in children for item in items if isinstance(item, (dict, list))]
    return bool(level)


def same_json(left: object, right: object) -> bool:
    """Return whether two values are the same JSON. 1, 1.0 and true differ."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _plain(value: object) -> object:
    try:
        return plain(value)
    except RecordError as error:
        raise TypeError(f"a {type(value).__name__} has no form in JSON") from error
    except OverflowError:
        # A zone takes the time out of the years that Python has.
        return str(value)


# Shared, because making an encoder takes as long as writing a short document.
ENCODER = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain
)
