"""Find all pairs of similar documents of files, without an index.

Texts and tokens are kept in the files of a work folder, and not in memory.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from esdedup.compare.columns import Columns
from esdedup.compare.pairs import SimilarPairs, pairs_among
from esdedup.compare.resources import Resources, no_step
from esdedup.compare.source import FileSource, ReadChunk, read_source
from esdedup.models import natural
from esdedup.records.documents import RepeatedIds
from esdedup.runs.run import OnStep, Run


class FileDocuments(NamedTuple):
    """The last document of each id of files, in the order that an index has.

    columns: the documents.
    read: number of records.
    failed: number of records that are no documents.
    repeated: the ids that came before.
    """

    columns: Columns
    read: int
    failed: int
    repeated: RepeatedIds

    def texts_of(self, ids: list[str]) -> list[str]:
        """Return the texts of documents."""
        ordered = self.columns.ids
        rows = [bisect_left(ordered, natural(id), key=natural) for id in ids]
        return self.columns.texts_of(np.array(rows, np.int64))()


def pairs_in_files(
    run: Run,
    source: FileSource,
    on_read: Callable[[int], None] = lambda _: None,
    on_step: OnStep = no_step,
) -> tuple[SimilarPairs, FileDocuments]:
    """Return the pairs that an index of the same files has, and the documents.

    run: a new one; texts are read from it afterwards. on_read: called with the number of records
    so far.
    """
    read, failed, repeated = 0, 0, RepeatedIds()

    def on_chunk(chunk: ReadChunk) -> None:
        nonlocal read, failed
        read, failed = read + chunk.lines.size, failed + len(chunk.bad)
        repeated.add([*chunk.part.ids])
        on_read(read)

    columns = read_source(replace(source, on_chunk=on_chunk), run)
    resources = Resources(run.folder, on_step, workers=source.workers)
    pairs = pairs_among(columns, source.plan, resources)
    return pairs, FileDocuments(columns, read, failed, repeated)
