"""esdedup group: groups of near-duplicates, written into the index."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from esdedup.cli.commands.pairs import tell_capped, tell_left_out, tell_recall, tell_stopped
from esdedup.cli.files import DeadLetterFile
from esdedup.cli.options import (
    AsJson,
    GroupingOptions,
    Target,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, steps, wants_json
from esdedup.dedup.checkpoint import WorkFolder
from esdedup.dedup.groups import Groups, find_groups
from esdedup.dedup.marks import mark_groups, require_settled
from esdedup.ingest.files import BadRecord
from esdedup.stores.changes import ChangeReport

Work = Annotated[
    Path | None,
    typer.Option(
        "--work",
        show_default="INDEX.group",
        help="Folder to work in. A run that was stopped goes on from it; at the end it is removed.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Find the groups, write nothing.")]
DeadLetterPath = Annotated[
    Path | None,
    typer.Option(
        "--dead-letter",
        show_default="INDEX.dead-letter.jsonl",
        help="File to append the documents to that could not be written.",
    ),
]
_LARGEST = 10


@with_target
def group_command(
    target: Target,
    group_options: GroupingOptions,
    work: Work = None,
    dry_run: DryRun = False,
    dead_letter: DeadLetterPath = None,
    as_json: AsJson = None,
) -> None:
    """Join similar documents into groups, and write each document's group into the index.

    Every document gets the id of the one of its group that stays, on which any search can collapse.
    Run it again after it was stopped: it goes on where it was.
    """
    grouping = group_options.grouping()
    folder = work or Path(f"{target.index}.group")
    with ExitStack() as stack:
        index = stack.enter_context(target.open())
        if not dry_run:
            require_settled(index.store, index.meta)
        tell_left_out(index.statistics())
        tell_stopped(index.meta.stop, grouping.limits.metric)
        work_folder = stack.enter_context(WorkFolder.at(folder))
        on_step = stack.enter_context(steps())
        groups = find_groups(index.store, index.meta, grouping, work=work_folder, on_step=on_step)
        report = ChangeReport()
        if not dry_run:
            letters = stack.enter_context(
                DeadLetterFile(dead_letter or Path(f"{target.index}.dead-letter.jsonl"))
            )
            report = mark_groups(index.store, index.meta, groups, on_step)
            for failure in report.failures:
                letters(BadRecord(failure.id, 0, "", failure.reason))
        work_folder.remove()
        missed = index.statistics().sketched - len(groups.ids)
        where = index.store.where
    tell_recall(groups.recall, grouping.limits.least_similarity, grouping.limits.recall)
    tell_capped(groups.capped, grouping.limits.max_per_bucket)
    if wants_json(as_json):
        print_json(_summary(groups, None if dry_run else report))
    else:
        _show(groups, where)
    if not dry_run:
        _tell(report)
    if missed > 0:
        message(
            f"{missed:,} documents were not looked at: they came, or changed, after the others had"
            " been read (run this again), or several indices behind the name have their ids"
        )
    if report.failures:
        raise typer.Exit(1)


def _summary(groups: Groups, report: ChangeReport | None) -> dict[str, Any]:
    sizes = groups.sizes.tolist()
    numbers: dict[str, Any] = {
        "documents": len(groups.ids),
        "groups": len(sizes),
        "duplicates": groups.duplicates,
        "sizes": {str(size): count for size, count in sorted(Counter(sizes).items())},
        "capped_buckets": groups.capped.buckets,
    }
    if report is not None:
        numbers |= {
            "written": report.written,
            "unchanged": report.unchanged,
            "stale": report.stale,
            "failed": len(report.failures),
        }
    return numbers


def _show(groups: Groups, where: str) -> None:
    sizes = Counter(groups.sizes.tolist())
    print_table(
        [("documents a group", "number"), ("groups", "number")],
        [(f"{size:,}", f"{count:,}") for size, count in sorted(sizes.items())],
        title=f"{where[0].upper()}{where[1:]}: {groups.duplicates:,} duplicates in"
        f" {sizes.total():,} groups, of {len(groups.ids):,} documents",
    )
    rows = [
        (f"{len(group.members) + 1:,}", group.representative, ", ".join(_ids(group.members)))
        for group in itertools.islice(groups, _LARGEST)
    ]
    if rows:
        print_table([("documents", "number"), ("stays", "key"), ("others", "line")], rows)


def _ids(members: list[Any]) -> list[str]:
    return [member.id for member in members[:20]]


def _tell(report: ChangeReport) -> None:
    message(f"{report.written:,} documents written, {report.unchanged:,} had their group already")
    if report.stale:
        message(
            f"{report.stale:,} documents changed or went while they were grouped, and were left as"
            " they are: run this again"
        )
