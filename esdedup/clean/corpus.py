"""Find the records of files, or documents of an index, that duplicate others, in a work folder.

Texts and tokens are read into the folder, then the decisions are saved in it, so that a run that is
killed resumes from the last of these steps.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from esdedup.clean.contained import find_held, without_held
from esdedup.compare.file_pairs import ReadChunk, read_into
from esdedup.compare.keep_rule import Unordered
from esdedup.compare.plan import Plan
from esdedup.compare.scan import FolderTexts, OnStep, ScanColumns, WorkFolder
from esdedup.compare.strings import Numbers, Strings
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups, groups_among
from esdedup.index import Index
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import items_of
from esdedup.records.files import Chunk, Record
from esdedup.search.buckets import Capped
from esdedup.search.similar import sharing
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme, require_scheme
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import read_judgements
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.memory_mapped import mapped
from esdedup.tabular import Tabular
from esdedup.text.arrays import F64, I64, Mask, offsets_of

_LARGEST = 10
_SAMPLES = 10
_EXCERPT = 1_000
"""Characters of a text in a sample."""
_SIZES = ("bytes_kept", "bytes_removed", "words_kept", "words_removed")
_ROWS_AT_ONCE = 1 << 18
_BYTES, _BYTES_A_DOCUMENT = 192 << 20, 60
"""Memory, and more for each document, besides what is sorted and compared at once."""


def plan_of(grouping: Grouping, scheme: Scheme | None, text_fields: Sequence[str]) -> Plan:
    """Return what to read of each record: its text, and what the keep rule needs.

    scheme: of the tokens; None for one whose bands reach the recall at the threshold. Raises
    UsageError for another type, and for limits that its sketch can't hold.
    """
    require_scheme(scheme)
    scheme = scheme or Scheme.of_texts(grouping.limits)
    sketch = scheme.for_pairs(grouping.limits)
    meta = IndexMeta(scheme.only(sketch), tuple(text_fields))
    chosen = None if grouping.exact else sketch
    keep = grouping.of(chosen).keep
    return Plan(meta, chosen, keep, sketching=meta.scheme, numbered=True)


def chunks_of(index: Index, text_field: str) -> Iterator[Chunk]:
    """Yield the documents of an index in chunks: their ids, and their texts in a field."""
    names, total = index.meta.text_fields, 0
    for batch in index.store.scan([*names], index.meta):
        records = [
            Record(index.store.where, line, {text_field: text_at(each.source, names)}, each.id)
            for line, each in enumerate(batch, total + 1)
        ]
        yield Chunk(partial(list, records))
        total += len(batch)


@dataclass(frozen=True)
class Corpus:
    """The records of files, in the order read.

    names: of the files. earlier: number of first ones, which are only compared with. counts: number
    of records of each, shape (files,). lines: of all n records, as `Record.line`, negative for
    those that are no documents, shape (n,).
    """

    folder: WorkFolder
    names: Sequence[str]
    earlier: int
    counts: I64
    lines: I64

    @cached_property
    def rows(self) -> I64:
        """The records that are documents, ascending, shape (documents,)."""
        return mapped(self.folder.path, [np.flatnonzero(self.lines > 0)])

    @property
    def first(self) -> int:
        """The number of the first document of the later files."""
        return int(np.searchsorted(self.rows, self.counts[: self.earlier].sum()))

    @property
    def failed(self) -> int:
        """The number of records that are no documents."""
        return self.lines.size - self.rows.size

    def places(self, documents: I64) -> list[tuple[str, int, str]]:
        """Return the names of the files, the lines and the ids of documents."""
        records = self.rows[documents]
        files = np.searchsorted(offsets_of(self.counts), records, "right") - 1
        names, lines = [self.names[file] for file in files.tolist()], self.lines[records].tolist()
        return [*zip(names, lines, self.folder.ids_of(documents), strict=True)]


@dataclass(frozen=True, repr=False)
class Removed(Tabular):
    """The documents that duplicate others. As a table it has a row for each.

    original: the document that each one duplicates, itself for one that stays, shape (documents,).
    value: similarity or distance to it, shape (documents,). held: what `find_held` returns, if one
    holds the other; the original is then the document of which it holds the largest share. masked,
    rest: as `without_held` returns them, of documents that stay without the items they held.
    """

    corpus: Corpus
    original: I64
    value: F64
    by_distance: bool
    held: F64
    masked: I64
    rest: Strings

    columns: ClassVar[dict[str, str]] = {
        "file": "string", "line": "int64", "id": "string", "original_file": "string",
        "original_line": "int64", "original_id": "string", "similarity": "double",
        "distance": "int64",
    }  # fmt: skip

    @cached_property
    def duplicates(self) -> Mask:
        """Mark the later documents that duplicate others, shape (documents,)."""
        own = np.arange(self.original.size)
        later: Mask = (self.original != own) & (own >= self.corpus.first)
        return later

    @cached_property
    def removed(self) -> Mask:
        """Mark those of them that do not stay, shape (documents,)."""
        gone = self.duplicates.copy()
        gone[self.masked] = False
        return gone

    def shares(self, text_field: str) -> Iterator[tuple[I64, Mask, str, dict[int, str]]]:
        """Yield of each later file what `KeptRecords` has after its path."""
        lines, stay = self.corpus.lines, self.corpus.lines > 0
        stay[self.corpus.rows[self.removed]] = False
        ends = offsets_of(self.corpus.counts)[self.corpus.earlier :].tolist()
        masked = self.corpus.rows[self.masked]
        for start, end in itertools.pairwise(ends):
            here = range(*np.searchsorted(masked, [start, end]).tolist())
            changed = {int(lines[masked[at]]): self.rest[at] for at in here}
            yield np.abs(lines[start:end]), stay[start:end], text_field, changed

    def __len__(self) -> int:
        return int(np.count_nonzero(self.duplicates))

    def table_rows(self) -> Iterator[tuple[Any, ...]]:
        every = np.flatnonzero(self.duplicates)
        for start in range(0, every.size, _ROWS_AT_ONCE):
            yield from self.rows_of(every[start : start + _ROWS_AT_ONCE])

    def rows_of(self, documents: I64) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of some documents."""
        own, others = map(self.corpus.places, (documents, self.original[documents]))
        for place, other, value in zip(own, others, self.value[documents].tolist(), strict=True):
            yield *place, *other, *((None, int(value)) if self.by_distance else (value, None))


def save_shares(file: Path, shares: Iterable[tuple[Any, ...]]) -> None:
    """Save some of what `Removed.shares` yields, in 8 bytes a record."""
    every = [*shares]
    changed = json.dumps([[*each[3].items()] for each in every]).encode()
    signed = [np.where(stay, lines, -lines) for lines, stay, *_ in every]
    with file.open("wb") as out:
        np.savez(out, np.frombuffer(changed, np.uint8), *signed)


def saved_shares(file: Path, text_field: str) -> list[tuple[I64, Mask, str, dict[int, str]]]:
    """Return what `save_shares` has saved."""
    with np.load(file) as saved:
        changed, *every = saved.values()
    both = zip(every, json.loads(changed.tobytes()), strict=True)
    return [(np.abs(lines), lines > 0, text_field, dict(each)) for lines, each in both]


@dataclass(frozen=True, repr=False)
class Holding(Removed):
    """The documents that hold others. As a table it has a row for each that one holds."""

    columns: ClassVar[dict[str, str]] = {
        **{name: Removed.columns[name] for name in [*Removed.columns][:6]},
        **{"contained": "double", "start": "int64", "end": "int64"},
    }

    def __len__(self) -> int:
        pairs: int = self.held.shape[1]
        return pairs

    def table_rows(self) -> Iterator[tuple[Any, ...]]:
        for start in range(0, self.held.shape[1], _ROWS_AT_ONCE):
            some = self.held[:, start : start + _ROWS_AT_ONCE]
            own, others = map(self.corpus.places, some[:2].astype(np.int64))
            spans = some[3:].T.astype(np.int64).tolist()
            for place, other, share, span in zip(own, others, some[2].tolist(), spans, strict=True):
                yield *place, *other, share, *span


@dataclass(frozen=True)
class CorpusReport:
    """What was found among the later files.

    documents: those that stay and those that are removed. against: of these, the duplicates of
    documents of the earlier files. failed: records that are no documents. groups: of two or more
    documents, also of the earlier files. bytes_kept, bytes_removed: of texts in UTF-8, as
    they were read; None of those that stay in an index. recall, capped: as of `Groups`. largest:
    the largest groups. samples: duplicates over the range of similarity, each with the beginning of
    both texts. contained: the counts of `find_held`. unordered: documents that the keep rule can't
    compare.
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


def report_of(state: Mapping[str, Any]) -> CorpusReport:
    """Return the report of a work folder whose duplicates were found."""
    report = state["report"]
    capped, unordered = Capped(**report["capped"]), Unordered(**report.get("unordered", {}))
    return CorpusReport(**{**report, "capped": capped, "unordered": unordered})


def sketch_into(
    folder: WorkFolder,
    plan: Plan,
    names: Sequence[str],
    chunks: Iterable[Chunk],
    dead_letter: DeadLetter,
    *,
    id_field: str | None = None,
    workers: int = 1,
    on_read: Callable[[int], None],
    earlier: tuple[Iterable[bytes], Sequence[int]] = ((), ()),
) -> None:
    """Write the sketches of files into the folder, unless an earlier run has done so.

    names: of the files; `chunks` are theirs. workers: number of processes. on_read: called with the
    number of records so far. earlier: of shares that come before, the lines of records as bytes,
    and the number of them of each file.
    """
    if folder.state() is not None:
        return
    counts = dict.fromkeys(names, 0)
    with folder.writing("records") as out:
        for each in earlier[0]:
            out.write(each)

        def on_chunk(read: ReadChunk) -> None:
            out.write(read.lines.tobytes())
            for name, number in read.files:
                counts[name] += number
            on_read(out.tell() // read.lines.itemsize)

        how: dict[str, Any] = {"id_field": id_field, "workers": workers}
        read_into(folder, plan, chunks, dead_letter, on_chunk, **how)
    folder.save_state({"counts": [*earlier[1], *counts.values()]})


def find_removed(
    folder: WorkFolder,
    plan: Plan,
    grouping: Grouping,
    names: Sequence[str],
    earlier: int,
    *,
    contained: float | None = None,
    mask: bool = False,
    among: int = 0,
    workers: int = 1,
    max_memory: int | None = None,
    step: OnStep,
) -> tuple[Removed, CorpusReport]:
    """Find the duplicates among the records of a folder, unless an earlier run has done so.

    names, earlier: as of `Corpus`. contained: find the later documents that hold this share of an
    earlier one. mask: cut what these hold from their texts, and remove only those that have nothing
    else. among: as of `find_held`. workers: number of processes. max_memory: in bytes; the result
    does not depend on it. Raises UsageError if the memory is too small for the number of documents.
    """
    state, file = folder.state(), folder.path / "records"
    assert state is not None
    lines = np.memmap(file, np.int64, "r") if file.stat().st_size else np.empty(0, np.int64)
    corpus = Corpus(folder, names, earlier, np.array(state["counts"], np.int64), lines)
    kind, by_distance = Removed if contained is None else Holding, plan.metric == "hamming"
    if "report" in state:
        with np.load(folder.path / "decisions") as saved:
            every = saved["original"], saved["value"], by_distance, saved["held"], saved["masked"]
            found = kind(corpus, *every, Strings(saved["rest"], saved["offsets"]))
        return found, report_of(state)
    if max_memory is not None:
        taken = _BYTES + _BYTES_A_DOCUMENT * corpus.rows.size
        if max_memory <= taken:
            least = f"{(taken >> 20) + 1}MB"
            raise UsageError(f"--max-memory: {corpus.rows.size:,} documents require {least}")
        plan = replace(plan, memory=max_memory - taken)
    plan = replace(plan, earlier=corpus.first)
    columns = folder.columns(plan)
    assert isinstance(columns.ids, Numbers)
    order, groups, counts = columns.ids.values, None, dict[str, int]()
    original, value, held = np.arange(order.size), np.zeros(order.size), np.empty((5, 0))
    masked, rest = np.empty(0, np.int64), Strings.of([])
    if contained is None:
        groups = groups_among(columns, plan, grouping, folder.path, step, leaders=corpus.first)
        original[order], value[order] = order[groups.representative], groups.value
    else:
        assert isinstance(columns.texts_of, FolderTexts)
        scheme, texts = plan.meta.scheme, columns.texts_of
        held, counts = find_held(texts, corpus.first, scheme, contained, workers, step, among)
        # Of several the last one stays.
        best = held[:, np.argsort(held[2], kind="stable")]
        original[best[0].astype(np.int64)], value[best[0].astype(np.int64)] = best[1:3]
        if mask:
            masked, rest = without_held(texts, held)
            counts["masked"] = masked.size
    found = kind(corpus, original, value, by_distance, held, masked, rest)
    report = replace(_report(found, groups, columns, order), contained=counts or None)
    with folder.writing("decisions") as out:
        of_rest: Any = {"masked": masked, "rest": rest.raw, "offsets": rest.offsets}
        np.savez(out, original=original, value=value, held=held, **of_rest)
    folder.save_state({**state, "report": asdict(report)})
    return found, report


def find_in_index(
    folder: WorkFolder,
    index: Index,
    share: float,
    names: Sequence[str],
    chunks: Iterable[Chunk],
    text_fields: Sequence[str],
    dead_letter: DeadLetter,
    id_field: str | None,
    step: OnStep,
) -> tuple[Removed, CorpusReport, Groups]:
    """Find the documents of an index that hold an item. In the groups, each follows its item.

    The index is not read: passages of the items recall the documents to compare. names: of the
    files of the items; `chunks` are theirs. text_fields: of these. Counts of the report are also
    candidates: the documents compared; items of which tokens were `stopped`, or candidates
    `truncated`; and guarantee: by how many words of an item in a row documents are always found, 0
    if items are stopped or truncated. Raises UsageError for an index without passages.
    """
    store, texts, known = index.store, list[str](), set[str]()
    lost = Counter(stopped=0, truncated=0)
    level = next((each for each in index.scheme.sketches if each.metric == "cover"), None)
    if level is None:
        raise UsageError(
            f"--contained requires passages: index the documents of {store.where} with --passages;"
            f" in a cluster, run `esdedup switch -i {index.location.index} --passages`"
        )
    # Shorter passages are looked up too.
    grouping = Grouping(limits := Limits(level.name, cover=share, words=1))
    meta, documents = index.meta_of(limits), store.statistics(index.meta).sketched
    scheme = meta.scheme.only(level)
    plan = Plan(IndexMeta(scheme, tuple(text_fields)), level, sketching=scheme, numbered=True)

    def all_chunks() -> Iterator[Chunk]:
        for chunk in chunks:
            records = [*chunk.records()]
            items, _ = items_of(records, plan.meta, id_field, stored=False)
            texts.extend(each.text for each in items)
            yield Chunk(partial(list, records))
        for queries, found in sharing(store, meta, texts, limits):
            lost["stopped"] += sum(each.stopped > 0 for each in queries)
            lost["truncated"] += sum(each.truncated for each in found)
            every = {one.id: one.source for each in found for one in each.documents}
            new = {id: text_at(every[id], meta.text_fields) for id in every if id not in known}
            numbered = enumerate(new.items(), len(known) + 1)
            known.update(new)
            own = [Record(store.where, at, {text_fields[0]: of[1]}, of[0]) for at, of in numbered]
            yield Chunk(partial(list, own))

    files = [*names, store.where]
    how: dict[str, Any] = {"id_field": id_field, "on_read": lambda _: None}
    sketch_into(folder, plan, files, all_chunks(), dead_letter, **how)
    found, report = find_removed(
        folder, plan, grouping, files, len(names), contained=share, among=documents, step=step
    )
    lost["guarantee"] = 0 if any(lost.values()) else level.passage
    counts = {**(report.contained or {}), "candidates": len(known), **lost}
    report = replace(
        report, documents=documents, kept=documents - report.removed, recall=None,
        bytes_kept=None, words_kept=None, contained=counts,
    )  # fmt: skip
    ids, digests = folder.ids_of(np.arange(found.value.size)), folder.columns(plan).digests
    value, judged = np.where(found.duplicates, found.value, np.nan), read_judgements(store, meta)
    columns = ids, digests, found.original, value, Capped(), None, plan.basis
    return found, report, Groups(grouping, *columns, judgements=judged, outside=True)


def _report(
    found: Removed, groups: Groups | None, columns: ScanColumns, order: I64
) -> CorpusReport:
    corpus, first, removed = found.corpus, found.corpus.first, found.removed
    later = ~removed
    later[:first] = False
    sizes, start = np.zeros((2, 2), np.int64), 0
    for each in corpus.folder.text_sizes():
        share = slice(start, start := start + each.shape[1])
        sizes += each @ np.stack([later[share], removed[share]]).T
    chosen = np.flatnonzero(found.duplicates)
    chosen = chosen[np.argsort(found.value[chosen], kind="stable")]
    if chosen.size:
        values = found.value[chosen]
        wanted = np.linspace(values[0], values[-1], _SAMPLES)
        chosen = chosen[np.unique(np.searchsorted(values, wanted))]
    row_of = np.argsort(order)
    texts = [columns.texts_of(row_of[each])() for each in (chosen, found.original[chosen])]
    # The beginning of what a document holds.
    begins = {(own, other): int(at) for own, other, _, at, _ in found.held.T.tolist()}
    places = zip(chosen.tolist(), found.original[chosen].tolist(), strict=True)
    texts[0] = [text[begins.get(each, 0) :] for each, text in zip(places, texts[0], strict=True)]
    names = [*Removed.columns, "text", "original_text"]
    names[6] = "similarity" if groups is not None else "contained"
    samples = [
        {
            k: v
            for k, v in zip(names, [*row, *(text[:_EXCERPT] for text in both)], strict=True)
            if v is not None
        }
        for row, *both in zip(found.rows_of(chosen), *texts, strict=True)
    ]
    largest = [*itertools.islice(groups or (), _LARGEST)]
    heads = corpus.places(np.array([int(each.representative) for each in largest], np.int64))
    return CorpusReport(
        documents=order.size - first,
        kept=int(np.count_nonzero(later)),
        removed=int(np.count_nonzero(removed)),
        against=int(np.count_nonzero(found.original[removed] < first)),
        failed=corpus.failed,
        groups=len(groups or ()),
        **dict[str, Any](zip(_SIZES, sizes.ravel().tolist(), strict=True)),
        recall=1.0 if groups is None else groups.recall,
        capped=Capped() if groups is None else groups.capped,
        unordered=columns.unordered,
        largest=[
            {"file": file, "line": line, "id": id, "documents": len(each.members) + 1}
            for (file, line, id), each in zip(heads, largest, strict=True)
        ],
        samples=samples,
    )
