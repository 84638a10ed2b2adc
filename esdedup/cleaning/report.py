"""What a job on files reports: counts, the largest groups, and samples of what it removes."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from esdedup.cleaning.outputs import report_file
from esdedup.cleaning.removals import DocumentsLeftWhole, Removals
from esdedup.compare.columns import Columns
from esdedup.compare.keep_rule import Unordered
from esdedup.exceptions import UsageError
from esdedup.groups.conflicts import warning_of_conflicts
from esdedup.groups.groups import Groups
from esdedup.models import Counts
from esdedup.records.locations import content_of, look_up, written
from esdedup.search.buckets import Capped
from esdedup.search.scopes import warning_of_missing
from esdedup.search.warnings import missing_pairs, warning_of_blank
from esdedup.sketch.limits import Limits
from esdedup.text.arrays import I64, Mask

_LARGEST = 10
_SAMPLES = 10
_DOCUMENTS_OF_SAMPLE = 10
_EXCERPT = 1_000
"""Characters of a text in a sample."""


_BYTES_OF_UNIT = 16
"""Memory for each different unit."""


@dataclass(frozen=True)
class UnitReport(Counts):
    """Counts of the units that a run removes.

    documents: of the files.
    changed: those that lost a unit, and stay.
    dropped: those that lost all.
    failed: records that are no documents.
    units: paragraphs or lines with words.
    different: of these, those that differ from each other.
    removed: units that came before.
    characters: of the removed units.
    """

    documents: int = 0
    changed: int = 0
    dropped: int = 0
    failed: int = 0
    units: int = 0
    different: int = 0
    removed: int = 0
    characters: int = 0

    @property
    def memory(self) -> int:
        """Bytes of memory that the digests of the different units need."""
        return _BYTES_OF_UNIT * self.different


@dataclass(frozen=True)
class SpanReport:
    """Counts of the repeated spans that a run cuts.

    changed: documents that lost a span, and stay.
    spans: number of spans, also of documents that are dropped.
    against: of these, the spans that a document of the earlier files has.
    fraction: of the words of all documents that are removed, 0 to 1.
    frequent: the spans that occur most often: how often, where first, and how they begin.
    """

    changed: int
    spans: int
    against: int
    fraction: float
    frequent: Sequence[dict[str, object]] = ()


@dataclass(frozen=True)
class ConflictReport:
    """The groups that are left whole, because their documents have different labels.

    field: of the labels.
    groups: their number.
    documents: the number of their documents.
    samples: of the first groups the first documents: where they are, and their labels.
    """

    field: str
    groups: int
    documents: int
    samples: Sequence[Sequence[dict[str, object]]] = ()

    @staticmethod
    def of(field: str, left_whole: DocumentsLeftWhole) -> ConflictReport:
        """Return the report on documents that are left whole."""
        samples = left_whole.samples(_SAMPLES, _DOCUMENTS_OF_SAMPLE)
        return ConflictReport(field, left_whole.groups, len(left_whole), samples)

    @property
    def warning(self) -> str | None:
        """A sentence about the groups, or None if there are none."""
        return warning_of_conflicts(self.field, self.groups, self.documents)


@dataclass(frozen=True)
class MergeSample:
    """A document that takes values from its duplicates.

    file, line, id: where it is.
    values: the new values of its fields, by path.
    """

    file: str
    line: int
    id: str
    values: Mapping[str, object]


@dataclass(frozen=True)
class MergeReport:
    """What documents that stay take from their duplicates.

    documents: that take values.
    values: number of values that they take, by field.
    samples: some of these documents.
    untaken: number of duplicates with a value that has no form in JSON, which no document takes.
    """

    documents: int
    values: Mapping[str, int]
    samples: Sequence[MergeSample] = ()
    untaken: int = 0


@dataclass(frozen=True)
class CleanReport:
    """What was found among the later files.

    documents: those that stay and those that are removed.
    kept: number of documents that stay.
    removed: number of documents that are removed.
    against: of these, the duplicates of documents of the earlier files.
    failed: records that are no documents.
    groups: of two or more documents, also of the earlier files.
    bytes_kept: of texts in UTF-8, as they were read, or without masked items; None of those that
    stay in an index.
    bytes_removed: likewise.
    words_kept: of the same texts, also None.
    words_removed: likewise.
    recall: as of `Groups`.
    capped: as of `Groups`.
    largest: the largest groups.
    samples: duplicates over the range of similarity, each with the beginning of both texts; or
    spans with the text around them.
    contained: the counts of `find_contained`.
    unordered: documents that the keep rule can't compare.
    units: the counts of repeated units, in place of documents.
    unscoped: number of documents that lack a value of the scope, and duplicate none.
    blank: number of documents with a blank fingerprint, likewise.
    conflicts: the groups that are left whole; None if labels are not compared.
    merged: what documents that stay take from their duplicates; None if no field is named.
    spans: the counts of repeated spans, which documents that stay lose.
    """

    documents: int
    kept: int
    removed: int
    against: int
    failed: int
    groups: int
    bytes_kept: int | None
    bytes_removed: int
    words_kept: int | None
    words_removed: int
    recall: float | None
    capped: Capped
    largest: Sequence[dict[str, Any]] = ()
    samples: Sequence[dict[str, Any]] = ()
    contained: dict[str, int] | None = None
    unordered: Unordered = Unordered()  # noqa: RUF009
    units: UnitReport | None = None
    unscoped: int = 0
    blank: int = 0
    conflicts: ConflictReport | None = None
    merged: MergeReport | None = None
    spans: SpanReport | None = None

    @staticmethod
    def of_units(units: UnitReport) -> CleanReport:
        """Return the report on repeated units: documents that lose all of them are removed."""
        return CleanReport(
            documents=units.documents,
            kept=units.documents - units.dropped,
            removed=units.dropped,
            against=0,
            failed=units.failed,
            groups=0,
            bytes_kept=None,
            bytes_removed=0,
            words_kept=None,
            words_removed=0,
            recall=1.0,
            capped=Capped(),
            units=units,
        )

    @staticmethod
    def open(output: str | os.PathLike[str]) -> CleanReport:
        """Return the report on files that were written before. output: of the job.

        Raises UsageError if there is none.
        """
        file = report_file(os.fspath(output))
        if look_up(file, refresh=True) is None:
            raise UsageError(f"{file}: there is no such file: name the `output` of a complete run")
        return report_from_json(json.loads(content_of(file)))

    def save(self, file: str, like: str | None = None) -> None:
        """Save the report in a file of JSON. like: a path whose permissions it gets."""
        with written(file, like) as out:
            out.write(json.dumps(self.to_json(), indent=2).encode() + b"\n")

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, without values that only some jobs have and this one has not."""
        values = asdict(self)
        # Jobs without a scope, fingerprints, labels, merged fields or spans have none.
        for name in ("unscoped", "blank", "conflicts", "merged", "spans"):
            if not getattr(self, name):
                del values[name]
        return values

    def warnings(self, limits: Limits) -> list[str]:
        """Return warnings of pairs that may be missing. limits: of the comparison."""
        unscoped = warning_of_missing(limits.within, self.unscoped)
        blank = warning_of_blank(self.blank)
        conflicts = None if self.conflicts is None else self.conflicts.warning
        missing = missing_pairs(self.recall, self.capped, limits)
        return [*filter(None, [unscoped, blank, conflicts]), *missing]


def report_from_json(report: Mapping[str, Any]) -> CleanReport:
    """Return the report of a JSON object."""
    units, unordered, merged = report["units"], report["unordered"], report.get("merged")
    examples = tuple((id, value) for id, value in unordered["examples"])
    samples = tuple(MergeSample(**sample) for sample in (merged or {}).get("samples", ()))
    values = {
        "capped": Capped(**report["capped"]),
        "unordered": Unordered(unordered["count"], examples),
        "units": None if units is None else UnitReport(**units),
        "largest": tuple(report["largest"]),
        "samples": tuple(report["samples"]),
        "merged": None if merged is None else replace(MergeReport(**merged), samples=samples),
    }
    if (spans := report.get("spans")) is not None:
        values["spans"] = SpanReport(**spans)
    if (conflicts := report.get("conflicts")) is not None:
        values["conflicts"] = ConflictReport(**conflicts)
    return CleanReport(**{**report, **values})


def report_of(
    removals: Removals, columns: Columns, order: I64, groups: Groups | None
) -> CleanReport:
    """Return the report on what is removed. order: the document of each row of the columns."""
    corpus, removed, closest = removals.corpus, removals.removed, removals.closest
    sizes = _sizes(removals, [removals.retained, removed])
    sizes[:, 0] -= masked_sizes(removals)
    (bytes_kept, bytes_removed), (words_kept, words_removed) = sizes.tolist()
    return CleanReport(
        documents=order.size - corpus.first,
        kept=int(np.count_nonzero(removals.retained)),
        removed=int(np.count_nonzero(removed)),
        against=int(
            np.count_nonzero(removed[closest.document] & (closest.original < corpus.first))
        ),
        failed=corpus.failed,
        groups=0 if groups is None else len(groups),
        bytes_kept=bytes_kept,
        bytes_removed=bytes_removed,
        words_kept=words_kept,
        words_removed=words_removed,
        recall=1.0 if groups is None else groups.recall,
        capped=Capped() if groups is None else groups.capped,
        unordered=columns.unordered,
        unscoped=columns.unscoped,
        blank=0 if groups is None else groups.blank,
        largest=[] if groups is None else _largest(removals, groups),
        samples=_samples(closest, columns, np.argsort(order)),
    )


def masked_sizes(removals: Removals) -> I64:
    """Return the bytes, and the words, that documents lost that stay: shape (2,)."""
    masked = removals.masked
    if not masked.documents.size:
        return np.zeros(2, np.int64)
    is_masked = np.zeros_like(removals.removed)
    is_masked[masked.documents] = True
    sizes: I64 = _sizes(removals, [is_masked])[:, 0]
    sizes -= [masked.texts.counts.sum(), masked.words.sum()]
    return sizes


def _sizes(removals: Removals, marks: Sequence[Mask]) -> I64:
    """Return the bytes, and the words, of documents by their marks: shape (2, marks).

    They are those of the texts as they were read.
    """
    sizes, start = np.zeros((2, len(marks)), np.int64), 0
    for text_sizes in removals.corpus.shares.text_sizes():
        share = slice(start, start + text_sizes.bytes.size)
        in_share = np.stack([text_sizes.bytes, text_sizes.words])
        sizes += in_share @ np.stack([mark[share] for mark in marks]).T
        start = share.stop
    return sizes


def _largest(removals: Removals, groups: Groups) -> list[dict[str, Any]]:
    """Return the representatives of the largest groups, with the number of their documents."""
    largest = [*itertools.islice(groups, _LARGEST)]
    representatives = np.array([int(group.representative) for group in largest], np.int64)
    places = removals.corpus.places(representatives)
    return [
        {**place._asdict(), "documents": len(group.members) + 1}
        for place, group in zip(places, largest, strict=True)
    ]


def _samples(closest: Removals, columns: Columns, row_of: I64) -> list[dict[str, Any]]:
    """Return removals over the range of values. row_of: the row of each document."""
    if not len(closest):
        return []
    by_value = closest.picked(np.argsort(closest.value, kind="stable"))
    values = by_value.value
    targets = np.linspace(values[0], values[-1], _SAMPLES)
    chosen = by_value.picked(np.unique(np.searchsorted(values, targets)))
    shown = closest.measure.comparison.shown
    texts = [*map(shown, columns.texts_of(row_of[chosen.document])())]
    original_texts = [*map(shown, columns.texts_of(row_of[chosen.original])())]
    # The beginning of what a document contains.
    starts = chosen.start.tolist() or [0] * len(chosen)
    column = "contained" if chosen.are_contained else chosen.measure.column
    samples = []
    for row, (place, original) in enumerate(chosen.places()):
        value = float(chosen.value[row])
        samples.append(
            {
                **place._asdict(),
                **{f"original_{name}": part for name, part in original._asdict().items()},
                column: chosen.measure.typed(value),
                "text": texts[row][starts[row] :][:_EXCERPT],
                "original_text": original_texts[row][:_EXCERPT],
            }
        )
    return samples
