"""esdedup dedup --undo: what a run took away, put back; and how such runs ask and report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import typer

from esdedup.cli.options import Target
from esdedup.cli.output import message, print_json, print_table
from esdedup.cli.progress import steps
from esdedup.dedup.log import LogReader, RunHeader
from esdedup.dedup.undo import UndoReport, undo
from esdedup.exceptions import EsdedupError, UsageError
from esdedup.models import Failure
from esdedup.stores import Store

_SHOWN = 5
_DID = {"delete": "deleted", "mark": "marked", "move": "moved"}


def undo_log(target: Target, path: Path, force: bool, yes: bool, as_json: bool) -> None:
    """Shows what a log says, asks, and puts it back."""
    agreed(None, yes, "--undo")
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
        agreed(f"Put them back, in {index.store.where}?", yes, "--undo")
        destination: Store | None = None
        if header.to is not None:
            destination = stack.enter_context(replace(target, index=header.to).open()).store
        report = _run(index.store, log, destination, total)
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


def _run(store: Store, log: LogReader, destination: Store | None, documents: int) -> UndoReport:
    total = UndoReport()
    with steps() as on_step:

        def on_report(report: UndoReport) -> None:
            nonlocal total
            total += report
            on_step("Putting back", min(total.settled, documents), documents)

        try:
            return undo(store, log, destination, on_report)
        except EsdedupError as error:
            raise type(error)(f"{error}\n{_stopped(total)}") from error
        except KeyboardInterrupt:
            message(f"Interrupted. {_stopped(total)}")
            raise


def _stopped(report: UndoReport) -> str:
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
