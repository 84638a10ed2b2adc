"""Write documents to a store with their tokens, and account for every record.

A record is read (`files`), becomes a document (`documents.documents_of`), gets its tokens
(`documents.encoded`), and is written. Worker processes do everything but the writing. This process
writes a batch to a file while it prepares the next one. To a cluster it writes several at the same
time, but those that have an id in common in the order of the records: of several documents of one
id the last one stays.
"""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from esdedup.exceptions import RecordError, StoreError, UsageError
from esdedup.ingest.arrivals import Originals
from esdedup.ingest.parallel import beside, in_order
from esdedup.ingest.places import Places
from esdedup.ingest.policies import DuplicatePolicy, Verdict
from esdedup.models import Change, Counts, Document, Failure, Fields, StoredDocument, tokens_in
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import (
    MARKS,
    TAKEN_BY_LINE,
    NewDocument,
    RepeatedIds,
    bad_record,
    document_columns,
    documents_of,
    encoded,
    encoded_columns,
    is_ours,
    without,
)
from esdedup.records.files import BadRecord, Chunk
from esdedup.records.record_columns import RecordColumns
from esdedup.search.scopes import scope_of, scope_paths
from esdedup.sketch.packed import is_wordless
from esdedup.stores.base import ALL_PATHS, Store
from esdedup.stores.changes import Decision, change_documents, missing
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.fields import dotted_names, only, text_at, value_at
from esdedup.stores.json_text import text_with_fields, with_digits
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.to_json import same_json

_COMPARED_AT_ONCE = 1_000
_GONE = "its id was taken when it was written, and is not found now: index it again"


@dataclass(frozen=True)
class IngestReport(Counts):
    """Counts of records.

    read: the sum of the counts from `created` to `renamed`.
    created: new documents.
    updated: replaced a document, or were replaced by a later record of the same batch.
    unchanged: the index had the same document with its tokens.
    skipped: near-duplicates that the policy leaves out.
    failed: refused, and handed to the dead letter.
    dropped: an ingest pipeline of the cluster dropped these; handed to the dead letter.
    moved: a pipeline moved these to another index; handed to the dead letter.
    renamed: a pipeline gave these another id; handed to the dead letter.
    duplicates: near-duplicates found, of documents that are in the index as they were sent.
    exact: those of them with an equal text.
    truncated: documents with more candidates than the policy compares with, or only buckets of the
        stop list.
    duplicate_ids: records whose id an earlier record had.
    replaced_originals: times that a later record of the same id replaced the text or the scope of a
        document, after near-duplicates of it were skipped or refused: the index may lack those.
    without_words: documents whose texts have no words, so that only equal ones match.
    unscoped: documents that lack a value of the policy's scope, and are duplicates of none.
    """

    read: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    dropped: int = 0
    moved: int = 0
    renamed: int = 0
    duplicates: int = 0
    exact: int = 0
    truncated: int = 0
    duplicate_ids: int = 0
    replaced_originals: int = 0
    without_words: int = 0
    unscoped: int = 0

    @property
    def not_indexed(self) -> int:
        """The number of records that were handed to the dead letter."""
        return self.failed + self.dropped + self.moved + self.renamed


@dataclass(frozen=True)
class _RecordFields:
    """The fields that identify a record.

    id: as `id_field` of the settings.
    routing: as `routing_field` of the settings.
    """

    id: str | None
    routing: str | None

    def documents_of(
        self, chunk: Chunk, meta: IndexMeta
    ) -> tuple[list[NewDocument], list[BadRecord]]:
        """Return the records of a chunk that are documents, and those that are not."""
        documents, bad = documents_of(chunk.records(), meta, self.id)
        if self.routing is None:
            return documents, bad
        routed: list[NewDocument] = []
        for document in documents:
            try:
                self.routing_of(document)
                routed.append(document)
            except RecordError as error:
                bad.append(bad_record(document.record, str(error)))
        return routed, bad

    def routing_of(self, document: NewDocument) -> str:
        """Return the routing of a document. Raises RecordError if it has none."""
        assert self.routing is not None
        value = value_at(document.record.source, self.routing)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise RecordError(
                f"the routing field {self.routing!r} is neither text nor a whole number"
            )
        return str(value)

    def encoded(self, documents: Sequence[NewDocument], meta: IndexMeta) -> EncodedDocuments:
        """Return documents with tokens, and their routings."""
        routings = [] if self.routing is None else [*map(self.routing_of, documents)]
        return replace(encoded(documents, meta), routings=routings)


@dataclass(frozen=True)
class IngestSettings:
    """How records are written.

    workers: number of processes that read records; one is this process.
    id_field: of a record's id, by default `id`.
    on_duplicate: what happens to near-duplicates of earlier documents.
    on_batch: called after each batch with the report so far.
    ids: receives the ids of all documents; None to count them apart.
    places: decides on the ids of records that have none; None takes their places as they are.
    routing_field: of what a cluster chooses the shard of a record by; None for its id.
    """

    workers: int = 1
    id_field: str | None = None
    on_duplicate: DuplicatePolicy = field(default_factory=DuplicatePolicy)
    on_batch: Callable[[IngestReport], None] | None = None
    ids: RepeatedIds | None = None
    places: Places | None = None
    routing_field: str | None = None

    @property
    def fields(self) -> _RecordFields:
        """The fields that identify a record."""
        return _RecordFields(self.id_field, self.routing_field)


DEFAULT_SETTINGS = IngestSettings()


def ingest(
    store: Store,
    current_meta: Callable[[], IndexMeta],
    chunks: Iterable[Chunk],
    dead_letter: DeadLetter,
    settings: IngestSettings = DEFAULT_SETTINGS,
) -> IngestReport:
    """Write records with their tokens. What counts as created or updated is durable.

    A record's id is its `id_field`, by default `id`, else "path:line"; the latter never replaces
    another text. A document that the index has already is not written. One with the same text and
    other fields keeps its group and marks; one with another text loses them.

    current_meta: returns the index's meta, which may change during the run.
    dead_letter: called with every record that is not written.

    Raises UsageError if the index requires a routing and no field of it is named; StoreError if its
    mapping is strict and refuses all of the first records; the errors of the store, and of
    `in_order`. The same call again completes the work.
    """
    policy, places = settings.on_duplicate, settings.places
    require_routing_field(store, settings.routing_field)
    originals = Originals(store, current_meta, policy) if policy.action != "keep" else None
    has_pipeline = policy.writes and store.has_pipeline()
    scope_names = None if originals is None else [*scope_paths(policy.within)]
    prepare = partial(_prepare, settings.fields, scope_names)
    report, chunks_begun = IngestReport(), deque[Chunk]()
    ids = RepeatedIds() if settings.ids is None else settings.ids

    def chunks_with_meta() -> Iterator[tuple[Chunk, IndexMeta]]:
        for chunk in chunks:
            chunks_begun.append(chunk)
            yield chunk, current_meta()

    def writers(batches: Iterable[_Batch]) -> Iterator[_Writer]:
        for batch in batches:
            chunk, meta = chunks_begun.popleft(), current_meta()
            if batch.meta != meta:
                # The index names another scheme by now.
                batch = prepare((chunk, meta))
            rejected = dict[int, str]()
            if places is not None:
                settled_ids, rejected = places.settle(batch.documents.ids, batch.has_own_id)
                batch = replace(batch, documents=replace(batch.documents, ids=settled_ids))
            yield _Writer(
                store, policy, originals, batch, chunk, rejected, after_originals=has_pipeline
            )

    def write(writer: _Writer) -> tuple[_Writer, IngestReport]:
        return writer, writer.write()

    # Near-duplicates are looked for in all earlier batches, so that these must be written.
    writes_several = originals is None and store.window.most > 1
    in_turn = partial(store.window.in_order, ids=lambda writer: writer.batch.documents.ids)
    results_of = in_turn if writes_several else beside
    with (
        # Every eighth batch or so, SQLite synchronises its file, which takes as long as several.
        closing(in_order(settings.workers, prepare, chunks_with_meta(), ahead=9)) as batches,
        closing(results_of(write, writers(batches))) as results,
    ):
        for writer, counts in results:
            bad, document_ids = writer.batch.bad, writer.batch.documents.ids
            if not report.read:
                writer.require_accepted(counts)
            for record in [*writer.refused, *bad]:
                dead_letter(record)
            report += counts
            report += IngestReport(
                read=len(document_ids) + len(bad),
                failed=len(bad),
                duplicate_ids=ids.add(document_ids),
            )
            if settings.on_batch is not None:
                settings.on_batch(report)
    return report


def require_routing_field(store: Store, routing_field: str | None) -> None:
    """Raise UsageError for a field of routings without a cluster, and if an index lacks one."""
    if routing_field is not None and not store.has_routings:
        raise UsageError("`routing_field` requires an index in a cluster")
    if routing_field is None and store.requires_routing():
        raise UsageError(
            f"{store.where} requires a routing of each document: name the field that has it"
            " (`routing_field`)"
        )


@dataclass(frozen=True)
class _Batch:
    """The documents of a chunk.

    meta: the index's, when the chunk was read.
    fields: that identify a record.
    has_own_id: of each document, whether its id is not computed from the record's line.
    from_json: of each document, whether it was JSON, whose numbers have digits of their own.
    texts: of the documents, if they are needed.
    scope_fields: of the documents, those that the policy's scope needs.
    bad: the records that are not documents.
    documents: with their tokens.
    """

    meta: IndexMeta
    fields: _RecordFields
    has_own_id: list[bool]
    from_json: list[bool]
    texts: list[str]
    scope_fields: list[Fields]
    bad: list[BadRecord]
    documents: EncodedDocuments


def _prepare(
    fields: _RecordFields, scope_names: list[str] | None, chunk_with_meta: tuple[Chunk, IndexMeta]
) -> _Batch:
    """Read and sketch a chunk, maybe in a worker process.

    scope_names: of the fields of the policy's scope; None if no policy needs the texts.
    """
    chunk, meta = chunk_with_meta
    records = None if fields.routing is not None else chunk.columns(with_json=True)
    if records is not None:
        batch = _prepare_columns(fields, scope_names, records, meta)
        if batch is not None:
            return batch
        # The chunk is read already, and its records are looked at one by one.
        chunk = Chunk(records.records)
    documents, bad = fields.documents_of(chunk, meta)
    compared = documents if scope_names is not None else []
    return _Batch(
        meta,
        fields,
        [document.has_own_id for document in documents],
        [document.record.json is not None for document in documents],
        [document.text for document in compared],
        [only(document.record.source, scope_names or ()) for document in compared],
        bad,
        fields.encoded(documents, meta),
    )


def _prepare_columns(
    fields: _RecordFields, scope_names: list[str] | None, records: RecordColumns, meta: IndexMeta
) -> _Batch | None:
    """Sketch records in columns, as `_prepare`; None if they have to be looked at one by one."""
    documents = document_columns(records, meta, fields.id)
    with_tokens = None if documents is None else encoded_columns(documents, meta)
    if documents is None or with_tokens is None:
        return None
    count = len(documents.ids)
    texts, scope_fields = list[str](), list[Fields]()
    if scope_names is not None:
        texts = documents.texts
        scope_fields = [only(source, scope_names) for source in records.sources]
    return _Batch(
        meta,
        fields,
        [documents.have_own_ids] * count,
        [True] * count,
        texts,
        scope_fields,
        [],
        with_tokens,
    )


@dataclass(frozen=True)
class _Judged:
    """What became of rows that were judged once.

    report: counts of those that are settled.
    failed: ids that were not written.
    without_original: the other rows, whose originals were not written, those of one original
        together.
    """

    report: IngestReport
    failed: set[str]
    without_original: list[list[int]]


@dataclass(frozen=True)
class _Writer:
    """Writes a batch.

    store: that the documents are written to.
    policy: what happens to near-duplicates.
    originals: finds near-duplicates; None if all are kept.
    batch: the documents.
    chunk: their records, to be read again if some are refused.
    rejected: rows that are not written, with the reasons.
    renews_marks: equal documents get new marks, and are counted already.
    after_originals: duplicates are written after their originals, which a pipeline of the index may
        drop, move or rename: those would be marked with ids that do not exist.
    refused: receives the records that are not written.
    """

    store: Store
    policy: DuplicatePolicy
    originals: Originals | None
    batch: _Batch
    chunk: Chunk
    rejected: Mapping[int, str]
    renews_marks: bool = False
    after_originals: bool = False
    refused: list[BadRecord] = field(default_factory=list)

    def write(self) -> IngestReport:
        """Write the documents of the batch; the records are not counted as read."""
        rows = [row for row in range(len(self.batch.documents)) if row not in self.rejected]
        self._refuse(self.rejected)
        failed = IngestReport(failed=len(self.rejected), unscoped=self._unscoped(rows))
        if self.originals is None:
            return failed + self._put(rows, {})[0]
        return failed + self._write_unless_similar(rows, self.originals)[0]

    def require_accepted(self, counts: IngestReport) -> None:
        """Raise StoreError if the store refused all documents of the batch for their fields.

        counts: what became of them.
        """
        documents = self.batch.documents
        if not len(documents) or counts.failed < len(documents):
            return
        fields = {name for source in documents.sources for name in dotted_names(json.loads(source))}
        reason = self.store.why_refused(fields, [record.reason for record in self.refused])
        if reason is not None:
            raise StoreError(f"none of the first {len(documents):,} records was written: {reason}")

    def _unscoped(self, rows: Sequence[int]) -> int:
        """Return the number of documents that lack a value of the policy's scope."""
        within = self.policy.within
        if not within:
            return 0
        return sum(scope_of(within, self.batch.scope_fields[row]) is None for row in rows)

    def _write_unless_similar(
        self, rows: Sequence[int], originals: Originals
    ) -> tuple[IngestReport, set[str]]:
        """Find near-duplicates, and write the rows that the policy lets in.

        Return the counts, and the ids that were not written. A row whose original was not written
        may be the first of its kind: of the rows of one such original, one after the other is tried
        until one is settled, and then the others are compared with it.
        """
        report, failed = IngestReport(), set[str]()
        while rows:
            judged = self._write_judged(rows, originals)
            report, failed = report + judged.report, failed | judged.failed
            groups, rows_to_compare = judged.without_original, list[int]()
            while groups:
                first_rows = sorted(group[0] for group in groups)
                counts, refused = self._write_unless_similar(first_rows, originals)
                report, failed = report + counts, failed | refused
                groups_of_refused = list[list[int]]()
                for first, *later_rows in groups:
                    if self.batch.documents.ids[first] not in refused:
                        rows_to_compare += later_rows
                    elif later_rows:
                        groups_of_refused.append(later_rows)
                groups = groups_of_refused
            rows = sorted(rows_to_compare)
        return report, failed

    def _write_judged(self, rows: Sequence[int], originals: Originals) -> _Judged:
        """Judge rows once, and write those that the policy lets in."""
        ids = {row: self.batch.documents.ids[row] for row in rows}
        texts = [self.batch.texts[row] for row in rows]
        fields = [self.batch.scope_fields[row] for row in rows]
        judgements = originals.find([*ids.values()], texts, fields, again=self.renews_marks)
        verdicts = dict(zip(rows, judgements, strict=True))
        written = [row for row, verdict in verdicts.items() if self.policy.takes(verdict)]
        left_out = [row for row, verdict in verdicts.items() if not self.policy.takes(verdict)]
        report, failed, postponed = self._write_in_order(written, verdicts)
        # Their originals were not written, so that their verdicts are wrong.
        misjudged = {row for row, verdict in verdicts.items() if verdict.original in failed}
        wrongly_marked = [
            row
            for row in written
            if row in misjudged and row not in postponed and ids[row] not in failed
        ]
        renewed = IngestReport()
        if self.policy.writes and wrongly_marked:
            renewer = replace(self, renews_marks=True)
            renewed, _ = renewer._write_unless_similar(wrongly_marked, originals)
        to_judge_again = misjudged.intersection(left_out) | postponed
        report += self._leave_out(
            {row: verdicts[row] for row in left_out if row not in to_judge_again}
        )
        # The verdicts of the wrongly marked ones are counted in `renewed`.
        not_counted = to_judge_again.union(wrongly_marked)
        settled = [verdict for row, verdict in verdicts.items() if row not in not_counted]
        report += IngestReport(
            duplicates=renewed.duplicates
            + sum(verdict.original is not None for verdict in settled),
            exact=renewed.exact + sum(verdict.exact for verdict in settled),
            truncated=sum(verdict.truncated for verdict in verdicts.values()),
        )
        rows_by_original = defaultdict[str | None, list[int]](list)
        for row in sorted(to_judge_again):
            rows_by_original[verdicts[row].original].append(row)
        return _Judged(report, failed, [*rows_by_original.values()])

    def _write_in_order(
        self, rows: Sequence[int], verdicts: Mapping[int, Verdict]
    ) -> tuple[IngestReport, set[str], set[int]]:
        """Write rows, if need be after their originals.

        Return the counts, the ids that were not written, and the rows that were postponed because
        their originals were not written.
        """
        ids = self.batch.documents.ids
        # Of several documents of one id the last one is written.
        verdict_of = {ids[row]: verdict for row, verdict in verdicts.items()}
        report, failed, postponed = IngestReport(), set[str](), set[int]()
        for rows_of_turn in self._turns({row: verdict_of[ids[row]] for row in rows}):
            unwritten_ids = failed.union(ids[row] for row in postponed)
            ready = [
                row for row in rows_of_turn if verdict_of[ids[row]].original not in unwritten_ids
            ]
            postponed.update({*rows_of_turn}.difference(ready))
            counts, refused = self._put(ready, verdict_of)
            report, failed = report + counts, failed | refused
        return report, failed, postponed

    def _leave_out(self, verdicts: Mapping[int, Verdict]) -> IngestReport:
        """Skip rows that the policy leaves out, or refuse them as failures; return the counts."""
        if self.policy.action == "skip":
            return IngestReport(skipped=len(verdicts))
        measure = self.batch.meta.scheme.chosen(self.policy.limits).measure
        self._refuse({row: f"it is {verdict.reason(measure)}" for row, verdict in verdicts.items()})
        return IngestReport(failed=len(verdicts))

    def _turns(self, verdicts: Mapping[int, Verdict]) -> Iterator[list[int]]:
        """Yield the rows to write together, in the order in which they are written."""
        if not (self.after_originals and self.policy.writes):
            # Duplicates first: after a kill, documents that come again are compared with the same
            # representatives as the first time.
            yield [row for row, verdict in verdicts.items() if verdict.original is not None]
            yield [row for row, verdict in verdicts.items() if verdict.original is None]
            return
        ids, waiting = self.batch.documents.ids, [*verdicts]
        while waiting:
            waiting_ids = {ids[row] for row in waiting}
            ready = {row for row in waiting if verdicts[row].original not in waiting_ids}
            if not ready:
                # Originals of each other: no order is right.
                yield waiting
                return
            yield [row for row in waiting if row in ready]
            waiting = [row for row in waiting if row not in ready]

    def _refuse(self, refused: Mapping[int, str]) -> None:
        """Refuse the records of rows, which are read again, for the reasons."""
        batch = self.batch
        if not refused:
            return
        documents, _ = batch.fields.documents_of(self.chunk, batch.meta)
        for row, reason in refused.items():
            self.refused.append(bad_record(documents[row].record, reason))

    def _put(
        self, rows: Sequence[int], verdict_of: Mapping[str, Verdict]
    ) -> tuple[IngestReport, set[str]]:
        """Write rows, with marks by the verdicts of their ids.

        Return the counts, and the ids that were refused.
        """
        documents = self.batch.documents.of(rows)
        if self.policy.writes:
            marks = [verdict_of[id].fields() for id in documents.ids]
            documents = replace(documents, marks=marks)
        report, refused = self._write(documents, rows)
        if not self.renews_marks:
            _, packed = documents.tokens.get(self.batch.meta.field, (None, []))
            wordless = sum(data is not None and is_wordless(data) for data in packed)
            report += IngestReport(without_words=wordless)
        self._refuse({rows[position]: failure.reason for position, failure in refused.items()})
        return report, {documents.ids[position] for position in refused}

    def _write(
        self, documents: EncodedDocuments, rows: Sequence[int]
    ) -> tuple[IngestReport, dict[int, Failure]]:
        """Write the documents of rows, of one id the last.

        Return the counts, and failures by their position among these.
        """
        last_position = {id: position for position, id in enumerate(documents.ids)}
        latest = documents
        if len(last_position) < len(documents):
            latest = documents.of([*last_position.values()])
        # Those of an id choose their shards by the same value.
        routing_of = dict(zip(latest.ids, latest.routings, strict=False))
        # A new document is only created, which takes one request.
        written = self.store.write(latest, create=True)
        conflicts = [failure for failure in written.failures if failure.conflict]
        refused = [failure for failure in written.failures if not failure.conflict]
        unchanged, replaced_originals = written.unchanged, set[str]()

        def decide(stored_documents: Sequence[StoredDocument]) -> list[Decision]:
            positions = [last_position[document.id] for document in stored_documents]
            sent_documents = documents.of(positions).documents()
            if self.originals is not None:
                replaced_originals.update(self.originals.replaced(stored_documents, sent_documents))
            sent_rows = [rows[position] for position in positions]
            return [*map(self._decision, stored_documents, sent_documents, sent_rows)]

        for first in range(0, len(conflicts), _COMPARED_AT_ONCE):
            page = conflicts[first : first + _COMPARED_AT_ONCE]
            unread = [
                StoredDocument(
                    Document(failure.id, {}), "", failure.index, routing_of.get(failure.id)
                )
                for failure in page
            ]
            stored = self.store.hold_again(unread, ALL_PATHS)
            changes = missing([failure.id for failure in page], stored, _GONE)
            changes += change_documents(self.store, stored, decide, ALL_PATHS, _GONE)
            refused += changes.failures
            unchanged += changes.unchanged
        failure_of = {failure.id: failure for failure in refused}
        failed = {
            position: failure_of[id]
            for position, id in enumerate(documents.ids)
            if id in failure_of
        }
        updated = len(documents) - written.created - unchanged - len(failed)
        causes = Counter(failure.cause for failure in failed.values())
        report = IngestReport(
            created=written.created,
            updated=updated,
            unchanged=unchanged,
            failed=causes["refused"],
            dropped=causes["dropped"],
            moved=causes["moved"],
            renamed=causes["renamed"],
            replaced_originals=len(replaced_originals - failure_of.keys()),
        )
        return report, failed

    def _decision(self, current: StoredDocument, document: Document, row: int) -> Decision:
        """Compare a stored document with the new one of a row."""
        stored, source = current.source, document.source
        meta = self.batch.meta
        if text_at(stored, meta.text_fields) != text_at(source, meta.text_fields):
            if not self.batch.has_own_id[row]:
                return Failure(current.id, TAKEN_BY_LINE)
            return Change(current, source, whole=True, new=True, raw=document.raw)
        fields = {meta.marks_field, *(sketched.field for sketched in meta.sketched_with_next)}
        before = {field: tokens_in(stored, field) for field in fields}
        renews_marks = self._needs_marks(current, source)
        after = {
            field: _merged(before[field], document.tokens_in(field), renews_marks)
            for field in fields
        }
        after = {field: values for field, values in after.items() if values}
        has_same_tokens = all(
            before[field].get(name) == after.get(field, {}).get(name)
            for field in fields
            for name in ("scheme", "digest", *MARKS)
        )
        has_digits = self.batch.from_json[row]
        if has_same_tokens and _are_equal(current.document, document, fields, has_digits):
            return "unchanged"
        raw = document.raw
        if raw is not None:
            raw = text_with_fields(raw, after, f"document {current.id!r}")
        return Change(current, {**source, **after}, whole=True, new=True, raw=raw)

    def _needs_marks(self, current: StoredDocument, source: Mapping[str, object]) -> bool:
        """Return whether a stored document of the same text gets new marks.

        source: the fields that it gets.

        It keeps its own, but if these are wrong.
        """
        marks = self.batch.meta.ours_in(current.source)
        if self.renews_marks or marks.get("group") is None:
            return True
        if self.originals is None:
            return False
        if self.originals.is_moved(current.source, source):
            return True
        verdict = Verdict.stored(current.id, marks)
        return not self.originals.may_have(current.id, marks.get("digest", ""), verdict)


def _are_equal(
    stored: Document, document: Document, ours: Collection[str], has_digits: bool
) -> bool:
    """Return whether a document equals the stored one but for the fields of ours.

    has_digits: the digits of the document's numbers are those of its record.
    """
    if not same_json(without(stored.source, ours), without(document.source, ours)):
        return False
    if stored.raw is None or document.raw is None or not has_digits:
        return True
    # Equal numbers may have other digits: the owner may have corrected 100.1 to 100.10.
    stored_fields, fields = with_digits(stored.raw), with_digits(document.raw)
    return same_json(without(stored_fields, ours), without(fields, ours))


def _merged(
    before: Mapping[str, object], tokens: Mapping[str, object], renews_marks: bool
) -> dict[str, object]:
    """Add to new values what else a document has below a field of ours.

    renews_marks: the marks are new values too.
    """
    new = {name: value for name, value in tokens.items() if renews_marks or name not in MARKS}
    replaced = MARKS if renews_marks else ()
    retained = {
        name: value for name, value in before.items() if not (is_ours(name) or name in replaced)
    }
    return {**new, **retained}
