"""Reads fields of documents by dotted name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from esdedup.exceptions import RecordError

_MISSING = object()


def value_at(source: Mapping[str, Any], path: str) -> Any:
    """Returns the value of a field, or None if there is none.

    "a.b" names both the key "a.b" and the key "b" of the object "a", as it does for the servers.
    """
    direct = source.get(path)  # Nearly every field lies here.
    if direct is not None:
        return direct
    found = _at(source, path)
    return None if found is _MISSING else found


def has_field(source: Mapping[str, Any], path: str) -> bool:
    """Tells whether a field is there, even if it is null."""
    return _at(source, path) is not _MISSING


def _at(source: Any, path: str) -> Any:
    if not isinstance(source, Mapping):
        return _MISSING
    if path in source:
        return source[path]
    # An object's own name may hold dots too, so every cut of the path is tried.
    for cut, character in enumerate(path):
        if character == "." and path[:cut] in source:
            found = _at(source[path[:cut]], path[cut + 1 :])
            if found is not _MISSING:
                return found
    return _MISSING


def only(source: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """Returns the fields of the given dotted names, each under its whole name."""
    found = {path: _at(source, path) for path in paths}
    return {path: value for path, value in found.items() if value is not _MISSING}


def text_of(source: Any, text_field: str) -> str:
    """Returns the text of a document. Raises RecordError if it has none."""
    value = value_at(source, text_field)
    if value is None:
        raise RecordError(f"the field {text_field!r} is missing")
    if not isinstance(value, str):
        raise RecordError(f"the field {text_field!r} is not text but {type(value).__name__}")
    return value
