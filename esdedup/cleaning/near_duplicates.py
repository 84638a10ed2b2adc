"""Find the records of files that duplicate others, in a work folder.

Texts and tokens are read into the folder, then the decisions are saved in it, so that a run that is
killed resumes from the last of these steps.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from esdedup.cleaning.contained import Containment, find_contained, without_contained
from esdedup.cleaning.removals import Corpus, MaskedTexts, Removals
from esdedup.cleaning.report import CleanReport, report_from_json, report_of, report_to_json
from esdedup.compare.columns import Columns, columns_by_number
from esdedup.compare.plan import Plan
from esdedup.compare.resources import DEFAULT_MEMORY, Resources
from esdedup.compare.source import FileSource, ReadChunk
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups, groups_among
from esdedup.index import Index
from esdedup.records.files import Chunk, Record
from esdedup.runs.run import OnStep
from esdedup.runs.shares import Shares, StoredTexts
from esdedup.sketch.measures import COVER
from esdedup.stores.fields import text_at
from esdedup.text.arrays import I64
from esdedup.text.strings import Numbers, Strings

SKETCHED, REPORT = "sketched.json", "report.json"
"""Files of a run, with which its steps are done."""
RECORDS, _DECISIONS = "records", "decisions"


@dataclass(frozen=True)
class MemoryOfJob:
    """Memory besides what is sorted and compared at once, in bytes.

    base: of the program.
    document: for each document.
    """

    base: int = 192 << 20
    document: int = 60


MEMORY = MemoryOfJob()


@dataclass(frozen=True)
class CleanJob:
    """What a job on files reads, and how it decides.

    plan: of the comparison.
    names: of all files, of which the first ones are only compared with.
    earlier: number of these.
    grouping: which documents duplicate others.
    containment: find documents that contain earlier ones, in place of duplicates.
    mask: cut what documents contain from their texts, and remove only those with nothing else.
    workers: number of processes.
    max_memory: in bytes; the result does not depend on it.
    """

    plan: Plan
    names: Sequence[str]
    earlier: int
    grouping: Grouping
    containment: Containment | None = None
    mask: bool = False
    workers: int = 1
    max_memory: int | None = None

    def memory_of(self, documents: int) -> int:
        """Return the bytes of memory that are left to compare a number of documents.

        Raises UsageError if the memory is too small.
        """
        if self.max_memory is None:
            return DEFAULT_MEMORY
        needed = MEMORY.base + MEMORY.document * documents
        if self.max_memory <= needed:
            least = f"{(needed >> 20) + 1}MB"
            raise UsageError(f"`max_memory`: {documents:,} documents require {least}")
        return self.max_memory - needed


@dataclass(frozen=True)
class StoredRecords:
    """The records of files that earlier runs have read.

    lines: of all records, as bytes.
    counts: the number of records of each file.
    """

    lines: Iterable[bytes] = ()
    counts: Sequence[int] = ()


def chunks_of(index: Index, text_field: str) -> Iterator[Chunk]:
    """Yield the documents of an index in chunks: their ids, and their texts in a field."""
    text_fields, total = index.meta.text_fields, 0
    for batch in index.store.scan([*text_fields], index.meta):
        records = [
            Record(
                index.store.where,
                line,
                {text_field: text_at(document.source, text_fields)},
                document.id,
            )
            for line, document in enumerate(batch, total + 1)
        ]
        yield Chunk(partial(list, records))
        total += len(batch)


def sketch_into(
    shares: Shares,
    source: FileSource,
    names: Sequence[str],
    on_read: Callable[[int], None],
    before: StoredRecords = StoredRecords(),
) -> None:
    """Write the sketches of files to the shares of a run, unless an earlier run has done so.

    names: of the files of the source. on_read: called with the number of records so far. before:
    the records of the shares that come before.
    """
    run = shares.run
    if run.has(SKETCHED):
        return
    counts = dict.fromkeys(names, 0)
    with run.writing(RECORDS) as records:
        for lines in before.lines:
            records.write(lines)

        def on_chunk(chunk: ReadChunk) -> None:
            records.write(chunk.lines.tobytes())
            for name, number in chunk.files:
                counts[name] += number
            on_read(records.tell() // chunk.lines.itemsize)

        shares.write_all(replace(source, on_chunk=on_chunk).parts())
    run.save_value(SKETCHED, {"counts": [*before.counts, *counts.values()]})


def decide(shares: Shares, job: CleanJob, step: OnStep) -> tuple[Removals, CleanReport]:
    """Find the duplicates among the records of a run, unless an earlier run has done so.

    Raises UsageError if the memory is too small for the number of documents.
    """
    run, corpus = shares.run, _corpus_of(shares, job)
    if run.has(REPORT):
        return _saved_removals(corpus, job), report_from_json(run.value_of(REPORT))
    memory = job.memory_of(corpus.rows.size)
    columns = columns_by_number(shares, job.plan, corpus.first, memory)
    assert isinstance(columns.ids, Numbers)
    order = columns.ids.values
    if job.containment is None:
        resources = Resources(run.folder, step, memory)
        groups = groups_among(columns, job.plan, job.grouping, resources)
        removals = _duplicates(corpus, order, groups)
        report = report_of(removals, columns, order, groups)
    else:
        removals, counts = _containing(corpus, job, columns, step)
        report = replace(report_of(removals, columns, order, None), contained=counts)
    _save_removals(removals)
    run.save_value(REPORT, report_to_json(report))
    return removals, report


def _corpus_of(shares: Shares, job: CleanJob) -> Corpus:
    counts = np.array(shares.run.value_of(SKETCHED)["counts"], np.int64)
    file = shares.run.folder / RECORDS
    # An empty file can't be mapped.
    lines = np.memmap(file, np.int64, "r") if file.stat().st_size else np.empty(0, np.int64)
    return Corpus(shares, job.names, job.earlier, counts, lines)


def _duplicates(corpus: Corpus, order: I64, groups: Groups) -> Removals:
    """Return the later documents that duplicate others. order: the document of each row."""
    rows = groups.duplicate_rows
    rows = rows[order[rows] >= corpus.first]
    rows = rows[np.argsort(order[rows])]
    originals = order[groups.representative[rows]]
    values = groups.value[rows].astype(np.float64)
    return Removals.of_duplicates(corpus, groups.measure, order[rows], originals, values)


def _containing(
    corpus: Corpus, job: CleanJob, columns: Columns, step: OnStep
) -> tuple[Removals, dict[str, int]]:
    """Return the later documents that contain earlier ones, and counts."""
    texts, containment = columns.texts_of, job.containment
    assert isinstance(texts, StoredTexts)
    assert containment is not None
    spans, counts = find_contained(texts, corpus.first, containment, job.workers, step)
    removals = Removals(
        corpus,
        COVER,
        spans.document,
        spans.item,
        spans.fraction,
        spans.start,
        spans.end,
        are_contained=True,
    )
    if job.mask:
        masked = MaskedTexts(*without_contained(texts, spans, containment.evidence.bytes))
        counts["masked"] = masked.documents.size
        removals = replace(removals, masked=masked)
    return removals, counts


def _save_removals(removals: Removals) -> None:
    masked = removals.masked
    arrays = {
        "document": removals.document,
        "original": removals.original,
        "value": removals.value,
        "start": removals.start,
        "end": removals.end,
        "masked": masked.documents,
        "masked_texts": masked.texts.raw,
        "masked_offsets": masked.texts.offsets,
    }
    removals.corpus.shares.run.save(_DECISIONS, arrays)


def _saved_removals(corpus: Corpus, job: CleanJob) -> Removals:
    arrays: dict[str, Any] = corpus.shares.run.load(_DECISIONS)
    texts = Strings(arrays["masked_texts"], arrays["masked_offsets"])
    removals = Removals.of_duplicates(
        corpus,
        job.plan.measure,
        arrays["document"],
        arrays["original"],
        arrays["value"],
    )
    if job.containment is None:
        return removals
    return replace(
        removals,
        measure=COVER,
        are_contained=True,
        start=arrays["start"],
        end=arrays["end"],
        masked=MaskedTexts(arrays["masked"], texts),
    )
