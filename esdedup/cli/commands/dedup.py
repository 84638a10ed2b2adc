"""esdedup dedup, undo: takes duplicates out of an index, and puts them back."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from esdedup.cli.options import AsJson, GroupingOptions, Target, Yes, with_target
from esdedup.cli.output import (
    agreed,
    capital,
    count,
    message,
    print_counts,
    print_json,
    print_table,
    resumable,
    steps,
    wants_json,
    warn_after,
    warn_before,
)
from esdedup.dedup.groups import Group, Groups
from esdedup.dedup.log import Action, LogReader
from esdedup.dedup.remove import DedupReport
from esdedup.dedup.undo import UndoReport
from esdedup.exceptions import UsageError
from esdedup.index import Dedup
from esdedup.models import Failure, Statistics

_DONE = {"delete": "deleted", "mark": "marked", "move": "moved"}
_FAILURES_SHOWN = 5
_GROUPS_SHOWN = 20

Apply = Annotated[
    bool, typer.Option("--apply", help="Do what --action says, and not only show duplicates.")
]
ActionOption = Annotated[
    Action | None,
    typer.Option(
        "--action", help="Delete duplicates, mark them as group does, or move them (--to)."
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="INDEX", help="Index to move to; made if there is none."),
]
NewLog = Annotated[
    Path | None,
    typer.Option(
        "--log",
        show_default="INDEX.dedup-TIME.jsonl.zst",
        help="New file for all that is changed, for esdedup undo.",
    ),
]
Log = Annotated[Path, typer.Argument(metavar="LOG", help="The log of a run of esdedup dedup.")]
Force = Annotated[
    bool, typer.Option("--force", help="Also into another address or scheme than the log's.")
]


@with_target
def dedup_command(
    target: Target,
    group_options: GroupingOptions,
    apply: Apply = False,
    action: ActionOption = None,
    to: To = None,
    log: NewLog = None,
    yes: Yes = False,
    as_json: AsJson = None,
) -> None:
    """Show the duplicates of an index, or take them out.

    Example: esdedup dedup -i news --apply --action delete

    Of each group of similar documents the representative stays (--keep). The others are deleted,
    marked, or moved. Each is written to a log before it is changed, and esdedup undo puts it back.
    A document that somebody changes at the same time is left as it is.
    """
    if apply and action is None:
        raise UsageError("say what --apply shall do: --action delete, mark, or move (with --to)")
    if not apply and (to or log):
        raise UsageError("--to and --log go with --apply")
    if apply:
        _require_answer(yes, "--apply")
    arguments = group_options.arguments()
    wanted: Action = action if apply and action is not None else "delete"
    with target.open() as index:
        warn_before(index, group_options.metric)
        with steps() as on_step:
            plan = index.dedup(wanted, to=to, log=log, on_step=on_step, **arguments)
        groups = plan.groups
        warn_after(groups.recall, groups.capped, groups.grouping.limits)
        if not wants_json(as_json):
            _show_groups(groups, index.store.where)
        elif not apply:
            for group in groups:
                print_json(_group_json(group))
        message(_summary(groups, index.statistics()))
        _tell_chained(groups)
        if not apply:
            if groups.duplicates:
                message("Nothing was changed. To do so: --apply --action delete, mark or move")
            return
        if groups.duplicates:
            into = f" to {to!r}" if to is not None else ""
            _ask(f"{capital(wanted)} these{into}, in {index.store.where}?", yes)
        report = _apply(plan)
    log = plan.log if groups.duplicates else None
    counts = {
        "groups": int(groups.sizes.size),
        "duplicates": groups.duplicates,
        _DONE[wanted]: report.done,
        "unchanged": report.unchanged,
        "gone": report.gone,
        **_failed(report.failures),
    }
    if wants_json(as_json) or log is not None:
        print_counts(counts, wants_json(as_json), log=None if log is None else str(log))
    _tell_failures(report.failures, f"all in {log}")
    if log is not None:
        message(f"The log, from which esdedup undo puts them back: {log}")
    if report.failures:
        raise typer.Exit(1)


def _apply(plan: Dedup) -> DedupReport:
    total = DedupReport()
    most = plan.groups.duplicates + (len(plan.groups.sizes) if plan.action == "mark" else 0)
    with steps() as on_step:

        def on_report(report: DedupReport) -> None:
            nonlocal total
            total += report
            on_step(capital(plan.action), min(total.settled, most), most)

        with resumable(
            lambda: f"{count(total.done, 'document')} {_DONE[plan.action]}",
            f", or put them back: esdedup undo {plan.log}",
        ):
            return plan.apply(on_report).report or total


def _group_json(group: Group) -> dict[str, Any]:
    duplicates = [
        {"id": member.id, "similarity": member.similarity}
        if member.distance is None
        else {"id": member.id, "distance": member.distance}
        for member in group.members
    ]
    return {"keep": group.representative, "duplicates": duplicates}


def _show_groups(groups: Groups, where: str) -> None:
    """A table of the largest groups."""
    rows = [
        (
            f"{len(group.members):,}",
            _farthest(group),
            group.representative,
            ", ".join(member.id for member in group.members[:_GROUPS_SHOWN]),
        )
        for group in itertools.islice(groups, _GROUPS_SHOWN)
    ]
    if not rows:
        return
    print_table(
        [
            ("duplicates", "number"),
            ("most distant" if groups.grouping.by_distance else "least similar", "number"),
            ("representative", "key"),
            ("ids of duplicates", "line"),
        ],
        rows,
        title=capital(where),
    )
    if groups.sizes.size > len(rows):
        smaller = count(groups.sizes.size - len(rows), "smaller group")
        message(f"... and {smaller}: --json lists all")
    # The duplicates are seen before they are changed.
    sys.stdout.flush()


def _farthest(group: Group) -> str:
    """The similarity, or distance, of the duplicate that is least like the representative."""
    similarities = [each.similarity for each in group.members if each.similarity is not None]
    distances = [each.distance for each in group.members if each.distance is not None]
    return f"{min(similarities):.3f}" if similarities else str(max(distances))


def _summary(groups: Groups, statistics: Statistics) -> str:
    """The number of duplicates, and the bytes that they take."""
    documents = count(len(groups.ids), "document")
    if not groups.duplicates:
        return f"No duplicates among {documents}"
    saved = statistics.bytes * groups.duplicates // max(1, statistics.documents)
    return (
        f"{count(groups.duplicates, 'duplicate')} in {count(int(groups.sizes.size), 'group')} of"
        f" {documents}; by their number, about {_megabytes(saved)} of"
        f" {_megabytes(statistics.bytes)}"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _tell_chained(groups: Groups) -> None:
    """Warns of duplicates that are less like their representative than the threshold."""
    grouping, value = groups.grouping, groups.value[~np.isnan(groups.value)]
    if grouping.exact or grouping.method == "leader":
        return
    if grouping.by_distance:
        assert grouping.limits.distance is not None
        chained = int((value > grouping.limits.distance).sum())
    else:
        chained = int((value < grouping.limits.least_similarity).sum())
    if chained:
        message(
            f"{chained:,} of them are joined by a chain of similar documents, and less like their"
            " representative than you asked for: --method leader leaves them"
        )


@with_target
def undo_command(
    target: Target, log: Log, force: Force = False, yes: Yes = False, as_json: AsJson = None
) -> None:
    """Put back what a run of esdedup dedup took out.

    Example: esdedup undo -i news news.dedup-20260101T120000.000000Z.jsonl.zst

    Deleted and moved documents are put back whole, and marks are taken away. A document that
    somebody has changed since is left as it is.
    """
    _require_answer(yes, "undo")
    reader = LogReader(log)
    header, total = reader.header, UndoReport()
    with target.open() as index:
        index.check_log(reader, force=force)
        scheme = index.scheme.id
        documents = sum(map(len, reader.pages()))
        into = f" to {header.to!r}" if header.to is not None else ""
        changed = f"{count(documents, 'document')} {_DONE[header.action]}{into}"
        message(f"{log}: {changed} at {header.began}")
        if reader.damage is not None:
            message(f"{reader.damage}: what follows can't be put back")
        _ask(f"Put them back, in {index.store.where}?", yes)
        with steps() as on_step:

            def on_report(report: UndoReport) -> None:
                nonlocal total
                total += report
                on_step("Putting back", min(total.settled, documents), documents)

            with resumable(lambda: f"{count(total.restored, 'document')} put back"):
                report = index.undo(reader, force=force, on_report=on_report)
    left = [{"id": each.id, "reason": each.reason} for each in report.failures]
    counts = {
        "restored": report.restored,
        "present": report.present,
        **_failed(report.failures),
    }
    print_counts(counts, wants_json(as_json), log=str(log), failures=left)
    _tell_failures(report.failures, "listed by --json")
    if header.scheme != scheme:
        message(f"They have tokens of scheme {header.scheme}: esdedup backfill -i {target.index}")
    if report.failures or report.damage:
        raise typer.Exit(1)


def _require_answer(yes: bool, what: str) -> None:
    """Raises UsageError if a question will be asked and nobody can answer."""
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"{what} asks before it changes anything, and nobody can answer: --yes")


def _ask(question: str, yes: bool) -> None:
    if not agreed(question, yes):
        message("Nothing was changed")
        raise typer.Exit(1)


def _failed(failures: Sequence[Failure]) -> dict[str, int]:
    """The documents that were left as they are: changed by others, and for other reasons."""
    conflicts = sum(each.conflict for each in failures)
    return {"changed_meanwhile": conflicts, "failed": len(failures) - conflicts}


def _tell_failures(failures: Sequence[Failure], others: str) -> None:
    """Names some of the documents that were left as they are. others: where the rest is."""
    for each in failures[:_FAILURES_SHOWN]:
        message(f"{each.id}: {each.reason}")
    if len(failures) > _FAILURES_SHOWN:
        message(f"... and {len(failures) - _FAILURES_SHOWN:,} more, {others}")
