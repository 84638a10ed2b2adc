"""All pairs of similar documents of an index, each once, with exact similarity.

The tokens of all documents are read once and joined here, in numpy; only documents of which two
share a token are fetched, to be verified. Cost grows with documents plus candidate pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.buckets import band_pairs, segment_pairs
from esdedup.datatypes import Metric, Pair
from esdedup.exceptions import RecordError, StoreError, UsageError
from esdedup.fields import text_of, value_at
from esdedup.schema import IndexMeta
from esdedup.search import check_threshold, distance_for, require_simhash
from esdedup.segments import probe_masks, segment_values
from esdedup.shingles import Ragged, offsets_of
from esdedup.simhash import from_hex
from esdedup.sketch import shingle_sets
from esdedup.stores.base import Store
from esdedup.tokens import decode
from esdedup.verify import hamming, jaccard_of_rows

I64 = NDArray[np.int64]

_DOCUMENTS_A_BLOCK = 20_000
"""Documents whose shingle sets are held at once."""

OnScan = Callable[[int], None]


@dataclass(frozen=True)
class _Found:
    """Verified pairs as columns: rows of the scan, and similarity or distance."""

    left: I64
    right: I64
    value: NDArray[np.float64] | I64


def similar_pairs(
    store: Store,
    meta: IndexMeta,
    *,
    metric: Metric = "jaccard",
    threshold: float = 0.5,
    distance: int | None = None,
    on_scan: OnScan | None = None,
) -> Iterator[Pair]:
    """All pairs at or over a Jaccard threshold, or within a Hamming distance.

    The most similar come first, ties by id. What shares no token is not found: see the S-curve
    for Jaccard; within a Hamming distance every pair is found. A text without any shingle is in no
    pair.

    on_scan: called with the number of documents read since the last call.
    Raises UsageError where the scheme lacks the tokens for the metric.
    """
    if metric == "hamming":
        return _hamming_pairs(store, meta, distance, on_scan)
    if metric == "jaccard":
        return _jaccard_pairs(store, meta, threshold, on_scan)
    raise UsageError(f"metric {metric!r}: use jaccard or hamming")


def _jaccard_pairs(
    store: Store, meta: IndexMeta, threshold: float, on_scan: OnScan | None
) -> Iterator[Pair]:
    check_threshold(threshold)
    minhash = meta.scheme.minhash
    if minhash is None:
        raise UsageError("the index has no MinHash tokens: use --metric hamming")
    ids: list[str] = []
    parts: list[NDArray[np.uint64]] = []
    for some, tokens in _scan(store, meta, f"{meta.field}.minhash", on_scan):
        ids += some
        parts.append(_decoded(store, tokens, minhash.bands, minhash.token_bits))
    if not parts:
        return
    blocks = list(band_pairs(np.concatenate(parts)))
    del parts
    if not blocks:
        return
    left = np.concatenate([block[0] for block in blocks])
    right = np.concatenate([block[1] for block in blocks])
    verified = [
        _verified(store, meta, ids, left[rows], right[rows], threshold)
        for rows in _fetch_blocks(left, right)
    ]
    yield from _sorted(ids, verified, descending=True)


def _hamming_pairs(
    store: Store, meta: IndexMeta, distance: int | None, on_scan: OnScan | None
) -> Iterator[Pair]:
    layout = require_simhash(meta.scheme)
    wanted = distance_for(layout, distance)
    radius = layout.radius_for(wanted)
    ids: list[str] = []
    parts: list[NDArray[np.uint64]] = []
    for some, hexadecimal in _scan(store, meta, f"{meta.field}.fingerprint", on_scan):
        ids += some
        parts.append(from_hex(hexadecimal))
    if not parts:
        return
    prints = np.concatenate(parts)
    masks = [probe_masks(width, radius) for width in layout.widths]
    verified = []
    for left, right in segment_pairs(segment_values(prints, layout), masks, radius):
        apart = hamming(prints[left], prints[right])
        near = apart <= wanted
        verified.append(_Found(left[near], right[near], apart[near]))
    yield from _sorted(ids, verified, descending=False)


def _scan(
    store: Store, meta: IndexMeta, path: str, on_scan: OnScan | None
) -> Iterator[tuple[list[str], list[Any]]]:
    """The ids and one of our fields of the documents that have it, in batches."""
    for batch in store.scan([path], meta):
        rows = [(document.id, value_at(document.source, path)) for document in batch]
        filled = [(id, value) for id, value in rows if value is not None]
        if on_scan is not None:
            on_scan(len(batch))
        if filled:
            yield [id for id, _ in filled], [value for _, value in filled]


def _decoded(store: Store, tokens: list[list[str]], count: int, bits: int) -> NDArray[np.uint64]:
    try:
        return decode(tokens, count, bits)
    except ValueError as error:
        raise StoreError(f"{store.where}: tokens that are not of its scheme: {error}") from error


def _fetch_blocks(left: I64, right: I64) -> Iterator[I64]:
    """Positions of pairs, in blocks that touch at most about _DOCUMENTS_A_BLOCK documents."""
    order = np.lexsort((right, left))
    a, b = left[order], right[order]
    # Sorted by the left document, a document is first met where its left or right number is new.
    _, first_met = np.unique(np.stack([a, b], axis=1).ravel(), return_index=True)
    fresh = np.bincount(first_met // 2, minlength=a.size)
    block = np.cumsum(fresh) // _DOCUMENTS_A_BLOCK
    yield from np.split(order, np.flatnonzero(np.diff(block)) + 1)


def _verified(
    store: Store, meta: IndexMeta, ids: list[str], left: I64, right: I64, threshold: float
) -> _Found:
    similarity = jaccard_of_rows(
        left, right, lambda rows: _sets(store, meta, [ids[row] for row in rows])
    )
    near = similarity >= threshold
    return _Found(left[near], right[near], similarity[near])


def _sets(store: Store, meta: IndexMeta, ids: list[str]) -> Ragged:
    """The shingle sets of documents; of one that vanished meanwhile, the empty set."""
    found = {document.id: document for document in store.get(ids)}
    texts = []
    for id in ids:
        try:
            texts.append(text_of(found[id].source, meta.text_field) if id in found else "")
        except RecordError:
            texts.append("")
    if not texts:
        return Ragged(np.empty(0, np.uint64), offsets_of(np.empty(0, np.int64)))
    return shingle_sets(texts, meta.scheme)


def _sorted(ids: list[str], verified: list[_Found], descending: bool) -> Iterator[Pair]:
    if not verified:
        return
    left = np.concatenate([found.left for found in verified])
    right = np.concatenate([found.right for found in verified])
    value = np.concatenate([found.value for found in verified])
    # By rank among the ids, so that the order is the same whatever order a store scans in.
    rank = np.empty(len(ids), np.int64)
    rank[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
    swapped = rank[left] > rank[right]
    left, right = np.where(swapped, right, left), np.where(swapped, left, right)
    order = np.lexsort((rank[right], rank[left], -value if descending else value))
    for row in order.tolist():
        a, b, found = ids[left[row]], ids[right[row]], value[row].item()
        yield Pair(a, b, found, None) if descending else Pair(a, b, None, found)
