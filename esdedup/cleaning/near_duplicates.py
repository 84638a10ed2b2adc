"""Find the documents of files that duplicate others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from esdedup.cleaning.document_search import DocumentSearch, RemovedDocuments
from esdedup.cleaning.removals import Corpus, DocumentsLeftWhole, Removals
from esdedup.cleaning.report import ConflictReport, report_of
from esdedup.compare.columns import columns_by_number
from esdedup.compare.resources import DEFAULT_MEMORY, Resources
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups, groups_among
from esdedup.runs.run import Arrays
from esdedup.text.arrays import I64
from esdedup.text.strings import Numbers


@dataclass(frozen=True)
class MemoryOfJob:
    """Memory besides what is sorted and compared at once, in bytes.

    base: of the program.
    document: for each document.
    """

    base: int = 192 << 20
    document: int = 60


MEMORY = MemoryOfJob()


@dataclass(frozen=True)
class NearDuplicates(DocumentSearch):
    """Finds documents that duplicate others.

    grouping: which documents duplicate others.
    max_memory: in bytes; the result does not depend on it.
    only_between: documents of the files are compared with earlier ones only.
    """

    grouping: Grouping
    max_memory: int | None = None
    only_between: bool = False

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
        memory = self._memory_of(corpus.rows.size)
        columns = columns_by_number(corpus.shares, self.plan, corpus.first, memory)
        columns = replace(columns, only_between=self.only_between)
        assert isinstance(columns.ids, Numbers)
        order = columns.ids.values
        folder, reporter = corpus.shares.run.folder, self.reporter
        resources = Resources(folder, reporter.step, memory, on_candidates=reporter.compare)
        groups = groups_among(columns, self.plan, self.grouping, resources)
        removals = _duplicates(corpus, order, groups)
        report = report_of(removals, columns, order, groups)
        if self.grouping.conflict is None:
            return RemovedDocuments(removals, report)
        left_whole = DocumentsLeftWhole.of(corpus, order, groups.conflicts)
        conflicts = ConflictReport.of(self.grouping.conflict, left_whole)
        return RemovedDocuments(removals, replace(report, conflicts=conflicts), left_whole)

    def load(self, corpus: Corpus, arrays: Arrays) -> Removals:
        """Return the documents that were found before. arrays: as they were saved."""
        columns = arrays["document"], arrays["original"], arrays["value"]
        return Removals.of_duplicates(corpus, self.plan.measure, *columns)

    def _memory_of(self, documents: int) -> int:
        """Return the bytes of memory that are left to compare a number of documents."""
        if self.max_memory is None:
            return DEFAULT_MEMORY
        needed = MEMORY.base + MEMORY.document * documents
        if self.max_memory <= needed:
            least = f"{(needed >> 20) + 1}MB"
            raise UsageError(f"`max_memory`: {documents:,} documents require {least}")
        return self.max_memory - needed


def _duplicates(corpus: Corpus, order: I64, groups: Groups) -> Removals:
    """Return the later documents that duplicate others. order: the document of each row."""
    rows = groups.duplicate_rows
    rows = rows[order[rows] >= corpus.first]
    rows = rows[np.argsort(order[rows])]
    originals = order[groups.representative[rows]]
    values = groups.value[rows].astype(np.float64)
    return Removals.of_duplicates(corpus, groups.measure, order[rows], originals, values)
