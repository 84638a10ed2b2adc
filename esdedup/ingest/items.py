"""Records as documents: their ids, their texts, and what makes one that is none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from esdedup.exceptions import RecordError
from esdedup.ingest.files import BadRecord, Record
from esdedup.models import Document
from esdedup.stores.fields import text_of, value_at

MAX_ID_BYTES = 512

TAKEN_BY_LINE = (
    "another text was indexed from this line of a file of this name before; give the documents ids"
    " of their own (--id-field)"
)


@dataclass(frozen=True)
class Item:
    """A record as a document. own_id: whether its id is its own, not that of its line."""

    record: Record
    id: str
    text: str
    own_id: bool

    @property
    def document(self) -> Document:
        """The document, without tokens."""
        return Document(self.id, self.record.source)


def items_of(
    records: Iterable[Record | BadRecord], text_field: str, id_field: str | None
) -> tuple[list[Item], list[BadRecord]]:
    """Records as documents, and those that are none."""
    checked = [_item_of(record, text_field, id_field) for record in records]
    items = [item for item in checked if isinstance(item, Item)]
    return items, [item for item in checked if isinstance(item, BadRecord)]


def _item_of(record: Record | BadRecord, text_field: str, id_field: str | None) -> Item | BadRecord:
    if isinstance(record, BadRecord):
        return record
    try:
        text = text_of(record.source, text_field)
        id, own = _id_of(record, id_field)
    except RecordError as error:
        return bad_record(record, str(error))
    return Item(record, id, text, own)


def _id_of(record: Record, id_field: str | None) -> tuple[str, bool]:
    value = value_at(record.source, id_field or "id")
    if value is None:
        if id_field is not None:
            raise RecordError(f"the id field {id_field!r} is missing")
        return f"{record.file}:{record.line}", False
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise RecordError(f"the id field {id_field or 'id'!r} is neither text nor a whole number")
    id = str(value)
    if len(id.encode()) > MAX_ID_BYTES:
        raise RecordError(f"the id is longer than {MAX_ID_BYTES} bytes")
    return id, True


def line_taken(record: Record) -> BadRecord:
    """A record whose line gives an id that another text has."""
    return bad_record(record, TAKEN_BY_LINE)


def bad_record(record: Record, reason: str) -> BadRecord:
    """A record as the dead letter takes it."""
    raw = json.dumps(record.source, ensure_ascii=False)
    return BadRecord(record.file, record.line, raw, reason)
