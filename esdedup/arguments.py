"""Checks the types of arguments of Python programs, before a wrong one fails far from its call."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from esdedup.exceptions import UsageError

# A bool is an int in Python, so it comes first.
_TYPES: dict[str, type] = {
    "None": type(None),
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "Path": os.PathLike,
}
_WORDS = {
    "None": "None",
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "Path": "a path",
}


def check_type(name: str, value: object, annotation: str) -> None:
    """Raise UsageError if a value is not of a type such as "int | None". name: of the argument.

    The value is not shown, because it may be a password.
    """
    # Queries and the like are made in large numbers.
    if type(value) in _exact(annotation):
        return
    wanted = annotation.split(" | ")
    found = next((each for each, kind in _TYPES.items() if isinstance(value, kind)), "")
    if found not in wanted and not (found == "int" and "float" in wanted):
        words = " or ".join(_WORDS[each] for each in wanted)
        raise UsageError(f"{name}: use {words}, not {type(value).__name__}")


def check_fields(made: Any) -> None:
    """Raise UsageError if a field of a dataclass is not of its plain type, such as float."""
    for name, annotation in _plain_fields(made.__class__):
        check_type(name, getattr(made, name), annotation)


@functools.cache
def _exact(annotation: str) -> frozenset[type]:
    return frozenset(_TYPES[each] for each in annotation.split(" | "))


@functools.cache
def _plain_fields(kind: Any) -> list[tuple[str, str]]:
    """The names and annotations of the fields of a dataclass whose types are plain."""
    annotations = [(each.name, str(each.type)) for each in fields(kind)]
    return [each for each in annotations if set(each[1].split(" | ")) <= _WORDS.keys()]


def check_list(name: str, values: object) -> None:
    """Raise UsageError if an argument that takes several values is a single one."""
    if isinstance(values, (Mapping, str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"{name}: give a list, not a single {type(values).__name__}")
