"""esdedup clean, decontaminate: write files again without duplicates, or what holds items."""

from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from esdedup import CleanReport, Grouping, Index, Scheme, UsageError
from esdedup.arguments import size
from esdedup.cli import options, output
from esdedup.cli.command import argument, converted_by, setting
from esdedup.cli.files import FORMATS, FileOptions, dead_letters
from esdedup.cli.options import MergeOptions, Target, as_json, refuse
from esdedup.cli.output import count, message
from esdedup.cli.output_files import OutputOptions, RemovalRule, opened_against, show_report
from esdedup.cli.removal import ItemRemovalOptions, RemovalOptions, conclude, show_removal
from esdedup.cli.surroundings import surroundings
from esdedup.files import (
    MIN_WORDS,
    STDIN,
    ContainmentRequest,
    Cut,
    Evidence,
    FileRequest,
    ItemRequest,
    NearDuplicateRequest,
    SpanRequest,
    SpanRule,
    Unit,
    UnitRequest,
    against_kind,
    check_result,
)
from esdedup.results import Groups

_OF_ITEMS = ("text_field", "format", "encoding", "delimiter", "id_field", "dead_letter", "removed")
"""Options of files that also count for the items, if there is an index in place of files."""


@dataclass(frozen=True)
class CleanOptions:
    """What a command removes from files, and what it compares them with."""

    against: list[str] | None = setting(
        None,
        "Also remove what is near these files, a local index (.db), an index of --url, or"
        " .sketches; may be repeated.",
        metavar="FILES",
    )
    against_field: list[str] | None = options.against_field()
    only_between: bool = setting(
        False, "Compare with --against only, and not within FILES.", rare=True
    )
    update: bool = setting(
        False, "Add what stays to the index or sketches of --against.", rare=True
    )
    unit: Unit | None = setting(
        None, "Remove repeated paragraphs, lines or spans of words instead.", rare=True
    )
    min_words: int | None = setting(
        None,
        "With --unit, keep shorter units.",
        bounds=(1, None),
        rare=True,
        show_default="1, of spans 50",
    )
    max_repeats: int = setting(
        1, "With --unit span, keep what occurs no more often.", bounds=(1, None), rare=True
    )
    cut: Cut = setting(
        "words", "With --unit span, cut words, or only whole sentences or lines.", rare=True
    )
    drop_over: float = setting(
        0.9, "With --unit span, drop what loses a larger share.", bounds=(0.0, 1.0), rare=True
    )
    engine: Literal["local", "spark"] = setting(
        "local", "spark: a cluster does the work.", rare=True
    )
    max_memory: int | None = converted_by(
        size,
        setting(
            None,
            "Memory to use, besides pages of mapped files; more is faster.",
            metavar="SIZE",
            rare=True,
            show_default="2GB, and 60 bytes per document",
        ),
    )

    @property
    def spans(self) -> SpanRule:
        """Which spans are cut."""
        return SpanRule(self.min_words or MIN_WORDS, self.max_repeats, self.drop_over, self.cut)

    @property
    def units_removed(self) -> str:
        """In words, what is removed in place of documents."""
        if self.unit != "span":
            return f"repeated {self.unit}s"
        return f"spans of {self.spans.min_words} words or more that occur before"


def clean_command(
    target: Target,
    grouping: Grouping,
    of_files: Annotated[FileOptions, "rare"],
    outputs: OutputOptions,
    cleaning: CleanOptions,
    merging: Annotated[MergeOptions, "rare"],
    files: list[str] = argument(..., f"What to clean. {FORMATS}", metavar="FILES..."),
    as_json: bool = as_json(),
) -> None:
    """Write files again without duplicates.

    Example: esdedup clean shards/ -o clean/

    No file is changed: the records that stay are written to --output as they came, in files of the
    same names and formats. Without --output, this only shows what would be removed.
    """
    if not cleaning.against:
        place = [option.name for option in fields(Target)]
        options.refuse([*place, "against_field", "only_between"], "requires --against")
    if outputs.task is not None:
        refused = ["update", "engine", *(() if cleaning.unit == "span" else ("unit",))]
        options.refuse(refused, "can't be combined with --task", in_files=True)
    if cleaning.unit != "span":
        options.refuse(["max_repeats", "cut", "drop_over"], "requires --unit span")
    outputs.check()
    scheme, text_field = of_files.scheme_and_fields(
        grouping.limits.distance, cosine=grouping.limits.cosine
    )
    paths = of_files.named(files)
    rule = _rule(grouping, scheme) if cleaning.unit is None else cleaning.units_removed
    letters = outputs.dead_letters("clean", of_files.dead_letter, paths)
    with letters, ExitStack() as opened, output.Progress() as progress, outputs.resumable():
        request = outputs.request(files, paths, of_files, text_field or ["text"], letters)
        report: CleanReport | None
        if cleaning.unit == "span":
            refused = ["engine", "exact", "threshold", "conflict", "collect", "fill"]
            options.refuse(refused, "can't be combined with --unit")
            against = opened_against(cleaning.against or [], target, opened, of_files.text_field)
            spans = SpanRequest(
                replace(request, against=against, against_fields=cleaning.against_field),
                cleaning.spans,
                grouping.keep,
                scheme,
                cleaning.update,
                cleaning.max_memory,
                cleaning.only_between,
            )
            report = spans.run(progress)
        elif cleaning.unit is not None:
            refused = ["against", "only_between", "update", "removed", "engine", "max_memory"]
            refused += ["workers", "keep", "id_field", "exact", "threshold", "conflict"]
            refused += ["collect", "fill"]
            options.refuse(refused, "can't be combined with --unit")
            report = UnitRequest(request, cleaning.unit, cleaning.min_words or 1).run(progress)
        elif cleaning.engine == "spark":
            report = _on_spark(request, cleaning.against or [], grouping, scheme)
        else:
            text_field = of_files.text_field if cleaning.update else None
            against = opened_against(cleaning.against or [], target, opened, text_field)
            duplicates = NearDuplicateRequest(
                replace(request, against=against, against_fields=cleaning.against_field),
                grouping,
                scheme,
                cleaning.update,
                cleaning.max_memory,
                cleaning.only_between,
                merging.merge,
            )
            report = duplicates.run(progress)
    if report is not None:
        if report.units is None:
            message(*report.warnings(grouping.limits))
        listed = request.listed
        if cleaning.engine == "spark" and outputs.written is not None:
            listed = f"{outputs.written.rstrip('/')}/_removed.parquet"
        outputs.conclude(report, letters, as_json, RemovalRule(rule, listed))


def _rule(grouping: Grouping, scheme: Scheme | None) -> str:
    """Return in words which documents are duplicates.

    scheme: None for the one of the limits. Raises UsageError for limits that it can't hold.
    """
    if grouping.exact:
        return "documents with the text of another"
    options.check_limits(scheme, grouping.limits)
    sketch = (scheme or Scheme.of_texts(grouping.limits)).chosen(grouping.limits)
    return f"documents with a {sketch.measure.within(sketch.settled(grouping.limits))}"


def _on_spark(
    request: FileRequest, against: list[str], grouping: Grouping, scheme: Scheme | None
) -> CleanReport:
    """Remove the documents of files that duplicate others, on Spark."""
    refused = ["update", "removed", "workers", "max_memory", "against_field", "only_between"]
    refused += ["collect", "fill"]
    options.refuse(refused, "can't be combined with --engine spark")
    if index := next((name for name in against if against_kind(name) != "files"), None):
        raise UsageError(f"--against {index}: --engine spark compares with files only")
    if STDIN in request.paths or STDIN in against:
        raise UsageError("standard input can't be combined with --engine spark: name a file")
    # After the refusals, which need no PySpark.
    from esdedup.spark import clean as on_spark

    reading = request.reading
    # Checks the names of the fields.
    reading.chunks(request.paths, columns=grouping.keep.paths([]))
    report = on_spark(
        None,
        request.arguments,
        request.output,
        format=reading.format,
        encoding=reading.encoding,
        delimiter=reading.delimiter,
        id_field=reading.id_field,
        text_field=reading.text_fields,
        scheme=scheme,
        work=request.work,
        against=against,
        dead_letter=request.dead_letter,
        grouping=grouping,
    )
    message(report.unordered.warning(grouping.keep))
    return report


def decontaminate_command(
    target: Target,
    of_files: Annotated[FileOptions, "rare"],
    outputs: OutputOptions,
    removal: Annotated[ItemRemovalOptions, "rare"],
    files: list[str] | None = argument(
        None, f"Clean these instead of an index. {FORMATS}", metavar="[FILES]..."
    ),
    against: list[str] | None = setting(
        None, "Files of the items, or an index (.db); may be repeated.", metavar="FILES"
    ),
    against_field: list[str] | None = options.against_field(),
    share: float = setting(
        0.8, "Minimum share of an item's words in a document.", bounds=(0.01, 1.0)
    ),
    mask: bool = setting(False, "Cut the items from the texts, and keep the records."),
    mask_sentences: bool = setting(False, "Cut all sentences that have a part of an item."),
    as_json: bool = as_json(),
) -> None:
    """Remove records that hold an item, such as one of a benchmark.

    Example: esdedup decontaminate shards/ --against quiz.jsonl -o clean/

    No file is changed: the records that stay are written to --output as they came. Without
    --output, this only shows what would be removed.

    Example: esdedup decontaminate -i news --against quiz.jsonl

    Without FILES, the documents of an index that hold an item are shown, or removed (--apply).
    """
    refuse(["bits", "vectors", "passages"], "can't be combined with decontaminate")
    if not against:
        raise UsageError("decontaminate requires --against: the files of the items")
    if not files:
        outside = [option.name for option in [*fields(FileOptions), *fields(OutputOptions)]]
        refused = [name for name in outside if name not in _OF_ITEMS]
        refuse([*refused, "mask", "mask_sentences"], "requires FILES")
        of_items = replace(of_files, text_field=against_field or of_files.text_field)
        _from_index(target, of_items, outputs.removed, removal, against, share, as_json)
        return
    refuse([option.name for option in fields(RemovalOptions)], "can't be combined with FILES")
    outputs.check()
    paths = of_files.named(files)
    scheme, text_field = of_files.scheme_and_fields()
    letters = outputs.dead_letters("decontaminate", of_files.dead_letter, paths)
    with letters, ExitStack() as opened, output.Progress() as progress, outputs.resumable():
        request = outputs.request(files, paths, of_files, text_field or ["text"], letters)
        evidence = surroundings().evidence or Evidence()
        compared = opened_against(against, target, opened, None)
        request = replace(request, against=compared, against_fields=against_field)
        job = ContainmentRequest(
            request, share, "sentences" if mask_sentences else mask, scheme, evidence
        )
        report: CleanReport | None = job.run(progress)
    if report is not None:
        removed = (
            "items, and documents with nothing else" if mask or mask_sentences else "documents"
        )
        rule = f"{removed} with {share:g} of an item or more"
        outputs.conclude(report, letters, as_json, RemovalRule(rule, request.listed))


def _from_index(
    target: Target,
    of_files: FileOptions,
    removed: str | None,
    removal: RemovalOptions,
    against: list[str],
    share: float,
    as_json: bool,
) -> None:
    """Show the documents of an index that hold an item, or remove them."""
    removal.check()
    with target.open() as index:
        if removal.destination is not None:
            index.location.check_apart(removal.destination)
        groups, failed = _find(index, of_files, removed, removal.log, against, share, as_json)
        output.warn_before(index, groups.grouping.limits)
        with output.Progress() as progress:
            plan = index.dedup(
                removal.intended,
                to=removal.destination,
                log=removal.log,
                groups=groups,
                on_step=progress.step,
                grouping=groups.grouping,
            )
        applied = conclude(index, plan, removal, failed)
    if applied is not None:
        show_removal(index, applied, removal, as_json, failed)


def _find(
    index: Index,
    of_files: FileOptions,
    removed: str | None,
    log: Path | None,
    against: list[str],
    share: float,
    as_json: bool,
) -> tuple[Groups, int]:
    """Show the documents of an index that hold items. Return these, and the number of bad items.

    log: a file that is written later.
    """
    files = of_files.named(against)
    text_fields = of_files.text_field or index.meta.text_fields
    if removed is not None:
        check_result("--removed", removed)
    outputs = {"--removed": [removed], "--log": [None if log is None else str(log)]}
    letters = dead_letters(of_files.dead_letter, index.location.index, files, outputs)
    with letters, output.Progress() as progress:
        request = ItemRequest(files, of_files.reading(text_fields), share, letters, removed)
        report, groups = request.run(index, progress)
    show_report(report, as_json, {})
    words = (report.contained or {})["guarantee"]
    cause = (
        f"fewer than {words} words in a row of an" if words else "parts of a truncated or stopped"
    )
    message(f"Documents that share {cause} item may be missing")
    if report.failed:
        message(f"{count(report.failed, 'record')} skipped: see {letters.path}")
    return groups, report.failed
