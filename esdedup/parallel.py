"""Ingest in several processes: this one reads, the others sketch and write."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from esdedup.fields import value_at
from esdedup.index import Index
from esdedup.ingest import DeadLetter, IngestReport, ingest, line_id
from esdedup.records import BadRecord, Record, batches
from esdedup.workers import OnItem, in_processes

Sent = list[tuple[Any, ...]]
"""Records as they go to another process: as plain tuples they are packed three times as fast."""

Done = tuple[IngestReport, list[BadRecord]]
Opening = Callable[[], AbstractContextManager[Index]]


def ingest_in_processes(
    opening: Opening,
    workers: int,
    records: Iterable[Record | BadRecord],
    dead_letter: DeadLetter,
    *,
    id_field: str | None = None,
    on_batch: Callable[[IngestReport], None] | None = None,
) -> IngestReport:
    """As `ingest`, with the documents in any order; of those of one id the last one stays.

    opening: opens the index, which exists, once in each process; it must be of the kind that can
    be sent to one. Near-duplicates are not looked for, because that goes by the order.

    Raises the errors of the store, and StoreError where a process was killed.
    """
    report = IngestReport()
    begin = functools.partial(_writing, opening, id_field)
    for done, letters in in_processes(workers, begin, _shared_out(records, workers, id_field)):
        report += done
        for record in letters:
            dead_letter(record)
        if on_batch is not None:
            on_batch(report)
    return report


@contextmanager
def _writing(opening: Opening, id_field: str | None) -> Iterator[OnItem[Sent, Done]]:
    """In a process of its own."""
    with opening() as index:

        def write(sent: Sent) -> Iterator[Done]:
            letters: list[BadRecord] = []
            records = (Record(*each) if len(each) == 3 else BadRecord(*each) for each in sent)
            yield (
                ingest(index.store, index.meta, records, letters.append, id_field=id_field),
                letters,
            )

        yield write


def _shared_out(
    records: Iterable[Record | BadRecord], workers: int, id_field: str | None
) -> Iterator[tuple[int, Sent]]:
    """Batches, each with its worker: always the same one for an id, that the last one stays."""

    def worker_of(record: Record | BadRecord) -> int:
        id = value_at(record.source, id_field or "id") if isinstance(record, Record) else None
        return hash(line_id(record) if id is None else str(id)) % workers

    for worker, batch in batches(records, workers, worker_of):
        yield worker, [_sent(record) for record in batch]


def _sent(record: Record | BadRecord) -> tuple[Any, ...]:
    if isinstance(record, Record):
        return record.file, record.line, record.source
    return record.file, record.line, record.raw, record.reason
