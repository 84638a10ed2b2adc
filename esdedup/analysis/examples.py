"""Documents of groups as examples: how two differ, and how a text begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from esdedup.dedup.groups import Groups
from esdedup.ingest.refresh import digests
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.excerpts import Excerpt, differing, excerpts
from esdedup.text.highlight import mark_shared

_EXCERPT = 2_400
_LONGEST = 1_000_000
"""Characters: shown of a text, and of the longest that is compared with another to be shown."""

_SNIPPET = 200


@dataclass(frozen=True)
class LargeGroup:
    """A group: the document that stays, the beginning of its text, and how many there are.

    farthest: similarity, or distance, of the one that is least like it.
    """

    id: str
    text: str
    documents: int
    farthest: float


@dataclass(frozen=True)
class ExampleText:
    """A document of an example. characters: of its whole text. original: not normalised."""

    id: str
    pieces: tuple[Excerpt, ...]
    characters: int
    original: bool


@dataclass(frozen=True)
class Example:
    """A duplicate and the document that stays; value: their similarity, or distance.

    same_words: no word differs, only punctuation, or how often something is said.
    """

    stays: ExampleText
    goes: ExampleText
    value: float
    same_words: bool


def example(store: Store, meta: IndexMeta, groups: Groups, row: int) -> Example | None:
    """A row and the one that stays; None where a text is not the one that was grouped."""
    rows = int(groups.representative[row]), row
    left, right = (groups.ids[each] for each in rows)
    texts = _texts(store, meta, [left, right])
    if len(texts) < 2 or max(map(len, texts.values())) > _LONGEST:
        return None
    if digests([texts[left], texts[right]], meta) != [f"{groups.digests[r]:016x}" for r in rows]:
        return None
    scheme = meta.scheme
    both = mark_shared(
        (texts[left], texts[right]), scheme.normalisation, scheme.shingling, scheme.seed
    )
    stays, goes = (
        ExampleText(id, excerpts(text, _EXCERPT), len(texts[id]), text.original)
        for id, text in zip((left, right), both, strict=True)
    )
    return Example(stays, goes, float(groups.value[row]), not any(map(differing, both)))


def largest_groups(
    store: Store, meta: IndexMeta, groups: Groups, count: int
) -> tuple[LargeGroup, ...]:
    """The largest groups, at most so many, the largest first."""
    counts = np.bincount(groups.representative, minlength=len(groups.ids))
    heads = [row for row in np.argsort(-counts, kind="stable")[:count].tolist() if counts[row] > 1]
    texts = {}
    for row in heads:
        # One by one, because a text may be large.
        found = _texts(store, meta, [groups.ids[row]])
        texts[row] = snippet(found.get(groups.ids[row], ""))
    worst = np.nanmax if groups.grouping.by_distance else np.nanmin
    return tuple(
        LargeGroup(
            groups.ids[row],
            texts[row],
            int(counts[row]),
            float(worst(groups.value[groups.representative == row])),
        )
        for row in heads
    )


def snippet(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: 2 * _SNIPPET].split())
    return line if len(line) <= _SNIPPET and len(text) <= 2 * _SNIPPET else f"{line[:_SNIPPET]}…"


def _texts(store: Store, meta: IndexMeta, ids: Sequence[str]) -> dict[str, str]:
    found = {
        document.id: value_at(document.source, meta.text_field)
        for document in store.get(ids, [meta.text_field])
    }
    return {id: text for id, text in found.items() if isinstance(text, str)}
