"""esdedup group: write the groups of similar documents into the index."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from typer import Exit

from esdedup.arguments import setting
from esdedup.cli import options, output
from esdedup.cli.files import dead_letters
from esdedup.cli.options import Target
from esdedup.cli.output import count, message
from esdedup.cli.result_files import ResultFile
from esdedup.exceptions import StoreError, UsageError
from esdedup.groups.constraints import JudgedCounts
from esdedup.groups.groups import Grouping, Groups
from esdedup.records.dead_letters import dead_letter_path
from esdedup.records.files import BadRecord
from esdedup.stores.connection import Connection

if TYPE_CHECKING:
    from esdedup.spark.group_index import IndexGroups
    from esdedup.spark.pairs import SparkReport

_LARGEST = 10


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
    as_json = output.wants_json(as_json)
    groups: Groups | None = None
    path = dead_letter or dead_letter_path(target.index)
    with target.open() as index, dead_letters(path) as letters, output.steps() as on_step:
        output.warn_before(index, grouping.limits)
        where, place = index.store.where, output.place_of(index)
        if engine == "spark":
            most = 0 if as_json else _LARGEST
            on_spark = _on_spark(target, grouping, collapse_ready, work, dry_run, master, most)
            found: SparkReport | Groups = on_spark.compared
            marks, missed = on_spark.marks, on_spark.missed
            documents, sizes, largest = (
                on_spark.compared.documents,
                on_spark.sizes,
                on_spark.largest,
            )
        else:
            same: dict[str, Any] = {"on_step": on_step, "grouping": grouping}
            same["work"] = Path(work) if work else index.place.work_folder("group")
            if dry_run:
                groups, marks = index.groups(**same), None
            else:
                report = index.group(collapse_ready=collapse_ready, **same)
                groups, marks = report.groups, report.marks
            missed = index.missed(groups)
            found, largest = groups, [] if as_json else _largest(groups)
            documents, sizes = len(groups.ids), Counter(groups.sizes.tolist())
        for failure in marks.failures if marks is not None else ():
            letters(BadRecord(failure.id, 0, "", failure.reason))
    judged = JudgedCounts() if groups is None else groups.judged
    output.warn_after(found.recall, found.capped, grouping.limits, judged)
    unwritten: StoreError | None = None
    if groups is not None and results.output is not None:
        try:
            results.write(groups)
            place["output"] = str(results.output.resolve())
        except StoreError as error:
            # The index may have been changed already, which is reported first.
            unwritten = error
    numbers = {
        "documents": documents,
        "groups": sum(sizes.values()),
        "duplicates": sum((size - 1) * number for size, number in sizes.items()),
    }
    if as_json:
        made = () if marks is None else ("written", "unchanged", "stale", "failed")
        output.print_json(
            {
                **numbers,
                "sizes": {str(size): number for size, number in sorted(sizes.items())},
                "capped_buckets": found.capped.buckets,
                "expected_recall": found.recall,
                **asdict(found.basis),
                "judged": asdict(judged),
                **{name: getattr(marks, name) for name in made},
                **place,
            }
        )
    else:
        output.print_table(
            [("documents per group", "number"), ("groups", "number")],
            [(f"{size:,}", f"{number:,}") for size, number in sorted(sizes.items())],
            f"{output.capital(where)}: {count(numbers['duplicates'], 'duplicate')} in"
            f" {count(numbers['groups'], 'group')}, of {count(documents, 'document')}",
        )
        shown = [((f"{size:,}",), kept, ids) for size, kept, ids in largest]
        output.print_groups([("documents", "number")], shown)
        output.warn(output.shown(len(largest), numbers["groups"], "group", "--output writes all"))
    if marks is not None:
        message(f"{count(marks.written, 'document')} written, {marks.unchanged:,} unchanged")
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
    if marks is not None and (marks.failed or (marks.stale and not marks.written)):
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
    from esdedup.spark.group_index import group_index, started

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


def _largest(groups: Groups) -> list[tuple[int, str, list[str]]]:
    """Return documents, representative and duplicates of the largest groups."""
    return [
        (len(group.members) + 1, group.representative, [each.id for each in group.members])
        for group in itertools.islice(groups, _LARGEST)
    ]
