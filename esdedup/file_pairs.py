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

from esdedup.columns import Columns
from esdedup.groups import OnStep
from esdedup.hashing import U64
from esdedup.ingest import DeadLetter, Item, batches, item_of, line_taken
from esdedup.keep import KeepRule
from esdedup.pairs import PairLimits, SimilarPairs, pairs_among
from esdedup.records import BadRecord, Record
from esdedup.schema import IndexMeta
from esdedup.sketch import sketch
from esdedup.workers import OnItem, in_processes

Part = tuple[int, U64, Any, U64]
"""Of a batch of texts its number, their digests, whether they are filled, and their values."""


@dataclass(frozen=True)
class FilePairs:
    """Pairs of documents of files.

    texts: by id. read, failed: records, and those of them that were handed to the dead letter.
    """

    pairs: SimilarPairs
    texts: dict[str, str]
    read: int
    failed: int


@dataclass
class _Documents:
    """What is read so far: the ids of rows, and of each id its text and its row."""

    ids: list[str]
    texts: dict[str, str]
    rows: dict[str, int]
    read: int = 0
    failed: int = 0

    def add(self, items: Iterable[Item | BadRecord], dead_letter: DeadLetter) -> list[str]:
        """Takes a batch in; the texts of its rows."""
        texts = []
        for item in items:
            self.read += 1
            if isinstance(item, Item) and not item.own_id and item.document.id in self.texts:
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
    held = _Documents([], {}, {})

    def texts() -> Iterator[tuple[int, tuple[int, list[str]]]]:
        for number, (_, batch) in enumerate(batches(records)):
            items = (item_of(record, meta.text_field, id_field) for record in batch)
            yield number % workers, (number, held.add(items, dead_letter))
            if on_read is not None:
                on_read(held.read)

    begin = functools.partial(_sketching, _narrowed(meta, limits), limits)
    if workers > 1:
        parts = list(in_processes(workers, begin, texts()))
    else:
        with begin() as work:
            parts = [part for _, item in texts() for part in work(item)]
    columns = _columns(sorted(parts, key=lambda part: part[0]), held)
    found = pairs_among(
        columns,
        lambda ids: [held.texts[id] for id in ids],
        meta,
        limits,
        on_step or (lambda *_: None),
    )
    return FilePairs(found, held.texts, held.read, held.failed)


def _narrowed(meta: IndexMeta, limits: PairLimits) -> IndexMeta:
    """Without the sketches that the metric does not need."""
    if limits.metric == "hamming":
        return replace(meta, scheme=replace(meta.scheme, minhash=None))
    assert meta.scheme.minhash is not None
    minhash = replace(meta.scheme.minhash, signature=0)
    return replace(meta, scheme=replace(meta.scheme, minhash=minhash, simhash=None))


@contextmanager
def _sketching(
    meta: IndexMeta, limits: PairLimits
) -> Iterator[OnItem[tuple[int, list[str]], Part]]:
    def work(item: tuple[int, list[str]]) -> Iterator[Part]:
        number, texts = item
        sketches = sketch(texts, meta.scheme)
        values = sketches.bands if limits.metric == "jaccard" else sketches.fingerprints
        assert values is not None
        digests = np.array([int(digest, 16) for digest in sketches.digests], np.uint64)
        yield number, digests, sketches.filled, values

    yield work


def _columns(parts: list[Part], held: _Documents) -> Columns:
    order = np.array(
        KeepRule().order(held.ids, [None] * len(held.ids), list(held.rows.values())), np.int64
    )
    if not parts:
        nothing = np.empty(0, np.uint64)
        return Columns([], nothing, np.empty(0, np.bool_), np.empty((1, 0), np.uint64))
    digests, filled, values = (np.concatenate([part[at] for part in parts]) for at in (1, 2, 3))
    ids = [held.ids[row] for row in order.tolist()]
    return Columns(ids, digests[order], filled[order], np.ascontiguousarray(values[order].T))
