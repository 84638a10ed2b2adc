"""Marks in the documents of others: put in beside what they hold, and taken away again.

A mark is a value below our field, such as a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esdedup.models import tokens_in
from esdedup.stores.fields import value_at

Marks = Mapping[str, Any]
"""Values by their names below our field."""


def differing(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """Those of the marks that a document has not; what it lacks need not be taken away."""
    if field in source:
        current = tokens_in(source, field)
    else:
        # Where only some fields were read, each may stand under its whole name.
        current = {name: value_at(source, f"{field}.{name}") for name in marks}
    return {name: value for name, value in marks.items() if current.get(name) != value}


def former(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """What a document has in the place of marks, as far as it has anything."""
    return {name: value for name, value in tokens_in(source, field).items() if name in marks}


def merging(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """The fields to merge into a document that is to get marks."""
    if isinstance(source.get(field), list):
        # An array of one object would be replaced by the object that is merged into it.
        return {field: [{**tokens_in(source, field), **marks}]}
    return {field: dict(marks)}


def replaced(source: Mapping[str, Any], field: str, marks: Marks, by: Marks) -> dict[str, Any]:
    """A whole document with other marks in the place of these."""
    kept = {name: value for name, value in tokens_in(source, field).items() if name not in marks}
    ours = {**kept, **by}
    return {**source, field: [ours] if isinstance(source.get(field), list) else ours}
