"""Whether documents of an index still have what made them duplicates: texts, scopes and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esdedup.groups.groups import Groups
from esdedup.models import StoredDocument
from esdedup.records.merge import Merge
from esdedup.search.scopes import scope_paths
from esdedup.sketch.within import Within
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.judgements import digests_of, judged_digests
from esdedup.stores.mapping import IndexMeta


@dataclass(frozen=True)
class ComparedDocuments:
    """The documents of groups, as they were compared.

    store: holds the index.
    meta: of the fields that were compared.
    groups: the duplicates and their representatives.
    merge: the fields that documents that stay take from their duplicates.
    """

    store: Store
    meta: IndexMeta
    groups: Groups
    merge: Merge

    @property
    def paths(self) -> list[str]:
        """The fields to read of documents, to look at their changes and at the values they take."""
        of_groups = [*self.groups.compared_paths, *(self.meta.judged_paths if self._joined else ())]
        return [*dict.fromkeys([*self.meta.text_fields, *self.merge.paths, *of_groups])]

    @property
    def _joined(self) -> set[str]:
        """The ids of documents that a judgement can have joined, of another text than the compared.

        If judgements are of the compared texts, these show whether they hold.
        """
        if self.groups.judged_digests is None:
            return set()
        judgements = self.groups.judgements.of("duplicate")
        return {id for judgement in judgements for id in (judgement.left, judgement.right)}

    def digests(self, documents: Iterable[StoredDocument]) -> dict[str, str]:
        """Return the digests of the texts of documents, by id."""
        text_fields, normalisation = self.meta.text_fields, self.meta.scheme.normalisation
        return digests_of([document.document for document in documents], text_fields, normalisation)

    def unchanged(
        self, documents: Sequence[StoredDocument], row_of: Mapping[str, int]
    ) -> dict[str, StoredDocument]:
        """Return the documents that have the text, scope and label that were compared, by id.

        documents: as they are now. row_of: their rows, by id.
        """
        digests, changed = self.digests(documents), self.changed_fields(documents, row_of)
        return {
            document.id: document
            for document in documents
            if digests.get(document.id) == self.groups.digest(row_of[document.id])
            and not document.is_ambiguous
            and not changed[document.id]
        }

    def changed_fields(
        self, documents: Sequence[StoredDocument], row_of: Mapping[str, int]
    ) -> dict[str, list[str]]:
        """Return the fields of scope and label that documents have other values of, by id.

        They have the text too if the document may be in its group by a judgement on that.

        documents, row_of: as of `unchanged`.
        """
        changed = self._changed_values(documents, row_of)
        if joined := self._joined.intersection(changed):
            judged = [document.document for document in documents if document.id in joined]
            digests = judged_digests(judged, self.meta, self.meta.scheme.normalisation)
            for id in joined:
                if digests.get(id) != self.groups.judged_digest(row_of[id]):
                    changed[id] = [*changed[id], *self.meta.judged[0].text_fields]
        return changed

    def _changed_values(
        self, documents: Sequence[StoredDocument], row_of: Mapping[str, int]
    ) -> dict[str, list[str]]:
        """Return the fields of scope and label as `changed_fields`."""
        if not self.groups.compared_paths:
            return {document.id: [] for document in documents}
        sources = {document.id: document.source for document in documents}
        changed_in = self.groups.changed_fields
        changed = {id: changed_in(row_of[id], source) for id, source in sources.items()}
        paths = scope_paths(Within(windows=self.groups.grouping.limits.within.windows))
        unclear = [id for id, fields in changed.items() if not {*paths}.isdisjoint(fields)]
        if unclear:
            # A server reads times in formats of its own, which whole documents don't show.
            read = {
                document.id: document.source for document in self.store.hold_now(unclear, paths)
            }
            for id in unclear:
                times = {path: value_at(read.get(id, {}), path) for path in paths}
                changed[id] = changed_in(row_of[id], {**sources[id], **times})
        return changed
