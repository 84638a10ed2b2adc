"""esdedup group: groups of similar documents, written into the index."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from esdedup.cli import options, output
from esdedup.cli.files import DeadLetterFile, dead_letter_path
from esdedup.cli.output import capital, count, message
from esdedup.dedup.reading import Basis
from esdedup.exceptions import UsageError
from esdedup.ingest.files import BadRecord
from esdedup.search.buckets import Capped
from esdedup.search.limits import Limits
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection

_LARGEST = 10
_IDS = 20

CollapseReady = Annotated[
    bool, Option("--collapse-ready", help="Give single documents a group too: their own id.")
]
Engine = Annotated[
    Literal["local", "spark"],
    Option(help="local: this process; spark: the executors of Spark."),
]
Master = Annotated[
    str | None,
    Option(
        metavar="URL",
        show_default="what spark-submit sets",
        help="Spark's master, such as yarn or local[*].",
    ),
]


@options.with_target
def group_command(
    target: options.Target,
    group_options: options.GroupingOptions,
    collapse_ready: CollapseReady = False,
    engine: Engine = "local",
    master: Master = None,
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
    wants_json, job = output.wants_json(as_json), (collapse_ready, work, dry_run)
    if engine == "spark":
        largest = 0 if wants_json else _LARGEST
        found = _on_spark(target, group_options, *job, master, largest)
    elif master is not None:
        raise UsageError("--master goes with --engine spark")
    else:
        found = _in_this_process(target, group_options, *job)
    marks, limits = found.marks, found.limits
    if marks is not None:
        path = dead_letter or dead_letter_path(target.index)
        with DeadLetterFile(path) as letters:
            for failure in marks.failures:
                letters(BadRecord(failure.id, 0, "", failure.reason))
        if marks.untold:
            message(f"{marks.untold:,} more failed, of which only the number is known")
    output.tell_reading(found.basis, limits)
    output.warn_after(found.recall, found.capped, limits)
    if wants_json:
        output.print_json({**_as_json(found), **found.place})
    else:
        _show(found)
    if marks is not None:
        written = count(marks.written, "document")
        message(f"{written} written, {marks.unchanged:,} unchanged")
        if marks.stale:
            message(
                f"{count(marks.stale, 'document')} changed or deleted by others while documents"
                " were grouped, and left as they are: run this again"
            )
    if found.missed:
        message(
            f"{count(found.missed, 'document')} not looked at: they came, or changed, after the"
            " others had been read (run this again), or several indices behind the name have their"
            " ids"
        )
    if marks is not None and marks.failed:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Found:
    """The groups that an engine found, in numbers.

    sizes: numbers of groups, by their number of documents. largest: the number of documents, the
    representative and some duplicates. marks: what became of the documents, unless nothing was to
    be written. where, place: the index, for a table and for JSON.
    """

    documents: int
    sizes: Mapping[int, int]
    largest: Sequence[tuple[int, str, Sequence[str]]]
    limits: Limits
    capped: Capped
    recall: float
    basis: Basis
    marks: ChangeReport | None
    missed: int
    where: str
    place: Mapping[str, str]

    @property
    def duplicates(self) -> int:
        return sum((size - 1) * groups for size, groups in self.sizes.items())


def _in_this_process(
    target: options.Target,
    group_options: options.GroupingOptions,
    collapse_ready: bool,
    work: str | None,
    dry_run: bool,
) -> _Found:
    arguments = group_options.arguments()
    marks: ChangeReport | None = None
    with target.open() as index:
        folder = Path(work) if work else index.place.work_folder("group")
        output.warn_before(index, group_options.metric)
        with output.steps() as on_step:
            if dry_run:
                groups = index.groups(work=folder, on_step=on_step, **arguments)
                missed = index.missed(groups)
            else:
                report = index.group(
                    collapse_ready=collapse_ready, work=folder, on_step=on_step, **arguments
                )
                groups, marks, missed = report.groups, report.marks, report.missed
        sizes = Counter(groups.sizes.tolist())
        largest = [
            (len(group.members) + 1, group.representative, [each.id for each in group.members])
            for group in itertools.islice(groups, _LARGEST)
        ]
        limits, loss = groups.grouping.limits, (groups.capped, groups.recall, groups.basis)
        where = index.store.where, output.place_of(index)
        return _Found(len(groups.ids), sizes, largest, limits, *loss, marks, missed, *where)


def _on_spark(
    target: options.Target,
    group_options: options.GroupingOptions,
    collapse_ready: bool,
    work: str | None,
    dry_run: bool,
    master: str | None,
    largest: int,
) -> _Found:
    grouping = group_options.grouping()
    if group_options.metric != "jaccard":
        raise UsageError("--engine spark goes with --metric jaccard")
    if not isinstance(target.where, Connection):
        raise UsageError("--engine spark needs a cluster (--url): one process reads a local file")
    with target.open() as index:
        output.warn_before(index, group_options.metric)
        where = index.store.where, output.place_of(index)
    # It takes half a second, and may not be installed.
    from esdedup.spark.group_index import group_index
    from esdedup.spark.session import started

    with started(f"esdedup group {target.index}", master) as spark:
        found = group_index(
            spark,
            target.where,
            target.index,
            grouping,
            write=not dry_run,
            collapse_ready=collapse_ready,
            largest=largest,
            work=work,
        )
    compared = found.compared
    loss = compared.capped, compared.recall, compared.basis
    numbers = compared.documents, found.sizes, found.largest
    return _Found(*numbers, grouping.limits, *loss, found.marks, found.missed, *where)


def _as_json(found: _Found) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "documents": found.documents,
        "groups": sum(found.sizes.values()),
        "duplicates": found.duplicates,
        "sizes": {str(size): number for size, number in sorted(found.sizes.items())},
        "capped_buckets": found.capped.buckets,
        **asdict(found.basis),
    }
    if (report := found.marks) is not None:
        numbers |= {"written": report.written, "unchanged": report.unchanged}
        numbers |= {"stale": report.stale, "failed": report.failed}
    return numbers


def _show(found: _Found) -> None:
    output.print_table(
        [("documents per group", "number"), ("groups", "number")],
        [(f"{size:,}", f"{number:,}") for size, number in sorted(found.sizes.items())],
        title=f"{capital(found.where)}: {count(found.duplicates, 'duplicate')} in"
        f" {count(sum(found.sizes.values()), 'group')}, of {count(found.documents, 'document')}",
    )
    rows = [
        (f"{size:,}", representative, ", ".join(ids[:_IDS]))
        for size, representative, ids in found.largest
    ]
    if rows:
        output.print_table(
            [("documents", "number"), ("representative", "key"), ("ids of duplicates", "line")],
            rows,
        )
