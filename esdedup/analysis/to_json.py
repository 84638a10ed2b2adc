"""Results as plain JSON, in one way for all: their fields, then their properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def to_json(value: Any) -> Any:
    """A result, or a value in one, as plain JSON.

    A dataclass becomes an object of its fields and properties; a field with `repr=False` is left
    out. A part with a method `to_json` is as that says. Keys become strings, tuples lists.
    """
    if is_dataclass(value):
        return {name: _part(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): _part(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_part(each) for each in value]
    return value


def _part(value: Any) -> Any:
    return value.to_json() if hasattr(value, "to_json") else to_json(value)


def _names(kind: Any) -> list[str]:
    properties = [name for name, each in vars(kind).items() if isinstance(each, property)]
    return [each.name for each in fields(kind) if each.repr] + properties
