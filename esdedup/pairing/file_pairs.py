"""Find all pairs of similar documents of files, without an index.

Texts and tokens are kept in the files of a work folder, and not in memory.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np

from esdedup.ingest.parallel import in_order
from esdedup.models import natural
from esdedup.pairing.comparison import Reading
from esdedup.pairing.pairs import SimilarPairs, pairs_among
from esdedup.pairing.scan import DOCUMENTS_A_SHARE, OnStep, Part, ScanColumns, WorkFolder, sketched
from esdedup.pairing.strings import Strings
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import RepeatedIds, items_of
from esdedup.records.files import BadRecord, Chunk
from esdedup.sketch.limits import Limits
from esdedup.stores.mapping import IndexMeta

_BYTES_A_SHARE = 64 << 20
"""Texts of a share, which is in memory until it is written."""

_Read = tuple[Part, list[BadRecord]]
"""The documents of a chunk of one file, and its other records."""


class FileDocuments:
    """The documents of files, in a folder.

    read, failed: numbers of records, and of those left out. without_words: documents whose texts
    have no words. repeated: the ids that came before.
    """

    def __init__(self, folder: WorkFolder, reading: Reading, dead_letter: DeadLetter) -> None:
        self.read = self.failed = self.without_words = 0
        self.repeated = RepeatedIds()
        self._folder, self._reading, self._dead_letter = folder, reading, dead_letter
        self._shares = 0
        self._waiting = [sketched(Strings.of([]), [], reading)]
        self._columns: ScanColumns | None = None

    def add(self, read: _Read) -> None:
        """Add the documents of the next chunk."""
        part, bad = read
        self.read += len(bad) + len(part.ids)
        self.failed += len(bad)
        for record in bad:
            self._dead_letter(record)
        self.without_words += int(np.count_nonzero(~part.filled))
        self.repeated.add([*part.ids])
        self._waiting.append(part)
        documents = sum(len(part.ids) for part in self._waiting)
        texts = sum(part.texts.raw.size for part in self._waiting if part.texts is not None)
        if documents >= DOCUMENTS_A_SHARE or texts >= _BYTES_A_SHARE:
            self._write()

    def columns(self) -> ScanColumns:
        """Return the columns of the last document of each id, in the order that an index has."""
        if self._waiting:
            self._write()
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
    with closing(in_order(workers, partial(_read, reading, id_field), chunks)) as parts:
        for part in parts:
            documents.add(part)
            if on_read is not None:
                on_read(documents.read)
    step = on_step or (lambda *_: None)
    columns = documents.columns()
    return pairs_among(columns, reading, limits, folder.path, step, workers), documents


def _read(reading: Reading, id_field: str | None, chunk: Chunk) -> _Read:
    items, bad = items_of(chunk.records(), reading.meta.text_fields, id_field)
    ids = Strings.of(item.id for item in items)
    return sketched(ids, [item.text for item in items], reading), bad
