"""Writes documents to a store with their tokens, and accounts for every record.

A record is read (`files`), becomes a document (`documents.items_of`), gets its tokens
(`documents.with_tokens`), and is written. Worker processes do everything but the writing. Only this
process writes, in the order of the records: of several documents of one id the last one stays.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from esdedup.ingest.documents import TAKEN_BY_LINE, Item, bad_record, items_of, with_tokens
from esdedup.ingest.files import BadRecord, Chunk, Record, batches
from esdedup.ingest.near_duplicates import DuplicatePolicy, Originals
from esdedup.ingest.parallel import in_order
from esdedup.ingest.recent import Verdict
from esdedup.models import Counts, Document, Encoded
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta

_TAKEN = "the id is taken by another text, and a data stream takes no changes"
DeadLetter = Callable[[BadRecord], None]


@dataclass(frozen=True)
class IngestReport(Counts):
    """Counts of records. read = created + updated + unchanged + skipped + failed.

    unchanged: records without an id of their own that were indexed before with the same text.
    skipped: near-duplicates that the policy leaves out. failed: records handed to the dead letter.
    duplicates: near-duplicates found, whatever was done with them. exact: those of them with an
    equal text. truncated: documents that had more candidates than the policy compares with, or
    only buckets of the stop list.
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
) -> IngestReport:
    """Writes records with their tokens. What counts as created or updated is durable.

    A record's id is its `id_field`, by default `id` if it has one. A record without one gets the id
    "file:line". Such a document is only created: it never replaces another text.

    records: single ones, or chunks, which more than one worker needs. dead_letter: called with
    every record that is not written. workers: processes that read and sketch. on_duplicate: what to
    do with near-duplicates of earlier documents, by default nothing. on_batch: called after each
    batch with the report so far. fresh: returns the index's meta, which may change during the run.

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
    with closing(made):
        for batch in made:
            writer = _Writer(store, current(), dead_letter, policy, originals)
            report += writer.write(batch)
            for record in batch.bad:
                dead_letter(record)
            read = len(batch.items) + len(batch.encoded) + len(batch.bad)
            report += IngestReport(read=read, failed=len(batch.bad))
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
    encoded = [Encoded(made.id, _digest(made, meta.field), encode(made)) for made in documents]
    return _Batch([], bad, meta, encoded, [item.own_id for item in items], read)


def _items_in(
    chunk: Chunk, text_fields: Sequence[str], id_field: str | None
) -> tuple[list[Item], list[BadRecord]]:
    return items_of(chunk.records(), text_fields, id_field)


@dataclass(frozen=True)
class _Writer:
    """Writes a batch by the policy. originals: None if near-duplicates are kept."""

    store: Store
    meta: IndexMeta
    dead_letter: DeadLetter
    policy: DuplicatePolicy
    originals: Originals | None

    def write(self, batch: _Batch) -> IngestReport:
        """Writes the documents of a batch; the records are not counted as read."""
        items = batch.items
        if batch.read is not None:
            if batch.sketched_for == self.meta:
                report, refused = self._write(batch.encoded, batch.own)
                if refused:
                    self._refuse(batch.read()[0], refused)
                return report
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
                self._write_unless_alike(orphans, originals)
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
        """Writes documents. Those whose id is not their own are only created.

        Returns what became of them, and the rows of those that were refused with the reasons.
        """
        report, field = IngestReport(), self.meta.field
        refused: list[tuple[int, str]] = []
        for wanted, taken in ((True, _TAKEN), (False, TAKEN_BY_LINE)):
            some = [row for row, is_own in enumerate(own) if is_own is wanted]
            if not some:
                continue
            written = self.store.write([documents[row] for row in some], create=not wanted)
            rows: dict[str, list[int]] = defaultdict(list)
            for row in some:
                rows[documents[row].id].append(row)
            failures = written.failures
            failed = [(rows[each.id][-1], each.reason) for each in failures if not each.conflict]
            conflicts = Counter(each.id for each in failures if each.conflict)
            found = self.store.get(list(conflicts)) if conflicts else []
            stored = {document.id: document.tokens_in(field).get("digest") for document in found}
            for id, count in conflicts.items():
                # An id may come more than once. Its rows failed whose text is not the stored one.
                digest = stored.get(id)
                differing = [row for row in rows[id] if _digest(documents[row], field) != digest]
                failed += [(row, taken) for row in differing[:count]]
            refused += failed
            report += IngestReport(
                created=written.created,
                updated=written.updated,
                unchanged=len(failures) - len(failed),
                failed=len(failed),
            )
        return report, refused


def _digest(document: Document | Encoded, field: str) -> str:
    if isinstance(document, Encoded):
        return document.digest
    # None if the index changed its text fields since the record was read.
    digest: str = document.tokens_in(field).get("digest", "")
    return digest
