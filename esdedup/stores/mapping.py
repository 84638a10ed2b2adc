"""The index mapping: our fields, and `IndexMeta`, which lies beside them in `_meta`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import SchemeMismatch, StoreError, UsageError
from esdedup.models import FIELD, MARKS, Fields, tokens_in
from esdedup.sketch.kinds.base import ValueField
from esdedup.sketch.scheme import KINDS, Scheme, is_token_field
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.fields import quoted, shown_text, text_at
from esdedup.stores.stop_list import stop_entries
from esdedup.text.characters import count

TOKEN_NAMES = [name for name, kind in KINDS.items() if not kind.by_server]
"""How the names of the lists of tokens in documents begin."""
_FIELD_NAME = re.compile(f"{FIELD}[A-Za-z0-9_]*")

IndexMapping = Mapping[str, Any]
"""The mapping of an index, of a field or of properties, as servers have it in JSON."""
NewMapping = dict[str, Any]
"""A mapping to send."""

TextFields = str | Sequence[str]
"""The name of the field with the text, or the names of several."""


@dataclass(frozen=True)
class SketchedFields:
    """Fields of documents that are sketched as one text, and the fields of ours for them.

    scheme: the sketches of the text, which are its tokens.
    text_fields: the fields that hold the text, in the order in which they are joined
        (`fields.text_at`).
    field: the object field that holds the tokens.
    stop: tokens that searches leave out (`stop_list.stop_entries`).
    marks_in: the field of groups and marks, if it is not `field`.

    Raises UsageError for names that can't be fields.
    """

    scheme: Scheme
    text_fields: tuple[str, ...] = ("text",)
    field: str = FIELD
    stop: tuple[str, ...] = ()
    marks_in: str | None = None

    def __post_init__(self) -> None:
        if not _FIELD_NAME.fullmatch(self.field):
            raise UsageError(f"field {self.field!r}: use {FIELD} or {FIELD}_something")
        names: tuple[str, ...] = tuple(map(str, names_of(self.text_fields)))
        if (sketch := self.scheme.sketches[0]).reads_values:
            if len(names) > 1:
                raise UsageError(f"sketch {sketch.name!r} is of one field, not {quoted(names)}")
            names = (ValueField.of(names[0], sketch),)
        object.__setattr__(self, "text_fields", names)

    @property
    def in_documents(self) -> bool:
        """Whether documents hold the tokens; else the index computes them."""
        return not self.scheme.by_server

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

    def ours_in(self, source: Mapping[str, object]) -> Mapping[str, Any]:
        """Return the values of ours in a document: tokens and marks."""
        tokens, marks = tokens_in(source, self.field), tokens_in(source, self.marks_field)
        digest = {} if self.in_documents else {"digest": self.digest_in(source)}
        return {**tokens, **digest, **{name: marks[name] for name in MARKS if name in marks}}

    def text_at(self, source: Mapping[str, object]) -> str | None:
        """Return the text of a document, or None if it has none."""
        return text_at(source, self.text_fields)

    def shown_text(self, source: Mapping[str, object]) -> str:
        """Return the text of a document as people read it; an empty one if it has none."""
        return shown_text(source, self.text_fields)

    def digest_in(self, source: Mapping[str, object]) -> Any:
        """Return the digest of a document's text, with the fields of `digest_paths`, or None."""
        if self.in_documents:
            return tokens_in(source, self.field).get("digest")
        if (text := text_at(source, self.text_fields)) is None:
            return None
        return normalised_digests([text], self.scheme.normalisation)[1][0]

    @property
    def digest_paths(self) -> list[str]:
        """The dotted names of the fields that `digest_in` reads."""
        return [f"{self.field}.digest"] if self.in_documents else [*self.text_fields]

    def fields_of(
        self, tokens: Mapping[str, object], marks: Mapping[str, object]
    ) -> dict[str, dict[str, object]]:
        """Return the fields of a document that hold tokens and marks."""
        if self.field == self.marks_field:
            return {self.field: {**tokens, **marks}}
        return {self.field: {**tokens}, **({self.marks_field: {**marks}} if marks else {})}


@dataclass(frozen=True)
class IndexMeta(SketchedFields):
    """An index's own description of its tokens: of its text, and of other fields.

    next: of the tokens that are filled beside them while the index changes its scheme.
    other_schemes: sketches of other fields, one scheme for each set of fields. They are removed
        from a scheme that has them.
    external_versions: whether the owner of the index numbers the versions of its documents
        (`version_type`), so that changes of ours must keep the numbers.
    attached: whether the index was there before its tokens, so that its owner gives documents their
        ids. Earlier versions did not store this.
    whole: the description of all fields, if this is of those of a sketch alone (`of`).

    Raises UsageError for names that can't be fields, and if the first sketch is of other fields.
    """

    next: IndexMeta | None = None
    other_schemes: tuple[Scheme, ...] = ()
    external_versions: bool = False
    attached: bool = False
    whole: IndexMeta | None = None

    def __post_init__(self) -> None:
        by_fields = self.scheme.of_fields()
        first, *other_fields = by_fields
        if first not in ((), self.text_fields):
            raise UsageError(
                f"sketch {self.scheme.sketches[0].name!r} is of {quoted(first)}: the first sketch"
                f" is of the index's text, {quoted(self.text_fields)}"
            )
        if other_fields:
            object.__setattr__(self, "scheme", by_fields[first])
            schemes = tuple(by_fields[names] for names in other_fields)
            object.__setattr__(self, "other_schemes", schemes)
        super().__post_init__()

    @property
    def full_scheme(self) -> Scheme:
        """The scheme with the sketches of all fields."""
        if not self.other_schemes:
            return self.scheme
        schemes = self.scheme, *self.other_schemes
        return self.scheme.only(*(sketch for scheme in schemes for sketch in scheme.sketches))

    @cached_property
    def sketched(self) -> tuple[SketchedFields, ...]:
        """The fields of the text, and each other set of fields that is sketched.

        Tokens of other fields are in objects of their own.
        """
        text = SketchedFields(self.scheme, self.text_fields, self.field, self.stop, self.marks_in)
        other_fields = (
            SketchedFields(
                scheme,
                tuple(scheme.sketches[0].fields),
                f"{self.field}_{scheme.sketches[0].name}",
                self.stop,
                self.marks_field,
            )
            for scheme in self.other_schemes
        )
        return (text, *other_fields)

    @property
    def sketched_with_next(self) -> tuple[SketchedFields, ...]:
        """The sketched fields of this and of the next scheme: a new document gets tokens of all."""
        return self.sketched if self.next is None else (*self.sketched, *self.next.sketched)

    def of(self, sketch: str | None) -> IndexMeta:
        """Return the description of the fields of a sketch alone, the first by default.

        Raises UsageError if there is no such sketch.
        """
        if not self.other_schemes:
            return self
        name = self.full_scheme.sketch(sketch).name
        if name in self.scheme.names:
            return replace(self, other_schemes=(), whole=self)
        fields = next(fields for fields in self.sketched if name in fields.scheme.names)
        return IndexMeta(
            fields.scheme,
            fields.text_fields,
            fields.field,
            fields.stop,
            fields.marks_in,
            next=self.next,
            whole=self,
        )

    @property
    def judged(self) -> tuple[SketchedFields, ...]:
        """Return the fields whose texts people judge, whatever sketch compares the documents.

        A document is judged by its text, and without one by the first other fields that it has.
        """
        return (self.whole or self).sketched

    @property
    def judged_paths(self) -> list[str]:
        """Return the dotted names of the fields that `judged_text` reads."""
        return [*dict.fromkeys(name for fields in self.judged for name in fields.text_fields)]

    def judged_text(self, source: Mapping[str, object]) -> str | None:
        """Return the text that judgements on a document are of, or None if there is none."""
        texts = (fields.text_at(source) for fields in self.judged)
        return next((text for text in texts if text is not None), None)

    def to_json(self) -> dict[str, object]:
        """Return the description as it is stored, without values that are the defaults."""
        document = {
            "id": self.full_scheme.id,
            "text_fields": list(self.text_fields),
            "field": self.field,
            "scheme": self.full_scheme.to_json(),
            "next": self.next and self.next.to_json(),
            "stop": list(self.stop),
            "marks_in": self.marks_in,
            "external_versions": self.external_versions,
            "attached": self.attached,
        }
        return {name: value for name, value in document.items() if value}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> IndexMeta:
        """Return what `to_json` described. Raises UsageError for another form."""
        try:
            scheme, following = Scheme.from_json(document["scheme"]), document.get("next")
            return IndexMeta(
                scheme,
                tuple(document["text_fields"]),
                document["field"],
                stop_entries(document.get("stop", []), scheme),
                document.get("marks_in"),
                next=None if following is None else IndexMeta.from_json(following),
                external_versions=document.get("external_versions") is True,
                attached=document.get("attached") is True,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"another version of {FIELD} made the index: use that version, or index the"
                " documents again, see docs/how-to/upgrade.md"
            ) from error

    def holds(self, requested: IndexMeta) -> bool:
        """Return whether `require` accepts another description."""
        has_fields = self.text_fields == requested.text_fields and self.field == requested.field
        return has_fields and self.full_scheme.id == requested.full_scheme.id

    def require(self, requested: IndexMeta, where: str) -> None:
        """Raise SchemeMismatch if another description differs. where: the store that holds this."""
        self.full_scheme.require(requested.full_scheme, where)
        if self.text_fields != requested.text_fields:
            raise SchemeMismatch(
                f"{where} has tokens of {quoted(self.text_fields)}, not"
                f" {quoted(requested.text_fields)}: leave the text field out, or use another index"
            )
        if self.field != requested.field:
            raise SchemeMismatch(
                f"{where} has its tokens in the field {self.field!r}, not {requested.field!r}"
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


def field_mapping(scheme: Scheme, *, doc_values: bool = False) -> NewMapping:
    """Return the mapping of the object field that holds our tokens.

    doc_values: of every field, for an index that rebuilds `_source` from them.
    """
    document = _mapping()
    document["properties"] |= {
        sketch.key: {"type": "keyword", "doc_values": False, "norms": False}
        for sketch in scheme.sketches
    }
    return _with_doc_values(document) if doc_values else document


def _with_doc_values(document: IndexMapping) -> NewMapping:
    """Return the mapping of a field of ours without the settings that leave doc values out."""
    properties = {
        name: {setting: value for setting, value in field.items() if setting != "doc_values"}
        for name, field in document["properties"].items()
    }
    return {**document, "properties": properties}


def has_doc_values(meta: IndexMeta, mapping: IndexMapping) -> bool:
    """Return whether the fields of ours in the mapping of an index have doc values."""
    fields = [mapping.get("properties", {}).get(part.field, {}) for part in meta.sketched_with_next]
    digests = [field.get("properties", {}).get("digest") for field in fields]
    return any(
        digest is not None and str(digest.get("doc_values", "true")).lower() == "true"
        for digest in digests
    )


def _mapping(names: Sequence[str] = ()) -> NewMapping:
    """Return the mapping of a field of ours without tokens. names: of its values; none for all."""
    text = files("esdedup.mappings").joinpath("document.json").read_text("utf-8")
    document: NewMapping = json.loads(text)
    for name in document["properties"].keys() - (names or document["properties"].keys()):
        del document["properties"][name]
    return document


def index_mapping(
    meta: IndexMeta,
    mapping: IndexMapping = MappingProxyType({}),
    *,
    doc_values: bool = False,
) -> NewMapping:
    """Return the mapping to put: our fields, and `_meta` with the values of others in it.

    mapping: of the index, to which this is added. doc_values: as of `field_mapping`; True for a
    mapping whose fields of ours have them.
    """
    doc_values = doc_values or has_doc_values(meta, mapping)
    properties: NewMapping = {
        meta.marks_field: _mapping(MARKS),
        **{
            part.field: field_mapping(part.scheme, doc_values=doc_values)
            for part in meta.sketched_with_next
            if part.in_documents
        },
    }
    for part in meta.sketched_with_next:
        if not part.in_documents:
            _add_analyzed(properties, part, dict(fields_of(mapping)))
    return {"_meta": {**mapping.get("_meta", {}), FIELD: meta.to_json()}, "properties": properties}


def _add_analyzed(
    properties: NewMapping, part: SketchedFields, fields: Mapping[str, IndexMapping]
) -> None:
    """Add the field whose tokens the index computes. fields: of the mapping, by dotted name."""
    (analyzer,) = part.scheme.analysis["analyzer"]
    analyzed = {
        "type": "text",
        "analyzer": analyzer,
        "index_options": "docs",
        "norms": False,
        # A score is then the number of tokens that a document shares.
        "similarity": "boolean",
    }
    is_copy = len(part.text_fields) > 1
    if is_copy:
        properties[part.analyzed] = analyzed
    for path in part.text_fields:
        field = fields.get(path, {"type": "text"})
        *objects, name = path.split(".")
        object_properties = properties
        for object_name in objects:
            mapped_object = object_properties.setdefault(object_name, {"properties": {}})
            object_properties = mapped_object["properties"]
        if is_copy:
            copies = [copy for copy in field.get("copy_to", []) if copy != part.analyzed]
            object_properties[name] = {**field, "copy_to": [*copies, part.analyzed]}
        else:
            subfields = {**field.get("fields", {}), FIELD: analyzed}
            object_properties[name] = {**field, "fields": subfields}


def analysis_of(meta: IndexMeta) -> NewMapping:
    """Return the setting `analysis` of an index that computes tokens; nothing for others."""
    analysis: NewMapping = {}
    for part in meta.sketched:
        if not part.in_documents:
            for kind, definitions in part.scheme.analysis.items():
                analysis.setdefault(kind, {}).update(definitions)
    return analysis


def holds_vectors(sketched: Iterable[SketchedFields]) -> bool:
    """Return whether one of some sketched fields of documents holds vectors."""
    return any(
        sketch.reads_values and not sketch.measure.by_values
        for part in sketched
        for sketch in part.scheme.sketches
    )


def uncomputed(meta: IndexMeta, mapping: IndexMapping) -> list[str]:
    """Return the text fields that an index should compute tokens of, and does not.

    An index template that maps such a field replaces what a component template adds to it.
    """
    computed = [part for part in meta.sketched if not part.in_documents]
    if not computed:
        return []
    fields, properties = dict(fields_of(mapping)), NewMapping()
    for part in computed:
        _add_analyzed(properties, part, fields)
    expected = dict(fields_of({"properties": properties}))
    names = [name for part in computed for name in part.text_fields]
    return [name for name in names if expected[name] != fields.get(name)]


def fields_of(
    mapping: IndexMapping, prefix: str = "", *, nested: bool = True
) -> Iterator[tuple[str, IndexMapping]]:
    """Yield fields and objects by their dotted names. nested: also those below nested objects."""
    for name, field in mapping.get("properties", {}).items():
        yield f"{prefix}{name}", field
        if nested or field.get("type") != "nested":
            yield from fields_of(field, f"{prefix}{name}.", nested=nested)


def mapped_fields(mappings: Mapping[str, IndexMapping]) -> set[str]:
    """Return the dotted names of the fields of mappings, without objects that have fields."""
    fields = itertools.chain.from_iterable(map(fields_of, mappings.values()))
    return {name for name, field in fields if "properties" not in field}


def meta_of(mapping: IndexMapping) -> IndexMeta | None:
    """Read our part of a mapping's `_meta`; None if there is none. Raises UsageError."""
    stored = (mapping.get("_meta") or {}).get(FIELD)
    return None if stored is None else IndexMeta.from_json(stored)


def common_meta(mappings: Mapping[str, IndexMapping], name: str) -> IndexMeta | None:
    """Return the `IndexMeta` that all indices behind a name share, or None if none has any.

    mappings: by index. Those without an `IndexMeta`, as after a rollover without its template, are
    left out (`unattached`), and so are those that do not compute their tokens. Stop lists may
    differ, because indices are made at different times: a token that one index stops is stopped.

    Raises SchemeMismatch if they differ in anything else, and StoreError if none computes its
    tokens.
    """
    left_out = unattached(mappings)
    metas = {
        index: meta_of(mapping)
        for index, mapping in sorted(mappings.items())
        if index not in left_out
    }
    attached = {index: meta for index, meta in metas.items() if meta is not None}
    if not attached:
        if any(meta_of(mapping) is not None for mapping in mappings.values()):
            require_attached(mappings, name)
        return None
    # During a change of the scheme, some indices may be a step further than others. All of them
    # have the old tokens until its end, and all have the next tokens only if each has the field.
    behind = [(meta, meta.next) for meta in attached.values() if meta.next is not None]
    for meta, following in behind:
        if any(map(following.holds, attached.values())):
            return _with_values_of_all(meta, attached.values())
    first, first_meta = next(iter(attached.items()))
    for index, meta in attached.items():
        first_meta.require(meta, f"{first}, beside {index} behind {name!r},")
    common_next = first_meta.next if len(behind) == len(attached) else None
    return _with_values_of_all(replace(first_meta, next=common_next), attached.values())


def unattached(mappings: Mapping[str, IndexMapping]) -> list[str]:
    """Return the indices without an `IndexMeta`, or that do not compute their tokens, sorted."""
    metas = {index: meta_of(mapping) for index, mapping in mappings.items()}
    return sorted(
        index for index, meta in metas.items() if meta is None or uncomputed(meta, mappings[index])
    )


def require_attached(mappings: Mapping[str, IndexMapping], name: str) -> None:
    """Raise StoreError if some indices behind a name lack our fields, as documents are written."""
    for index in unattached(mappings):
        meta = meta_of(mappings[index])
        if meta is None:
            raise StoreError(
                f"{name!r} names {count(len(mappings), 'index', 'indices')}, and {index} has no"
                f" esdedup field: run `esdedup attach -i {name}`"
            )
        missing = uncomputed(meta, mappings[index])
        raise StoreError(
            f"index {index!r} computes no tokens of {missing[0]!r}: its mapping lacks what"
            f" {FIELD} adds to this field, as if an index template that maps the field replaced"
            " it. Remove the field from such a template, and run"
            f" `esdedup attach -i {name}` and `esdedup backfill -i {name}`"
        )


def _with_values_of_all(meta: IndexMeta, metas: Collection[IndexMeta]) -> IndexMeta:
    """Join the stop lists of all that hold the same tokens. One attached index makes all so."""
    tokens = meta.full_scheme.id, meta.field
    stop_lists = [
        index_meta.stop
        for index_meta in metas
        if (index_meta.full_scheme.id, index_meta.field) == tokens
    ]
    return replace(
        meta,
        stop=tuple(sorted({entry for stop_list in stop_lists for entry in stop_list})),
        attached=any(index_meta.attached for index_meta in metas),
    )


def without_tokens(source: Mapping[str, object], token_list: str = "") -> Fields:
    """Return a document's fields without its lists of tokens, except one."""
    fields = dict(source)
    for name in source:
        if name.startswith(FIELD) and (ours := tokens_in(source, name)):
            keys = (key for key in ours if key == token_list or not is_token_field(key))
            fields[name] = {key: ours[key] for key in keys}
    return fields
