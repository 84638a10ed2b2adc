"""The documents that a job on files removes, or leaves whole, and the tables that list them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from esdedup.cleaning.outputs import RetainedRecords
from esdedup.compare.labels import label_at
from esdedup.groups.conflicts import Conflicts, label_text
from esdedup.runs.run import Arrays
from esdedup.runs.shares import Shares
from esdedup.sketch.measures import Measure
from esdedup.stores.memory_mapped import mapped
from esdedup.tabular import Tabular
from esdedup.text.arrays import F64, I64, Mask, offsets_of, run_starts
from esdedup.text.strings import Strings

_ROWS_AT_ONCE = 1 << 18


class Place(NamedTuple):
    """Where a document is.

    file: the name of its file.
    line: of the record, as `Record.line`.
    id: of the document.
    """

    file: str
    line: int
    id: str


@dataclass(frozen=True)
class Corpus:
    """The records of files, in the order read.

    shares: of the documents.
    names: of the files.
    earlier: number of first files, which are only compared with.
    counts: number of records of each file, shape (files,).
    lines: of all n records, as `Record.line`, negative for those that are no documents, shape (n,).
    """

    shares: Shares
    names: Sequence[str]
    earlier: int
    counts: I64
    lines: I64

    @cached_property
    def rows(self) -> I64:
        """The records that are documents, ascending, shape (documents,)."""
        return mapped(self.shares.run.folder, [np.flatnonzero(self.lines > 0)])

    @property
    def first(self) -> int:
        """The number of the first document of the later files."""
        return int(np.searchsorted(self.rows, self.counts[: self.earlier].sum()))

    @property
    def failed(self) -> int:
        """The number of records that are no documents."""
        return self.lines.size - self.rows.size

    @property
    def ends(self) -> list[int]:
        """The number of records before each later file, and of all."""
        ends: list[int] = offsets_of(self.counts)[self.earlier :].tolist()
        return ends

    def places(self, documents: I64) -> list[Place]:
        """Return where documents are."""
        records = self.rows[documents]
        files = np.searchsorted(offsets_of(self.counts), records, "right") - 1
        names = [self.names[file] for file in files.tolist()]
        lines, ids = self.lines[records].tolist(), self.shares.ids_of(documents)
        return [*map(Place, names, lines, ids)]


@dataclass(frozen=True)
class MaskedTexts:
    """Documents that stay without the items that they contained.

    documents: their numbers, ascending.
    texts: what is left of their texts.
    words: of each of these texts, shape (n,).
    """

    documents: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    texts: Strings = field(default_factory=lambda: Strings.of([]))
    words: I64 = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class NewValues:
    """The values that documents that stay take from their duplicates.

    documents: numbers of the documents that change, ascending, shape (n,).
    texts: for each the new values of its fields by path, as JSON.
    """

    documents: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    texts: Strings = field(default_factory=lambda: Strings.of([]))


@dataclass(frozen=True)
class Removals:
    """Documents that duplicate or contain others, a row for each pair, by document.

    If items are cut, a pair has a row for each cut.

    corpus: that the documents are of.
    measure: of the values.
    document: numbers of documents, shape (n,).
    original: the number of the document that each one duplicates, or contains, shape (n,).
    value: similarity or distance, or the contained fraction of the original, shape (n,).
    start: first character of the contained original in the text, shape (n,); none of duplicates.
    end: the end of it, likewise.
    masked: documents that stay all the same.
    are_contained: the documents contain their originals; one may have several rows.
    new_values: values that documents that stay take from those that are removed.
    """

    corpus: Corpus
    measure: Measure
    document: I64
    original: I64
    value: F64
    start: I64
    end: I64
    masked: MaskedTexts = field(default_factory=MaskedTexts)
    are_contained: bool = False
    new_values: NewValues = field(default_factory=NewValues)

    @staticmethod
    def of_duplicates(
        corpus: Corpus, measure: Measure, document: I64, original: I64, value: F64
    ) -> Removals:
        """Return the documents that duplicate an original each."""
        nowhere = np.zeros(0, np.int64)
        return Removals(corpus, measure, document, original, value, nowhere, nowhere)

    def to_arrays(self) -> Arrays:
        """Return arrays to save."""
        return {
            "document": self.document,
            "original": self.original,
            "value": self.value,
            "start": self.start,
            "end": self.end,
            "masked": self.masked.documents,
            "masked_texts": self.masked.texts.raw,
            "masked_offsets": self.masked.texts.offsets,
            "masked_words": self.masked.words,
            "new_values": self.new_values.documents,
            "new_texts": self.new_values.texts.raw,
            "new_offsets": self.new_values.texts.offsets,
        }

    def __len__(self) -> int:
        return self.document.size

    def picked(self, rows: I64) -> Removals:
        """Return some rows."""
        start, end = (self.start[rows], self.end[rows]) if self.start.size else (self.start,) * 2
        return Removals(
            self.corpus,
            self.measure,
            self.document[rows],
            self.original[rows],
            self.value[rows],
            start,
            end,
            self.masked,
            self.are_contained,
        )

    @cached_property
    def closest(self) -> Removals:
        """One row for each document: the original it contains most of, the last of equals."""
        if not self.are_contained:
            return self
        order = np.lexsort((self.value, self.document))
        document = self.document[order]
        is_last = np.append(document[1:] != document[:-1], True)[: document.size]
        return self.picked(order[is_last])

    @cached_property
    def removed(self) -> Mask:
        """Mark the documents that do not stay, shape (documents of the corpus,)."""
        removed = np.zeros(self.corpus.rows.size, np.bool_)
        removed[self.document] = True
        removed[self.masked.documents] = False
        return removed

    @property
    def retained(self) -> Mask:
        """Mark the later documents that stay, shape (documents of the corpus,)."""
        retained = ~self.removed
        retained[: self.corpus.first] = False
        return retained

    def retained_records(self) -> Iterator[RetainedRecords]:
        """Yield the records that stay of each later file."""
        corpus = self.corpus
        lines, is_retained = corpus.lines, corpus.lines > 0
        is_retained[corpus.rows[self.removed]] = False
        masked_records = corpus.rows[self.masked.documents]
        new_records = corpus.rows[self.new_values.documents]
        for start, end in itertools.pairwise(corpus.ends):
            in_file = slice(start, end)
            changed = _by_line(lines, in_file, masked_records, self.masked.texts)
            new_values = _by_line(lines, in_file, new_records, self.new_values.texts)
            yield RetainedRecords(np.abs(lines[in_file]), is_retained[in_file], changed, new_values)

    def table(self) -> Tabular:
        """Return the table that lists the rows."""
        return ContainedTable(self) if self.are_contained else DuplicatesTable(self)

    def blocks(self) -> Iterator[Removals]:
        """Yield the rows in blocks, whose places fit into memory."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield self.picked(np.arange(start, min(start + _ROWS_AT_ONCE, len(self))))

    def places(self) -> Iterator[tuple[Place, Place]]:
        """Return where the document and the original of each row are."""
        documents = self.corpus.places(self.document)
        return zip(documents, self.corpus.places(self.original), strict=True)


def _by_line(lines: I64, in_file: slice, records: I64, texts: Strings) -> dict[int, str]:
    """Return the texts of the records of a file by line.

    lines: of all records. in_file: the records of the file. records: those that have a text each,
    ascending.
    """
    first, end = np.searchsorted(records, [in_file.start, in_file.stop]).tolist()
    return {int(lines[records[row]]): texts[row] for row in range(first, end)}


PLACES = {
    "file": "string",
    "line": "int64",
    "id": "string",
    "original_file": "string",
    "original_line": "int64",
    "original_id": "string",
}
"""The columns of where a document and its original are."""


@dataclass(frozen=True, repr=False)
class DuplicatesTable(Tabular):
    """The documents that duplicate others, with where they and their originals are."""

    removals: Removals
    columns: ClassVar[dict[str, str]] = {**PLACES, "similarity": "double", "distance": "int64"}

    def __len__(self) -> int:
        return len(self.removals)

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        measure = self.removals.measure
        for block in self.removals.blocks():
            for (place, original), value in zip(block.places(), block.value.tolist(), strict=True):
                yield *place, *original, *measure.marks(value)


@dataclass(frozen=True, repr=False)
class ContainedTable(Tabular):
    """The documents that contain others, a row for each that one contains, or for each cut."""

    removals: Removals
    columns: ClassVar[dict[str, str]] = {
        **PLACES,
        "contained": "double",
        "start": "int64",
        "end": "int64",
    }

    def __len__(self) -> int:
        return len(self.removals)

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        for block in self.removals.blocks():
            numbers = block.value.tolist(), block.start.tolist(), block.end.tolist()
            for (place, original), *measured in zip(block.places(), *numbers, strict=True):
                yield *place, *original, *measured


@dataclass(frozen=True, repr=False)
class DocumentsLeftWhole(Tabular):
    """Documents of groups that are left whole, group after group. It is the table that lists them.

    corpus: that the documents are of.
    document: numbers of documents, shape (n,).
    group: the number of the group of each, from 1, ascending, shape (n,).
    labels: of each, as `labels_of` returns them.
    """

    corpus: Corpus
    document: I64
    group: I64
    labels: Strings

    columns: ClassVar[dict[str, str]] = {
        "group": "int64", "file": "string", "line": "int64", "id": "string", "label": "string",
    }  # fmt: skip

    @staticmethod
    def of(corpus: Corpus, order: I64, conflicts: Conflicts) -> DocumentsLeftWhole:
        """Return the documents of groups. order: the document of each row."""
        group = np.cumsum(run_starts(conflicts.representative), dtype=np.int64)
        return DocumentsLeftWhole(corpus, order[conflicts.rows], group, conflicts.labels)

    @staticmethod
    def load(corpus: Corpus, arrays: Arrays) -> DocumentsLeftWhole:
        """Return the documents that were found before. arrays: as they were saved."""
        labels = Strings(arrays["labels"], arrays["label_offsets"])
        return DocumentsLeftWhole(corpus, arrays["document"], arrays["group"], labels)

    def to_arrays(self) -> Arrays:
        """Return arrays to save."""
        return {
            "document": self.document,
            "group": self.group,
            "labels": self.labels.raw,
            "label_offsets": self.labels.offsets,
        }

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.group[-1]) if self.group.size else 0

    def __len__(self) -> int:
        return self.document.size

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        for start in range(0, len(self), _ROWS_AT_ONCE):
            rows = range(start, min(start + _ROWS_AT_ONCE, len(self)))
            places = self.corpus.places(self.document[rows.start : rows.stop])
            for row, place in zip(rows, places, strict=True):
                yield int(self.group[row]), *place, label_text(label_at(self.labels, row))

    def samples(self, groups: int, documents: int) -> list[list[dict[str, object]]]:
        """Return the first groups, and of each the first documents: where they are, and labels."""
        listed = list[list[dict[str, object]]]()
        for number in range(1, min(groups, self.groups) + 1):
            first, end = np.searchsorted(self.group, [number, number + 1]).tolist()
            rows = range(first, min(end, first + documents))
            places = self.corpus.places(self.document[rows.start : rows.stop])
            listed.append(
                [
                    {**place._asdict(), "label": label_at(self.labels, row)}
                    for row, place in zip(rows, places, strict=True)
                ]
            )
        return listed
