"""esdedup dedup: takes duplicates out of an index, and puts them back."""

from __future__ import annotations

import datetime
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from esdedup.cli.commands.duplicates import group_json, show_groups, summary, tell_chained
from esdedup.cli.commands.pairs import tell_capped, tell_left_out, tell_recall, tell_stopped
from esdedup.cli.commands.undo import address_of, agreed, failed, tell_failures, undo_log
from esdedup.cli.grouping import LeaderOptions
from esdedup.cli.options import (
    AsJson,
    Target,
    Yes,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, wants_json
from esdedup.cli.progress import steps
from esdedup.dedup.clustering import find_groups
from esdedup.dedup.groups import Groups
from esdedup.dedup.log import Action, LogWriter, RunHeader
from esdedup.dedup.remove import DedupReport, dedup, prepare
from esdedup.exceptions import EsdedupError, UsageError
from esdedup.index import Index
from esdedup.stores import Store
from esdedup.stores.elastic.indices import check_apart

Apply = Annotated[
    bool, typer.Option("--apply", help="Do what --action says, and not only show the duplicates.")
]
ActionOption = Annotated[
    Action | None,
    typer.Option(
        "--action",
        help="What becomes of duplicates: delete them, mark them as cluster does, or move them to"
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
        help="A new file for all that is changed, whole, from which --undo puts it back.",
    ),
]
Undo = Annotated[
    Path | None,
    typer.Option("--undo", metavar="LOG", help="Put back what a log says, instead of all else."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="With --undo: into another address or scheme than the log's."),
]
_DONE = {"delete": "deleted", "mark": "marked", "move": "moved"}


@with_target
def dedup_command(
    target: Target,
    group_options: LeaderOptions,
    apply: Apply = False,
    action: ActionOption = None,
    to: To = None,
    log: LogOption = None,
    undo: Undo = None,
    force: Force = False,
    yes: Yes = False,
    as_json: AsJson = None,
) -> None:
    """Show the duplicates of an index; with --apply delete, mark, or move them.

    Of each group of similar documents one stays (--keep), which each of the others is like. What is
    changed is written to a log before, whole, and --undo puts it back. What somebody changes
    meanwhile is left as it is.
    """
    if undo is not None:
        if apply or action or to or log:
            raise UsageError("--undo goes without --apply, --action, --to and --log")
        undo_log(target, undo, force, yes, wants_json(as_json))
        return
    _check(target, apply, action, to, log, force)
    grouping = group_options.grouping()
    if apply:
        agreed(None, yes, "--apply")
    with target.open() as index:
        statistics = index.statistics()
        tell_left_out(statistics)
        tell_stopped(index.meta.stop, grouping.metric)
        with steps() as on_step:
            groups = find_groups(index.store, index.meta, grouping, on_step=on_step)
        tell_recall(groups.recall, grouping.threshold, grouping.recall)
        tell_capped(groups.capped, grouping.max_bucket)
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
    force: bool,
) -> None:
    """Raises UsageError for options that do not go together."""
    if force:
        raise UsageError("--force goes with --undo")
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
        f" on, or put them back with --undo {log.path}"
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
        message(f"The log, from which --undo puts them back: {path}")
