"""Documents that were only to be created, and whose ids were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from esdedup.datatypes import Document, Failure
from esdedup.stores.base import Store


def without_unchanged(
    store: Store,
    field: str,
    documents: Sequence[Document],
    failures: Sequence[Failure],
    taken: str,
) -> tuple[list[Failure], int]:
    """The failures but for conflicts with the very same text, and how many those were.

    taken: the reason to give for a conflict with another text.
    """
    conflicts = {failure.id for failure in failures if failure.conflict}
    if not conflicts:
        return list(failures), 0
    stored = {
        document.id: document.tokens_in(field).get("digest")
        for document in store.get(list(conflicts))
    }
    same = {
        document.id
        for document in documents
        if document.id in conflicts
        and stored.get(document.id) == document.tokens_in(field)["digest"]
    }
    kept = [
        replace(failure, reason=taken) if failure.conflict else failure
        for failure in failures
        if failure.id not in same
    ]
    return kept, len(failures) - len(kept)
