"""All pairs of similar documents of files, straight from them: no index is made, nothing is kept.

The texts stay in memory, and the sketches of all; what does not fit there goes into an index.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from esdedup.columns import Columns, Reading, value_type
from esdedup.exact import TextsOf
from esdedup.groups import OnStep
from esdedup.hashing import U64
from esdedup.ingest import DeadLetter, Item, item_of, line_taken
from esdedup.keep import KeepRule
from esdedup.pairs import PairLimits, SimilarPairs, pairs_among
from esdedup.records import BadRecord, Record, batches
from esdedup.schema import IndexMeta
from esdedup.search import narrowed_scheme
from esdedup.sketch import sketch
from esdedup.workers import OnItem, in_processes

_PART = 5
"""Smaller batches than an index gets, so that processes begin early and end together."""

Part = tuple[int, U64, Any, U64]
"""Of a batch of texts its number, their digests, whether they are filled, and their values."""


@dataclass(frozen=True)
class FilePairs:
    """Pairs of documents of files.

    read, failed: records, and those of them that were handed to the dead letter.
    """

    pairs: SimilarPairs
    texts_of: TextsOf
    read: int
    failed: int


class _Documents:
    """What is read so far: the ids of rows, and of each id its text and its row."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.texts: dict[str, str] = {}
        self.rows: dict[str, int] = {}
        self.read = 0
        self.failed = 0

    def add(self, items: Iterable[Item | BadRecord], dead_letter: DeadLetter) -> list[str]:
        """Takes a batch in; the texts of its rows."""
        texts = []
        for item in items:
            self.read += 1
            if isinstance(item, Item) and not item.own_id and item.document.id in self.texts:
                if item.text == self.texts[item.document.id]:
                    continue
                item = line_taken(item)
            if isinstance(item, BadRecord):
                self.failed += 1
                dead_letter(item)
                continue
            # As in an index, a later document of an id takes the place of the earlier one.
            self.rows[item.document.id] = len(self.ids)
            self.ids.append(item.document.id)
            self.texts[item.document.id] = item.text
            texts.append(item.text)
        return texts

    def texts_of(self, ids: list[str]) -> list[str]:
        """The texts of documents."""
        return [self.texts[id] for id in ids]


def pairs_in_records(
    records: Iterable[Record | BadRecord],
    meta: IndexMeta,
    dead_letter: DeadLetter,
    limits: PairLimits,
    *,
    id_field: str | None = None,
    workers: int = 1,
    on_read: Callable[[int], None] | None = None,
    on_step: OnStep | None = None,
) -> FilePairs:
    """What `ingest` and `similar_pairs` find, without a store.

    meta: the scheme, and the field of the text. workers: processes that sketch. on_read: called
    with the number of records read so far. Raises UsageError where the scheme lacks the tokens of
    the metric.
    """
    limits.check(meta.scheme)
    held = _Documents()
    scheme = narrowed_scheme(meta.scheme, limits.metric)
    reading = Reading(replace(meta, scheme=scheme), limits.metric, KeepRule())

    def texts() -> Iterator[tuple[int, tuple[int, list[str]]]]:
        for number, (_, batch) in enumerate(batches(records, part=_PART)):
            items = (item_of(record, meta.text_field, id_field) for record in batch)
            yield number % workers, (number, held.add(items, dead_letter))
            if on_read is not None:
                on_read(held.read)

    begin = functools.partial(_sketching, reading)
    if workers > 1:
        parts = list(in_processes(workers, begin, texts()))
    else:
        with begin() as work:
            parts = [part for _, item in texts() for part in work(item)]
    columns = _columns(sorted(parts, key=lambda part: part[0]), held, reading)
    found = pairs_among(columns, held.texts_of, meta, limits, on_step or (lambda *_: None))
    return FilePairs(found, held.texts_of, held.read, held.failed)


@contextmanager
def _sketching(reading: Reading) -> Iterator[OnItem[tuple[int, list[str]], Part]]:
    def work(item: tuple[int, list[str]]) -> Iterator[Part]:
        number, texts = item
        sketches = sketch(texts, reading.meta.scheme)
        values = sketches.bands if reading.metric == "jaccard" else sketches.fingerprints
        assert values is not None
        digests = np.array([int(digest, 16) for digest in sketches.digests], np.uint64)
        yield number, digests, sketches.filled, values.astype(value_type(reading))

    yield work


def _columns(parts: list[Part], held: _Documents, reading: Reading) -> Columns:
    """The columns of the last row of each id, in the order in which an index's are."""
    rows = reading.keep.order(held.ids, [None] * len(held.ids), list(held.rows.values()))
    order = np.array(rows, np.int64)
    nothing = (
        np.empty(0, np.uint64),
        np.empty(0, np.bool_),
        np.empty((0, reading.width), value_type(reading)),
    )
    digests, filled, values = (
        np.concatenate([nothing[at], *(part[at + 1] for part in parts)]) for at in range(3)
    )
    ids = [held.ids[row] for row in rows]
    return Columns(ids, digests[order], filled[order], np.ascontiguousarray(values[order].T))
