"""Finds all pairs of similar documents of files, without an index.

All texts and their sketches are in memory. Files that do not fit there need an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from esdedup.dedup.columns import Columns, Reading, value_type
from esdedup.dedup.pairs import SimilarPairs, pairs_among
from esdedup.dedup.representative import KeepRule
from esdedup.dedup.verify import TextsOf
from esdedup.dedup.work_folder import OnStep
from esdedup.ingest.documents import items_of, line_taken
from esdedup.ingest.files import BadRecord, Chunk, Record
from esdedup.ingest.ingest import DeadLetter
from esdedup.ingest.parallel import in_order
from esdedup.search.limits import Limits, narrowed_scheme
from esdedup.sketch.sketch import sketch
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import U64


@dataclass(frozen=True)
class _Part:
    """The documents of a chunk, sketched.

    bad: records that are not documents. lines: by row, the records of documents without an id of
    their own. digests: shape (n,), uint64. filled: shape (n,), bool. values: shape (n, width).
    """

    bad: list[BadRecord]
    lines: dict[int, Record]
    ids: list[str]
    texts: list[str]
    digests: U64
    filled: Any
    values: U64


_Numbered = tuple[int, _Part]


@dataclass(frozen=True)
class FilePairs:
    """Pairs of documents of files.

    read: number of records. failed: number of records handed to the dead letter.
    """

    pairs: SimilarPairs
    texts_of: TextsOf
    read: int
    failed: int


class _Documents:
    """The documents read so far: the ids of rows, and the text and row of each id."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.texts: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        self.columns: list[tuple[U64, Any, U64]] = []
        self.read = 0
        self.failed = 0

    def add(self, part: _Part, dead_letter: DeadLetter) -> None:
        """Adds the documents of the next chunk."""
        self.read += len(part.bad) + len(part.ids)
        for record in part.bad:
            self._refuse(record, dead_letter)
        first = len(self.ids)
        self.ids += part.ids
        self.columns.append((part.digests, part.filled, part.values))
        for row, (id, text) in enumerate(zip(part.ids, part.texts, strict=True)):
            if row in part.lines and id in self.texts:
                if text != self.texts[id]:
                    self._refuse(line_taken(part.lines[row]), dead_letter)
                continue
            # As in an index, a later document replaces the earlier one of its id.
            self.rows[id] = first + row
            self.texts[id] = text

    def _refuse(self, record: BadRecord, dead_letter: DeadLetter) -> None:
        self.failed += 1
        dead_letter(record)

    def texts_of(self, ids: list[str]) -> list[str]:
        """Returns the texts of documents."""
        return [self.texts[id] for id in ids]


def pairs_in_files(
    chunks: Iterable[Chunk],
    meta: IndexMeta,
    dead_letter: DeadLetter,
    limits: Limits,
    *,
    id_field: str | None = None,
    workers: int = 1,
    on_read: Callable[[int], None] | None = None,
    on_step: OnStep | None = None,
) -> FilePairs:
    """Finds the pairs that `ingest` and `similar_pairs` find, without a store.

    meta: the scheme, and the field of the text. workers: processes that read and sketch. on_read:
    called with the number of records read so far.

    Raises UsageError if the scheme lacks the tokens of the metric.
    """
    limits.check_for_pairs(meta.scheme)
    held = _Documents()
    scheme = narrowed_scheme(meta.scheme, limits.metric)
    reading = Reading(replace(meta, scheme=scheme), limits.metric, KeepRule())
    with closing(in_order(workers, partial(_part, reading, id_field), chunks)) as parts:
        for part in parts:
            held.add(part, dead_letter)
            if on_read is not None:
                on_read(held.read)
    columns = _columns(held, reading)
    found = pairs_among(columns, held.texts_of, meta, limits, on_step or (lambda *_: None))
    return FilePairs(found, held.texts_of, held.read, held.failed)


def _part(reading: Reading, id_field: str | None, chunk: Chunk) -> _Part:
    items, bad = items_of(chunk.records(), reading.meta.text_field, id_field)
    texts = [item.text for item in items]
    sketches = sketch(texts, reading.meta.scheme)
    values = sketches.bands if reading.metric == "jaccard" else sketches.fingerprints
    assert values is not None
    return _Part(
        bad,
        {row: item.record for row, item in enumerate(items) if not item.own_id},
        [item.id for item in items],
        texts,
        np.array([int(digest, 16) for digest in sketches.digests], np.uint64),
        sketches.filled,
        values.astype(value_type(reading)),
    )


def _columns(held: _Documents, reading: Reading) -> Columns:
    """Returns the columns of the last row of each id, in the order that an index has."""
    rows = reading.keep.order(held.ids, [None] * len(held.ids), list(held.rows.values()))
    order = np.array(rows, np.int64)
    nothing = (
        np.empty(0, np.uint64),
        np.empty(0, np.bool_),
        np.empty((0, reading.width), value_type(reading)),
    )
    digests, filled, values = (
        np.concatenate([nothing[at], *(part[at] for part in held.columns)]) for at in range(3)
    )
    ids = [held.ids[row] for row in rows]
    return Columns(ids, digests[order], filled[order], np.ascontiguousarray(values[order].T))
