"""Finds all pairs of similar documents of files, without an index.

All texts and their sketches are in memory. Files that do not fit there need an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.dedup.pairs import SimilarPairs, pairs_among
from esdedup.dedup.representative import KeepRule
from esdedup.dedup.work_folder import Columns, OnStep, Reading
from esdedup.exceptions import UsageError
from esdedup.ingest.documents import items_of
from esdedup.ingest.files import BadRecord, Chunk
from esdedup.ingest.ingest import DeadLetter
from esdedup.ingest.parallel import in_order
from esdedup.ingest.repeated_ids import RepeatedIds
from esdedup.search.limits import Limits, narrowed_scheme
from esdedup.sketch.minhash import MOST_PERMUTATIONS
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import digest_words, sketch
from esdedup.stores.mapping import IndexMeta

_PERMUTATIONS = 160
"""More rows a band take longer to sketch, and fewer leave more candidates to verify."""
# Of a chunk: the records that are not documents, the ids, texts and places of n documents, and
# columns of shape (n, 2), (n,) and (n, width).
_Part = tuple[list[BadRecord], list[str], list[str], list[str], tuple[NDArray[Any], ...]]


def scheme_for(limits: Limits) -> Scheme:
    """The scheme whose bands find documents at the threshold with the recall asked for.

    No index binds the bands. Thresholds that `_PERMUTATIONS` do not reach get more of them.
    """
    if limits.metric == "hamming" or limits.least_similarity == 1.0:
        return Scheme()
    for permutations in (_PERMUTATIONS, MOST_PERMUTATIONS):
        with suppress(UsageError):
            return Scheme.for_threshold(
                limits.least_similarity, recall=limits.recall, permutations=permutations
            )
    return Scheme()


class FileDocuments:
    """The documents of files.

    read: number of records. failed: number of them left out. repeated: the ids that come again.
    without_words: number of documents whose texts have no words.
    """

    def __init__(self, dead_letter: DeadLetter) -> None:
        self.read = 0
        self.failed = 0
        self.without_words = 0
        self.repeated = RepeatedIds()
        self._dead_letter = dead_letter
        self._ids: list[str] = []
        self._texts: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._columns: list[tuple[NDArray[Any], ...]] = []

    def add(self, part: _Part) -> None:
        """Adds the documents of the next chunk."""
        bad, ids, texts, places, columns = part
        self.read += len(bad) + len(ids)
        self.failed += len(bad)
        for record in bad:
            self._dead_letter(record)
        self.without_words += int(np.count_nonzero(~columns[1]))
        self.repeated.add(ids, places.__getitem__)
        first = len(self._ids)
        self._ids += ids
        self._columns.append(columns)
        for row, (id, text) in enumerate(zip(ids, texts, strict=True)):
            # As in an index, a later document replaces the earlier one of its id.
            self._rows[id] = first + row
            self._texts[id] = text

    def texts_of(self, ids: list[str]) -> list[str]:
        """Returns the texts of documents."""
        return [self._texts[id] for id in ids]

    def columns(self, reading: Reading) -> Columns:
        """Returns the columns of the last row of each id, in the order that an index has."""
        rows = reading.keep.order(self._ids, [None] * len(self._ids), list(self._rows.values()))
        order = np.array(rows, np.int64)
        no_values = np.empty((0, reading.width), reading.kind)
        nothing = np.empty((0, 2), np.uint64), np.empty(0, np.bool_), no_values
        digests, filled, values = (
            np.concatenate(parts)[order] for parts in zip(nothing, *self._columns, strict=True)
        )
        ids = [self._ids[row] for row in rows]
        return Columns(ids, digests, filled, np.ascontiguousarray(values.T))


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
) -> tuple[SimilarPairs, FileDocuments]:
    """Finds the pairs that `ingest` and `similar_pairs` find, without a store.

    meta: the scheme, and the field of the text. workers: processes that read and sketch. on_read:
    called with the number of records so far. Raises UsageError if the scheme lacks the tokens.
    """
    limits.check_for_pairs(meta.scheme)
    documents = FileDocuments(dead_letter)
    scheme = narrowed_scheme(meta.scheme, limits.metric)
    reading = Reading(replace(meta, scheme=scheme), limits.metric, KeepRule())
    with closing(in_order(workers, partial(_part, reading, id_field), chunks)) as parts:
        for part in parts:
            documents.add(part)
            if on_read is not None:
                on_read(documents.read)
    step = on_step or (lambda *_: None)
    found = pairs_among(documents.columns(reading), documents.texts_of, meta, limits, step)
    return found, documents


def _part(reading: Reading, id_field: str | None, chunk: Chunk) -> _Part:
    items, bad = items_of(chunk.records(), reading.meta.text_fields, id_field)
    texts = [item.text for item in items]
    sketches = sketch(texts, reading.meta.scheme)
    values = sketches.bands if reading.metric == "jaccard" else sketches.fingerprints
    assert values is not None
    places = [item.record.place for item in items]
    columns = digest_words(sketches.digests), sketches.filled, values.astype(reading.kind)
    return bad, [item.id for item in items], texts, places, columns
