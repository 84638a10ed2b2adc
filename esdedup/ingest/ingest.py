"""Writes documents to a store with their tokens, and accounts for every record.

A record is read (`files`), becomes a document (`documents.items_of`), gets its tokens
(`documents.with_tokens`), and is written (`write_documents`). With one process all of this happens
here. With several, worker processes do everything but the writing. Only this process writes, in the
order of the records: of several documents of one id the last one stays.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
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

    records: single ones, or chunks of them. workers: processes that read and sketch, if more than
    1; they take only chunks. on_duplicate: what to do with near-duplicates of earlier
    documents, by default nothing. dead_letter: called with every record that is not written.
    on_batch: called after each batch with the report so far. fresh: returns the index's current
    meta, which may change during the run.

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
        made = _in_batches(records, meta.text_field, id_field)
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
    own: for each of these, whether the id is its own. read: reads the items again.
    """

    items: list[Item]
    bad: list[BadRecord]
    sketched_for: IndexMeta | None = None
    encoded: Sequence[Encoded] = ()
    own: Sequence[bool] = ()
    read: Callable[[], tuple[list[Item], list[BadRecord]]] | None = None


def _in_batches(
    records: Iterable[Record | BadRecord | Chunk], text_field: str, id_field: str | None
) -> Generator[_Batch]:
    single = itertools.chain.from_iterable(
        [each] if isinstance(each, (Record, BadRecord)) else each.records() for each in records
    )
    for batch in batches(single):
        yield _Batch(*items_of(batch, text_field, id_field))


def _prepare(
    id_field: str | None,
    encode: Callable[[Document], Any] | None,
    given: tuple[Any, IndexMeta],
) -> _Batch:
    """Reads and sketches a chunk, in a worker process.

    encode: the store's, or None if marks are still to be put into the documents.
    """
    chunk, meta = given
    read = partial(_items_in, chunk, meta.text_field, id_field)
    items, bad = read()
    documents = with_tokens([item.document for item in items], meta)
    if encode is None:
        sketched = zip(items, documents, strict=True)
        return _Batch([replace(item, sketched=made) for item, made in sketched], bad, meta)
    encoded = [Encoded(made.id, _digest(made, meta.field), encode(made)) for made in documents]
    return _Batch([], bad, meta, encoded, [item.own_id for item in items], read)


def _items_in(
    chunk: Chunk, text_field: str, id_field: str | None
) -> tuple[list[Item], list[BadRecord]]:
    return items_of(chunk.records(), text_field, id_field)


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
                report, refused = write_documents(
                    self.store, self.meta.field, batch.encoded, batch.own
                )
                if refused:
                    items, _ = batch.read()
                    self._refuse((items[position], reason) for position, reason in refused)
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
            # all that came before it. After a kill, what comes again is compared with the same
            # representatives as the first time.
            leaders = [item for item in written if marks[item.id].original is None]
            turns = [[item for item in written if marks[item.id].original is not None], leaders]
        report = IngestReport()
        failed: set[str] = set()
        for turn in turns:
            done, refused = self._put(turn, marks)
            report += done
            failed |= refused
        originals.forget(failed)
        if self.policy.writes:
            orphans = [item for item in written if marks[item.id].original in failed]
            if orphans := [item for item in orphans if item.id not in failed]:
                originals.doubt([item.id for item in orphans])
                # They get new marks, and are counted already.
                self._write_unless_alike(orphans, originals)
        lost: list[tuple[Item, Verdict]] = []
        left_out: list[tuple[Item, Verdict]] = []
        for item, verdict in judged:
            if not self.policy.takes(verdict):
                (lost if verdict.original in failed else left_out).append((item, verdict))
        if self.policy.action == "skip":
            report += IngestReport(skipped=len(left_out))
        else:
            self._refuse((item, f"it is {verdict.reason}") for item, verdict in left_out)
            report += IngestReport(failed=len(left_out))
        report += IngestReport(
            duplicates=sum(verdict.original is not None for verdict in verdicts) - len(lost),
            exact=sum(verdict.exact for verdict in verdicts)
            - sum(verdict.exact for _, verdict in lost),
            truncated=sum(verdict.truncated for verdict in verdicts),
        )
        if lost:
            # The original was not written, so that each of these may be the first of its kind.
            report += self._write_unless_alike([item for item, _ in lost], originals)
        return report

    def _refuse(self, items: Iterable[tuple[Item, str]]) -> None:
        for item, reason in items:
            self.dead_letter(bad_record(item.record, reason))

    def _put(
        self, items: list[Item], marks: dict[str, Verdict] | None = None
    ) -> tuple[IngestReport, set[str]]:
        """Writes items. Returns what became of them, and the ids that were refused."""
        documents = [item.sketched for item in items if item.sketched is not None]
        if len(documents) < len(items):
            documents = with_tokens([item.document for item in items], self.meta)
        if marks is not None and self.policy.writes:
            documents = [self._marked(document, marks[document.id]) for document in documents]
        own = [item.own_id for item in items]
        report, refused = write_documents(self.store, self.meta.field, documents, own)
        self._refuse((items[position], reason) for position, reason in refused)
        return report, {items[position].id for position, _ in refused}

    def _marked(self, document: Document, verdict: Verdict) -> Document:
        ours = {one.field: document.tokens_in(one.field) for one in self.meta.all}
        marked = {field: {**tokens, **verdict.fields()} for field, tokens in ours.items()}
        return Document(document.id, {**document.source, **marked})


def write_documents(
    store: Store, field: str, documents: Sequence[Document | Encoded], own: Sequence[bool]
) -> tuple[IngestReport, list[tuple[int, str]]]:
    """Writes documents. Those whose id is not their own are only created.

    field: the field of the tokens. own: for each document, whether the id is its own.

    Returns what became of them, with none counted as read, and the positions of those that were
    refused with the reasons.
    """
    report = IngestReport()
    refused: list[tuple[int, str]] = []
    for wanted, taken in ((True, _TAKEN), (False, TAKEN_BY_LINE)):
        some = [position for position, is_own in enumerate(own) if is_own is wanted]
        if not some:
            continue
        written = store.write([documents[position] for position in some], create=not wanted)
        positions: dict[str, list[int]] = defaultdict(list)
        for position in some:
            positions[documents[position].id].append(position)
        failed = [
            (positions[each.id][-1], each.reason) for each in written.failures if not each.conflict
        ]
        conflicts = Counter(each.id for each in written.failures if each.conflict)
        found = store.get(list(conflicts)) if conflicts else []
        stored = {document.id: document.tokens_in(field).get("digest") for document in found}
        for id, count in conflicts.items():
            # An id may come more than once. Its documents failed whose text is not the stored one.
            differing = [
                position
                for position in positions[id]
                if _digest(documents[position], field) != stored.get(id)
            ]
            failed += [(position, taken) for position in differing[:count]]
        refused += failed
        report += IngestReport(
            created=written.created,
            updated=written.updated,
            unchanged=len(written.failures) - len(failed),
            failed=len(failed),
        )
    return report, refused


def _digest(document: Document | Encoded, field: str) -> str:
    if isinstance(document, Encoded):
        return document.digest
    digest: str = document.tokens_in(field)["digest"]
    return digest
