"""Writes the groups that were found into the documents, beside their tokens.

A mark is a value below our field, such as the document's group. Other values stay as they are when
marks are written or taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from esdedup.dedup.groups import Groups
from esdedup.dedup.work_folder import OnStep
from esdedup.exceptions import StoreError
from esdedup.ingest.documents import MARKS
from esdedup.models import Change, Held, tokens_in
from esdedup.stores.base import Store
from esdedup.stores.changes import ChangeReport, Decision, change_held
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta

_PAGE = 1_000
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
    store: Store, meta: IndexMeta, groups: Groups, on_step: OnStep | None = None
) -> ChangeReport:
    """Gives every document its group: the id of its representative, which may be itself.

    Duplicates also get that id as their original, with the similarity or distance. A document is
    written only if it still has the text that it was grouped by, and does not have its group
    already, so that a second call completes a run that was stopped. Documents that changed or were
    deleted since they were grouped count as stale and are left as they are.

    Raises StoreError while the index is changing its scheme, and the errors of the store.
    """
    require_settled(store, meta)
    report = ChangeReport()
    for first in range(0, len(groups.ids), _PAGE):
        rows = range(first, min(first + _PAGE, len(groups.ids)))
        report += _mark(store, meta, groups, rows)
        if on_step is not None:
            on_step("Writing groups", rows.stop, len(groups.ids))
    store.refresh()
    return report


def wanted_marks(groups: Groups, row: int) -> dict[str, Any]:
    """Returns the marks for the document of a row; a representative has only a group."""
    head = int(groups.representative[row])
    group = groups.ids[head]
    if head == row:
        return {"group": group, "original": None, "similarity": None, "distance": None}
    found = groups.member(row)
    measures = {"similarity": found.similarity, "distance": found.distance}
    return {"group": group, "original": group, **measures}


def _mark(store: Store, meta: IndexMeta, groups: Groups, rows: Sequence[int]) -> ChangeReport:
    row_of = {groups.ids[row]: row for row in rows}

    def decision(held: Held) -> Decision:
        source, row = held.document.source, row_of[held.id]
        if value_at(source, f"{meta.field}.digest") != groups.digest(row):
            return "stale"
        lacking = differing(source, meta.field, wanted_marks(groups, row))
        return Change(held, {meta.field: lacking}) if lacking else "unchanged"

    paths = [f"{meta.field}.{name}" for name in ("digest", *MARKS)]
    ids = list(row_of)
    held = store.hold(ids, paths)
    report = change_held(store, held, lambda some: [*map(decision, some)], paths)
    gone = report.gone + len(ids) - len(held)
    return replace(report, read=len(ids), stale=report.stale + gone, gone=0)
