"""Cut the spans of words that a corpus repeats from its documents, except the first occurrence.

Lee et al., "Deduplicating training data makes language models better", ACL 2022, section 4.2, with
words in place of bytes. A word is cut if it is in a window of words that occurs before, in a
document that stays, unless it is in that occurrence too, which an overlapping window can be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from esdedup.cleaning.document_search import REPORT
from esdedup.cleaning.inputs import FileInputs
from esdedup.cleaning.job import Assignment, Reporter
from esdedup.cleaning.near_duplicates import MEMORY
from esdedup.cleaning.removals import Corpus
from esdedup.cleaning.report import CleanReport, SpanReport, report_from_json
from esdedup.cleaning.sketching import corpus_of
from esdedup.cleaning.spans.cutting import (
    END,
    START,
    Cutter,
    SpanRule,
    TextBlock,
)
from esdedup.cleaning.spans.documents import CutDocuments, Cuts, CutSpans
from esdedup.cleaning.spans.repeated import (
    FrequentWindows,
    RepeatedSpans,
    Repetition,
    SharedWindows,
    WindowSearch,
)
from esdedup.compare.columns import Columns, columns_by_number
from esdedup.compare.keep_rule import KeepRule
from esdedup.compare.plan import Plan
from esdedup.compare.resources import Resources
from esdedup.groups.groups import Grouping
from esdedup.ingest.parallel import in_order
from esdedup.runs.run import Run
from esdedup.runs.shares import Shares, StoredTexts
from esdedup.search.buckets import Capped
from esdedup.sketch.scheme import Scheme
from esdedup.stores.memory_mapped import mapped
from esdedup.text.arrays import (
    I64,
    U64,
    Mask,
    Ragged,
    blocks,
    offsets_of,
    run_starts,
    runs_of,
    spanned,
)
from esdedup.text.strings import Numbers

_UNCUT = [START, END, START]
"""Columns of spans that are cut from their first word."""
_DECISIONS = "decisions"
_SAMPLES = 10
_FREQUENT = 10
_EXCERPT = 300
"""Characters of a span in a report."""
_CONTEXT = 100
"""Characters before and after it."""
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _Hashed:
    """The documents of a corpus as words, in the order of precedence.

    columns: the documents.
    order: the number of the document of each row, shape (n,).
    words: of each row.
    """

    columns: Columns
    order: I64
    words: Ragged

    def rows_of(self, positions: I64) -> I64:
        """Return the documents of words, as rows."""
        return np.searchsorted(self.words.offsets, positions, "right") - 1

    @property
    def texts(self) -> StoredTexts:
        """The texts of the rows."""
        texts = self.columns.texts_of
        assert isinstance(texts, StoredTexts)
        return texts


@dataclass
class _Losses:
    """What documents lose, and the spans of this.

    lost: words of each row, shape (rows of the corpus,).
    bytes: likewise.
    cuts: for each document a row number, and what is cut.
    spans: for each block the row, first word, end, first character and end of each span, and the
    row, first word and end of its original: shape (m, 8).
    """

    lost: I64
    bytes: I64
    cuts: list[I64] = field(default_factory=lambda: [np.empty((0, 3), np.int64)])
    spans: list[I64] = field(default_factory=lambda: [np.empty((0, 8), np.int64)])


@dataclass(frozen=True)
class SpanSearch:
    """Finds the spans that documents of files repeat.

    inputs: the documents.
    plan: how they are read, and which one comes first.
    reporter: shows the progress.
    rule: which spans are cut.
    max_memory: in bytes; the result does not depend on it.
    only_between: spans of earlier documents only are cut.
    """

    inputs: FileInputs
    plan: Plan
    reporter: Reporter
    rule: SpanRule
    max_memory: int | None = None
    only_between: bool = False

    @property
    def parameters(self) -> Mapping[str, object]:
        """The parameters that a run resumes by."""
        return {
            "unit": "span",
            **self.rule.to_json(),
            "scheme": self.plan.meta.scheme.id,
            "keep": str(self.plan.keep),
            "only between": self.only_between,
            **self.inputs.parameters,
        }

    def sketch(self, task: Assignment) -> None:
        """Store the texts of the documents of a task, unless they are there."""
        self.inputs.sketch(self.plan, task, self.reporter)

    def decide(self, run: Run) -> CutDocuments:
        """Find the spans, unless the run has found them."""
        shares = Shares(run, self.inputs.earlier_shares(self.reporter))
        corpus = corpus_of(shares, self.inputs.names, self.inputs.earlier)
        if not run.has(REPORT):
            decisions = self._find(corpus)
            run.save(_DECISIONS, decisions.to_arrays())
            run.save_value(REPORT, decisions.report.to_json())
        # The same, whether it was found now or before.
        report = report_from_json(run.value_of(REPORT))
        decisions = CutDocuments.load(corpus, run.load(_DECISIONS), report)
        if warning := report.unordered.warning(self.plan.keep):
            self.reporter.say(warning)
        return decisions

    @property
    def _cutter(self) -> Cutter:
        return Cutter(self.rule, self.plan.scheme)

    def _find(self, corpus: Corpus) -> CutDocuments:
        """Find the spans, and what they leave of the documents."""
        memory = MEMORY.rest(self.max_memory, corpus.rows.size)
        folder = corpus.shares.run.folder
        resources = Resources(folder, self.reporter.step, memory)
        hashed = self._hashed(corpus, memory)
        repetition = Repetition(
            self.rule.min_words,
            self.rule.max_repeats,
            corpus.first,
            self.only_between,
            self.rule.hash_mask,
            self.rule.words_at_once,
        )
        with WindowSearch.of(hashed.words, repetition, resources) as search:
            repeated = search.spans()
            frequent = self._frequent(corpus, hashed, repeated.frequent)
            is_dropped, repeated = self._dropped(hashed, search, repeated)
        losses = self._losses(hashed, repeated)
        return self._decided(corpus, hashed, is_dropped, losses, frequent)

    def _hashed(self, corpus: Corpus, memory: int) -> _Hashed:
        """Hash the words of all documents, in their order of precedence."""
        columns = columns_by_number(corpus.shares, self.plan, corpus.first, memory)
        assert isinstance(columns.ids, Numbers)
        hashed = _Hashed(columns, columns.ids.values, Ragged.of_rows([]))
        counts = [np.empty(0, np.int64)]

        def hashes() -> Iterator[U64]:
            yield np.empty(0, np.uint64)
            rows = np.arange(hashed.order.size)
            for block, words in self._blocks(hashed, rows, self._cutter.words_of, "Hashing"):
                assert len(words) == block.size
                counts.append(words.counts)
                yield words.hashes

        all_hashes = mapped(corpus.shares.run.folder, hashes())
        words = Ragged(all_hashes, offsets_of(np.concatenate(counts)))
        return _Hashed(columns, hashed.order, words)

    def _blocks(
        self,
        hashed: _Hashed,
        rows: I64,
        work: Callable[[TextBlock], Answer],
        title: str,
        spans_of: Callable[[I64], list[I64]] = lambda _: [],
    ) -> Iterator[tuple[I64, Answer]]:
        """Yield blocks of rows, each with what is computed of their texts, in processes.

        spans_of: returns the spans of each row of a block.
        """
        texts = hashed.texts
        row_blocks = [
            rows[block]
            for block in blocks(texts.sizes(rows), self.rule.bytes_at_once)
            if block.start < block.stop
        ]

        items = (TextBlock(texts(block), spans_of(block)) for block in row_blocks)
        settled = 0
        with closing(in_order(self.inputs.workers, work, items)) as answers:
            for block, answer in zip(row_blocks, answers, strict=True):
                yield block, answer
                settled += block.size
                self.reporter.step(title, settled, rows.size)

    def _dropped(
        self, hashed: _Hashed, search: WindowSearch, repeated: RepeatedSpans
    ) -> tuple[Mask, RepeatedSpans]:
        """Return which documents are dropped, and the spans that those that stay have before.

        A document is dropped if documents before it that stay have too many of its words.

        repeated: the spans that any documents have before.
        """
        can_be_dropped = self._lose_too_much(hashed, repeated, np.ones(len(hashed.words), np.bool_))
        if not can_be_dropped.any():
            return can_be_dropped, repeated
        # All others stay. What only these documents have must stay where it occurs next.
        repeated = search.spans(can_be_dropped)
        is_dropped = self._lose_too_much(hashed, repeated, can_be_dropped)
        is_undecided = can_be_dropped & ~is_dropped
        if is_undecided.any():
            # One after another: rounds of all of them would be as many as versions of one text.
            shared = search.shared(can_be_dropped, is_undecided)
            undecided = np.flatnonzero(is_undecided)
            for block in blocks(hashed.words.counts[undecided], self.rule.words_at_once):
                for row in undecided[block].tolist():
                    is_dropped[row] = self._is_next_dropped(hashed, row, repeated, shared)
                shared.release()
            repeated = search.spans(is_dropped)
        return is_dropped, repeated

    def _lose_too_much(self, hashed: _Hashed, repeated: RepeatedSpans, chosen: Mask) -> Mask:
        """Mark those of some documents of which others have too many words, shape (rows,)."""
        lost = np.zeros(len(hashed.words), np.int64)
        if self.rule.cut == "words":
            offsets = hashed.words.offsets
            for block in blocks(hashed.words.counts, self.rule.words_at_once):
                if not chosen[block].any():
                    continue
                spans = _spans_of_others(hashed, repeated, block)
                if spans.size:
                    edges = offsets[block.start : block.stop + 1] - offsets[block.start]
                    is_cut = spanned(spans[:, START], spans[:, END], int(edges[-1]))
                    lost[block] = np.diff(offsets_of(is_cut)[edges])
        else:
            affected = np.flatnonzero(self._is_affected(hashed, repeated) & chosen)

            def spans_of(rows: I64) -> list[I64]:
                slices = (slice(row, row + 1) for row in rows.tolist())
                return [_spans_of_others(hashed, repeated, row)[:, _UNCUT] for row in slices]

            cut = self._cutter.cut
            for rows, text_cuts in self._blocks(hashed, affected, cut, "Cutting", spans_of):
                lost[rows] = [text_cut.lost for text_cut in text_cuts]
        return self.rule.drops(np.where(chosen, lost, 0), hashed.words.counts)

    def _is_next_dropped(
        self, hashed: _Hashed, row: int, repeated: RepeatedSpans, shared: SharedWindows
    ) -> bool:
        """Return whether the next undecided document is dropped. If not, its windows stay.

        repeated: spans of documents that stay in any case. Alone, they are too few.
        shared: windows of undecided documents.
        """
        first, end = hashed.words.offsets[row : row + 2].tolist()
        starts = shared.staying(first, end) - first
        is_dropped = False
        if starts.size:
            windows = np.stack([starts, starts + self.rule.min_words], axis=1)
            spans = _spans_of_others(hashed, repeated, slice(row, row + 1))
            spans = np.concatenate([windows, spans])
            is_cut = spanned(spans[:, START], spans[:, END], end - first)
            lost = int(is_cut.sum())
            if self.rule.cut != "words":
                block = TextBlock(hashed.texts(np.array([row])), [runs_of(is_cut)[:, _UNCUT]])
                lost = self._cutter.cut(block)[0].lost
            is_dropped = bool(self.rule.drops(np.array([lost]), np.array([end - first]))[0])
        if not is_dropped:
            shared.keep(first, end)
        return is_dropped

    def _is_affected(self, hashed: _Hashed, repeated: RepeatedSpans) -> Mask:
        """Mark documents with spans, shape (rows,)."""
        is_affected = np.zeros(len(hashed.words), np.bool_)
        is_affected[hashed.rows_of(repeated.start)] = True
        return is_affected

    def _losses(self, hashed: _Hashed, repeated: RepeatedSpans) -> _Losses:
        """Return what documents lose to spans."""
        offsets = hashed.words.offsets
        affected = np.flatnonzero(self._is_affected(hashed, repeated))
        losses = _Losses(*np.zeros((2, len(hashed.words)), np.int64))

        def spans_of(block: I64) -> list[I64]:
            return [
                _rows_of(repeated, offsets[row], offsets[row + 1], self.rule)
                for row in block.tolist()
            ]

        title, cut = "Cutting", self._cutter.cut
        for block, answers in self._blocks(hashed, affected, cut, title, spans_of):
            cuts, spans = list[I64](), list[I64]()
            for row, text_cut in zip(block.tolist(), answers, strict=True):
                losses.lost[row], losses.bytes[row] = text_cut.lost, text_cut.bytes
                cuts.append(_with_column(row, text_cut.cuts))
                first = int(np.searchsorted(repeated.start, offsets[row]))
                rows = first + text_cut.rows
                # The words of a span are at the same distance from those of its original.
                originals = text_cut.first_words + offsets[row]
                originals += repeated.original[rows] - repeated.start[rows]
                documents = hashed.rows_of(originals)
                originals -= offsets[documents]
                columns = [
                    text_cut.first_words,
                    text_cut.ends,
                    *text_cut.characters.T,
                    documents,
                    originals,
                    originals + text_cut.ends - text_cut.first_words,
                ]
                spans.append(_with_column(row, np.stack(columns, axis=1)))
            losses.cuts.append(np.concatenate(cuts))
            losses.spans.append(np.concatenate(spans))
        return losses

    def _decided(
        self,
        corpus: Corpus,
        hashed: _Hashed,
        is_dropped: Mask,
        losses: _Losses,
        frequent: list[dict[str, object]],
    ) -> CutDocuments:
        """Return the documents without their spans. losses: of those that are dropped, too."""
        order, counts = hashed.order, hashed.words.counts
        spans = np.concatenate(losses.spans)
        originals = self._places(hashed, spans[:, 5:])
        documents = order[spans[:, 0]]
        sorted_rows = np.lexsort((spans[:, 1], documents))
        spans, originals = spans[sorted_rows], originals[sorted_rows]
        table = CutSpans(
            documents[sorted_rows],
            spans[:, 3],
            spans[:, 4],
            spans[:, 2] - spans[:, 1],
            order[spans[:, 5]],
            *originals.T,
        )
        cuts = np.concatenate(losses.cuts)
        cuts = cuts[~is_dropped[cuts[:, 0]]]
        cut_documents = order[cuts[:, 0]]
        cut_order = np.lexsort((cuts[:, 1], cut_documents))
        is_later = np.ones(order.size, np.bool_)
        is_later[: corpus.first] = False
        text_bytes = hashed.texts.sizes(np.arange(order.size))
        totals = np.stack([text_bytes, counts])[:, is_later].sum(axis=1)
        removed = np.where(is_dropped, [text_bytes, counts], [losses.bytes, losses.lost])
        removed = removed.sum(axis=1)
        number_dropped = int(is_dropped.sum())
        report = CleanReport(
            documents=int(is_later.sum()),
            kept=int(is_later.sum()) - number_dropped,
            removed=number_dropped,
            against=0,
            failed=corpus.failed,
            groups=0,
            bytes_kept=int(totals[0] - removed[0]),
            bytes_removed=int(removed[0]),
            words_kept=int(totals[1] - removed[1]),
            words_removed=int(removed[1]),
            recall=1.0,
            capped=Capped(),
            unordered=hashed.columns.unordered,
            samples=self._samples(corpus, hashed, table),
            spans=SpanReport(
                changed=int(np.count_nonzero(losses.lost[~is_dropped])),
                spans=len(table),
                against=int(np.count_nonzero(table.original < corpus.first)),
                fraction=float(removed[1] / max(1, totals[1])),
                frequent=frequent,
            ),
        )
        dropped = np.sort(order[is_dropped])
        document_cuts = Cuts(cut_documents[cut_order], *cuts[cut_order, 1:].T)
        return CutDocuments(corpus, table, document_cuts, dropped, report)

    def _places(self, hashed: _Hashed, spans: I64) -> I64:
        """Return the first characters and the ends of spans of words, shape (n, 2).

        spans: the row of the document, the first word and the end of each, shape (n, 3).
        """
        order = np.argsort(spans[:, 0], kind="stable")
        spans = spans[order]
        rows = spans[run_starts(spans[:, 0]), 0]

        def spans_of(block: I64) -> list[I64]:
            edges = np.searchsorted(spans[:, 0], np.append(block, block[-1] + 1))
            return [spans[start:end, 1:] for start, end in itertools.pairwise(edges.tolist())]

        places = [np.empty((0, 2), np.int64)]
        for _, answer in self._blocks(hashed, rows, self._cutter.places, "Placing", spans_of):
            places.append(answer)
        unordered = np.empty((len(spans), 2), np.int64)
        unordered[order] = np.concatenate(places)
        return unordered

    def _samples(self, corpus: Corpus, hashed: _Hashed, spans: CutSpans) -> list[dict[str, object]]:
        """Return spans from all over the corpus, each with the text around it."""
        if not len(spans):
            return []
        chosen = spans.picked(np.unique(np.linspace(0, len(spans) - 1, _SAMPLES).astype(np.int64)))
        row_of = np.argsort(hashed.order)
        texts = hashed.texts(row_of[chosen.document])()
        places = zip(corpus.places(chosen.document), corpus.places(chosen.original), strict=True)
        samples = list[dict[str, object]]()
        for row, (place, original) in enumerate(places):
            start, end, text = int(chosen.start[row]), int(chosen.end[row]), texts[row]
            samples.append(
                {
                    **place._asdict(),
                    **{f"original_{name}": part for name, part in original._asdict().items()},
                    "words": int(chosen.words[row]),
                    "before": text[max(0, start - _CONTEXT) : start],
                    "text": text[start:end][:_EXCERPT],
                    "after": text[end : end + _CONTEXT],
                }
            )
        return samples

    def _frequent(
        self, corpus: Corpus, hashed: _Hashed, windows: FrequentWindows
    ) -> list[dict[str, object]]:
        """Return the spans that occur most often, with their beginnings."""
        size = self.rule.min_words
        rows_of_windows = hashed.rows_of(windows.starts)
        begins = run_starts(windows.counts) | run_starts(rows_of_windows)
        begins[1:] |= np.diff(windows.starts) != 1
        edges = np.append(np.flatnonzero(begins), windows.starts.size)
        starts, lengths = windows.starts[edges[:-1]], np.diff(edges) + size - 1
        counts = windows.counts[edges[:-1]]
        chosen = list[int]()
        for span in np.lexsort((starts, -lengths, -counts)).tolist():
            is_apart = all(
                starts[span] >= starts[earlier] + lengths[earlier]
                or starts[earlier] >= starts[span] + lengths[span]
                for earlier in chosen
            )
            if is_apart:
                chosen.append(span)
            if len(chosen) == _FREQUENT:
                break
        rows = rows_of_windows[edges[:-1]][chosen]
        first_words = starts[chosen] - hashed.words.offsets[rows]
        spans = np.stack([rows, first_words, first_words + lengths[chosen]], axis=1)
        characters = self._places(hashed, spans).tolist()
        places = corpus.places(hashed.order[rows])
        texts = hashed.texts(rows)()
        return [
            {
                "count": int(counts[span]),
                "words": int(lengths[span]),
                **place._asdict(),
                "text": text[start:end][:_EXCERPT],
            }
            for span, place, text, (start, end) in zip(
                chosen, places, texts, characters, strict=True
            )
        ]


def _rows_of(repeated: RepeatedSpans, first: int, end: int, rule: SpanRule) -> I64:
    """Return the spans in a range of words, which begins with a document: shape (n, 3).

    Their columns are `START`, `END` and `CUT_FROM`, counted from the first word.
    """
    chosen = slice(*np.searchsorted(repeated.start, [first, end]).tolist())
    starts = repeated.start[chosen]
    # The words of the first occurrence itself stay, if it overlaps the span.
    cut_from = np.maximum(starts, repeated.original[chosen] + rule.min_words)
    rows: I64 = np.stack([starts, starts + repeated.words[chosen], cut_from], axis=1) - first
    return rows


def _spans_of_others(hashed: _Hashed, repeated: RepeatedSpans, documents: slice) -> I64:
    """Return the spans of documents that others have before: their first words and ends.

    They are counted from the first word of the documents, shape (n, 2).
    """
    offsets = hashed.words.offsets
    first, end = offsets[documents.start], offsets[documents.stop]
    chosen = slice(*np.searchsorted(repeated.start, [first, end]).tolist())
    starts, originals = repeated.start[chosen], repeated.original[chosen]
    rows: I64 = np.stack([starts, starts + repeated.words[chosen]], axis=1) - first
    return rows[originals < offsets[hashed.rows_of(starts)]]


def _with_column(value: int, columns: I64) -> I64:
    """Return rows with a value before the others."""
    return np.concatenate([np.full((len(columns), 1), value), columns], axis=1)


def span_plan(scheme: Scheme | None, keep: KeepRule, text_fields: Sequence[str]) -> Plan:
    """Return the plan to read texts by. scheme: how they become words; None for the default."""
    scheme = scheme or Scheme()
    # Only words are needed.
    scheme = scheme.only(scheme.banded.wide(1))
    plan = Plan.of_texts(scheme, Grouping().limits, keep, text_fields, exact=True)
    # The words are hashed later, in their order of precedence.
    return replace(plan, is_unsketched=True)
