"""esdedup group: groups of similar documents, written into the index."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer import Option

from esdedup.cli import options, output
from esdedup.cli.files import DeadLetterFile, dead_letter_path
from esdedup.cli.output import capital, count, message
from esdedup.cli.result_files import ResultFile, write_rows
from esdedup.dedup.groups import Groups
from esdedup.dedup.marks import wanted_marks
from esdedup.ingest.files import BadRecord
from esdedup.stores.changes import ChangeReport

_LARGEST = 10
_IDS = 20

CollapseReady = Annotated[
    bool, Option("--collapse-ready", help="Give single documents a group too: their own id.")
]


@options.with_target
def group_command(
    target: options.Target,
    group_options: options.GroupingOptions,
    results: ResultFile,
    collapse_ready: CollapseReady = False,
    work: options.Work = None,
    dry_run: options.DryRun = False,
    dead_letter: options.DeadLetterPath = None,
    as_json: options.AsJson = None,
) -> None:
    """Group similar documents, and write the groups.

    Example: esdedup group -i news --threshold 0.9

    Documents of a group get the id of its representative, and duplicates the similarity to it. A
    document that is similar to no other gets nothing, and loses the group that it had. Run it again
    after it was stopped: it goes on where it was.
    """
    arguments = group_options.arguments()
    results.check()
    marks: ChangeReport | None = None
    with target.open() as index:
        folder = work or index.place.work_folder("group")
        output.warn_before(index, group_options.metric)
        where, place = index.store.where, output.place_of(index)
        with output.steps() as on_step:
            if dry_run:
                groups = index.groups(work=folder, on_step=on_step, **arguments)
                missed = index.missed(groups)
            else:
                report = index.group(
                    collapse_ready=collapse_ready, work=folder, on_step=on_step, **arguments
                )
                groups, marks, missed = report.groups, report.marks, report.missed
    if marks is not None:
        path = dead_letter or dead_letter_path(target.index)
        with DeadLetterFile(path) as letters:
            for failure in marks.failures:
                letters(BadRecord(failure.id, 0, "", failure.reason))
    output.tell_reading(groups.basis, groups.grouping.limits)
    output.warn_after(groups.recall, groups.capped, groups.grouping.limits)
    if results.output is not None:
        _write(groups, results.output, collapse_ready)
        place["output"] = str(results.output.resolve())
    if output.wants_json(as_json):
        output.print_json({**_as_json(groups, marks), **place})
    else:
        _show(groups, where)
    if marks is not None:
        written = count(marks.written, "document")
        message(f"{written} written, {marks.unchanged:,} unchanged")
        if marks.stale:
            message(
                f"{count(marks.stale, 'document')} changed or deleted by others while documents"
                " were grouped, and left as they are: run this again"
            )
    if missed:
        message(
            f"{count(missed, 'document')} not looked at: they came, or changed, after the others"
            " had been read (run this again), or several indices behind the name have their ids"
        )
    if marks is not None and marks.failures:
        raise typer.Exit(1)


def _write(groups: Groups, path: Path, collapse_ready: bool) -> None:
    """Writes a row for each document that gets a group: its id, and what is written into it."""
    measure, kind = ("distance", int) if groups.grouping.by_distance else ("similarity", float)
    names = ("group", "original", measure)
    grouped = np.bincount(groups.representative, minlength=len(groups.ids)) > 1

    def rows() -> Iterator[tuple[Any, ...]]:
        for row, id in enumerate(groups.ids):
            if collapse_ready or grouped[groups.representative[row]]:
                marks = wanted_marks(groups, row)
                yield (id, *(marks[name] for name in names))

    write_rows(path, {"id": str, "group": str, "original": str, measure: kind}, rows())


def _as_json(groups: Groups, report: ChangeReport | None) -> dict[str, Any]:
    sizes = groups.sizes.tolist()
    numbers: dict[str, Any] = {
        "documents": len(groups.ids),
        "groups": len(sizes),
        "duplicates": groups.duplicates,
        "sizes": {str(size): number for size, number in sorted(Counter(sizes).items())},
        "capped_buckets": groups.capped.buckets,
        **asdict(groups.basis),
    }
    if report is not None:
        numbers |= {"written": report.written, "unchanged": report.unchanged}
        numbers |= {"stale": report.stale, "failed": len(report.failures)}
    return numbers


def _show(groups: Groups, where: str) -> None:
    sizes = Counter(groups.sizes.tolist())
    output.print_table(
        [("documents per group", "number"), ("groups", "number")],
        [(f"{size:,}", f"{number:,}") for size, number in sorted(sizes.items())],
        title=f"{capital(where)}: {count(groups.duplicates, 'duplicate')} in"
        f" {count(sizes.total(), 'group')}, of {count(len(groups.ids), 'document')}",
    )
    rows = []
    for group in itertools.islice(groups, _LARGEST):
        ids = ", ".join(member.id for member in group.members[:_IDS])
        rows.append((f"{len(group.members) + 1:,}", group.representative, ids))
    if rows:
        output.print_table(
            [("documents", "number"), ("representative", "key"), ("ids of duplicates", "line")],
            rows,
        )
