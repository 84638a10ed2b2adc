"""Duplicates that are found, to be deleted, marked or moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from esdedup.groups.groups import Groups
from esdedup.removal.log import Action, LogWriter, RunHeader
from esdedup.removal.remove import DedupReport, dedup, prepare
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta


@dataclass(frozen=True)
class Dedup:
    """The duplicates of an index, and what was done with them.

    scheme: id of the index's scheme. to: index that duplicates are moved to. log: file that
    `Index.undo` accepts; None if there was nothing to change. report: None before `apply`.
    """

    store: Store = field(repr=False)
    meta: IndexMeta = field(repr=False)
    scheme: str
    groups: Groups
    action: Action
    to: str | None
    log: Path | None
    report: DedupReport | None = None

    def apply(self, on_report: Callable[[DedupReport], None] | None = None) -> Dedup:
        """Delete, mark or move the duplicates, and return this with the report.

        Every document is logged whole before it is changed. A document that was changed since it
        was compared is skipped. on_report: called after each page with its report.

        Raises UsageError if the log exists, and the errors of the store. The same call again
        resumes, with another log.
        """
        if not self.groups.duplicates or self.log is None:
            return replace(self, log=None, report=DedupReport())
        header = RunHeader(
            self.store.index,
            self.store.address,
            self.scheme,
            self.meta.marks_field,
            self.action,
            self.to,
            self.groups.grouping.to_json(),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        destination = None if self.to is None else self.store.beside(self.to)
        same = self.store, self.meta, self.groups, self.action
        prepare(*same, destination)
        with LogWriter(self.log, header) as log:
            return replace(self, report=dedup(*same, log, destination, on_report))
