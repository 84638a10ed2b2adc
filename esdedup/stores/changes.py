"""Change documents with optimistic locking, in the same way on every store.

A document that another client changed since it was read is read again, and the change decided
again. If an answer is lost, the request is retried and conflicts with its own change: the document
then needs no further change, and counts as written. After any other conflict, it counts as
unchanged, or gone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from esdedup.exceptions import StoreError
from esdedup.models import (
    MARKS,
    Change,
    Counts,
    Document,
    Failure,
    Fields,
    StoredDocument,
    WriteReport,
    tokens_in,
)
from esdedup.stores.base import Store
from esdedup.stores.json_text import REMOVED, holds
from esdedup.stores.mapping import SketchedFields

CHANGED = "it changed since it was looked at"
"""The reason of a conflict."""

ATTEMPTS = 12
"""Number of attempts at a document that other clients keep changing."""

Decision = Change | Failure | Literal["unchanged", "without_text", "stale"]
"""The change that a document needs, or the count of `ChangeReport` that it adds to."""

Decide = Callable[[Sequence[StoredDocument]], Sequence[Decision]]
"""Decides on each document as it is now, in the same order."""


@dataclass(frozen=True)
class ChangeReport(Counts):
    """Counts of the documents of a change; `read` is the sum of the others except `conflicts`.

    read: the number of documents.
    written: changed.
    unchanged: needed no change.
    without_text: have no text and no tokens.
    stale: not changed, because their text has changed.
    gone: deleted by other clients.
    conflicts: times that a document was read again because it had changed.
    failures: not changed, with the reason.
    untold: number of further failures, if there are too many to keep.
    """

    read: int = 0
    written: int = 0
    unchanged: int = 0
    without_text: int = 0
    stale: int = 0
    gone: int = 0
    conflicts: int = 0
    failures: list[Failure] = field(default_factory=list)
    untold: int = 0

    @property
    def failed(self) -> int:
        return len(self.failures) + self.untold

    def telling(self, most: int) -> ChangeReport:
        """Keep at most this many failures, and only the number of the others."""
        return replace(self, failures=self.failures[:most], untold=max(0, self.failed - most))

    @property
    def settled(self) -> int:
        """The number of documents that need not be read again."""
        return self.written + self.unchanged + self.gone


def change_documents(
    store: Store,
    documents: Sequence[StoredDocument],
    decide: Decide,
    paths: list[str] | None = None,
    gone: str | None = None,
    attempts: int = ATTEMPTS,
) -> ChangeReport:
    """Change documents, each as it is at the moment of writing; return counts of the documents.

    documents: with at least the fields of `paths`.
    decide: called first with them, then with those that conflicted, as they are by then.
    paths: dotted names of the fields to read again; None for whole documents.
    gone: the reason to fail a deleted document; None to count it as gone.
    attempts: at a document that other clients keep changing.
    """
    report, unsure_ids = ChangeReport(read=len(documents)), set[str]()
    for attempt in range(attempts):
        decisions = decide(documents)
        changes = [decision for decision in decisions if isinstance(decision, Change)]
        failures = store.change(changes).failures if changes else []
        conflict_ids = {failure.id for failure in failures if failure.conflict}
        conflicts = [
            change.stored for change in changes if change.stored.document.id in conflict_ids
        ]
        final_failures = [failure for failure in failures if not failure.conflict]
        unchanged_ids = [
            document.id
            for document, decision in zip(documents, decisions, strict=True)
            if decision == "unchanged"
        ]
        # An earlier request changed them, whose answer was lost.
        changed_before = len(unsure_ids.intersection(unchanged_ids))
        unsure_ids.update(failure.id for failure in failures if failure.unsure)
        decided_failures = [decision for decision in decisions if isinstance(decision, Failure)]
        report += ChangeReport(
            written=len(changes) - len(conflicts) - len(final_failures) + changed_before,
            unchanged=len(unchanged_ids) - changed_before,
            without_text=decisions.count("without_text"),
            stale=decisions.count("stale"),
            failures=[*decided_failures, *final_failures],
        )
        if not conflicts:
            return report
        # Without a random pause, a quicker writer would win each time.
        time.sleep(random.uniform(0, 0.02 * attempt))
        documents = store.hold_again(conflicts, paths)
        # If the answer was lost and the document is gone, the request has deleted it.
        deleted_ids = conflict_ids & unsure_ids - {document.id for document in documents}
        ids = [document.id for document in conflicts if document.id not in deleted_ids]
        report += ChangeReport(written=len(deleted_ids), conflicts=len(conflicts))
        report += missing(ids, documents, gone)
    reason = f"it changed each of {attempts} times between reading and writing; run this again"
    return report + ChangeReport(failures=[Failure(document.id, reason) for document in documents])


def update(
    store: Store, documents: Sequence[Document], sketched: SketchedFields | None = None
) -> WriteReport:
    """Merge fields into documents, objects into objects; a missing document is a failure.

    sketched: the fields of tokens and marks, if documents whose digest stays keep their marks.
    """
    fields: Fields = {}
    for document in documents:
        fields[document.id] = merged(fields.get(document.id, {}), document.source)
    paths = [] if sketched is None else sketched.digest_paths
    stored = store.hold(list(fields), paths, to_change=True)
    absent = "there is no such document"

    def decide(documents: Sequence[StoredDocument]) -> list[Decision]:
        changes = [Change(document, fields[document.id]) for document in documents]
        if sketched is None:
            return [*changes]
        return [_with_former_marks(change, sketched) for change in changes]

    failures = change_documents(store, stored, decide, paths, absent).failures
    ids = {document.id for document in stored}
    failures += [Failure(id, absent) for id in fields if id not in ids]
    failed = {failure.id for failure in failures}
    updated = sum(document.id not in failed for document in documents)
    return WriteReport(updated=updated, failures=failures)


def _with_former_marks(change: Change, sketched: SketchedFields) -> Change:
    """Return a change without its marks if they replace those of the same text."""
    fields = change.fields or {}
    marks, digest = tokens_in(fields, sketched.marks_field), sketched.digest_in(fields)
    is_same = digest is not None and digest == sketched.digest_in(change.stored.source)
    if not is_same or not marks.keys() >= {*MARKS}:
        return change
    tokens = {name: value for name, value in marks.items() if name not in MARKS}
    return replace(change, fields={**fields, sketched.marks_field: tokens})


def delete(store: Store, ids: Sequence[str]) -> int:
    """Delete documents, and return the number that existed. Raises StoreError if one stays."""

    def decide(documents: Sequence[StoredDocument]) -> list[Decision]:
        return [Change(document, None) for document in documents]

    report = change_documents(store, store.hold([*dict.fromkeys(ids)], []), decide, [])
    for failure in report.failures:
        raise StoreError(f"{store.where}: {failure.id} was not deleted: {failure.reason}")
    return report.written


def merged(old: object, new: object) -> Any:
    """Merge a partial document into another, as a cluster does, without what is `REMOVED`."""
    if not isinstance(new, Mapping):
        return new
    if not isinstance(old, Mapping):
        if not holds(new, type(REMOVED)):
            # Values may be nested too deeply for a call for each level.
            return new
        old = {}
    values = {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
    return {key: value for key, value in values.items() if value is not REMOVED}


def missing(
    ids: Sequence[str], documents: Sequence[StoredDocument], gone: str | None
) -> ChangeReport:
    """Count the documents that do not exist. gone: as in `change_documents`."""
    if gone is None:
        return ChangeReport(gone=len(ids) - len(documents))
    missing_ids = set(ids) - {document.id for document in documents}
    failures = [Failure(id, gone, conflict=True) for id in ids if id in missing_ids]
    return ChangeReport(failures=failures)
