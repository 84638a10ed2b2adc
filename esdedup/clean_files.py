"""Files in, files out, as functions: `clean` removes near-duplicates or repeated units, and
`decontaminate` the documents that hold items, such as those of a benchmark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from esdedup.arguments import size
from esdedup.cleaning.contained import Masking, check_masking
from esdedup.cleaning.job import CallbackReporter
from esdedup.cleaning.report import CleanReport
from esdedup.cleaning.requests import (
    ContainmentRequest,
    FileRequest,
    NearDuplicateRequest,
    SpanRequest,
    UnitRequest,
)
from esdedup.cleaning.spans.cutting import MIN_WORDS, Cut, SpanRule
from esdedup.cleaning.units import Unit
from esdedup.compare.keep_rule import KeepRule
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Method
from esdedup.index import Index
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.files import Format
from esdedup.records.inputs import Reading
from esdedup.records.merge import Merge
from esdedup.runs.progress import Progress, shown
from esdedup.sketch.limits import ACTING, MAX_PER_BUCKET, Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.within import Within
from esdedup.stores.mapping import TextFields, names_of

Path = str | os.PathLike[str]
Paths = Path | Iterable[Path]


def clean(
    files: Paths,
    output: Path | None,
    *,
    against: Path | Index | Iterable[Path | Index] = (),
    against_field: TextFields | None = None,
    only_between: bool = False,
    update: bool = False,
    text_field: TextFields = "text",
    id_field: str | None = None,
    format: Format | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    scheme: Scheme | None = None,
    sketch: str | None = None,
    threshold: float | None = ACTING,
    distance: int | None = None,
    cover: float | None = None,
    words: int | None = None,
    cosine: float | None = None,
    within: str | Sequence[str] = (),
    recall: float | None = None,
    max_per_bucket: int = MAX_PER_BUCKET,
    method: Method = "leader",
    keep: str | Sequence[str] = "auto",
    exact: bool = False,
    split_templates: bool = False,
    conflict: str | None = None,
    collect: str | Sequence[str] = (),
    fill: str | Sequence[str] = (),
    unit: Unit | None = None,
    min_words: int | None = None,
    max_repeats: int = 1,
    cut: Cut = "words",
    drop_over: float = 0.9,
    removed: Path | None = None,
    work: Path | None = None,
    workers: int = 1,
    max_memory: int | str | None = None,
    dead_letter: DeadLetter | None = None,
    progress: Progress = None,
) -> CleanReport:
    """Write files again without the documents that duplicate others.

    Each file is written as a whole or not at all, under its name. The same call again resumes a
    call that was killed. `CleanReport.open(output)` returns the report later.

    files: paths, folders, patterns such as "crawl/*.jsonl.gz", or addresses such as "s3://...".
    output: a new folder, or a file for all records; None to write nothing.
    against: files, a local index (.db), an open index, or kept sketches (.sketches): what is near
    one of their documents is removed, too.
    against_field: the field or fields of the text in the files of `against`; None for `text_field`.
    only_between: compare the files with `against` only: what is near others of the files stays.
    update: add what stays to the index or the sketches of `against`, which is created if missing.
    text_field: the field or fields of the text.
    id_field: the field of the id; None for `id`, or the path and the line.
    format: of all files, such as "jsonl"; None for that of the file's ending.
    encoding: of all files, such as "gb18030"; None for UTF-8.
    delimiter: of CSV files, such as ";"; None for a comma.
    scheme: of the tokens; None for one whose bands reach the recall at the threshold.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    cosine: minimum cosine, 0 to 1, for a sketch of vectors.
    within: fields that duplicates agree in, or windows of time, such as "date:3d".
    recall: fraction of similar pairs to find; None for 0.999, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    method: "leader", or "components" to join all documents of a chain of similar ones.
    keep: the document of a group that stays, such as "longest" or "newest:published"; of
    several rules, each decides the ties of the one before it.
    exact: remove only equal texts, after normalisation.
    split_templates: keep documents that fill one template differently.
    conflict: a field; groups that differ in it are left whole: none of them is a duplicate.
    collect: fields that become lists, to which a document that stays adds the distinct values of
    its duplicates.
    fill: fields that a document that stays takes from its first duplicate with a value, if it has
    none itself.
    unit: remove repeated paragraphs, lines, or spans of words inside documents, in place of
    documents.
    min_words: of a unit; shorter ones stay. None for 1, or 50 words of a span.
    max_repeats: spans that do not occur more often stay.
    cut: "words" to cut spans as they are; only "sentences" or "lines" that are whole in one.
    drop_over: documents of which others hold a larger fraction of the words are removed.
    removed: file for the list of what is removed; None for `_removed.jsonl.zst` in the output.
    work: folder to resume from; None for one beside the output.
    workers: number of processes. More than one import the main module again.
    max_memory: in bytes, or such as "8GB"; None for 2 GB, and 60 bytes per document.
    dead_letter: called with each record that can't be read, and is left out.
    progress: a function that is called with the name of a step, the amount done, and the total (0
    if unknown), or True for lines on standard error.

    Raises UsageError for wrong arguments, and for an output that exists; InputError for a file that
    can't be read, or that changes meanwhile.
    """
    limits = Limits(
        sketch,
        threshold,
        distance,
        recall=recall,
        max_per_bucket=max_per_bucket,
        cover=cover,
        words=words,
        cosine=cosine,
        within=Within.parse(within),
    )
    grouping = Grouping(limits, method, KeepRule.parse(keep), exact, split_templates, conflict)
    merge = Merge.parse(collect, fill)
    spans = SpanRule(min_words or MIN_WORDS, max_repeats, drop_over, cut)
    if unit != "span" and spans != SpanRule(min_words or MIN_WORDS):
        raise UsageError("`max_repeats`, `cut` and `drop_over` require the `unit` 'span'")
    if unit is not None:
        compared = _entries(against) or update or only_between
        if unit != "span" and compared:
            raise UsageError(
                f"`against`, `only_between` and `update` can't be combined with `unit` {unit!r}"
            )
        _check_alone(grouping, merge, with_keep=unit == "span")
    reading = Reading(format, encoding, names_of(text_field), id_field, delimiter=delimiter)
    request = _request(files, output, reading, dead_letter)
    request = replace(
        request,
        against=_entries(against),
        against_fields=None if against_field is None else names_of(against_field),
        removed=_path(removed),
        work=_path(work),
        workers=workers,
    )
    memory = None if max_memory is None else size(max_memory)
    job: UnitRequest | SpanRequest | NearDuplicateRequest
    if unit == "span":
        job = SpanRequest(request, spans, grouping.keep, scheme, update, memory, only_between)
    elif unit is not None:
        job = UnitRequest(request, unit, min_words or 1)
    else:
        job = NearDuplicateRequest(request, grouping, scheme, update, memory, only_between, merge)
    with shown(progress) as on_step:
        return _whole(job.run(CallbackReporter(on_step)))


def decontaminate(
    files: Paths,
    against: Path | Index | Iterable[Path | Index],
    output: Path | None,
    *,
    against_field: TextFields | None = None,
    share: float = 0.8,
    mask: Masking = False,
    text_field: TextFields = "text",
    id_field: str | None = None,
    format: Format | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    scheme: Scheme | None = None,
    removed: Path | None = None,
    work: Path | None = None,
    workers: int = 1,
    dead_letter: DeadLetter | None = None,
    progress: Progress = None,
) -> CleanReport:
    """Write files again without the documents that hold an item, such as one of a benchmark.

    Each file is written as a whole or not at all, under its name. The same call again resumes a
    call that was killed. `CleanReport.open(output)` returns the report later.

    files: paths, folders, patterns such as "crawl/*.jsonl.gz", or addresses such as "s3://...".
    against: files of the items, a local index (.db), or an open index.
    output: a new folder, or a file for all records; None to write nothing.
    against_field: the field or fields of the text of the items; None for `text_field`.
    share: minimum share of an item's words that a document holds, in a stretch of its text.
    mask: cut the items from the texts, and remove only documents with nothing else; "sentences" to
    cut all sentences that have a part of an item.
    text_field: the field or fields of the text.
    id_field: the field of the id; None for `id`, or the path and the line.
    format: of all files, such as "jsonl"; None for that of the file's ending.
    encoding: of all files, such as "gb18030"; None for UTF-8.
    delimiter: of CSV files, such as ";"; None for a comma.
    scheme: how texts become words; None for the default one.
    removed: file for the list of what is removed; None for `_removed.jsonl.zst` in the output.
    work: folder to resume from; None for one beside the output.
    workers: number of processes. More than one import the main module again.
    dead_letter: called with each record that can't be read, and is left out.
    progress: a function that is called with the name of a step, the amount done, and the total (0
    if unknown), or True for lines on standard error.

    Raises the errors of `clean`.
    """
    if not 0.0 < share <= 1.0:
        raise UsageError(f"share {share}: use a share above 0, up to 1")
    check_masking(mask)
    reading = Reading(format, encoding, names_of(text_field), id_field, delimiter=delimiter)
    request = _request(files, output, reading, dead_letter)
    request = replace(
        request,
        against=_entries(against),
        against_fields=None if against_field is None else names_of(against_field),
        removed=_path(removed),
        work=_path(work),
        workers=workers,
    )
    with shown(progress) as on_step:
        reporter = CallbackReporter(on_step)
        return _whole(ContainmentRequest(request, share, mask, scheme).run(reporter))


def _request(
    files: Paths, output: Path | None, reading: Reading, dead_letter: DeadLetter | None
) -> FileRequest:
    """Return the files to clean."""
    arguments = [str(entry) for entry in _entries(files)]
    paths = reading.files(arguments)
    return FileRequest(arguments, paths, _path(output), reading, dead_letter=dead_letter or _ignore)


def _entries(entries: Path | Index | Iterable[Path | Index]) -> list[str | Index]:
    """Return one entry, or several, with paths as text."""
    if isinstance(entries, str | os.PathLike | Index):
        entries = [entries]
    return [entry if isinstance(entry, Index) else os.fspath(entry) for entry in entries]


def _path(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def _ignore(*_: object) -> None:
    """Ignore a record that can't be read: the report counts these."""


def _check_alone(grouping: Grouping, merge: Merge, *, with_keep: bool) -> None:
    """Raise UsageError for settings that can't be combined with `unit`.

    with_keep: a keep rule can be.
    """
    if merge:
        raise UsageError(f"`{merge.setting}` can't be combined with `unit`")
    if grouping != (Grouping(keep=grouping.keep) if with_keep else Grouping()):
        raise UsageError("settings of near-duplicates can't be combined with `unit`")


def _whole(report: CleanReport | None) -> CleanReport:
    """Return the report of a whole job, which always has one."""
    assert report is not None
    return report
