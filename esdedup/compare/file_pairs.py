"""Find all pairs of similar documents of files, without an index.

Texts and tokens are kept in the files of a work folder, and not in memory.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from esdedup.compare.pairs import SimilarPairs, pairs_among
from esdedup.compare.plan import Plan
from esdedup.compare.scan import OnStep, Part, ScanColumns, WorkFolder, sketched
from esdedup.compare.strings import Strings
from esdedup.ingest.parallel import in_order
from esdedup.models import Document, natural
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import RepeatedIds, items_of
from esdedup.records.files import BadRecord, Chunk
from esdedup.sketch.limits import Limits
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64


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


class FileDocuments(NamedTuple):
    """The last document of each id of files, in the order that an index has.

    read, failed: numbers of records, and of those left out. repeated: the ids that came before.
    """

    columns: ScanColumns
    read: int
    failed: int
    repeated: RepeatedIds

    def texts_of(self, ids: list[str]) -> list[str]:
        """Return the texts of documents."""
        own = self.columns.ids
        rows = [bisect_left(own, natural(id), key=natural) for id in ids]
        return self.columns.texts_of(np.array(rows, np.int64))()


def read_into(
    folder: WorkFolder,
    plan: Plan,
    chunks: Iterable[Chunk],
    dead_letter: DeadLetter,
    on_chunk: Callable[[ReadChunk], object],
    *,
    id_field: str | None = None,
    workers: int = 1,
) -> None:
    """Write the documents of chunks to the shares of a folder. workers: number of processes."""

    def parts() -> Iterator[Part]:
        yield sketched(Strings.of([]), [], plan)
        with closing(in_order(workers, partial(read_chunk, plan, id_field), chunks)) as found:
            for read in found:
                for record in read.bad:
                    dead_letter(record)
                yield read.part
                on_chunk(read)

    folder.write_shares(parts())


def pairs_in_files(
    chunks: Iterable[Chunk],
    meta: IndexMeta,
    dead_letter: DeadLetter,
    limits: Limits,
    folder: WorkFolder,
    *,
    id_field: str | None = None,
    workers: int = 1,
    on_read: Callable[[int], None] = lambda _: None,
    on_step: OnStep = lambda *_: None,
) -> tuple[SimilarPairs, FileDocuments]:
    """Return the pairs that an index of the same files has, and the documents.

    meta: the scheme, and the field of the text. folder: empty; texts are read from it afterwards.
    workers: number of processes. on_read: called with the number of records so far. Raises
    UsageError if the scheme lacks the tokens.
    """
    chosen = meta.scheme.for_pairs(limits)
    scheme = meta.scheme.only(chosen)
    plan = Plan(replace(meta, scheme=scheme), chosen, sketching=scheme)
    read, failed, repeated = 0, 0, RepeatedIds()

    def on_chunk(each: ReadChunk) -> None:
        nonlocal read, failed
        read, failed = read + each.lines.size, failed + len(each.bad)
        repeated.add([*each.part.ids])
        on_read(read)

    read_into(folder, plan, chunks, dead_letter, on_chunk, id_field=id_field, workers=workers)
    columns = folder.columns(plan)
    found = pairs_among(columns, plan, limits, folder.path, on_step, workers)
    return found, FileDocuments(columns, read, failed, repeated)


def read_chunk(plan: Plan, id_field: str | None, chunk: Chunk) -> ReadChunk:
    """Return the documents of a chunk with their tokens."""
    fields = plan.meta.text_fields
    records = [*chunk.records()]
    items, bad = items_of(records, plan.meta, id_field, stored=not plan.numbered)
    keys = plan.keep.keys((Document(each.id, each.record.source) for each in items), fields)
    ids, texts = Strings.of(item.id for item in items), [item.text for item in items]
    rejected = {(each.file, each.line) for each in bad}
    lines = [-each.line if (each.file, each.line) in rejected else each.line for each in records]
    files = [(name, len([*some])) for name, some in groupby(each.file for each in records)]
    part = sketched(ids, texts, plan, keys)
    return ReadChunk(part, bad, np.array(lines, np.int64), files)
