"""The stages that the searches for near-duplicates and for contained items have in common.

Texts and tokens are read into a run, then the decisions are saved in it, so that a run that is
killed resumes from the last of these steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from esdedup.cleaning.job import Assignment, Reporter
from esdedup.cleaning.outputs import RetainedRecords
from esdedup.cleaning.removals import Corpus, DocumentsLeftWhole, Removals
from esdedup.cleaning.report import CleanReport, report_from_json
from esdedup.cleaning.sketching import corpus_of
from esdedup.compare.plan import Plan
from esdedup.runs.run import Arrays, Run
from esdedup.runs.shares import Shares, StoredShare
from esdedup.tabular import Tabular
from esdedup.text.arrays import Mask

REPORT = "report.json"
"""The file of a run with which its decisions are made."""
_DECISIONS, _LEFT_WHOLE = "decisions", "conflicts"


@dataclass(frozen=True)
class RemovedDocuments:
    """Documents that a search has found.

    removals: the documents.
    report: the counts.
    left_whole: the documents of groups that stay because of their labels, if labels are compared.
    """

    removals: Removals
    report: CleanReport
    left_whole: DocumentsLeftWhole | None = None

    @property
    def records(self) -> int:
        """The number of records of the files to write."""
        ends = self.removals.corpus.ends
        return ends[-1] - ends[0]

    @property
    def corpus(self) -> Corpus:
        """All documents."""
        return self.removals.corpus

    @property
    def retained(self) -> Mask:
        """Mark the later documents that stay, shape (documents of the corpus,)."""
        return self.removals.retained

    def retained_records(self) -> Iterator[RetainedRecords]:
        """Yield the records that stay of each file."""
        return self.removals.retained_records()

    def table(self) -> Tabular:
        """Return the table that lists the documents."""
        return self.removals.table()


class DocumentInputs(Protocol):
    """Where the documents of a search come from."""

    @property
    def names(self) -> list[str]:
        """The names of all files and indices, in the order of their documents."""

    @property
    def earlier(self) -> int:
        """The number of first names, whose documents are only compared with."""

    @property
    def parameters(self) -> Mapping[str, object]:
        """The parameters that a run resumes by."""

    def sketch(self, plan: Plan, task: Assignment, reporter: Reporter) -> None:
        """Write the sketches of the documents of a task, unless they are there."""

    def earlier_shares(self, reporter: Reporter) -> list[StoredShare]:
        """Return sketches of earlier runs, whose documents precede all others."""


@dataclass(frozen=True)
class DocumentSearch(ABC):
    """Finds documents to remove.

    inputs: where documents come from.
    plan: of the comparison.
    reporter: shows the progress.
    """

    inputs: DocumentInputs
    plan: Plan
    reporter: Reporter

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, object]:
        """The parameters that a run resumes by."""

    @abstractmethod
    def find(self, corpus: Corpus) -> RemovedDocuments:
        """Find the documents to remove."""

    @abstractmethod
    def load(self, corpus: Corpus, arrays: Arrays) -> Removals:
        """Return the documents that were found before. arrays: as they were saved."""

    def sketch(self, task: Assignment) -> None:
        """Write the sketches of the documents of a task, unless they are there."""
        self.inputs.sketch(self.plan, task, self.reporter)

    def decide(self, run: Run) -> RemovedDocuments:
        """Find the documents to remove, unless the run has found them."""
        shares = Shares(run, self.inputs.earlier_shares(self.reporter))
        corpus = corpus_of(shares, self.inputs.names, self.inputs.earlier)
        if run.has(REPORT):
            removals = self.load(corpus, run.load(_DECISIONS))
            left_whole = None
            if run.has(_LEFT_WHOLE):
                left_whole = DocumentsLeftWhole.load(corpus, run.load(_LEFT_WHOLE))
        else:
            removed = self.find(corpus)
            removals, left_whole = removed.removals, removed.left_whole
            run.save(_DECISIONS, removals.to_arrays())
            if left_whole is not None:
                run.save(_LEFT_WHOLE, left_whole.to_arrays())
            run.save_value(REPORT, removed.report.to_json())
        # The same, whether it was found now or before.
        removed = RemovedDocuments(removals, report_from_json(run.value_of(REPORT)), left_whole)
        # Before any file is written.
        if warning := removed.report.unordered.warning(self.plan.keep):
            self.reporter.say(warning)
        return removed
