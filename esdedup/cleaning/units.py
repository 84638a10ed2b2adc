"""Remove the paragraphs or lines that a corpus repeats, except the first of each, inside documents.

Wenzek et al., "CCNet: extracting high quality monolingual datasets from web crawl data", LREC 2020,
section 3.1. Here a paragraph is found by a digest of 128 bits of its normalised text, and all are
compared, in 16 bytes of memory for each different one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from esdedup.cleaning.document_search import REPORT
from esdedup.cleaning.job import Assignment, Reporter
from esdedup.cleaning.outputs import CleanFiles, RetainedRecords
from esdedup.cleaning.report import CleanReport, UnitReport
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import bad_record
from esdedup.records.files import BadRecord, Record, chunks_of_file
from esdedup.runs.run import Run
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import normalised_digests, read_digests
from esdedup.stores.fields import value_at
from esdedup.text.arrays import SeenValues
from esdedup.text.characters import is_unicode
from esdedup.text.words import tokenise

SplitUnit = Literal["paragraph", "line"]
Unit = Literal["paragraph", "line", "span"]
"""What is removed in place of documents. Spans are those of `esdedup.cleaning.spans`."""
_BETWEEN = {"paragraph": re.compile(r"(\r?\n(?:[^\S\n]*\n)+)"), "line": re.compile(r"(\r?\n)")}


class SeenUnits:
    """Find the units that came before. min_words: shorter units are never removed.

    report: of all texts so far.
    """

    def __init__(self, unit: SplitUnit, min_words: int) -> None:
        self._seen, self.report = SeenValues(), UnitReport()
        self._between, self._min_words, self._scheme = _BETWEEN[unit], min_words, Scheme()

    def without(self, texts: Sequence[str | None]) -> list[str | None]:
        """Return the next texts without repeated units; None for one that loses all.

        None among the texts is a record that is no document.
        """
        # Units and the separators after them, by turns.
        pieces_of_texts = [self._between.split(text or "") for text in texts]
        units = [unit for pieces in pieces_of_texts for unit in pieces[::2]]
        squeezed = [" ".join(unit.split()) for unit in units]
        normalised, digests = normalised_digests(squeezed, self._scheme.normalisation)
        words = tokenise(normalised, self._scheme.shingling, self._scheme.seed).counts
        counted = np.flatnonzero(words >= max(1, self._min_words))
        is_repeated, different = np.zeros(len(units), np.bool_), self._seen.size
        keys = np.array(read_digests(digests[row] for row in counted.tolist()), "S16")
        is_repeated[counted] = self._seen.add(keys)
        next_is_repeated = iter(is_repeated.tolist())
        shortened = list[str | None]()
        for text, pieces in zip(texts, pieces_of_texts, strict=True):
            # A unit is removed with the separator after it.
            pairs = itertools.zip_longest(pieces[::2], pieces[1::2], fillvalue="")
            remainder = "".join(
                unit + separator for unit, separator in pairs if not next(next_is_repeated)
            )
            has_units = remainder == text or remainder.strip()
            shortened.append(remainder if has_units else None)
        failed = texts.count(None)
        self.report += UnitReport(
            documents=len(texts) - failed,
            changed=sum(new not in (None, old) for old, new in zip(texts, shortened, strict=True)),
            dropped=shortened.count(None) - failed,
            failed=failed,
            units=int(np.count_nonzero(words)),
            different=self._seen.size - different,
            removed=int(np.count_nonzero(is_repeated)),
            characters=sum(len(units[row]) for row in np.flatnonzero(is_repeated).tolist()),
        )
        return shortened


@dataclass(frozen=True)
class RepeatedUnits:
    """Removes the units that came before. One pass reads, decides and writes.

    files: to read and to write.
    dead_letter: called with each record that is no document.
    reporter: shows the progress.
    unit: what is compared.
    min_words: shorter units are never removed.
    """

    files: CleanFiles
    dead_letter: DeadLetter
    reporter: Reporter
    unit: SplitUnit
    min_words: int = 1

    @property
    def parameters(self) -> Mapping[str, object]:
        """The parameters that a run resumes by."""
        return {"unit": [self.unit, self.min_words]}

    def sketch(self, task: Assignment) -> None:
        """Sketch nothing: units are compared by the digests of one pass."""

    def decide(self, run: Run) -> UnitDecisions:
        """Return what decides while files are written; without an output, decide now."""
        # After a kill, all files are read again, and the missing ones written.
        run.save_value(REPORT, None)
        self.reporter.begin("Writing", None)
        decisions = UnitDecisions(
            SeenUnits(self.unit, self.min_words), self.files, self.dead_letter
        )
        if self.files.output is None:
            for _ in decisions.retained_records():
                self.reporter.show(decisions.units.report.documents)
        return decisions


@dataclass(frozen=True)
class UnitDecisions:
    """Decides which units of files stay, while the files are written in their order.

    units: of all files so far.
    files: to read.
    dead_letter: called with each record that is no document.
    """

    units: SeenUnits
    files: CleanFiles
    dead_letter: DeadLetter
    records: None = None

    @property
    def report(self) -> CleanReport:
        """The counts so far."""
        return CleanReport.of_units(self.units.report)

    def table(self) -> None:
        """Return no table: units are not listed."""

    @property
    def left_whole(self) -> None:
        """No table: units have no labels."""

    def retained_records(self) -> Iterator[RetainedRecords]:
        """Yield the records that stay of each file, with their new texts.

        Raises InputError if a file can't be read.
        """
        reading = self.files.reading
        text_field = reading.text_fields[0]
        for path in self.files.files:
            lines, is_retained, changed = list[int](), list[bool](), dict[int, str]()
            for chunk in chunks_of_file(path, reading.file_format, None, reading.encoding):
                records = [*chunk.records()]
                texts = [_text_of(record, text_field) for record in records]
                shortened = self.units.without(texts)
                for record, text, new in zip(records, texts, shortened, strict=True):
                    lines.append(record.line)
                    is_retained.append(new is not None)
                    if new is not None and new != text:
                        changed[record.line] = new
                    if text is None:
                        reason = f"the field {text_field!r} is missing, or not text"
                        if isinstance(record, Record):
                            record = bad_record(record, reason)
                        self.dead_letter(record)
            numbers = np.array(lines, np.int64)
            yield RetainedRecords(numbers, np.array(is_retained, np.bool_), changed)


def _text_of(record: Record | BadRecord, field: str) -> str | None:
    text = None if record.source is None else value_at(record.source, field)
    return text if isinstance(text, str) and is_unicode(text) else None
