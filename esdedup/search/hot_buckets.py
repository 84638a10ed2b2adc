"""Finds hot buckets: tokens that very many documents hold, for instance because of boilerplate.

Token fields have no doc values, so no aggregation can count them. A sample shows which tokens are
frequent, and the store counts their documents.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import UsageError
from esdedup.models import MOST_SAMPLED, Document, value_in
from esdedup.sketch.kinds.base import Sketch, ValueField
from esdedup.sketch.tokens import decode_tokens
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import is_token

MOST_COUNTED = 500
"""Maximum number of tokens of a sketch whose documents are counted."""


@dataclass(frozen=True)
class HotBucket:
    """A token and the documents that hold it.

    sketch: name of the sketch.
    position: number of the band or segment, from 0.
    token: as in a stop list.
    documents: exact number in the index.
    share: fraction of all documents with tokens.
    id: of a document that holds the token.
    text: of that document; empty if it was deleted since.
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
    """The hottest buckets.

    buckets: the largest first.
    sampled: number of documents whose tokens were read to find them.

    There are at most `MOST` of a sketch.
    """

    MOST: ClassVar = MOST_COUNTED

    buckets: list[HotBucket]
    sampled: int


def hot_buckets(
    store: Store,
    meta: IndexMeta,
    count: int | None,
    over: int,
    sketches: Sequence[str],
    most_sampled: int = MOST_SAMPLED,
) -> HotBuckets:
    """Return the largest buckets, as `Index.hot_buckets`.

    Counts, in the whole index, the tokens that at least two documents of a sample hold, the
    MOST_COUNTED most frequent ones of each sketch. most_sampled: documents of the sample.
    """
    check_list("sketches", sketches)
    check_type("count", count, "int | None")
    check_type("over", over, "int")
    if count is not None and count < 1:
        raise UsageError(f"count {count}: use at least 1")
    named = [meta.scheme.sketch(name) for name in sketches] or meta.scheme.sketches
    if not (stoppable := [sketch for sketch in named if sketch.stoppable]):
        names = ", ".join(sketch.name for sketch in named)
        raise UsageError(f"no bucket of {names} is ever hot")
    total = store.statistics(meta).sketched
    sample = _sample(store, meta, stoppable, most_sampled if total > most_sampled else None)
    buckets: list[HotBucket] = []
    for sketch in stoppable:
        buckets += _hot_buckets_of(store, meta, sketch, sample.holders[sketch.key], over, total)
    largest = sorted(buckets, key=lambda bucket: (-bucket.documents, bucket.sketch, bucket.token))
    return HotBuckets(_with_texts(store, meta, largest[:count]), sample.documents)


@dataclass(frozen=True)
class _Sample:
    """Documents of the index, by their tokens.

    documents: their number.
    holders: by field and token, the ids of the documents that hold it.
    """

    documents: int
    holders: dict[str, dict[str, list[str]]]


def _sample(
    store: Store, meta: IndexMeta, sketches: Sequence[Sketch], count: int | None
) -> _Sample:
    """Read the tokens of sampled documents. count: how many; None for all of the index."""
    paths = {sketch.key: f"{meta.field}.{sketch.key}" for sketch in sketches}
    if count is not None:
        sample: Iterable[Document] = store.sample([*paths.values()], meta, count, seed=0)
    else:
        sample = itertools.chain.from_iterable(store.scan([*paths.values()], meta))
    holders: dict[str, dict[str, list[str]]] = {key: {} for key in paths}
    documents = 0
    for document in sample:
        documents += 1
        for key, path in paths.items():
            value = value_in(document.source, path)
            # Another client may have written something else there, which can't be stopped.
            values = value if isinstance(value, list) else [value]
            for token in {value for value in values if isinstance(value, str)}:
                holders[key].setdefault(token, []).append(document.id)
    return _Sample(documents, holders)


def _hot_buckets_of(
    store: Store,
    meta: IndexMeta,
    sketch: Sketch,
    holders: dict[str, list[str]],
    over: int,
    total: int,
) -> Iterator[HotBucket]:
    """Yield the buckets of a sketch that hold more than `over` documents, without a text.

    holders: by token, the ids of sampled documents. total: documents with tokens in the index.
    """
    frequencies = {
        token: len(ids)
        for token, ids in holders.items()
        if len(ids) > 1 and is_token(token, sketch)
    }
    tokens = heapq.nsmallest(
        MOST_COUNTED, frequencies, key=lambda token: (-frequencies[token], token)
    )
    sizes = store.bucket_sizes(sketch.key, tokens, meta)
    for size, token in zip(sizes, tokens, strict=True):
        if size > over:
            positions, _ = decode_tokens([token], sketch.tokens, sketch.bits)
            yield HotBucket(
                sketch=sketch.name,
                position=int(positions[0]),
                token=f"{sketch.key}:{token}",
                documents=size,
                share=min(1.0, size / total) if total else 0.0,
                id=holders[token][0],
                text="",
            )


def _with_texts(store: Store, meta: IndexMeta, buckets: Sequence[HotBucket]) -> list[HotBucket]:
    """Return buckets with the texts of their documents."""
    ids = sorted({bucket.id for bucket in buckets})
    # The text to show of a vector is in another field.
    paths = None if isinstance(meta.text_fields[0], ValueField) else [*meta.text_fields]
    sources = {document.id: document.source for document in store.get(ids, paths)}
    return [replace(bucket, text=meta.shown_text(sources.get(bucket.id, {}))) for bucket in buckets]
