"""Find the documents of a corpus that hold others, such as the items of a benchmark.

Broder, "On the resemblance and containment of documents", 1997, section 2, within a stretch of the
document, so that common phrases all over a long one do not add up to an item. Shingles that many
documents hold are no evidence, and items with fewer than eight words of evidence are ignored (Brown
et al., "Language models are few-shot learners", NeurIPS 2020, appendix C).
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from heapq import heappop, heappush
from operator import attrgetter
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from esdedup.cleaning.document_search import DocumentSearch, RemovedDocuments
from esdedup.cleaning.removals import Corpus, MaskedTexts, Removals
from esdedup.cleaning.report import masked_sizes, report_of
from esdedup.compare.columns import Columns, columns_by_number
from esdedup.compare.plan import Plan
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups
from esdedup.ingest.parallel import in_order
from esdedup.runs.run import Arrays, OnStep
from esdedup.runs.shares import StoredTexts
from esdedup.search.buckets import Capped
from esdedup.sketch.measures import COVER
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import hashed_words
from esdedup.text.arrays import F64, I64, U64, Mask, Ragged, blocks, ranges, run_starts
from esdedup.text.cuts import remainder_of, without_spans
from esdedup.text.highlight import placed
from esdedup.text.shingles import shingle
from esdedup.text.strings import Numbers, Strings

_LEAST_WORDS = 8
_STRETCH = 2
"""Words of a stretch of a document for each word of the item."""
Masking = bool | Literal["sentences"]
_Texts = Callable[[], list[str]]
T = TypeVar("T")


@dataclass(frozen=True)
class Evidence:
    """Which shingles are evidence, and how much is compared at once.

    few: a shingle is no evidence if more documents have it than this, and than `common` allows.
    common: the documents that may have it are their number divided by this.
    bytes: of texts at once.
    hits: shingles of texts that items have, at once.
    """

    few: int = 100
    common: int = 1_000
    bytes: int = 1 << 20
    hits: int = 1 << 20


@dataclass(frozen=True)
class Containment:
    """How documents contain items.

    scheme: how texts become shingles.
    fraction: least part of an item's words that a document has.
    among: number of documents of which those that are compared are candidates; 0 if these are all.
    evidence: which shingles count.
    """

    scheme: Scheme
    fraction: float
    among: int = 0
    evidence: Evidence = Evidence()


class Span(NamedTuple):
    """An item in a text.

    row: of the text.
    item: its number.
    fraction: of the item's words that the text has.
    start: the first character in the text.
    end: the end in the text.
    """

    row: int
    item: int
    fraction: float
    start: int
    end: int


@dataclass(frozen=True)
class Spans:
    """Items in documents, as arrays of shape (n,), by document. It may have one several times.

    document: numbers of documents.
    item: numbers of the items that they contain.
    fraction: of the item's words that the document has.
    start: the first character in the document's text.
    end: the end in the document's text.
    """

    document: I64
    item: I64
    fraction: F64
    start: I64
    end: I64

    @staticmethod
    def of(spans: list[Span]) -> "Spans":
        """Return spans whose rows are documents."""

        def numbers(name: str) -> I64:
            return np.array([getattr(span, name) for span in spans], np.int64)

        fraction = np.array([span.fraction for span in spans], np.float64)
        return Spans(numbers("row"), numbers("item"), fraction, numbers("start"), numbers("end"))


@dataclass(frozen=True)
class _Items:
    """The documents to find, in 32 bytes of memory for each shingle.

    hashes: of the m shingles that are evidence, ascending, shape (m,).
    places: of these among all shingles, by item, shape (m,).
    owners: their items, shape (m,).
    lengths: words of n items, shape (n,).
    """

    containment: Containment
    hashes: U64
    places: I64
    owners: I64
    lengths: I64

    @property
    def size(self) -> int:
        """The number of words of a shingle."""
        return self.containment.scheme.shingling.size

    @cached_property
    def words(self) -> F64:
        """The number of each item's words in these shingles; infinite for too few."""
        order = np.argsort(self.places)
        words = np.bincount(self.owners[order], self.added(self.places[order], self.owners[order]))
        different = self.owners[run_starts(self.hashes) | run_starts(self.owners)]
        enough = (words >= _LEAST_WORDS) & (np.bincount(different) >= 2)
        return np.where(enough, words, np.inf)

    def added(self, places: I64, owners: I64) -> I64:
        """Return the words from each of some shingles, ascending, to the next one of its item."""
        added = np.full(places.size, self.size)
        distances = np.minimum(np.diff(places), added[1:])
        added[:-1] = np.where(owners[1:] == owners[:-1], distances, added[1:])
        return added

    @cached_property
    def _may_exist(self) -> Mask:
        """Mark the upper 20 bits that some hash has."""
        may_exist = np.zeros(1 << 20, np.bool_)
        may_exist[self.hashes >> np.uint64(44)] = True
        return may_exist

    def hits(self, shingles: Ragged) -> "_Hits":
        """Return the shingles of texts that items have."""
        # The upper bits rule out most without a search.
        position = np.flatnonzero(self._may_exist[shingles.hashes >> np.uint64(44)])
        hashes = shingles.hashes[position]
        first = np.searchsorted(self.hashes, hashes)
        end = np.searchsorted(self.hashes, hashes, "right")
        exists = first < end
        position, first, end = position[exists], first[exists], end[exists]
        row = np.searchsorted(shingles.offsets, position, "right") - 1
        return _Hits(position, row, first, end)


@dataclass(frozen=True)
class _Hits:
    """Shingles of texts that items have, each of shape (hits,).

    position: among the shingles of all texts, ascending.
    row: of the text.
    first, end: the range of equal shingles of items.
    """

    position: I64
    row: I64
    first: I64
    end: I64


def find_contained(
    texts: StoredTexts,
    first: int,
    containment: Containment,
    mask: Masking,
    workers: int,
    step: OnStep,
) -> tuple[Spans, dict[str, int]]:
    """Return which documents contain one of the first ones, and counts.

    first: number of the first documents, the items. mask: find all spans to cut, in place of the
    best one of each item in a document. workers: number of processes.
    """
    scheme, total = containment.scheme, texts.order.size

    def read(start: int, end: int, work: Callable[[_Texts], T], title: str) -> Iterator[T]:
        rows = np.arange(start, end)
        blocks_of_rows = [
            rows[block] for block in blocks(texts.sizes(rows), containment.evidence.bytes)
        ]
        with closing(in_order(workers, work, map(texts, blocks_of_rows))) as answers:
            for block, answer in zip(blocks_of_rows, answers, strict=True):
                yield answer
                step(title, int(block.max(initial=0)) + 1, total)

    shingles = Ragged.joined([*read(0, first, partial(_shingles, scheme), "Hashing")])
    order = np.argsort(shingles.hashes, kind="stable")
    owners = np.repeat(np.arange(first), shingles.counts)[order]
    lengths = shingles.counts + scheme.shingling.size - 1
    items = _Items(containment, shingles.hashes[order], order, owners, lengths)
    documents_with = np.zeros(order.size, np.int64)
    for numbers in read(first, total, partial(_distinct_hits, items), "Counting"):
        np.add.at(documents_with, numbers, 1)
    evidence = containment.evidence
    most = max(evidence.few, max(containment.among, total - first) // evidence.common)
    is_common = documents_with > most
    # The first of equal shingles has their number.
    is_rare = ~is_common[np.searchsorted(items.hashes, items.hashes)]
    rare = replace(
        items, hashes=items.hashes[is_rare], places=order[is_rare], owners=owners[is_rare]
    )
    spans, start = list[Span](), first
    find = partial(_spans_to_cut, rare, mask) if mask else partial(_spans_in, rare, only_best=True)
    for documents, found_spans in read(first, total, find, "Finding"):
        spans += [span._replace(row=start + span.row) for span in found_spans]
        start += documents
    table = Spans.of(spans)
    return table, {
        "items": first,
        "found": np.unique(table.item).size,
        "ignored": first - int(np.isfinite(rare.words).sum()),
        "shingles": int(run_starts(items.hashes).sum()),
        "common": int(is_common.sum()),
        "memory": 32 * order.size,
    }


def without_contained(
    texts: StoredTexts, spans: Spans, containment: Containment, mask: Masking
) -> MaskedTexts:
    """Cut the items that documents contain from their texts; return those that have more."""
    spans_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
    order = np.lexsort((spans.start, spans.document))
    columns = spans.document[order], spans.start[order], spans.end[order]
    for document, start, end in np.stack(columns, axis=1).tolist():
        spans_of[document].append((start, end))
    documents = np.array([*spans_of], np.int64)
    remainders = list[str]()
    counts = [np.empty(0, np.int64)]
    whole_sentences = mask == "sentences"
    for block in blocks(texts.sizes(documents), containment.evidence.bytes):
        numbers = documents[block]
        remainders_of_block = [
            without_spans(text, spans_of[document], whole_sentences=whole_sentences)
            for document, text in zip(numbers.tolist(), texts(numbers)(), strict=True)
        ]
        counts.append(hashed_words(remainders_of_block, containment.scheme)[1].counts)
        remainders += remainders_of_block
    has_more = [not remainder.isspace() and remainder != "" for remainder in remainders]
    rows = np.flatnonzero(np.array(has_more, np.bool_))
    words = np.concatenate(counts)[rows]
    return MaskedTexts(documents[rows], Strings.of(remainders).picked(rows), words)


def _shingles(scheme: Scheme, texts: _Texts) -> Ragged:
    return shingle(hashed_words(texts(), scheme)[1], scheme.shingling.size)


def _distinct_hits(items: _Items, texts: _Texts) -> I64:
    """Return the first of equal shingles once for each text that has them."""
    hits = items.hits(_shingles(items.containment.scheme, texts))
    count = items.hashes.size
    return np.unique(hits.row * count + hits.first) % max(1, count)


def _spans_to_cut(items: _Items, mask: Masking, texts: _Texts) -> tuple[int, list[Span]]:
    """Return the number of texts, and spans without which no item is in them.

    A cut may bring words of an item together: its span has the cut in it.
    """
    strings = texts()
    whole_sentences = mask == "sentences"
    spans_of: dict[int, list[Span]] = defaultdict(list)
    _, spans = _spans_in(items, lambda: strings, only_best=False)
    while spans:
        for span in spans:
            spans_of[span.row].append(span)
        changed = sorted({span.row for span in spans})
        remainders = [
            remainder_of(
                strings[row],
                sorted((span.start, span.end) for span in spans_of[row]),
                whole_sentences=whole_sentences,
            )
            for row in changed
        ]
        remaining = [remainder.text for remainder in remainders]
        _, spans = _spans_in(items, partial(list, remaining), only_best=False)
        spans = [
            span._replace(row=changed[span.row], start=start, end=end)
            for span in spans
            for start, end in [remainders[span.row].original_interval(span.start, span.end)]
        ]
    in_texts = itertools.chain.from_iterable(spans_of.values())
    order = attrgetter("row", "item", "start", "end")
    return len(strings), sorted(in_texts, key=order)


def _spans_in(items: _Items, texts: _Texts, *, only_best: bool) -> tuple[int, list[Span]]:
    """Return the number of texts, and the items in them.

    only_best: of an item the best span in a text, in place of all disjoint ones.
    """
    containment = items.containment
    scheme, size = containment.scheme, items.size
    strings = texts()
    shingles = _shingles(scheme, lambda: strings)
    hits = items.hits(shingles)
    spans = list[Span]()
    placed_row, begins, ends = -1, np.empty(0, np.int64), np.empty(0, np.int64)
    number_of_items = max(1, items.words.size)
    hits_of_rows = np.bincount(hits.row, hits.end - hits.first, len(strings))
    for block in blocks(hits_of_rows, containment.evidence.hits):
        chosen = slice(*np.searchsorted(hits.row, [block.start, block.stop]).tolist())
        counts = hits.end[chosen] - hits.first[chosen]
        shingle_of_item = ranges(hits.first[chosen], counts)
        position = np.repeat(hits.position[chosen], counts)
        row_of_hit = np.repeat(hits.row[chosen], counts)
        keys = row_of_hit * number_of_items + items.owners[shingle_of_item]
        order = np.argsort(keys, kind="stable")
        keys, starts, sizes = np.unique(keys[order], return_index=True, return_counts=True)
        rows, numbers = np.divmod(keys, number_of_items)
        is_enough = sizes * size / items.words[numbers] >= containment.fraction
        for pair in np.flatnonzero(is_enough).tolist():
            row, item = int(rows[pair]), int(numbers[pair])
            of_pair = order[starts[pair] : starts[pair] + sizes[pair]]
            positions = position[of_pair] - shingles.offsets[row]
            stretches = _stretches(items, item, positions, shingle_of_item[of_pair])
            for stretch in itertools.islice(stretches, 1 if only_best else None):
                if row != placed_row:
                    placed_row = row
                    _, begins, ends = placed(
                        strings[row], scheme.normalisation, scheme.shingling, scheme.seed
                    )
                start, end = int(begins[stretch.first]), int(ends[stretch.last + size - 1])
                spans.append(Span(row, item, stretch.fraction, start, end))
    return len(strings), spans


class _Stretch(NamedTuple):
    """A part of a text.

    fraction: of an item's words that it has.
    first: its first shingle.
    last: its last shingle.
    """

    fraction: float
    first: int
    last: int


def _stretches(items: _Items, item: int, positions: I64, shingles: I64) -> Iterator[_Stretch]:
    """Yield the stretches of a text that have enough of an item: the best, then that of the rest.

    The best has the largest fraction. Of equal ones it is the shortest, and of these the first. No
    two have a word in common.

    positions: of shingles of the text, ascending. shingles: the shingles of the item that these
    are.
    """
    size, words = items.size, items.words[item]
    room = _STRETCH * items.lengths[item]
    # From a later one of the hits at a position, a stretch has less.
    starts = np.flatnonzero(run_starts(positions))
    ends = np.searchsorted(positions, positions[starts] + room - size, "right")
    best = list[tuple[float, int, int, int, int]]()
    changed = np.arange(starts.size)
    while True:
        most = (ends[changed] - starts[changed]) * size / words
        for row in changed[most >= items.containment.fraction].tolist():
            start, end = int(starts[row]), int(ends[row])
            fraction = _fraction(items, item, shingles[start:end])
            if fraction >= items.containment.fraction:
                first, last = int(positions[start]), int(positions[end - 1])
                heappush(best, (-fraction, last - first, first, row, end))
        # Those that have changed since are in the heap again.
        while best and best[0][-1] != ends[best[0][-2]]:
            heappop(best)
        if not best:
            return
        negative, length, first, *_ = best[0]
        yield _Stretch(-negative, first, first + length)
        # The rest ends before the stretch, or starts after it.
        before = np.searchsorted(positions, first - size, "right")
        is_cut = (ends > before) & (positions[starts] < first + length + size)
        is_in = is_cut & (starts >= before)
        changed = np.flatnonzero(is_cut & ~is_in)
        ends[is_in], ends[changed] = starts[is_in], before


def _fraction(items: _Items, item: int, shingles: I64) -> float:
    """Return the fraction of an item's words in some of its shingles."""
    # A single shingle is no evidence.
    if not np.any(items.hashes[shingles] != items.hashes[shingles[0]]):
        return 0.0
    places = np.unique(items.places[shingles])
    one_item = np.zeros(places.size, np.int64)
    return float(items.added(places, one_item).sum() / items.words[item])


@dataclass(frozen=True)
class ContainedItems(DocumentSearch):
    """Finds documents that contain earlier ones.

    containment: how documents contain items.
    mask: cut the items from the texts, or the sentences that have a part of one, and remove only
    documents with nothing else.
    workers: number of processes.
    """

    containment: Containment
    mask: Masking = False
    workers: int = 1

    @property
    def parameters(self) -> Mapping[str, object]:
        """The parameters that a run resumes by."""
        scheme = {"scheme": self.plan.meta.scheme.id}
        settings = {"share": self.containment.fraction, "mask": self.mask}
        return {**scheme, **settings, **self.inputs.parameters}

    def find(self, corpus: Corpus) -> RemovedDocuments:
        """Find the documents to remove, or to mask."""
        columns = columns_by_number(corpus.shares, self.plan, corpus.first)
        assert isinstance(columns.ids, Numbers)
        removals, counts = containing(
            corpus,
            columns,
            self.containment,
            mask=self.mask,
            workers=self.workers,
            step=self.reporter.step,
        )
        report = report_of(removals, columns, columns.ids.values, None)
        if self.mask:
            counts["words_masked"] = int(masked_sizes(removals)[1])
        return RemovedDocuments(removals, replace(report, contained=counts))

    def load(self, corpus: Corpus, arrays: Arrays) -> Removals:
        """Return the documents that were found before. arrays: as they were saved."""
        columns = ("document", "original", "value", "start", "end")
        spans = Spans(*(arrays[name] for name in columns))
        texts = Strings(arrays["masked_texts"], arrays["masked_offsets"])
        masked = MaskedTexts(arrays["masked"], texts, arrays["masked_words"])
        return _containing(corpus, spans, masked)


def check_masking(mask: object) -> None:
    """Raise UsageError for what `mask` can't be."""
    if not isinstance(mask, bool) and mask != "sentences":
        raise UsageError(f"`mask` {mask!r}: use True, False or 'sentences'")


def containment_plan(scheme: Scheme | None, text_fields: Sequence[str]) -> Plan:
    """Return the plan to read texts by. scheme: how they become words; None for the default."""
    scheme = scheme or Scheme()
    # Only words are needed.
    scheme = scheme.only(scheme.banded.wide(1))
    return Plan.of_texts(scheme, Grouping().limits, text_fields=text_fields)


def containing(
    corpus: Corpus,
    columns: Columns,
    containment: Containment,
    *,
    mask: Masking,
    workers: int,
    step: OnStep,
) -> tuple[Removals, dict[str, int]]:
    """Return the documents that contain one of the earlier ones, and counts.

    columns: of the corpus, by number. mask, workers: as of `ContainedItems`.
    """
    texts = columns.texts_of
    assert isinstance(texts, StoredTexts)
    spans, counts = find_contained(texts, corpus.first, containment, mask, workers, step)
    masked = MaskedTexts()
    if mask:
        masked = without_contained(texts, spans, containment, mask)
        counts["masked"] = masked.documents.size
    return _containing(corpus, spans, masked), counts


def groups_by_item(removals: Removals, columns: Columns, grouping: Grouping, plan: Plan) -> Groups:
    """Return groups in which each document follows the item that it contains most of.

    columns: of the corpus, by number, as `Groups.ids` and digests are.
    """
    closest = removals.closest
    numbers = np.arange(removals.corpus.rows.size)
    originals = numbers.copy()
    originals[closest.document] = closest.original
    values = np.full(numbers.size, np.nan)
    values[closest.document] = closest.value
    return Groups(
        grouping,
        columns.ids,
        columns.digests,
        originals,
        values,
        removals.measure,
        Capped(),
        None,
        plan.basis,
    )


def _containing(corpus: Corpus, spans: Spans, masked: MaskedTexts) -> Removals:
    """Return the documents that contain items. masked: those that stay without them."""
    return Removals(
        corpus,
        COVER,
        spans.document,
        spans.item,
        spans.fraction,
        spans.start,
        spans.end,
        masked,
        are_contained=True,
    )
