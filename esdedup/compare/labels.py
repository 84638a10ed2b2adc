"""Values of fields that documents keep beside what is compared: labels, which results show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from esdedup.exceptions import UsageError
from esdedup.search.scopes import texts_of_value
from esdedup.stores.fields import quoted, value_at
from esdedup.stores.plain_values import is_nan
from esdedup.text.strings import Strings

_WITHOUT = ""
"""The stored labels of a document without any."""


def labels_of(label_fields: Sequence[str], sources: Iterable[Mapping[str, object]]) -> Strings:
    """Return the labels of documents: JSON of a list of their values, or an empty string."""
    return Strings.of(_stored(label_fields, source) for source in sources)


def _stored(label_fields: Sequence[str], source: Mapping[str, object]) -> str:
    values = [value_at(source, field) for field in label_fields]
    # A number that is none, as of a frame, is no label.
    labels = [None if is_nan(value) else value for value in values]
    if all(label is None for label in labels):
        return _WITHOUT
    return json.dumps(labels, default=str)


def require_labels(label_fields: Sequence[str], labels: Strings) -> Strings:
    """Return the labels of all documents. Raises UsageError if no document has one."""
    if len(labels) and not labels.raw.size:
        raise UsageError(f"no document has a value of {quoted(label_fields)}")
    return labels


def label_at(labels: Strings, row: int, position: int = 0) -> object:
    """Return a label of a document, None without one. position: among the fields."""
    stored = labels[row]
    return None if stored == _WITHOUT else json.loads(stored)[position]


def compared(label: object) -> tuple[str, ...]:
    """Return what is compared of a label: its values as texts, as of a scope; none without one."""
    return tuple(texts_of_value(label))
