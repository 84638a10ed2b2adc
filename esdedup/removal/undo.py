"""Undo a run from its log: restore documents and values, or remove marks."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace

from esdedup.exceptions import IndexNotFound, UsageError
from esdedup.groups.marks import differing, former, replacing
from esdedup.models import Change, Counts, Failure, StoredDocument
from esdedup.removal.log import Entry, LogReader
from esdedup.removal.merges import former_fields, has_merged, restoring
from esdedup.removal.remove import move_back
from esdedup.stores.base import Store
from esdedup.stores.changes import Decision, change_documents, missing
from esdedup.stores.connection import Connection
from esdedup.stores.location import IndexLocation
from esdedup.stores.to_json import same_json

_GONE = "it is gone"
_PAGE = 1_000


@dataclass(frozen=True)
class UndoReport(Counts):
    """Counts of the documents of a log.

    restored: created, or given their former marks or values.
    present: unchanged since before the run.
    failures: skipped, with the reason; a conflict means that another client has written since.
    damage: why the remaining log could not be read, or may be missing, if it is.
    copies_not_looked_for: documents whose moved copies may be anywhere, as the index that they were
        moved to is gone.
    """

    restored: int = 0
    present: int = 0
    failures: list[Failure] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    copies_not_looked_for: int = 0

    @property
    def settled(self) -> int:
        """The number of documents that were looked at."""
        return self.restored + self.present + len(self.failures)


def undo_removal(
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

    def undo_page(entries: list[Entry]) -> UndoReport:
        merges = [entry for entry in entries if entry.merged]
        if merges:
            removals = [entry for entry in entries if not entry.merged]
            return _unmerge(store, merges) + (undo_page(removals) if removals else UndoReport())
        if log.header.action == "mark":
            return _unmark(store, log.header.field, entries)
        if successor:
            entries = [_without_index(entry) for entry in entries]
        restored = move_back(store, destination, entries)
        failed = {failure.id for failure in restored.failures}
        return UndoReport(
            len(restored.created - failed),
            len(restored.present - failed),
            restored.failures,
            copies_not_looked_for=restored.copies_not_looked_for,
        )

    def ids(entries: list[Entry]) -> list[str]:
        return [entry.id for entry in entries]

    with closing(store.window.in_order(undo_page, log.pages(), ids)) as reports:
        for report in reports:
            total += report
            if on_report is not None:
                on_report(report)
    store.refresh()
    if destination is not None:
        with suppress(IndexNotFound):
            destination.refresh()
    return total + UndoReport(damage=[log.damage] if log.damage is not None else [])


def _without_index(entry: Entry) -> Entry:
    """Return the entry of a document that the store itself assigns to an index."""
    return replace(entry, stored=replace(entry.stored, index=None))


def require_indices(store: Store, log: LogReader) -> None:
    """Raise UsageError if documents of a log would be restored outside of the store's name.

    The name may be an alias that stands for another index now.
    """
    outside = store.outside(log.removed_from)
    if not outside:
        return
    noun = "index" if len(outside) == 1 else "indices"
    former = f", or `into` {outside[0]}" if log.removed_from == {*outside[:1]} else ""
    raise UsageError(
        f"log file {log.path} has documents of {noun} {', '.join(map(repr, outside))}, which"
        f" {store.index!r} does not stand for now: use `into` {store.index} to restore all into"
        f" what it stands for{former}"
    )


def require_apart(location: IndexLocation, log: LogReader) -> None:
    """Raise UsageError if documents of a log would be looked for as copies where they belong.

    That is the case if they were moved to the index to restore into, or if the name of the index
    that they were moved to now stands for the one that they came from.
    """
    header = log.header
    if header.to is None:
        return
    own_indices, destinations = location.indices_of(location.index, header.to)
    if shared := sorted(own_indices & destinations):
        is_alias = header.to != location.index
        by_alias = f" ({location.index!r} names {', '.join(shared)} too)" if is_alias else ""
        former = f"`index` {header.index}, or " if header.index != location.index else ""
        raise UsageError(
            f"log file {log.path} is of documents that were moved to {header.to!r}, where they"
            f" can't be restored{by_alias}: use {former}`into` another index"
        )
    # A file has no aliases, so that its log need not be read to the end first.
    if isinstance(location.target, Connection) and (
        former_indices := destinations & log.removed_from
    ):
        raise UsageError(
            f"log file {log.path} is of documents that were moved to {header.to!r}, and this name"
            f" stands for {', '.join(sorted(former_indices))} now, which they were moved from: have"
            " it stand for another index, or for none"
        )


def changed_by(store: Store, log: LogReader) -> int:
    """Return the number of documents that a run changed, by the results in its log.

    Of documents whose result the run could not log, those count that the store shows as changed.
    """
    total, marks = sum(map(len, log.pages())), log.header.action == "mark"
    for first in range(0, len(log.unsettled), _PAGE):
        entries = log.unsettled[first : first + _PAGE]
        documents = store.hold_again([entry.stored for entry in entries])
        sources = {document.id: document.source for document in documents}
        total -= sum(not is_changed(entry, sources, log.header.field, marks) for entry in entries)
    return total


def is_changed(
    entry: Entry, sources: Mapping[str, Mapping[str, object]], marks_field: str, marks: bool
) -> bool:
    """Return whether a document is changed as a run planned.

    sources: of the documents that exist, by id. marks_field: of the marks. marks: the run marks.
    """
    if entry.merged:
        return entry.id in sources and has_merged(sources[entry.id], entry)
    if marks:
        return entry.id in sources and not differing(sources[entry.id], marks_field, entry.marks)
    return entry.id not in sources


def _unmark(store: Store, marks_field: str, entries: Sequence[Entry]) -> UndoReport:
    """Give documents their former marks. marks_field: of the marks."""

    def decision(document: StoredDocument, entry: Entry) -> Decision:
        source = document.source
        if former(source, marks_field, entry.marks) == entry.former:
            return "unchanged"
        if differing(source, marks_field, entry.marks):
            reason = "its marks are not those of the run, and are unchanged"
            return Failure(entry.id, reason, conflict=True)
        return Change(document, replacing(source, marks_field, entry.marks, entry.former))

    return _change_back(store, entries, decision)


def _unmerge(store: Store, entries: Sequence[Entry]) -> UndoReport:
    """Give documents the values that they had before they took those of their duplicates."""

    def decision(document: StoredDocument, entry: Entry) -> Decision:
        if has_merged(document.source, entry):
            return Change(document, restoring(entry))
        if same_json(former_fields(document.source, entry.merged), entry.former):
            return "unchanged"
        reason = "the values that it took were changed since, and are unchanged"
        return Failure(entry.id, reason, conflict=True)

    return _change_back(store, entries, decision)


def _change_back(
    store: Store,
    entries: Sequence[Entry],
    decision: Callable[[StoredDocument, Entry], Decision],
) -> UndoReport:
    """Change documents as is decided of each by its entry."""
    entry_of = {entry.id: entry for entry in entries}

    def decide(documents: Sequence[StoredDocument]) -> list[Decision]:
        return [decision(document, entry_of[document.id]) for document in documents]

    ids = list(entry_of)
    documents = store.hold_again([entry.stored for entry in entries])
    report = change_documents(store, documents, decide, gone=_GONE)
    failures = report.failures + missing(ids, documents, _GONE).failures
    return UndoReport(report.written, report.unchanged, failures)
