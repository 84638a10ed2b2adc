"""Writes the groups that were found into the documents, beside their tokens.

Marks in the documents of others: put in beside what they hold, and taken away again.

A mark is a value below our field, such as a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from esdedup.dedup.groups import Groups, OnStep
from esdedup.exceptions import StoreError
from esdedup.ingest.documents import MARKS
from esdedup.models import Change, Counts, Failure, Held, tokens_in
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta

Marks = Mapping[str, Any]
"""Values by their names below our field."""


def differing(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """Those of the marks that a document has not; what it lacks need not be taken away."""
    if field in source:
        current = tokens_in(source, field)
    else:
        # Where only some fields were read, each may stand under its whole name.
        current = {name: value_at(source, f"{field}.{name}") for name in marks}
    return {name: value for name, value in marks.items() if current.get(name) != value}


def former(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """What a document has in the place of marks, as far as it has anything."""
    return {name: value for name, value in tokens_in(source, field).items() if name in marks}


def merging(source: Mapping[str, Any], field: str, marks: Marks) -> dict[str, Any]:
    """The fields to merge into a document that is to get marks."""
    if isinstance(source.get(field), list):
        # An array of one object would be replaced by the object that is merged into it.
        return {field: [{**tokens_in(source, field), **marks}]}
    return {field: dict(marks)}


def replaced(source: Mapping[str, Any], field: str, marks: Marks, by: Marks) -> dict[str, Any]:
    """A whole document with other marks in the place of these."""
    kept = {name: value for name, value in tokens_in(source, field).items() if name not in marks}
    ours = {**kept, **by}
    return {**source, field: [ours] if isinstance(source.get(field), list) else ours}


_PAGE = 1_000
_ATTEMPTS = 8


@dataclass(frozen=True)
class MarkReport(Counts):
    """What became of the documents; they add up to those that were grouped.

    unchanged: had this group already. stale: their text changed, or they went, since they were
    grouped; they are left as they are. failures: refused by the store.
    """

    written: int = 0
    unchanged: int = 0
    stale: int = 0
    failures: list[Failure] = field(default_factory=list)


def require_settled(store: Store, meta: IndexMeta) -> None:
    """Raises StoreError while the index is changing its scheme."""
    if meta.next is not None:
        raise StoreError(f"{store.where} is changing its scheme: finish that first, esdedup switch")


def mark_groups(
    store: Store, meta: IndexMeta, groups: Groups, on_step: OnStep | None = None
) -> MarkReport:
    """Gives every document its group: the id of the one that stays, its own if it is that.

    The others get that id as their original too, with the similarity or distance. A document is
    written only if it has still the text that it was grouped by, and has not this group already, so
    that doing the same again completes a run that was stopped.

    Raises StoreError while the index is changing its scheme, and the errors of the store.
    """
    require_settled(store, meta)
    report = MarkReport()
    for first in range(0, len(groups.ids), _PAGE):
        rows = range(first, min(first + _PAGE, len(groups.ids)))
        report += _mark(store, meta, dict(_wanted(groups, rows)))
        if on_step is not None:
            on_step("Writing groups", rows.stop, len(groups.ids))
    store.refresh()
    return report


def marks_of(
    group: str, similarity: float | None = None, distance: int | None = None
) -> dict[str, Any]:
    """The fields of a document in a group: of the one that stays, if neither number is given."""
    if similarity is None and distance is None:
        return {"group": group, "original": None, "similarity": None, "distance": None}
    return {"group": group, "original": group, "similarity": similarity, "distance": distance}


def wanted_marks(groups: Groups, row: int) -> dict[str, Any]:
    """The marks that the document of a row is to get."""
    value = float(groups.value[row])
    group = groups.ids[int(groups.representative[row])]
    if np.isnan(value):
        return marks_of(group)
    if groups.grouping.by_distance:
        return marks_of(group, distance=int(value))
    return marks_of(group, similarity=value)


def _wanted(groups: Groups, rows: Sequence[int]) -> Iterator[tuple[str, tuple[str, Any]]]:
    """For each id the digest that it was grouped by, and its marks."""
    for row in rows:
        yield groups.ids[row], (f"{int(groups.digests[row]):016x}", wanted_marks(groups, row))


def _mark(
    store: Store, meta: IndexMeta, wanted: Mapping[str, tuple[str, dict[str, Any]]]
) -> MarkReport:
    paths = [f"{meta.field}.{name}" for name in ("digest", *MARKS)]
    pending = list(wanted)
    report = MarkReport()
    for _ in range(_ATTEMPTS):
        held = store.hold(pending, paths)
        same = [each for each in held if _digest(each, meta) == wanted[each.document.id][0]]
        changes = [
            Change(each, {meta.field: missing})
            for each in same
            if (missing := differing(each.document.source, meta.field, wanted[each.document.id][1]))
        ]
        report += MarkReport(unchanged=len(same) - len(changes), stale=len(pending) - len(same))
        written = store.change(changes)
        others = [failure for failure in written.failures if not failure.conflict]
        report += MarkReport(written=written.updated, failures=others)
        # What changed between the look and the write is looked at again.
        pending = [failure.id for failure in written.failures if failure.conflict]
        if not pending:
            return report
    reason = f"it changed each of {_ATTEMPTS} times between reading and writing; run this again"
    return report + MarkReport(failures=[Failure(id, reason) for id in pending])


def _digest(held: Held, meta: IndexMeta) -> Any:
    return value_at(held.document.source, f"{meta.field}.digest")
