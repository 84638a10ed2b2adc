"""Find all pairs of similar documents of files, without an index.

Texts and tokens are kept in the files of a work folder, and not in memory.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from esdedup.compare.columns import Columns, columns_by_id
from esdedup.compare.pairs import SimilarPairs, pairs_among
from esdedup.compare.plan import Plan
from esdedup.compare.resources import Resources, no_candidates, no_step
from esdedup.compare.source import FileSource, ReadChunk
from esdedup.exceptions import UsageError
from esdedup.models import natural
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import RepeatedIds
from esdedup.records.inputs import Reading
from esdedup.records.locations import identity
from esdedup.runs.places import PlacedIds
from esdedup.runs.run import OnStep, Run, ShareSizes
from esdedup.runs.shares import Part, Shares
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import IndexMeta


class FileDocuments(NamedTuple):
    """The last document of each id of each file, in the order that an index has.

    columns: the documents, those of `against` first.
    read: number of records.
    failed: number of records that are no documents.
    repeated: the ids that came before in the same file.
    """

    columns: Columns
    read: int
    failed: int
    repeated: RepeatedIds

    def texts_of(self, ids: list[str]) -> list[str]:
        """Return the texts of documents."""
        ordered = self.columns.ids
        if isinstance(ordered, PlacedIds) or self.columns.earlier:
            chosen_ids = {*ids}
            row_of = {id: row for row, id in enumerate(ordered) if id in chosen_ids}
            return self.columns.texts_of(np.array([row_of[id] for id in ids], np.int64))()
        rows = [bisect_left(ordered, natural(id), key=natural) for id in ids]
        return self.columns.texts_of(np.array(rows, np.int64))()


@dataclass(frozen=True)
class FileSets:
    """The documents of files to compare.

    source: the files.
    against: other files, with whose documents they are compared too.
    only_between: they are not compared with each other.
    """

    source: FileSource
    against: FileSource | None = None
    only_between: bool = False

    @property
    def each(self) -> list[FileSource]:
        """The sources in the order of their documents."""
        return [self.source] if self.against is None else [self.against, self.source]


def pairs_in_files(
    run: Run,
    sets: FileSets,
    on_read: Callable[[int], None] = lambda _: None,
    on_step: OnStep = no_step,
    on_candidates: Callable[[int], None] = no_candidates,
) -> tuple[SimilarPairs, FileDocuments]:
    """Return the pairs that an index of the same files has, and the documents.

    Documents of several files that have the same id are different ones, unlike in an index.

    run: a new one; texts are read from it afterwards. on_read: called with the number of records
    so far.
    """
    read, failed, repeated = 0, 0, RepeatedIds()
    documents, documents_before, shares = 0, list[int](), Shares(run)

    def on_chunk(chunk: ReadChunk) -> None:
        nonlocal read, failed
        read, failed = read + chunk.lines.size, failed + len(chunk.bad)
        places = chunk.part.places
        files = [] if places is None else [places.names[n] for n in places.numbers.tolist()]
        repeated.add([*chunk.part.ids], files)
        on_read(read)

    def parts() -> Iterator[Part]:
        nonlocal documents
        for source in sets.each:
            # The documents of the sources before.
            documents_before.append(documents)
            for part in replace(source, on_chunk=on_chunk).parts():
                documents += len(part.ids)
                yield part

    shares.write_all(parts())
    columns = columns_by_id(shares, sets.source.plan, earlier=documents_before[-1])
    columns = replace(columns, only_between=sets.only_between)
    source = sets.source
    resources = Resources(run.folder, on_step, workers=source.workers, on_candidates=on_candidates)
    pairs = pairs_among(columns, source.plan, resources)
    return pairs, FileDocuments(columns, read, failed, repeated)


@dataclass(frozen=True)
class PairRequest:
    """A request for the similar pairs of files.

    files: paths or addresses.
    reading: how these are read.
    limits: of the pairs.
    dead_letter: called with each record that is no document.
    scheme: of the tokens; None for one whose bands reach the recall of the limits.
    workers: number of processes.
    sizes: of the shares of the work folder.
    against: other files, with whose documents they are compared too.
    only_between: they are not compared with each other.
    label_fields: whose values the pairs show.
    """

    files: Sequence[str]
    reading: Reading
    limits: Limits
    dead_letter: DeadLetter
    scheme: Scheme | None = None
    workers: int = 1
    sizes: ShareSizes = ShareSizes()  # noqa: RUF009
    against: Sequence[str] = ()
    only_between: bool = False
    label_fields: Sequence[str] = ()

    @contextmanager
    def run(
        self,
        advance: Callable[[int], None],
        on_read: Callable[[int], None],
        on_step: OnStep,
        on_candidates: Callable[[int], None] = no_candidates,
    ) -> Iterator[tuple[SimilarPairs, FileDocuments]]:
        """Find the pairs, and hold them and the documents until the context ends.

        advance: called with the number of bytes that were read.
        on_read: called with the number of records so far.
        on_step: called with each step of the comparison.
        on_candidates: called with the number of candidate pairs of each block.
        """
        self._check()
        limits, text_fields = self.limits, tuple(self.reading.text_fields)
        scheme = self.scheme or Scheme.of_texts(limits)
        meta = IndexMeta(scheme, text_fields).of(limits.sketch)
        with Run.temporary(self.sizes) as run:
            plan = Plan.of_texts(meta.scheme, limits, text_fields=meta.text_fields)
            plan = plan.labelled(*self.label_fields)

            def source_of(files: Sequence[str]) -> FileSource:
                reading = replace(self.reading, text_fields=meta.text_fields)
                chunks = reading.chunks(files, advance, plan.columns)
                return FileSource(plan, chunks, self.dead_letter, reading.id_field, self.workers)

            against = source_of(self.against) if self.against else None
            sets = FileSets(source_of(self.files), against, self.only_between)
            yield pairs_in_files(run, sets, on_read, on_step, on_candidates)

    def _check(self) -> None:
        """Raise UsageError for settings of `against` that can't be combined."""
        if self.only_between and not self.against:
            raise UsageError("`only_between` requires `against`")
        identities = {identity(path) for path in self.against}
        if in_both := sorted(path for path in self.files if identity(path) in identities):
            raise UsageError(f"{in_both[0]}: it is named in `against` too")
