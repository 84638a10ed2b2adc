"""Remove documents of an index on the command line: the options, the question, and the report."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from typer import Exit

from esdedup import Index, UsageError, admin
from esdedup.cli import options, output
from esdedup.cli.command import setting
from esdedup.cli.output import capital, count, message
from esdedup.exceptions import EsdedupError
from esdedup.results import Dedup

_FAILURES_SHOWN = 5


@dataclass(frozen=True)
class RemovalOptions:
    """The options of a command that removes documents of an index."""

    apply: bool = setting(False, "Apply --action to the duplicates instead of showing them.")
    action: admin.Action | None = setting(
        None, "Delete duplicates, mark them as group does, or move them (--to)."
    )
    to: str | None = setting(
        None, "Index to move to; created if there is none.", metavar="INDEX", rare=True
    )
    log: Path | None = setting(
        None, "New log for esdedup undo.", rare=True, show_default="INDEX.dedup-TIME.jsonl.zst"
    )
    yes: bool = options.yes()
    actions: ClassVar[str] = "delete, mark or move"

    def check(self) -> None:
        """Raise UsageError for options that can't be combined, and if no answer is possible."""
        if self.apply and self.action is None:
            raise UsageError(f"--apply requires --action: {self.actions} (with --to)")
        if not self.apply and (options.typed("to") or options.typed("log")):
            raise UsageError("--to and --log require --apply")
        if self.apply and (self.action == "move") != (self.to is not None):
            raise UsageError("--action move and an index to move to (--to) require each other")
        output.require_answer(
            self.yes or not self.apply, "--apply asks before it changes anything."
        )

    @property
    def intended(self) -> admin.Action:
        """The action to apply, or to plan."""
        return self.action if self.apply and self.action is not None else "delete"

    @property
    def destination(self) -> str | None:
        """The index to move to; None without --apply, also if a settings file names one."""
        return self.to if self.apply else None


@dataclass(frozen=True)
class ItemRemovalOptions(RemovalOptions):
    """The options of a command that removes documents of an index that hold an item."""

    # A settings file may set the action of all commands, also one that is for duplicates only.
    action: admin.Action | None = setting(
        None, "Delete the documents, or move them (--to).", metavar="[delete|move]"
    )
    actions: ClassVar[str] = "delete or move"

    def check(self) -> None:
        """Raise UsageError as for duplicates, and for an action that is for these only."""
        if self.action == "mark" and (self.apply or options.typed("action")):
            raise UsageError(f"decontaminate requires --action {self.actions}")
        super().check()


def conclude(index: Index, plan: Dedup, removal: RemovalOptions, failed: int = 0) -> Dedup | None:
    """Apply a plan after a question; only say how to do so, and return None, without --apply.

    failed: number of items that could not be read.
    """
    groups, action = plan.groups, removal.intended
    # The duplicates are seen before they are changed.
    sys.stdout.flush()
    if not removal.apply:
        if groups.duplicates:
            message(f"Nothing was changed. To change it: --apply --action {removal.actions}")
        if failed:
            raise Exit(1)
        return None
    if groups.duplicates:
        into = f" to {removal.to!r}" if removal.to is not None else ""
        output.confirm(f"{capital(action)} these{into}, in {index.where}?", removal.yes)
    with output.totalling(
        admin.DedupReport(),
        capital(action),
        groups.duplicates + (len(groups) if action == "mark" else 0),
        lambda so_far: so_far.settled,
        lambda so_far: (
            f"{count(_done(index, plan.log, so_far.done), 'document')} {plan.in_the_past}"
        ),
        f", or restore them: {_restoring(index, plan.log)}",
    ) as on_report:
        return plan.apply(on_report)


def show_removal(
    index: Index, plan: Dedup, removal: RemovalOptions, as_json: bool, failed: int = 0
) -> None:
    """Show what was removed. The exit status is 1 if some was not, or items could not be read."""
    groups, report = plan.groups, plan.report or admin.DedupReport()
    counts = {
        "groups": len(groups),
        "duplicates": groups.duplicates,
        plan.in_the_past: report.done,
        "unchanged": report.unchanged,
        "gone": report.gone,
    }
    if plan.merge:
        counts["merged"] = report.merged
    if as_json or plan.log is not None:
        of_groups = {name: asdict(getattr(groups, name)) for name in ("judged", "unordered")}
        conflicts = groups.conflicts
        of_labels = {} if conflicts.name is None else {"conflicts": conflicts.to_json()}
        details = {**of_groups, **of_labels, "log": plan.log and str(plan.log)}
        show_changes(index, counts, report.failures, as_json, details, f"all in {plan.log}")
    if plan.log is not None:
        message(f"To restore them: {_restoring(index, plan.log)}")
    if report.failures or failed:
        raise Exit(1)


def _restoring(index: Index, log: Path | None) -> str:
    """Return the command that restores what a run on an index removed. log: of the run."""
    place = options.typed_place(index.location.target)
    return shlex.join(["esdedup", "undo", str(log), *place])


def _done(index: Index, log: Path | None, reported: int) -> int:
    """Return the number of documents that a run changed before it failed.

    reported: of the pages whose reports came; other pages may have been at work.
    """
    with suppress(EsdedupError):
        if log is not None and log.exists():
            return index.changed_by(admin.LogReader(log))
    return reported


def show_changes(
    index: Index,
    counts: dict[str, int],
    failures: Sequence[admin.Failure],
    as_json: bool,
    details: dict[str, Any],
    advice: str,
) -> None:
    """Print counts, and some of the skipped documents. advice: where all of them are."""
    conflicts = sum(failure.conflict for failure in failures)
    counts |= {"changed_meanwhile": conflicts, "failed": len(failures) - conflicts}
    title = capital(index.where)
    output.print_counts(counts, as_json, title=title, details={**output.place_of(index), **details})
    for failure in failures[:_FAILURES_SHOWN]:
        message(f"{failure.id}: {failure.reason}")
    if len(failures) > _FAILURES_SHOWN:
        message(f"... and {len(failures) - _FAILURES_SHOWN:,} more, {advice}")
