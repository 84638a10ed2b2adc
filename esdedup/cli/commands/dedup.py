"""esdedup dedup, undo: remove the duplicates of an index, and restore them."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

from typer import Exit

from esdedup import Grouping, Index, admin
from esdedup.cli import output
from esdedup.cli.command import argument, setting
from esdedup.cli.options import MergeOptions, Target, as_json, typed, yes
from esdedup.cli.output import capital, count, message
from esdedup.cli.removal import RemovalOptions, conclude, show_changes, show_removal
from esdedup.results import Dedup, PlannedMerge


def dedup_command(
    target: Target,
    grouping: Grouping,
    removal: RemovalOptions,
    merging: Annotated[MergeOptions, "rare"],
    k: int = setting(20, "Maximum number of groups to show.", "-k", bounds=(1, None)),
    as_json: bool = as_json(),
) -> None:
    """Show the duplicates of an index, or remove them.

    Example: esdedup dedup -i news --apply --action delete

    The representative of each group stays (--keep). The others are deleted, marked, or moved. Each
    is written to a log before it is changed, and esdedup undo restores it. A document that another
    client changes at the same time is skipped.

    esdedup clean removes the duplicates of files.
    """
    removal.check()
    merge = merging.merge
    with target.open() as index:
        output.warn_before(index, grouping.limits)
        with output.Progress() as progress:
            plan = index.dedup(
                removal.intended,
                to=removal.destination,
                log=removal.log,
                collect=merge.collect,
                fill=merge.fill,
                on_step=progress.step,
                grouping=grouping,
            )
        _show(index, plan, k, as_json, removal.apply)
        applied = conclude(index, plan, removal)
    if applied is not None:
        show_removal(index, applied, removal, as_json)


def _show(index: Index, plan: Dedup, k: int, as_json: bool, apply: bool) -> None:
    """Show the duplicates of an index, and what documents that stay would take from them."""
    groups = plan.groups
    grouping = groups.grouping
    merges = {} if apply else {planned.document.id: planned for planned in plan.merges()}
    message(*groups.warnings(grouping.limits))
    message(output.repeated_ids(groups.repeated, "index"))
    message(groups.unordered.warning(grouping.keep))
    if not as_json:
        title = capital(index.where)
        output.print_groups(groups, k, "-k N shows more, --json all", title)
        left_whole = [
            [*zip(conflict.labels, conflict.ids, strict=True)]
            for conflict in islice(groups.conflicts, k)
        ]
        names = [str(groups.conflicts.name), "id"]
        total = len(groups.conflicts)
        output.print_left_whole(left_whole, total, names, "-k N shows more, --json all")
    elif not apply:
        measure = groups.measure
        for group in groups:
            duplicates = [
                {
                    "id": member.id,
                    measure.column: measure.typed(member.value),
                    **output.index_of("index", member.index),
                }
                for member in group.members
            ]
            index_of_representative = output.index_of("keep_index", group.index)
            representative = {"keep": group.representative, **index_of_representative}
            planned = merges.get(group.representative)
            new_values = {} if planned is None else {"merged": planned.new_values}
            output.print_json({**representative, "duplicates": duplicates, **new_values})
        for conflict in groups.conflicts:
            labels = zip(conflict.ids, conflict.labels, strict=True)
            left_documents = [{"id": id, "label": label} for id, label in labels]
            output.print_json({"conflict": groups.conflicts.name, "documents": left_documents})
    summary = f"{count(groups.duplicates, 'duplicate')} in {count(len(groups), 'group')} of"
    documents = count(len(groups.ids), "document")
    result = summary if groups.duplicates else "No duplicates among"
    message(f"{result} {documents}{output.in_brackets(output.bound_of(groups))}")
    if unlike := int(groups.unlike.sum()):
        message(f"{count(unlike, 'of them is', 'of them are')} {groups.reason_of_unlike}")
    if plan.merge and not apply:
        _show_merges(plan, merges, k, as_json)
    message(*index.template_warnings(groups))


def _show_merges(plan: Dedup, merges: Mapping[str, PlannedMerge], k: int, as_json: bool) -> None:
    """Show what documents that stay would take. merges: by id. k: maximum number to show."""
    numbers = Counter(dict.fromkeys(plan.merge.paths, 0))
    for planned in merges.values():
        numbers.update(planned.numbers)
    new_values = [
        (id, path, value)
        for id, planned in islice(merges.items(), k)
        for path, value in planned.new_values.items()
    ]
    if not as_json:
        output.print_merged(new_values, len(merges))
    message(output.merged_summary(len(merges), numbers))


def undo_command(
    target: Target,
    log: Path = argument(..., "The log of a run of esdedup dedup.", metavar="LOG"),
    force: bool = setting(False, "Restore even if the address or scheme differs from the log's."),
    into: str | None = setting(
        None, "Index to restore into, in place of the log's.", metavar="INDEX"
    ),
    yes: bool = yes(),
    as_json: bool = as_json(),
) -> None:
    """Restore what a run of esdedup dedup removed.

    Example: esdedup undo news.dedup-20260101T120000.000000Z.jsonl.zst

    Name the same --db or --url as for dedup. The name of the index is the log's, unless --into
    names its successor. Deleted and moved documents are restored whole, marks are removed, and
    documents get the values back that they had before --collect. A document that another client has
    changed since is skipped.
    """
    reader = admin.LogReader(log)
    output.require_answer(yes, "undo asks before it changes anything.")
    header = reader.header
    if into is not None:
        target = replace(target, index=into)
    elif not typed("index") and "ESDEDUP_INDEX" not in os.environ:
        target = replace(target, index=header.index)
    with target.open() as index:
        index.check_log(reader, force=force, successor=into is not None)
        scheme = index.scheme.id
        documents = index.changed_by(reader)
        index.check_indices(reader, successor=into is not None)
        moved = f" to {header.to!r}" if header.to is not None else ""
        changed = f"{count(documents, 'document')} {header.in_the_past}{moved}"
        message(f"{log}: {changed} at {header.began}, of index {header.index!r}")
        if reader.damage is not None:
            # A log that is truncated before its first page looks like that of a run that was
            # killed there, so this is an error also if no document can be read.
            message(f"{reader.damage}; what follows can't be restored")
        elif not documents:
            message("Nothing to restore: the run changed no document")
        output.confirm(f"Restore them, in {index.where}?", yes or not documents)
        with output.totalling(
            admin.UndoReport(),
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
    details: dict[str, object] = {"log": str(log), "damage": reader.damage, "failures": failures}
    if copies := report.copies_not_looked_for:
        details["copies_not_looked_for"] = copies
        moved_copies = count(copies, "moved copy was", "moved copies were")
        message(f"There is no index {header.to!r} any more: {moved_copies} not looked for")
    show_changes(index, counts, report.failures, as_json, details, "listed by --json")
    if header.scheme != scheme:
        renew = f"to renew them, run `esdedup backfill -i {target.index}`"
        message(f"Their tokens are of scheme {header.scheme}: {renew}")
    if report.failures or report.damage:
        raise Exit(1)
