"""Turn records into documents, and add the tokens of their texts."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Literal, NamedTuple

import numpy as np

from esdedup.exceptions import RecordError
from esdedup.models import MARKS as MARKS
from esdedup.models import Document
from esdedup.records.files import BadRecord, Record, check_unicode
from esdedup.records.record_columns import RecordColumns
from esdedup.sketch.kinds.base import ValueField
from esdedup.sketch.packed import pack
from esdedup.sketch.scheme import KINDS, Scheme, is_token_field
from esdedup.sketch.sketch import Tokens, sketch, token_fields
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.fields import fault_in, replaces_field, text_at, text_of, value_at
from esdedup.stores.json_text import text_without
from esdedup.stores.mapping import IndexMeta, SketchedFields
from esdedup.stores.to_json import to_json
from esdedup.text.arrays import SeenValues

MAX_ID_BYTES = 512
TAKEN_BY_LINE = (
    "another text was indexed from this line of this file before; give the documents ids of their"
    " own (`id_field`)"
)
PATH = "path"
"""The `id_field` of records whose id is the field of this name, else the default one."""
OURS = ("scheme", "digest", "wordless", *KINDS)
"""The fields that any scheme computes from a text, without those of named sketches."""


def is_ours(name: str) -> bool:
    """Return whether a name below our field is that of a value computed from a text."""
    return name in OURS or is_token_field(name)


def tokens_of(texts: Sequence[str], scheme: Scheme) -> list[Tokens]:
    """Return the value of the field of tokens for each text; nothing if the index computes them."""
    if scheme.by_server:
        return [{} for _ in texts]
    return token_fields(sketch(texts, scheme), scheme)


def partial_document(
    fields: Mapping[str, object], id_field: str, meta: IndexMeta
) -> tuple[Document, bool]:
    """Return the fields to merge into a document, with new tokens if they hold the whole text.

    Returns True too if they hold only a part of it. Raises RecordError if the id is missing.
    """
    id = id_at(fields, id_field)
    names = [meta.marks_field, *(sketched.field for sketched in meta.sketched_with_next)]
    source = {**without(fields, names), **{name: fields[name] for name in names if name in fields}}
    has_part_of_text = False
    # These replace the marks of another text. The document is a group of its own.
    marks = {**dict.fromkeys(MARKS), "group": id}
    for sketched in meta.sketched_with_next:
        completeness = text_given(fields, sketched)
        has_part_of_text = has_part_of_text or completeness == "partly"
        if completeness == "wholly":
            text = text_at(fields, sketched.text_fields)
            tokens = {} if text is None else tokens_of([text], sketched.scheme)[0]
            new_tokens = merged_fields(tokens, sketched.scheme)
            source[sketched.field] = new_tokens
            if sketched.field == meta.field:
                source |= meta.fields_of(new_tokens, marks)
    return Document(id, source), has_part_of_text


def merged_fields(tokens: Mapping[str, object], scheme: Scheme) -> dict[str, object]:
    """Return the value of our field in an update, which merges objects: nulls remove old values."""
    if scheme.by_server:
        return {}
    return {**dict.fromkeys(("scheme", "digest", "wordless", *scheme.keys)), **tokens}


def text_given(
    fields: Mapping[str, object], sketched: SketchedFields
) -> Literal["wholly", "partly", "no"]:
    """Return whether the fields of an update hold all of the text fields, or only some of them."""
    is_given = [replaces_field(fields, name) for name in sketched.text_fields]
    return "wholly" if all(is_given) else "partly" if any(is_given) else "no"


class NewDocument(NamedTuple):
    """A record as a document.

    record: as it was read.
    id: of the document.
    has_own_id: whether the id is not computed from the record's line.
    text: of its text fields.
    """

    record: Record
    id: str
    has_own_id: bool
    text: str


@dataclass(frozen=True)
class DocumentColumns:
    """Records that all are documents, in columns.

    records: as they were read.
    ids: of the documents.
    have_own_ids: whether the ids are not computed from the records' lines.
    texts: of the text field.
    """

    records: RecordColumns
    ids: list[str]
    have_own_ids: bool
    texts: list[str]


def document_columns(
    records: RecordColumns, meta: IndexMeta, id_field: str | None
) -> DocumentColumns | None:
    """Return the documents of `documents_of`, for records that need no look at each.

    Return None if one record needs it: if a text or an id is missing, or of an unusual type, or if
    the index reads several fields of texts.
    """
    text_field, *other_fields = meta.text_fields
    if other_fields or len(meta.sketched_with_next) > 1 or isinstance(text_field, ValueField):
        return None
    values = records.values(id_field or "id")
    texts = [text for text in records.values(text_field) if type(text) is str]
    if not texts or len(texts) < len(values):
        return None
    types_of_ids = {*map(type, values)}
    if types_of_ids == {NoneType} and id_field is None:
        ids = [f"{records.file}:{line}" for line in records.lines]
    elif types_of_ids <= {str, int}:
        ids = [*map(str, values)]
    else:
        return None
    if not all(map(_is_usual_id, ids)):
        return None
    return DocumentColumns(records, ids, types_of_ids != {NoneType}, texts)


def _is_usual_id(id: str) -> bool:
    """Return whether an id is one that any index accepts, as nearly every id is."""
    return id.isascii() and 0 < len(id) <= MAX_ID_BYTES


def encoded_columns(documents: DocumentColumns, meta: IndexMeta) -> EncodedDocuments | None:
    """Return documents with tokens, as `encoded`; None if one has a field of ours."""
    records, (sketched,) = documents.records, meta.sketched_with_next
    if _ours_among(records.names(), meta):
        return None
    columns = {}
    if sketched.in_documents:
        columns[sketched.field] = sketched.scheme, _packed(documents.texts, sketched.scheme)
    return EncodedDocuments(documents.ids, [*records.json], columns, meta.marks_field)


def encoded(documents: Sequence[NewDocument], meta: IndexMeta) -> EncodedDocuments:
    """Return documents with tokens. Raises RecordError if a value has no form in JSON."""
    ours = _ours_among(set[str]().union(*(document.record.source for document in documents)), meta)
    sources = [_own_json(document, ours) for document in documents]
    columns = {}
    for sketched in meta.sketched_with_next:
        if not sketched.in_documents:
            continue
        texts: list[str | None] = [document.text for document in documents]
        if sketched.text_fields != meta.text_fields:
            # A document may lack another text, also while an index changes its text fields.
            texts = [
                text_at(document.record.source, sketched.text_fields) for document in documents
            ]
        columns[sketched.field] = sketched.scheme, _packed(texts, sketched.scheme)
    return EncodedDocuments(
        [document.id for document in documents], sources, columns, meta.marks_field
    )


def _ours_among(names: Collection[str], meta: IndexMeta) -> set[str]:
    """Return the names of fields that are ours, or below one of ours."""
    fields = {meta.marks_field, *(sketched.field for sketched in meta.sketched_with_next)}
    below_ours = dotted(fields)
    return {name for name in names if name in fields or name.startswith(below_ours)}


def _packed(texts: Sequence[str | None], scheme: Scheme) -> list[bytes | None]:
    """Return the packed tokens of texts, each different text sketched once; None without a text."""
    distinct = [text for text in dict.fromkeys(texts) if text is not None]
    packed = pack(sketch(distinct, scheme), scheme)
    tokens_of_text: dict[str | None, bytes] = dict(zip(distinct, packed, strict=True))
    return [*map(tokens_of_text.get, texts)]


def _own_json(document: NewDocument, ours: Collection[str]) -> str:
    """Return the JSON of a record without fields of ours, as it came if it was JSON."""
    source, raw = document.record.source, document.record.json
    if not raw:
        fields = {name: value for name, value in source.items() if name not in ours}
        return to_json(fields, f"document {document.id!r}")
    for name in ours:
        if name in source:
            raw = text_without(raw, name)
    return raw


def without(source: Mapping[str, object], fields: Collection[str]) -> dict[str, object]:
    """Return a document without some fields of ours."""
    ours = dotted(fields)
    return {
        name: value
        for name, value in source.items()
        if name not in fields and not name.startswith(ours)
    }


def dotted(fields: Collection[str]) -> tuple[str, ...]:
    """Return what keys of values below fields begin with.

    Servers would index dotted keys ("esdedup.group") as further values of ours.
    """
    return tuple(f"{field}." for field in fields)


def documents_of(
    records: Iterable[Record | BadRecord],
    meta: IndexMeta,
    id_field: str | None,
    *,
    stored: bool = True,
) -> tuple[list[NewDocument], list[BadRecord]]:
    """Return the records that are documents, and those that are not.

    id_field: as in `ingest`.
    stored: False for documents that no store needs to accept, so that only their text counts; one
        without a usable id has its place as the id.
    """
    documents: list[NewDocument] = []
    bad: list[BadRecord] = []
    text_fields = meta.text_fields
    other_fields = [sketched.text_fields for sketched in meta.sketched_with_next[1:]]
    id_of = _id_of if stored else _any_id_of
    for record in records:
        if isinstance(record, Record):
            readable = record
        elif stored or record.source is None:
            bad.append(record)
            continue
        else:
            # No store accepts it, but it has fields, and perhaps a text.
            readable = Record(record.file, record.line, record.source)
        try:
            text = text_of(readable.source, text_fields)
            for fields in other_fields:
                if fault := fault_in(readable.source, fields):
                    raise RecordError(fault)
            if readable is not record:
                check_unicode(text)
            id, has_own_id = id_of(readable, id_field)
            documents.append(NewDocument(readable, id, has_own_id, text))
        except RecordError as error:
            reason = str(error)
            if isinstance(record, Record):
                bad.append(bad_record(record, reason))
            else:
                # Bytes that are not UTF-8 are the reason in the record, and again in its text.
                reasons = dict.fromkeys([record.reason, reason])
                bad.append(replace(record, reason="; ".join(reasons)))
    return documents, bad


def _any_id_of(record: Record, id_field: str | None) -> tuple[str, bool]:
    """Return the id of a record, its place if a store does not accept the id."""
    try:
        return _id_of(record, id_field)
    except RecordError:
        value = value_at(record.source, id_field or "id")
        # pandas writes whole numbers as floats if one is missing.
        place = f"{record.file}:{record.line}"
        return (str(value), True) if isinstance(value, float) else (place, False)


def _id_of(record: Record, id_field: str | None) -> tuple[str, bool]:
    """Return the id of a record, and whether it is the record's own."""
    value = record.source.get(id_field or "id")
    if type(value) is str and _is_usual_id(value):
        return value, True
    if value_at(record.source, id_field or "id") in (None, ""):  # CSV has no null.
        if id_field == PATH:
            return _id_of(record, None)
        if record.spare_id is not None:
            return _checked_id(record.spare_id), True
        return _checked_id(f"{record.file}:{record.line}"), False
    return id_at(record.source, id_field or "id"), True


def id_at(source: Mapping[str, object], field: str) -> str:
    """Return the id in a field. Raises RecordError if there is none that an index takes."""
    value = value_at(source, field)
    if value is None or value == "":
        raise RecordError(f"the id field {field!r} is {'missing' if value is None else 'empty'}")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise RecordError(f"the id field {field!r} is neither text nor a whole number")
    return _checked_id(str(value))


def _checked_id(id: str) -> str:
    try:
        length = len(id.encode())
    except UnicodeEncodeError:
        raise RecordError(f"the id {id!r} has half of a surrogate pair") from None
    if length > MAX_ID_BYTES:
        raise RecordError(f"the id is longer than {MAX_ID_BYTES} bytes: {id[:40]!r}...")
    return id


def bad_record(record: Record, reason: str) -> BadRecord:
    """Return a record for the dead letter."""
    raw = record.json
    if raw is None:
        try:
            raw = json.dumps(record.source, ensure_ascii=False)
        except (TypeError, ValueError):
            # A program gave a value that JSON can't hold.
            raw = repr(record.source)
    return BadRecord(record.file, record.line, raw, reason)


class RepeatedIds:
    """Count ids that an input repeats, by 64-bit hashes of this process, 8 bytes an id.

    count, first: number of records with the id of an earlier one, and the first such id.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: str | None = None
        self._seen = SeenValues()

    def add(self, ids: Sequence[str], files: Sequence[str] = ()) -> int:
        """Add the ids of the next records; return the number of those that came before.

        files: of the records, if only an earlier record of the same file counts.
        """
        keys = zip(files, ids, strict=True) if files else ids
        repeated = self._seen.add(np.fromiter(map(hash, keys), np.int64, len(ids)))
        count = int(np.count_nonzero(repeated))
        if count and self.first is None:
            self.first = repr(ids[int(np.argmax(repeated))])
        self.count += count
        return count
