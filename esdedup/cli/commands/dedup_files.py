"""esdedup dedup FILES: write files again without the documents that duplicate others."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from glob import glob
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any, Literal

from typer import Exit

from esdedup import Grouping, Index, Scheme, UsageError, open
from esdedup.arguments import settings_of, size
from esdedup.cleaning.contained import Containment, Evidence
from esdedup.cleaning.kept_sketches import SKETCHES, KeptSketches
from esdedup.cleaning.near_duplicates import (
    RECORDS,
    REPORT,
    SKETCHED,
    CleanJob,
    StoredRecords,
    chunks_of,
    decide,
    sketch_into,
)
from esdedup.cleaning.outputs import (
    CleanFiles,
    RetainedRecords,
    is_one_file,
    load_retained,
    save_retained,
)
from esdedup.cleaning.removals import Removals
from esdedup.cleaning.report import CleanReport, report_from_json
from esdedup.cleaning.tasks import Stage, Task, Waiting
from esdedup.cleaning.units import RepeatedUnits, Unit, UnitReport, retained_without_repeated
from esdedup.cli import options, output
from esdedup.cli.command import converted_by, setting
from esdedup.cli.files import FileOptions, dead_letters, total_bytes
from esdedup.cli.options import Target
from esdedup.cli.output import count, message
from esdedup.cli.result_files import check_result, write_table
from esdedup.cli.surroundings import surroundings
from esdedup.compare.plan import Plan
from esdedup.compare.source import FileSource
from esdedup.exceptions import EsdedupError, InputError
from esdedup.ingest.ingest import IngestSettings
from esdedup.records.dead_letters import DeadLetterFile
from esdedup.records.locations import copy, is_address, look_up
from esdedup.records.streams import STDIN, name_of
from esdedup.records.targets import check_outside, check_table, check_targets
from esdedup.runs.run import OnStep, Run
from esdedup.runs.shares import Shares, StoredShare

LISTED = "/_removed.jsonl.zst"
"""The list of the removed documents, in the folder of the output."""
_ALL = slice(None)


@dataclass(frozen=True)
class CorpusOptions:
    """The options of a command that writes files again without duplicates."""

    output: str | None = setting(
        None, "With FILES: folder to write them to; or one file, or - for standard output.", "-o"
    )
    against: list[str] | None = setting(
        None,
        "Also remove what is near these files, a local index (.db), an index of --url, or"
        " .sketches; may be repeated.",
        metavar="FILES",
    )
    contained: float | None = setting(
        None, "Remove what holds this share of one of --against.", bounds=(0.01, 1.0), rare=True
    )
    mask: bool = setting(
        False, "With --contained, cut the items from the texts, and keep the records.", rare=True
    )
    update: bool = setting(
        False, "Add what stays to the index or sketches of --against.", rare=True
    )
    removed: str | None = setting(
        None,
        "List of what is removed: .jsonl, .jsonl.zst, .parquet or .arrow.",
        rare=True,
        show_default="OUTPUT/_removed.jsonl.zst",
    )
    work: str | None = options.work(show_default="OUTPUT.work")
    unit: Unit | None = setting(None, "Remove repeated paragraphs or lines instead.", rare=True)
    min_words: int = setting(1, "With --unit, keep shorter units.", bounds=(1, None), rare=True)
    engine: Literal["local", "spark"] = setting(
        "local", "spark: a cluster does the work.", rare=True
    )
    task: str | None = setting(
        None, "Do this task of many that share the work.", metavar="NUMBER/TASKS", rare=True
    )
    stage: Stage | None = setting(
        None, "Do only this stage of --task.", rare=True, show_default="all, waiting for others"
    )
    dry_run: bool = options.dry_run()
    max_memory: int | None = converted_by(
        size,
        setting(
            None,
            "Memory to use, besides pages of mapped files; more is faster.",
            metavar="SIZE",
            rare=True,
            show_default="2GB, and 60 bytes a document",
        ),
    )

    def check_removed(self, is_new: bool) -> None:
        """Raise UsageError if the list of what is removed can't be written.

        is_new: the run did not begin before, so that the file is not its own.
        """
        if self.removed is not None:
            (check_result if is_new else check_table)("--removed", self.removed)


def dedup_files(
    arguments: list[str],
    of_files: FileOptions,
    corpus: CorpusOptions,
    grouping: Grouping,
    target: Target,
    as_json: bool,
) -> None:
    """Write files again without duplicates, and report what was removed.

    The exit status is 1 if records were skipped.
    """
    if corpus.output is None and not corpus.dry_run:
        raise UsageError("FILES require --output, a folder or a file to write, or --dry-run")
    out = None if corpus.dry_run else corpus.output
    files = of_files.named(arguments)
    scheme, text_field = of_files.scheme_and_fields(grouping.limits.distance)
    text_fields = text_field or ["text"]
    format, encoding, id_field = of_files.format, of_files.encoding, of_files.id_field
    files_of = partial(
        CleanFiles,
        arguments,
        files,
        output=out,
        text_fields=text_fields,
        format=format,
        encoding=encoding,
        id_field=id_field,
    )
    if corpus.stage and corpus.task is None:
        raise UsageError("--stage requires --task")
    if corpus.task is not None:
        refused = ["update", "unit", "engine", "dry_run"]
        options.refuse(refused, "can't be combined with --task")
    name = "dedup" if corpus.task is None else f"dedup-{corpus.task.partition('/')[0]}"
    outputs = {"--removed": [corpus.removed], "--output": [out]}
    with dead_letters(of_files.dead_letter, name, files, outputs) as letters, ExitStack() as opened:
        details: dict[str, Any] = {"output": out}
        report: CleanReport | UnitReport | None
        if corpus.unit is not None:
            refused = ["against", "update", "removed", "engine", "max_memory", "workers", "keep"]
            options.refuse(
                [*refused, "contained", "mask", "id_field", "exact", "threshold"],
                "can't be combined with --unit",
            )
            report = _without_units(files_of(against=[]), of_files, corpus, letters)
            details["memory"] = 16 * report.different
        elif corpus.engine == "spark":
            from esdedup.spark import dedup_files as on_spark

            refused = ["contained", "mask", "update", "removed", "workers", "max_memory"]
            options.refuse(refused, "can't be combined with --engine spark")
            against = corpus.against or []
            if index := next((name for name in against if name.endswith((".db", SKETCHES))), None):
                raise UsageError(f"--against {index}: --engine spark compares with files only")
            # Checks the names of the fields.
            of_files.chunks(files, text_fields, lambda _: None, grouping.keep.paths([]))
            report = on_spark(
                None,
                arguments,
                out,
                format=format,
                encoding=encoding,
                id_field=id_field,
                text_field=text_fields,
                scheme=scheme,
                work=corpus.work,
                against=against,
                dead_letter=letters,
                grouping=grouping,
            )
            message(report.unordered.warning(grouping.keep))
        else:
            against, indices, sketches = _against(corpus, of_files, target, opened)
            if corpus.contained is not None:
                refused = [*settings_of(Grouping), "bits", "passages", "update", "max_memory"]
                options.refuse(refused, "can't be combined with --contained")
                if sketches:
                    raise UsageError(f"--against {sketches[0]}: --contained requires files")
                if not against and not indices:
                    raise UsageError("--contained requires --against")
                # Only words are needed.
                scheme = scheme or Scheme()
                scheme = scheme.only(scheme.banded.wide(1))
            elif corpus.mask:
                raise UsageError("--mask requires --contained")
            plan = Plan.of_texts(
                scheme, grouping.limits, grouping.keep, text_fields, exact=grouping.exact
            )
            shards = files_of(against=against)
            # By their names, kept sketches and unfinished runs are those of this rule.
            grouping = grouping.by(plan)
            written: dict[str, Sequence[str | None]] = {"--output": shards.targets}
            written |= {"--removed": [corpus.removed], "--dead-letter": [str(letters.path)]}
            check_targets(written, against)
            for option, path in (
                ("--removed", corpus.removed),
                ("--dead-letter", of_files.dead_letter),
            ):
                if path is not None:
                    check_outside(option, str(path), [str(path)], arguments, of_files.format)
            if corpus.mask:
                shards.check_changeable("mask")
            job = _Job(shards, of_files, corpus, grouping, plan, letters, indices)
            report = _without_documents(job, sketches, opened)
    if report is None:
        return
    if isinstance(report, CleanReport):
        message(*report.warnings(grouping.limits))
    show_report(report, out, as_json, details)
    if report.failed:
        where = letters.path if corpus.task is None else "the dead-letter files of the tasks"
        message(f"{count(report.failed, 'record')} skipped: see {where}")
        raise Exit(1)


@dataclass(frozen=True)
class _Job:
    """A job that writes files again without the documents that duplicate others.

    shards: the files to read, and those to write.
    of_files: the options of files.
    corpus: the options of a run that writes files.
    grouping: how documents are grouped.
    plan: what a comparison reads and decides by.
    letters: gets records that can't be read.
    indices: those that the files are compared with.
    former: the sketches of former runs.
    """

    shards: CleanFiles
    of_files: FileOptions
    corpus: CorpusOptions
    grouping: Grouping
    plan: Plan
    letters: DeadLetterFile
    indices: list[Index]
    former: KeptSketches | None = None

    @property
    def job(self) -> dict[str, Any]:
        """The parameters that the run resumes by."""
        job = {**self.grouping.to_json(), "scheme": self.plan.meta.scheme.id}
        job |= {name: getattr(self.corpus, name) for name in ("against", "contained", "mask")}
        if self.corpus.removed is not None:
            job["removed"] = self.corpus.removed
        if self.former is not None:
            job[f"state of {self.former.place}"] = self.former.state
        return {**job, **self.shards.job}

    @property
    def inputs(self) -> list[str]:
        """The files that are read, of which the first ones are only compared with."""
        return self.shards.inputs

    @cached_property
    def workers(self) -> int:
        """The number of processes."""
        if self.corpus.task is None and self.corpus.contained is None:
            return self.of_files.processes(self.inputs)
        # Other tasks may be on this machine; each process holds all items that may be contained.
        return self.of_files.workers or 1

    @cached_property
    def names(self) -> list[str]:
        """The names of all that is compared: kept files, indices, and the files that are read."""
        former = [] if self.former is None else self.former.names
        return [*former, *(index.store.where for index in self.indices), *map(name_of, self.inputs)]

    @property
    def listed(self) -> str | None:
        """The file for the list of the removed documents."""
        out = self.shards.output
        if self.corpus.removed is not None or out is None or out == STDIN:
            return self.corpus.removed
        return out.rstrip("/") + (".removed.jsonl.zst" if is_one_file(out) else LISTED)

    def sketch(self, shares: Shares, progress: output.Progress, of_task: slice = _ALL) -> None:
        """Write the sketches of the documents to the shares of a run. of_task: inputs to read."""
        inputs = {*self.inputs[of_task]}
        text_fields, keys = self.plan.meta.text_fields, self.grouping.keep.paths([])
        chunks = [chunks_of(index, text_fields[0]) for index in self.indices]
        for group in filter(None, (self.shards.against, self.shards.files)):
            paths = [path for path in group if path in inputs]
            chunks.append(
                self.of_files.chunks(paths, text_fields, progress.advance, keys, all_files=group)
            )
        names, before = self.names[of_task], StoredRecords()
        if self.former is not None:
            names, before = self.names[len(self.former.names) :], self.former.records
        documents = chain.from_iterable(chunks)
        source = FileSource(
            self.plan,
            documents,
            self.letters,
            self.of_files.id_field,
            self.workers,
            is_numbered=True,
        )
        sketch_into(shares, source, names, progress.show, before)

    def find(self, shares: Shares, progress: output.Progress) -> tuple[Removals, CleanReport]:
        """Find the duplicates among the documents of a run."""
        corpus, containment = self.corpus, None
        if corpus.contained is not None:
            evidence = surroundings().evidence or Evidence()
            scheme = self.plan.meta.scheme
            containment = Containment(scheme, corpus.contained, evidence=evidence)
        earlier = len(self.names) - len(self.shards.files)
        job = CleanJob(
            self.plan,
            self.names,
            earlier,
            self.grouping,
            containment,
            corpus.mask,
            self.workers,
            corpus.max_memory,
        )
        removals, report = decide(shares, job, progress.step)
        # Before any file is written.
        message(report.unordered.warning(self.plan.keep))
        return removals, report

    def write(
        self, files: Iterable[RetainedRecords], total: int, step: OnStep, first: int = 0
    ) -> None:
        """Write the files from number `first` on again. total: number of their records."""
        written = 0
        step("Writing", written, total)
        for records in self.shards.write(files, first):
            written += records
            step("Writing", written, total)

    def add(self, removals: Removals) -> None:
        """Add the documents that stay to the kept sketches, or to the index."""
        if self.former is not None:
            added, name = self.former.add(removals), self.former.place
        else:
            (index,), name = self.indices, self.indices[0].store.where
            files = [file for file in dict.fromkeys(self.shards.targets) if look_up(file)]
            chunks = self.of_files.chunks(files, self.shards.text_fields, lambda _: None)
            settings = IngestSettings(workers=self.workers, id_field=self.of_files.id_field)
            ingested = index.ingest(chunks, self.letters, settings)
            index.store.refresh()
            added = ingested.read - ingested.failed
        message(f"{count(added, 'document')} added to {name}")


def _without_documents(job: _Job, sketches: list[str], opened: ExitStack) -> CleanReport | None:
    """Write files again without the documents that duplicate others; None for one task of many."""
    corpus, shards = job.corpus, job.shards
    if corpus.update and len(job.indices) + len(sketches) != 1:
        raise UsageError("--update requires one index, or one folder of sketches, in --against")
    if len(sketches) > 1:
        raise UsageError(f"--against {sketches[1]}: name one folder of sketches")
    if corpus.task is not None:
        if job.indices or sketches:
            raise UsageError("--against: --task compares with files only")
        return _one_task(job)
    if sketches:
        rule = {name: job.job[name] for name in ("scheme", "keep", "exact")}
        rule["text field"] = [*shards.text_fields]
        former = KeptSketches.at(sketches[0], rule, job.job, corpus.update)
        job = replace(job, former=opened.enter_context(former))
    with _working(shards, corpus, job.job, "Sketching", total_bytes(job.inputs)) as working:
        run, progress = working
        earlier = list[StoredShare]() if job.former is None else job.former.shares(progress.step)
        shares = Shares(run, earlier)
        job.sketch(shares, progress)
        removals, report = job.find(shares, progress)
        if shards.output is None:
            return report
        ends = removals.corpus.ends
        job.write(removals.retained_records(), ends[-1] - ends[0], progress.step)
        shards.copy_about()
        if job.listed is not None:
            write_table(job.listed, removals.table())
        if corpus.update:
            job.add(removals)
    return report


def _one_task(job: _Job) -> CleanReport | None:
    """Do one task of many, or one stage of it; the last of all returns the report."""
    shards, corpus, stage = job.shards, job.corpus, job.corpus.stage
    out = shards.output
    assert out is not None
    waiting = surroundings().waiting or Waiting()
    task = Task.named(corpus.task or "", corpus.work or f"{out.rstrip('/')}.work", waiting)
    if is_one_file(out):
        raise UsageError("--task requires a folder to write to")
    if stage == "group" and task.number > 1:
        raise UsageError("--stage group is for one task, the first one")
    try:
        shards.check_absent()
        corpus.check_removed(is_new=True)
    except UsageError:
        # Others may write already, or have done so.
        if task.missing("group") and not task.is_done():
            raise
    # Another process may do the same task.
    with task.lock_task():
        with task.lock():
            task.claim(job.job)
            is_done, is_left = task.is_done(), task.number in task.missing("write")
        if is_done and look_up(out) is None:
            raise UsageError(f"the run is complete, but {out} is gone: remove {task.run.place}")
        # Once all tasks have written, another one may remove what this one needs.
        if is_left and not is_done:
            _do_stages(job, task)
            if stage in ("sketch", "group"):
                return None
        with task.lock():
            is_complete = task.is_done() or not task.missing("write")
            return _complete(job, task) if is_complete else None


def _do_stages(job: _Job, task: Task) -> None:
    """Do one stage of a task, or all, waiting for those of the other tasks."""
    stage, ranges = job.corpus.stage, task.ranges(job.inputs)
    of_task, against = ranges[task.number - 1], len(job.shards.against)
    say = message if stage is None else None
    with output.Progress("Sketching", total_bytes(job.inputs[of_task])) as progress:
        if stage in (None, "sketch") and task.number in task.missing("sketch"):
            with task.reporting("sketch"), Run.temporary() as run:
                shares = Shares(run)
                job.sketch(shares, progress, of_task)
                files = [*shares.files(), run.folder / RECORDS]
                task.put("sketch", files, run.value_of(SKETCHED))
        if stage == "group" or (stage is None and task.number == 1):
            with task.reporting("group"), Run.temporary() as run:
                task.wait("sketch", say)
                if task.missing("group"):
                    task.gather(run)
                    removals, _ = job.find(Shares(run), progress)
                    files = [run.folder / PurePath(job.listed or "").name]
                    write_table(str(files[0]), removals.table())
                    # Files that are only compared with are not written.
                    retained = chain([None] * against, removals.retained_records())
                    for inputs in ranges:
                        files.append(run.folder / f"write-{len(files)}")
                        of_inputs = islice(retained, inputs.stop - inputs.start)
                        save_retained(files[-1], filter(None, of_inputs))
                    task.put("group", files, run.value_of(REPORT))
        if stage in (None, "write"):
            task.wait("group", say)
            with Run.temporary() as run:
                file = run.folder / "write"
                task.fetch(f"write-{task.number}", file)
                saved = load_retained(file)
            total = sum(records.lines.size for records in saved)
            job.write(saved, total, progress.step, max(0, of_task.start - against))
            task.put("write", [], {})


def _complete(job: _Job, task: Task) -> CleanReport | None:
    """Write the list once all tasks have written, and return the report."""
    assert job.listed is not None
    table, report = PurePath(job.listed).name, None
    try:
        with Run.temporary() as run:
            task.fetch(table, run.folder / table)
            job.shards.copy_about()
            copy(str(run.folder / table), job.listed)
            report = report_from_json(task.state_of_groups())
    except EsdedupError:
        # At an address, two tasks may be the last one.
        if not task.is_done():
            raise
        message("The run is complete already")
    task.finish()
    return report


def _without_units(
    shards: CleanFiles, of_files: FileOptions, corpus: CorpusOptions, letters: DeadLetterFile
) -> UnitReport:
    """Write files again without the paragraphs or lines that came before."""
    shards.check_changeable("unit")
    # Checks the name of the field.
    of_files.chunks(shards.files, shards.text_fields, lambda _: None)
    assert corpus.unit is not None
    repeated = RepeatedUnits(corpus.unit, corpus.min_words)
    job = {"unit": [corpus.unit, corpus.min_words], **shards.job}
    with _working(shards, corpus, job, "Writing", None) as (run, progress):
        # After a kill, all files are read again, and the missing ones written.
        run.save_value(REPORT, None)
        files = retained_without_repeated(repeated, shards, letters)
        for _ in files if shards.output is None else shards.write(files):
            progress.show(repeated.report.documents)
        shards.copy_about()
    return repeated.report


def _against(
    corpus: CorpusOptions, of_files: FileOptions, target: Target, opened: ExitStack
) -> tuple[list[str], list[Index], list[str]]:
    """Return the files, the indices, and the folders of sketches to compare with."""
    files, indices, sketches = [], [], []
    for name in corpus.against or []:
        if name.rstrip("/").endswith(SKETCHES):
            sketches.append(name)
            continue
        is_db = name.endswith(".db")
        if is_db and not corpus.update and not Path(name).exists():
            raise UsageError(f"--against {name}: there is no such file")
        is_file = is_address(name) or glob(name) or not (target.url or target.cloud_id)  # noqa: PTH207
        if is_file and not is_db:
            files.append(name)
            continue
        where, index = (Path(name), target.index) if is_db else (target.connection(), name)
        # Documents to add have their texts in the fields of the files.
        text_field = of_files.text_field if corpus.update else None
        indices.append(opened.enter_context(open(where, index, text_field=text_field)))
        if corpus.update and not corpus.dry_run:
            indices[-1].create()
    return of_files.named(files) if files else [], indices, sketches


@contextmanager
def _working(
    shards: CleanFiles, corpus: CorpusOptions, job: dict[str, Any], title: str, total: int | None
) -> Iterator[tuple[Run, output.Progress]]:
    """Open the folder of a run that is new, or was killed; remove it when the run is complete.

    The folder of a run to standard output, or without output, is not kept.
    """
    out = shards.output or STDIN
    # The folder for an address is on this machine.
    name = corpus.work or f"{PurePath(out).name if is_address(out) else out.rstrip('/')}.work"
    is_kept = corpus.work is not None or out != STDIN
    sizes = surroundings().sizes
    opened = Run.at(Path(name), sizes) if is_kept else Run.temporary(sizes)
    with opened as run, output.Progress(title, total) as progress:
        has_results = run.has(REPORT)
        corpus.check_removed(is_new=not has_results)
        if not has_results:
            shards.check_absent()
        try:
            run.claim(job, replace=not has_results)
            yield run, progress
        except (UsageError, InputError):
            # The same command can't complete this.
            if run.claimed and not run.has(REPORT):
                run.clear()
            raise
        run.clear()


def show_report(
    report: CleanReport | UnitReport, out: str | None, as_json: bool, details: dict[str, Any]
) -> None:
    """Print a report: its counts, and of documents the largest groups and some removed ones."""
    title = f"{count(report.removed, 'duplicate')} of {count(report.documents, 'document')}"
    if out == STDIN:
        # Standard output has the records.
        message(title)
        return
    values = asdict(report)
    counts = {name: value for name, value in values.items() if isinstance(value, int)}
    details |= {name: value for name, value in values.items() if name not in counts}
    if as_json or isinstance(report, UnitReport):
        output.print_counts(counts, as_json, details=details)
        return
    output.print_counts({**counts, **(report.contained or {})}, as_json, title=title)
    rows = [
        (f"{group['documents']:,}", f"{group['file']}:{group['line']}", group["id"])
        for group in report.largest
    ]
    columns: list[tuple[str, output.Kind]] = [("documents", "number"), ("representative", "text")]
    if rows:
        title = f"The largest of {count(report.groups, 'group')}"
        output.print_table([*columns, ("id", "key")], rows, title)
    if report.samples:
        (measure,) = {"distance", "similarity", "contained"} & {*report.samples[0]}
        samples = [
            (
                str(sample[measure]) if measure == "distance" else f"{sample[measure]:.3f}",
                f"{output.snippet(sample['text'])}\n{output.snippet(sample['original_text'])}",
            )
            for sample in report.samples
        ]
        output.print_table([(measure, "number"), ("removed, and its original", "line")], samples)
