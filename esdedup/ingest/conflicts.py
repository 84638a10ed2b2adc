"""Documents that were only to be created, and whose ids were taken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from esdedup.models import Document, Failure
from esdedup.stores.base import Store


def without_unchanged(
    store: Store,
    field: str,
    documents: Sequence[Document],
    failures: Sequence[Failure],
    taken: str,
) -> tuple[list[tuple[int, str]], int]:
    """What failed: positions in `documents` with reasons; and how many only had the very same text.

    An id may come more than once: of those, the ones whose text is not the stored one failed.
    taken: the reason to give for a conflict with another text.
    """
    positions: dict[str, list[int]] = defaultdict(list)
    for position, document in enumerate(documents):
        positions[document.id].append(position)
    found = [
        (positions[failure.id][-1], failure.reason) for failure in failures if not failure.conflict
    ]
    conflicts = Counter(failure.id for failure in failures if failure.conflict)
    if not conflicts:
        return found, 0
    stored = {
        document.id: document.tokens_in(field).get("digest")
        for document in store.get(list(conflicts))
    }
    for id, count in conflicts.items():
        differing = [
            position
            for position in positions[id]
            if documents[position].tokens_in(field)["digest"] != stored.get(id)
        ]
        found += [(position, taken) for position in differing[:count]]
    return found, len(failures) - len(found)
