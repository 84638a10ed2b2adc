"""esdedup dedup FILES: write files again without the documents that duplicate others."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from glob import glob
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any, Literal

from typer import Exit

from esdedup import Grouping, Index, Scheme, UsageError, open
from esdedup.arguments import setting, settings_of, size
from esdedup.cli import options, output
from esdedup.cli.files import FileOptions, dead_letters, total_bytes
from esdedup.cli.options import Target
from esdedup.cli.output import count, message
from esdedup.cli.result_files import write_table
from esdedup.corpus.corpus import (
    CorpusReport,
    Removed,
    chunks_of,
    find_removed,
    reading_of,
    report_of,
    sketch_into,
)
from esdedup.corpus.kept import SKETCHES, KeptSketches
from esdedup.corpus.shards import Shards, is_one_file
from esdedup.corpus.tasks import Stage, Task
from esdedup.corpus.units import RepeatedUnits, Unit, UnitReport, shares_without_repeated
from esdedup.exceptions import EsdedupError, InputError
from esdedup.pairing.comparison import Reading
from esdedup.pairing.scan import WorkFolder
from esdedup.records.dead_letters import DeadLetterFile
from esdedup.records.locations import copy, is_address, look_up
from esdedup.records.streams import STDIN, name_of

LISTED = "/_removed.jsonl.zst"
"""The list of the removed documents, in the folder of the output."""


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
        None, "Remove what holds this share of one of --against.", min=0.01, max=1.0, rare=True
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
    min_words: int = setting(1, "With --unit, keep shorter units.", min=1, rare=True)
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
    max_memory: int | None = setting(
        None,
        "Memory to use, besides pages of mapped files; more is faster.",
        parser=size,
        metavar="SIZE",
        rare=True,
        show_default="2GB, and 60 bytes a document",
    )


def dedup_files(
    arguments: list[str],
    of: FileOptions,
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
    files = of.named(arguments)
    scheme, text_field = of.wanted(grouping.limits.distance)
    text_fields = text_field or ["text"]
    how: dict[str, Any] = {n: getattr(of, n) for n in ("format", "encoding", "id_field")}
    shards_of = partial(Shards, arguments, files, out=out, text_fields=text_fields, **how)
    if corpus.stage and corpus.task is None:
        raise UsageError("--stage requires --task")
    if corpus.task is not None:
        refused = ["update", "unit", "engine", "dry_run"]
        options.refuse(refused, "can't be combined with --task")
    name = "dedup" if corpus.task is None else f"dedup-{corpus.task.partition('/')[0]}"
    with dead_letters(of.dead_letter, name) as letters, ExitStack() as opened:
        more: dict[str, Any] = {"output": out}
        report: CorpusReport | UnitReport | None
        if corpus.unit is not None:
            refused = ["against", "update", "removed", "engine", "max_memory", "workers", "keep"]
            options.refuse(
                [*refused, "contained", "mask", "id_field", "exact", "threshold"],
                "can't be combined with --unit",
            )
            report = _without_units(shards_of(others=[]), of, corpus, letters)
            more["memory"] = 16 * report.different
        elif corpus.engine == "spark":
            from esdedup.spark import dedup_files as on_spark

            refused = ["contained", "mask", "update", "removed", "workers", "max_memory"]
            options.refuse(refused, "can't be combined with --engine spark")
            others = corpus.against or []
            if index := next((each for each in others if each.endswith((".db", SKETCHES))), None):
                raise UsageError(f"--against {index}: --engine spark compares with files only")
            # Checks the names of the fields.
            of.chunks(files, text_fields, lambda _: None, grouping.keep.paths([]))
            how |= {"text_field": text_fields, "scheme": scheme, "work": corpus.work}
            how |= {"against": others, "dead_letter": letters, "grouping": grouping}
            report = on_spark(None, arguments, out, **how)
        else:
            others, indices, sketches = _against(corpus, of, target, opened)
            if corpus.contained is not None:
                refused = [*settings_of(Grouping), "bits", "passages", "update", "max_memory"]
                options.refuse(refused, "can't be combined with --contained")
                if sketches:
                    raise UsageError(f"--against {sketches[0]}: --contained requires files")
                if not others and not indices:
                    raise UsageError("--contained requires --against")
                # Only words are needed.
                scheme = scheme or Scheme()
                scheme = scheme.only(scheme.banded.wide(1))
            elif corpus.mask:
                raise UsageError("--mask requires --contained")
            reading, shards = reading_of(grouping, scheme, text_fields), shards_of(others=others)
            if corpus.mask:
                shards.check_changeable("--mask")
            every = shards, indices, sketches, of, corpus, grouping, reading, letters
            report = _without_documents(*every, opened)
    if report is None:
        return
    if isinstance(report, CorpusReport):
        output.warn_after(report.recall, report.capped, grouping.limits)
    show_report(report, out, as_json, more)
    if report.failed:
        where = letters.path if corpus.task is None else "the dead-letter files of the tasks"
        message(f"{count(report.failed, 'record')} skipped: see {where}")
        raise Exit(1)


def _without_documents(
    shards: Shards,
    indices: list[Index],
    sketches: list[str],
    of: FileOptions,
    corpus: CorpusOptions,
    grouping: Grouping,
    reading: Reading,
    letters: DeadLetterFile,
    opened: ExitStack,
) -> CorpusReport | None:
    """Write files again without the documents that duplicate others; None for one task of many."""
    if corpus.update and len(indices) + len(sketches) != 1:
        raise UsageError("--update requires one index, or one folder of sketches, in --against")
    if len(sketches) > 1:
        raise UsageError(f"--against {sketches[1]}: name one folder of sketches")
    files, others, text_fields = shards.files, shards.others, reading.meta.text_fields
    scheme, listed = reading.meta.scheme.id, corpus.removed
    job = {**grouping.to_json(), "scheme": scheme, "against": corpus.against}
    job["contained"], job["mask"] = corpus.contained, corpus.mask
    kept = None
    if sketches and corpus.task is None:
        made = {"scheme": scheme, "keep": job["keep"], "exact": job["exact"]}
        made["text field"], run = [*text_fields], {**job, **shards.job}
        kept = opened.enter_context(KeptSketches.at(sketches[0], made, run, corpus.update))
        job[f"state of {sketches[0]}"] = kept.state
    before = [] if kept is None else kept.names
    names = [*before, *(each.store.where for each in indices), *map(name_of, others + files)]
    earlier, columns = len(names) - len(files), grouping.keep.paths([])
    workers = of.processes(others + files)
    if corpus.task is not None or corpus.contained is not None:
        # Other tasks may be on this machine; each process holds all items that may be contained.
        workers = of.workers or 1
    if listed is None and (out := shards.out) is not None and out != STDIN:
        listed = out.rstrip("/") + (".removed.jsonl.zst" if is_one_file(out) else LISTED)

    def sketch_records(folder: WorkFolder, progress: output.Progress, own: slice) -> None:
        mine = {*(others + files)[own]}
        from_files = (
            of.chunks(
                [each for each in some if each in mine],
                text_fields,
                progress.advance,
                columns,
                whole=some,
            )
            for some in filter(None, (others, files))
        )
        from_indices = (chunks_of(each, text_fields[0]) for each in indices)
        how: dict[str, Any] = {"id_field": of.id_field, "workers": workers}
        chunks = chain.from_iterable(chain(from_indices, from_files))
        own_names = names[len(before) :] if own.stop is None else names[own]
        if kept is not None:
            how["earlier"] = kept.lines, kept.counts
        sketch_into(folder, reading, own_names, chunks, letters, on_read=progress.show, **how)

    def find(folder: WorkFolder, progress: output.Progress) -> tuple[Removed, CorpusReport]:
        how: dict[str, Any] = {"contained": corpus.contained, "mask": corpus.mask}
        how |= {"workers": workers, "max_memory": corpus.max_memory, "step": progress.step}
        return find_removed(folder, reading, grouping, names, earlier, **how)

    def write(found: Removed, progress: output.Progress, own: slice) -> None:
        counts = found.corpus.counts[found.corpus.earlier :][own]
        done, total = 0, int(counts.sum())
        shares = islice(found.shares(text_fields[0]), own.start, own.stop)
        for records in shards.write(shares, own.start):
            done += records
            progress.step("Writing", done, total)

    if corpus.task is not None:
        if indices or sketches:
            raise UsageError("--against: --task compares with files only")
        assert listed is not None
        steps = sketch_records, find, write
        return _one_task(shards, corpus, job, listed, *steps)
    total = total_bytes(others + files)
    with _working(shards, corpus, job, "Sketching", total) as (folder, progress):
        folder.before = {} if kept is None else kept.shares(progress.step)
        sketch_records(folder, progress, slice(0, None))
        found, report = find(folder, progress)
        if shards.out is None:
            return report
        write(found, progress, slice(0, None))
        shards.copy_about()
        if listed is not None:
            write_table(listed, found)
        if kept is not None and corpus.update:
            message(f"{count(kept.add(found, folder), 'document')} added to {sketches[0]}")
        elif corpus.update:
            index = indices[0]
            written = [each for each in dict.fromkeys(shards.targets) if look_up(each)]
            chunks = of.chunks(written, text_fields, lambda _: None)
            added = index.ingest(chunks, letters, workers=workers, id_field=of.id_field)
            index.store.refresh()
            message(f"{count(added.read - added.failed, 'document')} added to {index.store.where}")
    return report


def _one_task(
    shards: Shards,
    corpus: CorpusOptions,
    job: dict[str, Any],
    listed: str,
    sketch_records: Callable[[WorkFolder, output.Progress, slice], None],
    find: Callable[[WorkFolder, output.Progress], tuple[Removed, CorpusReport]],
    write: Callable[[Removed, output.Progress, slice], None],
) -> CorpusReport | None:
    """Do one task of many, or one stage of it; the last of all returns the report."""
    out, stage, every = shards.out, corpus.stage, shards.others + shards.files
    assert out is not None
    task = Task.named(corpus.task or "", corpus.work or f"{out.rstrip('/')}.work")
    if is_one_file(out):
        raise UsageError("--task requires a folder to write to")
    if stage == "group" and task.number > 1:
        raise UsageError("--stage group is for one task, the first one")
    try:
        shards.check_absent()
    except UsageError:
        # Others may write already, or have done so.
        if task.lacks("group") and not task.is_done():
            raise

    say = message if stage is None else None
    # Another process may do the same task.
    with task.alone(f"lock-{task.number}", 0):
        with task.alone():
            task.claim({**job, **shards.job})
            is_done, is_left = task.is_done(), task.number in task.lacks("write")
        if is_done and look_up(out) is None:
            raise UsageError(f"the run is complete, but {out} is gone: remove {task.place}")
        table = f"removed{''.join(PurePath(listed).suffixes)}"
        # Once all tasks have written, another one may remove what this one needs.
        if is_left and not is_done:
            own = task.own(every)
            with output.Progress("Sketching", total_bytes(every[own])) as progress:
                if stage in (None, "sketch") and task.number in task.lacks("sketch"):
                    with WorkFolder.temporary() as folder:
                        sketch_records(folder, progress, own)
                        task.put("sketch", folder.files(), folder.state())
                if (stage is None and task.number == 1) or stage == "group":
                    task.wait("sketch", say)
                    if task.lacks("group"):
                        with WorkFolder.temporary() as folder:
                            task.gather(folder)
                            found, _ = find(folder, progress)
                            write_table(str(folder.path / table), found)
                            names = ("records", "decisions", table)
                            files = [folder.path / name for name in names]
                            task.put("group", files, folder.state())
                if stage in ("sketch", "group"):
                    return None
                task.wait("group", say)
                with WorkFolder.temporary() as folder:
                    task.fetch(["records", "decisions"], folder.path)
                    found, _ = find(folder, progress)
                    first, end = (max(0, at - len(shards.others)) for at in (own.start, own.stop))
                    write(found, progress, slice(first, end))
                task.put("write", [], {})
        with task.alone():
            if not task.is_done() and task.lacks("write"):
                return None
            try:
                with WorkFolder.temporary() as folder:
                    task.fetch([table], folder.path)
                    shards.copy_about()
                    copy(str(folder.path / table), listed)
                    report = report_of(folder.state() or {})
            except EsdedupError:
                # At an address, two tasks may be the last one.
                if not task.is_done():
                    raise
                message("The run is complete already")
                report = None
            task.finish()
    return report


def _without_units(
    shards: Shards, of: FileOptions, corpus: CorpusOptions, letters: DeadLetterFile
) -> UnitReport:
    """Write files again without the paragraphs or lines that came before."""
    shards.check_changeable("--unit")
    # Checks the name of the field.
    of.chunks(shards.files, shards.text_fields, lambda _: None)
    assert corpus.unit is not None
    repeated = RepeatedUnits(corpus.unit, corpus.min_words)
    job = {"unit": [corpus.unit, corpus.min_words]}
    with _working(shards, corpus, job, "Writing", None) as (folder, progress):
        # After a kill, all files are read again, and the missing ones written.
        folder.save_state({"report": None})
        shares = shares_without_repeated(repeated, shards, letters)
        for _ in shares if shards.out is None else shards.write(shares):
            progress.show(repeated.report.documents)
        shards.copy_about()
    return repeated.report


def _against(
    corpus: CorpusOptions, of: FileOptions, target: Target, opened: ExitStack
) -> tuple[list[str], list[Index], list[str]]:
    """Return the files, the indices, and the folders of sketches to compare with."""
    files, indices, sketches = [], [], []
    for each in corpus.against or []:
        if each.rstrip("/").endswith(SKETCHES):
            sketches.append(each)
            continue
        is_db = each.endswith(".db")
        if is_db and not corpus.update and not Path(each).exists():
            raise UsageError(f"--against {each}: there is no such file")
        is_file = is_address(each) or glob(each) or not (target.url or target.cloud_id)  # noqa: PTH207
        if is_file and not is_db:
            files.append(each)
            continue
        where, name = (Path(each), target.index) if is_db else (target.connection(), each)
        # Documents to add have their texts in the fields of the files.
        text_field = of.text_field if corpus.update else None
        indices.append(opened.enter_context(open(where, name, text_field=text_field)))
        if corpus.update and not corpus.dry_run:
            indices[-1].create()
    return of.named(files) if files else [], indices, sketches


@contextmanager
def _working(
    shards: Shards, corpus: CorpusOptions, job: dict[str, Any], title: str, total: int | None
) -> Iterator[tuple[WorkFolder, output.Progress]]:
    """Open the folder of a run that is new, or was killed; remove it when the run is complete.

    The folder of a run to standard output, or without output, is not kept.
    """
    out = shards.out or STDIN
    # The folder for an address is on this machine.
    name = corpus.work or f"{PurePath(out).name if is_address(out) else out.rstrip('/')}.work"
    is_kept = corpus.work is not None or out != STDIN
    place = WorkFolder.at(Path(name)) if is_kept else WorkFolder.temporary()
    with place as folder, output.Progress(title, total) as progress:
        if not (has_results := "report" in (folder.state() or {})):
            shards.check_absent()
        try:
            folder.claim({**job, **shards.job}, 0, again=not has_results)
            yield folder, progress
        except (UsageError, InputError):
            # The same command can't complete this.
            if folder.claimed and "report" not in (folder.state() or {}):
                folder.remove()
            raise
        folder.remove()


def show_report(
    report: CorpusReport | UnitReport, out: str | None, as_json: bool, more: dict[str, Any]
) -> None:
    """Print a report: its counts, and of documents the largest groups and some removed ones."""
    title = f"{count(report.removed, 'duplicate')} of {count(report.documents, 'document')}"
    if out == STDIN:
        # Standard output has the records.
        message(title)
        return
    values = asdict(report)
    counts = {name: value for name, value in values.items() if isinstance(value, int)}
    more |= {name: value for name, value in values.items() if name not in counts}
    if as_json or isinstance(report, UnitReport):
        output.print_counts(counts, as_json, more=more)
        return
    output.print_counts({**counts, **(report.contained or {})}, as_json, title=title)
    rows = [
        (f"{each['documents']:,}", f"{each['file']}:{each['line']}", each["id"])
        for each in report.largest
    ]
    columns: list[tuple[str, output.Kind]] = [("documents", "number"), ("representative", "text")]
    if rows:
        title = f"The largest of {count(report.groups, 'group')}"
        output.print_table([*columns, ("id", "key")], rows, title)
    if report.samples:
        (measure,) = {"distance", "similarity", "contained"} & {*report.samples[0]}
        samples = [
            (
                str(each[measure]) if measure == "distance" else f"{each[measure]:.3f}",
                f"{output.snippet(each['text'])}\n{output.snippet(each['original_text'])}",
            )
            for each in report.samples
        ]
        output.print_table([(measure, "number"), ("removed, and its original", "line")], samples)
