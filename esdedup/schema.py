"""The index mapping: our fields, and what is stored beside them in `_meta`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from esdedup.datatypes import FIELD
from esdedup.exceptions import SchemeMismatch, UsageError
from esdedup.scheme import Scheme

TOKEN_PATHS = [f"{FIELD}.minhash", f"{FIELD}.simhash"]
"""What queries leave out of the documents they return."""


@dataclass(frozen=True)
class IndexMeta:
    """What an index says of its tokens: their scheme, and the field that holds the text."""

    scheme: Scheme
    text_field: str = "text"

    def __post_init__(self) -> None:
        if not self.text_field or self.text_field.split(".")[0] == FIELD:
            raise UsageError(f"text field {self.text_field!r}: name a field of your documents")

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return {
            "id": self.scheme.id,
            "text_field": self.text_field,
            "scheme": self.scheme.to_json(),
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> IndexMeta:
        """The inverse of `to_json`. Raises UsageError for another form."""
        if not isinstance(document, Mapping) or "scheme" not in document:
            raise UsageError("the index's _meta.esdedup is not of this esdedup")
        return IndexMeta(Scheme.from_json(document["scheme"]), str(document["text_field"]))

    def require(self, other: IndexMeta, where: str) -> None:
        """Raises SchemeMismatch where `other` differs from this, what `where` holds."""
        self.scheme.require(other.scheme, where)
        if self.text_field != other.text_field:
            raise SchemeMismatch(
                f"{where} has tokens of the field {self.text_field!r}, not {other.text_field!r}:"
                " leave the text field out, or use another index"
            )


def _template(name: str) -> dict[str, Any]:
    text = files("esdedup.mappings").joinpath(f"{name}.json").read_text("utf-8")
    template: dict[str, Any] = json.loads(text)
    return template


def field_mapping(scheme: Scheme) -> dict[str, Any]:
    """The mapping of the object field that holds our tokens."""
    mapping = _template("document")
    for kind in ("minhash", "simhash"):
        if getattr(scheme, kind) is not None:
            mapping["properties"].update(_template(kind)["properties"])
    return mapping


def index_mapping(meta: IndexMeta, other_meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The mapping to put: our field, and `_meta` with what others keep there left as it is."""
    return {
        "_meta": {**(other_meta or {}), FIELD: meta.to_json()},
        "properties": {FIELD: field_mapping(meta.scheme)},
    }


def meta_of(mapping: Mapping[str, Any]) -> IndexMeta | None:
    """What a stored mapping's `_meta` says, or None where it says nothing of ours.

    Raises UsageError where it can't be read.
    """
    stored = mapping.get("_meta", {}).get(FIELD)
    return None if stored is None else IndexMeta.from_json(stored)
