"""The page Decide: the plan of a run of `dedup`, the run, its report, and the way back."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from starlette.responses import Response

from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.removal.log import Action
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport
from esdedup.review.found import Listed
from esdedup.review.groups import described, rules_of, warnings_of
from esdedup.review.history import History, logs_of
from esdedup.review.jobs import Job
from esdedup.review.pages import Given, NotThere, Review

RUNNING = "Removing duplicates"
UNDOING = "Restoring"
OnReport = Callable[[Any], None]
Work = Callable[[Index, OnReport], None]
_EXAMPLES = 10
"""Groups on the page, the largest and the least similar ones."""
_FAILURES = 20
"""Failures of a run on the page, the first ones."""
_IN_WORDS: dict[Action, str] = {"delete": "deleted", "mark": "marked", "move": "moved"}


@dataclass
class Run:
    """A run of this session, or what undoes one.

    counted: the counts of its report, in words by their names. total: documents to look at, 0 if
    unknown. log: its file. job: None before it starts. damage: the reason for which the rest of a
    log could not be read, if any.
    """

    title: str
    counted: dict[str, str]
    total: int = 0
    report: DedupReport | UndoReport | None = None
    log: Path | None = None
    job: Job | None = None
    damage: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Return whether its work is done, or failed."""
        return self.job is not None and self.job.ended

    @property
    def written(self) -> Path | None:
        """The log, if there is one: a run that is refused writes none."""
        return self.log if self.log is not None and self.log.is_file() else None


@dataclass(frozen=True)
class Decide:
    """The page."""

    review: Review
    runs: list[Run] = field(default_factory=list)
    history: History = field(default_factory=History)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def show(self, given: Given) -> Response:
        """Show the plan, the last run of this session, and all runs whose logs are here."""
        review, found = self.review, self.review.found
        listed, error, plan = found.listed(), None, {}
        if listed is not None:
            largest = range(min(_EXAMPLES, len(listed)))
            farthest = listed.by_likeness[:_EXAMPLES].tolist()
            plan = self._plan(listed) | {
                "largest": described(review, listed, largest),
                "farthest": described(review, listed, farthest),
            }
        elif not self.runs:
            error = found.ready()
        ended = sum(run.ended for run in self.runs)
        logs, more = self.history.logs(review, ended, given.get("count"))
        return review.page(
            "decide.html",
            listed=listed,
            error=error,
            run=self.runs[-1] if self.runs else None,
            most=_FAILURES,
            logs=logs,
            more_logs=more,
            done=_IN_WORDS,
            **plan,
        )

    def duplicates(self, given: Given) -> Response:
        """Return the documents of the plan as CSV."""
        groups = self._listed().groups
        out = io.StringIO()
        writer = csv.writer(out)
        measure = "distance" if groups.grouping.by_distance else "similarity"
        writer.writerow(("id", "representative", measure))
        for row in groups.duplicate_rows.tolist():
            member = groups.member(row)
            head = groups.ids[groups.representative[row]]
            writer.writerow((member.id, head, getattr(member, measure)))
        headers = {"content-disposition": 'attachment; filename="duplicates.csv"'}
        return Response(out.getvalue(), 200, headers, "text/csv")

    def confirm(self, given: Given) -> Response:
        """Show the numbers of a run, and ask."""
        self.review.must_write()
        action, to = self._wanted(given)
        listed = self._listed()
        if not len(listed):
            raise UsageError("there are no duplicates to remove")
        done, plan = _IN_WORDS[action], self._plan(listed)
        return self.review.page(
            "confirm.html", listed=listed, action=action, done=done, to=to, **plan
        )

    def run(self, given: Given) -> Response:
        """Start the run that was confirmed."""
        action, to = self._wanted(given)
        state = given.get("state", "")
        groups = self._seen(state).groups
        if action == "delete" and given.get("word", "").strip().lower() != "delete":
            raise UsageError("nothing was deleted: type the word delete to do so")
        what = f"{groups.duplicates:,} duplicate{'' if groups.duplicates == 1 else 's'}"
        counted = {
            "done": _IN_WORDS[action],
            "unchanged": "had the marks already",
            "gone": "gone before",
        }
        title = f"{action.capitalize()} {what}{'' if to is None else f' to {to}'}"
        run = Run(title, counted, groups.duplicates + (len(groups) if action == "mark" else 0))

        def work(index: Index, on_report: OnReport) -> None:
            # Decisions may have been made while another job was at work.
            plan = index.dedup(action, to=to, groups=self._seen(state).groups)
            run.log = None if plan.log is None else plan.log.resolve()
            plan.apply(on_report)

        return self._start(RUNNING, run, work)

    def undo(self, given: Given) -> Response:
        """Start to restore what a run removed."""
        name = given.get("log", "")
        log = next((each for each in logs_of(self.review) if each.path.name == name), None)
        if log is None:
            raise NotThere(f"there is no log {name!r} of this index in {self.review.folder}")
        if log.fault is not None:
            raise UsageError(log.fault)
        run = Run(f"Undo {name}", {"restored": "restored", "present": "as before already"})

        def work(index: Index, on_report: OnReport) -> None:
            run.damage = index.undo(log.path, on_report=on_report).damage

        return self._start(UNDOING, run, work)

    def _start(self, name: str, run: Run, work: Work) -> Response:
        def reporting(job: Job) -> None:
            def on_report(report: Any) -> None:
                run.report = report if run.report is None else run.report + report
                job.on_step("documents", run.report.settled, run.total)

            try:
                with self.review.open() as index:
                    work(index, on_report)
            finally:
                # The documents are others now.
                self.review.found.forget()

        with self.turn:
            if self.runs and not self.runs[-1].ended:
                raise UsageError("a run is under way: wait for its end")
            run.job = self.review.jobs.start(name, reporting)
            self.runs.append(run)
        return self.review.redirect("/decide")

    def _wanted(self, given: Given) -> tuple[Action, str | None]:
        """Return the action of a run, and the index to move to."""
        action, to = given.get("action"), given.get("to", "").strip()
        if action not in get_args(Action):
            raise UsageError(f"action {action!r}: choose mark, move or delete")
        if action == "move" and not to:
            raise UsageError("name the index to move duplicates to")
        if action == "move":
            self.review.index.place.check_apart(to)
        return cast(Action, action), to if action == "move" else None

    def _listed(self) -> Listed:
        found = self.review.found
        if (listed := found.listed()) is None:
            if found.finding:
                raise UsageError("groups are being found: wait for them")
            raise UsageError("the documents have changed since: find groups again")
        if found.outdated is not None:
            raise UsageError("decisions were made that these groups do not show: find groups again")
        return listed

    def _seen(self, state: str) -> Listed:
        """Return the groups, if they are still those of a state."""
        listed = self._listed()
        if str(self.review.found.state) != state:
            raise UsageError("groups have changed since you saw the numbers: look at them again")
        return listed

    def _plan(self, listed: Listed) -> dict[str, Any]:
        """Return what to read before a run. size: about the bytes that go, and all of them."""
        groups, found = listed.groups, self.review.found
        size, documents = (
            (0, 1)
            if found.statistics is None
            else (found.statistics.bytes, found.statistics.documents)
        )
        return {
            "size": (size * groups.duplicates // max(1, documents), size),
            "rules": rules_of(groups.grouping),
            "warnings": [*warnings_of(self.review, listed), *found.templates],
        }
