"""Find the documents of files that duplicate others, and values that what stays takes from them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from esdedup.cleaning.document_search import DocumentSearch, RemovedDocuments
from esdedup.cleaning.job import Reporter
from esdedup.cleaning.outputs import CleanFiles
from esdedup.cleaning.removals import Corpus, DocumentsLeftWhole, NewValues, Removals
from esdedup.cleaning.report import ConflictReport, MergeReport, MergeSample, report_of
from esdedup.compare.columns import columns_by_number
from esdedup.compare.resources import DEFAULT_MEMORY, Resources
from esdedup.exceptions import InputError, RecordError, UsageError
from esdedup.groups.groups import Grouping, Groups, groups_among
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.files import BadRecord, format_of
from esdedup.records.inputs import total_bytes
from esdedup.records.merge import Merge
from esdedup.runs.run import Arrays
from esdedup.stores.json_text import EXACT, SHOWN, any_json, exact_json, json_without_nan
from esdedup.stores.to_json import is_nested_beyond
from esdedup.text.arrays import I64, Mask, run_starts
from esdedup.text.strings import Numbers, Strings

_SAMPLES = 10
"""Number of documents whose new values a report shows."""
_SHOWN_LEVELS = 50
"""Levels of lists and objects that a report has."""


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


@dataclass(frozen=True)
class MergedValues:
    """Gives documents that stay values of those that are removed.

    files: to read the values from.
    dead_letter: called with the values of a removed document of which one can't be taken.
    reporter: shows the progress.
    """

    files: CleanFiles
    dead_letter: DeadLetter
    reporter: Reporter

    def of(self, removals: Removals) -> tuple[Removals, MergeReport]:
        """Return removals with the new values of documents that stay.

        Originals in files that are only compared with are not written, so they take none.
        """
        is_written = removals.original >= removals.corpus.first
        documents, originals = removals.document[is_written], removals.original[is_written]
        order = np.argsort(originals, kind="stable")
        documents, originals = documents[order], originals[order]
        values = self._read(removals, np.union1d(documents, originals))
        is_json = self._are_json(removals.corpus, originals)
        merge, corpus = self.files.merge, removals.corpus
        counts = Counter(dict.fromkeys(merge.paths, 0))
        changed, texts, samples, untaken = list[int](), list[str](), list[MergeSample](), 0
        starts = np.flatnonzero(run_starts(originals))
        for start, end in itertools.pairwise([*starts.tolist(), originals.size]):
            original = int(originals[start])
            present = values.of(original)
            of_duplicates = [values.of(document) for document in documents[start:end].tolist()]
            new_values = merge.new_values(present, of_duplicates)
            if not new_values:
                continue
            # The columns of tables hold any number.
            if is_json[start] and not _has_form_in_json(new_values):
                usable = _UsableValues.of(merge, present, of_duplicates)
                untaken += len(usable.faults)
                for position, fault in usable.faults.items():
                    row = documents[start + position : start + position + 1]
                    ((file, line, _),) = corpus.places(row)
                    self.dead_letter(
                        BadRecord(file, line, any_json(of_duplicates[position]), fault)
                    )
                if not (new_values := merge.new_values(present, usable.of_duplicates)):
                    continue
            changed.append(original)
            texts.append(any_json(new_values))
            counts.update(merge.number_of_new(present, new_values))
            if len(samples) < _SAMPLES:
                (place,) = corpus.places(originals[start : start + 1])
                samples.append(MergeSample(*place, _shown(new_values)))
        added = NewValues(np.array(changed, np.int64), Strings.of(texts))
        report = MergeReport(len(changed), dict(counts), tuple(samples), untaken)
        return replace(removals, new_values=added), report

    def _read(self, removals: Removals, documents: I64) -> _Values:
        """Read the values of some documents again. documents: their numbers, ascending."""
        files = self.files
        lines_of = dict(_lines_by_file(removals, files, documents))
        self.reporter.begin("Reading values", total_bytes([*lines_of]))
        texts = list[bytes]()
        for path, lines in lines_of.items():
            remaining, is_json = {*lines.tolist()}, self._is_json(path)
            # All files, because the first records of one may have no text.
            chunks = files.reading.chunks(
                [path], self.reporter.advance, files.merge.paths, files.files
            )
            for record in itertools.chain.from_iterable(chunk.records() for chunk in chunks):
                if record.source is not None and record.line in remaining:
                    text = record.raw if isinstance(record, BadRecord) else record.json
                    try:
                        if is_json and text is not None:
                            values = files.merge.exact_values_in(record.source, text)
                        else:
                            values = files.merge.values_in(record.source)
                    except RecursionError as error:
                        place = f"{path}, line {record.line}"
                        raise InputError(f"{place}: nested too deeply to merge values") from error
                    texts.append(any_json(values).encode())
        self.reporter.end()
        if len(texts) != documents.size:
            raise InputError("files have changed since they were read: run this again")
        return _Values(documents, Strings.of_bytes(texts))

    def _are_json(self, corpus: Corpus, documents: I64) -> Mask:
        """Mark the documents that are in files of JSON, shape (n,). documents: their numbers."""
        files = np.searchsorted(corpus.ends, corpus.rows[documents], side="right") - 1
        of_files = np.array([*map(self._is_json, self.files.files)])
        return of_files[files]

    def _is_json(self, path: str) -> bool:
        """Return whether a file holds JSON."""
        return (self.files.format or format_of(path)) == "jsonl"


@dataclass(frozen=True)
class _UsableValues:
    """The values of duplicates that have a form in JSON.

    of_duplicates: of each duplicate, by path, with null in place of NaN.
    faults: by the position of a duplicate, why one of its values can't be taken.
    """

    of_duplicates: Sequence[Mapping[str, object]]
    faults: Mapping[int, str]

    @staticmethod
    def of(
        merge: Merge, present: Mapping[str, object], of_duplicates: Sequence[Mapping[str, object]]
    ) -> _UsableValues:
        """Look at the values of duplicates. present: those of the document that stays."""
        usable, faults = list[Mapping[str, object]](), dict[int, str]()
        for position, values in enumerate(of_duplicates):
            with_form, reasons = dict[str, object](), dict[str, str]()
            for path, value in values.items():
                try:
                    # As deep as in a list of the field.
                    text = json_without_nan({path: [value]}, f"its value of {path!r}")
                    (with_form[path],) = EXACT.decode(text)[path]
                except RecordError as error:
                    reasons[path] = str(error)
            if reasons:
                # What the document that stays has in any case is no loss.
                has = {**present, **merge.new_values(present, usable)}
                lost = [
                    reasons[path] for path in merge.new_values(has, [values]) if path in reasons
                ]
                if lost:
                    faults[position] = f"no other record can take values of it: {'; '.join(lost)}"
            usable.append(with_form)
        return _UsableValues(usable, faults)


def _shown(values: Mapping[str, object]) -> dict[str, object]:
    """Return values as a report has them: those that are nested deeply as texts."""
    texts = {path: any_json(value) for path, value in values.items()}
    return {
        path: text if is_nested_beyond(_SHOWN_LEVELS, text, values[path]) else SHOWN.decode(text)
        for path, text in texts.items()
    }


def _has_form_in_json(values: Mapping[str, object]) -> bool:
    """Return whether values have a form in JSON."""
    try:
        exact_json(values, "values")
    except RecordError:
        return False
    return True


@dataclass(frozen=True)
class NearDuplicates(DocumentSearch):
    """Finds documents that duplicate others.

    grouping: which documents duplicate others.
    max_memory: in bytes; the result does not depend on it.
    only_between: documents of the files are compared with earlier ones only.
    merged: gives values to documents that stay; None if they take none.
    """

    grouping: Grouping
    max_memory: int | None = None
    only_between: bool = False
    merged: MergedValues | None = None

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
        if self.merged is not None:
            removals, merged = self.merged.of(removals)
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
