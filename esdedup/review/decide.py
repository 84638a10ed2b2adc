"""Show the plan of a run of `dedup`, run it, and list all runs that can be undone."""

import csv
import glob
import io
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, TypedDict, cast

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from esdedup.exceptions import EsdedupError, UsageError
from esdedup.groups.groups import Groups
from esdedup.index import Index
from esdedup.models import FIELD, MARKS, Counts
from esdedup.removal.log import IN_THE_PAST, LogReader
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport, changed_by, is_changed
from esdedup.review.group_search import by_likeness, judged_below, least_similar, without_judged
from esdedup.review.groups import described, rules_of, warnings_of
from esdedup.review.jobs import Job
from esdedup.review.messages import message
from esdedup.review.pages import Parameters, Review
from esdedup.review.shown.texts import Shown, excerpt
from esdedup.review.who_stays import WORDS_OF_RULES, preview, rule_of
from esdedup.stores.fields import value_at
from esdedup.stores.private_files import file_name
from esdedup.text.arrays import I64
from esdedup.text.characters import message_of

OnReport = Callable[[DedupReport | UndoReport], None]
_EXAMPLES = 10
"""Groups on the page, the largest and the least similar ones."""
_MOST = 20
"""Failures of a run on the page, the first ones, and logs, the last ones."""


_READ = 20
"""Duplicates that can be read where they are about to be removed, the least similar ones."""
_WRITTEN_AT_ONCE = 500
"""Duplicates whose fields are read in one request, for the list of them."""


_TITLES = {
    ("delete", True): "the deletion of {n} document, {when}|the deletion of {n} documents, {when}",
    ("mark", True): "the marking of {n} document, {when}|the marking of {n} documents, {when}",
    (
        "move",
        True,
    ): "the move of {n} document to {to}, {when}|the move of {n} documents to {to}, {when}",
    ("delete", False): "the deletion of documents, {when}",
    ("mark", False): "the marking of documents, {when}",
    ("move", False): "the move of documents to {to}, {when}",
}
"""Titles of runs, by the action and whether the number of documents is known."""
_RUNS = {
    "mark": "Mark {n} duplicate|Mark {n} duplicates",
    "delete": "Delete {n} duplicate|Delete {n} duplicates",
}


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

    @property
    def title(self) -> str:
        """What the run did to how many documents, and when, in words."""
        if self.reader is None:
            return message("a run whose log can't be read")
        header = self.reader.header
        values = {"n": self.changed or 0, "when": when(header.began), "to": header.to}
        return message(_TITLES[header.action, self.changed is not None], values)


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
class DuplicateToRead:
    """A duplicate that can be read before it is removed.

    document: with the beginning of its text.
    stays: id of the document of its group that stays.
    measure: the similarity of the two, or their distance, as text.
    """

    document: Shown
    stays: str
    measure: str


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
        joined, rule = 0, rule_of(parameters)
        if groups is not None:
            joined = int(judged_below(groups).sum())
            groups = _without(parameters, groups)
            plan = {
                **self._preview(groups),
                "rule_preview": None if rule is None else preview(review, groups, rule),
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
                "keep": parameters.get("keep", ""),
                "field": parameters.get("field", ""),
                "keep_words": WORDS_OF_RULES,
                "field_names": self._field_names(),
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

    def _field_names(self) -> list[str]:
        """Return names of fields to choose from: those that are shown, and of one document."""
        index = self.review.index
        names = dict.fromkeys(self.review.group_list.fields)
        for document in index.store.get(index.store.some_ids(1)):
            hidden = {*index.meta.text_fields, index.meta.field, index.meta.marks_field, FIELD}
            names |= dict.fromkeys(name for name in document.source if name not in hidden)
        return [*names]

    def use_rule(self, parameters: Parameters) -> Response:
        """Find groups by another keep rule, in this session."""
        if (rule := rule_of(parameters)) is None:
            raise UsageError("choose which document stays")
        self.review.group_search.use_rule(rule)
        return self.review.redirect("/decide")

    def duplicates(self, parameters: Parameters) -> Response:
        """Send the list of the documents that would go, as CSV."""
        groups = _without(parameters, self._groups())
        headers = {"content-disposition": 'attachment; filename="duplicates.csv"'}
        lines = _duplicates_as_csv(self.review, groups)
        return StreamingResponse(lines, 200, headers, "text/csv; charset=utf-8")

    def confirm(self, parameters: Parameters) -> Response:
        """Show the numbers of a run, and ask."""
        self.review.must_write()
        action = _action_of(parameters)
        # Taken before the groups are read: the form is refused after a decision in between.
        state, all_groups = self.review.group_search.state, self._groups()
        groups = _without(parameters, all_groups)
        if not len(groups):
            raise UsageError("there are no duplicates to remove")
        rows = least_similar(groups, groups.duplicate_rows)[:_READ]
        read = _documents_to_read(self.review, groups, rows)
        return self.review.page(
            "confirm.html",
            {
                "groups": groups,
                "state": state,
                "read": read,
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
        title = message(_RUNS[action], {"n": groups.duplicates})
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
        log = _counted(self.review.index, log, time.monotonic() + self.review.counting_seconds)
        run = RunningDecision(message("Undo {run}", {"run": log.title}))

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


def _duplicates_as_csv(review: Review, groups: Groups) -> Iterator[str]:
    """Yield lines: each duplicate, the document that stays, their value, and shown fields."""
    names, rows = review.group_list.fields, groups.duplicate_rows.tolist()
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["id", "stays", groups.measure.name, *names])
    for start in range(0, max(1, len(rows)), _WRITTEN_AT_ONCE):
        members = [groups.member(row) for row in rows[start : start + _WRITTEN_AT_ONCE]]
        sources: dict[str, Mapping[str, object]] = {}
        if names:
            documents = review.index.store.get([member.id for member in members], names)
            sources = {document.id: document.source for document in documents}
        for row, member in zip(rows[start:], members, strict=False):
            source = sources.get(member.id, {})
            values = [value_at(source, name) for name in names]
            head = groups.ids[int(groups.representative[row])]
            writer.writerow([member.id, head, f"{member.value:.6g}", *values])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _documents_to_read(review: Review, groups: Groups, rows: I64) -> list[DuplicateToRead]:
    """Return the documents of these rows that exist."""
    rows_by_id = {groups.ids[row]: row for row in rows.tolist()}
    return [
        DuplicateToRead(
            excerpt(document, review.index.meta, review.show),
            groups.ids[int(groups.representative[rows_by_id[document.id]])],
            groups.measure.in_words(float(groups.value[rows_by_id[document.id]])),
        )
        for document in review.index.store.get([*rows_by_id])
    ]


def _without(parameters: Parameters, groups: Groups) -> Groups:
    """Return the groups without what only judgements joined, if the page leaves these out."""
    return without_judged(groups) if parameters.get("without") == "judged" else groups


def _action_of(parameters: Parameters) -> Literal["mark", "delete"]:
    if (action := parameters.get("action")) not in ("mark", "delete"):
        raise UsageError(f"action {action!r}: choose mark or delete")
    return cast(Literal["mark", "delete"], action)


def when(instant: str) -> str:
    """Return a time of a log in local time, in words for today and yesterday."""
    local = datetime.fromisoformat(instant).astimezone()
    days = (datetime.now().astimezone().date() - local.date()).days
    values = {"time": f"{local:%H:%M}"}
    if days in (0, 1):
        return message(("today {time}", "yesterday {time}")[days], values)
    return f"{local:%Y-%m-%d %H:%M}"


def logs_of(review: Review) -> Iterator[RunLog]:
    """Yield the logs of the index in the folder, the last one first, without those of others."""
    name = glob.escape(file_name(review.index.location.index))
    for path in sorted(review.folder.glob(f"{name}.dedup-*.zst"), reverse=True):
        # To open a pipe would wait for a writer.
        if not path.is_file():
            continue
        reader = fault = None
        try:
            reader = LogReader(path)
            try:
                review.index.check_log(reader)
            except UsageError:
                # A run on another index, or on another file.
                continue
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
