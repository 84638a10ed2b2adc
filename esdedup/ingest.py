"""Documents into a store: sketch a batch, write it, account for every record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from esdedup.datatypes import Document, Failure
from esdedup.exceptions import RecordError
from esdedup.fields import value_at
from esdedup.records import BadRecord, Record
from esdedup.schema import IndexMeta
from esdedup.sketch import sketch, token_fields
from esdedup.stores.base import Store

BATCH_DOCUMENTS = 10_000
BATCH_CHARACTERS = 8_000_000
MAX_ID_BYTES = 512

_SKETCHED_AT_ONCE = 2_000
"""Less memory in use at a time, which is a sixth less work than whole batches at once."""

DeadLetter = Callable[[BadRecord], None]


@dataclass(frozen=True)
class IngestReport:
    """What became of the records; read = created + updated + unchanged + failed.

    unchanged: a record without an id of its own that was indexed before, from the same line of a
    file of the same name. failed: handed to the dead letter.
    """

    read: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0


@dataclass(frozen=True)
class _Item:
    record: Record
    document: Document
    own_id: bool


def ingest(
    store: Store,
    meta: IndexMeta,
    records: Iterable[Record | BadRecord],
    dead_letter: DeadLetter,
    *,
    id_field: str | None = None,
    on_batch: Callable[[IngestReport], None] | None = None,
    fresh: Callable[[], IndexMeta] | None = None,
) -> IngestReport:
    """Writes records with their tokens; what counts as created or updated is durable.

    A record's id is its `id_field`, by default `id` where it has one. One without gets the id
    "file:line", which is never taken from another text: such a document is only created.

    dead_letter: called with every record that is not written and why.
    on_batch: called with the report so far after each batch. fresh: gives what the index says now,
    which may come to name a next scheme while this goes on.

    Raises the errors of the store; then the last report handed to `on_batch` tells what was
    acknowledged, and doing the same again completes it.
    """
    report = IngestReport()
    for batch in _batches(_items(records, meta.text_field, id_field)):
        items = [item for item in batch if isinstance(item, _Item)]
        bad = [item for item in batch if isinstance(item, BadRecord)]
        report = _write(store, fresh() if fresh is not None else meta, items, dead_letter, report)
        for record in bad:
            dead_letter(record)
        report = replace(report, read=report.read + len(batch), failed=report.failed + len(bad))
        if on_batch is not None:
            on_batch(report)
    return report


def with_tokens(documents: Sequence[Document], meta: IndexMeta) -> list[Document]:
    """The documents with their token fields, replacing any that they had."""
    enriched: list[Document] = []
    for first in range(0, len(documents), _SKETCHED_AT_ONCE):
        some = documents[first : first + _SKETCHED_AT_ONCE]
        texts = [text_of(document.source, meta.text_field) for document in some]
        fields = fields_of(texts, meta)
        enriched += [
            Document(document.id, {**document.source, **tokens})
            for document, tokens in zip(some, fields, strict=True)
        ]
    return enriched


def fields_of(texts: Sequence[str], meta: IndexMeta) -> list[dict[str, Any]]:
    """What is added to the documents of these texts: a field of tokens for each scheme."""
    fields: list[dict[str, Any]] = [{} for _ in texts]
    for one in meta.all:
        tokens = token_fields(sketch(texts, one.scheme), one.scheme)
        for row, row_tokens in zip(fields, tokens, strict=True):
            row[one.field] = row_tokens
    return fields


def text_of(source: Any, text_field: str) -> str:
    """The text of a document. Raises RecordError where it has none."""
    value = value_at(source, text_field)
    if value is None:
        raise RecordError(f"the field {text_field!r} is missing")
    if not isinstance(value, str):
        raise RecordError(f"the field {text_field!r} is no text but {type(value).__name__}")
    return value


def _items(
    records: Iterable[Record | BadRecord], text_field: str, id_field: str | None
) -> Iterator[_Item | BadRecord]:
    for record in records:
        if isinstance(record, BadRecord):
            yield record
            continue
        try:
            text_of(record.source, text_field)
            id, own = _id_of(record, id_field)
        except RecordError as error:
            yield bad_record(record, str(error))
        else:
            yield _Item(record, Document(id, record.source), own)


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


def _batches(items: Iterable[_Item | BadRecord]) -> Iterator[list[_Item | BadRecord]]:
    batch: list[_Item | BadRecord] = []
    size = 0
    for item in items:
        batch.append(item)
        size += (
            sum(len(value) for value in item.document.source.values() if isinstance(value, str))
            if isinstance(item, _Item)
            else len(item.raw)
        )
        if len(batch) == BATCH_DOCUMENTS or size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write(
    store: Store,
    meta: IndexMeta,
    items: list[_Item],
    dead_letter: DeadLetter,
    report: IngestReport,
) -> IngestReport:
    documents = with_tokens([item.document for item in items], meta)
    for own in (True, False):
        chosen = [
            (item, document)
            for item, document in zip(items, documents, strict=True)
            if item.own_id is own
        ]
        if not chosen:
            continue
        written = store.write([document for _, document in chosen], create=not own)
        failures, unchanged = _without_unchanged(store, meta.field, chosen, written.failures)
        records = {item.document.id: item.record for item, _ in chosen}
        for failure in failures:
            dead_letter(bad_record(records[failure.id], failure.reason))
        report = replace(
            report,
            created=report.created + written.created,
            updated=report.updated + written.updated,
            unchanged=report.unchanged + unchanged,
            failed=report.failed + len(failures),
        )
    return report


def _without_unchanged(
    store: Store, field: str, chosen: list[tuple[_Item, Document]], failures: list[Failure]
) -> tuple[list[Failure], int]:
    """The failures but for conflicts with the very same text, and how many those were."""
    conflicts = {failure.id for failure in failures if failure.conflict}
    if not conflicts:
        return failures, 0
    stored = {
        document.id: document.tokens_in(field).get("digest")
        for document in store.get(list(conflicts))
    }
    same = {
        document.id
        for _, document in chosen
        if document.id in conflicts
        and stored.get(document.id) == document.tokens_in(field)["digest"]
    }
    kept = [
        replace(
            failure,
            reason="another text was indexed from this line of a file of this name before;"
            " give the documents ids of their own (--id-field)",
        )
        if failure.conflict
        else failure
        for failure in failures
        if failure.id not in same
    ]
    return kept, len(failures) - len(kept)


def bad_record(record: Record, reason: str) -> BadRecord:
    """A record as the dead letter takes it."""
    import json

    raw = json.dumps(record.source, ensure_ascii=False)
    return BadRecord(record.file, record.line, raw, reason)
