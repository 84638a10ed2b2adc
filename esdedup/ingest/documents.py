"""Makes documents of records, and gives documents the tokens of their texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esdedup.exceptions import RecordError
from esdedup.ingest.files import BadRecord, Record
from esdedup.models import TOKEN_KINDS, Document
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import sketch, token_fields
from esdedup.stores.fields import has_field, text_of, value_at
from esdedup.stores.mapping import IndexMeta

_SKETCHED_AT_ONCE = 2_000
"""Texts. Less memory is in use at a time, which saves a sixth of the work of whole batches."""
MAX_ID_BYTES = 512
TAKEN_BY_LINE = (
    "another text was indexed from this line of this file before; give the documents ids of their"
    " own (--id-field)"
)
OURS = ("scheme", "digest", *TOKEN_KINDS, "fingerprint")
"""Fields made of a text."""
MARKS = ("group", "original", "similarity", "distance")
"""Fields that an ingest policy or `group` adds."""


def with_tokens(documents: Sequence[Document], meta: IndexMeta) -> list[Document]:
    """Returns the documents with token fields, which replace any that they had."""
    texts = [text_of(document.source, meta.text_field) for document in documents]
    return [
        Document(document.id, {**document.source, **tokens})
        for document, tokens in zip(documents, fields_of(texts, meta), strict=True)
    ]


def fields_of(texts: Sequence[str], meta: IndexMeta) -> list[dict[str, Any]]:
    """Returns what to add to the documents of these texts: a field of tokens for each scheme.

    Equal texts are sketched once.
    """
    distinct = list(dict.fromkeys(texts))
    fields: list[dict[str, Any]] = [{} for _ in texts]
    for one in meta.all:
        made: dict[str, dict[str, Any]] = {}
        for first in range(0, len(distinct), _SKETCHED_AT_ONCE):
            some = distinct[first : first + _SKETCHED_AT_ONCE]
            tokens = token_fields(sketch(some, one.scheme), one.scheme)
            made.update(zip(some, tokens, strict=True))
        for row, text in zip(fields, texts, strict=True):
            row[one.field] = dict(made[text])
    return fields


def cleared(scheme: Scheme) -> dict[str, Any]:
    """Returns a null for each field made of a text, so that a merge removes old tokens."""
    return {name: None for name in OURS if name != "signature" or name in scheme.kinds}


def partial_document(fields: Mapping[str, Any], id_field: str, meta: IndexMeta) -> Document:
    """Returns the fields to merge into a document, with new tokens if the text is among them.

    Raises RecordError if the id is missing.
    """
    id = value_at(fields, id_field)
    if not isinstance(id, (str, int)) or isinstance(id, bool):
        raise RecordError(f"the id field {id_field!r} is missing, or neither text nor a number")
    source = dict(fields)
    if has_field(fields, meta.text_field):
        text = value_at(fields, meta.text_field)
        tokens = fields_of([text], meta)[0] if isinstance(text, str) else {}
        # Marks of the former text go too. The document is a group of its own.
        mark = {**dict.fromkeys(MARKS), "group": str(id)}
        for one in meta.all:
            source[one.field] = {**cleared(one.scheme), **tokens.get(one.field, {}), **mark}
    return Document(str(id), source)


@dataclass(frozen=True)
class Item:
    """A record as a document. own_id: not made of its line. sketched: with its tokens, if made."""

    record: Record
    id: str
    own_id: bool
    text: str
    sketched: Document | None = None

    @property
    def document(self) -> Document:
        """The document without tokens."""
        return Document(self.id, self.record.source)


def items_of(
    records: Iterable[Record | BadRecord], text_field: str, id_field: str | None
) -> tuple[list[Item], list[BadRecord]]:
    """Returns the records that are documents, and those that are not.

    id_field: the field of the id, or None for `id`, without which the id is "path:line".
    """
    items: list[Item] = []
    bad: list[BadRecord] = []
    for record in records:
        if isinstance(record, BadRecord):
            bad.append(record)
            continue
        try:
            text = text_of(record.source, text_field)
            items.append(Item(record, *_id_of(record, id_field), text))
        except RecordError as error:
            bad.append(bad_record(record, str(error)))
    return items, bad


def _id_of(record: Record, id_field: str | None) -> tuple[str, bool]:
    """Returns the id of a record, and whether it is the record's own."""
    value = value_at(record.source, id_field or "id")
    if value is None:
        if record.spare_id is not None:
            return record.spare_id, True
        if id_field is not None:
            raise RecordError(f"the id field {id_field!r} is missing")
        return _checked_id(record.place), False
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise RecordError(f"the id field {id_field or 'id'!r} is neither text nor a whole number")
    return _checked_id(str(value)), True


def _checked_id(id: str) -> str:
    try:
        length = len(id.encode())
    except UnicodeEncodeError:
        raise RecordError(f"the id {id!r} has half of a surrogate pair") from None
    if length > MAX_ID_BYTES:
        raise RecordError(f"the id is longer than {MAX_ID_BYTES} bytes: {id[:40]!r}...")
    return id


def bad_record(record: Record, reason: str) -> BadRecord:
    """Returns a record for the dead letter."""
    raw = json.dumps(record.source, ensure_ascii=False)
    return BadRecord(record.file, record.line, raw, reason)
