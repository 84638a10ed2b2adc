"""Delete, mark or move duplicates, with a log from which that can be undone.

A document is changed only if its text, scope and label, and those of its representative, are still
those that were compared. It is logged whole first, and then changed only if no client has changed
it since (`stores.changes`). If its representative disappears during the removal, the document is
restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from esdedup.exceptions import IndexNotFound, RecordError, StoreError
from esdedup.groups.groups import Groups
from esdedup.groups.marks import differing, former, merging, require_settled, wanted_marks
from esdedup.models import Change, Counts, Failure, StoredDocument
from esdedup.records.merge import NO_MERGE, Merge, Values
from esdedup.removal.compared import ComparedDocuments
from esdedup.removal.log import IN_THE_PAST, Action, Entry, LogWriter, RunHeader
from esdedup.removal.merges import GroupMerges, PlannedMerge
from esdedup.removal.pages import PageSize, first_alone
from esdedup.stores.base import Store
from esdedup.stores.changes import CHANGED, Decision, change_documents
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import read_judgements
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.to_json import same_json
from esdedup.text.arrays import I64

_DELETED = "it is not there any more"
"""The reason of a failure of a document that disappeared during the run. It is counted as gone.

Another client deleted it, or this run did: a cluster that loses a node sends its request to another
one, which reports a conflict for a document that the first one has deleted. So it is unsure.
"""


@dataclass(frozen=True)
class Restored:
    """What became of documents that were to be created as they had been.

    created: ids of the documents that were created.
    present: ids of those that were there already, unchanged.
    failures: the other documents, with the reason.
    copies_not_looked_for: number of documents whose moved copies were not looked for, as the index
        that they were moved to is gone.
    """

    created: set[str]
    present: set[str]
    failures: list[Failure]
    copies_not_looked_for: int = 0

    @property
    def ids(self) -> set[str]:
        """The ids of the documents that are as they had been."""
        return self.created | self.present


def remove(store: Store, documents: Sequence[StoredDocument]) -> list[Failure]:
    """Delete documents that have not changed since they were read; return the other failures.

    A failure is unsure if the document may have been deleted by this request all the same.
    """
    version_of = {document.id: document.version for document in documents}

    def decide(current_documents: Sequence[StoredDocument]) -> list[Decision]:
        return [
            Change(document, None)
            if document.version == version_of[document.id]
            else _conflict(document.id, CHANGED)
            for document in current_documents
        ]

    failures = change_documents(store, documents, decide, [], _DELETED).failures
    return [
        replace(failure, unsure=failure.unsure or failure.reason == _DELETED)
        for failure in failures
    ]


def _conflict(id: str, reason: str) -> Failure:
    return Failure(id, reason, conflict=True)


def put_back(store: Store, documents: Sequence[StoredDocument]) -> Restored:
    """Create documents as they were read, and overwrite none.

    An equal document that is there already is present. It counts as created if the answer to its
    creation was lost, because it is then the one that was sent.
    """
    stored = {document.id: document for document in store.hold_again(documents)}
    report = store.restore([document for document in documents if document.id not in stored])
    refusals = {failure.id: failure for failure in report.failures}
    refused = [document for document in documents if document.id in refusals]
    stored |= {document.id: document for document in store.hold_again(refused)}
    other_document = f"{store.where} has another document of this id, which is unchanged"
    restored = Restored(set(), set(), [])
    for document in documents:
        id, current, refusal = document.id, stored.get(document.id), refusals.get(document.id)
        if current is not None and _same_source(current, document):
            answer_lost = refusal is not None and refusal.unsure
            (restored.created if answer_lost else restored.present).add(id)
        elif current is not None:
            restored.failures.append(_conflict(id, other_document))
        elif refusal is not None:
            restored.failures.append(refusal)
        else:
            restored.created.add(id)
    return restored


def _same_source(left: StoredDocument, right: StoredDocument) -> bool:
    return same_json(left.source, right.source)


def move(store: Store, destination: Store, entries: Sequence[Entry]) -> list[Failure]:
    """Create documents in another index, then delete them here; return the failures."""
    documents = [entry.stored for entry in entries]
    # Of several indices, each document keeps the id that names its index.
    copies = put_back(
        destination, [replace(document, index=None, plain_id=None) for document in documents]
    )
    # An undo deletes from the destination what the log has not marked as present there. A document
    # that another client has put there since the log was written must not be deleted, so it is not
    # moved.
    logged_as_present = {entry.id for entry in entries if entry.present}
    reason = f"it came into {destination.where} just now"
    unlogged = sorted(copies.present - logged_as_present)
    failures = copies.failures + [_conflict(id, reason) for id in unlogged]
    arrived = copies.created | (copies.present & logged_as_present)
    not_removed = remove(store, [document for document in documents if document.id in arrived])
    # A document that changed here stays here, and its old copy must not stay there. Of one that may
    # be deleted here, the copy may be the only one.
    kept_here = {failure.id for failure in not_removed if not failure.unsure}
    stale_copies = kept_here & copies.created
    _remove_same(destination, [document for document in documents if document.id in stale_copies])
    return failures + not_removed


def move_back(store: Store, destination: Store | None, entries: Sequence[Entry]) -> Restored:
    """Restore documents, and delete the unchanged ones that the run moved to `destination`."""
    restored = put_back(store, [entry.stored for entry in entries])
    if destination is None:
        return restored
    moved = [entry.stored for entry in entries if not entry.present and entry.id in restored.ids]
    try:
        changed_copies = _remove_same(destination, moved)
    except IndexNotFound:
        return replace(restored, copies_not_looked_for=len(moved))
    return replace(restored, failures=restored.failures + changed_copies)


def _remove_same(store: Store, documents: Sequence[StoredDocument]) -> list[Failure]:
    """Delete the documents that are unchanged; return a failure for each changed one."""
    document_of = {document.id: document for document in documents}
    stored = store.hold(list(document_of))
    unchanged = [
        document for document in stored if _same_source(document, document_of[document.id])
    ]
    changed = {document.id for document in stored} - {document.id for document in unchanged}
    failures = remove(store, unchanged)
    changed |= {failure.id for failure in failures if failure.reason != _DELETED}
    reason = f"it was restored, and stays in {store.where} too, where it was changed"
    return [_conflict(id, reason) for id in document_of if id in changed]


@dataclass(frozen=True)
class DedupReport(Counts):
    """Counts of the documents of a run.

    done: deleted, marked or moved.
    unchanged: had the marks already.
    gone: were deleted by other clients, or by a run that was killed. An undo restores
        those that disappeared when the run was about to delete them.
    merged: documents that stay, and took values from their duplicates.
    failures: skipped, with the reason; a conflict means that a document changed since it was
        compared.
    """

    done: int = 0
    unchanged: int = 0
    gone: int = 0
    failures: list[Failure] = field(default_factory=list)
    merged: int = 0

    @property
    def settled(self) -> int:
        """The sum of all counts but that of `merged`."""
        return self.done + self.unchanged + self.gone + len(self.failures)


@dataclass(frozen=True)
class _PagePlan:
    """What is to be done with the documents of a page of the run.

    entries: the documents to change.
    lines: their lines of the log.
    failures: the documents that can't be changed.
    unchanged: number of documents that need no change.
    """

    entries: list[Entry] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    unchanged: int = 0


@dataclass(frozen=True)
class _PageResult:
    """What became of the documents of a page that were logged.

    changed_ids: of the documents that were changed.
    failures: the others, with the reason. Those that are unsure may have been changed.
    """

    changed_ids: list[str]
    failures: list[Failure]


@dataclass(frozen=True)
class Dedup:
    """Duplicates of an index, and the report of their removal.

    store: holds the index.
    index_meta: of the index, with the sketches of all fields.
    scheme: id of the index's scheme.
    groups: the duplicates and their representatives.
    action: what happens to the duplicates.
    destination: an index of the same scheme to move them to; created if there is none.
    log: file that `Index.undo` accepts; None if there was nothing to change.
    report: None before `apply`.
    writer: opens the log.
    merge: the fields that documents that stay take from their duplicates.
    """

    store: Store = field(repr=False)
    index_meta: IndexMeta = field(repr=False)
    scheme: str
    groups: Groups
    action: Action
    destination: Store | None = field(repr=False)
    log: Path | None
    report: DedupReport | None = None
    writer: Callable[[Path, RunHeader], LogWriter] = field(default=LogWriter, repr=False)
    merge: Merge = NO_MERGE

    @cached_property
    def meta(self) -> IndexMeta:
        """The part of the description of the index that documents were compared by."""
        return self.index_meta.of(self.groups.grouping.limits.sketch)

    @property
    def in_the_past(self) -> str:
        """The action as done, such as "deleted"."""
        return IN_THE_PAST[self.action]

    def merges(self) -> Iterator[PlannedMerge]:
        """Yield what documents that stay would take from their duplicates, as these are now."""
        return self._merges.preview() if self.merge else iter(())

    @property
    def _compared(self) -> ComparedDocuments:
        return ComparedDocuments(self.store, self.meta, self.groups, self.merge)

    @property
    def _merges(self) -> GroupMerges:
        return GroupMerges(self.store, self.meta, self.groups, self.merge)

    def apply(self, on_report: Callable[[DedupReport], None] | None = None) -> Dedup:
        """Delete, mark or move the duplicates, and return this with the report.

        Every document is logged whole before it is changed. A document that was changed since it
        was compared is skipped, and so is one whose values its original could not take. on_report:
        called after each page with its report.

        Raises UsageError if the log exists, SchemeMismatch for a destination of another scheme,
        StoreError if judgements changed since the groups were found, if the log can't be written,
        or if the name means other indices by now, and the errors of the store. The same call again
        resumes, with another log.
        """
        if not self.groups.duplicates or self.log is None:
            return replace(self, log=None, report=DedupReport())
        if self.action != "delete":
            require_settled(self.store, self.meta)
        self._require_same_judgements()
        destination = self.destination
        stored_meta = None if destination is None else destination.meta()
        if destination is not None and stored_meta is not None:
            destination.require_attached()
            stored_meta.require(self.index_meta, destination.where)
        header = RunHeader(
            index=self.store.index,
            address=self.store.address,
            scheme=self.scheme,
            field=self.meta.marks_field,
            action=self.action,
            to=None if destination is None else destination.index,
            grouping=self.groups.grouping.to_json(),
            began=datetime.now(UTC).isoformat(timespec="seconds"),
            merge=self.merge.to_json() if self.merge else None,
        )
        with self.writer(self.log, header) as log:
            if destination is not None and stored_meta is None:
                destination.create(replace(self.index_meta, next=None))
            merged = self._merge_values(log, on_report) if self.merge else DedupReport()
            return replace(self, report=merged + self._carry_out(log, on_report))

    def _merge_values(
        self, log: LogWriter, on_report: Callable[[DedupReport], None] | None
    ) -> DedupReport:
        """Give the documents that stay the values of their duplicates, and return their counts."""
        total, merges = DedupReport(), self._merges

        def merge_page(page: list[I64]) -> DedupReport:
            self._require_same_judgements()
            result = merges.merge_page(page, log)
            return DedupReport(merged=result.merged, failures=result.failures)

        with closing(first_alone(self.store.window, merge_page, merges.pages())) as reports:
            for report in reports:
                total += report
                if on_report is not None:
                    on_report(report)
        return total

    def _carry_out(
        self, log: LogWriter, on_report: Callable[[DedupReport], None] | None
    ) -> DedupReport:
        """Log and change all documents, some pages at the same time, and return their counts."""
        rows = self._rows_to_change()
        indices = {None, self.store.index, *self.store.names()}
        total, window = DedupReport(), self.store.window
        page_size = PageSize(window.most)

        def pages() -> Iterator[list[int]]:
            """Yield the rows of each page, as many as `page_size` is by then."""
            start = 0
            while page := rows[start : start + page_size.documents].tolist():
                start += len(page)
                yield page

        change_page = partial(self._change_page, log=log, indices=indices)
        with closing(first_alone(window, change_page, pages())) as reports:
            for report, mean_characters in reports:
                total += report
                if on_report is not None:
                    on_report(report)
                page_size.fit(mean_characters)
        for store in (self.store, self.destination):
            if store is not None:
                store.refresh()
        return total

    def _rows_to_change(self) -> I64:
        """Return the rows of the documents to change, each representative before its duplicates."""
        representative, rows = self.groups.representative, self.groups.duplicate_rows
        if self.action == "mark":
            rows = np.union1d(rows, representative[rows])
        return rows[np.argsort(representative[rows], kind="stable")]

    def _require_same_judgements(self) -> None:
        if read_judgements(self.store, self.meta).acting != self.groups.judgements.acting:
            raise StoreError(
                "judgements changed since these groups were found: find the groups again"
            )

    def _change_page(
        self, rows: list[int], log: LogWriter, indices: Set[str | None]
    ) -> tuple[DedupReport, int]:
        """Change the documents of some rows; return the counts, and their mean characters."""
        self._require_same_judgements()
        row_of = {self.groups.ids[row]: row for row in rows}
        documents = self.store.hold(list(row_of))
        if other_indices := {document.index for document in documents} - indices:
            raise StoreError(
                f"{self.store.where} means {', '.join(map(str, other_indices))} now, and another"
                " index when this run began: find the groups again"
            )
        plan = self._plan_page(documents, row_of)
        result = _PageResult([], [])
        if plan.entries:
            log.append(plan.lines)
            result = self._change(plan.entries, row_of)
        failures = plan.failures + result.failures
        if plan.entries or failures:
            log.settle(result.changed_ids, failures)
        failed = {failure.id for failure in failures}
        shown_failures = [failure for failure in failures if failure.reason != _DELETED]
        deleted_meanwhile = len(failures) - len(shown_failures)
        report = DedupReport(
            done=sum(id not in failed for id in result.changed_ids),
            unchanged=plan.unchanged,
            gone=len(rows) - len(documents) + deleted_meanwhile,
            failures=shown_failures,
        )
        fields = self.meta.text_fields
        texts = (text_at(document.source, fields) for document in documents)
        characters = sum(len(text or "") for text in texts) + sum(map(len, plan.lines))
        return report, characters // len(rows)

    def _plan_page(
        self, documents: Sequence[StoredDocument], row_of: Mapping[str, int]
    ) -> _PagePlan:
        """Decide what to do with each document of a page."""
        digest_of = self._compared.digests(documents)
        changed_fields = self._compared.changed_fields(documents, row_of)
        originals = self._intact_originals(list(row_of.values()))
        present = self._present(documents)
        entries, lines, failures, unchanged = list[Entry](), list[str](), list[Failure](), 0
        for document in documents:
            id = document.id
            planned = self._planned(
                row_of[id], document, digest_of.get(id), changed_fields[id], originals
            )
            if planned is None:
                unchanged += 1
            elif isinstance(planned, Failure):
                failures.append(planned)
            else:
                entry = replace(planned, present=id in present)
                try:
                    lines.append(entry.line())
                    entries.append(entry)
                except RecordError as error:
                    failures.append(Failure(id, f"it can't be logged: {error}"))
        return _PagePlan(entries, lines, failures, unchanged)

    def _present(self, documents: Sequence[StoredDocument]) -> set[str]:
        """Return the ids of the documents that the destination has already, unchanged."""
        if self.destination is None:
            return set()
        document_of = {document.id: document for document in documents}
        copies = self.destination.hold(list(document_of))
        return {copy.id for copy in copies if _same_source(copy, document_of[copy.id])}

    def _change(self, entries: list[Entry], row_of: Mapping[str, int]) -> _PageResult:
        """Change logged documents, and restore those whose original vanishes meanwhile."""
        if self.action == "mark":
            failures = self._mark(entries)
        elif self.destination is not None:
            failures = move(self.store, self.destination, entries)
        else:
            failures = remove(self.store, [entry.stored for entry in entries])
        failed = {failure.id for failure in failures}
        changed = [entry for entry in entries if entry.id not in failed]
        if self.action == "mark":
            return _PageResult([entry.id for entry in changed], failures)
        # A representative can vanish meanwhile, such as by a run that keeps other documents.
        originals = self._intact_originals([row_of[entry.id] for entry in changed])
        without_original = [entry for entry in changed if not self._is_kept(entry, originals)]
        restored = Restored(set(), set(), [])
        if without_original:
            restored = move_back(self.store, self.destination, without_original)
            reason = (
                f"its original is gone, or its text{self._or_values} changed since it was"
                " compared: restored"
            )
            # A document that could not be restored has a reason of its own.
            failure_of = {id: _conflict(id, reason) for id in restored.ids}
            failure_of |= {failure.id: failure for failure in restored.failures}
            failures = [*failures, *failure_of.values()]
        # One that was present when it was to be restored may be another client's copy, in another
        # index behind the name. The log must still have it as changed, so that an undo restores it.
        changed_ids = [entry.id for entry in changed if entry.id not in restored.created]
        return _PageResult(changed_ids, failures)

    def _intact_originals(self, rows: Sequence[int]) -> dict[str, Values]:
        """Return the rows' representatives that are as they were compared, by id.

        Each has the values of the fields that it takes from its duplicates.
        """
        representatives = self.groups.representative[rows].tolist()
        if self.groups.outside:
            return {self.groups.ids[row]: {} for row in representatives}
        row_of = {self.groups.ids[row]: row for row in representatives}
        documents = self.store.hold_now(list(row_of), self._compared.paths)
        unchanged = self._compared.unchanged(documents, row_of)
        return {id: self.merge.values_in(document.source) for id, document in unchanged.items()}

    def _is_kept(self, entry: Entry, originals: Mapping[str, Values]) -> bool:
        """Return whether the original of a removed document is there, with its values."""
        values = originals.get(entry.original or "")
        return values is not None and self._lacked(entry.stored, values) is None

    def _lacked(self, document: StoredDocument, values: Values) -> str | None:
        """Return the first field with a value of a document that its original lacks.

        values: of the original.
        """
        lacked = self.merge.new_values(values, [self.merge.values_in(document.source)])
        return next(iter(lacked), None)

    @property
    def _or_values(self) -> str:
        """The fields that must not change, beside the text, as the end of a sentence names them."""
        return "".join(f" or its value of {path!r}" for path in self.groups.compared_paths)

    def _planned(
        self,
        row: int,
        document: StoredDocument,
        digest: str | None,
        changed_fields: Sequence[str],
        originals: Mapping[str, Values],
    ) -> Entry | Failure | None:
        """Return an entry for a document; a failure if it can't be changed; None if it need not be.

        digest: of its present text, None if it has none.
        changed_fields: of its scope and label.
        originals: the representatives that are as they were compared, with their values.
        """
        groups, source, marks_field = self.groups, document.source, self.meta.marks_field
        representative, compared_digest = int(groups.representative[row]), groups.digest(row)
        original = groups.ids[representative]
        reason = None
        if document.is_ambiguous:
            reason = "several indices have its id since it was compared: run this again"
        elif digest != compared_digest:
            reason = "its text changed since it was compared"
            if document.tokens_in(self.meta.field).get("digest") == compared_digest:
                reason = (
                    "its tokens are not of its present text (run `esdedup backfill -i"
                    f" {self.store.index}` with `stale`)"
                )
        elif changed_fields:
            values = " or ".join(f"its value of {field!r}" for field in changed_fields)
            reason = f"{values} changed since it was compared"
        elif original not in originals:
            reason = (
                f"its original {original!r} is gone, or its text{self._or_values} changed since it"
                " was compared"
            )
        elif self.action != "mark" and (path := self._lacked(document, originals[original])):
            reason = (
                f"its original {original!r} could not take its value of {path!r}: run this again"
            )
        if reason is not None:
            return _conflict(document.id, reason)
        if representative == row:
            entry = Entry(document, None, None)
        else:
            entry = Entry(document, original, float(groups.value[row]))
        if self.action != "mark":
            return entry
        marks = differing(source, marks_field, wanted_marks(groups, row))
        if not marks:
            return None
        return replace(entry, marks=marks, former=former(source, marks_field, marks))

    def _mark(self, entries: list[Entry]) -> list[Failure]:
        """Write the marks of entries; return the failures."""
        entry_of = {entry.id: entry for entry in entries}

        def decision(document: StoredDocument) -> Decision:
            source, entry = document.source, entry_of[document.id]
            if not differing(source, self.meta.marks_field, entry.marks):
                return "unchanged"
            if document.version != entry.stored.version:
                return _conflict(document.id, CHANGED)
            return Change(document, merging(source, self.meta.marks_field, entry.marks))

        def decide(documents: Sequence[StoredDocument]) -> list[Decision]:
            return [decision(document) for document in documents]

        documents = [entry.stored for entry in entries]
        return change_documents(self.store, documents, decide, gone=CHANGED).failures
