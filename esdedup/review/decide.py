"""Show the plan of a run of `dedup`, run it, and list all runs that can be undone."""

import glob
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from starlette.exceptions import HTTPException
from starlette.responses import Response

from esdedup.exceptions import EsdedupError, UsageError
from esdedup.groups.groups import Groups
from esdedup.index import Index
from esdedup.models import MARKS
from esdedup.removal.log import IN_THE_PAST, LogReader
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport, changed_by, is_changed
from esdedup.review.found import by_likeness
from esdedup.review.groups import described, rules_of, warnings_of
from esdedup.review.jobs import Job
from esdedup.review.pages import Given, Review
from esdedup.stores.private_files import file_name
from esdedup.text.characters import count, message_of

OnReport = Callable[[Any], None]
_EXAMPLES = 10
"""Groups on the page, the largest and the least similar ones."""
_MOST = 20
"""Failures of a run on the page, the first ones, and logs, the last ones."""
_SECONDS = 2.0
"""Time limit for counting the documents of runs that are still removed."""


@dataclass
class RunningDecision:
    """A run of this session, or what undoes one.

    done: its action in words. total: documents, 0 if unknown. log: a run that is refused writes
    none. damage: the reason for which the rest of a log could not be read, if any.
    """

    title: str
    done: str = ""
    total: int = 0
    report: DedupReport | UndoReport | None = None
    log: Path | None = None
    job: Job | None = None
    damage: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunLog:
    """Log of a run.

    reader: None if its first line can't be read. fault: why it can't be undone here, or None.
    changed: documents that it may have changed; None if they were not counted. left: those of them
    that are still removed, or marked. whole: it was not interrupted.
    """

    path: Path
    reader: LogReader | None
    fault: str | None
    changed: int | None = None
    left: int = 0
    whole: bool = True


@dataclass(frozen=True)
class Decide:
    """The page."""

    review: Review
    runs: list[RunningDecision] = field(default_factory=list)

    def show(self, given: Given) -> Response:
        """Show the plan, the last run of this session, and all runs whose logs are here."""
        review, found = self.review, self.review.found
        groups, error, plan = found.groups(), None, {}
        if groups is not None:
            plan = self._plan(groups)
            plan["largest"] = described(review, groups, groups.heads[:_EXAMPLES])
            plan["farthest"] = described(review, groups, by_likeness(groups)[:_EXAMPLES])
        elif not self.runs:
            error = found.ready()
        logs, ends = [*logs_of(review)], time.monotonic() + _SECONDS
        return review.page(
            "decide.html",
            groups=groups,
            error=error,
            run=self.runs[-1] if self.runs else None,
            most=_MOST,
            logs=[_counted(review.index, log, ends) for log in logs[:_MOST]],
            more_logs=len(logs[_MOST:]),
            done=IN_THE_PAST,
            **plan,
        )

    def confirm(self, given: Given) -> Response:
        """Show the numbers of a run, and ask."""
        self.review.must_write()
        action, groups = _wanted(given), self._groups()
        if not len(groups):
            raise UsageError("there are no duplicates to remove")
        done, plan = IN_THE_PAST[action], self._plan(groups)
        return self.review.page("confirm.html", groups=groups, action=action, done=done, **plan)

    def run(self, given: Given) -> Response:
        """Start the run that was confirmed."""
        action, state = _wanted(given), given.get("state", "")
        groups = self._groups(state)
        if action == "delete" and given.get("word", "").strip().lower() != "delete":
            raise UsageError("nothing was deleted: type the word delete to do so")
        total = groups.duplicates + (len(groups) if action == "mark" else 0)
        what = f"{action.capitalize()} {count(groups.duplicates, 'duplicate')}"
        run = RunningDecision(what, IN_THE_PAST[action], total)

        def work(index: Index, on_report: OnReport) -> None:
            # Decisions may have been made while another job was at work.
            plan = index.dedup(action, groups=self._groups(state))
            run.log = None if plan.log is None else plan.log.resolve()
            try:
                plan.apply(on_report)
            except EsdedupError:
                # Documents of pages at work are not in the reports.
                if run.log is not None and run.log.exists():
                    done = changed_by(index.store, LogReader(run.log))
                    report = run.report
                    report = report if isinstance(report, DedupReport) else DedupReport()
                    run.report = replace(report, done=done)
                raise

        return self._start("Removing duplicates", run, work)

    def undo(self, given: Given) -> Response:
        """Start to restore what a run removed."""
        name = given.get("log", "")
        log = next((each for each in logs_of(self.review) if each.path.name == name), None)
        if log is None:
            raise HTTPException(
                404, f"there is no log {name!r} of this index in {self.review.folder}"
            )
        if log.fault is not None:
            raise UsageError(log.fault)
        run = RunningDecision(f"Undo {name}")

        def work(index: Index, on_report: OnReport) -> None:
            run.damage = index.undo(log.path, on_report=on_report).damage

        return self._start("Restoring", run, work)

    def _start(
        self, name: str, run: RunningDecision, work: Callable[[Index, OnReport], None]
    ) -> Response:
        def reporting(job: Job) -> None:
            def on_report(report: Any) -> None:
                run.report = report if run.report is None else run.report + report
                job.on_step("documents", run.report.settled, run.total)

            try:
                with self.review.found.open() as index:
                    work(index, on_report)
            finally:
                # The documents are others now.
                self.review.found.forget()

        if self.runs and (last := self.runs[-1].job) is not None and not last.ended:
            raise UsageError("a run is under way: wait for its end")
        run.job = self.review.jobs.start(name, reporting)
        self.runs.append(run)
        return self.review.redirect("/decide")

    def _groups(self, state: str | None = None) -> Groups:
        """Return the groups, if they show all decisions, and are still those of a state."""
        found = self.review.found
        if (groups := found.groups()) is None:
            raise UsageError("there are no groups, or documents have changed since: find them")
        if found.outdated is not None:
            raise UsageError("decisions were made that these groups do not show: find groups again")
        if state not in (None, str(found.state)):
            raise UsageError("groups have changed since you saw the numbers: look at them again")
        return groups

    def _plan(self, groups: Groups) -> dict[str, Any]:
        """Return what to read before a run. size: about the bytes that go, and all of them."""
        found = self.review.found
        bytes = 0 if found.statistics is None else found.statistics.bytes
        return {
            "size": (bytes * groups.duplicates // max(1, len(groups.ids)), bytes),
            "rules": rules_of(groups.grouping, self.review.index.scheme),
            "warnings": [*warnings_of(self.review, groups), *found.templates],
        }


def _wanted(given: Given) -> Literal["mark", "delete"]:
    if (action := given.get("action")) not in ("mark", "delete"):
        raise UsageError(f"action {action!r}: choose mark or delete")
    return cast(Literal["mark", "delete"], action)


def logs_of(review: Review) -> Iterator[RunLog]:
    """Yield the logs of the index in the folder, the last one first."""
    name = glob.escape(file_name(review.index.location.index))
    for path in sorted(review.folder.glob(f"{name}.dedup-*.zst"), reverse=True):
        # To open a pipe would wait for a writer.
        if not path.is_file():
            continue
        reader = fault = None
        try:
            reader = LogReader(path)
            if reader.header.index != review.index.location.index:
                continue
            review.index.check_log(reader)
        except EsdedupError as error:
            fault = message_of(str(error))
        yield RunLog(path, reader, fault)


def _counted(index: Index, log: RunLog, ends: float) -> RunLog:
    """Return the log with its numbers, for which documents are looked up until a time."""
    reader = log.reader
    if log.fault is not None or reader is None:
        return log
    header, changed, left = reader.header, 0, 0
    marking = header.action == "mark"
    paths = [f"{header.field}.{name}" for name in MARKS] if marking else []
    for page in reader.pages():
        if time.monotonic() > ends:
            return log
        held = index.store.hold([entry.id for entry in page], paths)
        now = {each.document.id: each.document.source for each in held}
        still = sum(is_changed(entry, now, header.field, marking) for entry in page)
        left += still
        # Of a page without a result, any of the documents may be unchanged.
        changed += still if page is reader.unsettled else len(page)
    return replace(log, changed=changed, left=left, whole=reader.damage is None)
