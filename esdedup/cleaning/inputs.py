"""The documents of a job on files: those of the files, and those that they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Literal

from esdedup.cleaning.job import Assignment, Reporter
from esdedup.cleaning.kept_sketches import SKETCHES, KeptSketches
from esdedup.cleaning.outputs import CleanFiles
from esdedup.cleaning.sketching import StoredRecords, chunks_of, sketch_into
from esdedup.compare.plan import Plan
from esdedup.compare.source import FileSource
from esdedup.exceptions import UsageError
from esdedup.index import Index, open
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.files import BadRecord, Chunk, Record
from esdedup.records.inputs import Reading, total_bytes
from esdedup.records.text_files import name_of
from esdedup.runs.shares import Shares, StoredShare
from esdedup.stores.fields import text_at


def against_kind(name: str) -> Literal["sketches", "index", "files"]:
    """Return what a name to compare with is by its ending: kept sketches, a local index, or files.

    A name of files may be one of an index in a cluster, which has no ending.
    """
    if name.rstrip("/").endswith(SKETCHES):
        return "sketches"
    return "index" if name.endswith(".db") else "files"


@dataclass(frozen=True)
class Against:
    """What files are compared with.

    names: as they were named.
    files: files, folders and patterns.
    indices: open ones.
    sketches: folders of kept sketches.
    """

    names: Sequence[str] = ()
    files: Sequence[str] = ()
    indices: Sequence[Index] = ()
    sketches: Sequence[str] = ()

    @staticmethod
    def of(against: Sequence[str | Index], create: bool, opened: ExitStack) -> Against:
        """Return what each entry is: a local index (.db), kept sketches (.sketches), or a file.

        create: indices to be created. opened: closes the indices that are opened here. Raises
        UsageError for a local index that is missing, unless it is to be created.
        """
        names, files, sketches = list[str](), list[str](), list[str]()
        indices = list[Index]()
        for entry in against:
            if isinstance(entry, Index):
                names.append(entry.store.where)
                indices.append(entry)
                continue
            names.append(entry)
            kind = against_kind(entry)
            if kind == "sketches":
                sketches.append(entry)
            elif kind == "index":
                if not create and not Path(entry).exists():
                    raise UsageError(f"`against` {entry}: there is no such file")
                indices.append(opened.enter_context(open(Path(entry))))
            else:
                files.append(entry)
        return Against(names, files, indices, sketches)


@dataclass(frozen=True)
class FileInputs:
    """The documents of files, and those that they are compared with.

    files: to read.
    dead_letter: called with each record that is no document.
    workers: number of processes.
    against: the names of what the files are compared with.
    indices: whose documents precede those of the files.
    against_fields: of the text in the files that are compared with, or None for the same.
    former: the sketches of former runs, whose documents precede all others.
    """

    files: CleanFiles
    dead_letter: DeadLetter
    workers: int
    against: Sequence[str] = ()
    indices: Sequence[Index] = ()
    against_fields: Sequence[str] | None = None
    former: KeptSketches | None = None

    @cached_property
    def names(self) -> list[str]:
        """The names of all that is compared: kept files, indices, and the files that are read."""
        former = [] if self.former is None else self.former.names
        indices = [index.store.where for index in self.indices]
        return [*former, *indices, *map(name_of, self.files.inputs)]

    @property
    def earlier(self) -> int:
        """The number of first names, whose documents are only compared with."""
        return len(self.names) - len(self.files.files)

    @property
    def parameters(self) -> Mapping[str, object]:
        """The parameters that a run resumes by."""
        parameters: dict[str, object] = {"against": [*self.against] or None}
        if self.against_fields is not None:
            parameters["against field"] = [*self.against_fields]
        if self.former is not None:
            parameters[f"state of {self.former.place}"] = self.former.state
        return parameters

    def earlier_shares(self, reporter: Reporter) -> list[StoredShare]:
        """Return the sketches of former runs."""
        return [] if self.former is None else self.former.shares(reporter.step)

    def sketch(self, plan: Plan, task: Assignment, reporter: Reporter) -> None:
        """Write the sketches of the documents of a task, unless they are there."""
        reporter.begin("Sketching", total_bytes(self.files.inputs[task.inputs]))
        names, before = self.names, StoredRecords()
        if self.former is not None:
            names = names[len(self.former.names) :]
            if task.is_first:
                before = self.former.records
        documents = chain.from_iterable(self._chunks(plan, task, reporter))
        id_field = self.files.reading.id_field
        source = FileSource(
            plan, documents, self.dead_letter, id_field, self.workers, is_numbered=True
        )
        # With indices, one process reads all inputs.
        sketch_into(Shares(task.run), source, names[task.inputs], reporter.show, before)
        # Documents are sorted before they are compared.
        reporter.end()

    def _chunks(self, plan: Plan, task: Assignment, reporter: Reporter) -> list[Iterator[Chunk]]:
        """Return the records of a task, after a check of the names of fields."""
        reading = self.files.reading
        text_field = reading.text_fields[0]
        chunks = [chunks_of(index, text_field, plan.kept_beside) for index in self.indices]
        inputs = {*self.files.inputs[task.inputs]}
        for group in filter(None, (self.files.against, self.files.files)):
            paths = [path for path in group if path in inputs]
            fields = plan.columns
            is_compared = group is self.files.against
            reads = self._reading_of_compared if is_compared else reading
            records = reads.chunks(paths, reporter.advance, fields, group)
            is_renamed = is_compared and self.against_fields is not None
            chunks.append(self._with_one_field(records) if is_renamed else records)
        return chunks

    @property
    def _reading_of_compared(self) -> Reading:
        """How files are read that are only compared with."""
        reading = self.files.reading
        fields = self.against_fields or reading.text_fields
        return replace(
            reading, text_fields=fields, advice="name the field of its text (`against_field`)"
        )

    def _with_one_field(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the records of files to compare with, with their text in the others' field."""
        names = tuple(self.against_fields or ()), tuple(self.files.reading.text_fields)
        for chunk in chunks:
            records = partial(_with_text_moved, chunk.records, *names)
            yield replace(chunk, records=records)


def _with_text_moved(
    records: Callable[[], Iterable[Record | BadRecord]],
    text_fields: Sequence[str],
    new_fields: Sequence[str],
) -> Iterator[Record | BadRecord]:
    """Yield records with the text of some fields in other ones."""
    for record in records():
        if isinstance(record, BadRecord):
            yield record
            continue
        # What other fields of these names hold is no text of these records.
        text = text_at(record.source, text_fields)
        source = {**record.source, **dict.fromkeys(new_fields), new_fields[0]: text}
        yield record._replace(source=source, json=None)
