"""Show the plan of a run of `dedup`, run it, and list all runs that can be undone."""

import glob
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypedDict, cast

from starlette.exceptions import HTTPException
from starlette.responses import Response

from esdedup.exceptions import EsdedupError, UsageError
from esdedup.groups.groups import Groups
from esdedup.index import Index
from esdedup.models import MARKS, Counts
from esdedup.removal.log import IN_THE_PAST, LogReader
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport, changed_by, is_changed
from esdedup.review.group_search import by_likeness, judged_below, without_judged
from esdedup.review.groups import described, rules_of, warnings_of
from esdedup.review.jobs import Job
from esdedup.review.pages import Parameters, Review
from esdedup.stores.private_files import file_name
from esdedup.text.characters import count, message_of

OnReport = Callable[[DedupReport | UndoReport], None]
_EXAMPLES = 10
"""Groups on the page, the largest and the least similar ones."""
_MOST = 20
"""Failures of a run on the page, the first ones, and logs, the last ones."""


@dataclass
class RunningDecision:
    """A run of this session, or what undoes one.

    title: what it does, in words.
    in_the_past: what it did, such as "deleted"; empty if it undoes a run.
    total: documents, 0 if unknown.
    report: the documents so far.
    log: its file; a run that is refused writes none.
    job: the work in the background.
    damage: the reason for which the remaining log could not be read, if any.
    """

    title: str
    in_the_past: str = ""
    total: int = 0
    report: DedupReport | UndoReport | None = None
    log: Path | None = None
    job: Job | None = None
    damage: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunLog:
    """Log of a run.

    path: its file.
    reader: None if its first line can't be read.
    fault: why the run can't be undone here, or None.
    changed: documents that it may have changed; None if they were not counted.
    remaining: those of them that are still removed, or marked.
    interrupted: whether the run did not end by itself.
    """

    path: Path
    reader: LogReader | None
    fault: str | None
    changed: int | None = None
    remaining: int = 0
    interrupted: bool = False


class RunPreview(TypedDict):
    """What to read before a run.

    size: about the bytes that it removes, and those of all documents.
    rules: how documents are grouped, and which of them stay.
    warnings: to read before groups are believed.
    """

    size: tuple[int, int]
    rules: str
    warnings: list[str]


@dataclass(frozen=True)
class Decide:
    """The page."""

    review: Review
    runs: list[RunningDecision] = field(default_factory=list)

    def show(self, parameters: Parameters) -> Response:
        """Show the plan, the last run of this session, and all runs whose logs are here."""
        review, group_search = self.review, self.review.group_search
        groups, error = group_search.groups(), None
        plan: dict[str, object] = {}
        joined = 0
        if groups is not None:
            joined = int(judged_below(groups).sum())
            groups = _without(parameters, groups)
            plan = {
                **self._preview(groups),
                "largest": described(review, groups, groups.heads[:_EXAMPLES]),
                "farthest": described(review, groups, by_likeness(groups)[:_EXAMPLES]),
            }
        elif not self.runs:
            error = group_search.ready()
        logs, deadline = [*logs_of(review)], time.monotonic() + review.counting_seconds
        return review.page(
            "decide.html",
            {
                "groups": groups,
                "joined": joined,
                "without": parameters.get("without"),
                "error": error,
                "run": self.runs[-1] if self.runs else None,
                "most": _MOST,
                "logs": [_counted(review.index, log, deadline) for log in logs[:_MOST]],
                "more_logs": len(logs[_MOST:]),
                "in_the_past": IN_THE_PAST,
                **plan,
            },
        )

    def confirm(self, parameters: Parameters) -> Response:
        """Show the numbers of a run, and ask."""
        self.review.must_write()
        action, all_groups = _action_of(parameters), self._groups()
        groups = _without(parameters, all_groups)
        if not len(groups):
            raise UsageError("there are no duplicates to remove")
        return self.review.page(
            "confirm.html",
            {
                "groups": groups,
                "joined": int(judged_below(all_groups).sum()),
                "without": parameters.get("without"),
                "action": action,
                "in_the_past": IN_THE_PAST[action],
                **self._preview(groups),
            },
        )

    def run(self, parameters: Parameters) -> Response:
        """Start the run that was confirmed."""
        action, state = _action_of(parameters), parameters.get("state", "")
        groups = _without(parameters, self._groups(state))
        if action == "delete" and parameters.get("word", "").strip().lower() != "delete":
            raise UsageError("nothing was deleted: type the word delete to do so")
        total = groups.duplicates + (len(groups) if action == "mark" else 0)
        title = f"{action.capitalize()} {count(groups.duplicates, 'duplicate')}"
        run = RunningDecision(title, IN_THE_PAST[action], total)

        def work(index: Index, on_report: OnReport) -> None:
            # Decisions may have been made while another job was at work.
            plan = index.dedup(action, groups=_without(parameters, self._groups(state)))
            run.log = None if plan.log is None else plan.log.resolve()
            try:
                plan.apply(on_report)
            except EsdedupError:
                # Documents of pages at work are not in the reports.
                if run.log is not None and run.log.exists():
                    report = run.report if isinstance(run.report, DedupReport) else DedupReport()
                    changed = changed_by(index.store, LogReader(run.log))
                    run.report = replace(report, done=changed)
                raise

        return self._start("Removing duplicates", run, work)

    def undo(self, parameters: Parameters) -> Response:
        """Start to restore what a run removed."""
        name = parameters.get("log", "")
        log = next((log for log in logs_of(self.review) if log.path.name == name), None)
        if log is None:
            raise HTTPException(
                404, f"there is no log {name!r} of this index in {self.review.folder}"
            )
        if log.fault is not None:
            raise UsageError(log.fault)
        run = RunningDecision(f"Undo {name}")

        def work(index: Index, on_report: OnReport) -> None:
            report = index.undo(log.path, on_report=on_report)
            run.damage = self.review.warnings(report.damage)

        return self._start("Restoring", run, work)

    def _start(
        self, name: str, run: RunningDecision, work: Callable[[Index, OnReport], None]
    ) -> Response:
        def reporting(job: Job) -> None:
            def on_report(report: DedupReport | UndoReport) -> None:
                total = report if run.report is None else cast(Counts, run.report) + report
                run.report = cast(DedupReport | UndoReport, total)
                job.on_step("documents", run.report.settled, run.total)

            try:
                with self.review.group_search.open() as index:
                    work(index, on_report)
            finally:
                # The documents are others now.
                self.review.group_search.forget()

        if self.runs and (last := self.runs[-1].job) is not None and not last.ended:
            raise UsageError("a run is under way: wait for its end")
        run.job = self.review.jobs.start(name, reporting)
        self.runs.append(run)
        return self.review.redirect("/decide")

    def _groups(self, state: str | None = None) -> Groups:
        """Return the groups, if they show all decisions, and are still those of a state."""
        group_search = self.review.group_search
        if (groups := group_search.groups()) is None:
            raise UsageError("there are no groups, or documents have changed since: find them")
        if group_search.outdated is not None:
            raise UsageError("decisions were made that these groups do not show: find groups again")
        if state not in (None, str(group_search.state)):
            raise UsageError("groups have changed since you saw the numbers: look at them again")
        return groups

    def _preview(self, groups: Groups) -> RunPreview:
        """Return what to read before a run."""
        group_search = self.review.group_search
        statistics = group_search.statistics
        bytes = 0 if statistics is None else statistics.bytes
        templates = self.review.warnings(group_search.templates)
        return {
            "size": (bytes * groups.duplicates // max(1, len(groups.ids)), bytes),
            "rules": rules_of(groups.grouping, self.review.index.scheme),
            "warnings": [*warnings_of(self.review, groups), *templates],
        }


def _without(parameters: Parameters, groups: Groups) -> Groups:
    """Return the groups without what only judgements joined, if the page leaves these out."""
    return without_judged(groups) if parameters.get("without") == "judged" else groups


def _action_of(parameters: Parameters) -> Literal["mark", "delete"]:
    if (action := parameters.get("action")) not in ("mark", "delete"):
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


def _counted(index: Index, log: RunLog, deadline: float) -> RunLog:
    """Return the log with its numbers, unless looking up documents exceeds the deadline."""
    reader = log.reader
    if log.fault is not None or reader is None:
        return log
    header, changed, remaining = reader.header, 0, 0
    marking = header.action == "mark"
    paths = [f"{header.field}.{name}" for name in MARKS] if marking else []
    for page in reader.pages():
        if time.monotonic() > deadline:
            return log
        documents = [
            version.document for version in index.store.hold([entry.id for entry in page], paths)
        ]
        sources = {document.id: document.source for document in documents}
        still_changed = sum(is_changed(entry, sources, header.field, marking) for entry in page)
        remaining += still_changed
        # Of a page without a result, any of the documents may be unchanged.
        changed += still_changed if page is reader.unsettled else len(page)
    interrupted = reader.damage is not None
    return replace(log, changed=changed, remaining=remaining, interrupted=interrupted)
