"""Remove the paragraphs or lines that a corpus repeats, except the first of each, inside documents.

Wenzek et al., "CCNet: extracting high quality monolingual datasets from web crawl data", LREC 2020,
section 3.1. Here a paragraph is found by a digest of 128 bits of its normalised text, and all are
compared, in 16 bytes of memory for each different one.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from esdedup.cleaning.outputs import CleanFiles, RetainedRecords
from esdedup.models import Counts
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import bad_record
from esdedup.records.files import BadRecord, Record, chunks_of_file
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import normalised_digests, read_digests
from esdedup.text.arrays import SeenValues
from esdedup.text.characters import is_unicode
from esdedup.text.words import tokenise

Unit = Literal["paragraph", "line"]
_BETWEEN = {"paragraph": re.compile(r"(\r?\n(?:[^\S\n]*\n)+)"), "line": re.compile(r"(\r?\n)")}


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


class RepeatedUnits:
    """Find the units that came before. min_words: shorter units are never removed.

    report: of all texts so far.
    """

    def __init__(self, unit: Unit, min_words: int) -> None:
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


def retained_without_repeated(
    repeated: RepeatedUnits, files: CleanFiles, dead_letter: DeadLetter
) -> Iterator[RetainedRecords]:
    """Yield the records that stay of each file, with their new texts.

    Raises InputError if a file can't be read.
    """
    text_field = files.text_fields[0]
    for path in files.files:
        lines, is_retained, changed = list[int](), list[bool](), dict[int, str]()
        for chunk in chunks_of_file(path, files.format, None, files.encoding):
            records = [*chunk.records()]
            texts = [_text_of(record, text_field) for record in records]
            shortened = repeated.without(texts)
            for record, text, new in zip(records, texts, shortened, strict=True):
                lines.append(record.line)
                is_retained.append(new is not None)
                if new is not None and new != text:
                    changed[record.line] = new
                if text is None:
                    reason = f"the field {text_field!r} is missing, or not text"
                    if isinstance(record, Record):
                        record = bad_record(record, reason)
                    dead_letter(record)
        numbers = np.array(lines, np.int64)
        yield RetainedRecords(numbers, np.array(is_retained, np.bool_), changed)


def _text_of(record: Record | BadRecord, field: str) -> str | None:
    text = None if record.source is None else record.source.get(field)
    return text if isinstance(text, str) and is_unicode(text) else None
