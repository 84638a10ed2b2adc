"""Finds hot buckets: tokens that very many documents hold, for instance because of boilerplate.

Token fields have no doc values, so no aggregation can count them. A sample shows which tokens are
frequent, and the store counts their documents.
"""

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import UsageError
from esdedup.models import MOST_SAMPLED, Document, value_in
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.tokens import decode_tokens
from esdedup.stores.base import Store
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import is_token

MOST_COUNTED = 500
"""Maximum number of tokens of a sketch whose documents are counted."""


@dataclass(frozen=True)
class HotBucket:
    """A token and the documents that hold it.

    sketch: name of the sketch. position: number of the band or segment, from 0. token: as in a stop
    list. documents: exact number in the index. share: of all documents with tokens. id, text: a
    document that holds the token. The text is empty if it was deleted since.
    """

    sketch: str
    position: int
    token: str
    documents: int
    share: float
    id: str
    text: str


@dataclass(frozen=True)
class HotBuckets:
    """The hottest buckets, the largest first. sampled: number of documents looked at."""

    buckets: list[HotBucket]
    sampled: int


def hot_buckets(
    store: Store, meta: IndexMeta, count: int | None, over: int, sketches: Sequence[str]
) -> HotBuckets:
    """Return the largest buckets, as `Index.hot_buckets`.

    Counts, in the whole index, the tokens that at least two documents of a sample hold, the
    MOST_COUNTED most frequent ones of each sketch.
    """
    check_list("sketches", sketches)
    check_type("count", count, "int | None")
    check_type("over", over, "int")
    if count is not None and count < 1:
        raise UsageError(f"count {count}: use at least 1")
    named = [meta.scheme.sketch(name) for name in sketches] or meta.scheme.sketches
    if not (wanted := [each for each in named if each.stoppable]):
        raise UsageError(f"no bucket of {', '.join(each.name for each in named)} is ever hot")
    total = store.statistics(meta).sketched
    looked, holders = _holders(store, meta, wanted, total)
    found: list[tuple[int, str, str, str]] = []
    for each in wanted:
        held = {
            token: ids
            for token, ids in holders[each.key].items()
            if len(ids) > 1 and is_token(token, each)
        }
        counted = heapq.nsmallest(MOST_COUNTED, held, key=lambda token: (-len(held[token]), token))
        sizes = store.bucket_sizes(each.key, counted, meta)
        for size, token in zip(sizes, counted, strict=True):
            if size > over:
                found.append((size, each.name, token, held[token][0]))
    largest = sorted(found, key=lambda each: (-each[0], each[1], each[2]))[:count]
    ids = sorted({id for *_, id in largest})
    sources = {each.id: each.source for each in store.get(ids, [*meta.text_fields])}
    buckets = []
    for size, name, token, id in largest:
        sketch = meta.scheme.sketch(name)
        positions, _ = decode_tokens([token], sketch.tokens, sketch.bits)
        share = min(1.0, size / total) if total else 0.0
        text = text_at(sources.get(id, {}), meta.text_fields) or ""
        entry = f"{sketch.key}:{token}"
        buckets.append(HotBucket(name, int(positions[0]), entry, size, share, id, text))
    return HotBuckets(buckets, looked)


def _holders(
    store: Store, meta: IndexMeta, sketches: Sequence[Sketch], total: int
) -> tuple[int, dict[str, dict[str, list[str]]]]:
    """Return the number of sampled documents, and by field and token the ids of its documents."""
    paths = {each.key: f"{meta.field}.{each.key}" for each in sketches}
    if total > MOST_SAMPLED:
        sample: Iterable[Document] = store.sample([*paths.values()], meta, MOST_SAMPLED, seed=0)
    else:
        sample = itertools.chain.from_iterable(store.scan([*paths.values()], meta))
    holders: dict[str, dict[str, list[str]]] = {key: {} for key in paths}
    looked = 0
    for document in sample:
        looked += 1
        for key, path in paths.items():
            value = value_in(document.source, path)
            # Another client may have written something else there, which can't be stopped.
            values = value if isinstance(value, list) else [value]
            for token in {each for each in values if isinstance(each, str)}:
                holders[key].setdefault(token, []).append(document.id)
    return looked, holders
