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

from esdedup.clean.shards import Shards
from esdedup.models import Counts
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import bad_record
from esdedup.records.files import BadRecord, Record, chunks_in
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import normalised_digests, read_digests
from esdedup.text.arrays import I64, Mask, SeenValues
from esdedup.text.characters import is_unicode
from esdedup.text.words import tokenise

Unit = Literal["paragraph", "line"]
_BETWEEN = {"paragraph": re.compile(r"(\r?\n(?:[^\S\n]*\n)+)"), "line": re.compile(r"(\r?\n)")}


@dataclass(frozen=True)
class UnitReport(Counts):
    """Counts of the units that a run removes.

    documents: of the files. changed: those that lost a unit, and stay. dropped: those that lost
    all. failed: records that are no documents. units, different, removed: paragraphs or lines with
    words. characters: of the removed ones.
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
        parts = [self._between.split(text or "") for text in texts]
        units = [unit for each in parts for unit in each[::2]]
        squeezed = [" ".join(unit.split()) for unit in units]
        normalised, digests = normalised_digests(squeezed, self._scheme.normalisation)
        words = tokenise(normalised, self._scheme.shingling, self._scheme.seed).counts
        counted = np.flatnonzero(words >= max(1, self._min_words))
        repeated, before = np.zeros(len(units), np.bool_), self._seen.size
        keys = np.array(read_digests(digests[row] for row in counted.tolist()), "S16")
        repeated[counted] = self._seen.add(keys)
        gone, found = iter(repeated.tolist()), list[str | None]()
        for text, each in zip(texts, parts, strict=True):
            # A unit is removed with the separator after it.
            pieces = itertools.zip_longest(each[::2], each[1::2], fillvalue="")
            kept = "".join(unit + after for unit, after in pieces if not next(gone))
            found.append(kept if kept == text or kept.strip() else None)
        failed = texts.count(None)
        self.report += UnitReport(
            documents=len(texts) - failed,
            changed=sum(new not in (None, old) for old, new in zip(texts, found, strict=True)),
            dropped=found.count(None) - failed,
            failed=failed,
            units=int(np.count_nonzero(words)),
            different=self._seen.size - before,
            removed=int(np.count_nonzero(repeated)),
            characters=sum(len(units[row]) for row in np.flatnonzero(repeated).tolist()),
        )
        return found


def shares_without_repeated(
    repeated: RepeatedUnits, shards: Shards, dead_letter: DeadLetter
) -> Iterator[tuple[I64, Mask, str, dict[int, str]]]:
    """Yield of each file what `KeptRecords` has after its path.

    Raises InputError if a file can't be read.
    """
    text_field = shards.text_fields[0]
    for path in shards.files:
        lines, kept, changed = list[int](), list[bool](), dict[int, str]()
        for chunk in chunks_in(path, shards.format, None, shards.encoding):
            records = [*chunk.records()]
            texts = [_text_of(each, text_field) for each in records]
            for each, text, new in zip(records, texts, repeated.without(texts), strict=True):
                lines.append(each.line)
                kept.append(new is not None)
                if new is not None and new != text:
                    changed[each.line] = new
                if text is None:
                    reason = f"the field {text_field!r} is missing, or not text"
                    dead_letter(each if isinstance(each, BadRecord) else bad_record(each, reason))
        yield np.array(lines, np.int64), np.array(kept, np.bool_), text_field, changed


def _text_of(record: Record | BadRecord, field: str) -> str | None:
    text = None if record.source is None else record.source.get(field)
    return text if isinstance(text, str) and is_unicode(text) else None
