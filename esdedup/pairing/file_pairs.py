"""Find all pairs of similar documents of files, without an index.

Texts and tokens are kept in the files of a work folder, and not in memory.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from esdedup.ingest.parallel import in_order
from esdedup.models import Document, natural
from esdedup.pairing.comparison import Reading
from esdedup.pairing.pairs import SimilarPairs, pairs_among
from esdedup.pairing.scan import DOCUMENTS_A_SHARE, OnStep, Part, ScanColumns, WorkFolder, sketched
from esdedup.pairing.strings import Strings
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import RepeatedIds, items_of
from esdedup.records.files import BadRecord, Chunk
from esdedup.sketch.limits import Limits
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64

_BYTES_A_SHARE = 64 << 20
"""Texts of a share, which is in memory until it is written."""


class ReadChunk(NamedTuple):
    """A chunk of records, as it was read.

    part: the documents. bad: the other records. lines: of all n records, as `Record.line`, negative
    for those that are no documents, shape (n,). files: the names of their files, each with its
    number of records.
    """

    part: Part
    bad: list[BadRecord]
    lines: I64
    files: list[tuple[str, int]]


class FileDocuments:
    """The documents of files, in a folder.

    read, failed: numbers of records, and of those left out. without_words: documents whose texts
    have no words. repeated: the ids that came before, unless documents are numbered.
    """

    def __init__(self, folder: WorkFolder, reading: Reading, dead_letter: DeadLetter) -> None:
        self.read = self.failed = self.without_words = 0
        self.repeated = RepeatedIds()
        self._folder, self._reading, self._dead_letter = folder, reading, dead_letter
        self._shares = 0
        self._waiting = [sketched(Strings.of([]), [], reading)]
        self._columns: ScanColumns | None = None

    def add(self, read: ReadChunk) -> None:
        """Add the documents of the next chunk."""
        part, bad, *_ = read
        self.read += len(bad) + len(part.ids)
        self.failed += len(bad)
        for record in bad:
            self._dead_letter(record)
        self.without_words += int(np.count_nonzero(~part.filled))
        if not self._reading.numbered:
            self.repeated.add([*part.ids])
        self._waiting.append(part)
        documents = sum(len(part.ids) for part in self._waiting)
        texts = sum(part.texts.raw.size for part in self._waiting if part.texts is not None)
        if documents >= DOCUMENTS_A_SHARE or texts >= _BYTES_A_SHARE:
            self._write()

    def finish(self) -> None:
        """Write the last share."""
        if self._waiting:
            self._write()

    def columns(self) -> ScanColumns:
        """Return the columns of the last document of each id, in the order that an index has."""
        self.finish()
        self._columns = self._folder.columns(self._reading)
        return self._columns

    def texts_of(self, ids: list[str]) -> list[str]:
        """Return the texts of documents."""
        assert self._columns is not None
        own = self._columns.ids
        rows = [bisect_left(own, natural(id), key=natural) for id in ids]
        return self._columns.texts_of(np.array(rows, np.int64))()

    def _write(self) -> None:
        self._shares += 1
        self._folder.write_share(self._shares, self._waiting)
        self._waiting = []


def pairs_in_files(
    chunks: Iterable[Chunk],
    meta: IndexMeta,
    dead_letter: DeadLetter,
    limits: Limits,
    folder: WorkFolder,
    *,
    id_field: str | None = None,
    workers: int = 1,
    on_read: Callable[[int], None] | None = None,
    on_step: OnStep | None = None,
) -> tuple[SimilarPairs, FileDocuments]:
    """Return the pairs that an index of the same files has, and the documents.

    meta: the scheme, and the field of the text. folder: empty; texts are read from it afterwards.
    workers: number of processes. on_read: called with the number of records so far. Raises
    UsageError if the scheme lacks the tokens.
    """
    chosen = meta.scheme.for_pairs(limits)
    scheme = meta.scheme.only(chosen)
    reading = Reading(replace(meta, scheme=scheme), chosen, sketching=scheme)
    documents = FileDocuments(folder, reading, dead_letter)
    with closing(in_order(workers, partial(read_chunk, reading, id_field), chunks)) as parts:
        for part in parts:
            documents.add(part)
            if on_read is not None:
                on_read(documents.read)
    step = on_step or (lambda *_: None)
    columns = documents.columns()
    return pairs_among(columns, reading, limits, folder.path, step, workers), documents


def read_chunk(reading: Reading, id_field: str | None, chunk: Chunk) -> ReadChunk:
    """Return the documents of a chunk with their tokens."""
    fields = reading.meta.text_fields
    records = [*chunk.records()]
    items, bad = items_of(records, reading.meta, id_field)
    keys = reading.keep.keys((Document(each.id, each.record.source) for each in items), fields)
    ids, texts = Strings.of(item.id for item in items), [item.text for item in items]
    rejected = {(each.file, each.line) for each in bad}
    lines = [-each.line if (each.file, each.line) in rejected else each.line for each in records]
    files = [(name, len([*some])) for name, some in groupby(each.file for each in records)]
    part = sketched(ids, texts, reading, keys)
    return ReadChunk(part, bad, np.array(lines, np.int64), files)
