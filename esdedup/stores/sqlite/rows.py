"""Documents as rows of the local store's tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from esdedup.exceptions import RecordError
from esdedup.models import FIELD, TOKEN_KINDS, Document
from esdedup.stores.fields import only
from esdedup.stores.to_json import to_json

_VARIABLES = 500
"""Values an SQL statement takes at once; SQLite's own limit is far above."""


def as_document(id: str, source: str, tokens: str) -> Document:
    """A document as callers get it, without its lists of tokens."""
    kept = {name: value for name, value in json.loads(tokens).items() if name not in TOKEN_KINDS}
    return Document(id, {**json.loads(source), **({FIELD: kept} if kept else {})})


def is_ours(path: str) -> bool:
    """Whether a dotted name is that of our field, or of one within."""
    return path.split(".")[0] == FIELD


def columns_for(paths: list[str]) -> tuple[str, Callable[[str, str], dict[str, Any]]]:
    """The column of a document's own fields, in SQL, and what chooses fields of both columns.

    The own fields need not be read for the sake of ours.
    """
    names = {path: path.removeprefix(f"{FIELD}.") for path in paths}
    if all(path == f"{FIELD}.{name}" and "." not in name for path, name in names.items()):

        def of_tokens(_: str, tokens: str) -> dict[str, Any]:
            found = json.loads(tokens)
            return {path: found[name] for path, name in names.items() if name in found}

        return "NULL", of_tokens
    return "source", lambda source, tokens: only(
        {**json.loads(source), FIELD: json.loads(tokens)}, paths
    )


def merged(old: Any, new: Any) -> Any:
    """As a cluster merges a partial document."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def as_columns(document: Document) -> tuple[str, str, str | None, str]:
    """The columns of a document: id, fields, scheme, tokens.

    Raises RecordError for what can't be stored.
    """
    if not is_unicode(document.id):
        raise RecordError(f"document {document.id!r}: the id is no valid Unicode")
    source = {name: value for name, value in document.source.items() if name != FIELD}
    return (
        document.id,
        to_json(source, f"document {document.id!r}"),
        document.tokens.get("scheme"),
        json.dumps(document.tokens),
    )


def chunks(values: Sequence[str]) -> Iterator[list[str]]:
    """So few ids at a time as one statement takes."""
    # What is no Unicode can't be stored, so that it can't be found either.
    known = [value for value in values if is_unicode(value)]
    return (known[i : i + _VARIABLES] for i in range(0, len(known), _VARIABLES))


def is_unicode(text: str) -> bool:
    """Whether a text is free of half surrogate pairs, which neither SQLite nor JSON take."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def marks(values: Sequence[object]) -> str:
    """The place holders for values in a statement."""
    return ",".join("?" * len(values))
