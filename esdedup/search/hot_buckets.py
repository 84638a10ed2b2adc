"""Finds hot buckets: tokens that very many documents hold, for instance because of boilerplate.

Token fields have no doc values, so no aggregation can count them. A sample of documents shows which
tokens are frequent, and the store counts the documents that hold each of those.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from esdedup.exceptions import UsageError
from esdedup.models import Document
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import is_token, stopped_buckets

SAMPLED = 10_000
MOST_COUNTED = 500
"""Maximum number of tokens of a kind whose documents are counted."""
_MISSED = 0.001
"""Probability that a bucket of `HotBuckets.sure` documents is missed."""


@dataclass(frozen=True)
class HotBucket:
    """A token and the documents that hold it.

    kind: "minhash" or "simhash".
    position: number of the band or segment, from 0.
    documents: exact number in the index.
    share: of all documents with tokens.
    id, text: a document that holds the token. The text is empty if it was deleted just now.
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
        """The entry of a stop list for this token."""
        return f"{self.kind}:{self.token}"


@dataclass(frozen=True)
class HotBuckets:
    """The hottest buckets, the largest first.

    sampled: number of documents looked at.
    sure: a bucket of at least this many documents is missed at most once in 1,000 times. A smaller
    one may well be missed.
    """

    buckets: list[HotBucket]
    sampled: int
    sure: int


@dataclass(frozen=True)
class _Seen:
    """A token, the number of documents of the sample that hold it, and the id of one of them."""

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

    Counts the tokens in the whole index that at least two documents of a sample hold, the
    MOST_COUNTED most frequent ones of each kind. With n sampled documents, a bucket that holds the
    share p of all documents is missed with probability (1 - p)**n + n p (1 - p)**(n - 1). With
    n = 10,000 that is once in 2,000 times for p = 0.1%, and once in 25 for p = 0.05%. If the index
    has at most n documents, every bucket of two or more is found, unless there are too many to
    count. `HotBuckets.sure` says which buckets are certain.

    Raises UsageError if the scheme has none of the kinds.
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
        # If not all were counted, some left out may be as frequent as the last one counted.
        least = 2 if len(counted) == len(seen[kind]) else counted[-1].count + 1
        sure = max(sure, least if looked >= total else _sure(looked, total, least))
    largest = sorted(found, key=lambda each: (-each[0], each[1], each[2].token))[:count]
    return HotBuckets(_described(store, meta, largest, total), looked, sure)


def _seen(
    store: Store, meta: IndexMeta, kinds: Sequence[str], count: int, total: int
) -> tuple[int, dict[str, list[_Seen]]]:
    """The number of sampled documents, and the tokens of each kind that two or more hold."""
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
            # Others may have written something that is not a token: it can't be stopped.
            if held > 1 and is_token(token, kind, meta.scheme)
        ]
        for kind in kinds
    }


def _sample(
    store: Store, meta: IndexMeta, paths: list[str], count: int, total: int
) -> Iterator[Document]:
    """`count` random documents, by a fixed seed, or all if there are no more."""
    if total > count:
        yield from store.sample(paths, meta, count, seed=0)
        return
    for batch in store.scan(paths, meta):
        yield from batch


def _strings(value: Any) -> set[str]:
    """The strings in a field's value: others may have written something else there."""
    values = value if isinstance(value, list) else [value]
    return {each for each in values if isinstance(each, str)}


def _sure(sampled: int, total: int, least: int) -> int:
    """The size of a bucket of which a sample holds fewer than `least` once in 1,000 times.

    A sample holds about Poisson(share * sampled) of its documents. A sample is drawn without
    replacement, so that even fewer samples are far off.
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
    """The buckets of (size, kind, token), with the text of a document that is in each."""
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
