"""Writes the groups that were found into the documents, beside their tokens.

A mark is a value below our field, such as the document's group. Other values stay as they are when
marks are written or taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from esdedup.dedup.groups import Groups
from esdedup.dedup.work_folder import OnStep
from esdedup.exceptions import StoreError
from esdedup.ingest.documents import MARKS
from esdedup.models import Change, Held, tokens_in
from esdedup.stores.base import Store
from esdedup.stores.changes import ChangeReport, Decision, change_held
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64, Mask

_PAGE = 5_000
Marks = Mapping[str, Any]
"""Values by their names below our field."""


def differing(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """Returns the marks whose values differ from the document's; a missing value equals None."""
    if field in source:
        current = tokens_in(source, field)
    else:
        # If only some fields were read, each may stand under its whole name.
        current = {name: value_at(source, f"{field}.{name}") for name in marks}
    return {name: value for name, value in marks.items() if current.get(name) != value}


def former(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """Returns the values that marks replace in a document."""
    return {name: value for name, value in tokens_in(source, field).items() if name in marks}


def merging(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """Returns the fields to merge into a document to give it marks."""
    if isinstance(source.get(field), list):
        # A merge would replace an array of one object by the merged object.
        return {field: [{**tokens_in(source, field), **marks}]}
    return {field: dict(marks)}


def replaced(source: Mapping[str, Any], field: str, marks: Marks, by: Marks) -> dict[str, Any]:
    """Returns a whole document with the marks `by` in place of others."""
    kept = {name: value for name, value in tokens_in(source, field).items() if name not in marks}
    ours = {**kept, **by}
    return {**source, field: [ours] if isinstance(source.get(field), list) else ours}


def require_settled(store: Store, meta: IndexMeta) -> None:
    """Raises StoreError while the index is changing its scheme."""
    if meta.next is not None:
        raise StoreError(f"{store.where} is changing its scheme: finish that first, esdedup switch")


def mark_groups(
    store: Store,
    meta: IndexMeta,
    groups: Groups,
    on_step: OnStep | None = None,
    *,
    collapse_ready: bool = False,
) -> ChangeReport:
    """Gives documents in groups of two or more their group, and takes old marks from all others.

    The group is the id of the representative. Duplicates also get that id as their original, with
    the similarity or distance. Only documents whose marks differ are read again. A document is
    written only if it still has the text that it was grouped by, and has other marks, so that a
    second call completes a run that was stopped. Documents that changed or were deleted since they
    were grouped count as stale and are left as they are.

    collapse_ready: a document that is alone gets its own id as its group, for searches that
    collapse on it.

    Returns counts that add up to the documents of the groups. Raises StoreError while the index is
    changing its scheme, and the errors of the store.
    """
    require_settled(store, meta)
    marks = _Marks(store, meta, groups, collapse_ready)
    rows = marks.lacking()
    settled = len(groups.ids) - rows.size
    report = ChangeReport(read=settled, unchanged=settled)
    for first in range(0, rows.size, _PAGE):
        report += marks.write(rows[first : first + _PAGE].tolist())
        if on_step is not None:
            on_step("Writing groups", min(first + _PAGE, rows.size), rows.size)
    store.refresh()
    return report


def wanted_marks(groups: Groups, row: int) -> dict[str, Any]:
    """Returns the marks for the document of a row; a representative has only a group."""
    head = int(groups.representative[row])
    group = groups.ids[head]
    if head == row:
        return {**dict.fromkeys(MARKS), "group": group}
    value = float(groups.value[row])
    similarity, distance = (None, int(value)) if groups.grouping.by_distance else (value, None)
    return {"group": group, "original": group, "similarity": similarity, "distance": distance}


@dataclass(frozen=True)
class _Marks:
    store: Store
    meta: IndexMeta
    groups: Groups
    collapse_ready: bool

    @cached_property
    def _grouped(self) -> Mask:
        """Marks the rows that get a group, shape (n,)."""
        representative = self.groups.representative
        sizes = np.bincount(representative, minlength=representative.size)
        return np.full(sizes.size, True) if self.collapse_ready else sizes[representative] > 1

    @property
    def _paths(self) -> list[str]:
        return [f"{self.meta.field}.{name}" for name in ("digest", *MARKS)]

    def lacking(self) -> I64:
        """Returns the rows of the documents that may lack the right marks, ascending."""
        lacking = self._grouped.copy()
        # A run that was stopped may have written marks just before.
        self.store.refresh()
        row_of: dict[str, int] = {}
        for batch in self.store.scan(self._paths, self.meta, marked=True):
            row_of = row_of or {id: row for row, id in enumerate(self.groups.ids)}
            for document in batch:
                if (row := row_of.get(document.id)) is not None:
                    lacking[row] = self._verdict(document.source, row) != {}
        return np.flatnonzero(lacking)

    def write(self, rows: Sequence[int]) -> ChangeReport:
        """Gives the documents of some rows their marks."""
        row_of = {self.groups.ids[row]: row for row in rows}

        def decision(held: Held) -> Decision:
            lacking = self._verdict(held.document.source, row_of[held.id])
            if lacking is None:
                return "stale"
            return Change(held, {self.meta.field: lacking}) if lacking else "unchanged"

        ids, paths = list(row_of), self._paths
        held = self.store.hold(ids, paths)
        report = change_held(self.store, held, lambda some: [*map(decision, some)], paths)
        gone = report.gone + len(ids) - len(held)
        return replace(report, read=len(ids), stale=report.stale + gone, gone=0)

    def _verdict(self, source: Mapping[str, Any], row: int) -> dict[str, Any] | None:
        """Returns the marks that a document lacks; None if its text is not the one of its row."""
        if value_at(source, f"{self.meta.field}.digest") != self.groups.digest(row):
            return None
        alone = not self._grouped[row]
        wanted = dict.fromkeys(MARKS) if alone else wanted_marks(self.groups, row)
        return differing(source, self.meta.field, wanted)
