"""Results as plain JSON, in one way for all: their fields, then their properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def object_of(result: DataclassInstance) -> dict[str, object]:
    """Return the fields of a dataclass, but those with `repr=False`, and its properties."""
    names = [field.name for field in fields(result) if field.repr]
    properties = vars(type(result)).items()
    names += [name for name, attribute in properties if isinstance(attribute, property)]
    return {name: to_json(getattr(result, name)) for name in names}


def to_json(value: object) -> object:
    """Return a value as plain JSON, by its own `to_json` if it has that method."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return object_of(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(element) for element in value]
    return value
