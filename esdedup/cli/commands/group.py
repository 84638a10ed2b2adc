"""esdedup group: groups of similar documents, written into the index."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer import Option

from esdedup.cli import options, output
from esdedup.cli.files import (
    DeadLetterFile,
    EncodingOption,
    FileOptions,
    FormatOption,
    dead_letter_path,
    named_files,
    total_bytes,
)
from esdedup.cli.output import Documents, capital, count, message
from esdedup.cli.result_files import ResultFile, write_rows
from esdedup.dedup.edges import EDGE_FIELDS, Edges, edges_in
from esdedup.dedup.groups import Grouping, Groups, check_for_edges
from esdedup.dedup.marks import wanted_marks
from esdedup.exceptions import UsageError
from esdedup.ingest.files import BadRecord, Record
from esdedup.search.warnings import without_tokens
from esdedup.stores.changes import ChangeReport

_LARGEST = 10
_IDS = 20
_EDGE_FIELDS = ",".join(EDGE_FIELDS)

CollapseReady = Annotated[
    bool, Option("--collapse-ready", help="Give single documents a group too: their own id.")
]
EdgesOption = Annotated[
    list[str] | None,
    Option(
        "--edges",
        metavar="FILE",
        show_default=False,
        help="Compare only these pairs of ids; - is standard input; may be repeated.",
    ),
]
EdgeFields = Annotated[
    str, Option("--edge-fields", metavar="LEFT,RIGHT", help="Fields of the two ids of an edge.")
]


@dataclass(frozen=True)
class EdgeOptions:
    """The options that name files of edges."""

    edges: EdgesOption = None
    edge_fields: EdgeFields = _EDGE_FIELDS
    format: FormatOption = None
    encoding: EncodingOption = None

    def check(self, grouping: Grouping) -> list[str]:
        """The files. Raises UsageError if one can't be read, or options do not go together."""
        if self.edges:
            check_for_edges(grouping)
            if len(set(self._fields)) != 2:
                raise UsageError(f"--edge-fields {self.edge_fields}: name two, as {_EDGE_FIELDS}")
            return named_files(self.edges, self.format, self.encoding)
        if self != EdgeOptions(edges=self.edges):
            raise UsageError("--edge-fields, --format and --encoding go with --edges")
        return []

    def read(self, files: list[str], letters: DeadLetterFile) -> tuple[Edges | None, int]:
        """The edges, if files are named, and the number of records without two ids."""
        if not files:
            return None, 0
        failed = 0

        def dead_letter(record: BadRecord) -> None:
            nonlocal failed
            failed += 1
            letters(record)

        with output.progress("Reading edges", total_bytes(files), "edges") as (advance, done):
            records = self._records(files, advance, done)
            return edges_in(records, dead_letter, self._fields), failed

    @property
    def _fields(self) -> list[str]:
        return [name for name in self.edge_fields.split(",") if name]

    def _records(
        self, files: list[str], advance: output.Advance, done: Documents
    ) -> Iterator[Record | BadRecord]:
        of = FileOptions(format=self.format, encoding=self.encoding)
        advice = "name the fields of the two ids by --edge-fields"
        read_so_far = 0
        for chunk in of.chunks(files, self._fields, advance, (), as_json=False, advice=advice):
            records = list(chunk.records())
            yield from records
            read_so_far += len(records)
            done(read_so_far)


@options.with_target
def group_command(
    target: options.Target,
    group_options: options.GroupingOptions,
    edge_options: EdgeOptions,
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
    after it was stopped: it goes on where it was. Edges may come from any program, as JSON lines,
    CSV or TSV: each is compared, and counts if it reaches --threshold.
    """
    arguments = group_options.arguments()
    edge_files = edge_options.check(group_options.grouping())
    results.check()
    marks: ChangeReport | None = None
    with (
        target.open() as index,
        DeadLetterFile(dead_letter or dead_letter_path(target.index)) as letters,
    ):
        folder = work or index.place.work_folder("group")
        if edge_files:
            output.warn(without_tokens(index.statistics()))
        else:
            output.warn_before(index, group_options.metric)
        where, place = index.store.where, output.place_of(index)
        edges, failed = edge_options.read(edge_files, letters)
        with output.steps() as on_step:
            if dry_run:
                groups = index.groups(edges=edges, work=folder, on_step=on_step, **arguments)
                missed = index.missed(groups)
            else:
                report = index.group(
                    collapse_ready=collapse_ready,
                    edges=edges,
                    work=folder,
                    on_step=on_step,
                    **arguments,
                )
                groups, marks, missed = report.groups, report.marks, report.missed
        for failure in marks.failures if marks is not None else ():
            letters(BadRecord(failure.id, 0, "", failure.reason))
    output.tell_reading(groups.basis, groups.grouping.limits)
    output.warn_after(groups.recall, groups.capped, groups.grouping.limits)
    if results.output is not None:
        _write(groups, results.output, collapse_ready)
        place["output"] = str(results.output.resolve())
    if output.wants_json(as_json):
        output.print_json({**_as_json(groups, marks, failed), **place})
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
    _tell_edges(groups, failed)
    if failed:
        message(f"{count(failed, 'record')} without two ids: see {letters.path}")
    if failed or (marks is not None and marks.failures):
        raise typer.Exit(1)


def _tell_edges(groups: Groups, failed: int) -> None:
    """Tells what became of the edges, if they were given."""
    if (edges := groups.edges) is None:
        return
    counts = {
        "distinct": edges.distinct,
        "of a document with itself": edges.loops,
        "with an id that no document with tokens has": edges.unknown,
    }
    told = ", ".join(f"{number:,} {of}" for of, number in counts.items() if number)
    below = count(edges.below, "pair of texts is", "pairs of texts are")
    message(f"{count(edges.given, 'edge')}: {told or 'none'}; {below} below the threshold")


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


def _as_json(groups: Groups, report: ChangeReport | None, failed: int) -> dict[str, Any]:
    sizes = groups.sizes.tolist()
    numbers: dict[str, Any] = {
        "documents": len(groups.ids),
        "groups": len(sizes),
        "duplicates": groups.duplicates,
        "sizes": {str(size): number for size, number in sorted(Counter(sizes).items())},
        "capped_buckets": groups.capped.buckets,
        "expected_recall": groups.recall,
        **asdict(groups.basis),
    }
    if groups.edges is not None:
        numbers["edges"] = {**asdict(groups.edges), "failed": failed}
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
