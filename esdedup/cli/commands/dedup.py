"""esdedup dedup: takes duplicates out of an index, and puts them back.

Groups of duplicates, shown.

esdedup undo: what a run took away, put back; and how such runs ask and report.
"""

from __future__ import annotations

import datetime
import itertools
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from esdedup.cli.commands.pairs import tell_capped, tell_left_out, tell_recall, tell_stopped
from esdedup.cli.options import (
    AsJson,
    GroupingOptions,
    Target,
    Yes,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, steps, wants_json
from esdedup.dedup.groups import Group, Groups, find_groups
from esdedup.dedup.log import Action, LogReader, LogWriter, RunHeader
from esdedup.dedup.remove import DedupReport, dedup, prepare
from esdedup.dedup.undo import UndoReport, undo
from esdedup.exceptions import EsdedupError, UsageError
from esdedup.index import Index
from esdedup.models import Failure, Statistics
from esdedup.stores import Store
from esdedup.stores.elastic.indices import check_apart

_SHOWN = 5
_DID = {"delete": "deleted", "mark": "marked", "move": "moved"}


def undo_log(target: Target, path: Path, force: bool, yes: bool, as_json: bool) -> None:
    agreed(None, yes, "undo")
    log = LogReader(path)
    header = log.header
    if header.index != target.index:
        raise UsageError(
            f"log file {path} is of index {header.index!r}, not of {target.index!r}: --index"
            f" {header.index}"
        )
    with ExitStack() as stack:
        index = stack.enter_context(target.open())
        scheme = index.scheme.id
        _check_place(header, target, scheme, path, force)
        total = sum(len(page.changed) for page in log.pages())
        into = f" to {header.to!r}" if header.to is not None else ""
        message(f"{path}: {total:,} documents {_DID[header.action]}{into} at {header.began}")
        if log.damage is not None:
            message(f"{log.damage}: what follows can't be put back")
        agreed(f"Put them back, in {index.store.where}?", yes, "undo")
        destination: Store | None = None
        if header.to is not None:
            destination = stack.enter_context(replace(target, index=header.to).open()).store
        report = _run_undo(index.store, log, destination, total)
    _show(report, path, as_json)
    if header.scheme != scheme:
        message(f"They have tokens of scheme {header.scheme}: esdedup backfill {target.index}")
    if report.failures or log.damage is not None:
        raise typer.Exit(1)


def _check_place(header: RunHeader, target: Target, scheme: str, path: Path, force: bool) -> None:
    """Raises UsageError where the index is not the log's, as far as that can be told."""
    differing = []
    here = address_of(target)
    if not {*header.address.split(", ")} & {*here.split(", ")}:
        differing.append(f"at {header.address}, not at {here}")
    if header.scheme != scheme:
        differing.append(f"of scheme {header.scheme}, not {scheme}")
    if differing and not force:
        raise UsageError(
            f"log file {path} is of an index {' and '.join(differing)}: if that is right, --force"
        )


def _run_undo(
    store: Store, log: LogReader, destination: Store | None, documents: int
) -> UndoReport:
    total = UndoReport()
    with steps() as on_step:

        def on_report(report: UndoReport) -> None:
            nonlocal total
            total += report
            on_step("Putting back", min(total.settled, documents), documents)

        try:
            return undo(store, log, destination, on_report)
        except EsdedupError as error:
            raise type(error)(f"{error}\n{_undo_stopped(total)}") from error
        except KeyboardInterrupt:
            message(f"Interrupted. {_undo_stopped(total)}")
            raise


def _undo_stopped(report: UndoReport) -> str:
    return (
        f"Before this: {report.restored:,} documents put back. Run the same command again to go on"
    )


def _show(report: UndoReport, path: Path, as_json: bool) -> None:
    numbers = {
        "restored": report.restored,
        "present": report.present,
        **failed(report.failures),
    }
    if as_json:
        left = [{"id": each.id, "reason": each.reason} for each in report.failures]
        print_json({**numbers, "log": str(path), "failures": left})
    else:
        rows = [(name, f"{count:,}") for name, count in numbers.items()]
        print_table([("Documents", "text"), ("", "number")], rows)
    tell_failures(report.failures, "listed by --json")


def address_of(target: Target) -> str:
    """Where a target's index is: addresses without credentials, or a file."""
    if target.url or target.cloud_id:
        return target.connection().shown
    return str(target.db.resolve())


def agreed(question: str | None, yes: bool, option: str) -> None:
    """Goes on only after a yes, given before or now. Without a question, only if there can be one.

    Raises UsageError where nobody is there to be asked.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{option} asks before it changes anything, and nobody can answer: --yes")
    if question is not None and not typer.confirm(question, err=True):
        message("Nothing was changed")
        raise typer.Exit(1)


def failed(failures: Sequence[Failure]) -> dict[str, int]:
    """How many documents were left because they are not what they were, and for other reasons."""
    conflicts = sum(each.conflict for each in failures)
    return {"changed_meanwhile": conflicts, "failed": len(failures) - conflicts}


def tell_failures(failures: Sequence[Failure], others: str) -> None:
    """Names some of the documents that were left as they are. others: where the rest is."""
    for each in failures[:_SHOWN]:
        message(f"{each.id}: {each.reason}")
    if len(failures) > _SHOWN:
        message(f"... and {len(failures) - _SHOWN:,} more, {others}")


_LARGEST = 20


def group_json(group: Group) -> dict[str, Any]:
    """A group as a line of JSON."""
    duplicates = [
        {"id": member.id, "similarity": member.similarity}
        if member.distance is None
        else {"id": member.id, "distance": member.distance}
        for member in group.members
    ]
    return {"keep": group.representative, "duplicates": duplicates}


def show_groups(groups: Groups, where: str) -> None:
    """A table of the largest groups."""
    rows = [
        (
            f"{len(group.members):,}",
            _farthest(group),
            group.representative,
            ", ".join(member.id for member in group.members[:_LARGEST]),
        )
        for group in itertools.islice(groups, _LARGEST)
    ]
    if not rows:
        return
    columns: list[Any] = [
        ("go", "number"),
        ("least like", "number"),
        ("stays", "key"),
        ("those that go", "line"),
    ]
    print_table(columns, rows, title=where[0].upper() + where[1:])
    if groups.sizes.size > len(rows):
        message(f"... and {groups.sizes.size - len(rows):,} smaller groups: --json lists all")
    # What is about to happen is seen before it happens.
    sys.stdout.flush()


def _farthest(group: Group) -> str:
    """The similarity, or distance, of the document that is least like the one that stays."""
    similarities = [each.similarity for each in group.members if each.similarity is not None]
    distances = [each.distance for each in group.members if each.distance is not None]
    return f"{min(similarities):.3f}" if similarities else str(max(distances))


def tell_chained(groups: Groups) -> None:
    """Says how many are less like the one that stays than what was asked for."""
    grouping, value = groups.grouping, groups.value[~np.isnan(groups.value)]
    if grouping.exact or grouping.method == "leader":
        return
    limits = grouping.limits
    if limits.metric == "jaccard":
        chained = int((value < limits.least_similarity).sum())
    else:
        assert limits.distance is not None
        chained = int((value > limits.distance).sum())
    if chained:
        message(
            f"{chained:,} of them are joined by a chain of similar documents, and less like the one"
            " that stays than you asked for: --method leader leaves them"
        )


def summary(groups: Groups, statistics: Statistics) -> str:
    """How many duplicates there are, and what they take."""
    if not groups.duplicates:
        return f"No duplicates among {len(groups.ids):,} documents"
    saved = statistics.bytes * groups.duplicates // max(1, statistics.documents)
    return (
        f"{groups.duplicates:,} duplicates in {groups.sizes.size:,} groups of"
        f" {len(groups.ids):,} documents; by their number, about {_megabytes(saved)} of"
        f" {_megabytes(statistics.bytes)}"
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


Apply = Annotated[
    bool, typer.Option("--apply", help="Do what --action says, and not only show the duplicates.")
]
ActionOption = Annotated[
    Action | None,
    typer.Option(
        "--action",
        help="What becomes of duplicates: delete them, mark them as group does, or move them to"
        " another index (--to).",
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="INDEX", help="Where to move duplicates; made if there is none."),
]
LogOption = Annotated[
    Path | None,
    typer.Option(
        "--log",
        show_default="INDEX.dedup-TIME.jsonl.zst",
        help="A new file for all that is changed, whole, from which esdedup undo puts it back.",
    ),
]
LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="The log of a run of dedup.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="Into another address or scheme than the log's."),
]
_DONE = {"delete": "deleted", "mark": "marked", "move": "moved"}


@with_target
def dedup_command(
    target: Target,
    group_options: GroupingOptions,
    apply: Apply = False,
    action: ActionOption = None,
    to: To = None,
    log: LogOption = None,
    yes: Yes = False,
    as_json: AsJson = None,
) -> None:
    """Show the duplicates of an index; with --apply delete, mark, or move them.

    Of each group of similar documents one stays (--keep), which each of the others is like. What is
    changed is written to a log before, whole, and esdedup undo puts it back. What somebody changes
    meanwhile is left as it is.
    """
    _check(target, apply, action, to, log)
    grouping = group_options.grouping()
    if apply:
        agreed(None, yes, "--apply")
    with target.open() as index:
        statistics = index.statistics()
        tell_left_out(statistics)
        tell_stopped(index.meta.stop, grouping.limits.metric)
        with steps() as on_step:
            groups = find_groups(index.store, index.meta, grouping, on_step=on_step)
        tell_recall(groups.recall, grouping.limits.least_similarity, grouping.limits.recall)
        tell_capped(groups.capped, grouping.limits.max_per_bucket)
        if not wants_json(as_json):
            show_groups(groups, index.store.where)
        elif not apply:
            for group in groups:
                print_json(group_json(group))
        message(summary(groups, statistics))
        tell_chained(groups)
        if not apply:
            if groups.duplicates:
                message("Nothing was changed. To do so: --apply --action delete, mark or move")
            return
        assert action is not None
        path, report = _apply(target, index, groups, action, to, log, yes)
    _tell(groups, action, path, report, wants_json(as_json))
    if report.failures:
        raise typer.Exit(1)


def _check(
    target: Target,
    apply: bool,
    action: Action | None,
    to: str | None,
    log: Path | None,
) -> None:
    """Raises UsageError for options that do not go together."""
    if apply and action is None:
        raise UsageError("say what --apply shall do: --action delete, mark, or move (with --to)")
    if not apply and (to or log):
        raise UsageError("--to and --log go with --apply")
    if (action == "move") != (to is not None) and (apply or to):
        raise UsageError("--action move and --to INDEX go together")
    if to == target.index:
        raise UsageError(f"--to {to}: the documents are there already; name another index")
    if to is not None and (target.url or target.cloud_id):
        with target.connected() as cluster:
            check_apart(cluster, target.index, to)


def _apply(
    target: Target,
    index: Index,
    groups: Groups,
    action: Action,
    to: str | None,
    log: Path | None,
    yes: bool,
) -> tuple[Path | None, DedupReport]:
    """The log, where one was needed, and what became of the documents."""
    if not groups.duplicates:
        return None, DedupReport()
    into = f" to {to!r}" if to is not None else ""
    agreed(f"{action.capitalize()} these{into}, in {index.store.where}?", yes, "--apply")
    began = datetime.datetime.now(datetime.UTC)
    path = log or Path(f"{target.index}.dedup-{began:%Y%m%dT%H%M%S.%f}Z.jsonl.zst")
    header = RunHeader(
        target.index,
        address_of(target),
        index.scheme.id,
        index.meta.field,
        action,
        to,
        groups.grouping.to_json(),
        began.isoformat(timespec="seconds"),
    )
    with ExitStack() as stack:
        destination: Store | None = None
        if to is not None:
            destination = stack.enter_context(replace(target, index=to).open()).store
            prepare(destination, index.meta)
        writer = stack.enter_context(LogWriter(path, header))
        return path, _run(index, groups, action, writer, destination)


def _run(
    index: Index, groups: Groups, action: Action, log: LogWriter, destination: Store | None
) -> DedupReport:
    """Works with a bar of progress; where that stops early, says what was done before."""
    total = DedupReport()
    with steps() as on_step:

        def on_report(report: DedupReport) -> None:
            nonlocal total
            total += report
            on_step(f"{action.capitalize()}", min(total.settled, most), most)

        most = groups.duplicates + (len(groups.sizes) if action == "mark" else 0)
        try:
            return dedup(index.store, index.meta, groups, action, log, destination, on_report)
        except EsdedupError as error:
            raise type(error)(f"{error}\n{_stopped(total, action, log)}") from error
        except KeyboardInterrupt:
            message(f"Interrupted. {_stopped(total, action, log)}")
            raise


def _stopped(report: DedupReport, action: Action, log: LogWriter) -> str:
    return (
        f"Before this: {report.done:,} documents {_DONE[action]}. Run the same command again to go"
        f" on, or put them back with esdedup undo {log.path}"
    )


def _tell(
    groups: Groups, action: Action, path: Path | None, report: DedupReport, as_json: bool
) -> None:
    numbers = {
        "groups": int(groups.sizes.size),
        "duplicates": groups.duplicates,
        _DONE[action]: report.done,
        "unchanged": report.unchanged,
        "gone": report.gone,
        **failed(report.failures),
    }
    if as_json:
        print_json({**numbers, "log": None if path is None else str(path)})
    elif path is not None:
        rows = [(name, f"{count:,}") for name, count in numbers.items()]
        print_table([("Documents", "text"), ("", "number")], rows)
    tell_failures(report.failures, f"all in {path}")
    if path is not None:
        message(f"The log, from which esdedup undo puts them back: {path}")


@with_target
def undo_command(
    target: Target,
    log: LogArgument,
    force: Force = False,
    yes: Yes = False,
    as_json: AsJson = None,
) -> None:
    """Put back what a run of dedup deleted, marked, or moved."""
    undo_log(target, log, force, yes, wants_json(as_json))
