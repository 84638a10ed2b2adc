"""Documents into a store: sketch a batch, write it, account for every record.

Documents that were only to be created, and whose ids were taken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from esdedup.ingest.documents import (
    TAKEN_BY_LINE,
    Item,
    bad_record,
    items_of,
    with_tokens,
)
from esdedup.ingest.files import BadRecord, Record, batches
from esdedup.ingest.near_duplicates import DuplicatePolicy, Originals
from esdedup.ingest.recent import Arrival, Verdict
from esdedup.models import Document, Failure
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta


def without_unchanged(
    store: Store,
    field: str,
    documents: Sequence[Document],
    failures: Sequence[Failure],
    taken: str,
) -> tuple[list[tuple[int, str]], int]:
    """What failed: positions in `documents` with reasons; and how many only had the very same text.

    An id may come more than once: of those, the ones whose text is not the stored one failed.
    taken: the reason to give for a conflict with another text.
    """
    positions: dict[str, list[int]] = defaultdict(list)
    for position, document in enumerate(documents):
        positions[document.id].append(position)
    found = [
        (positions[failure.id][-1], failure.reason) for failure in failures if not failure.conflict
    ]
    conflicts = Counter(failure.id for failure in failures if failure.conflict)
    if not conflicts:
        return found, 0
    stored = {
        document.id: document.tokens_in(field).get("digest")
        for document in store.get(list(conflicts))
    }
    for id, count in conflicts.items():
        differing = [
            position
            for position in positions[id]
            if documents[position].tokens_in(field)["digest"] != stored.get(id)
        ]
        found += [(position, taken) for position in differing[:count]]
    return found, len(failures) - len(found)


_TAKEN = "the id is taken by another text, and a data stream takes no changes"
DeadLetter = Callable[[BadRecord], None]


@dataclass(frozen=True)
class IngestReport:
    """What became of the records; read = created + updated + unchanged + skipped + failed.

    unchanged: a record that was indexed before and is not to be overwritten, with the same text.
    skipped: a near-duplicate that the policy leaves out. failed: handed to the dead letter.
    duplicates: near-duplicates found, whatever was done with them. exact: those of them that were
    found by an equal text, before anything else was made of theirs. truncated: documents compared
    with the best of more candidates than the policy allows, or with none because all their buckets
    are in the stop list.
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

    def __add__(self, other: IngestReport) -> IngestReport:
        return IngestReport(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )


def ingest(
    store: Store,
    meta: IndexMeta,
    records: Iterable[Record | BadRecord],
    dead_letter: DeadLetter,
    *,
    id_field: str | None = None,
    on_duplicate: DuplicatePolicy | None = None,
    on_batch: Callable[[IngestReport], None] | None = None,
    fresh: Callable[[], IndexMeta] | None = None,
) -> IngestReport:
    """Writes records with their tokens; what counts as created or updated is durable.

    A record's id is its `id_field`, by default `id` where it has one. One without gets the id
    "file:line", which is never taken from another text: such a document is only created.

    on_duplicate: what to do with near-duplicates of what the store holds or came before; by
    default they are written as any other document.
    dead_letter: called with every record that is not written and why.
    on_batch: called with the report so far after each batch. fresh: gives what the index says now,
    which may come to name a next scheme while this goes on.

    Raises the errors of the store; then the last report handed to `on_batch` tells what was
    acknowledged, and doing the same again completes it.
    """
    report = IngestReport()
    policy = on_duplicate or DuplicatePolicy()
    current = fresh or (lambda: meta)
    originals = Originals(store, current, policy) if policy.action != "keep" else None
    for batch in batches(records):
        items, bad = items_of(batch, meta.text_field, id_field)
        writer = _Writer(store, current(), dead_letter, policy)
        report = writer.write(items, originals, report)
        for record in bad:
            dead_letter(record)
        report = replace(report, read=report.read + len(batch), failed=report.failed + len(bad))
        if on_batch is not None:
            on_batch(report)
    return report


@dataclass(frozen=True)
class _Writer:
    """Writes a batch by the policy."""

    store: Store
    meta: IndexMeta
    dead_letter: DeadLetter
    policy: DuplicatePolicy

    def write(
        self, items: list[Item], originals: Originals | None, report: IngestReport
    ) -> IngestReport:
        if originals is None:
            return self._put(items, None, report)[0]
        arrivals = [Arrival(item.id, item.text) for item in items]
        verdicts = originals.find(arrivals)
        marks = {arrival.id: verdict for arrival, verdict in zip(arrivals, verdicts, strict=True)}
        alike = [verdict.original is not None for verdict in verdicts]
        written = [
            item for item, like in zip(items, alike, strict=True) if not like or self.policy.writes
        ]
        failed: set[str] = set()
        for items_at_once in self._in_order(written, marks):
            report, refused = self._put(items_at_once, marks, report)
            failed |= refused
        originals.forget(failed)
        if self.policy.writes and failed:
            self._mark_again(written, marks, failed, originals)
        rest = [
            (item, verdict)
            for item, verdict, like in zip(items, verdicts, alike, strict=True)
            if like and not self.policy.writes
        ]
        lost = [(item, verdict) for item, verdict in rest if verdict.original in failed]
        left_out = [(item, verdict) for item, verdict in rest if verdict.original not in failed]
        report = self._leave_out(left_out, report)
        report = replace(
            report,
            duplicates=report.duplicates + sum(alike) - len(lost),
            exact=report.exact
            + sum(verdict.exact for verdict in verdicts)
            - sum(verdict.exact for _, verdict in lost),
            truncated=report.truncated + sum(verdict.truncated for verdict in verdicts),
        )
        # What was like a document that was not written then may be the first of its kind.
        return self.write([item for item, _ in lost], originals, report) if lost else report

    def _in_order(self, items: list[Item], marks: dict[str, Verdict]) -> Iterator[list[Item]]:
        """Followers before leaders.

        So no leader is in the store without all that came before it. Where a run is killed, what
        comes again is compared with the same leaders as the first time.
        """
        if not self.policy.leaders:
            yield items
            return
        for follow in (True, False):
            yield [item for item in items if (marks[item.id].original is not None) is follow]

    def _mark_again(
        self,
        items: list[Item],
        marks: dict[str, Verdict],
        failed: set[str],
        originals: Originals,
    ) -> None:
        """What was said to be like a document that was not written is like another, or none."""
        wrong = [item for item in items if marks[item.id].original in failed]
        if wrong := [item for item in wrong if item.id not in failed]:
            originals.doubt(item.id for item in wrong)
            # They are counted already.
            self.write(wrong, originals, IngestReport())

    def _leave_out(self, rest: list[tuple[Item, Verdict]], report: IngestReport) -> IngestReport:
        if self.policy.action == "skip":
            return replace(report, skipped=report.skipped + len(rest))
        for item, verdict in rest:
            self.dead_letter(bad_record(item.record, f"it is {verdict.reason}"))
        return replace(report, failed=report.failed + len(rest))

    def _put(
        self, items: list[Item], marks: dict[str, Verdict] | None, report: IngestReport
    ) -> tuple[IngestReport, set[str]]:
        """Writes items; the ids that were refused too."""
        documents = with_tokens([item.document for item in items], self.meta)
        if marks is not None and self.policy.writes:
            documents = [self._marked(document, marks[document.id]) for document in documents]
        done, refused = write_items(self.store, self.meta, items, documents, self.dead_letter)
        return report + done, refused

    def _marked(self, document: Document, verdict: Verdict) -> Document:
        marked = {
            one.field: {**document.tokens_in(one.field), **verdict.fields()}
            for one in self.meta.all
        }
        return Document(document.id, {**document.source, **marked})


def write_items(
    store: Store,
    meta: IndexMeta,
    items: list[Item],
    documents: list[Document],
    dead_letter: DeadLetter,
) -> tuple[IngestReport, set[str]]:
    """Writes items as the documents, with tokens, that were made of them.

    What became of them, with none counted as read, and the ids that were refused.
    """
    report = IngestReport()
    refused: set[str] = set()
    for own in (True, False):
        chosen = [
            (item, document)
            for item, document in zip(items, documents, strict=True)
            if item.own_id is own
        ]
        if not chosen:
            continue
        written = store.write([document for _, document in chosen], create=not own)
        failures, unchanged = without_unchanged(
            store,
            meta.field,
            [document for _, document in chosen],
            written.failures,
            _TAKEN if own else TAKEN_BY_LINE,
        )
        for position, reason in failures:
            item = chosen[position][0]
            dead_letter(bad_record(item.record, reason))
            refused.add(item.id)
        report += IngestReport(
            created=written.created,
            updated=written.updated,
            unchanged=unchanged,
            failed=len(failures),
        )
    return report, refused
