"""The index mapping: our fields, and `IndexMeta`, which lies beside them in `_meta`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import SchemeMismatch, StoreError, UsageError
from esdedup.models import FIELD, MARKS, tokens_in
from esdedup.sketch.kinds.base import ValueField
from esdedup.sketch.scheme import KINDS, Scheme, is_token_field
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.fields import quoted, text_at
from esdedup.stores.stop_list import stop_entries

TOKEN_PATHS = [f"{FIELD}*.{name}*" for name, kind in KINDS.items() if not kind.by_server]
"""The lists of tokens, which queries leave out of the documents they return."""
META_SECONDS = 10.0
"""Seconds after which an open index reads its `IndexMeta` again, because others may change it."""
_FIELD_NAME = re.compile(f"{FIELD}[A-Za-z0-9_]*")

TextFields = str | Sequence[str]
"""The name of the field with the text, or the names of several."""


@dataclass(frozen=True)
class IndexMeta:
    """An index's own description of its tokens.

    scheme: made the tokens of the text. text_fields: the fields that hold the text, in the order in
    which they are joined (`fields.text_at`). field: the object field that holds the tokens. next:
    of the tokens that are filled beside them while the index changes its scheme. stop: tokens that
    searches leave out (`stop_list.stop_entries`). others: sketches of other fields, one scheme for
    each set of fields; they are removed from a scheme that has them. marks_in: the field of groups
    and marks, if it is not `field`. external_versions: the owner of the index numbers the versions
    of its documents (`version_type`), so that changes of ours must keep the numbers. attached: the
    index was there before its tokens, so that its owner gives documents their ids; earlier versions
    did not store this. Raises UsageError for names that can't be fields, and if the first sketch is
    of other fields.
    """

    scheme: Scheme
    text_fields: tuple[str, ...] = ("text",)
    field: str = FIELD
    next: IndexMeta | None = None
    stop: tuple[str, ...] = ()
    others: tuple[Scheme, ...] = ()
    marks_in: str | None = None
    external_versions: bool = False
    attached: bool = False

    def __post_init__(self) -> None:
        by_fields = self.scheme.of_fields()
        first, *others = by_fields
        if first not in ((), self.text_fields):
            raise UsageError(
                f"sketch {self.scheme.sketches[0].name!r} is of {quoted(first)}: the first sketch"
                f" is of the index's text, {quoted(self.text_fields)}"
            )
        if others:
            object.__setattr__(self, "scheme", by_fields[first])
            object.__setattr__(self, "others", tuple(by_fields[names] for names in others))
        if not _FIELD_NAME.fullmatch(self.field):
            raise UsageError(f"field {self.field!r}: use {FIELD} or {FIELD}_something")
        names: tuple[str, ...] = tuple(map(str, names_of(self.text_fields)))
        if (one := self.scheme.sketches[0]).reads_values:
            if len(names) > 1:
                raise UsageError(f"sketch {one.name!r} is of one field, not {quoted(names)}")
            names = (ValueField.of(names[0], one),)
        object.__setattr__(self, "text_fields", names)

    @property
    def whole(self) -> Scheme:
        """The scheme with the sketches of all fields."""
        if not self.others:
            return self.scheme
        more = (each for scheme in self.others for each in scheme.sketches)
        return self.scheme.only(*self.scheme.sketches, *more)

    @property
    def analyzed(self) -> str:
        """The field that the index computes tokens of: below the text, or a copy of several."""
        if len(self.text_fields) == 1:
            return f"{self.text_fields[0]}.{FIELD}"
        return f"{self.field}_{self.scheme.sketches[0].name}"

    @property
    def marks_field(self) -> str:
        """The object field that holds groups and marks."""
        return self.marks_in or self.field

    def ours_in(self, source: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values of ours in a document: tokens and marks."""
        tokens, marks = (tokens_in(source, each) for each in (self.field, self.marks_field))
        digest = {"digest": self.digest_in(source)} if self.scheme.by_server else {}
        return {**tokens, **digest, **{name: marks[name] for name in MARKS if name in marks}}

    def digest_in(self, source: Mapping[str, Any]) -> Any:
        """Return the digest of a document's text, with the fields of `digest_paths`, or None."""
        if not self.scheme.by_server:
            return tokens_in(source, self.field).get("digest")
        if (text := text_at(source, self.text_fields)) is None:
            return None
        return normalised_digests([text], self.scheme.normalisation)[1][0]

    @property
    def digest_paths(self) -> list[str]:
        """The dotted names of the fields that `digest_in` reads."""
        return [*self.text_fields] if self.scheme.by_server else [f"{self.field}.digest"]

    def fields_of(self, tokens: Mapping[str, Any], marks: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a document that hold tokens and marks."""
        if self.field == self.marks_field:
            return {self.field: {**tokens, **marks}}
        return {self.field: {**tokens}, **({self.marks_field: {**marks}} if marks else {})}

    @property
    def parts(self) -> list[IndexMeta]:
        """One for each set of fields. Tokens of other fields are in objects of their own."""
        if not self.others:
            return [self]
        found = [replace(self, others=())]
        for scheme in self.others:
            first = scheme.sketches[0]
            field = f"{self.field}_{first.name}"
            own = IndexMeta(scheme, tuple(first.fields), field, self.next, stop=self.stop)
            found.append(replace(own, marks_in=self.marks_field))
        return found

    def of(self, sketch: str | None) -> IndexMeta:
        """Return the part that holds a sketch, the first by default. Raises UsageError."""
        if not self.others:
            return self
        name = self.whole.sketch(sketch).name
        return next(part for part in self.parts if name in part.scheme.names)

    @property
    def all(self) -> list[IndexMeta]:
        """The parts of this and of the next one: a document that is written has tokens of each."""
        return self.parts if self.next is None else [*self.parts, *self.next.parts]

    @property
    def written(self) -> list[IndexMeta]:
        """The parts of `all` whose tokens are in documents."""
        return [each for each in self.all if not each.scheme.by_server]

    def to_json(self) -> dict[str, Any]:
        document = {
            "id": self.whole.id,
            "text_fields": list(self.text_fields),
            "field": self.field,
            "scheme": self.whole.to_json(),
            "next": self.next and self.next.to_json(),
            "stop": list(self.stop),
            "marks_in": self.marks_in,
            "external_versions": self.external_versions,
            "attached": self.attached,
        }
        return {name: value for name, value in document.items() if value}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> IndexMeta:
        """The inverse of `to_json`. Raises UsageError for another form."""
        try:
            scheme, following = Scheme.from_json(document["scheme"]), document.get("next")
            return IndexMeta(
                scheme,
                tuple(document["text_fields"]),
                document["field"],
                None if following is None else IndexMeta.from_json(following),
                stop_entries(document.get("stop", []), scheme),
                marks_in=document.get("marks_in"),
                external_versions=document.get("external_versions") is True,
                attached=document.get("attached") is True,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"another version of {FIELD} made the index: use that version, or index the"
                " documents again, see docs/how-to/upgrade.md"
            ) from error

    def holds(self, other: IndexMeta) -> bool:
        """Return whether `require` accepts another one."""
        same = self.text_fields == other.text_fields and self.field == other.field
        return same and self.whole.id == other.whole.id

    def require(self, other: IndexMeta, where: str) -> None:
        """Raise SchemeMismatch if `other` differs from this. where: the store that holds this."""
        self.whole.require(other.whole, where)
        if self.text_fields != other.text_fields:
            raise SchemeMismatch(
                f"{where} has tokens of {quoted(self.text_fields)}, not"
                f" {quoted(other.text_fields)}: leave the text field out, or use another index"
            )
        if self.field != other.field:
            raise SchemeMismatch(
                f"{where} has its tokens in the field {self.field!r}, not {other.field!r}"
            )


def names_of(text_field: TextFields) -> tuple[str, ...]:
    """Return the names of one or several text fields. Raises UsageError for others."""
    names = (text_field,) if isinstance(text_field, str) else text_field
    check_list("text field", names)
    names = tuple(names)
    for name in names or ("",):
        check_type("text field", name, "str")
        if not name or _FIELD_NAME.fullmatch(name.split(".")[0]):
            raise UsageError(f"text field {name!r}: name a field of your documents")
        if names.count(name) > 1:
            raise UsageError(f"text field {name!r}: name it once")
    return names


def field_mapping(scheme: Scheme, *, doc_values: bool = False) -> dict[str, Any]:
    """Return the mapping of the object field that holds our tokens.

    doc_values: of every field, for an index that rebuilds `_source` from them.
    """
    document = _mapping()
    document["properties"] |= {
        each.key: {"type": "keyword", "doc_values": False, "norms": False}
        for each in scheme.sketches
    }
    return _with_doc_values(document) if doc_values else document


def _with_doc_values(document: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping of a field of ours without the settings that leave doc values out."""
    properties = {
        name: {setting: value for setting, value in field.items() if setting != "doc_values"}
        for name, field in document["properties"].items()
    }
    return {**document, "properties": properties}


def has_doc_values(meta: IndexMeta, mapping: Mapping[str, Any]) -> bool:
    """Return whether the fields of ours in the mapping of an index have doc values."""
    fields = [mapping.get("properties", {}).get(part.field, {}) for part in meta.all]
    digests = [field.get("properties", {}).get("digest") for field in fields]
    return any(
        digest is not None and str(digest.get("doc_values", "true")).lower() == "true"
        for digest in digests
    )


def _mapping(names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the mapping of a field of ours without tokens. names: of its values; none for all."""
    text = files("esdedup.mappings").joinpath("document.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    for name in document["properties"].keys() - (names or document["properties"].keys()):
        del document["properties"][name]
    return document


def index_mapping(
    meta: IndexMeta,
    mapping: Mapping[str, Any] = MappingProxyType({}),
    *,
    doc_values: bool = False,
) -> dict[str, Any]:
    """Return the mapping to put: our fields, and `_meta` with the values of others in it.

    mapping: of the index, to which this is added. doc_values: as of `field_mapping`; True for a
    mapping whose fields of ours have them.
    """
    doc_values = doc_values or has_doc_values(meta, mapping)
    properties: dict[str, Any] = {
        meta.marks_field: _mapping(MARKS),
        **{
            part.field: field_mapping(part.scheme, doc_values=doc_values)
            for part in meta.all
            if not part.scheme.by_server
        },
    }
    for one in meta.all:
        if one.scheme.by_server:
            _add_analyzed(properties, one, dict(fields_of(mapping)))
    return {"_meta": {**mapping.get("_meta", {}), FIELD: meta.to_json()}, "properties": properties}


def _add_analyzed(
    properties: dict[str, Any], meta: IndexMeta, fields: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add the field whose tokens the index computes. fields: of the mapping, by dotted name."""
    (analyzer,) = meta.scheme.analysis["analyzer"]
    analyzed = {
        "type": "text",
        "analyzer": analyzer,
        "index_options": "docs",
        "norms": False,
        # A score is then the number of tokens that a document shares.
        "similarity": "boolean",
    }
    several = len(meta.text_fields) > 1
    if several:
        properties[meta.analyzed] = analyzed
    for name in meta.text_fields:
        found, at = fields.get(name, {"type": "text"}), properties
        *objects, last = name.split(".")
        for each in objects:
            at = at.setdefault(each, {"properties": {}})["properties"]
        if several:
            copies = found.get("copy_to", [])
            others = [each for each in copies if each != meta.analyzed]
            at[last] = {**found, "copy_to": [*others, meta.analyzed]}
        else:
            at[last] = {**found, "fields": {**found.get("fields", {}), FIELD: analyzed}}


def analysis_of(meta: IndexMeta) -> dict[str, Any]:
    """Return the setting `analysis` of an index that computes tokens; nothing of others."""
    made: dict[str, Any] = {}
    for one in meta.parts:
        if one.scheme.by_server:
            for kind, named in one.scheme.analysis.items():
                made.setdefault(kind, {}).update(named)
    return made


def uncomputed(meta: IndexMeta, mapping: Mapping[str, Any]) -> list[str]:
    """Return the text fields that an index should compute tokens of, and does not.

    An index template that maps such a field replaces what a component template adds to it.
    """
    if not (parts := [one for one in meta.parts if one.scheme.by_server]):
        return []
    found, properties = dict(fields_of(mapping)), dict[str, Any]()
    for one in parts:
        _add_analyzed(properties, one, found)
    whole = dict(fields_of({"properties": properties}))
    return [name for one in parts for name in one.text_fields if whole[name] != found.get(name)]


def fields_of(
    mapping: Mapping[str, Any], prefix: str = "", *, nested: bool = True
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield fields and objects by their dotted names. nested: also those below nested objects."""
    for name, field in mapping.get("properties", {}).items():
        yield f"{prefix}{name}", field
        if nested or field.get("type") != "nested":
            yield from fields_of(field, f"{prefix}{name}.", nested=nested)


def meta_of(mapping: Mapping[str, Any]) -> IndexMeta | None:
    """Read our part of a mapping's `_meta`; None if there is none. Raises UsageError."""
    stored = (mapping.get("_meta") or {}).get(FIELD)
    return None if stored is None else IndexMeta.from_json(stored)


def common_meta(mappings: Mapping[str, Mapping[str, Any]], name: str) -> IndexMeta | None:
    """Return the `IndexMeta` that all indices behind a name share, or None if none has any.

    mappings: by index. Stop lists may differ, because indices are made at different times: a token
    that one index stops is stopped. Raises SchemeMismatch if they differ in anything else, and
    StoreError if only some have an `IndexMeta`, or an index does not compute its tokens.
    """
    metas = {index: meta_of(mapping) for index, mapping in sorted(mappings.items())}
    attached = {index: meta for index, meta in metas.items() if meta is not None}
    if not attached:
        return None
    if bare := sorted(metas.keys() - attached.keys()):
        raise StoreError(
            f"{name!r} names {len(metas)} indices, and {', '.join(bare)} has no esdedup field: run"
            f" `esdedup attach --index {name}`"
        )
    for index, meta in attached.items():
        if lost := uncomputed(meta, mappings[index]):
            raise StoreError(
                f"index {index!r} computes no tokens of {lost[0]!r}: its mapping lacks what {FIELD}"
                " adds to this field, as if an index template that maps the field replaced it."
                " Remove the field from such a template, and run"
                f" `esdedup attach --index {name}` and `esdedup backfill --index {name}`"
            )
    # During a change of the scheme, some indices may be a step further than others. All of them
    # have the old tokens until its end, and all have the next tokens only if each has the field.
    behind = [(meta, meta.next) for meta in attached.values() if meta.next is not None]
    for meta, following in behind:
        if any(following.holds(each) for each in attached.values()):
            return _with_values_of_all(meta, attached.values())
    (first, own), *others = attached.items()
    for index, meta in others:
        own.require(meta, f"{first}, beside {index} behind {name!r},")
    own = replace(own, next=own.next if len(behind) == len(attached) else None)
    return _with_values_of_all(own, attached.values())


def _with_values_of_all(meta: IndexMeta, metas: Collection[IndexMeta]) -> IndexMeta:
    """Join the stop lists of all that hold the same tokens. One attached index makes all so."""
    same = [
        other for other in metas if (other.whole.id, other.field) == (meta.whole.id, meta.field)
    ]
    return replace(
        meta,
        stop=tuple(sorted({entry for other in same for entry in other.stop})),
        attached=any(other.attached for other in metas),
    )


def without_tokens(source: Mapping[str, Any], kept: str = "") -> dict[str, Any]:
    """Return a document's fields without its lists of tokens. kept: name of one that stays."""
    fields = dict(source)
    for name in source:
        if name.startswith(FIELD) and (ours := tokens_in(source, name)):
            names = (key for key in ours if key == kept or not is_token_field(key))
            fields[name] = {key: ours[key] for key in names}
    return fields
