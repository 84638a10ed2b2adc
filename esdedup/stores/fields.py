"""Reads fields of documents by dotted name, and the text that documents are compared by."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from esdedup.exceptions import RecordError, UsageError
from esdedup.models import FIELD, Fields, tokens_in
from esdedup.sketch.kinds.base import ValueField

_MISSING = object()


def value_at(source: Mapping[str, object], path: str) -> Any:
    """Return the value of a field, or None if there is none.

    "a.b" names both the key "a.b" and the key "b" of the object "a", as it does for the servers. If
    "a" is a list of objects, the value is the list of their values.
    """
    value = _at(source, path)
    return None if value is _MISSING else value


def has_field(source: Mapping[str, object], path: str) -> bool:
    """Return whether a field is there, even if it, or an object that holds it, is null."""
    if _at(source, path) is not _MISSING:
        return True
    parent = path.rpartition(".")[0]
    return bool(parent) and has_field(source, parent) and value_at(source, parent) is None


def replaces_field(update: object, path: str) -> bool:
    """Return whether an update of a document replaces a field, which its object may hold.

    The servers merge objects only: another value, such as null or a list, replaces the former one.
    """
    if not isinstance(update, Mapping) or path in update:
        return True
    return any(
        character == "."
        and path[:cut] in update
        and replaces_field(update[path[:cut]], path[cut + 1 :])
        for cut, character in enumerate(path)
    )


def _at(source: object, path: str) -> object:
    if isinstance(source, list):
        values = [value for item in source if (value := _at(item, path)) is not _MISSING]
        return values or _MISSING
    if not isinstance(source, Mapping):
        return _MISSING
    if path in source:
        return source[path]
    # An object's own name may hold dots too, so every cut of the path is tried.
    for cut, character in enumerate(path):
        if character == "." and path[:cut] in source:
            value = _at(source[path[:cut]], path[cut + 1 :])
            if value is not _MISSING:
                return value
    return _MISSING


def only(source: Mapping[str, object], paths: Iterable[str]) -> Fields:
    """Return fields by their dotted names; those below a field of ours are in an object of it."""
    fields: Fields = {}
    for path in paths:
        field, dot, name = path.partition(".")
        if dot and field.startswith(FIELD):
            if name in (ours := tokens_in(source, field)):
                fields.setdefault(field, {})[name] = ours[name]
        elif (value := _at(source, path)) is not _MISSING:
            fields[path] = value
    return fields


def dotted_names(fields: object) -> Iterator[str]:
    """Yield the names of fields, and of those of their objects, which lists may hold."""
    if isinstance(fields, list):
        for item in fields:
            yield from dotted_names(item)
    elif isinstance(fields, Mapping):
        for name, value in fields.items():
            yield name
            yield from (f"{name}.{below}" for below in dotted_names(value))


def text_at(source: Mapping[str, object], text_fields: Sequence[str]) -> str | None:
    """Return the text of a document, or None if none of the fields holds a string.

    The strings of all fields are joined by line breaks: the fields in the given order, and the
    strings of a field in their own, from lists within lists too. Other values, such as numbers and
    nulls, are not text. A `ValueField` is alone, and its sketch writes the text.
    """
    if isinstance(text_fields[0], ValueField):
        return _value_of(source, text_fields[0])[0]
    if len(text_fields) == 1 and isinstance(text := source.get(text_fields[0]), str):
        return text  # Nearly every text is one string.
    strings = [text for field in text_fields for text in _strings(value_at(source, field))]
    return "\n".join(strings) if strings else None


def shown_paths(text_fields: Sequence[str]) -> list[str] | None:
    """Return the dotted names of the fields that `shown_text` reads; None for all.

    The text to show of a vector is in another field.
    """
    return None if isinstance(text_fields[0], ValueField) else [*text_fields]


def shown_text(source: Mapping[str, object], text_fields: Sequence[str]) -> str:
    """Return the text of a document as people read it; an empty one if it has none.

    A vector says nothing to a reader. So the text of such a document is the longest string of its
    other fields, or without any the first numbers of the vector.
    """
    text, first = text_at(source, text_fields) or "", text_fields[0]
    if not isinstance(first, ValueField):
        return text
    shown = first.sketch.measure.comparison.shown(text)
    if shown == text:
        return text
    strings = [
        string
        for name, value in source.items()
        if name != first and not name.startswith(FIELD)
        for string in _strings(value)
    ]
    return max(strings, key=len, default=shown)


def parts_of(source: Mapping[str, object], text_fields: Sequence[str]) -> int:
    """Return the number of strings that are joined to the text of a document."""
    if isinstance(text_fields[0], ValueField):
        return 1
    return sum(1 for field in text_fields for _ in _strings(value_at(source, field)))


def _value_of(source: Mapping[str, object], field: ValueField) -> tuple[str | None, str | None]:
    """Return the text of a field's value, or why it has none."""
    if (value := value_at(source, field)) is None:
        return None, None
    try:
        return field.sketch.text(value), None
    except RecordError as error:
        return None, f"the field {str(field)!r}: {error}"


def fault_in(source: Mapping[str, object], text_fields: Sequence[str]) -> str | None:
    """Return why a `ValueField` can't be read; None if it can, is missing, or there is none."""
    first = text_fields[0]
    return _value_of(source, first)[1] if isinstance(first, ValueField) else None


def text_in(text: str, text_fields: Sequence[str]) -> str:
    """Return the text of a query as documents have it.

    text: as the caller writes it, which for a `ValueField` is a string, or another value in JSON.

    Raises UsageError if a `ValueField` can't hold it.
    """
    first = text_fields[0]
    if not isinstance(first, ValueField):
        return text
    with suppress(RecordError):
        return first.sketch.text(text)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    try:
        return first.sketch.text(value)
    except RecordError as error:
        raise UsageError(str(error)) from error


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def text_of(source: Mapping[str, object], text_fields: Sequence[str]) -> str:
    """Return the text of a document. Raises RecordError if it has none."""
    text = text_at(source, text_fields)
    if text is not None:
        return text
    if fault := fault_in(source, text_fields):
        raise RecordError(fault)
    values = {field: value_at(source, field) for field in text_fields}
    kinds = {field: type(value).__name__ for field, value in values.items() if value is not None}
    if not kinds:
        verb = "are" if len(text_fields) > 1 else "is"
        raise RecordError(f"{quoted(text_fields)} {verb} missing or null")
    field, kind = next(iter(kinds.items()))
    is_what = "a list without text" if kind in ("list", "tuple") else f"not text but {kind}"
    raise RecordError(f"the field {field!r} is {is_what}")


def quoted(text_fields: Sequence[str]) -> str:
    """Return the names as messages give them."""
    word = "fields" if len(text_fields) > 1 else "field"
    return f"the {word} {', '.join(map(repr, text_fields))}"
