"""The page Decide: the plan of a run of `dedup`, the run, its report, and the way back."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from starlette.responses import Response

from esdedup.exceptions import UsageError
from esdedup.models import Failure
from esdedup.removal.log import Action
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport
from esdedup.review.found import Listed
from esdedup.review.groups import described, rules_of, warnings_of
from esdedup.review.history import History, logs_of
from esdedup.review.jobs import Job
from esdedup.review.pages import Asked, NotThere, Review

RUNNING = "Removing duplicates"
UNDOING = "Restoring"
_EXAMPLES = 10
"""Groups on the page, the largest and the least similar ones."""
_FAILURES = 20
"""Failures of a run on the page, the first ones."""
_IN_WORDS: dict[Action, str] = {"delete": "deleted", "mark": "marked", "move": "moved"}


@dataclass
class Run:
    """A run of this session, or what undoes one.

    counts: in words, with the documents of each. failures: documents that were skipped. log: its
    file. job: None before it starts.
    """

    title: str
    job: Job | None = None
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    log: Path | None = None
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
class Plan:
    """What a run would do. bytes: about those that go, and those of the index. rules, judged: how
    documents are grouped, in words. warnings: sentences to read before that is believed."""

    groups: int
    duplicates: int
    documents: int
    bytes: tuple[int, int]
    rules: str
    judged: str
    warnings: list[str]
    by_distance: bool


@dataclass(frozen=True)
class Decide:
    """The page."""

    review: Review
    runs: list[Run] = field(default_factory=list)
    history: History = field(default_factory=History)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def show(self, asked: Asked) -> Response:
        """Show the plan, the last run of this session, and all runs whose logs are here."""
        review, found = self.review, self.review.found
        listed = found.listed()
        error = found.ready() if listed is None and not self.runs else None
        logs, more = self.history.logs(review, changes=sum(run.ended for run in self.runs))
        working = review.jobs.current
        by_size = [] if listed is None else range(min(_EXAMPLES, len(listed)))
        by_likeness = [] if listed is None else listed.by_likeness[:_EXAMPLES].tolist()
        return review.page(
            asked,
            "decide.html",
            plan=None if listed is None else self._plan(listed),
            largest=None if listed is None else described(review, listed, by_size),
            farthest=None if listed is None else described(review, listed, by_likeness),
            decided=found.decided,
            outdated=found.outdated,
            error=error,
            working=working,
            refreshing=working is not None,
            run=self.runs[-1] if self.runs else None,
            most=_FAILURES,
            logs=logs,
            more_logs=more,
            folder=str(review.folder),
        )

    def duplicates(self, asked: Asked) -> Response:
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

    def confirm(self, asked: Asked) -> Response:
        """Show the numbers of a run, and ask."""
        self.review.must_write()
        action, to = self._wanted(asked)
        listed = self._listed()
        plan = self._plan(listed)
        if not plan.duplicates:
            raise UsageError("there are no duplicates to remove")
        return self.review.page(
            asked,
            "confirm.html",
            plan=plan,
            action=action,
            done=_IN_WORDS[action],
            to=to,
            state=self.review.found.state,
            folder=str(self.review.folder),
        )

    def run(self, asked: Asked) -> Response:
        """Start the run that was confirmed."""
        action, to = self._wanted(asked)
        state = asked.text("state")
        number = self._seen(state).groups.duplicates
        if action == "delete" and asked.text("word").strip().lower() != "delete":
            raise UsageError("nothing was deleted: type the word delete to do so")
        done = _IN_WORDS[action]
        what = f"{number:,} duplicate{'' if number == 1 else 's'}"
        run = Run(f"{action.capitalize()} {what}{'' if to is None else f' to {to}'}")

        def work(job: Job) -> None:
            # Decisions may have been made while another job was at work.
            groups = self._seen(state).groups
            total = DedupReport()
            most = number + (int(groups.sizes.size) if action == "mark" else 0)

            def on_report(report: DedupReport) -> None:
                nonlocal total
                total += report
                run.counts = {done: total.done, "had the marks already": total.unchanged}
                run.counts["gone before"] = total.gone
                run.failures = total.failures
                job.on_step(f"documents {done}", min(total.settled, most), most)

            with self.review.open() as index:
                plan = index.dedup(action, to=to, groups=groups)
                run.log = None if plan.log is None else plan.log.resolve()
                plan.apply(on_report)

        return self._start(RUNNING, run, work)

    def undo(self, asked: Asked) -> Response:
        """Start to restore what a run removed."""
        name = asked.text("log")
        log = next((each for each in logs_of(self.review) if each.path.name == name), None)
        if log is None:
            raise NotThere(f"there is no log {name!r} of this index in {self.review.folder}")
        if log.fault is not None:
            raise UsageError(log.fault)
        run = Run(f"Undo {name}")

        def work(job: Job) -> None:
            total = UndoReport()

            def on_report(report: UndoReport) -> None:
                nonlocal total
                total += report
                run.counts = {"restored": total.restored, "as before already": total.present}
                run.failures = total.failures
                job.on_step("documents restored", total.settled, 0)

            with self.review.open() as index:
                run.damage = index.undo(log.path, on_report=on_report).damage

        return self._start(UNDOING, run, work)

    def _start(self, name: str, run: Run, work: Callable[[Job], None]) -> Response:
        def noting(job: Job) -> None:
            try:
                work(job)
            finally:
                # The documents are others now.
                self.review.found.forget()

        with self.turn:
            if self.runs and not self.runs[-1].ended:
                raise UsageError("a run is under way: wait for its end")
            run.job = self.review.jobs.start(name, noting)
            self.runs.append(run)
        return self.review.redirect("/decide")

    def _wanted(self, asked: Asked) -> tuple[Action, str | None]:
        """The action of a run, and the index to move to."""
        actions: dict[str, Action] = {each: each for each in get_args(Action)}
        action, to = asked.text("action"), asked.text("to").strip() or None
        if action not in actions:
            raise UsageError(f"action {action!r}: choose mark, move or delete")
        if action == "move" and to is None:
            raise UsageError("name the index to move duplicates to")
        if action != "move":
            return actions[action], None
        self.review.index.place.check_apart(str(to))
        return "move", to

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
        """The groups, if they are still those of a state."""
        listed = self._listed()
        if self.review.found.state != state:
            raise UsageError("groups have changed since you saw the numbers: look at them again")
        return listed

    def _plan(self, listed: Listed) -> Plan:
        groups, statistics = listed.groups, self.review.found.statistics
        size, documents = (0, 1) if statistics is None else (statistics.bytes, statistics.documents)
        saved = size * groups.duplicates // max(1, documents)
        return Plan(
            groups=len(listed),
            duplicates=groups.duplicates,
            documents=len(groups.ids),
            bytes=(saved, size),
            rules=rules_of(groups.grouping),
            judged=str(groups.judged),
            warnings=[*warnings_of(self.review, listed), *self.review.found.templates],
            by_distance=groups.grouping.by_distance,
        )
