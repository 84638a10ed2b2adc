"""Files in chunks that can be read apart from each other, and records in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Literal

from esdedup.ingest.files import (
    BadRecord,
    Format,
    Record,
    format_of,
    name_of,
    opened,
    read_lines,
    read_rows,
)

BATCH_DOCUMENTS = 10_000
BATCH_CHARACTERS = 8_000_000

CHUNK_BYTES = 2 << 20
"""A chunk is as long, or has as many lines as a batch has documents."""


@dataclass(frozen=True)
class Lines:
    """Whole lines of a file, the first of which has this number, as they stand there."""

    file: str
    format: Literal["jsonl", "text"]
    first: int
    data: bytes

    def records(self) -> Iterator[Record | BadRecord]:
        """The records of these lines."""
        return read_lines(self.file, self.format, BytesIO(self.data), self.first)


@dataclass(frozen=True)
class Rows:
    """Records of a table, whose lines can't be told apart without those before."""

    read: list[Record | BadRecord]

    def records(self) -> Iterator[Record | BadRecord]:
        """These records."""
        return iter(self.read)


Chunk = Lines | Rows


def chunks_in(
    path: str, format: Format | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Chunk]:
    """The records of a file as `read_records` reads them, to be read elsewhere, some at a time.

    Raises UsageError where the file can't be opened, InputError where it breaks off.
    """
    kind = format or format_of(path)
    name = name_of(path)
    with opened(path, on_bytes) as stream:
        if kind == "csv" or kind == "tsv":
            for batch in batches(read_rows(name, kind, stream), CHUNK_BYTES):
                yield Rows(batch)
            return
        first, size = 1, 0
        lines: list[bytes] = []
        for line in stream:
            lines.append(line)
            size += len(line)
            if size >= CHUNK_BYTES or len(lines) >= BATCH_DOCUMENTS:
                yield Lines(name, kind, first, b"".join(lines))
                first, size, lines = first + len(lines), 0, []
        if lines:
            yield Lines(name, kind, first, b"".join(lines))


def batches(
    records: Iterable[Record | BadRecord], characters: int = BATCH_CHARACTERS
) -> Iterator[list[Record | BadRecord]]:
    """Records in batches of bounded size."""
    batch: list[Record | BadRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += _characters(record)
        if len(batch) >= BATCH_DOCUMENTS or size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _characters(record: Record | BadRecord) -> int:
    if isinstance(record, BadRecord):
        return len(record.raw)
    size = 0
    for value in record.source.values():
        if isinstance(value, str):
            size += len(value)
    return size
