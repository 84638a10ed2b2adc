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
from esdedup.models import Change, Counts, Document, Failure, Held, WriteReport
from esdedup.stores.base import Store
from esdedup.stores.json_text import REMOVED

CHANGED = "it changed since it was looked at"
"""The reason of a conflict."""

ATTEMPTS = 12
"""Number of attempts at a document that other clients keep changing."""

Decision = Change | Failure | Literal["unchanged", "without_text", "stale"]
"""The change that a document needs, or the count of `ChangeReport` that it adds to."""

Decide = Callable[[Sequence[Held]], Sequence[Decision]]
"""Decides on each document as it is now, in the same order."""


@dataclass(frozen=True)
class ChangeReport(Counts):
    """Counts of the documents of a change; `read` is the sum of the others except `conflicts`.

    written: changed. unchanged: needed no change. without_text: have no text and no tokens. stale:
    not changed, because their text has changed. gone: deleted by other clients. conflicts: times
    that a document was read again because it had changed. failures: not changed, with the reason.
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


def change_held(
    store: Store,
    held: Sequence[Held],
    decide: Decide,
    paths: list[str] | None = None,
    gone: str | None = None,
) -> ChangeReport:
    """Change documents, each as it is at the moment of writing; return counts of those held.

    held: documents with at least the fields of `paths`. decide: called first with them, then with
    those that conflicted, as they are by then. paths: dotted names of the fields to read again;
    None for whole documents. gone: the reason to fail a deleted document; None to count it as gone.
    """
    report, unsure = ChangeReport(read=len(held)), set[str]()
    for attempt in range(ATTEMPTS):
        verdicts = decide(held)
        changes = [each for each in verdicts if isinstance(each, Change)]
        refused = store.change(changes).failures if changes else []
        taken = {each.id for each in refused if each.conflict}
        conflicts = [each.held for each in changes if each.held.document.id in taken]
        others = [each for each in refused if not each.conflict]
        done = [one.id for one, each in zip(held, verdicts, strict=True) if each == "unchanged"]
        ours = len(unsure.intersection(done))
        unsure.update(each.id for each in refused if each.unsure)
        report += ChangeReport(
            written=len(changes) - len(conflicts) - len(others) + ours,
            unchanged=len(done) - ours,
            without_text=verdicts.count("without_text"),
            stale=verdicts.count("stale"),
            failures=[*(each for each in verdicts if isinstance(each, Failure)), *others],
        )
        if not conflicts:
            return report
        # Without a random pause, a quicker writer would win each time.
        time.sleep(random.uniform(0, 0.02 * attempt))
        held = store.hold_again(conflicts, paths)
        deleted = taken & unsure - {one.id for one in held}
        ids = [one.id for one in conflicts if one.id not in deleted]
        report += ChangeReport(written=len(deleted), conflicts=len(conflicts))
        report += missing(ids, held, gone)
    reason = f"it changed each of {ATTEMPTS} times between reading and writing; run this again"
    return report + ChangeReport(failures=[Failure(one.document.id, reason) for one in held])


def update(store: Store, documents: Sequence[Document]) -> WriteReport:
    """Merge fields into documents, objects into objects; a missing document is a failure."""
    fields: dict[str, Any] = {}
    for each in documents:
        fields[each.id] = merged(fields.get(each.id, {}), each.source)
    held = store.hold(list(fields), [], to_change=True)
    absent = "there is no such document"

    def decide(some: Sequence[Held]) -> list[Decision]:
        return [Change(one, fields[one.id]) for one in some]

    failures = change_held(store, held, decide, [], absent).failures
    known = {one.id for one in held}
    failures += [Failure(id, absent) for id in fields if id not in known]
    failed = {each.id for each in failures}
    return WriteReport(updated=sum(each.id not in failed for each in documents), failures=failures)


def delete(store: Store, ids: Sequence[str]) -> int:
    """Delete documents, and return the number that existed. Raises StoreError if one stays."""
    held = store.hold([*dict.fromkeys(ids)], [])
    report = change_held(store, held, lambda some: [Change(one, None) for one in some], [])
    for failure in report.failures:
        raise StoreError(f"{store.where}: {failure.id} was not deleted: {failure.reason}")
    return report.written


def merged(old: Any, new: Any) -> Any:
    """Merge a partial document into another, as a cluster does, without what is `REMOVED`."""
    if not isinstance(new, Mapping):
        return new
    old = old if isinstance(old, Mapping) else {}
    values = {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
    return {key: value for key, value in values.items() if value is not REMOVED}


def missing(ids: Sequence[str], held: Sequence[Held], gone: str | None) -> ChangeReport:
    """Count the documents that were not found. gone: see `change_held`."""
    if gone is None:
        return ChangeReport(gone=len(ids) - len(held))
    lost = set(ids) - {one.document.id for one in held}
    return ChangeReport(failures=[Failure(id, gone, conflict=True) for id in ids if id in lost])
