"""esdedup group: write the groups of similar documents into the index."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from click.exceptions import Exit

from esdedup.arguments import setting
from esdedup.cli import options, output
from esdedup.cli.files import FileOptions, dead_letters, named_files, total_bytes
from esdedup.cli.options import Target
from esdedup.cli.output import Documents, capital, count, message
from esdedup.cli.result_files import ResultFile, write_rows
from esdedup.exceptions import StoreError, UsageError
from esdedup.groups.constraints import JudgedCounts
from esdedup.groups.groups import Grouping, Groups, check_for_edges
from esdedup.groups.marks import wanted_marks
from esdedup.pairing.comparison import Basis
from esdedup.pairing.edges import EDGE_FIELDS, EdgeCounts, Edges, edges_in
from esdedup.records.dead_letters import DeadLetterFile, dead_letter_path
from esdedup.records.files import BadRecord, Format, Record
from esdedup.search.buckets import Capped
from esdedup.search.warnings import without_tokens
from esdedup.sketch.limits import Limits
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection

_LARGEST = 10
_IDS = 20
_EDGE_FIELDS = ",".join(EDGE_FIELDS)


@dataclass(frozen=True)
class EdgeOptions:
    """The options that name files of edges."""

    edges: list[str] | None = setting(
        None,
        "Compare only these pairs of ids; - is standard input; may be repeated.",
        metavar="FILE",
    )
    edge_fields: str = setting(
        _EDGE_FIELDS, "Fields of the two ids of an edge.", metavar="LEFT,RIGHT", rare=True
    )
    format: Format | None = setting(
        None, "Format of the edges.", rare=True, show_default="by the file's ending"
    )
    encoding: str | None = setting(None, "Encoding of the edges.", rare=True, show_default="UTF-8")

    def check(self, grouping: Grouping) -> list[str]:
        """Return the files. Raises UsageError if one can't be read, or options conflict."""
        if self.edges:
            check_for_edges(grouping)
            if len(set(self._fields)) != 2:
                raise UsageError(f"--edge-fields {self.edge_fields}: name two, as {_EDGE_FIELDS}")
            return named_files(self.edges, self.format, self.encoding)
        if self != EdgeOptions(edges=self.edges):
            raise UsageError("--edge-fields, --format and --encoding require --edges")
        return []

    def read(self, files: list[str], letters: DeadLetterFile) -> tuple[Edges | None, int]:
        """Return the edges, if files are named, and the number of records without two ids."""
        if not files:
            return None, 0
        failed = 0

        def dead_letter(record: BadRecord) -> None:
            nonlocal failed
            failed += 1
            letters(record)

        with output.progress("Reading edges", total_bytes(files), "edges") as (advance, done):
            records = self._records(files, advance, done)
            edges = edges_in(records, dead_letter, self._fields)
        if not len(edges):
            # An empty file would remove all groups.
            raise UsageError("--edges: the files hold no pair of ids: nothing was changed")
        return edges, failed

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


def group_command(
    target: Target,
    grouping: Grouping,
    edge_options: EdgeOptions,
    results: ResultFile,
    collapse_ready: bool = setting(False, "Give single documents a group too: their own id."),
    engine: Literal["local", "spark"] = setting(
        "local", "local: this process; spark: the executors of Spark."
    ),
    master: str | None = setting(
        None,
        "Spark's master, such as yarn or local[*].",
        metavar="URL",
        rare=True,
        show_default="what spark-submit sets",
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
    command again to resume an interrupted run (Spark starts over). Edges may come from any program,
    in files as index reads them: each pair is compared, and counts if it reaches --threshold.
    """
    edge_files = edge_options.check(grouping)
    results.check(edge_files)
    if engine == "spark":
        _check_for_spark(target, grouping, edge_files, results)
    elif master is not None:
        raise UsageError("--master requires --engine spark")
    wants_json = output.wants_json(as_json)
    with (
        target.open() as index,
        dead_letters(dead_letter or dead_letter_path(target.index)) as letters,
    ):
        if edge_files:
            output.warn(without_tokens(index.statistics()))
        else:
            output.warn_before(index, grouping.limits)
        where, place = index.store.where, output.place_of(index)
        edges, failed = edge_options.read(edge_files, letters)
        if engine == "spark":
            job = collapse_ready, work, dry_run, master, 0 if wants_json else _LARGEST
            found = _on_spark(target, grouping, *job)
        else:
            folder = Path(work) if work else index.place.work_folder("group")
            with output.steps() as on_step:
                if dry_run:
                    groups = index.groups(
                        edges=edges, work=folder, on_step=on_step, grouping=grouping
                    )
                    found = _Summary.of(groups, None, index.missed(groups))
                else:
                    report = index.group(
                        collapse_ready=collapse_ready,
                        edges=edges,
                        work=folder,
                        on_step=on_step,
                        grouping=grouping,
                    )
                    groups = report.groups
                    found = _Summary.of(groups, report.marks, report.missed)
        marks = found.marks
        for failure in marks.failures if marks is not None else ():
            letters(BadRecord(failure.id, 0, "", failure.reason))
    output.report_judged(found.judged)
    output.warn_after(found.recall, found.capped, found.limits)
    unwritten: StoreError | None = None
    if results.output is not None:
        try:
            _write(groups, results.output, collapse_ready)
            place["output"] = str(results.output.resolve())
        except StoreError as error:
            # The index may have been changed already, which is reported first.
            unwritten = error
    if wants_json:
        output.print_json({**_as_json(found, failed), **place})
    else:
        _show(found, where)
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
    if found.missed:
        message(
            f"{count(found.missed, 'document')} missed: they were added or changed after the others"
            " had been read (run this again), or several indices behind the name have their ids"
        )
    _tell_edges(found, failed)
    if failed:
        message(f"{count(failed, 'record')} without two ids: see {letters.path}")
    if unwritten is not None:
        raise unwritten
    if failed or (marks is not None and marks.failed):
        raise Exit(1)


@dataclass(frozen=True)
class _Summary:
    """The groups that an engine found, in numbers.

    sizes: numbers of groups, by their number of documents. largest: the number of documents, the
    representative and some duplicates. marks: what was written, None for a dry run.
    """

    documents: int
    sizes: Mapping[int, int]
    largest: Sequence[tuple[int, str, Sequence[str]]]
    limits: Limits
    capped: Capped
    recall: float | None
    basis: Basis
    marks: ChangeReport | None
    missed: int
    edges: EdgeCounts | None = None
    judged: JudgedCounts = JudgedCounts()  # noqa: RUF009

    @staticmethod
    def of(groups: Groups, marks: ChangeReport | None, missed: int) -> _Summary:
        """The numbers of groups that this process found."""
        largest = [
            (len(group.members) + 1, group.representative, [each.id for each in group.members])
            for group in itertools.islice(groups, _LARGEST)
        ]
        numbers = len(groups.ids), Counter(groups.sizes.tolist()), largest, groups.grouping.limits
        loss = groups.capped, groups.recall, groups.basis
        return _Summary(*numbers, *loss, marks, missed, groups.edges, groups.judged)

    @property
    def duplicates(self) -> int:
        return sum((size - 1) * groups for size, groups in self.sizes.items())


def _check_for_spark(
    target: Target, grouping: Grouping, edge_files: list[str], results: ResultFile
) -> None:
    """Raise UsageError for options that Spark does not support."""
    local_only = {
        "--edges": edge_files,
        "--output": results.output,
        "--split-templates": grouping.split_templates,
    }
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
) -> _Summary:
    # It takes half a second, and may not be installed.
    from esdedup.spark.group_index import group_index
    from esdedup.spark.session import started

    with started(f"esdedup group {target.index}", master) as spark:
        found = group_index(
            spark,
            target.connection(),
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
    return _Summary(*numbers, grouping.limits, *loss, found.marks, found.missed)


def _tell_edges(found: _Summary, failed: int) -> None:
    """Report what became of the edges, if there are any."""
    if (edges := found.edges) is None:
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


def _as_json(found: _Summary, failed: int) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "documents": found.documents,
        "groups": sum(found.sizes.values()),
        "duplicates": found.duplicates,
        "sizes": {str(size): number for size, number in sorted(found.sizes.items())},
        "capped_buckets": found.capped.buckets,
        "expected_recall": found.recall,
        **asdict(found.basis),
        "judged": asdict(found.judged),
    }
    if found.edges is not None:
        numbers["edges"] = {**asdict(found.edges), "failed": failed}
    if (report := found.marks) is not None:
        numbers |= {"written": report.written, "unchanged": report.unchanged}
        numbers |= {"stale": report.stale, "failed": report.failed}
    return numbers


def _show(found: _Summary, where: str) -> None:
    output.print_table(
        [("documents per group", "number"), ("groups", "number")],
        [(f"{size:,}", f"{number:,}") for size, number in sorted(found.sizes.items())],
        title=f"{capital(where)}: {count(found.duplicates, 'duplicate')} in"
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
        groups = sum(found.sizes.values())
        output.warn(output.shown(len(rows), groups, "group", "--output writes all"))
