"""Read documents into parts: from a store, from files, or from records."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np

from esdedup.compare.columns import Columns, columns_by_id, columns_by_number, columns_of_part
from esdedup.compare.labels import labels_of
from esdedup.compare.plan import Plan
from esdedup.compare.resources import no_step
from esdedup.ingest.parallel import in_order
from esdedup.models import WHOLE, Document, Share, value_in
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import DocumentColumns, document_columns, documents_of
from esdedup.records.files import BadRecord, Chunk
from esdedup.runs.places import PlacesOfDocuments
from esdedup.runs.run import OnStep, Run
from esdedup.runs.shares import Part, Shares, TextsOf
from esdedup.search.scopes import scope_paths, scope_words
from esdedup.sketch.sketch import digest_words, hashed_words, is_digest, sketch, stored_values
from esdedup.stores.base import Store
from esdedup.stores.fields import shown_paths, shown_text, text_at
from esdedup.stores.mapping import SketchedFields
from esdedup.text.arrays import I64, U64
from esdedup.text.characters import count
from esdedup.text.hashing import xxh3
from esdedup.text.shingles import distinct
from esdedup.text.strings import Strings

JUDGEMENTS = "set of judgements"
"""The parameter of a job that holds the digest of the judgements."""
_SHARES = "shares.json"
_HELD_AT_ONCE = 1_000
_EXAMPLES = 5
"""Documents that a message names."""

log = logging.getLogger("esdedup")


class Source(Protocol):
    """Yields the documents of a comparison.

    A new source, such as a topic of messages, needs no more: `read_source` stores its parts in the
    folder of a run, and `pairs_among` and `groups_among` compare their columns. On Spark, each
    partition makes its parts by `read_chunk`.
    """

    @property
    def plan(self) -> Plan:
        """What is read of the documents."""

    def parts(self) -> Iterator[Part]:
        """Yield the documents, at least one part."""


def _ignore(_: object) -> None:
    """Ignore progress."""


class Beside(NamedTuple):
    """What documents keep beside their texts and keys.

    scopes: as of a part.
    labels: likewise.
    judged: likewise.
    """

    scopes: U64 | None = None
    labels: Strings | None = None
    judged: U64 | None = None

    @staticmethod
    def of(plan: Plan, sources: Sequence[Mapping[str, object]]) -> Beside:
        """Return what a plan keeps of the fields of documents."""
        return Beside(
            scope_words(plan.within, sources) if plan.within else None,
            labels_of(plan.label_fields, sources) if plan.label_fields else None,
            _judged_words(plan.judged, sources) if plan.judged else None,
        )

    @staticmethod
    def of_documents(plan: Plan, documents: Iterable[Document]) -> Beside:
        """Return what a plan keeps of documents."""
        return Beside.of(plan, [document.source for document in documents])

    def before(self, later: Beside) -> Beside:
        """Return the same of these documents and of later ones."""
        scopes, labels, judged = self
        if scopes is not None and later.scopes is not None:
            scopes = np.concatenate([scopes, later.scopes])
        if labels is not None and later.labels is not None:
            labels = Strings.joined([labels, later.labels])
        if judged is not None and later.judged is not None:
            judged = np.concatenate([judged, later.judged])
        return Beside(scopes, labels, judged)


def _judged_words(judged: Sequence[SketchedFields], sources: Sequence[Mapping[str, object]]) -> U64:
    """Return the stored digests of the texts that judgements are of, zeros without one.

    judged: as of `IndexMeta.judged`. Shape (n, 2).
    """
    digests = [
        next(filter(is_digest, (fields.digest_in(source) for fields in judged)), None)
        for source in sources
    ]
    return known_digest_words(digests)


def known_digest_words(digests: Sequence[str | None]) -> U64:
    """Return two numbers for each digest, as `digest_words`, zeros for None: shape (n, 2)."""
    rows = [row for row, digest in enumerate(digests) if digest is not None]
    words = np.zeros((len(digests), 2), np.uint64)
    words[rows] = digest_words([digests[row] for row in rows])
    return words


def part_of_texts(
    ids: Strings,
    texts: Sequence[str],
    plan: Plan,
    keys: Strings = Strings.of_bytes(()),  # noqa: B008
    beside: Beside = Beside(),  # noqa: B008
    on_sketched: Callable[[int], object] | None = None,
) -> Part:
    """Return documents with the tokens of their texts.

    keys: of the keep rule, unless by words. on_sketched: called with the number of texts so far.
    """
    by_words = plan.keep.by == "words"
    if plan.is_unsketched and not by_words:
        return _part_of_unsketched(ids, texts, plan, keys, beside)
    sketches = sketch(texts, plan.scheme, with_vocabulary=by_words, on_sketched=on_sketched)
    if sketches.vocabulary is not None and sketches.words is not None:
        keys = plan.keep.keys_by_words(sketches.vocabulary, sketches.words)
    values = np.zeros((len(texts), 0), np.uint64)
    if plan.sketch is not None and plan.width:
        values = sketches.values[plan.sketch.name]
    return Part(
        ids,
        digest_words(sketches.digests),
        sketches.filled,
        values.astype(plan.dtype),
        Strings.of(texts),
        keys,
        sketches.words,
        beside.scopes,
        beside.labels,
        judged=beside.judged,
    )


def _part_of_unsketched(
    ids: Strings, texts: Sequence[str], plan: Plan, keys: Strings, beside: Beside
) -> Part:
    """Return documents with their texts, and zeros for what is not computed of these."""
    count = len(texts)
    return Part(
        ids,
        np.zeros((count, 2), np.uint64),
        np.ones(count, np.bool_),
        np.zeros((count, 0), plan.dtype),
        Strings.of(texts),
        keys,
        np.zeros(count, np.int64),
        beside.scopes,
        beside.labels,
    )


class ReadChunk(NamedTuple):
    """A chunk of records, as it was read.

    part: the documents.
    bad: the other records.
    lines: of all n records, as `Record.line`, negative for those that are no documents, shape (n,).
    files: the names of their files, each with its number of records.
    """

    part: Part
    bad: list[BadRecord]
    lines: I64
    files: list[tuple[str, int]]


def read_chunk(
    plan: Plan, id_field: str | None, chunk: Chunk, *, is_numbered: bool = False
) -> ReadChunk:
    """Return the documents of a chunk with their tokens.

    is_numbered: as in `FileSource`.
    """
    columns = chunk.columns(with_json=False)
    documents = None if columns is None else document_columns(columns, plan.meta, id_field)
    if documents is not None:
        return _read_columns(plan, documents, is_numbered=is_numbered)
    records = [*(chunk.records() if columns is None else columns.records())]
    fields = plan.meta.text_fields
    documents_among = partial(
        documents_of, meta=plan.meta, id_field=id_field, stored=not is_numbered
    )
    items, bad = documents_among(records)
    if bad and columns is not None:
        # A dead letter has the record as it came, which these columns lack.
        records = [*chunk.records()]
        items, bad = documents_among(records)
    read_documents = [Document(item.id, item.record.source) for item in items]
    part = part_of_texts(
        Strings.of(item.id for item in items),
        [item.text for item in items],
        plan,
        plan.keep.keys(read_documents, fields),
        Beside.of_documents(plan, read_documents),
    )
    if not is_numbered:
        part = replace(part, places=PlacesOfDocuments.of(item.record.file for item in items))
    rejected = {(record.file, record.line) for record in bad}
    lines = [
        -record.line if (record.file, record.line) in rejected else record.line
        for record in records
    ]
    by_file = groupby(record.file for record in records)
    files = [(name, len([*names])) for name, names in by_file]
    return ReadChunk(part, bad, np.array(lines, np.int64), files)


def _read_columns(plan: Plan, documents: DocumentColumns, *, is_numbered: bool) -> ReadChunk:
    """Return documents in columns with their tokens, as `read_chunk`."""
    records = documents.records
    identified = map(Document, documents.ids, records.sources)
    part = part_of_texts(
        Strings.of(documents.ids),
        documents.texts,
        plan,
        plan.keep.keys(identified, plan.meta.text_fields),
        Beside.of(plan, records.sources),
    )
    if not is_numbered:
        part = replace(part, places=PlacesOfDocuments.of([records.file] * len(documents.ids)))
    lines = np.array(records.lines, np.int64)
    return ReadChunk(part, [], lines, [(records.file, lines.size)])


@dataclass(frozen=True)
class FileSource:
    """Documents of files, in the order of their records.

    plan: what is read of them.
    chunks: their records.
    dead_letter: called with each record that is no document.
    id_field: of the records; None for `id`, or a number.
    workers: number of processes.
    is_numbered: documents are numbered, so that any id is accepted.
    on_chunk: called after each chunk.
    """

    plan: Plan
    chunks: Iterable[Chunk]
    dead_letter: DeadLetter
    id_field: str | None = None
    workers: int = 1
    is_numbered: bool = False
    on_chunk: Callable[[ReadChunk], object] = _ignore

    def parts(self) -> Iterator[Part]:
        """Yield the documents, at least one part."""
        yield part_of_texts(Strings.of([]), [], self.plan, beside=Beside.of(self.plan, []))
        read = partial(read_chunk, self.plan, self.id_field, is_numbered=self.is_numbered)
        with closing(in_order(self.workers, read, self.chunks)) as chunks:
            for chunk in chunks:
                for record in chunk.bad:
                    self.dead_letter(record)
                yield chunk.part
                self.on_chunk(chunk)


class Records(NamedTuple):
    """Records in memory.

    texts: of n records.
    ids: their ids, or None for their positions.
    keys: of the keep rule; none to order by ids alone.
    beside: what else is kept of them.
    """

    texts: Sequence[str]
    ids: Sequence[str] | None
    keys: Strings = Strings.of_bytes(())
    beside: Beside = Beside()

    def before(self, later: Records) -> Records:
        """Return these records and later ones, which have ids too if these have."""
        ids = None
        if self.ids is not None and later.ids is not None:
            ids = [*self.ids, *later.ids]
        keys, beside = Strings.joined([self.keys, later.keys]), self.beside.before(later.beside)
        return Records([*self.texts, *later.texts], ids, keys, beside)


@dataclass(frozen=True)
class RecordSource:
    """Documents that a program has in memory, batch by batch.

    plan: what is read of them.
    batches: their records, at least one batch.
    total: number of all records; 0 if it is unknown.
    on_step: called while they are sketched.
    """

    plan: Plan
    batches: Iterable[Records]
    total: int = 0
    on_step: OnStep = no_step

    def parts(self) -> Iterator[Part]:
        """Yield the documents."""
        sketched = 0

        def on_sketched(texts: int) -> None:
            self.on_step("Sketching", sketched + texts, self.total)

        for records in self.batches:
            ids = Strings.of(records.ids or [])
            yield part_of_texts(
                ids, records.texts, self.plan, records.keys, records.beside, on_sketched
            )
            sketched += len(records.texts)


def columns_of_records(
    records: Records, plan: Plan, earlier: int = 0, on_step: OnStep = no_step
) -> Columns:
    """Return the columns of records that are all in memory.

    earlier: as of `columns_of_part`. Raises UsageError if the keep rule names a field that no
    record has.
    """
    source = RecordSource(plan, [records], len(records.texts), on_step)
    (part,) = source.parts()
    is_numbered = records.ids is None
    return columns_of_part(part, records.texts, plan, is_numbered=is_numbered, earlier=earlier)


@dataclass(frozen=True)
class StoreSource:
    """Documents of a store, whose texts or stored tokens are read.

    store: that has them.
    plan: what is read of them.
    first: ids of documents that precede all others.
    share: the part of the documents that is read.
    on_read: called with the number of documents of each part.
    unreadable: ids of the documents that are left out, as their digest or tokens can't be read.
    """

    store: Store
    plan: Plan
    first: Sequence[str] = ()
    share: Share = WHOLE
    on_read: Callable[[int], object] = _ignore
    unreadable: dict[str, None] = field(default_factory=dict)

    def parts(self) -> Iterator[Part]:
        """Yield the documents of the share, at least one part."""
        batches = self.store.scan(self.plan.paths, self.plan.meta, self.share)
        for batch in itertools.chain([[]], batches):
            yield self._part(batch)
            self.on_read(len(batch))

    def parts_of(self, ids: Strings) -> Iterator[Part]:
        """Yield some documents by their ids."""
        yield self._part([])
        for start in range(0, len(ids), _HELD_AT_ONCE):
            entries = self.store.hold(ids[start : start + _HELD_AT_ONCE], self.plan.paths)
            documents = [entry.document for entry in entries]
            if self.store.has_places():
                documents = [
                    Document(entry.id_in_index, entry.source, index=entry.index)
                    for entry in entries
                ]
            yield self._part(documents)

    def ids(self) -> Strings:
        """Return the ids of all documents that the store has now, with indices if several."""
        batches = itertools.chain([[]], self.store.scan([], self.plan.meta))
        return Strings.joined(
            [Strings.of([document.full_id for document in batch]) for batch in batches]
        )

    def _part(self, batch: Sequence[Document]) -> Part:
        if self.plan.sketching is None:
            return self._with_stored_tokens(batch)
        fields = self.plan.meta.text_fields
        # The text of a document with tokens can have been removed since.
        texts = [text_at(document.source, fields) or "" for document in batch]
        keys = self.plan.keep.keys(batch, fields)
        beside = Beside.of_documents(self.plan, batch)
        part = part_of_texts(_ids(batch), texts, self.plan, keys, beside)
        return replace(part, places=_places(batch))

    def _with_stored_tokens(self, documents: Sequence[Document]) -> Part:
        """Return documents with their stored tokens, without those that can't be read."""
        plan = self.plan
        digest_path, tokens_path, *_ = plan.paths
        readable = np.array(
            [is_digest(value_in(document.source, digest_path)) for document in documents], np.bool_
        )
        stored = [value_in(document.source, tokens_path) for document in documents]
        # With digests alone, only texts without words have something to read.
        filled = np.array([(value is None) == (plan.sketch is None) for value in stored], np.bool_)
        values = np.zeros((len(documents), plan.width), plan.dtype)
        if plan.sketch is not None and filled.any():
            rows = np.flatnonzero(filled)
            decoded, are_tokens = stored_values([stored[row] for row in rows], plan.sketch)
            readable[rows[~are_tokens]] = False
            values[rows[are_tokens]] = decoded
        unreadable = np.flatnonzero(~readable).tolist()
        self.unreadable.update(dict.fromkeys(documents[row].id for row in unreadable))
        batch = [documents[row] for row in np.flatnonzero(readable).tolist()]
        digests = digest_words([value_in(document.source, digest_path) for document in batch])
        beside = Beside.of_documents(plan, batch)
        return Part(
            _ids(batch),
            digests,
            filled[readable],
            values[readable],
            keys=self._keys(batch),
            scopes=beside.scopes,
            labels=beside.labels,
            places=_places(batch),
            judged=beside.judged,
        )

    def _keys(self, batch: Sequence[Document]) -> Strings:
        """Return the keys of documents whose texts are not sketched."""
        keep, meta = self.plan.keep, self.plan.meta
        if keep.by != "words":
            return keep.keys(batch, meta.text_fields)
        texts = [text_at(document.source, meta.text_fields) or "" for document in batch]
        _, words = hashed_words(texts, meta.scheme)
        return keep.keys_by_words(distinct(words).counts, words.counts)

    def warn(self) -> None:
        """Log how many documents can't be read, the first ids, and how to go on."""
        if not self.unreadable:
            return
        examples = ", ".join(map(repr, itertools.islice(self.unreadable, _EXAMPLES)))
        without_example = len(self.unreadable) - _EXAMPLES
        log.warning(
            "%s: the digest or tokens of %s can't be read, and count as none: %s. Another client"
            " may have changed them: run `esdedup backfill -i %s` with `stale`, and index those"
            " documents again of which only the tokens are wrong",
            self.store.where,
            count(len(self.unreadable), "document"),
            f"{examples} and {without_example:,} more" if without_example > 0 else examples,
            self.store.index,
        )


def read_source(source: Source, run: Run, *, is_numbered: bool = False) -> Columns:
    """Return the columns of all documents of a source, in files of a new run.

    is_numbered: as of `FileSource`. Raises UsageError if the keep rule names a field that no
    document has.
    """
    shares = Shares(run)
    shares.write_all(source.parts())
    if is_numbered:
        return columns_by_number(shares, source.plan)
    return columns_by_id(shares, source.plan)


def read_store(source: StoreSource, run: Run, job: Mapping[str, Any], on_step: OnStep) -> Columns:
    """Return the columns of all documents of a store, reading the shares that are missing.

    job: its parameters; only a run of a job with the same ones resumes.

    Documents whose tokens can't be read are left out, with a warning that names them. Raises
    UsageError if the run's folder belongs to another run, or if the keep rule names a field that no
    document has.
    """
    store, plan, shares = source.store, source.plan, Shares(run)
    documents = store.statistics(plan.meta).sketched
    is_resumed = run.has(_SHARES)
    run.claim({**_described(store, plan), **job})
    needed = max(1, min(shares.sizes.shares, -(-documents // shares.sizes.documents)))
    number_of_shares = int(run.once(_SHARES, lambda: needed))
    documents_read = 0

    def on_read(number: int) -> None:
        nonlocal documents_read
        documents_read += number
        on_step(f"Reading {plan.basis.read}", min(documents_read, documents), documents)

    source = replace(source, on_read=on_read)
    for number in range(1, number_of_shares + 1):
        if not shares.has(number):
            share = Share(number, number_of_shares)
            shares.write(number, replace(source, share=share).parts())
    if is_resumed:
        _add_arrivals(shares, source)
    source.warn()
    # An alias can have lost an index since, of which nothing is compared.
    present = frozenset(store.names()) if store.has_places() else None
    columns = columns_by_id(shares, plan, source.first, present=present)
    columns = replace(columns, unreadable=len(source.unreadable))
    if plan.sketching is not None:
        return columns
    return replace(columns, texts_of=_texts_of_rows(store, plan, columns.ids))


def _texts_of_rows(store: Store, plan: Plan, ids: Sequence[str]) -> TextsOf:
    """Return a function that fetches the texts of rows, whose documents have these ids."""
    texts_of = texts_in(store, plan.meta.text_fields)

    def begin(rows: I64) -> Callable[[], list[str]]:
        return store.window.begin(texts_of, [ids[row] for row in rows.tolist()])

    return begin


def _described(store: Store, plan: Plan) -> dict[str, Any]:
    """Return the parameters of a job that reads a store."""
    return {
        "index": store.where,
        "address": store.address,
        "scheme": plan.meta.scheme.id,
        "field": plan.meta.field,
        "stop": [*plan.meta.stop],
        "reading": str(plan.basis),
        **({"judged": [fields.field for fields in plan.judged]} if plan.judged else {}),
    }


def _add_arrivals(shares: Shares, source: StoreSource) -> None:
    """Read the documents that came after their share was read, by an earlier run."""
    stored = shares.all()
    hashes = [np.empty(0, np.uint64), *(xxh3(share.full_ids(), 0) for share in stored)]
    ids = source.ids()
    arrivals = np.flatnonzero(~np.isin(xxh3(ids, 0), np.concatenate(hashes)))
    if arrivals.size:
        shares.write(len(stored) + 1, source.parts_of(ids.picked(arrivals)))


def records_in(store: Store, plan: Plan, ids: Sequence[str]) -> Records:
    """Return the texts of a store's documents, with their scopes if the plan has a scope."""
    fields = [*dict.fromkeys([*plan.meta.text_fields, *scope_paths(plan.within)])]
    sources = {document.id: document.source for document in store.get(ids, fields)}
    documents = [Document(id, sources.get(id, {})) for id in ids]
    texts = [text_at(document.source, plan.meta.text_fields) or "" for document in documents]
    return Records(texts, ids, beside=Beside.of_documents(plan, documents))


def texts_in(store: Store, text_fields: Sequence[str]) -> Callable[[list[str]], list[str]]:
    """Return the texts of a store's documents; an empty one if a document or its text is gone."""

    def texts_of(ids: list[str]) -> list[str]:
        sources = {document.id: document.source for document in store.get(ids, [*text_fields])}
        return [text_at(sources.get(id, {}), text_fields) or "" for id in ids]

    return texts_of


def shown_texts_in(store: Store, text_fields: Sequence[str]) -> Callable[[list[str]], list[str]]:
    """Return the texts of a store's documents as people read them, by id."""
    paths = shown_paths(text_fields)

    def texts_of(ids: list[str]) -> list[str]:
        sources = {document.id: document.source for document in store.get(ids, paths)}
        return [shown_text(sources.get(id, {}), text_fields) for id in ids]

    return texts_of


def _places(batch: Sequence[Document]) -> PlacesOfDocuments | None:
    """Return the indices of documents, if the name stands for several."""
    indices = [document.index for document in batch if document.index is not None]
    return PlacesOfDocuments.of(indices) if indices else None


def _ids(batch: Sequence[Document]) -> Strings:
    return Strings.of([document.id for document in batch])
