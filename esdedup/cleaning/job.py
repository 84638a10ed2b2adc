"""A job on files in three stages: sketch documents, decide which of them go, write the files again.

Each algorithm is a class in a module of its own. What runs the stages, such as `one_process` or
`tasks`, knows nothing of the algorithm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from esdedup.cleaning.outputs import CleanFiles, RetainedRecords
from esdedup.cleaning.report import CleanReport
from esdedup.records.table_files import write_table
from esdedup.runs.run import OnStep, Run
from esdedup.tabular import Tabular

log = logging.getLogger("esdedup")


class Reporter(Protocol):
    """Shows how far a job is."""

    def begin(self, title: str, total: int | None) -> None:
        """Begin a step. total: in bytes, if it is known."""

    def advance(self, steps: int) -> None:
        """Count bytes that are read."""

    def show(self, documents: int) -> None:
        """Show how many documents are done."""

    def step(self, title: str, settled: int, total: int) -> None:
        """Show the documents that a step has processed, of how many."""

    def compare(self, candidates: int) -> None:
        """Count candidate pairs that are compared."""

    def end(self) -> None:
        """End a step, if no other one begins at once."""

    def say(self, text: str) -> None:
        """Show a sentence."""


@dataclass
class CallbackReporter:
    """Calls a function with the name of a step, the amount done, and the total; 0 if unknown."""

    on_progress: OnStep = field(default=lambda *_: None)
    _title: str = ""
    _total: int | None = None
    _bytes: int = 0

    def begin(self, title: str, total: int | None) -> None:
        """Begin a step. total: in bytes, if it is known."""
        self._title, self._total, self._bytes = title, total, 0

    def advance(self, steps: int) -> None:
        """Count bytes that are read."""
        self._bytes += steps

    def show(self, documents: int) -> None:
        """Report the bytes, or if their total is unknown the documents."""
        if self._total is None:
            self.on_progress(self._title, documents, 0)
        else:
            self.on_progress(self._title, self._bytes, self._total)

    def step(self, title: str, settled: int, total: int) -> None:
        """Report the documents that a step has processed, of how many."""
        self.on_progress(title, settled, total)

    def compare(self, candidates: int) -> None:
        """Ignore candidate pairs, which are no steps."""

    def end(self) -> None:
        """Ignore the end of a step, which the next one shows."""

    def say(self, text: str) -> None:
        """Log a sentence."""
        log.info("%s", text)


@dataclass(frozen=True)
class Assignment:
    """What one process does of a stage: all of it, or a part.

    run: the folder that it works in.
    inputs: range of the inputs that it reads, or writes again.
    is_first: what precedes the inputs of all processes is stored by this one.
    """

    run: Run
    inputs: slice
    is_first: bool = True

    @staticmethod
    def whole(run: Run) -> Assignment:
        """Return all of a stage."""
        return Assignment(run, slice(None))


class FileDecisions(Protocol):
    """What an algorithm has decided."""

    @property
    def report(self) -> CleanReport:
        """The counts; of an algorithm that decides while files are written, after that."""

    @property
    def records(self) -> int | None:
        """The number of records of the files to write, if it is known before."""

    def retained_records(self) -> Iterator[RetainedRecords]:
        """Yield the records that stay of each file."""

    def table(self) -> Tabular | None:
        """Return the table that lists what is removed, if there is one."""

    @property
    def left_whole(self) -> Tabular | None:
        """The table that lists groups that stay because of their labels, if labels are compared."""


class Algorithm(Protocol):
    """Decides what stays of files."""

    @property
    def parameters(self) -> Mapping[str, object]:
        """The parameters that a run resumes by."""

    def sketch(self, task: Assignment) -> None:
        """Write what is compared of the inputs of a task to its run, unless it is there."""

    def decide(self, run: Run) -> FileDecisions:
        """Decide what stays, by the sketches of all tasks, unless the run has decided."""


@dataclass(frozen=True)
class CleanJob:
    """A job that writes files again without some of what they hold.

    files: to read and to write.
    algorithm: decides what stays.
    reporter: shows the progress.
    add: adds the documents that stay to what later runs are compared with, or None.
    """

    files: CleanFiles
    algorithm: Algorithm
    reporter: Reporter
    add: Callable[[FileDecisions], None] | None = None

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that a run resumes by."""
        removed = {} if self.files.removed is None else {"removed": self.files.removed}
        # An error names the first difference: another list, not the sketches that a killed run
        # added to.
        return {**removed, **self.algorithm.parameters, **self.files.job}

    def sketch(self, task: Assignment) -> None:
        """Write what is compared of the inputs of a task to its run, unless it is there."""
        self.algorithm.sketch(task)

    def decide(self, run: Run) -> FileDecisions:
        """Decide what stays, by the sketches of all tasks, unless the run has decided."""
        return self.algorithm.decide(run)

    def write(
        self, task: Assignment, retained: Iterable[RetainedRecords], records: int | None
    ) -> None:
        """Write the files of a task again that are missing.

        retained: the records that stay of each file. records: their number, if it is known.
        """
        first = max(0, (task.inputs.start or 0) - len(self.files.against))
        written = 0
        if records is not None:
            self.reporter.step("Writing", written, records)
        for number in self.files.write(retained, first):
            written += number
            if records is None:
                self.reporter.show(written)
            else:
                self.reporter.step("Writing", written, records)

    def finish(self, decisions: FileDecisions) -> None:
        """Write what describes all files, once these are written."""
        self.files.copy_about()
        table = decisions.table()
        if table is not None and self.files.listed is not None:
            write_table(self.files.listed, table, self.files.most_private)
        left_whole = decisions.left_whole
        if left_whole is not None and self.files.left_whole is not None:
            write_table(self.files.left_whole, left_whole, self.files.most_private)
        if self.files.report is not None:
            decisions.report.save(self.files.report, self.files.most_private)
        if self.add is not None:
            self.add(decisions)
