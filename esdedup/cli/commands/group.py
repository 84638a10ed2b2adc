"""esdedup group: write the groups of similar documents into the index."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from typer import Exit

from esdedup.arguments import setting
from esdedup.cli import options, output
from esdedup.cli.files import dead_letters
from esdedup.cli.options import Target
from esdedup.cli.output import capital, count, message
from esdedup.cli.result_files import ResultFile, write_rows
from esdedup.exceptions import StoreError, UsageError
from esdedup.groups.constraints import JudgedCounts
from esdedup.groups.groups import Grouping, Groups
from esdedup.groups.marks import wanted_marks
from esdedup.records.dead_letters import dead_letter_path
from esdedup.records.files import BadRecord
from esdedup.stores.connection import Connection

if TYPE_CHECKING:
    from esdedup.spark.group_index import IndexGroups
    from esdedup.spark.pairs import SparkReport

_LARGEST = 10
_IDS = 20


def group_command(
    target: Target,
    grouping: Grouping,
    results: ResultFile,
    collapse_ready: bool = setting(False, "Give single documents a group too: their own id."),
    engine: Literal["local", "spark"] = setting(
        "local", "local: this process; spark: the executors of Spark."
    ),
    master: str | None = setting(
        None,
        "Spark's master, such as yarn.",
        metavar="URL",
        rare=True,
        show_default="spark-submit's",
    ),
    work: str | None = options.work(),
    dry_run: bool = options.dry_run(),
    dead_letter: Path | None = options.dead_letter(),
    as_json: bool | None = options.as_json(),
) -> None:
    """Group similar documents, and write the groups.

    Example: esdedup group -i news --threshold 0.9

    Documents of a group get the id of its representative, and duplicates the similarity to it. A
    document that is similar to no other gets no group, and loses the one that it had. Run the same
    command again to resume an interrupted run (Spark starts over).
    """
    results.check()
    if engine == "spark":
        _check_for_spark(target, grouping, results)
    elif master is not None:
        raise UsageError("--master requires --engine spark")
    wants_json = output.wants_json(as_json)
    groups: Groups | None = None
    with (
        target.open() as index,
        dead_letters(dead_letter or dead_letter_path(target.index)) as letters,
    ):
        output.warn_before(index, grouping.limits)
        where, place = index.store.where, output.place_of(index)
        if engine == "spark":
            job = collapse_ready, work, dry_run, master, 0 if wants_json else _LARGEST
            on_spark = _on_spark(target, grouping, *job)
            marks, missed = on_spark.marks, on_spark.missed
            loss: SparkReport | Groups = on_spark.compared
            largest = on_spark.largest
            numbers = _numbers(on_spark.compared.documents, on_spark.sizes)
        else:
            with output.steps() as on_step:
                same: dict[str, Any] = {"on_step": on_step, "grouping": grouping}
                same["work"] = Path(work) if work else index.place.work_folder("group")
                if dry_run:
                    groups, marks = index.groups(**same), None
                    missed = index.missed(groups)
                else:
                    report = index.group(collapse_ready=collapse_ready, **same)
                    groups, marks, missed = report.groups, report.marks, report.missed
            loss, largest = groups, [] if wants_json else _largest(groups)
            numbers = _numbers(len(groups.ids), Counter(groups.sizes.tolist()))
        for failure in marks.failures if marks is not None else ():
            letters(BadRecord(failure.id, 0, "", failure.reason))
    judged = JudgedCounts() if groups is None else groups.judged
    output.warn_after(loss.recall, loss.capped, grouping.limits, judged)
    unwritten: StoreError | None = None
    if groups is not None and results.output is not None:
        try:
            _write(groups, results.output, collapse_ready)
            place["output"] = str(results.output.resolve())
        except StoreError as error:
            # The index may have been changed already, which is reported first.
            unwritten = error
    if wants_json:
        numbers |= {"capped_buckets": loss.capped.buckets, "expected_recall": loss.recall}
        numbers |= {**asdict(loss.basis), "judged": asdict(judged)}
        if marks is not None:
            names = ("written", "unchanged", "stale", "failed")
            numbers |= {name: getattr(marks, name) for name in names}
        output.print_json({**numbers, **place})
    else:
        _show(numbers, largest, where)
    if marks is not None:
        written = count(marks.written, "document")
        message(f"{written} written, {marks.unchanged:,} unchanged")
        if marks.stale:
            message(
                f"{count(marks.stale, 'document')} skipped, changed or deleted while documents were"
                " grouped: run this again"
            )
        if marks.untold:
            message(f"{marks.failed:,} failed, of which {letters.path} has {len(marks.failures):,}")
    if missed:
        message(
            f"{count(missed, 'document')} missed: they were added or changed after the others"
            " had been read (run this again), or several indices behind the name have their ids"
        )
    if unwritten is not None:
        raise unwritten
    if marks is not None and (marks.failed or (marks.stale and not marks.settled)):
        raise Exit(1)


def _check_for_spark(target: Target, grouping: Grouping, results: ResultFile) -> None:
    """Raise UsageError for options that Spark does not support."""
    local_only = {"--output": results.output, "--split-templates": grouping.split_templates}
    for name, given in local_only.items():
        if given:
            raise UsageError(f"{name} requires --engine local")
    if not isinstance(target.where, Connection):
        raise UsageError("--engine spark requires a cluster (--url)")


def _on_spark(
    target: Target,
    grouping: Grouping,
    collapse_ready: bool,
    work: str | None,
    dry_run: bool,
    master: str | None,
    largest: int,
) -> IndexGroups:
    # It takes half a second, and may not be installed.
    from esdedup.spark.group_index import group_index
    from esdedup.spark.session import started

    with started(f"esdedup group {target.index}", master) as spark:
        return group_index(
            spark,
            target.connection(),
            target.index,
            grouping,
            write=not dry_run,
            collapse_ready=collapse_ready,
            largest=largest,
            work=work,
        )


def _write(groups: Groups, path: Path, collapse_ready: bool) -> None:
    """Write a row for each document that gets a group: its id, and what is written into it."""
    measure, kind = ("distance", int) if groups.grouping.by_distance else ("similarity", float)
    names = ("group", "original", measure)
    grouped = np.bincount(groups.representative, minlength=len(groups.ids)) > 1

    def rows() -> Iterator[tuple[Any, ...]]:
        for row, id in enumerate(groups.ids):
            if collapse_ready or grouped[groups.representative[row]]:
                marks = wanted_marks(groups, row)
                yield (id, *(marks[name] for name in names))

    write_rows(path, {"id": str, "group": str, "original": str, measure: kind}, rows())


def _numbers(documents: int, sizes: Mapping[int, int]) -> dict[str, Any]:
    """Return the counts of groups. sizes: numbers of groups, by their number of documents."""
    return {
        "documents": documents,
        "groups": sum(sizes.values()),
        "duplicates": sum((size - 1) * number for size, number in sizes.items()),
        "sizes": {str(size): number for size, number in sorted(sizes.items())},
    }


def _largest(groups: Groups) -> list[tuple[int, str, list[str]]]:
    """Return documents, representative and duplicates of the largest groups."""
    return [
        (len(group.members) + 1, group.representative, [each.id for each in group.members])
        for group in itertools.islice(groups, _LARGEST)
    ]


def _show(
    numbers: Mapping[str, Any], largest: Sequence[tuple[int, str, Sequence[str]]], where: str
) -> None:
    output.print_table(
        [("documents per group", "number"), ("groups", "number")],
        [(f"{int(size):,}", f"{number:,}") for size, number in numbers["sizes"].items()],
        title=f"{capital(where)}: {count(numbers['duplicates'], 'duplicate')} in"
        f" {count(numbers['groups'], 'group')}, of {count(numbers['documents'], 'document')}",
    )
    rows = [(f"{size:,}", kept, ", ".join(ids[:_IDS])) for size, kept, ids in largest]
    if rows:
        output.print_table(
            [("documents", "number"), ("representative", "key"), ("ids of duplicates", "line")],
            rows,
        )
        output.warn(output.shown(len(rows), numbers["groups"], "group", "--output writes all"))
