"""Ingest in several processes: this one hands out what it reads, the others do the rest."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import numpy as np
import xxhash

from esdedup.ingest.documents import items_of, with_tokens
from esdedup.ingest.enrich import OpenIndex
from esdedup.ingest.files import BadRecord, Chunk
from esdedup.ingest.ingest import DeadLetter, IngestReport, write_items
from esdedup.ingest.processes import TURN, Claim, OnItem, Turn, in_processes

Done = tuple[IngestReport, list[BadRecord]]
Opening = Callable[[], AbstractContextManager[OpenIndex]]


def ingest_in_processes(
    opening: Opening,
    workers: int,
    chunks: Iterable[Chunk],
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
    for done, letters in in_processes(workers, begin, chunks):
        report += done
        for record in letters:
            dead_letter(record)
        if on_batch is not None:
            on_batch(report)
    return report


@contextmanager
def _writing(opening: Opening, id_field: str | None) -> Iterator[OnItem[Chunk, Done]]:
    """In a process of its own."""
    with opening() as index:
        yield functools.partial(_write, index, id_field)


def _write(index: OpenIndex, id_field: str | None, chunk: Chunk) -> Iterator[Done | Claim | Turn]:
    """Sketches before it is its turn to write."""
    meta = index.meta
    items, letters = items_of(chunk.records(), meta.text_field, id_field)
    bad = len(letters)
    ids = [item.id.encode("utf-8", "surrogatepass") for item in items]
    yield Claim(np.array([xxhash.xxh3_64_intdigest(id) for id in ids], np.uint64))
    plain = [item.document for item in items]
    documents = with_tokens(plain, meta)
    yield TURN
    if (now := index.meta) != meta:
        # The wait was long, and the index names another scheme since.
        meta, documents = now, with_tokens(plain, now)
    report, _ = write_items(index.store, meta, items, documents, letters.append)
    yield replace(report, read=len(items) + bad, failed=report.failed + bad), letters
