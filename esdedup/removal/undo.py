"""Undo a run from its log: restore documents, or remove marks."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from esdedup.groups.marks import differing, former, replacing
from esdedup.models import Change, Counts, Failure, Held
from esdedup.removal.log import Entry, LogReader
from esdedup.removal.remove import move_back
from esdedup.stores.base import Store
from esdedup.stores.changes import Decision, change_held, missing

_GONE = "it is gone"
_AT_ONCE = 1_000


@dataclass(frozen=True)
class UndoReport(Counts):
    """Counts of the documents of a log.

    restored: created, or given their former marks. present: unchanged since before the run.
    failures: skipped, with the reason; a conflict means that another client has written since.
    damage: why the rest of the log could not be read, or may be missing, if it is.
    """

    restored: int = 0
    present: int = 0
    failures: list[Failure] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    @property
    def settled(self) -> int:
        """The number of documents that were looked at."""
        return self.restored + self.present + len(self.failures)


def undo(
    store: Store,
    log: LogReader,
    destination: Store | None = None,
    on_report: Callable[[UndoReport], None] | None = None,
    *,
    successor: bool = False,
) -> UndoReport:
    """Restore the documents that a run deleted or moved, or remove its marks, as `Index.undo`.

    destination: the index that documents were moved to. successor: the store's own name decides
    where in it documents go. Returns `damage` too if the log was not read to its end.
    """
    total = UndoReport()

    def restored(entries: list[Entry]) -> UndoReport:
        if log.header.action == "mark":
            return _unmark(store, log.header.field, entries)
        if successor:
            entries = [replace(each, held=replace(each.held, index=None)) for each in entries]
        created, present, failures = move_back(store, destination, entries)
        failed = {each.id for each in failures}
        return UndoReport(len(created - failed), len(present - failed), failures)

    def ids(entries: list[Entry]) -> list[str]:
        return [each.id for each in entries]

    with closing(store.window.in_order(restored, log.pages(), ids)) as reports:
        for report in reports:
            total += report
            if on_report is not None:
                on_report(report)
    for each in (store, destination):
        if each is not None:
            each.refresh()
    return total + UndoReport(damage=[log.damage] if log.damage is not None else [])


def changed_by(store: Store, log: LogReader) -> int:
    """Return the number of documents that a run changed, by the results in its log.

    Of documents whose result the run could not log, those count that the store shows as changed.
    """
    total, marks = sum(map(len, log.pages())), log.header.action == "mark"
    for first in range(0, len(log.unsettled), _AT_ONCE):
        entries = log.unsettled[first : first + _AT_ONCE]
        now = {each.id: each.document.source for each in store.hold([each.id for each in entries])}
        total -= sum(not is_changed(entry, now, log.header.field, marks) for entry in entries)
    return total


def is_changed(entry: Entry, now: Mapping[str, Mapping[str, Any]], name: str, marks: bool) -> bool:
    """Return whether a document is changed as a run planned.

    now: the documents that exist, by id. name: of the field of the marks. marks: the run marks.
    """
    if marks:
        return entry.id in now and not differing(now[entry.id], name, entry.marks)
    return entry.id not in now


def _unmark(store: Store, name: str, entries: Sequence[Entry]) -> UndoReport:
    entry_of = {entry.id: entry for entry in entries}

    def decision(held: Held) -> Decision:
        source, entry = held.document.source, entry_of[held.id]
        if former(source, name, entry.marks) == entry.former:
            return "unchanged"
        if differing(source, name, entry.marks):
            reason = "its marks are not those of the run, and are unchanged"
            return Failure(entry.id, reason, conflict=True)
        return Change(held, replacing(source, name, entry.marks, entry.former))

    ids = list(entry_of)
    held = store.hold(ids)
    report = change_held(store, held, lambda some: [*map(decision, some)], gone=_GONE)
    failures = report.failures + missing(ids, held, _GONE).failures
    return UndoReport(report.written, report.unchanged, failures)
