"""Write documents to a store with their tokens, and account for every record.

A record is read (`files`), becomes a document (`documents.items_of`), gets its tokens
(`documents.encoded`), and is written. Worker processes do everything but the writing. Only this
process writes, in the order of the records: of several documents of one id the last one stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from esdedup.ingest.arrivals import Originals
from esdedup.ingest.parallel import in_order
from esdedup.ingest.policies import DuplicatePolicy, Verdict
from esdedup.models import (
    Change,
    Counts,
    Document,
    Encoded,
    Failure,
    Held,
    tokens_in,
)
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import (
    MARKS,
    TAKEN_BY_LINE,
    RepeatedIds,
    bad_record,
    encoded,
    is_ours,
    items_of,
)
from esdedup.records.files import BadRecord, Chunk, Record, batches
from esdedup.stores.base import KEPT, Store
from esdedup.stores.changes import ChangeReport, Decision, change_held, missing
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.to_json import same_json

_COMPARED_AT_ONCE = 1_000
_GONE = "it was deleted while it was being written; index it again"


@dataclass(frozen=True)
class IngestReport(Counts):
    """Counts of records. read = created + updated + unchanged + skipped + failed.

    updated: replaced a document, or were replaced at once by a later record of their id.
    unchanged: the index had the same document with its tokens, and nothing was written.
    skipped: near-duplicates that the policy leaves out. failed: records handed to the dead letter.
    duplicates: near-duplicates found, whatever was done with them. exact: those of them with an
    equal text. truncated: documents that had more candidates than the policy compares with, or
    only buckets of the stop list. duplicate_ids: records whose id an earlier record had.
    without_words: documents that have no tokens, as their texts have no words. Only equal texts
    are found of them.
    """

    read: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    duplicates: int = 0
    exact: int = 0
    truncated: int = 0
    duplicate_ids: int = 0
    without_words: int = 0


def ingest(
    store: Store,
    meta: IndexMeta,
    records: Iterable[Record | BadRecord] | Iterable[Chunk],
    dead_letter: DeadLetter,
    *,
    workers: int = 1,
    id_field: str | None = None,
    on_duplicate: DuplicatePolicy | None = None,
    on_batch: Callable[[IngestReport], None] | None = None,
    fresh: Callable[[], IndexMeta] | None = None,
    ids: RepeatedIds | None = None,
) -> IngestReport:
    """Write records with their tokens. What counts as created or updated is durable.

    A record's id is its `id_field`, by default `id` if it has one. A record without one gets the id
    "path:line". Such a document never replaces another text.

    A document that the index has already is not written. One with the same text and other fields
    keeps its group and marks. One with another text loses them.

    records: single ones, or chunks, which more than one worker needs. dead_letter: called with
    every record that is not written. workers: processes that read and sketch. on_duplicate: what to
    do with near-duplicates of earlier documents, by default nothing. on_batch: called after each
    batch with the report so far. fresh: returns the index's meta, which may change during the run.
    ids: is given the ids of all documents.

    Raises the errors of the store, and StoreError if a worker was killed or can't be started. The
    last report given to `on_batch` counts the acknowledged records. The same call again completes
    the work.
    """
    current = fresh or (lambda: meta)
    policy = on_duplicate or DuplicatePolicy()
    originals = Originals(store, current, policy) if policy.action != "keep" else None
    prepare = partial(_prepare, id_field, originals is not None)
    given = ((chunk, current()) for chunk in _chunks(records))
    report = IngestReport()
    ids = ids or RepeatedIds()
    with closing(in_order(workers, prepare, given)) as made:
        for batch in made:
            now = current()
            if batch.meta != now:
                # The index names another scheme by now.
                batch = prepare((batch.chunk, now))
            report += _Writer(store, dead_letter, policy, originals, batch).write()
            for record in batch.bad:
                dead_letter(record)
            read = len(batch.documents) + len(batch.bad)
            repeated = ids.add([each.id for each in batch.documents])
            report += IngestReport(read=read, failed=len(batch.bad), duplicate_ids=repeated)
            if on_batch is not None:
                on_batch(report)
    return report


def _chunks(records: Iterable[Record | BadRecord] | Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks, or single records in chunks."""
    rest = iter(records)
    for first in rest:
        if isinstance(first, Chunk):
            yield first
        else:
            single = cast("Iterable[Record | BadRecord]", itertools.chain([first], rest))
            yield from (Chunk(partial(iter, some)) for some in batches(single))


@dataclass(frozen=True)
class _Batch:
    """The documents of a chunk, and the records that are not documents.

    meta: the index's, when the chunk was read. own: for each document, whether its id is its own.
    texts: of the documents, if a policy needs them.
    """

    chunk: Chunk
    meta: IndexMeta
    id_field: str | None
    own: list[bool]
    texts: list[str]
    bad: list[BadRecord]
    documents: list[Encoded]

    def records(self) -> list[Record]:
        """Return the records of the documents, which are read again."""
        items, _ = items_of(self.chunk.records(), self.meta.text_fields, self.id_field)
        return [item.record for item in items]


def _prepare(id_field: str | None, with_texts: bool, given: tuple[Chunk, IndexMeta]) -> _Batch:
    """Read and sketch a chunk, maybe in a worker process."""
    chunk, meta = given
    items, bad = items_of(chunk.records(), meta.text_fields, id_field)
    own, texts = [item.own_id for item in items], [item.text for item in items]
    documents = encoded(items, meta)
    return _Batch(chunk, meta, id_field, own, texts if with_texts else [], bad, documents)


@dataclass(frozen=True)
class _Writer:
    """Writes a batch by the policy.

    originals: None if near-duplicates are kept. renews_marks: documents of the same text do not
    keep the marks that they have.
    """

    store: Store
    dead_letter: DeadLetter
    policy: DuplicatePolicy
    originals: Originals | None
    batch: _Batch
    renews_marks: bool = False

    def write(self) -> IngestReport:
        """Write the documents of the batch; the records are not counted as read."""
        rows = range(len(self.batch.documents))
        if self.originals is None:
            return self._put(rows)[0]
        return self._write_unless_alike(rows, self.originals)

    def _write_unless_alike(self, rows: Sequence[int], originals: Originals) -> IngestReport:
        """Find near-duplicates, and write the rows that the policy lets in."""
        ids = {row: self.batch.documents[row].id for row in rows}
        texts = [self.batch.texts[row] for row in rows]
        found = originals.find([*ids.values()], texts, again=self.renews_marks)
        verdicts = dict(zip(rows, found, strict=True))
        written = [row for row, verdict in verdicts.items() if self.policy.takes(verdict)]
        # Of several documents of one id the last one is written.
        marks = {ids[row]: verdict for row, verdict in verdicts.items()}
        turns = [written]
        if self.policy.groups:
            # Duplicates before representatives, so that no representative is in the store without
            # all documents before it. After a kill, documents that come again are compared with the
            # same representatives as the first time.
            leaders = [row for row in written if marks[ids[row]].original is None]
            turns = [[row for row in written if marks[ids[row]].original is not None], leaders]
        report = IngestReport()
        failed: set[str] = set()
        for turn in turns:
            done, refused_ids = self._put(turn, marks)
            report += done
            failed |= refused_ids
        if self.policy.writes:
            orphans = [row for row in written if marks[ids[row]].original in failed]
            if orphans := [row for row in orphans if ids[row] not in failed]:
                # They get new marks, and are counted already.
                replace(self, renews_marks=True)._write_unless_alike(orphans, originals)
        left_out = {row: each for row, each in verdicts.items() if not self.policy.takes(each)}
        # The original was not written, so that each of these may be the first of its kind.
        lost = {row for row, verdict in left_out.items() if verdict.original in failed}
        settled = [verdict for row, verdict in verdicts.items() if row not in lost]
        refused = {row: f"it is {left_out[row].reason}" for row in left_out if row not in lost}
        skipped = len(refused) if self.policy.action == "skip" else 0
        if not skipped:
            self._refuse(refused)
        report += IngestReport(
            skipped=skipped,
            failed=len(refused) - skipped,
            duplicates=sum(verdict.original is not None for verdict in settled),
            exact=sum(verdict.exact for verdict in settled),
            truncated=sum(verdict.truncated for verdict in verdicts.values()),
        )
        if lost:
            report += self._write_unless_alike(sorted(lost), originals)
        return report

    def _refuse(self, refused: Mapping[int, str]) -> None:
        """Hands the records of rows to the dead letter, with the reasons."""
        records = self.batch.records() if refused else []
        for row, reason in refused.items():
            self.dead_letter(bad_record(records[row], reason))

    def _put(
        self, rows: Sequence[int], marks: Mapping[str, Verdict] | None = None
    ) -> tuple[IngestReport, set[str]]:
        """Write rows. Returns what became of them, and the ids that were refused."""
        documents = [self.batch.documents[row] for row in rows]
        if marks is not None and self.policy.writes:
            documents = [each._replace(marks=marks[each.id].fields()) for each in documents]
        report, refused = self._write(documents, [self.batch.own[row] for row in rows])
        if not self.renews_marks:
            # Otherwise they are counted already.
            report += IngestReport(without_words=self._without_words(documents))
        self._refuse({rows[at]: reason for at, reason in refused.items()})
        return report, {documents[at].id for at in refused}

    def _without_words(self, documents: Sequence[Encoded]) -> int:
        """Return the number of documents with a text, and without tokens."""
        field = self.batch.meta.field
        return sum('"wordless":' in each.ours[field] for each in documents)

    def _write(
        self, documents: Sequence[Encoded], own: Sequence[bool]
    ) -> tuple[IngestReport, dict[int, str]]:
        """Write documents. own: for each, whether its id is its own.

        A new document is only created, which takes one request. Of those of one id, the last is
        written. Returns what became of them, and the reasons for those that were refused, by their
        place among the documents.
        """
        rows = {document.id: row for row, document in enumerate(documents)}
        latest = [documents[row] for row in rows.values()]
        written = self.store.write(latest, create=True)
        taken = [each for each in written.failures if each.conflict]
        refused = [each for each in written.failures if not each.conflict]
        unchanged = written.unchanged
        for first in range(0, len(taken), _COMPARED_AT_ONCE):
            some = taken[first : first + _COMPARED_AT_ONCE]
            places = {each.id: rows[each.id] for each in some}
            known = {id: (documents[row].document, own[row]) for id, row in places.items()}
            done = self._replace(some, known)
            refused += done.failures
            unchanged += done.unchanged
        reasons = {each.id: each.reason for each in refused}
        failed = {
            row: reasons[document.id]
            for row, document in enumerate(documents if reasons else ())
            if document.id in reasons
        }
        updated = len(documents) - written.created - unchanged - len(failed)
        report = IngestReport(0, written.created, updated, unchanged, failed=len(failed))
        return report, failed

    def _replace(
        self, taken: Sequence[Failure], documents: Mapping[str, tuple[Document, bool]]
    ) -> ChangeReport:
        """Replace documents that differ from those of their ids. documents: with `own`, by id."""

        def decide(held: Sequence[Held]) -> list[Decision]:
            return [self._decision(one, *documents[one.id]) for one in held]

        places = [Held(Document(each.id, {}), "", each.index) for each in taken]
        held = self.store.hold_again(places, KEPT)
        report = missing(list(documents), held, _GONE)
        return report + change_held(self.store, held, decide, KEPT, _GONE)

    def _decision(self, held: Held, document: Document, own: bool) -> Decision:
        """Compare a stored document with the new one."""
        stored, source = held.document.source, document.source
        meta = self.batch.meta
        fields = [*dict.fromkeys([meta.marks_field, *(one.field for one in meta.all)])]
        names = meta.text_fields
        if text_at(stored, names) != text_at(source, names):
            return Change(held, source, True, True) if own else Failure(held.id, TAKEN_BY_LINE)
        before = {field: tokens_in(stored, field) for field in fields}
        renewed = self._renews(held.id, meta.ours_in(stored))
        ours = {field: _kept(before[field], document.tokens_in(field), renewed) for field in fields}
        ours = {field: values for field, values in ours.items() if values}
        if _alike(stored, source, fields) and all(
            before[field].get(name) == ours.get(field, {}).get(name)
            for field in fields
            for name in ("scheme", "digest", *MARKS)
        ):
            return "unchanged"
        return Change(held, {**source, **ours}, True, True)

    def _renews(self, id: str, before: Mapping[str, Any]) -> bool:
        """Return whether a document of the same text gets new marks. before: its values of ours."""
        wrong = self.originals is not None and not self.originals.may_have(
            id, before.get("digest", ""), Verdict.stored(id, before)
        )
        return self.renews_marks or wrong or before.get("group") is None


def _kept(before: Mapping[str, Any], ours: Mapping[str, Any], renewed: bool) -> dict[str, Any]:
    """Add to new values what else a document has below a field of ours. renewed: its marks too."""
    ours = {name: value for name, value in ours.items() if renewed or name not in MARKS}
    gone = MARKS if renewed else ()
    kept = {name: value for name, value in before.items() if not (is_ours(name) or name in gone)}
    return {**ours, **kept}


def _alike(stored: Mapping[str, Any], source: Mapping[str, Any], but: Sequence[str]) -> bool:
    """Return whether documents have the same fields."""
    one, other = (
        {name: each[name] for name in each if name not in but} for each in (stored, source)
    )
    return same_json(one, other)
