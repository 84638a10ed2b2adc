"""Writes documents to a store with their tokens, and accounts for every record.

A record is read (`files`), becomes a document (`documents.items_of`), gets its tokens
(`documents.with_tokens`), and is written. Worker processes do everything but the writing. Only this
process writes, in the order of the records: of several documents of one id the last one stays.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from esdedup.ingest.documents import (
    MARKS,
    OURS,
    TAKEN_BY_LINE,
    Item,
    bad_record,
    items_of,
    with_tokens,
)
from esdedup.ingest.files import BadRecord, Chunk, Record, batches
from esdedup.ingest.near_duplicates import DuplicatePolicy, Originals
from esdedup.ingest.parallel import in_order
from esdedup.ingest.recent import Verdict
from esdedup.ingest.repeated_ids import RepeatedIds
from esdedup.models import (
    TOKEN_KINDS,
    Change,
    Counts,
    Document,
    Encoded,
    Failure,
    Held,
    tokens_in,
)
from esdedup.stores.base import KEPT, Store
from esdedup.stores.changes import ChangeReport, Decision, change_held, missing
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta

_COMPARED_AT_ONCE = 1_000
_GONE = "it was deleted while it was being written; index it again"
DeadLetter = Callable[[BadRecord], None]


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
    records: Iterable[Record | BadRecord | Chunk],
    dead_letter: DeadLetter,
    *,
    workers: int = 1,
    id_field: str | None = None,
    on_duplicate: DuplicatePolicy | None = None,
    on_batch: Callable[[IngestReport], None] | None = None,
    fresh: Callable[[], IndexMeta] | None = None,
    ids: RepeatedIds | None = None,
) -> IngestReport:
    """Writes records with their tokens. What counts as created or updated is durable.

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
    if workers > 1:
        # A document that is to be marked can't be encoded yet.
        encode = store.encode if originals is None else None
        given = ((chunk, current()) for chunk in records)
        made = in_order(workers, partial(_prepare, id_field, encode), given)
    else:
        single = itertools.chain.from_iterable(
            each.records() if isinstance(each, Chunk) else [each] for each in records
        )
        made = (
            _Batch(*items_of(some, current().text_fields, id_field)) for some in batches(single)
        )
    report = IngestReport()
    ids = ids or RepeatedIds()
    with closing(made):
        for batch in made:
            writer = _Writer(store, current(), dead_letter, policy, originals)
            report += writer.write(batch)
            for record in batch.bad:
                dead_letter(record)
            read = len(batch.items) + len(batch.encoded) + len(batch.bad)
            repeated = ids.add(batch.ids, batch.place)
            report += IngestReport(read=read, failed=len(batch.bad), duplicate_ids=repeated)
            if on_batch is not None:
                on_batch(report)
    return report


@dataclass(frozen=True)
class _Batch:
    """Documents to write together, and the records that are not documents.

    sketched_for: the index's meta when the items were sketched, or None if they are not. encoded:
    in place of items, the documents as the store writes them: all that a worker process need send.
    own: for each of these, whether the id is its own. read: reads the items again, without tokens.
    """

    items: list[Item]
    bad: list[BadRecord]
    sketched_for: IndexMeta | None = None
    encoded: Sequence[Encoded] = ()
    own: Sequence[bool] = ()
    read: Callable[[], tuple[list[Item], list[BadRecord]]] | None = None
    without_words: int = 0

    @property
    def ids(self) -> list[str]:
        """The ids of the documents."""
        return [each.id for each in self.encoded or self.items]

    def place(self, row: int) -> str:
        """The place of a document's record."""
        items = self.items if self.read is None else self.read()[0]
        return items[row].record.place


def _prepare(
    id_field: str | None, encode: Callable[[Document], Any] | None, given: tuple[Any, IndexMeta]
) -> _Batch:
    """Reads and sketches a chunk, in a worker process. encode: None if marks are still to come."""
    chunk, meta = given
    read = partial(_items_in, chunk, meta.text_fields, id_field)
    items, bad = read()
    documents = with_tokens([item.document for item in items], meta)
    if encode is None:
        sketched = zip(items, documents, strict=True)
        return _Batch([replace(item, sketched=made) for item, made in sketched], bad, meta)
    encoded = [Encoded(made.id, encode(made)) for made in documents]
    own = [item.own_id for item in items]
    return _Batch([], bad, meta, encoded, own, read, _without_words(documents, meta.field))


def _without_words(documents: Sequence[Document], field: str) -> int:
    return sum(document.source[field].keys().isdisjoint(TOKEN_KINDS) for document in documents)


def _items_in(
    chunk: Chunk, text_fields: Sequence[str], id_field: str | None
) -> tuple[list[Item], list[BadRecord]]:
    return items_of(chunk.records(), text_fields, id_field)


@dataclass(frozen=True)
class _Writer:
    """Writes a batch by the policy.

    originals: None if near-duplicates are kept. renews_marks: documents of the same text do not
    keep the marks that they have.
    """

    store: Store
    meta: IndexMeta
    dead_letter: DeadLetter
    policy: DuplicatePolicy
    originals: Originals | None
    renews_marks: bool = False

    def write(self, batch: _Batch) -> IngestReport:
        """Writes the documents of a batch; the records are not counted as read."""
        items = batch.items
        if batch.read is not None:
            if batch.sketched_for == self.meta:
                report, refused = self._write(batch.encoded, batch.own)
                if refused:
                    self._refuse(batch.read()[0], refused)
                return report + IngestReport(without_words=batch.without_words)
            items, _ = batch.read()
        elif batch.sketched_for not in (None, self.meta):
            # The index names another scheme by now.
            items = [replace(item, sketched=None) for item in items]
        if self.originals is None:
            return self._put(items)[0]
        return self._write_unless_alike(items, self.originals)

    def _write_unless_alike(self, items: list[Item], originals: Originals) -> IngestReport:
        """Finds near-duplicates, and writes the items that the policy lets in."""
        verdicts = originals.find([item.id for item in items], [item.text for item in items])
        judged = list(zip(items, verdicts, strict=True))
        marks = {item.id: verdict for item, verdict in judged}
        written = [item for item, verdict in judged if self.policy.takes(verdict)]
        turns = [written]
        if self.policy.groups:
            # Duplicates before representatives, so that no representative is in the store without
            # all documents before it. After a kill, documents that come again are compared with the
            # same representatives as the first time.
            leaders = [item for item in written if marks[item.id].original is None]
            turns = [[item for item in written if marks[item.id].original is not None], leaders]
        report = IngestReport()
        failed: set[str] = set()
        for turn in turns:
            done, ids = self._put(turn, marks)
            report += done
            failed |= ids
        originals.forget(failed)
        if self.policy.writes:
            orphans = [item for item in written if marks[item.id].original in failed]
            if orphans := [item for item in orphans if item.id not in failed]:
                originals.doubt([item.id for item in orphans])
                # They get new marks, and are counted already.
                replace(self, renews_marks=True)._write_unless_alike(orphans, originals)
        left_out = [row for row, verdict in enumerate(verdicts) if not self.policy.takes(verdict)]
        # The original was not written, so that each of these may be the first of its kind.
        lost = {row for row in left_out if verdicts[row].original in failed}
        settled = [verdict for row, verdict in enumerate(verdicts) if row not in lost]
        refused = [(row, f"it is {verdicts[row].reason}") for row in left_out if row not in lost]
        skipped = len(refused) if self.policy.action == "skip" else 0
        if not skipped:
            self._refuse(items, refused)
        report += IngestReport(
            skipped=skipped,
            failed=len(refused) - skipped,
            duplicates=sum(verdict.original is not None for verdict in settled),
            exact=sum(verdict.exact for verdict in settled),
            truncated=sum(verdict.truncated for verdict in verdicts),
        )
        if lost:
            report += self._write_unless_alike([items[row] for row in sorted(lost)], originals)
        return report

    def _refuse(self, items: Sequence[Item], refused: Iterable[tuple[int, str]]) -> None:
        for row, reason in refused:
            self.dead_letter(bad_record(items[row].record, reason))

    def _put(
        self, items: list[Item], marks: dict[str, Verdict] | None = None
    ) -> tuple[IngestReport, set[str]]:
        """Writes items. Returns what became of them, and the ids that were refused."""
        documents = [item.sketched for item in items if item.sketched is not None]
        if len(documents) < len(items):
            documents = with_tokens([item.document for item in items], self.meta)
        if marks is not None and self.policy.writes:
            documents = [self._marked(document, marks[document.id]) for document in documents]
        report, refused = self._write(documents, [item.own_id for item in items])
        if not self.renews_marks:
            # Otherwise they are counted already.
            report += IngestReport(without_words=_without_words(documents, self.meta.field))
        self._refuse(items, refused)
        return report, {items[row].id for row, _ in refused}

    def _marked(self, document: Document, verdict: Verdict) -> Document:
        ours = {one.field: document.tokens_in(one.field) for one in self.meta.all}
        # While the index changes its text fields, a document may lack the text of one of them.
        marked = {field: {**tokens, **verdict.fields()} for field, tokens in ours.items() if tokens}
        return Document(document.id, {**document.source, **marked})

    def _write(
        self, documents: Sequence[Document | Encoded], own: Sequence[bool]
    ) -> tuple[IngestReport, list[tuple[int, str]]]:
        """Writes documents. own: for each, whether its id is its own.

        A new document is only created, which takes one request. Of those of one id, the last is
        written. Returns what became of them, and the rows of those that were refused with the
        reasons.
        """
        rows = {document.id: row for row, document in enumerate(documents)}
        forms: dict[str, Encoded] = {}
        for id, row in rows.items():
            one = documents[row]
            form = one.form if isinstance(one, Encoded) else self.store.encode(one)
            forms[id] = Encoded(id, form)
        written = self.store.write(list(forms.values()), create=True)
        taken = [each for each in written.failures if each.conflict]
        refused = [each for each in written.failures if not each.conflict]
        unchanged = 0
        for first in range(0, len(taken), _COMPARED_AT_ONCE):
            known = {
                each.id: (self.store.decode(forms[each.id]), own[rows[each.id]])
                for each in taken[first : first + _COMPARED_AT_ONCE]
            }
            done = self._replace(taken[first : first + _COMPARED_AT_ONCE], known)
            refused += done.failures
            unchanged += done.unchanged
        reasons = {each.id: each.reason for each in refused}
        failed = [
            (row, reasons[document.id])
            for row, document in enumerate(documents)
            if document.id in reasons
        ]
        updated = len(documents) - written.created - unchanged - len(failed)
        report = IngestReport(0, written.created, updated, unchanged, failed=len(failed))
        return report, failed

    def _replace(
        self, taken: Sequence[Failure], documents: Mapping[str, tuple[Document, bool]]
    ) -> ChangeReport:
        """Replaces documents that differ from those of their ids. documents: with `own`, by id."""

        def decide(held: Sequence[Held]) -> list[Decision]:
            return [self._decision(one, *documents[one.id]) for one in held]

        places = [Held(Document(each.id, {}), "", each.index) for each in taken]
        held = self.store.hold_again(places, KEPT)
        report = missing(list(documents), held, _GONE)
        return report + change_held(self.store, held, decide, KEPT, _GONE)

    def _decision(self, held: Held, document: Document, own: bool) -> Decision:
        """Compares a stored document with the new one."""
        stored, source = held.document.source, document.source
        fields = [one.field for one in self.meta.all]
        names = self.meta.text_fields
        if text_at(stored, names) != text_at(source, names):
            return Change(held, source, True, True) if own else Failure(held.id, TAKEN_BY_LINE)
        before = {field: tokens_in(stored, field) for field in fields}
        ours = {field: self._kept(before[field], document.tokens_in(field)) for field in fields}
        if _alike(stored, source, fields) and all(
            before[field].get(name) == ours[field].get(name)
            for field in fields
            for name in ("scheme", "digest", *MARKS)
        ):
            return "unchanged"
        return Change(held, {**source, **ours}, True, True)

    def _kept(self, before: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
        """Adds to new tokens what else a document of the same text has below our field."""
        gone = {*OURS}
        if self.renews_marks or before.get("group") is None:
            gone |= {*MARKS}
        else:
            ours = {name: value for name, value in ours.items() if name not in MARKS}
        return {**ours, **{name: value for name, value in before.items() if name not in gone}}


def _alike(stored: Mapping[str, Any], source: Mapping[str, Any], but: Sequence[str]) -> bool:
    """Tells whether documents have the same fields. 1, 1.0 and true differ."""
    one, other = (
        json.dumps({name: each[name] for name in each if name not in but}, sort_keys=True)
        for each in (stored, source)
    )
    return one == other
