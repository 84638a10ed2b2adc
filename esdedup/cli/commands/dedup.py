"""esdedup dedup, undo: remove the duplicates of an index, and restore them."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Exit

from esdedup import Grouping, Groups, Index, UsageError
from esdedup.analysis.templates import template_warnings
from esdedup.arguments import settings_of
from esdedup.cleaning.items_in_index import Items, find_in_index
from esdedup.cli import output
from esdedup.cli.command import argument, setting
from esdedup.cli.commands.dedup_files import CorpusOptions, dedup_files, show_report
from esdedup.cli.files import FORMATS, FileOptions, dead_letters
from esdedup.cli.options import Target, as_json, refuse, typed, yes
from esdedup.cli.output import capital, count, message
from esdedup.cli.result_files import write_table
from esdedup.exceptions import EsdedupError
from esdedup.groups.groups import joined_though_unlike
from esdedup.models import Failure
from esdedup.records.streams import name_of
from esdedup.removal.log import IN_THE_PAST, Action, LogReader
from esdedup.removal.remove import DedupReport
from esdedup.removal.undo import UndoReport, changed_by
from esdedup.runs.run import Run
from esdedup.runs.shares import Shares

_FAILURES_SHOWN = 5
_OF_ITEMS = {
    "against", "contained", "removed", "text_field", "format", "encoding", "id_field", "dead_letter"
}  # fmt: skip


def dedup_command(
    target: Target,
    grouping: Grouping,
    of_files: Annotated[FileOptions, "rare"],
    corpus: CorpusOptions,
    files: list[str] | None = argument(
        None, f"Clean these instead of an index. {FORMATS}", metavar="[FILES]..."
    ),
    apply: bool = setting(False, "Apply --action to the duplicates, and do not only show them."),
    action: Action | None = setting(
        None, "Delete duplicates, mark them as group does, or move them (--to)."
    ),
    to: str | None = setting(
        None, "Index to move to; created if there is none.", metavar="INDEX", rare=True
    ),
    log: Path | None = setting(
        None, "New log for esdedup undo.", rare=True, show_default="INDEX.dedup-TIME.jsonl.zst"
    ),
    k: int = setting(20, "Maximum number of groups to show.", "-k", bounds=(1, None)),
    yes: bool = yes(),
    as_json: bool = as_json(),
) -> None:
    """Show the duplicates of an index or of files, or remove them.

    Example: esdedup dedup -i news --apply --action delete

    The representative of each group stays (--keep). The others are deleted, marked, or moved. Each
    is written to a log before it is changed, and esdedup undo restores it. A document that another
    client changes at the same time is skipped.

    Example: esdedup dedup shards/ -o clean/

    With FILES no index is needed, and no file is changed: the records that stay are written to
    --output as they came, in files of the same names and formats.
    """
    if files:
        place = [] if corpus.against else [option.name for option in fields(Target)]
        refuse([*place, "db", "apply", "action", "to", "log"], "can't be combined with FILES")
        dedup_files(files, of_files, corpus, grouping, target, as_json)
        return
    refused = [option.name for option in [*fields(FileOptions), *fields(CorpusOptions)]]
    if corpus.contained is not None:
        refuse([*settings_of(Grouping), "k"], "can't be combined with --contained")
        refused = [name for name in refused if name not in _OF_ITEMS]
        if not corpus.against or action == "mark":
            raise UsageError("--contained requires --against, and --action delete or move")
    refuse(refused, "requires FILES")
    if apply and action is None:
        raise UsageError("--apply requires --action: delete, mark, or move (with --to)")
    if not apply and (to or log):
        raise UsageError("--to and --log require --apply")
    output.require_answer(yes or not apply, "--apply asks before it changes anything.")
    run_action: Action = action if apply and action is not None else "delete"
    with target.open() as index:
        containing, failed = None, 0
        if corpus.contained is not None:
            containing, failed = _find_containing(index, of_files, corpus, log, as_json)
            grouping = containing.grouping
        output.warn_before(index, grouping.limits)
        with output.Progress() as progress:
            plan = index.dedup(
                run_action,
                to=to,
                log=log,
                groups=containing,
                on_step=progress.step,
                grouping=grouping,
            )
        groups = plan.groups
        if containing is None:
            _show(index, groups, k, as_json, apply)
        # The duplicates are seen before they are changed.
        sys.stdout.flush()
        if not apply:
            if groups.duplicates:
                mark = ", mark" if containing is None else ""
                message(f"Nothing was changed. To change it: --apply --action delete{mark} or move")
            if failed:
                raise Exit(1)
            return
        if groups.duplicates:
            into = f" to {to!r}" if to is not None else ""
            output.confirm(f"{capital(run_action)} these{into}, in {index.store.where}?", yes)
        with output.totalling(
            DedupReport(),
            capital(run_action),
            groups.duplicates + (len(groups) if run_action == "mark" else 0),
            lambda so_far: so_far.settled,
            lambda so_far: (
                f"{count(_done(index, plan.log, so_far.done), 'document')} "
                + IN_THE_PAST[run_action]
            ),
            f", or restore them: esdedup undo {plan.log}",
        ) as on_report:
            plan = plan.apply(on_report)
    report = plan.report or DedupReport()
    counts = {
        "groups": len(groups),
        "duplicates": groups.duplicates,
        IN_THE_PAST[run_action]: report.done,
        "unchanged": report.unchanged,
        "gone": report.gone,
    }
    if as_json or plan.log is not None:
        of_groups = {name: asdict(getattr(groups, name)) for name in ("judged", "unordered")}
        details = {**of_groups, "log": plan.log and str(plan.log)}
        _report(index, counts, report.failures, as_json, details, f"all in {plan.log}")
    if plan.log is not None:
        message(f"To restore them: esdedup undo {plan.log}")
    if report.failures or failed:
        raise Exit(1)


def _show(index: Index, groups: Groups, k: int, as_json: bool, apply: bool) -> None:
    """Show the duplicates of an index."""
    grouping = groups.grouping
    message(*groups.warnings(grouping.limits))
    message(groups.unordered.warning(grouping.keep))
    if not as_json:
        title = capital(index.store.where)
        output.print_groups(groups, k, "-k N shows more, --json all", title)
    elif not apply:
        measure = groups.measure
        for group in groups:
            duplicates = [
                {"id": member.id, measure.column: measure.typed(member.value)}
                for member in group.members
            ]
            output.print_json({"keep": group.representative, "duplicates": duplicates})
    summary = f"{count(groups.duplicates, 'duplicate')} in {count(len(groups), 'group')} of"
    documents = count(len(groups.ids), "document")
    message(f"{summary if groups.duplicates else 'No duplicates among'} {documents}")
    if unlike := int(groups.unlike.sum()):
        message(f"{unlike:,} of them are {joined_though_unlike(grouping, groups.judged)}")
    message(*template_warnings(index.store, index.meta_of(grouping.limits), groups))


def _find_containing(
    index: Index, of_files: FileOptions, corpus: CorpusOptions, log: Path | None, as_json: bool
) -> tuple[Groups, int]:
    """Show the documents of an index that hold items. Return these, and the number of bad items.

    log: a file that is written later.
    """
    assert corpus.contained is not None
    files = of_files.named(corpus.against or [])
    text_fields = of_files.text_field or index.meta.text_fields
    corpus.check_removed(is_new=True)
    outputs = {"--removed": [corpus.removed], "--log": [None if log is None else str(log)]}
    letters = dead_letters(of_files.dead_letter, index.location.index, files, outputs)
    with letters, Run.temporary() as run, output.Progress() as progress:
        chunks = of_files.chunks(files, text_fields, lambda _: None, [])
        items = Items([*map(name_of, files)], chunks, text_fields, of_files.id_field, letters)
        removals, report, groups = find_in_index(
            Shares(run), index, corpus.contained, items, progress.step
        )
        if corpus.removed is not None:
            write_table(corpus.removed, removals.table())
    show_report(report, None, as_json, {})
    words = (report.contained or {})["guarantee"]
    cause = (
        f"fewer than {words} words in a row of an" if words else "parts of a truncated or stopped"
    )
    message(f"Documents that share {cause} item may be missing")
    if report.failed:
        message(f"{count(report.failed, 'record')} skipped: see {letters.path}")
    return groups, report.failed


def undo_command(
    target: Target,
    log: Path = argument(..., "The log of a run of esdedup dedup.", metavar="LOG"),
    force: bool = setting(False, "Also if the address or the scheme is not that of the log."),
    into: str | None = setting(
        None, "Index to restore into, in place of the log's.", metavar="INDEX"
    ),
    yes: bool = yes(),
    as_json: bool = as_json(),
) -> None:
    """Restore what a run of esdedup dedup removed.

    Example: esdedup undo news.dedup-20260101T120000.000000Z.jsonl.zst

    The index is the log's, unless --into names its successor. Deleted and moved documents are
    restored whole, and marks are removed. A document that another client has changed since is
    skipped.
    """
    output.require_answer(yes, "undo asks before it changes anything.")
    reader = LogReader(log)
    header = reader.header
    if into is not None:
        target = replace(target, index=into)
    elif not typed("index") and "ESDEDUP_INDEX" not in os.environ:
        target = replace(target, index=header.index)
    with target.open() as index:
        index.check_log(reader, force=force, successor=into is not None)
        scheme = index.scheme.id
        documents = changed_by(index.store, reader)
        moved = f" to {header.to!r}" if header.to is not None else ""
        changed = f"{count(documents, 'document')} {IN_THE_PAST[header.action]}{moved}"
        message(f"{log}: {changed} at {header.began}, of index {header.index!r}")
        if reader.damage is not None:
            # A log that is truncated before its first page looks like that of a run that was
            # killed there, so this is an error also if no document can be read.
            message(f"{reader.damage}; what follows can't be restored")
        elif not documents:
            message("Nothing to restore: the run changed no document")
        output.confirm(f"Restore them, in {index.store.where}?", yes or not documents)
        with output.totalling(
            UndoReport(),
            "Restoring",
            documents,
            lambda so_far: so_far.settled,
            lambda so_far: f"{count(so_far.restored, 'document')} restored",
        ) as on_report:
            report = index.undo(
                reader, force=force, successor=into is not None, on_report=on_report
            )
    failures = [{"id": failure.id, "reason": failure.reason} for failure in report.failures]
    counts = {"restored": report.restored, "present": report.present}
    details = {"log": str(log), "damage": reader.damage, "failures": failures}
    _report(index, counts, report.failures, as_json, details, "listed by --json")
    if header.scheme != scheme:
        renew = f"to renew them, run `esdedup backfill -i {target.index}`"
        message(f"Their tokens are of scheme {header.scheme}: {renew}")
    if report.failures or report.damage:
        raise Exit(1)


def _done(index: Index, log: Path | None, reported: int) -> int:
    """Return the number of documents that a run changed before it failed.

    reported: of the pages whose reports came; other pages may have been at work.
    """
    with suppress(EsdedupError):
        if log is not None and log.exists():
            return changed_by(index.store, LogReader(log))
    return reported


def _report(
    index: Index,
    counts: dict[str, int],
    failures: Sequence[Failure],
    as_json: bool,
    details: dict[str, Any],
    advice: str,
) -> None:
    """Print counts, and some of the skipped documents. advice: where all of them are."""
    conflicts = sum(failure.conflict for failure in failures)
    counts |= {"changed_meanwhile": conflicts, "failed": len(failures) - conflicts}
    title = capital(index.store.where)
    output.print_counts(counts, as_json, title=title, details={**output.place_of(index), **details})
    for failure in failures[:_FAILURES_SHOWN]:
        message(f"{failure.id}: {failure.reason}")
    if len(failures) > _FAILURES_SHOWN:
        message(f"... and {len(failures) - _FAILURES_SHOWN:,} more, {advice}")
