"""esdedup dedup FILES: write files again without the documents that duplicate others."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from glob import glob
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, Literal

from typer import Exit

from esdedup import Connection, Grouping, Index, UsageError, open
from esdedup.arguments import setting, size
from esdedup.cli import options, output
from esdedup.cli.files import FileOptions, dead_letters, total_bytes
from esdedup.cli.options import Target
from esdedup.cli.output import count, message
from esdedup.cli.result_files import write_table
from esdedup.corpus.corpus import Corpus, CorpusReport, chunks_of, find_removed, reading_of
from esdedup.corpus.shards import (
    check_absent,
    copy_about,
    digest_of,
    is_one_file,
    targets_of,
    write_shards,
)
from esdedup.corpus.units import RepeatedUnits, Unit, shares_without_repeated
from esdedup.pairing.scan import WorkFolder
from esdedup.records.dead_letters import DeadLetterFile
from esdedup.records.locations import is_address, look_up, stamp
from esdedup.records.streams import STDIN, name_of

Engine = Literal["local", "spark"]


@dataclass(frozen=True)
class CorpusOptions:
    """The options of a command that writes files again without duplicates."""

    output: str | None = setting(
        None, "With FILES: folder to write them to; or one file, or - for standard output.", "-o"
    )
    against: list[str] | None = setting(
        None,
        "Also remove what is near these files, a local index (.db), or an index of --url; may be"
        " repeated.",
        metavar="FILES",
    )
    update: bool = setting(
        False, "Add the documents that stay to the index of --against.", rare=True
    )
    removed: str | None = setting(
        None,
        "List of the removed documents: .jsonl, .jsonl.zst, .parquet or .arrow.",
        rare=True,
        show_default="OUTPUT/_removed.jsonl.zst",
    )
    work: str | None = setting(
        None, "Folder to resume from.", rare=True, show_default="OUTPUT.work"
    )
    unit: Unit | None = setting(
        None, "Remove repeated paragraphs or lines inside documents instead.", rare=True
    )
    min_words: int = setting(1, "With --unit, keep shorter units.", min=1, rare=True)
    engine: Engine = setting(
        "local", "spark: the tasks of a cluster read, compare and write the files.", rare=True
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
    out = None if corpus.dry_run else corpus.output
    if out is None and not corpus.dry_run:
        raise UsageError("FILES require --output, a folder or a file to write, or --dry-run")
    files = of.named(arguments)
    scheme, text_field = of.wanted(grouping.limits.distance)
    text_fields = text_field or ["text"]
    if corpus.engine == "spark":
        with dead_letters(of.dead_letter, "dedup") as letters:
            report = _on_spark(arguments, files, of, corpus, grouping, out, letters)
        _finish(report, letters, grouping, out, as_json)
        return
    if corpus.unit is not None:
        _by_unit(arguments, files, of, corpus, out, as_json)
        return
    with ExitStack() as opened:
        others, indices = _against(corpus, of, target, opened)
        if STDIN in files + others:
            raise UsageError("standard input can't be read twice: name a file")
        if both := sorted({*files} & {*others}):
            raise UsageError(f"{both[0]}: it is named in --against too")
        if corpus.update and len(indices) != 1:
            raise UsageError("--update requires one index in --against")
        targets = [] if out is None else targets_of(arguments, files, out, of.format)
        stamps = [*map(stamp, files)]
        reading = reading_of(grouping, scheme, text_fields)
        job = {
            **grouping.to_json(),
            "scheme": reading.meta.scheme.id,
            "against": corpus.against,
            **_job(of, out, [files, stamps, [*map(stamp, others)]]),
        }
        folder = opened.enter_context(_working(corpus, out))
        letters = opened.enter_context(dead_letters(of.dead_letter, "dedup"))
        progress = opened.enter_context(output.Progress("Sketching", total_bytes(others + files)))
        _claim(folder, job, out)
        names = [*(each.store.where for each in indices), *map(name_of, others + files)]
        columns = grouping.keep.paths([])
        from_files = (
            of.chunks(some, text_fields, progress.advance, columns)
            for some in filter(None, (others, files))
        )
        from_indices = (chunks_of(each, text_fields[0]) for each in indices)
        read = Corpus.read(
            folder,
            reading,
            names,
            len(names) - len(files),
            chain.from_iterable(chain(from_indices, from_files)),
            letters,
            id_field=of.id_field,
            workers=of.workers,
            on_read=progress.show,
        )
        found, report = find_removed(read, reading, grouping, progress.step, corpus.max_memory)
        if out is not None:
            done, total = 0, int(read.counts[read.earlier :].sum())
            shares = found.corpus.shares(found.removed)
            for records in write_shards(shares, files, targets, stamps, of.format, of.encoding):
                done += records
                progress.step("Writing", done, total)
            copy_about(files, targets, out)
            if (path := _list_of(corpus, out)) is not None:
                write_table(path, found)
        if corpus.update and out is not None:
            index = indices[0]
            written = [each for each in dict.fromkeys(targets) if look_up(each)]
            chunks = of.chunks(written, text_fields, lambda _: None)
            added = index.ingest(chunks, letters, workers=of.workers, id_field=of.id_field)
            index.store.refresh()
            message(f"{count(added.read - added.failed, 'document')} added to {index.store.where}")
        folder.remove()
    _finish(report, letters, grouping, out, as_json)


def _by_unit(
    arguments: list[str],
    files: list[str],
    of: FileOptions,
    corpus: CorpusOptions,
    out: str | None,
    as_json: bool,
) -> None:
    """Write files again without the paragraphs or lines that came before."""
    others = ["against", "update", "removed", "engine", "max_memory", "workers", "id_field", "keep"]
    options.refuse([*others, "exact", "threshold"], "can't be combined with --unit")
    assert corpus.unit is not None
    field, *more = of.text_field or ["text"]
    if more:
        raise UsageError("--unit requires one --text-field")
    # Checks the name of the field.
    of.chunks(files, [field], lambda _: None)
    targets = [] if out is None else targets_of(arguments, files, out, of.format)
    if len({*targets}) < len(targets) or STDIN in [*files, *targets]:
        raise UsageError("--unit requires files, and a folder to write to")
    stamps, repeated = [*map(stamp, files)], RepeatedUnits(corpus.unit, corpus.min_words)
    job = {"unit": [corpus.unit, corpus.min_words], **_job(of, out, [files, stamps])}
    with (
        _working(corpus, out) as folder,
        dead_letters(of.dead_letter, "dedup") as letters,
        output.Progress("Writing", None) as progress,
    ):
        _claim(folder, job, out)
        # After a kill, all files are read again, and the missing ones written.
        folder.save_state({"report": None})
        shares = shares_without_repeated(repeated, files, field, letters, of.format, of.encoding)
        if out is None:
            for _ in shares:
                progress.show(repeated.report.documents)
        else:
            for _ in write_shards(shares, files, targets, stamps, of.format, of.encoding):
                progress.show(repeated.report.documents)
            copy_about(files, targets, out)
        folder.remove()
    report = repeated.report
    counts = {**asdict(report), "different": repeated.seen.size}
    output.print_counts(counts, as_json, more={"output": out, "memory": 16 * repeated.seen.size})
    _end(report.failed, letters)


def _job(of: FileOptions, out: str | None, state: object) -> dict[str, Any]:
    """Return the parameters that any run on files resumes by. state: of the files."""
    return {
        "text fields": of.text_field or ["text"],
        "format": of.format,
        "encoding": of.encoding,
        "output": out,
        "state of files": digest_of(state),
    }


def _claim(folder: WorkFolder, job: dict[str, Any], out: str | None) -> None:
    """Claim the folder of a new run, whose output must not exist, or of one that was killed."""
    if folder.state() is None and out is not None:
        check_absent(out)
    folder.claim(job, 0)


def _end(failed: int, letters: DeadLetterFile) -> None:
    """End with status 1 if records were skipped."""
    if failed:
        message(f"{count(failed, 'record')} skipped: see {letters.path}")
        raise Exit(1)


def _on_spark(
    arguments: list[str],
    files: list[str],
    of: FileOptions,
    corpus: CorpusOptions,
    grouping: Grouping,
    out: str | None,
    letters: DeadLetterFile,
) -> CorpusReport:
    """Clean the files in the tasks of Spark."""
    from esdedup.spark import dedup

    options.refuse(
        ["update", "removed", "workers", "max_memory"], "can't be combined with --engine spark"
    )
    scheme, text_field = of.wanted(grouping.limits.distance)
    text_fields, others = text_field or ["text"], corpus.against or []
    if index := next((each for each in others if each.endswith(".db")), None):
        raise UsageError(f"--against {index}: --engine spark compares with files only")
    # Checks the names of the fields.
    of.chunks(files, text_fields, lambda _: None, grouping.keep.paths([]))
    return dedup(
        None,
        arguments,
        out,
        against=others,
        format=of.format,
        encoding=of.encoding,
        text_field=text_fields,
        id_field=of.id_field,
        scheme=scheme,
        work=corpus.work,
        dead_letter=letters,
        grouping=grouping,
    )


def _finish(
    report: CorpusReport,
    letters: DeadLetterFile,
    grouping: Grouping,
    out: str | None,
    as_json: bool,
) -> None:
    """Show the report. The exit status is 1 if records were skipped."""
    output.warn_after(report.recall, report.capped, grouping.limits)
    _show(report, grouping, out, as_json)
    _end(report.failed, letters)


def _against(
    corpus: CorpusOptions, of: FileOptions, target: Target, opened: ExitStack
) -> tuple[list[str], list[Index]]:
    """Return the files and the indices to compare with."""
    files, indices = [], []
    for each in corpus.against or []:
        where: Path | Connection
        if each.endswith(".db"):
            where, name = Path(each), target.index
            if not corpus.update and not where.exists():
                raise UsageError(f"--against {each}: there is no such file")
        elif (target.url or target.cloud_id) and not (is_address(each) or glob(each)):  # noqa: PTH207
            where, name = target.connection(), each
        else:
            files.append(each)
            continue
        # Documents to add have their texts in the fields of the files.
        text_field = of.text_field if corpus.update else None
        indices.append(opened.enter_context(open(where, name, text_field=text_field)))
        if corpus.update and not corpus.dry_run:
            indices[-1].create()
    return of.named(files) if files else [], indices


@contextmanager
def _working(corpus: CorpusOptions, out: str | None) -> Iterator[WorkFolder]:
    """Open the folder of a run; one for standard output or without output is not kept."""
    if corpus.work is None and out in (None, STDIN):
        with WorkFolder.temporary() as folder:
            yield folder
        return
    # The folder for an address is on this machine.
    name = PurePath(out).name if is_address(out := str(out)) else out.rstrip("/")
    with WorkFolder.at(Path(corpus.work or f"{name}.work")) as folder:
        try:
            yield folder
        except UsageError:
            # The same command can't complete this.
            if folder.claimed and "report" not in (folder.state() or {}):
                folder.remove()
            raise


def _list_of(corpus: CorpusOptions, out: str) -> str | None:
    """Return the file of the list of removed documents, by default beside the others."""
    if corpus.removed is not None or out == STDIN:
        return corpus.removed
    end = ".removed.jsonl.zst" if is_one_file(out) else "/_removed.jsonl.zst"
    return out.rstrip("/") + end


def _show(report: CorpusReport, grouping: Grouping, out: str | None, as_json: bool) -> None:
    title = f"{count(report.removed, 'duplicate')} of {count(report.documents, 'document')}"
    if out == STDIN:
        # Standard output has the records.
        message(title)
        return
    if as_json:
        output.print_json({**asdict(report), "output": out})
        return
    share = {"kept": report.kept, "removed": report.removed}
    rows = [
        (
            name,
            f"{number:,}",
            f"{getattr(report, f'bytes_{name}'):,}",
            f"{getattr(report, f'words_{name}'):,}",
        )
        for name, number in share.items()
    ]
    output.print_table(
        [("", "text"), ("documents", "number"), ("bytes of text", "number"), ("words", "number")],
        rows,
        title,
    )
    if report.largest:
        largest = [
            (f"{each['documents']:,}", f"{each['file']}:{each['line']}", each["id"])
            for each in report.largest
        ]
        output.print_table(
            [("documents", "number"), ("representative", "text"), ("id", "key")],
            largest,
            f"The largest of {count(report.groups, 'group')}",
        )
    measure = "distance" if grouping.by_distance else "similarity"
    samples = [
        (
            f"{each[measure]:.3f}" if measure == "similarity" else str(each[measure]),
            f"{output.snippet(each['text'])}\n{output.snippet(each['original_text'])}",
        )
        for each in report.samples
    ]
    if samples:
        output.print_table([(measure, "number"), ("removed, and its original", "line")], samples)
