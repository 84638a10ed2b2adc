"""Write groups into their documents, beside the tokens.

A mark is a value below our field, such as the document's group; other values stay unchanged.
"""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from esdedup.exceptions import StoreError
from esdedup.groups.groups import Groups
from esdedup.models import Change, StoredDocument, tokens_in
from esdedup.records.documents import MARKS
from esdedup.runs.run import OnStep
from esdedup.stores.base import Store
from esdedup.stores.changes import ChangeReport, Decision, change_documents
from esdedup.stores.json_text import REMOVED
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64

DOCUMENTS_AT_ONCE = 1_000
"""Number of documents that are read again and written by the same requests."""
_FIRST_PAGE = 200
"""The first page shows how long documents are."""
_CHARACTERS = 20_000_000
"""About the characters of all documents that are held at once."""
Marks = Mapping[str, Any]
"""Values by their names below our field."""
NO_MARKS: Marks = dict.fromkeys(MARKS)
"""The marks of a document that is alone."""


class Wanted(NamedTuple):
    """The digest of a document's text, and all `MARKS` for it, with None to remove one."""

    digest: str
    marks: Marks

    def lacking(self, source: Mapping[str, Any], meta: IndexMeta) -> dict[str, Any] | None:
        """Return the marks that a document lacks; None if its text has changed."""
        if meta.digest_in(source) != self.digest:
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


def replacing(source: Mapping[str, Any], field: str, marks: Marks, by: Marks) -> dict[str, Any]:
    """Return the fields to merge into a document to replace some marks by others."""
    if isinstance(source.get(field), list):
        values = tokens_in(source, field).items()
        unmarked = {name: value for name, value in values if name not in marks}
        return {field: [{**unmarked, **by}]}
    return {field: {**dict.fromkeys(marks, REMOVED), **by}}


@dataclass(frozen=True)
class GroupReport:
    """The groups of an index, and what was written.

    missed: number of documents with tokens that were not among those that were read. Those that
    can't be read are not counted: `Groups.unreadable` is their number.
    """

    groups: Groups
    marks: ChangeReport
    missed: int


def require_settled(store: Store, meta: IndexMeta) -> None:
    """Raise StoreError while the index is changing its scheme."""
    if meta.next is not None:
        raise StoreError(
            f"{store.where} is changing its scheme: finish that first (`esdedup switch -i"
            f" {store.index}`)"
        )


def mark_paths(meta: IndexMeta) -> list[str]:
    """Return the dotted names of the values that `Wanted.lacking` looks at."""
    return [*meta.digest_paths, *(f"{meta.marks_field}.{name}" for name in MARKS)]


def write_marks(store: Store, meta: IndexMeta, marks_of: Mapping[str, Wanted]) -> ChangeReport:
    """Write the marks that documents lack, by id, and return counts; changed ones are stale."""
    return _write_page(store, meta, marks_of)[0]


def _write_page(
    store: Store, meta: IndexMeta, marks_of: Mapping[str, Wanted]
) -> tuple[ChangeReport, int]:
    """Write marks as `write_marks`. Return the mean characters of the documents that were read."""

    def decision(document: StoredDocument) -> Decision:
        lacking = marks_of[document.id].lacking(document.source, meta)
        if lacking is None:
            return "stale"
        return Change(document, {meta.marks_field: lacking}) if lacking else "unchanged"

    ids, paths = list(marks_of), mark_paths(meta)
    documents = store.hold(ids, paths, to_change=True)
    report = change_documents(store, documents, lambda batch: [*map(decision, batch)], paths)
    gone = report.gone + len(ids) - len(documents)
    characters = sum(len(document.raw or "") for document in documents)
    mean = characters // max(1, len(documents))
    return replace(report, read=len(ids), stale=report.stale + gone, gone=0), mean


def mark_groups(
    store: Store,
    meta: IndexMeta,
    groups: Groups,
    on_step: OnStep | None = None,
    collapse_ready: bool = False,
) -> ChangeReport:
    """Write the groups of two or more into their documents, as `Index.group`.

    Only documents whose marks differ are read again, so that a second call completes a run that was
    stopped. Documents that changed or were deleted since they were grouped are stale and skipped.
    Returns counts that add up to the documents of the groups.
    """
    require_settled(store, meta)
    grouped = np.bincount(groups.representative, minlength=len(groups.ids)) > 1
    grouped = grouped[groups.representative] | collapse_ready

    def marks_of(row: int) -> Wanted:
        marks = wanted_marks(groups, row) if grouped[row] else NO_MARKS
        return Wanted(groups.digest(row), marks)

    lacking, row_of = grouped.copy(), dict[str, int]()
    # A run that was stopped may have written marks just before.
    store.refresh()
    for batch in store.scan(mark_paths(meta), meta, marked=True):
        row_of = row_of or {id: row for row, id in enumerate(groups.ids)}
        for document in batch:
            row = row_of.get(document.full_id, row_of.get(document.id))
            if row is not None:
                lacking[row] = marks_of(row).lacking(document.source, meta) != {}
    rows = np.flatnonzero(lacking)
    settled = len(groups.ids) - rows.size
    report = ChangeReport(read=settled, unchanged=settled)

    def write(page: I64) -> tuple[ChangeReport, int]:
        return _write_page(store, meta, {groups.ids[row]: marks_of(row) for row in page.tolist()})

    size, at_once = min(_FIRST_PAGE, DOCUMENTS_AT_ONCE), _CHARACTERS // store.window.most

    def pages() -> Iterator[I64]:
        start = 0
        while (page := rows[start : start + size]).size:
            start += page.size
            yield page

    remaining = pages()
    first_written = map(write, itertools.islice(remaining, 1))
    with closing(store.window.in_order(write, remaining)) as written:
        for page_report, mean in itertools.chain(first_written, written):
            report += page_report
            size = max(1, min(DOCUMENTS_AT_ONCE, at_once // max(1, mean)))
            if on_step is not None:
                on_step("Writing groups", report.read - settled, rows.size)
    store.refresh()
    return report


def wanted_marks(groups: Groups, row: int) -> dict[str, Any]:
    """Return the marks for the document of a row; a representative has only a group."""
    head = int(groups.representative[row])
    group = groups.ids[head]
    if head == row:
        return {**NO_MARKS, "group": group}
    member = groups.member(row)
    measures = {"similarity": member.similarity, "distance": member.distance}
    return {"group": group, "original": group, **measures}
