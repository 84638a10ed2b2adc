"""Files that a command writes again: the options, what they are compared with, and the report."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from glob import glob
from pathlib import Path

from typer import Exit

from esdedup import CleanReport, Index, UsageError, open
from esdedup.cli import files, options, output
from esdedup.cli.command import setting
from esdedup.cli.differences import with_differences
from esdedup.cli.files import FileOptions
from esdedup.cli.options import Target
from esdedup.cli.output import count, message
from esdedup.cli.surroundings import surroundings
from esdedup.files import (
    STDIN,
    DeadLetterFile,
    FileRequest,
    ShareSizes,
    Stage,
    Waiting,
    against_kind,
    is_address,
    left_whole_file,
)
from esdedup.results import ConflictReport, SpanReport

_SHOWN_OF_SPAN, _SHOWN_AROUND = 80, 40
"""Characters of a span, and of the text before and after it, in a table."""


@dataclass(frozen=True)
class RemovalRule:
    """What a command removes from files.

    rule: in words.
    listed: the file for the list of what is removed, or None.
    """

    rule: str
    listed: str | None


@dataclass(frozen=True)
class OutputOptions:
    """The options of a command that writes files again."""

    output: str | None = setting(
        None,
        "Folder to write to; or one file, or - for standard output.",
        "-o",
        show_default="only show",
        metavar="PATH",
    )
    removed: str | None = setting(
        None,
        "List of what is removed: .jsonl, .jsonl.zst, .parquet or .arrow.",
        rare=True,
        show_default="OUTPUT/_removed.jsonl.zst; of one file OUTPUT.removed.jsonl.zst",
        metavar="FILE",
    )
    work: str | None = options.work(show_default="OUTPUT.work")
    task: str | None = setting(
        None, "Do this task of many that share the work.", metavar="NUMBER/TASKS", rare=True
    )
    stage: Stage | None = setting(
        None, "Do only this stage of --task.", rare=True, show_default="all, waiting for others"
    )
    dry_run: bool = options.dry_run()

    @property
    def written(self) -> str | None:
        """What to write, or None to write nothing."""
        return None if self.dry_run else self.output

    def check(self) -> None:
        """Raise UsageError for options that can't be combined."""
        if self.stage and self.task is None:
            raise UsageError("--stage requires --task")
        if self.task is not None:
            options.refuse(["dry_run"], "can't be combined with --task")

    def dead_letters(self, command: str, path: Path | None, paths: Sequence[str]) -> DeadLetterFile:
        """Return the dead-letter file of a command, or of its task. paths: the files to read."""
        name = command if self.task is None else f"{command}-{self.task.partition('/')[0]}"
        targets = {"--removed": [self.removed], "--output": [self.written]}
        return files.dead_letters(path, name, paths, targets)

    def request(
        self,
        arguments: list[str],
        paths: list[str],
        of_files: FileOptions,
        text_fields: Sequence[str],
        letters: DeadLetterFile,
    ) -> FileRequest:
        """Return the files to clean. arguments: name the files, which are at `paths`."""
        path = of_files.dead_letter
        return FileRequest(
            arguments,
            paths,
            self.written,
            of_files.reading(text_fields),
            removed=self.removed,
            dead_letter=letters,
            dead_letter_file=None if path is None else str(path),
            work=self.work,
            workers=of_files.workers,
            task=self.task,
            stage=self.stage,
            sizes=surroundings().sizes or ShareSizes(),
            waiting=surroundings().waiting or Waiting(),
        )

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Report how to resume after Ctrl-C."""
        try:
            yield
        except KeyboardInterrupt:
            is_kept = self.work is not None or self.written not in (None, STDIN)
            if is_kept:
                message("Interrupted. Run the same command again to resume")
            raise

    def conclude(
        self, report: CleanReport, letters: DeadLetterFile, as_json: bool, removal: RemovalRule
    ) -> None:
        """Show a report. The exit status is 1 if records were skipped, or values."""
        written = self.written or "nothing: -o without --dry-run names a place"
        facts = [("removed", removal.rule), ("written to", written)]
        if removal.listed is not None and report.units is None:
            facts.append(("list of removed", removal.listed))
        if report.conflicts is not None and self.written not in (None, STDIN):
            facts.append(("list of conflicts", left_whole_file(str(self.written))))
        show_report(report, as_json, {"output": self.written}, facts)
        untaken = 0 if report.merged is None else report.merged.untaken
        if report.failed or untaken:
            where = str(letters.path)
            if self.task is not None:
                where = "the dead-letter files of the tasks"
            elif not letters.path.exists():
                where = "the dead-letter file of the run that was interrupted"
            if report.failed:
                message(f"{count(report.failed, 'record')} skipped: see {where}")
            if untaken:
                message(
                    f"values of {count(untaken, 'duplicate')} have no form in JSON: see {where}"
                )
            raise Exit(1)


def opened_against(
    names: Sequence[str], target: Target, opened: ExitStack, text_field: list[str] | None
) -> list[str | Index]:
    """Return what to compare with; indices are opened, and others are names of files.

    text_field: the fields of the texts in an index that is created, or None for one that exists.
    """
    against = list[str | Index]()
    for name in names:
        kind = against_kind(name)
        if kind == "index":
            index = open(Path(name), target.index, text_field=text_field)
            against.append(opened.enter_context(index))
        elif kind == "files" and _is_in_cluster(name, target):
            index = open(target.connection(), name, text_field=text_field)
            against.append(opened.enter_context(index))
        else:
            against.append(name)
    return against


def _is_in_cluster(name: str, target: Target) -> bool:
    """Return whether a name is of an index of the named cluster: no file or address has it."""
    has_cluster = bool(target.url or target.cloud_id)
    return has_cluster and not is_address(name) and not glob(name)  # noqa: PTH207


def show_report(
    report: CleanReport,
    as_json: bool,
    place: dict[str, str | None],
    facts: Sequence[tuple[str, str]] = (),
) -> None:
    """Print a report: its counts, and of documents the largest groups and some removed ones.

    place: what was written, as `output`; empty for an index. facts: what a table shows too.
    """
    units = report.units
    title = _title(report)
    if place.get("output") == STDIN:
        # Standard output has the records.
        message(title, *(f"{name}: {fact}" for name, fact in facts if fact != STDIN))
        if report.merged is not None:
            message(output.merged_summary(report.merged.documents, report.merged.values))
        return
    if units is not None:
        details = {**place, "memory": units.memory}
        output.print_counts(asdict(units), as_json, details=details)
        if facts and not as_json:
            output.print_facts(facts)
        return
    values = report.to_json()
    del values["units"]
    counts = {name: value for name, value in values.items() if isinstance(value, int)}
    if as_json:
        details = {name: value for name, value in values.items() if name not in counts}
        output.print_counts(counts, as_json, details={**place, **details})
        return
    counts |= {**(report.contained or {}), **_counts_of_spans(report)}
    output.print_counts(counts, as_json, title=title)
    if facts:
        output.print_facts(facts)
    rows = [
        (f"{group['documents']:,}", f"{group['file']}:{group['line']}", group["id"])
        for group in report.largest
    ]
    columns: list[tuple[str, output.Kind]] = [("documents", "number"), ("representative", "text")]
    if rows:
        title = f"The largest of {count(report.groups, 'group')}"
        output.print_table([*columns, ("id", "key")], rows, title)
    if report.conflicts is not None and report.conflicts.groups:
        _print_conflicts(report.conflicts)
    if report.spans is not None:
        _print_spans(report, report.spans)
    elif report.samples:
        (measure,) = {"distance", "similarity", "contained"} & {*report.samples[0]}
        samples = [
            (
                str(sample[measure]) if measure == "distance" else f"{sample[measure]:.3f}",
                "\n".join(with_differences(sample["text"], sample["original_text"])),
            )
            for sample in report.samples
        ]
        output.print_table([(measure, "number"), ("removed, and its original", "line")], samples)
    if (merged := report.merged) is not None:
        new_values = [
            (f"{sample.file}:{sample.line}", path, value)
            for sample in merged.samples
            for path, value in sample.values.items()
        ]
        output.print_merged(new_values, merged.documents)
        message(output.merged_summary(merged.documents, merged.values))


def _counts_of_spans(report: CleanReport) -> dict[str, int]:
    """Return the counts of spans, if spans are cut."""
    spans = report.spans
    return {} if spans is None else {"changed": spans.changed, "spans": spans.spans}


def _print_spans(report: CleanReport, spans: SpanReport) -> None:
    """Print the most frequent spans, and samples of what is cut."""
    columns: list[tuple[str, output.Kind]] = [("count", "number"), ("words", "number")]
    frequent = [
        (f"{span['count']:,}", f"{span['words']:,}", " ".join(str(span["text"]).split()))
        for span in spans.frequent
    ]
    if frequent:
        output.print_table([*columns, ("most frequent", "line")], frequent)
    samples = [
        (f"{sample['words']:,}", f"{sample['file']}:{sample['line']}", _in_context(sample))
        for sample in report.samples
    ]
    if samples:
        shown: list[tuple[str, output.Kind]] = [("document", "text"), ("[-cut-]", "text")]
        output.print_table([columns[1], *shown], samples)


def _in_context(sample: Mapping[str, str]) -> str:
    """Return a span with the text around it."""
    span = sample["text"]
    if len(span) > _SHOWN_OF_SPAN:
        span = f"{span[:_SHOWN_OF_SPAN]} ..."
    before, after = sample["before"][-_SHOWN_AROUND:], sample["after"][:_SHOWN_AROUND]
    return " ".join(f"{before}[-{span}-]{after}".split())


def _print_conflicts(conflicts: ConflictReport) -> None:
    """Print the first groups that are left whole."""
    groups = [
        [
            (document["label"], f"{document['file']}:{document['line']}", document["id"])
            for document in documents
        ]
        for documents in conflicts.samples
    ]
    names = [conflicts.field, "document", "id"]
    output.print_left_whole(groups, conflicts.groups, names, "the list in the output has all")


def _title(report: CleanReport) -> str:
    """Return how many documents or units are removed, or contain an item."""
    of_all = f"of {count(report.documents, 'document')}"
    if (spans := report.spans) is not None:
        lost = f"{spans.fraction:.1%} of the words"
        changed = f"{count(spans.spans, 'span')} in {spans.changed + report.removed:,} {of_all}"
        return f"{changed}: {lost}"
    if report.contained is not None:
        containing = report.removed + report.contained.get("masked", 0)
        verb = "contains" if containing == 1 else "contain"
        return f"{containing:,} {of_all} {verb} an item"
    removed = report.removed if report.units is None else report.units.removed
    return f"{count(removed, 'duplicate')} {of_all}"
