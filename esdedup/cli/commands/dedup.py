"""esdedup dedup, undo: remove the duplicates of an index, and restore them."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from typer import Exit

from esdedup.analysis.templates import template_warnings
from esdedup.arguments import setting
from esdedup.cli import output
from esdedup.cli.options import Target, as_json, typed, yes
from esdedup.cli.output import capital, count, message
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Group, Grouping, Groups, joined_though_unlike
from esdedup.models import Failure, Statistics
from esdedup.removal.log import Action, LogReader
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport

_DONE = {"delete": "deleted", "mark": "marked", "move": "moved"}
_FAILURES_SHOWN = 5
_IDS = 20
_Report = TypeVar("_Report", DedupReport, UndoReport)


def dedup_command(
    target: Target,
    grouping: Grouping,
    apply: bool = setting(False, "Apply --action to the duplicates, and do not only show them."),
    action: Action | None = setting(
        None, "Delete duplicates, mark them as group does, or move them (--to)."
    ),
    to: str | None = setting(None, "Index to move to; created if there is none.", metavar="INDEX"),
    log: Path | None = setting(
        None,
        "New log file, for esdedup undo.",
        rare=True,
        show_default="INDEX.dedup-TIME.jsonl.zst",
    ),
    k: int = setting(20, "Maximum number of groups to show.", "-k", min=1),
    yes: bool = yes(),
    as_json: bool | None = as_json(),
) -> None:
    """Show the duplicates of an index, or remove them.

    Example: esdedup dedup -i news --apply --action delete

    The representative of each group stays (--keep). The others are deleted, marked, or moved. Each
    is written to a log before it is changed, and esdedup undo restores it. A document that another
    client changes at the same time is skipped.
    """
    if apply and action is None:
        raise UsageError("--apply requires --action: delete, mark, or move (with --to)")
    if not apply and (to or log):
        raise UsageError("--to and --log require --apply")
    if apply:
        _require_answer(yes, "--apply")
    wanted: Action = action if apply and action is not None else "delete"
    with target.open() as index:
        output.warn_before(index, grouping.limits)
        with output.steps() as on_step:
            plan = index.dedup(wanted, to=to, log=log, on_step=on_step, grouping=grouping)
        groups = plan.groups
        duplicates, heads = groups.duplicates, int(groups.sizes.size)
        output.warn_after(groups.recall, groups.capped, groups.grouping.limits, groups.judged)
        if not output.wants_json(as_json):
            _show_groups(groups, index.store.where, k)
        elif not apply:
            measure = "distance" if groups.grouping.by_distance else "similarity"
            for group in groups:
                found = [{"id": each.id, measure: getattr(each, measure)} for each in group.members]
                output.print_json({"keep": group.representative, "duplicates": found})
        message(_summary(groups, index.statistics()))
        _warn_of_chained(groups)
        for warning in template_warnings(index.store, index.meta_of(grouping.limits), groups):
            message(warning)
        if duplicates and not apply:
            message("Nothing was changed. To do so: --apply --action delete, mark or move")
        if not apply:
            return
        if duplicates:
            into = f" to {to!r}" if to is not None else ""
            _ask(f"{capital(wanted)} these{into}, in {index.store.where}?", yes)
        with _totalling(
            DedupReport(),
            capital(wanted),
            duplicates + (heads if wanted == "mark" else 0),
            lambda so_far: f"{count(so_far.done, 'document')} {_DONE[wanted]}",
            f", or restore them: esdedup undo {plan.log}",
        ) as on_report:
            done = plan.apply(on_report)
    report = done.report or DedupReport()
    counts = {
        "groups": heads,
        "duplicates": duplicates,
        _DONE[wanted]: report.done,
        "unchanged": report.unchanged,
        "gone": report.gone,
        **_failed(report.failures),
    }
    if output.wants_json(as_json) or done.log is not None:
        output.print_counts(
            counts,
            output.wants_json(as_json),
            title=capital(index.store.where),
            more={
                "judged": asdict(groups.judged),
                **output.place_of(index),
                "log": done.log and str(done.log),
            },
        )
    _report_failures(report.failures, f"all in {done.log}")
    if done.log is not None:
        message(f"To restore them: esdedup undo {done.log}")
    if report.failures:
        raise Exit(1)


@contextmanager
def _totalling(
    total: _Report, title: str, most: int, in_words: Callable[[_Report], str], otherwise: str = ""
) -> Iterator[Callable[[_Report], None]]:
    """Show a bar of the documents in reports, and their total in words if the work fails."""
    with output.steps() as on_step, output.resumable(lambda: in_words(total), otherwise):

        def on_report(report: _Report) -> None:
            nonlocal total
            total += report
            on_step(title, min(total.settled, most), most)

        yield on_report


def _show_groups(groups: Groups, where: str, k: int) -> None:
    rows = []
    for group in itertools.islice(groups, k):
        ids = ", ".join(member.id for member in group.members[:_IDS])
        rows.append((f"{len(group.members):,}", _farthest(group), group.representative, ids))
    if not rows:
        return
    output.print_table(
        [
            ("duplicates", "number"),
            ("most distant" if groups.grouping.by_distance else "least similar", "number"),
            ("representative", "key"),
            ("ids of duplicates", "line"),
        ],
        rows,
        title=capital(where),
    )
    output.warn(output.shown(len(rows), len(groups), "group", "-k N shows more, --json all"))
    # The duplicates are seen before they are changed.
    sys.stdout.flush()


def _farthest(group: Group) -> str:
    """Return the similarity or distance of the duplicate farthest from the representative."""
    distances = [each.distance for each in group.members if each.distance is not None]
    similarities = [each.similarity for each in group.members if each.similarity is not None]
    return str(max(distances)) if distances else f"{min(similarities):.3f}"


def _summary(groups: Groups, statistics: Statistics) -> str:
    documents = count(len(groups.ids), "document")
    if not groups.duplicates:
        return f"No duplicates among {documents}"
    saved = statistics.bytes * groups.duplicates // max(1, statistics.documents)
    return (
        f"{count(groups.duplicates, 'duplicate')} in {count(int(groups.sizes.size), 'group')} of"
        f" {documents}; by their number, about {saved / 1e6:,.1f} MB of"
        f" {statistics.bytes / 1e6:,.1f} MB"
    )


def _warn_of_chained(groups: Groups) -> None:
    """Warn of duplicates that are below the threshold with their representative."""
    if unlike := int(groups.unlike.sum()):
        message(f"{unlike:,} of them are {joined_though_unlike(groups.grouping, groups.judged)}")


def undo_command(
    target: Target,
    log: Path = setting(..., "The log of a run of esdedup dedup.", argument=True, metavar="LOG"),
    force: bool = setting(False, "Also if the address or the scheme is not that of the log."),
    yes: bool = yes(),
    as_json: bool | None = as_json(),
) -> None:
    """Restore what a run of esdedup dedup removed.

    Example: esdedup undo news.dedup-20260101T120000.000000Z.jsonl.zst

    The index is the log's, unless --index names one. Deleted and moved documents are restored
    whole, and marks are removed. A document that another client has changed since is skipped.
    """
    _require_answer(yes, "undo")
    reader = LogReader(log)
    header = reader.header
    if not typed("index") and "ESDEDUP_INDEX" not in os.environ:
        target = replace(target, index=header.index)
    with target.open() as index:
        index.check_log(reader, force=force)
        scheme = index.scheme.id
        documents = sum(map(len, reader.pages()))
        into = f" to {header.to!r}" if header.to is not None else ""
        changed = f"{count(documents, 'document')} {_DONE[header.action]}{into}"
        message(f"{log}: {changed} at {header.began}")
        if reader.damage is not None:
            message(f"{reader.damage}; what follows can't be restored")
        _ask(f"Restore them, in {index.store.where}?", yes)
        with _totalling(
            UndoReport(),
            "Restoring",
            documents,
            lambda so_far: f"{count(so_far.restored, 'document')} restored",
        ) as on_report:
            report = index.undo(reader, force=force, on_report=on_report)
    left = [{"id": each.id, "reason": each.reason} for each in report.failures]
    restored = {"restored": report.restored, "present": report.present}
    counts = {**restored, **_failed(report.failures)}
    output.print_counts(
        counts,
        output.wants_json(as_json),
        title=capital(index.store.where),
        more={**output.place_of(index), "log": str(log), "damage": reader.damage, "failures": left},
    )
    _report_failures(report.failures, "listed by --json")
    if header.scheme != scheme:
        message(f"They have tokens of scheme {header.scheme}: esdedup backfill -i {target.index}")
    if report.failures or report.damage:
        raise Exit(1)


def _require_answer(yes: bool, what: str) -> None:
    """Raise UsageError if a question can't be answered."""
    if not yes and not output.can_answer():
        raise UsageError(f"{what} asks before it changes anything; not a terminal: pass --yes")


def _ask(question: str, yes: bool) -> None:
    if not output.agreed(question, yes):
        message("Nothing was changed")
        raise Exit(1)


def _failed(failures: Sequence[Failure]) -> dict[str, int]:
    """Return the counts of skipped documents: changed meanwhile, and for other reasons."""
    conflicts = sum(each.conflict for each in failures)
    return {"changed_meanwhile": conflicts, "failed": len(failures) - conflicts}


def _report_failures(failures: Sequence[Failure], others: str) -> None:
    """Report some of the skipped documents. others: where the rest is."""
    for each in failures[:_FAILURES_SHOWN]:
        message(f"{each.id}: {each.reason}")
    if len(failures) > _FAILURES_SHOWN:
        message(f"... and {len(failures) - _FAILURES_SHOWN:,} more, {others}")
