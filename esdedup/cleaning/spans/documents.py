"""The spans that a job cuts from documents, the table that lists them, and the texts without."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from esdedup.cleaning.outputs import RetainedRecords
from esdedup.cleaning.removals import PLACES, Corpus
from esdedup.cleaning.report import CleanReport
from esdedup.compare.columns import texts_by_number
from esdedup.runs.run import Arrays
from esdedup.runs.shares import StoredTexts
from esdedup.tabular import Tabular
from esdedup.text.arrays import I64, Mask, blocks, run_starts
from esdedup.text.cuts import without_words

_ROWS_AT_ONCE = 1 << 18
_BYTES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class CutSpans:
    """CutSpans of documents that repeat others, by document and start, as arrays of shape (n,).

    document: its number.
    start: the first character in its text.
    end: the end there.
    words: number of words.
    original: the number of the document that stays with the first occurrence.
    original_start: the first character in its text.
    original_end: the end there.
    """

    document: I64
    start: I64
    end: I64
    words: I64
    original: I64
    original_start: I64
    original_end: I64

    @property
    def columns(self) -> Arrays:
        """The arrays by their names."""
        return {**vars(self)}

    def picked(self, rows: I64 | slice) -> CutSpans:
        """Return some spans."""
        return CutSpans(**{name: column[rows] for name, column in self.columns.items()})

    def __len__(self) -> int:
        return self.document.size


@dataclass(frozen=True)
class Cuts:
    """Characters that are cut from the texts of documents, by document and start, shape (n,).

    document: its number.
    start: the first character.
    end: the end.
    """

    document: I64
    start: I64
    end: I64

    @property
    def columns(self) -> Arrays:
        """The arrays by their names, as they are saved."""
        return {f"cut_{name}": column for name, column in vars(self).items()}

    def picked(self, rows: slice) -> Cuts:
        """Return some cuts."""
        return Cuts(self.document[rows], self.start[rows], self.end[rows])


class ShortenedTexts(Mapping[int, str]):
    """The texts of a file's documents without what is cut, by line, ascending.

    They are read when they are requested, and in memory a block at a time: half of a corpus can
    change. Requests in the order of the lines read each text once.

    texts: as they were.
    documents: numbers of those that change, ascending, shape (n,).
    lines: of these, ascending, shape (n,).
    cuts: from these.
    edges: document i loses cuts[edges[i]:edges[i + 1]], shape (n + 1,).
    """

    def __init__(
        self, texts: StoredTexts, documents: I64, lines: I64, cuts: Cuts, edges: I64
    ) -> None:
        self._texts, self._documents, self._lines = texts, documents, lines
        self._cuts, self._edges = cuts, edges
        blocks_of_texts = [*blocks(texts.sizes(documents), _BYTES_AT_ONCE)]
        self._block_starts = np.array([block.start for block in blocks_of_texts], np.int64)
        self._block_start = 0
        self._block: list[str] = []

    def __len__(self) -> int:
        return self._lines.size

    def __iter__(self) -> Iterator[int]:
        yield from self._lines.tolist()

    def __contains__(self, line: object) -> bool:
        return isinstance(line, int) and self._row_of(line) is not None

    def __getitem__(self, line: int) -> str:
        row = self._row_of(line)
        if row is None:
            raise KeyError(line)
        if not self._block_start <= row < self._block_start + len(self._block):
            self._read_block_of(row)
        return self._block[row - self._block_start]

    def _row_of(self, line: int) -> int | None:
        """Return the row of a line, None if its text stays."""
        row = int(self._lines.searchsorted(line))
        return row if row < self._lines.size and self._lines[row] == line else None

    def _read_block_of(self, row: int) -> None:
        """Read the texts of the block that has a row, and cut them."""
        number = int(np.searchsorted(self._block_starts, row, "right"))
        bounds = [*self._block_starts.tolist(), self._lines.size]
        block = slice(bounds[number - 1], bounds[number])
        self._block.clear()  # Before the next one is read.
        edges = itertools.pairwise(self._edges[block.start : block.stop + 1].tolist())
        texts = self._texts(self._documents[block])()
        for text, (begin, end) in zip(texts, edges, strict=True):
            starts, ends = self._cuts.start[begin:end].tolist(), self._cuts.end[begin:end].tolist()
            self._block.append(without_words(text, [*zip(starts, ends, strict=True)]))
        self._block_start = block.start


@dataclass(frozen=True)
class CutDocuments:
    """Documents without the spans that came before.

    corpus: that they are of.
    spans: that came before, also of documents that are dropped.
    cuts: from the documents that stay.
    dropped: numbers of documents that lose too much to stay, ascending.
    report: the counts.
    """

    corpus: Corpus
    spans: CutSpans
    cuts: Cuts
    dropped: I64
    report: CleanReport

    left_whole: ClassVar[None] = None
    """No table: documents have no labels."""

    @staticmethod
    def load(corpus: Corpus, arrays: Arrays, report: CleanReport) -> CutDocuments:
        """Return what `to_arrays` returned before."""
        dropped = arrays.pop("dropped")
        cuts = {name[4:]: arrays.pop(name) for name in [*arrays] if name.startswith("cut_")}
        return CutDocuments(corpus, CutSpans(**arrays), Cuts(**cuts), dropped, report)

    def to_arrays(self) -> Arrays:
        """Return arrays to save."""
        return {**self.spans.columns, **self.cuts.columns, "dropped": self.dropped}

    @property
    def records(self) -> int:
        """The number of records of the files to write."""
        ends = self.corpus.ends
        return ends[-1] - ends[0]

    @cached_property
    def retained(self) -> Mask:
        """Mark the later documents that stay, shape (documents of the corpus,)."""
        retained = np.ones(self.corpus.rows.size, np.bool_)
        retained[: self.corpus.first] = False
        retained[self.dropped] = False
        return retained

    def retained_records(self) -> Iterator[RetainedRecords]:
        """Yield the records that stay of each later file, with their new texts."""
        corpus = self.corpus
        lines, is_retained = corpus.lines, corpus.lines > 0
        is_retained[corpus.rows[self.dropped]] = False
        texts = texts_by_number(corpus.shares)
        for start, end in itertools.pairwise(corpus.ends):
            in_file = slice(start, end)
            first, last = np.searchsorted(corpus.rows, [start, end]).tolist()
            changed = self._changed(texts, first, last)
            yield RetainedRecords(np.abs(lines[in_file]), is_retained[in_file], changed)

    def _changed(self, texts: StoredTexts, first: int, last: int) -> ShortenedTexts:
        """Return the new texts of those documents of a range that change."""
        corpus = self.corpus
        low, high = np.searchsorted(self.cuts.document, [first, last]).tolist()
        cuts = self.cuts.picked(slice(low, high))
        starts = np.flatnonzero(run_starts(cuts.document))
        documents = cuts.document[starts]
        lines = corpus.lines[corpus.rows[documents]]
        return ShortenedTexts(texts, documents, lines, cuts, np.append(starts, high - low))

    def table(self) -> Tabular:
        """Return the table that lists the spans."""
        return SpansTable(self)


@dataclass(frozen=True, repr=False)
class SpansTable(Tabular):
    """CutSpans that came before, with where they and their first occurrences are."""

    decisions: CutDocuments
    columns: ClassVar[dict[str, str]] = {
        **PLACES,
        "start": "int64",
        "end": "int64",
        "words": "int64",
        "original_start": "int64",
        "original_end": "int64",
        "dropped": "bool",
    }

    def __len__(self) -> int:
        return len(self.decisions.spans)

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        corpus, retained = self.decisions.corpus, self.decisions.retained
        for start in range(0, len(self), _ROWS_AT_ONCE):
            spans = self.decisions.spans.picked(slice(start, start + _ROWS_AT_ONCE))
            numbers = np.stack(
                [spans.start, spans.end, spans.words, spans.original_start, spans.original_end]
            )
            rows = zip(
                corpus.places(spans.document),
                corpus.places(spans.original),
                numbers.T.tolist(),
                (~retained[spans.document]).tolist(),
                strict=True,
            )
            for place, original, of_span, is_dropped in rows:
                yield *place, *original, *of_span, is_dropped
