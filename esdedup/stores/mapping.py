"""The index mapping: our fields, and what is stored beside them in `_meta`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from esdedup.exceptions import SchemeMismatch, StoreError, UsageError
from esdedup.models import FIELD, TOKEN_KINDS
from esdedup.sketch.scheme import Scheme
from esdedup.stores.stop_list import stored_stop

TOKEN_PATHS = [f"{FIELD}*.{kind}" for kind in TOKEN_KINDS]
"""What queries leave out of the documents they return, whatever the field's name."""
_FIELD_NAME = re.compile(f"{FIELD}[A-Za-z0-9_]*")


@dataclass(frozen=True)
class IndexMeta:
    """What an index says of its tokens.

    scheme: what made them. text_field: the field that holds the text. field: the object field that
    holds them. While an index changes its scheme, next: what is being filled beside them; then
    former: the field that is to be emptied. spent: fields that were emptied so, free to be used.
    stop: tokens of this scheme that searches leave out (`stoplist.stop_entries`).

    Raises UsageError for names that can't be fields.
    """

    scheme: Scheme
    text_field: str = "text"
    field: str = FIELD
    next: IndexMeta | None = None
    former: str | None = None
    spent: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _FIELD_NAME.fullmatch(self.field):
            raise UsageError(f"field {self.field!r}: use {FIELD} or {FIELD}_something")
        if not self.text_field or _FIELD_NAME.fullmatch(self.text_field.split(".")[0]):
            raise UsageError(f"text field {self.text_field!r}: name a field of your documents")

    @property
    def all(self) -> list[IndexMeta]:
        """This, and the next one where there is one: what a document to be written needs."""
        return [self] if self.next is None else [self, self.next]

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        document: dict[str, Any] = {
            "id": self.scheme.id,
            "text_field": self.text_field,
            "field": self.field,
            "scheme": self.scheme.to_json(),
        }
        if self.next is not None:
            document["next"] = self.next.to_json()
        if self.former is not None:
            document["former"] = self.former
        if self.spent:
            document["spent"] = list(self.spent)
        if self.stop:
            document["stop"] = list(self.stop)
        return document

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> IndexMeta:
        """The inverse of `to_json`. Raises UsageError for another form."""
        if not isinstance(document, Mapping) or "scheme" not in document:
            raise UsageError("the index's _meta.esdedup is not of this esdedup")
        following = document.get("next")
        scheme = Scheme.from_json(document["scheme"])
        return IndexMeta(
            scheme,
            str(document["text_field"]),
            str(document.get("field", FIELD)),
            None if following is None else IndexMeta.from_json(following),
            document.get("former"),
            tuple(document.get("spent", ())),
            stored_stop(document.get("stop", []), scheme),
        )

    def require(self, other: IndexMeta, where: str) -> None:
        """Raises SchemeMismatch where `other` differs from this, what `where` holds."""
        self.scheme.require(other.scheme, where)
        if self.text_field != other.text_field:
            raise SchemeMismatch(
                f"{where} has tokens of the field {self.text_field!r}, not {other.text_field!r}:"
                " leave the text field out, or use another index"
            )
        if self.field != other.field:
            raise SchemeMismatch(
                f"{where} has its tokens in the field {self.field!r}, not {other.field!r}"
            )


def _template(name: str) -> dict[str, Any]:
    text = files("esdedup.mappings").joinpath(f"{name}.json").read_text("utf-8")
    template: dict[str, Any] = json.loads(text)
    return template


def field_mapping(scheme: Scheme) -> dict[str, Any]:
    """The mapping of the object field that holds our tokens."""
    mapping = _template("document")
    for kind in scheme.kinds:
        mapping["properties"].update(_template(kind)["properties"])
    return mapping


def index_mapping(meta: IndexMeta, other_meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The mapping to put: our fields, and `_meta` with what others keep there left as it is."""
    return {
        "_meta": {**(other_meta or {}), FIELD: meta.to_json()},
        "properties": {one.field: field_mapping(one.scheme) for one in meta.all},
    }


def meta_of(mapping: Mapping[str, Any]) -> IndexMeta | None:
    """What a stored mapping's `_meta` says, or None where it says nothing of ours.

    Raises UsageError where it can't be read.
    """
    stored = mapping.get("_meta", {}).get(FIELD)
    return None if stored is None else IndexMeta.from_json(stored)


def common_meta(mappings: Mapping[str, Mapping[str, Any]], name: str) -> IndexMeta | None:
    """What all the indices behind a name say, or None where none says anything.

    mappings: by index. Their stop lists may differ, as one may have come later: what one of them
    stops is stopped. Raises SchemeMismatch where they differ in anything else, StoreError where
    only some say.
    """
    metas = {index: meta_of(mapping) for index, mapping in mappings.items()}
    attached = {index: meta for index, meta in metas.items() if meta is not None}
    if not attached:
        return None
    if bare := sorted(metas.keys() - attached.keys()):
        raise StoreError(
            f"{name!r} names {len(metas)} indices, and {', '.join(bare)} has no esdedup field:"
            f" esdedup attach --index {name}"
        )
    metas_by_name = dict(sorted(attached.items()))
    # While an index changes its scheme, some may be a step further than others. The old tokens
    # are in all of them until the change is at its end, and the next only when each has the field.
    behind = {index: meta for index, meta in metas_by_name.items() if meta.next is not None}
    for meta in behind.values():
        if any(_is_ahead(other, meta) for other in metas_by_name.values()):
            return _with_all_stops(meta, attached.values())
    first, *others = metas_by_name
    for index in others:
        attached[first].require(attached[index], f"{first}, beside {index} behind {name!r},")
    former = {meta.former for meta in attached.values()} - {None}
    common = replace(
        attached[first],
        next=attached[first].next if len(behind) == len(attached) else None,
        former=min(former, default=None, key=str),
    )
    return _with_all_stops(common, attached.values())


def _with_all_stops(meta: IndexMeta, metas: Iterable[IndexMeta]) -> IndexMeta:
    """With the stop lists of all that hold the same tokens."""
    same = [each for each in metas if (each.scheme.id, each.field) == (meta.scheme.id, meta.field)]
    return replace(meta, stop=tuple(sorted({entry for each in same for entry in each.stop})))


def _is_ahead(other: IndexMeta, meta: IndexMeta) -> bool:
    """Whether another index has made the change already that this one is in."""
    return (
        meta.next is not None
        and other.scheme.id == meta.next.scheme.id
        and (other.field, other.former) == (meta.next.field, meta.field)
    )


META_SECONDS = 10.0
"""How long what an index says of its tokens is taken to hold: its scheme may be changed by others
while it is open."""
