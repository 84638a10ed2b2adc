"""Find all pairs of similar documents of files, without an index.

Texts and tokens are kept in the files of a work folder, and not in memory.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from esdedup.compare.columns import Columns, columns_of
from esdedup.compare.pairs import SimilarPairs, pairs_among
from esdedup.compare.plan import Plan
from esdedup.compare.source import FileSource, ReadChunk
from esdedup.models import natural
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import RepeatedIds
from esdedup.records.files import Chunk
from esdedup.runs.run import OnStep, Run
from esdedup.runs.shares import Shares
from esdedup.sketch.limits import Limits
from esdedup.stores.mapping import IndexMeta


class FileDocuments(NamedTuple):
    """The last document of each id of files, in the order that an index has.

    read, failed: numbers of records, and of those left out. repeated: the ids that came before.
    """

    columns: Columns
    read: int
    failed: int
    repeated: RepeatedIds

    def texts_of(self, ids: list[str]) -> list[str]:
        """Return the texts of documents."""
        own = self.columns.ids
        rows = [bisect_left(own, natural(id), key=natural) for id in ids]
        return self.columns.texts_of(np.array(rows, np.int64))()


def pairs_in_files(
    chunks: Iterable[Chunk],
    meta: IndexMeta,
    dead_letter: DeadLetter,
    limits: Limits,
    run: Run,
    *,
    id_field: str | None = None,
    workers: int = 1,
    on_read: Callable[[int], None] = lambda _: None,
    on_step: OnStep = lambda *_: None,
) -> tuple[SimilarPairs, FileDocuments]:
    """Return the pairs that an index of the same files has, and the documents.

    meta: the scheme, and the field of the text. run: a new one; texts are read from it afterwards.
    workers: number of processes. on_read: called with the number of records so far. Raises
    UsageError if the scheme lacks the tokens.
    """
    chosen = meta.scheme.for_pairs(limits)
    scheme = meta.scheme.only(chosen)
    plan = Plan(replace(meta, scheme=scheme), chosen, sketching=scheme)
    read, failed, repeated = 0, 0, RepeatedIds()

    def on_chunk(chunk: ReadChunk) -> None:
        nonlocal read, failed
        read, failed = read + chunk.lines.size, failed + len(chunk.bad)
        repeated.add([*chunk.part.ids])
        on_read(read)

    shares = Shares(run)
    source = FileSource(plan, chunks, dead_letter, id_field, workers)
    shares.write_all(source.parts(on_chunk))
    columns = columns_of(shares, plan)
    pairs = pairs_among(columns, plan, limits, run.folder, on_step, workers)
    return pairs, FileDocuments(columns, read, failed, repeated)
