"""Documents of an index that stay, and the values that they take from their duplicates.

They take them before a duplicate is removed. Each change is logged first, with the former values,
and is made only if no client has changed the document since it was read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from esdedup.exceptions import RecordError
from esdedup.groups.groups import Groups
from esdedup.models import Change, Failure, Fields, StoredDocument
from esdedup.records.merge import Merge, fields_of
from esdedup.removal.compared import ComparedDocuments
from esdedup.removal.log import Entry, LogWriter
from esdedup.removal.pages import PageSize, first_alone
from esdedup.stores.base import Store
from esdedup.stores.changes import CHANGED, Decision, change_documents
from esdedup.stores.fields import text_at
from esdedup.stores.json_text import EXACT, REMOVED, may_lack_digits
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.to_json import same_json
from esdedup.text.arrays import I64, run_starts

_ATTEMPTS = 5
"""How often a document is read, logged and written that another client keeps changing."""


@dataclass(frozen=True)
class PlannedMerge:
    """The values that a document that stays takes from its duplicates.

    document: as it was read.
    new_values: of its fields, by path.
    numbers: how many of them come from its duplicates, by path.
    """

    document: StoredDocument
    new_values: Mapping[str, object]
    numbers: Mapping[str, int]


@dataclass(frozen=True)
class MergeResult:
    """The outcome of merging values into the documents of a page.

    merged: number of documents that have new values.
    failures: the others, with the reason.
    """

    merged: int
    failures: list[Failure]


@dataclass(frozen=True)
class GroupMerges:
    """The documents of groups that take values from their duplicates.

    store: holds the index.
    meta: of the index.
    groups: the duplicates and their representatives.
    merge: the fields that are taken.
    """

    store: Store = field(repr=False)
    meta: IndexMeta = field(repr=False)
    groups: Groups
    merge: Merge

    @property
    def _compared(self) -> ComparedDocuments:
        return ComparedDocuments(self.store, self.meta, self.groups, self.merge)

    @cached_property
    def _whole_documents(self) -> PageSize:
        """How many documents are read whole at the same time."""
        return PageSize(self.store.window.most)

    @cached_property
    def _documents(self) -> PageSize:
        """How many documents are read at the same time of which some fields are read."""
        return PageSize(self.store.window.most)

    def _size(self, paths: list[str] | None) -> PageSize:
        """Return how many documents are read at the same time. paths: None for whole documents."""
        return self._whole_documents if paths is None else self._documents

    def pages(self, paths: list[str] | None = None) -> Iterator[list[I64]]:
        """Yield groups, each as the rows of its duplicates, until they are many documents.

        paths: to read of the documents that stay; None for whole documents.
        """
        rows = self.groups.duplicate_rows
        representatives = self.groups.representative[rows]
        order = np.argsort(representatives, kind="stable")
        bounds = np.flatnonzero(run_starts(representatives[order])).tolist()
        page, documents = list[I64](), 0
        for start, end in itertools.pairwise([*bounds, rows.size]):
            if page and documents + end - start > self._size(paths).documents:
                yield page
                page, documents = [], 0
            page.append(rows[order[start:end]])
            documents += end - start
        if page:
            yield page

    def preview(self) -> Iterator[PlannedMerge]:
        """Yield what documents would take now."""
        paths = self._compared.paths
        window, pages = self.store.window, self.pages(paths)
        with closing(
            first_alone(window, lambda page: self._planned(page, paths), pages)
        ) as planned:
            yield from itertools.chain.from_iterable(planned)

    def merge_page(self, page: list[I64], log: LogWriter) -> MergeResult:
        """Give the documents that stay of some groups their new values."""
        merged, failures, groups_left = 0, list[Failure](), page
        for _ in range(_ATTEMPTS):
            entries, unwritable = self._entries(groups_left)
            failures += unwritable
            if not entries:
                break
            log.append([entry.line() for entry in entries])
            refusals = {failure.id: failure for failure in self._write(entries)}
            changed_ids = [entry.id for entry in entries if entry.id not in refusals]
            log.settle(changed_ids, [*refusals.values()])
            merged += len(changed_ids)
            failures += [failure for failure in refusals.values() if not failure.conflict]
            # Another client changed these: its values are merged too.
            conflicts = {id for id, failure in refusals.items() if failure.conflict}
            groups_left = [rows for rows in page if self._id_of_head(rows) in conflicts]
            if not groups_left:
                break
        else:
            failures += [refusals[id] for id in sorted(conflicts)]
        return MergeResult(merged, failures)

    def _id_of_head(self, rows: I64) -> str:
        """Return the id of the representative of duplicates."""
        return self.groups.ids[int(self.groups.representative[rows[0]])]

    def _planned(self, page: list[I64], paths: list[str] | None) -> list[PlannedMerge]:
        """Return the values that the documents that stay of some groups take.

        paths: to read of them; None for whole documents.
        """
        values_of = self._values_of(page, self._compared.paths)
        heads = [int(self.groups.representative[rows[0]]) for rows in page]
        documents = self._unchanged(heads, paths)
        if paths is None:
            # Only whole documents have their digits. Few values are such numbers.
            inexact = [
                rows
                for rows in page
                if any(
                    may_lack_digits(values_of.get(self.groups.ids[row])) for row in rows.tolist()
                )
            ]
            exact = self._values_of(inexact, None)
            values_of |= {id: values for id, values in exact.items() if id in values_of}
        planned = []
        for head, rows in zip(heads, page, strict=True):
            document = documents.get(self.groups.ids[head])
            if document is None:
                continue
            ids = [self.groups.ids[row] for row in rows.tolist()]
            values = self._values_in(document)
            of_duplicates = [values_of[id] for id in ids if id in values_of]
            new_values = self.merge.new_values(values, of_duplicates)
            if new_values:
                numbers = self.merge.number_of_new(values, new_values)
                planned.append(PlannedMerge(document, new_values, numbers))
        return planned

    def _values_of(self, page: list[I64], paths: list[str] | None) -> dict[str, dict[str, object]]:
        """Return the values of the fields of duplicates, by id.

        paths: to read of them; None for whole documents.
        """
        rows = [row for rows_of_group in page for row in rows_of_group.tolist()]
        values_of, start = dict[str, dict[str, object]](), 0
        while part := rows[start : start + self._size(paths).documents]:
            start += len(part)
            documents = self._unchanged(part, paths)
            values_of |= {id: self._values_in(document) for id, document in documents.items()}
        return values_of

    def _values_in(self, document: StoredDocument) -> dict[str, object]:
        """Return the values of the fields of a document, with their digits if it was read whole."""
        if document.raw is None:
            return self.merge.values_in(document.source)
        return self.merge.exact_values_in(document.source, document.raw)

    def _unchanged(self, rows: Sequence[int], paths: list[str] | None) -> dict[str, StoredDocument]:
        """Return the documents of rows that are as they were compared, by id."""
        row_of = {self.groups.ids[row]: row for row in rows}
        ids, store = list(row_of), self.store
        # One that has left its scope just now must give its values to no other document.
        documents = store.hold(ids) if paths is None else store.hold_now(ids, paths)
        if documents:
            characters = sum(map(self._characters, documents))
            self._size(paths).fit(characters // len(documents))
        return self._compared.unchanged(documents, row_of)

    def _characters(self, document: StoredDocument) -> int:
        """Return about how many characters of a document are in memory."""
        if document.raw is not None:
            return len(document.raw)
        return len(text_at(document.source, self.meta.text_fields) or "")

    def _entries(self, page: list[I64]) -> tuple[list[Entry], list[Failure]]:
        """Return the documents to change as they are logged, and those that can't be."""
        entries, failures = list[Entry](), list[Failure]()
        for planned in self._planned(page, None):
            document = planned.document
            try:
                fields = fields_of(document.source, planned.new_values)
                former = former_fields(document.source, fields)
                if document.raw is not None and may_lack_digits(former):
                    former = former_fields(EXACT.decode(document.raw), fields)
                entry = Entry(document, None, None, former=former, merged=fields)
                entry.line()
                entries.append(entry)
            except RecordError as error:
                failures.append(Failure(document.id, f"it can't take values: {error}"))
        return entries, failures

    def _write(self, entries: list[Entry]) -> list[Failure]:
        """Write the new values of entries; return the failures."""
        entry_of = {entry.id: entry for entry in entries}

        def decision(document: StoredDocument) -> Decision:
            entry = entry_of[document.id]
            if has_merged(document.source, entry):
                # An earlier attempt wrote them, whose answer was lost.
                return "unchanged"
            if document.version != entry.stored.version:
                return Failure(document.id, CHANGED, conflict=True)
            return Change(document, entry.merged)

        def decide(documents: Sequence[StoredDocument]) -> list[Decision]:
            return [decision(document) for document in documents]

        documents = [entry.stored for entry in entries]
        return change_documents(self.store, documents, decide, gone=CHANGED).failures


def former_fields(source: Mapping[str, object], fields: Mapping[str, object]) -> Fields:
    """Return the values that fields replace when they are merged into a document."""
    former: Fields = {}
    for name in fields.keys() & source.keys():
        value, current = fields[name], source[name]
        if isinstance(value, Mapping) and isinstance(current, Mapping):
            former[name] = former_fields(current, value)
        else:
            former[name] = current
    return former


def has_merged(source: Mapping[str, object], entry: Entry) -> bool:
    """Return whether a document has the values that an entry merges into it."""
    return _has(source, entry.merged, entry.former)


def _has(
    source: Mapping[str, object], fields: Mapping[str, object], former: Mapping[str, object]
) -> bool:
    """Return whether a document has merged fields. former: the values that they replaced."""
    for name, value in fields.items():
        current, replaced = source.get(name), former.get(name)
        if isinstance(value, Mapping) and isinstance(replaced, Mapping):
            if not isinstance(current, Mapping) or not _has(current, value, replaced):
                return False
        elif name not in source or not same_json(current, value):
            return False
    return True


def restoring(entry: Entry) -> Fields:
    """Return the fields to merge into a document to replace what an entry merged into it."""
    return _restoring(entry.merged, entry.former)


def _restoring(fields: Mapping[str, object], former: Mapping[str, object]) -> Fields:
    """Return former values by name, with `REMOVED` for those that were missing."""
    restored: Fields = {}
    for name, value in fields.items():
        replaced = former.get(name, REMOVED)
        if isinstance(value, Mapping) and isinstance(replaced, Mapping):
            replaced = _restoring(value, replaced)
        restored[name] = replaced
    return restored
