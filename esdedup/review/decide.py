"""The page Decide: the plan of a run of `dedup`, the run, its report, and the way back."""

from __future__ import annotations

import glob
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from starlette.responses import Response

from esdedup.exceptions import EsdedupError, UsageError
from esdedup.models import Failure
from esdedup.removal.log import Action, LogReader, RunHeader
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport
from esdedup.review.found import Listed
from esdedup.review.groups import warnings_of
from esdedup.review.jobs import Job
from esdedup.review.pages import Asked, NotThere, Review
from esdedup.stores.private_files import file_name
from esdedup.text.characters import message_of

RUNNING = "Removing duplicates"
UNDOING = "Restoring"
_LOGS = 20
"""Earlier runs on the page, the last ones."""
_FAILURES = 20
"""Failures of a run on the page, the first ones."""
_IN_WORDS: dict[Action, str] = {"delete": "deleted", "mark": "marked", "move": "moved"}


@dataclass
class Run:
    """A run of this session, or what undoes one.

    counts: in words, with the documents of each. failures: documents that were skipped. log: its
    file. error: the reason for which it ended early, or None.
    """

    title: str
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    log: Path | None = None
    damage: list[str] = field(default_factory=list)
    error: str | None = None
    ended: bool = False

    @property
    def written(self) -> Path | None:
        """The log, if there is one: a run that is refused writes none."""
        return self.log if self.log is not None and self.log.is_file() else None


@dataclass(frozen=True)
class Log:
    """The log of an earlier run. fault: the reason for which it can't be undone here, or None."""

    path: Path
    header: RunHeader | None
    fault: str | None


@dataclass(frozen=True)
class Plan:
    """The numbers of a run. bytes: about those that go, and those of the index."""

    groups: int
    duplicates: int
    documents: int
    bytes: tuple[int, int]


@dataclass(frozen=True)
class Decide:
    """The page."""

    review: Review
    runs: list[Run] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def show(self, asked: Asked) -> Response:
        """Show the plan, the runs of this session, and the logs of earlier ones."""
        review, found = self.review, self.review.found
        listed = found.listed()
        error = found.ready() if listed is None and not self.runs else None
        working = review.jobs.current
        logs = self._logs()
        return review.page(
            asked,
            "decide.html",
            plan=None if listed is None else self._plan(listed),
            warnings=[] if listed is None else warnings_of(review, listed),
            judged="" if listed is None else str(listed.groups.judged),
            decided=found.decided,
            outdated=found.outdated,
            error=error,
            working=working,
            refreshing=working is not None,
            runs=[*reversed(self.runs)],
            most=_FAILURES,
            logs=[log for path in logs[:_LOGS] if (log := self._log(path)) is not None],
            more_logs=len(logs[_LOGS:]),
            folder=str(review.folder),
        )

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
            warnings=warnings_of(self.review, listed),
            judged=str(listed.groups.judged),
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
        path = next((each for each in self._logs() if each.name == name), None)
        log = None if path is None else self._log(path)
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
            except EsdedupError as error:
                run.error = message_of(str(error))
                raise
            except Exception:
                run.error = "it was stopped"
                raise
            finally:
                # The documents are others now.
                self.review.found.forget()
                run.ended = True

        with self.turn:
            if self.runs and not self.runs[-1].ended:
                raise UsageError("a run is under way: wait for its end")
            self.runs.append(run)
            self.review.jobs.start(name, noting)
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
        return Plan(len(listed), groups.duplicates, len(groups.ids), (saved, size))

    def _logs(self) -> list[Path]:
        """The logs in the folder that have the index's name, the last one first."""
        name = glob.escape(file_name(self.review.index.place.index))
        files = self.review.folder.glob(f"{name}.dedup-*.zst")
        # To open a pipe would wait for a writer.
        return sorted((path for path in files if path.is_file()), reverse=True)

    def _log(self, path: Path) -> Log | None:
        """The log at a path; None if it is of another index."""
        header = None
        try:
            reader = LogReader(path)
            header = reader.header
            if header.index != self.review.index.place.index:
                return None
            self.review.index.check_log(reader)
        except EsdedupError as error:
            return Log(path, header, message_of(str(error)))
        return Log(path, header, None)
