"""Find the documents of files that duplicate others, and values that what stays takes from them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from esdedup.cleaning.document_search import DocumentSearch, RemovedDocuments
from esdedup.cleaning.job import Reporter
from esdedup.cleaning.outputs import CleanFiles
from esdedup.cleaning.removals import Corpus, DocumentsLeftWhole, NewValues, Removals
from esdedup.cleaning.report import ConflictReport, MergeReport, MergeSample, report_of
from esdedup.compare.columns import columns_by_number
from esdedup.compare.resources import DEFAULT_MEMORY, Resources
from esdedup.exceptions import InputError, UsageError
from esdedup.groups.groups import Grouping, Groups, groups_among
from esdedup.records.files import BadRecord, format_of
from esdedup.records.inputs import total_bytes
from esdedup.runs.run import Arrays
from esdedup.stores.json_text import EXACT, exact_json
from esdedup.text.arrays import I64, run_starts
from esdedup.text.strings import Numbers, Strings

_SAMPLES = 10
"""Number of documents whose new values a report shows."""


@dataclass(frozen=True)
class MemoryOfJob:
    """Memory besides what is sorted and compared at once, in bytes.

    base: of the program.
    document: for each document.
    """

    base: int = 192 << 20
    document: int = 60

    def rest(self, max_memory: int | None, documents: int) -> int:
        """Return the bytes that are left to sort and compare a number of documents.

        max_memory: of all; None for the default. Raises UsageError if nothing is left.
        """
        if max_memory is None:
            return DEFAULT_MEMORY
        needed = self.base + self.document * documents
        if max_memory <= needed:
            least = f"{(needed >> 20) + 1}MB"
            raise UsageError(f"`max_memory`: {documents:,} documents require {least}")
        return max_memory - needed


MEMORY = MemoryOfJob()


@dataclass(frozen=True)
class NearDuplicates(DocumentSearch):
    """Finds documents that duplicate others.

    grouping: which documents duplicate others.
    max_memory: in bytes; the result does not depend on it.
    only_between: documents of the files are compared with earlier ones only.
    files: to read the values from that documents take; None if they take none.
    """

    grouping: Grouping
    max_memory: int | None = None
    only_between: bool = False
    files: CleanFiles | None = None

    @property
    def parameters(self) -> Mapping[str, object]:
        """The parameters that a run resumes by."""
        parameters = {**self.grouping.to_json(), "scheme": self.plan.meta.scheme.id}
        if self.only_between:
            # Without it, a run is the same as one of a version that does not know the setting.
            parameters["only between"] = True
        return {**parameters, "share": None, "mask": False, **self.inputs.parameters}

    def find(self, corpus: Corpus) -> RemovedDocuments:
        """Find the documents to remove.

        Raises UsageError if the memory is too small for the number of documents.
        """
        memory = MEMORY.rest(self.max_memory, corpus.rows.size)
        columns = columns_by_number(corpus.shares, self.plan, corpus.first, memory)
        columns = replace(columns, only_between=self.only_between)
        assert isinstance(columns.ids, Numbers)
        order = columns.ids.values
        folder, reporter = corpus.shares.run.folder, self.reporter
        resources = Resources(folder, reporter.step, memory, on_candidates=reporter.compare)
        groups = groups_among(columns, self.plan, self.grouping, resources)
        removals = _duplicates(corpus, order, groups)
        report = report_of(removals, columns, order, groups)
        if self.files is not None:
            removals, merged = with_new_values(removals, self.files, reporter)
            report = replace(report, merged=merged)
        if self.grouping.conflict is None:
            return RemovedDocuments(removals, report)
        left_whole = DocumentsLeftWhole.of(corpus, order, groups.conflicts)
        conflicts = ConflictReport.of(self.grouping.conflict, left_whole)
        return RemovedDocuments(removals, replace(report, conflicts=conflicts), left_whole)

    def load(self, corpus: Corpus, arrays: Arrays) -> Removals:
        """Return the documents that were found before. arrays: as they were saved."""
        columns = arrays["document"], arrays["original"], arrays["value"]
        removals = Removals.of_duplicates(corpus, self.plan.measure, *columns)
        texts = Strings(arrays["new_texts"], arrays["new_offsets"])
        return replace(removals, new_values=NewValues(arrays["new_values"], texts))


def _duplicates(corpus: Corpus, order: I64, groups: Groups) -> Removals:
    """Return the later documents that duplicate others. order: the document of each row."""
    rows = groups.duplicate_rows
    rows = rows[order[rows] >= corpus.first]
    rows = rows[np.argsort(order[rows])]
    originals = order[groups.representative[rows]]
    values = groups.value[rows].astype(np.float64)
    return Removals.of_duplicates(corpus, groups.measure, order[rows], originals, values)


def with_new_values(
    removals: Removals, files: CleanFiles, reporter: Reporter
) -> tuple[Removals, MergeReport]:
    """Return removals whose documents that stay take values from those that are removed.

    Originals in files that are only compared with are not written, so they take none.
    """
    is_written = removals.original >= removals.corpus.first
    documents, originals = removals.document[is_written], removals.original[is_written]
    order = np.argsort(originals, kind="stable")
    documents, originals = documents[order], originals[order]
    involved = np.union1d(documents, originals)
    values = _read_values(removals, files, involved, reporter)
    merge = files.merge
    counts = Counter(dict.fromkeys(merge.paths, 0))
    changed, texts, samples = list[int](), list[str](), list[MergeSample]()
    starts = np.flatnonzero(run_starts(originals))
    for start, end in itertools.pairwise([*starts.tolist(), originals.size]):
        original = int(originals[start])
        present = values.of(original)
        new_values = merge.new_values(present, map(values.of, documents[start:end].tolist()))
        if not new_values:
            continue
        changed.append(original)
        texts.append(exact_json(new_values, "values of duplicates"))
        counts.update(merge.number_of_new(present, new_values))
        if len(samples) < _SAMPLES:
            (place,) = removals.corpus.places(np.array([original]))
            samples.append(MergeSample(*place, new_values))
    added = NewValues(np.array(changed, np.int64), Strings.of(texts))
    report = MergeReport(len(changed), dict(counts), tuple(samples))
    return replace(removals, new_values=added), report


@dataclass(frozen=True)
class _Values:
    """The values of the fields of some documents.

    documents: their numbers, ascending, shape (n,).
    texts: the values of each, by path as JSON.
    """

    documents: I64
    texts: Strings

    def of(self, document: int) -> dict[str, object]:
        """Return the values of a document."""
        row = int(np.searchsorted(self.documents, document))
        values: dict[str, object] = EXACT.decode(self.texts[row])
        return values


def _read_values(
    removals: Removals, files: CleanFiles, documents: I64, reporter: Reporter
) -> _Values:
    """Read the values of some documents again. documents: their numbers, ascending."""
    lines_of = dict(_lines_by_file(removals, files, documents))
    reporter.begin("Reading values", total_bytes([*lines_of]))
    texts = list[bytes]()
    for path, lines in lines_of.items():
        remaining, is_json = {*lines.tolist()}, (files.format or format_of(path)) == "jsonl"
        # All files, because the first records of one may have no text.
        chunks = files.reading.chunks([path], reporter.advance, files.merge.paths, files.files)
        for record in itertools.chain.from_iterable(chunk.records() for chunk in chunks):
            if record.source is not None and record.line in remaining:
                text = record.raw if isinstance(record, BadRecord) else record.json
                if is_json and text is not None:
                    values = files.merge.exact_values_in(record.source, text)
                else:
                    values = files.merge.values_in(record.source)
                texts.append(exact_json(values, f"{path}, line {record.line}").encode())
    reporter.end()
    if len(texts) != documents.size:
        raise InputError("files have changed since they were read: run this again")
    return _Values(documents, Strings.of_bytes(texts))


def _lines_by_file(
    removals: Removals, files: CleanFiles, documents: I64
) -> Iterator[tuple[str, I64]]:
    """Yield the files that documents are of, each with their lines, in the order of the files."""
    corpus = removals.corpus
    records = corpus.rows[documents]
    for path, (start, end) in zip(files.files, itertools.pairwise(corpus.ends), strict=True):
        first, last = np.searchsorted(records, [start, end])
        if last > first:
            yield path, corpus.lines[records[first:last]]
