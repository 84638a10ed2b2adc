"""Results as plain JSON, in one way for all: their fields, then their properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def object_of(result: Any) -> dict[str, Any]:
    """A dataclass as a JSON object of its fields and properties.

    A field with `repr=False` is left out.
    """
    names = [each.name for each in fields(result) if each.repr]
    names += [name for name, each in vars(type(result)).items() if isinstance(each, property)]
    return {name: to_json(getattr(result, name)) for name in names}


def to_json(value: Any) -> Any:
    """A result, or a value in one, as plain JSON. Keys become strings, tuples lists.

    A value with a method `to_json` is as that says.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return object_of(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    return value
