"""Writes the groups that were found into the documents, beside their tokens.

A mark is a value below our field, such as the document's group. Other values stay as they are when
marks are written or taken away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from esdedup.exceptions import StoreError
from esdedup.groups.groups import Groups
from esdedup.models import Change, Held, tokens_in
from esdedup.pairing.scan import OnStep
from esdedup.records.documents import MARKS
from esdedup.stores.base import Store
from esdedup.stores.changes import ChangeReport, Decision, change_held
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64, Mask

DOCUMENTS_AT_ONCE = 5_000
"""Number of documents that are read again and written at the same time."""
Marks = Mapping[str, Any]
"""Values by their names below our field."""
NO_MARKS: Marks = dict.fromkeys(MARKS)
"""The marks of a document that is alone."""


class Wanted(NamedTuple):
    """The marks that a document is to have if it still has the text that it was grouped by.

    digest: of that text. marks: all of `MARKS`, with None for one to take away.
    """

    digest: str
    marks: Marks

    def lacking(self, source: Mapping[str, Any], meta: IndexMeta) -> dict[str, Any] | None:
        """Return the marks that a document lacks; None if its text is another by now."""
        if tokens_in(source, meta.field).get("digest") != self.digest:
            return None
        return differing(source, meta.marks_field, self.marks)


def differing(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """Return the marks whose values differ from the document's; a missing value equals None."""
    current = tokens_in(source, field)
    return {name: value for name, value in marks.items() if current.get(name) != value}


def former(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """Return the values that marks replace in a document."""
    return {name: value for name, value in tokens_in(source, field).items() if name in marks}


def merging(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """Return the fields to merge into a document to give it marks."""
    if isinstance(source.get(field), list):
        # A merge would replace an array of one object by the merged object.
        return {field: [{**tokens_in(source, field), **marks}]}
    return {field: dict(marks)}


def replaced(source: Mapping[str, Any], field: str, marks: Marks, by: Marks) -> dict[str, Any]:
    """Return a whole document with the marks `by` in place of others."""
    kept = {name: value for name, value in tokens_in(source, field).items() if name not in marks}
    ours = {**kept, **by}
    return {**source, field: [ours] if isinstance(source.get(field), list) else ours}


@dataclass(frozen=True)
class GroupReport:
    """The groups of an index, and what was written.

    missed: documents with tokens that are in no group. They came or changed while the others were
    read.
    """

    groups: Groups
    marks: ChangeReport
    missed: int


def require_settled(store: Store, meta: IndexMeta) -> None:
    """Raise StoreError while the index is changing its scheme."""
    if meta.next is not None:
        raise StoreError(f"{store.where} is changing its scheme: finish that first, esdedup switch")


def mark_paths(meta: IndexMeta) -> list[str]:
    """Return the dotted names of the values that `Wanted.lacking` looks at."""
    return [f"{meta.field}.digest", *(f"{meta.marks_field}.{name}" for name in MARKS)]


def write_marks(store: Store, meta: IndexMeta, wanted: Mapping[str, Wanted]) -> ChangeReport:
    """Return documents the marks that they lack. wanted: by id.

    Documents that changed or were deleted since they were grouped count as stale and are left as
    they are. Returns counts that add up to the documents. Raises the errors of the store.
    """

    def decision(held: Held) -> Decision:
        lacking = wanted[held.id].lacking(held.document.source, meta)
        if lacking is None:
            return "stale"
        return Change(held, {meta.marks_field: lacking}) if lacking else "unchanged"

    ids, paths = list(wanted), mark_paths(meta)
    held = store.hold(ids, paths)
    report = change_held(store, held, lambda some: [*map(decision, some)], paths)
    gone = report.gone + len(ids) - len(held)
    return replace(report, read=len(ids), stale=report.stale + gone, gone=0)


def mark_groups(
    store: Store,
    meta: IndexMeta,
    groups: Groups,
    on_step: OnStep | None = None,
    *,
    collapse_ready: bool = False,
) -> ChangeReport:
    """Return documents in groups of two or more their group, and take old marks from all others.

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
    for first in range(0, rows.size, DOCUMENTS_AT_ONCE):
        some = rows[first : first + DOCUMENTS_AT_ONCE].tolist()
        wanted = {groups.ids[row]: marks.wanted(row) for row in some}
        report += write_marks(store, meta, wanted)
        if on_step is not None:
            on_step("Writing groups", first + len(some), rows.size)
    store.refresh()
    return report


def wanted_marks(groups: Groups, row: int) -> dict[str, Any]:
    """Return the marks for the document of a row; a representative has only a group."""
    head = int(groups.representative[row])
    group = groups.ids[head]
    if head == row:
        return {**NO_MARKS, "group": group}
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
        """Mark the rows that get a group, shape (n,)."""
        representative = self.groups.representative
        sizes = np.bincount(representative, minlength=representative.size)
        return np.full(sizes.size, True) if self.collapse_ready else sizes[representative] > 1

    def lacking(self) -> I64:
        """Return the rows of the documents that may lack the right marks, ascending."""
        lacking = self._grouped.copy()
        # A run that was stopped may have written marks just before.
        self.store.refresh()
        row_of: dict[str, int] = {}
        for batch in self.store.scan(mark_paths(self.meta), self.meta, marked=True):
            row_of = row_of or {id: row for row, id in enumerate(self.groups.ids)}
            for document in batch:
                if (row := row_of.get(document.id)) is not None:
                    found = self.wanted(row).lacking(document.source, self.meta)
                    lacking[row] = found != {}
        return np.flatnonzero(lacking)

    def wanted(self, row: int) -> Wanted:
        """Return the marks for the document of a row; none for one that is alone."""
        marks = wanted_marks(self.groups, row) if self._grouped[row] else NO_MARKS
        return Wanted(self.groups.digest(row), marks)
