"""Hot buckets: tokens that very many documents hold, as boilerplate makes them.

Token fields have no doc values, so that no aggregation can count them: a sample of documents tells
which tokens are frequent, and the store how many documents hold each of those.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from esdedup.exceptions import UsageError
from esdedup.models import Document, RecallQuery
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import is_token, stopped_buckets, stopped_tokens, without

SAMPLED = 10_000
MOST_COUNTED = 500
"""Tokens of a kind whose documents are counted, at most."""
_MISSED = 0.001


@dataclass(frozen=True)
class HotBucket:
    """A token and the documents that hold it.

    kind: "minhash" or "simhash". position: the band's or segment's number, from 0. documents: in
    the index, exactly. share: of all documents with tokens. id, text: one that holds it; its text
    is empty where it was deleted just now.
    """

    kind: str
    position: int
    token: str
    documents: int
    share: float
    id: str
    text: str

    @property
    def entry(self) -> str:
        """As a stop list has it."""
        return f"{self.kind}:{self.token}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object, with the token as a stop list has it."""
        return {**asdict(self), "token": self.entry}


@dataclass(frozen=True)
class HotBuckets:
    """The hottest buckets, the largest first.

    sampled: documents that were looked at. sure: a bucket of so many documents or more is missed
    once in a thousand times at most; a smaller one may well be.
    """

    buckets: list[HotBucket]
    sampled: int
    sure: int


@dataclass(frozen=True)
class _Seen:
    """A token of the sample: in how many of its documents it is, and the id of one."""

    token: str
    count: int
    id: str


def hot_buckets(
    store: Store,
    meta: IndexMeta,
    count: int | None = 10,
    *,
    over: int = 1,
    kinds: Sequence[str] = ("minhash", "simhash"),
    sampled: int = SAMPLED,
) -> HotBuckets:
    """The largest buckets of an index that hold more than `over` documents, at most `count`.

    Of a sample of n documents the tokens that are in at least two are counted in the whole index,
    the MOST_COUNTED most frequent ones of each kind. A bucket with the share p of all documents is
    missed with the probability (1 - p)**n + n p (1 - p)**(n - 1): with n = 10,000, of 0.1% once in
    2,000 times, of 0.05% once in 25. Where the index has no more than n documents, every bucket of
    two or more is found as long as there are not too many to count; `sure` says what holds.

    Raises UsageError for a kind that the scheme lacks.
    """
    has = [kind for kind in ("minhash", "simhash") if getattr(meta.scheme, kind) is not None]
    if not (wanted := [kind for kind in kinds if kind in has]):
        raise UsageError(f"the index has no {' or '.join(kinds)} tokens")
    total = store.statistics(meta).sketched
    looked, seen = _seen(store, meta, wanted, sampled, total)
    found: list[tuple[int, str, _Seen]] = []
    sure = 0
    for kind in wanted:
        counted = heapq.nsmallest(MOST_COUNTED, seen[kind], key=lambda s: (-s.count, s.token))
        sizes = store.bucket_sizes(kind, [each.token for each in counted], meta)
        found += [(n, kind, each) for n, each in zip(sizes, counted, strict=True) if n > over]
        # Where not all could be counted, the least frequent of those may have as frequent ones
        # beside them that were not.
        least = 2 if len(counted) == len(seen[kind]) else counted[-1].count + 1
        sure = max(sure, least if looked >= total else _sure(looked, total, least))
    largest = sorted(found, key=lambda each: (-each[0], each[1], each[2].token))[:count]
    return HotBuckets(_described(store, meta, largest, total), looked, sure)


def narrowed(
    store: Store, meta: IndexMeta, queries: Sequence[RecallQuery], max_bucket: int | None
) -> list[RecallQuery]:
    """Queries of one kind of token without the buckets of the stop list, and of large ones.

    max_bucket: the most documents of a bucket; asks the store for their sizes. The smallest bucket
    of a query stays, whatever its size.
    """
    if not queries:
        return []
    kind = queries[0].kind
    stopped = stopped_tokens(meta.stop, kind)
    if max_bucket is None:
        return [without(query, stopped) for query in queries] if stopped else list(queries)
    tokens = sorted({t for query in queries for group in query.groups for t in group} - stopped)
    sizes = dict(zip(tokens, store.bucket_sizes(kind, tokens, meta), strict=True))
    large = stopped | {token for token, size in sizes.items() if size > max_bucket}
    narrow = []
    for query in queries:
        left = without(query, large)
        own = [t for group in query.groups for t in group if t in sizes]
        if own and not left.groups:
            left = without(query, large - {min(own, key=lambda token: (sizes[token], token))})
        narrow.append(left)
    return narrow


def _seen(
    store: Store, meta: IndexMeta, kinds: Sequence[str], count: int, total: int
) -> tuple[int, dict[str, list[_Seen]]]:
    """The number of documents of a sample, and its tokens of each kind that are in two or more."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    first: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
    looked = 0
    for document in _sample(store, meta, [f"{meta.field}.{kind}" for kind in kinds], count, total):
        looked += 1
        for kind in kinds:
            tokens = _strings(value_at(document.source, f"{meta.field}.{kind}"))
            counts[kind].update(tokens)
            for token in tokens:
                first[kind].setdefault(token, document.id)
    return looked, {
        kind: [
            _Seen(token, held, first[kind][token])
            for token, held in counts[kind].items()
            # What a foreign writer put there can't be stopped.
            if held > 1 and is_token(token, kind, meta.scheme)
        ]
        for kind in kinds
    }


def _sample(
    store: Store, meta: IndexMeta, paths: list[str], count: int, total: int
) -> Iterator[Document]:
    """Random documents, by a fixed seed; all of them where there are no more than `count`."""
    if total > count:
        yield from store.sample(paths, meta, count, seed=0)
        return
    for batch in store.scan(paths, meta):
        yield from batch


def _strings(value: Any) -> set[str]:
    """The tokens of a field; a foreign writer may have put something else there."""
    values = value if isinstance(value, list) else [value]
    return {each for each in values if isinstance(each, str)}


def _sure(sampled: int, total: int, least: int) -> int:
    """The documents of a bucket of which a sample holds fewer than `least` once in 1,000 times.

    A sample holds about Poisson(share * sampled) of them; drawn without putting back, rather fewer
    samples are far off than that.
    """
    low, high = 0.0, least + 10.0 * math.sqrt(least) + 20.0
    for _ in range(50):
        mean = (low + high) / 2
        logs = (i * math.log(mean) - mean - math.lgamma(i + 1) for i in range(least))
        low, high = (mean, high) if math.fsum(map(math.exp, logs)) > _MISSED else (low, mean)
    return min(total, math.ceil(high / max(sampled, 1) * total))


def _described(
    store: Store, meta: IndexMeta, found: Sequence[tuple[int, str, _Seen]], total: int
) -> list[HotBucket]:
    examples = sorted({seen.id for _, _, seen in found})
    documents = {each.id: each for each in store.get(examples, [meta.text_field])}
    described = []
    for size, kind, seen in found:
        positions, _ = stopped_buckets([f"{kind}:{seen.token}"], kind, meta.scheme)
        example = documents.get(seen.id)
        text = value_at(example.source, meta.text_field) if example is not None else None
        described.append(
            HotBucket(
                kind,
                int(positions[0]),
                seen.token,
                size,
                min(1.0, size / total) if total else 0.0,
                seen.id,
                text if isinstance(text, str) else "",
            )
        )
    return described
