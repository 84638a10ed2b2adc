"""What a program or a command asks of files: which job it is, and what runs it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from esdedup.cleaning.contained import (
    ContainedItems,
    Containment,
    Evidence,
    Masking,
    containment_plan,
)
from esdedup.cleaning.document_search import RemovedDocuments
from esdedup.cleaning.inputs import Against, FileInputs
from esdedup.cleaning.items_in_index import Items, find_in_index
from esdedup.cleaning.job import CleanJob, FileDecisions, Reporter
from esdedup.cleaning.kept_sketches import KeptSketches
from esdedup.cleaning.near_duplicates import MergedValues, NearDuplicates
from esdedup.cleaning.one_process import run_alone
from esdedup.cleaning.outputs import CleanFiles, list_file
from esdedup.cleaning.report import CleanReport
from esdedup.cleaning.spans.cutting import SpanRule
from esdedup.cleaning.spans.documents import CutDocuments
from esdedup.cleaning.spans.search import SpanSearch, span_plan
from esdedup.cleaning.tasks import Stage, Task, Waiting, run_task
from esdedup.cleaning.units import RepeatedUnits, SplitUnit
from esdedup.compare.keep_rule import KeepRule
from esdedup.compare.plan import Plan
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups
from esdedup.index import Index
from esdedup.ingest.ingest import IngestReport, IngestSettings
from esdedup.ingest.parallel import number_of_processes
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.inputs import Reading, total_bytes
from esdedup.records.locations import look_up
from esdedup.records.merge import NO_MERGE, Merge
from esdedup.records.pipes import is_pipe, with_spooled_pipes
from esdedup.records.table_files import write_table
from esdedup.records.text_files import STDIN, name_of
from esdedup.runs.run import Run, ShareSizes
from esdedup.sketch.scheme import Scheme
from esdedup.text.characters import count


@dataclass(frozen=True)
class FileRequest:
    """The files of a job, and how it runs.

    arguments: files, folders and patterns to clean, as they were named.
    paths: the files that these are.
    output: a folder, a file, "-" for standard output, or None to write nothing.
    reading: how records are read.
    against: files, indices (.db, or open ones) and kept sketches (.sketches) to compare with.
    against_fields: of the text in the files that are compared with, or None for the same.
    removed: file for the list of what is removed, or None for one in the output.
    dead_letter: called with each record that is no document.
    dead_letter_file: the file that it writes, or None.
    work: folder to resume from, or None for one beside the output.
    workers: number of processes, or None for one per core.
    task: number of this task and of all, such as "3/8", or None to do the whole job.
    stage: the only stage of the task to do, or None for all.
    sizes: of the shares of a run.
    waiting: how often a task looks for the others.
    """

    arguments: Sequence[str]
    paths: list[str]
    output: str | None
    reading: Reading
    against: Sequence[str | Index] = ()
    against_fields: Sequence[str] | None = None
    removed: str | None = None
    dead_letter: DeadLetter = lambda _: None
    dead_letter_file: str | None = None
    work: str | None = None
    workers: int | None = None
    task: str | None = None
    stage: Stage | None = None
    sizes: ShareSizes = ShareSizes()  # noqa: RUF009
    waiting: Waiting = Waiting()  # noqa: RUF009

    @property
    def listed(self) -> str | None:
        """The file for the list of what is removed; None without an output."""
        return list_file(self.output, self.removed)

    def files(self, opened: ExitStack, against: Against | None = None) -> CleanFiles:
        """Return the files to clean, after all checks of what is written.

        opened: removes the files that pipes are copied to, which all stages read. against: what the
        files are compared with.
        """
        against = against or Against()
        if self.against_fields is not None and not against.files:
            raise UsageError("`against_field` requires files in `against`")
        compared = self.reading.files(against.files) if against.files else []
        inputs = [*compared, *self.paths]
        if self.task is None and any(map(is_pipe, inputs)):
            folder = opened.enter_context(TemporaryDirectory(prefix="esdedup-"))
            inputs = with_spooled_pipes(inputs, Path(folder))
        return CleanFiles(
            self.arguments,
            inputs[len(compared) :],
            inputs[: len(compared)],
            self.output,
            self.reading,
            self.removed,
            bool(against.indices or against.sketches),
        )

    def workers_for(self, files: CleanFiles) -> int:
        """Return the number of processes that read files."""
        # Other tasks may be on this machine.
        if self.workers is None and self.task is None:
            return number_of_processes(total_bytes(files.inputs) or 0)
        return self.workers or 1

    def run(self, job: CleanJob) -> CleanReport | None:
        """Run a job, or its task; the report is None for one task of many but the last."""
        if self.task is None:
            return run_alone(job, self.work, self.sizes)
        task = Task.of_output(self.task, self.output, self.work, self.waiting)
        return run_task(job, task, self.stage, self.sizes)


@dataclass(frozen=True)
class NearDuplicateRequest:
    """Remove the documents of files that duplicate others.

    files: to clean.
    grouping: which documents duplicate others.
    scheme: of the tokens; None for one whose bands reach the recall at the threshold.
    update: add what stays to the index or the sketches that the files are compared with.
    max_memory: in bytes.
    only_between: compare the files with `against` only, and not with each other.
    merge: the fields that documents that stay take from their duplicates.
    """

    files: FileRequest
    grouping: Grouping
    scheme: Scheme | None = None
    update: bool = False
    max_memory: int | None = None
    only_between: bool = False
    merge: Merge = NO_MERGE

    def run(self, reporter: Reporter) -> CleanReport | None:
        """Run the job, as `FileRequest.run`."""
        request = self.files
        with ExitStack() as opened:
            is_created = self.update and request.output is not None
            against = Against.of(request.against, self.update, opened)
            limits, keep = self.grouping.limits, self.grouping.keep
            text_fields = request.reading.text_fields
            plan = Plan.of_texts(self.scheme, limits, keep, text_fields, exact=self.grouping.exact)
            plan = plan.labelled(self.grouping.conflict)
            # By their names, kept sketches and unfinished runs are those of this rule.
            grouping = self.grouping.by(plan)
            files = replace(request.files(opened, against), merge=self.merge)
            files.check_targets(request.dead_letter_file)
            self._check(against)
            if self.merge:
                files.check_merge()
            if is_created:
                for index in against.indices:
                    index.create()
            inputs = FileInputs(
                files,
                request.dead_letter,
                request.workers_for(files),
                against.names,
                against.indices,
                request.against_fields,
            )
            search = NearDuplicates(
                inputs,
                plan,
                reporter,
                grouping,
                self.max_memory,
                self.only_between,
                MergedValues(files, request.dead_letter, reporter) if self.merge else None,
            )
            job = CleanJob(files, search, reporter)
            if against.sketches:
                rule = {name: job.parameters[name] for name in ("scheme", "keep", "exact")}
                rule["text field"] = [*request.reading.text_fields]
                # None is a value too: what is kept of some documents must be kept of all.
                rule["within"] = limits.within.to_json() or None
                rule["conflict"] = grouping.conflict
                place = against.sketches[0]
                is_shared = request.task is not None
                former = KeptSketches.at(place, rule, job.parameters, self.update, is_shared)
                inputs = replace(inputs, former=opened.enter_context(former))
                job = replace(job, algorithm=replace(search, inputs=inputs))
            if self.update:
                job = replace(job, add=Addition(inputs, reporter))
            return request.run(job)

    def _check(self, against: Against) -> None:
        """Raise UsageError for what can't be compared with."""
        check_against(self.files, against, self.update, self.only_between)
        if self.files.task is not None and self.merge:
            raise UsageError(f"`{self.merge.setting}` can't be combined with `task`")


def check_against(files: FileRequest, against: Against, update: bool, only_between: bool) -> None:
    """Raise UsageError for what files can't be compared with."""
    if only_between and not against.names:
        raise UsageError("`only_between` requires `against`")
    if update and len(against.indices) + len(against.sketches) != 1:
        raise UsageError("`update` requires one index, or one folder of sketches, in `against`")
    if update and against.indices and files.output == STDIN:
        raise UsageError("`update` of an index requires an `output` that is a file or a folder")
    if len(against.sketches) > 1:
        raise UsageError(f"`against` {against.sketches[1]}: name one folder of sketches")
    if files.task is not None and against.indices:
        raise UsageError("`against`: `task` compares with files and kept sketches only")
    if files.task is not None and update:
        raise UsageError("`update` can't be combined with `task`")


@dataclass(frozen=True)
class Addition:
    """Adds the documents that stay to the kept sketches, or to the index.

    inputs: of the job.
    reporter: shows their number.
    """

    inputs: FileInputs
    reporter: Reporter

    def __call__(self, decisions: FileDecisions) -> None:
        """Add the documents, and show their number."""
        inputs = self.inputs
        if inputs.former is not None:
            assert isinstance(decisions, RemovedDocuments | CutDocuments)
            added = count(inputs.former.add(decisions), "document")
            self.reporter.say(f"{added} added to {inputs.former.place}")
            return
        (index,) = inputs.indices
        ingested = self._add_to(index)
        added = count(ingested.created + ingested.unchanged, "document")
        self.reporter.say(f"{added} added to {index.store.where}")
        if ingested.updated:
            replaced = count(ingested.updated, "document")
            self.reporter.say(
                f"{replaced} of {index.store.where} replaced by others with their ids, and not"
                " compared with later: give each record an id of its own"
            )

    def _add_to(self, index: Index) -> IngestReport:
        """Add the documents of the files that were written, and return their counts."""
        files, inputs = self.inputs.files, self.inputs
        written = [file for file in dict.fromkeys(files.targets) if look_up(file)]
        settings = IngestSettings(workers=inputs.workers, id_field=files.reading.id_field)
        ingested = index.ingest(files.reading.chunks(written), inputs.dead_letter, settings)
        index.store.refresh()
        return ingested


@dataclass(frozen=True)
class ContainmentRequest:
    """Remove the documents of files that contain items, or cut the items from their texts.

    files: to clean, and the items as what they are compared with.
    fraction: least part of an item's words that a document has.
    mask: cut the items, or the sentences that have a part of one, and remove only documents with
    nothing else.
    scheme: how texts become words; None for the default one.
    evidence: which shingles count.
    """

    files: FileRequest
    fraction: float
    mask: Masking = False
    scheme: Scheme | None = None
    evidence: Evidence = Evidence()  # noqa: RUF009

    def run(self, reporter: Reporter) -> CleanReport | None:
        """Run the job, as `FileRequest.run`."""
        request = self.files
        with ExitStack() as opened:
            against = Against.of(request.against, False, opened)
            if against.sketches:
                raise UsageError(
                    f"`against` {against.sketches[0]}: items are in files, or in an index"
                )
            if not against.files and not against.indices:
                raise UsageError("name the files of the items (`against`)")
            plan = containment_plan(self.scheme, request.reading.text_fields)
            files = request.files(opened, against)
            files.check_targets(request.dead_letter_file)
            if self.mask:
                files.check_changeable("mask")
            if request.task is not None and against.indices:
                raise UsageError("`against`: `task` compares with files only")
            # Each process holds all items.
            workers = request.workers or 1
            inputs = FileInputs(
                files,
                request.dead_letter,
                workers,
                against.names,
                against.indices,
                request.against_fields,
            )
            containment = Containment(plan.meta.scheme, self.fraction, evidence=self.evidence)
            search = ContainedItems(inputs, plan, reporter, containment, self.mask, workers)
            return request.run(CleanJob(files, search, reporter))


@dataclass(frozen=True)
class SpanRequest:
    """Cut the spans of words that files repeat from their documents.

    files: to clean.
    rule: which spans are cut.
    keep: the document that keeps the first occurrence.
    scheme: how texts become words; None for the default one.
    update: add what stays to the index or the sketches that the files are compared with.
    max_memory: in bytes.
    only_between: cut spans of what the files are compared with, and not those of each other.
    """

    files: FileRequest
    rule: SpanRule = SpanRule()  # noqa: RUF009
    keep: KeepRule = KeepRule()  # noqa: RUF009
    scheme: Scheme | None = None
    update: bool = False
    max_memory: int | None = None
    only_between: bool = False

    def run(self, reporter: Reporter) -> CleanReport | None:
        """Run the job, as `FileRequest.run`."""
        request = self.files
        with ExitStack() as opened:
            against = Against.of(request.against, self.update, opened)
            check_against(request, against, self.update, self.only_between)
            if self.update and request.output is not None:
                for index in against.indices:
                    index.create()
            plan = span_plan(self.scheme, self.keep, request.reading.text_fields)
            files = request.files(opened, against)
            files.check_targets(request.dead_letter_file)
            files.check_changeable("unit")
            inputs = FileInputs(
                files,
                request.dead_letter,
                request.workers_for(files),
                against.names,
                against.indices,
                request.against_fields,
            )
            search = SpanSearch(
                inputs, plan, reporter, self.rule, self.max_memory, self.only_between
            )
            job = CleanJob(files, search, reporter)
            if against.sketches:
                kept = {"spans": True, "scheme": plan.meta.scheme.id}
                kept["text field"] = [*request.reading.text_fields]
                place, is_shared = against.sketches[0], request.task is not None
                former = KeptSketches.at(place, kept, job.parameters, self.update, is_shared)
                inputs = replace(inputs, former=opened.enter_context(former))
                job = replace(job, algorithm=replace(search, inputs=inputs))
            if self.update:
                job = replace(job, add=Addition(inputs, reporter))
            return request.run(job)


@dataclass(frozen=True)
class UnitRequest:
    """Remove the paragraphs or lines of files that came before.

    files: to clean.
    unit: what is compared.
    min_words: shorter units stay.
    """

    files: FileRequest
    unit: SplitUnit
    min_words: int = 1

    def run(self, reporter: Reporter) -> CleanReport | None:
        """Run the job, as `FileRequest.run`."""
        request = self.files
        with ExitStack() as opened:
            files = request.files(opened)
            files.check_targets(request.dead_letter_file)
            files.check_changeable("unit")
            # Checks the name of the field.
            request.reading.chunks(files.files)
            units = RepeatedUnits(files, request.dead_letter, reporter, self.unit, self.min_words)
            return request.run(CleanJob(files, units, reporter))


@dataclass(frozen=True)
class ItemRequest:
    """A request for the documents of an index that contain an item of files.

    files: paths or addresses of the items.
    reading: how these are read.
    share: minimum share of an item's words that a document holds.
    dead_letter: called with each record that is no item.
    removed: file for the list of the documents; None to write none.
    """

    files: Sequence[str]
    reading: Reading
    share: float
    dead_letter: DeadLetter
    removed: str | None = None

    def run(self, index: Index, reporter: Reporter) -> tuple[CleanReport, Groups]:
        """Return the counts, and groups in which each document follows its item.

        Raises UsageError for an index without passages.
        """
        reading = self.reading
        chunks = reading.chunks(self.files, columns=[])
        names = [*map(name_of, self.files)]
        items = Items(names, chunks, reading.text_fields, reading.id_field, self.dead_letter)
        with Run.temporary() as run:
            removals, report, groups = find_in_index(run, index, self.share, items, reporter)
            if self.removed is not None:
                write_table(self.removed, removals.table())
        return report, groups
