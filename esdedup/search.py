"""Similar documents: recall candidates by tokens, then verify them exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.banding import expected_recall, least_bands
from esdedup.datatypes import Candidates, Match, Metric, Query, RecallQuery, Result
from esdedup.exceptions import UsageError
from esdedup.hot import narrowed
from esdedup.matches import hamming_matches, jaccard_matches
from esdedup.minhash import MinHash
from esdedup.queries import QUERIES_AT_ONCE, recall_body
from esdedup.schema import IndexMeta
from esdedup.scheme import Scheme
from esdedup.segments import Layout
from esdedup.sketch import Sketches, sketch
from esdedup.stoplist import stopped_tokens, without
from esdedup.stores.base import Store
from esdedup.token_queries import band_queries, segment_queries, value_queries

MAX_CANDIDATES = 10_000
RECALL = 0.999
ONE_BAND = 1.0 - 1e-12
"""A recall so high that at all but the highest thresholds one shared band makes a candidate."""
MAX_PROBES = 65_536
"""The most terms that a cluster takes in one query by default."""


@dataclass(frozen=True)
class Limits:
    """How far to look.

    metric: "jaccard" or "hamming". threshold: least Jaccard similarity of a match, or None for the
    nearest documents, however unlike (`nearest.nearest`). distance: most
    Hamming distance of a match, in bits; None for what the layout guarantees by equality alone.
    matches: at most so many for a query. candidates: documents to fetch and verify for a query.
    recall: the share of the documents just at the threshold that shall be found: the higher it is,
    the fewer shared bands make a candidate, and the more candidates there are.
    max_bucket: bands or segments whose bucket holds more documents are left out, all but one; None
    to leave out only those of the index's stop list. It takes a round trip more.

    Raises UsageError for values out of range.
    """

    metric: Metric = "jaccard"
    threshold: float | None = 0.5
    distance: int | None = None
    matches: int = 10
    candidates: int = 1_000
    recall: float = RECALL
    max_bucket: int | None = None

    def __post_init__(self) -> None:
        if self.metric not in ("jaccard", "hamming"):
            raise UsageError(f"metric {self.metric!r}: use jaccard or hamming")
        if self.threshold is not None:
            check_threshold(self.threshold)
        elif self.metric == "hamming":
            raise UsageError("the nearest documents are found by metric jaccard")
        elif self.max_bucket is not None:
            raise UsageError("buckets are limited with a threshold, not for the nearest documents")
        if self.matches < 1:
            raise UsageError(f"matches {self.matches}: use at least 1")
        if not 1 <= self.candidates <= MAX_CANDIDATES:
            raise UsageError(f"candidates {self.candidates}: use 1 to {MAX_CANDIDATES}")
        check_recall(self.recall)
        if self.max_bucket is not None and self.max_bucket < 1:
            raise UsageError(f"max bucket {self.max_bucket}: use at least 1 document")


def check_threshold(threshold: float) -> None:
    """Raises UsageError for a threshold that is no similarity above 0."""
    if not 0.0 < threshold <= 1.0:
        raise UsageError(f"threshold {threshold}: use a similarity above 0, up to 1")


def check_recall(recall: float) -> None:
    """Raises UsageError for a recall that is no share between 0 and 1."""
    if not 0.0 < recall < 1.0:
        raise UsageError(f"recall {recall}: use a share between 0 and 1, such as 0.99")


def similar(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    """The documents similar to each query, in the order of the queries.

    Every match is verified exactly. A text without any shingle matches nothing. Limits without a
    threshold are for `nearest.nearest`.
    """
    texts = [query.text for query in queries]
    exact = limits.metric == "jaccard"
    sketches = sketch(texts, _narrowed(meta.scheme, limits), with_shingles=exact)
    unlimited = [
        _fitted(recall, meta.scheme, limits)
        for recall in _recall_queries(meta, sketches, queries, limits)
    ]
    filled = np.flatnonzero(sketches.filled).tolist()
    some_left = narrowed(store, meta, [unlimited[row] for row in filled], limits.max_bucket)
    recalls = {
        row: _fitted(recall, meta.scheme, limits)
        for row, recall in zip(filled, some_left, strict=True)
    }
    verify = _verifier(meta, sketches, limits)

    def answers(rows: list[int]) -> list[Result]:
        # When this returns the candidates are gone, before the next ones are fetched.
        found = store.recall([recalls[row] for row in rows], limits.candidates)
        return [
            replace(
                results[row],
                matches=verify(row, each)[: limits.matches],
                candidates=len(each.found),
                truncated=each.truncated,
            )
            for row, each in zip(rows, found, strict=True)
        ]

    whole = unlimited[0] if unlimited else None
    results = [Result([], 0, False, _expected_recall(meta.scheme, limits, whole))] * len(queries)
    for row, recall in recalls.items():
        expected = _expected_recall(meta.scheme, limits, recall)
        results[row] = Result([], 0, False, expected, len(recall.groups), recall.stopped)
    asked = [row for row in filled if recalls[row].groups]
    for first in range(0, len(asked), QUERIES_AT_ONCE):
        some = asked[first : first + QUERIES_AT_ONCE]
        for row, result in zip(some, answers(some), strict=True):
            results[row] = result
    return results


def _verifier(
    meta: IndexMeta, sketches: Sketches, limits: Limits
) -> Callable[[int, Candidates], list[Match]]:
    """Makes the matches of a query, given by its row, of its candidates."""
    if limits.metric == "jaccard":
        sets = sketches.shingles
        assert sets is not None
        threshold = _threshold(limits)
        return lambda row, candidates: [
            match
            for match in jaccard_matches(meta, sets[row], candidates.found)
            if (match.similarity or 0.0) >= threshold
        ]
    prints = require_prints(sketches.fingerprints)
    distance = distance_for(require_simhash(meta.scheme), limits.distance)
    return lambda row, candidates: [
        match
        for match in hamming_matches(meta, prints[row], candidates.found)
        if (match.distance or 0) <= distance
    ]


def _threshold(limits: Limits) -> float:
    if limits.threshold is None:
        raise UsageError("a threshold is needed here: use a similarity above 0, up to 1")
    return limits.threshold


def _fitted(recall: RecallQuery, scheme: Scheme, limits: Limits) -> RecallQuery:
    """A query that asks for as many shared bands as the recall allows, of those it has left."""
    if limits.metric == "hamming" or limits.threshold is None or not recall.groups:
        return recall
    rows = require_minhash(scheme).rows
    least = least_bands(limits.threshold, limits.recall, len(recall.groups), rows)
    return replace(recall, least=least)


def _expected_recall(scheme: Scheme, limits: Limits, recall: RecallQuery | None) -> float | None:
    """At the threshold; None for Hamming distances, of which none is missed."""
    if limits.metric == "hamming" or recall is None:
        return None
    bands, rows = len(recall.groups), require_minhash(scheme).rows
    return expected_recall(_threshold(limits), bands, rows, recall.least)


def request_body(meta: IndexMeta, query: Query, limits: Limits) -> dict[str, Any]:
    """The body of a `_search` that recalls the candidates of a query, for any client to send.

    The score of a hit is the number of tokens that it shares with the text; to verify it is up to
    the sender. A text without any shingle finds nothing, nor does one whose tokens are all in the
    index's stop list, which are left out.

    Raises UsageError where buckets are limited: how large they are, only a search can ask.
    """
    if limits.max_bucket is not None:
        raise UsageError("to limit buckets takes two requests: it goes with similar")
    sketches = sketch([query.text], _narrowed(meta.scheme, limits))
    (recall,) = _recall_queries(meta, sketches, [query], limits)
    recall = without(recall, stopped_tokens(meta.stop, recall.kind))
    recall = _fitted(recall, meta.scheme, limits)
    body = recall_body(recall, limits.candidates)
    if not sketches.filled[0] or not recall.groups:
        body["query"] = {"match_none": {}}
    return body


def _narrowed(scheme: Scheme, limits: Limits) -> Scheme:
    return narrowed_scheme(scheme, limits.metric, limits.threshold is None)


def narrowed_scheme(scheme: Scheme, metric: Metric, nearest: bool = False) -> Scheme:
    """What a metric needs of a scheme, if there is that; the rest is left out.

    nearest: with single values of the signature, which only the nearest are looked for by.
    """
    if metric == "jaccard" and scheme.minhash is not None:
        values = scheme.minhash.signature if nearest else 0
        return replace(scheme, minhash=replace(scheme.minhash, signature=values), simhash=None)
    if metric == "hamming" and scheme.simhash is not None:
        return replace(scheme, minhash=None)
    return scheme


def _recall_queries(
    meta: IndexMeta, sketches: Sketches, queries: Sequence[Query], limits: Limits
) -> list[RecallQuery]:
    if limits.metric == "jaccard":
        if sketches.values is not None:
            return value_queries(meta, sketches.values, queries)
        return band_queries(meta, require_bands(sketches.bands), queries)
    layout = require_simhash(meta.scheme)
    distance = distance_for(layout, limits.distance)
    return segment_queries(meta, require_prints(sketches.fingerprints), queries, distance)


def require_bands(bands: NDArray[np.uint64] | None) -> NDArray[np.uint64]:
    """The band hashes. Raises UsageError where the scheme has none."""
    if bands is None:
        raise UsageError("the index has no MinHash tokens: use --metric hamming")
    return bands


def require_minhash(scheme: Scheme) -> MinHash:
    """The scheme's MinHash parameters. Raises UsageError where it has none."""
    if scheme.minhash is None:
        raise UsageError("the index has no MinHash tokens: use --metric hamming")
    return scheme.minhash


def require_prints(fingerprints: NDArray[np.uint64] | None) -> NDArray[np.uint64]:
    """The fingerprints. Raises UsageError where the scheme has none."""
    if fingerprints is None:
        raise UsageError("the index has no SimHash tokens: use --metric jaccard")
    return fingerprints


def require_simhash(scheme: Scheme) -> Layout:
    """The layout of the scheme's segments. Raises UsageError where it has none."""
    if scheme.simhash is None:
        raise UsageError("the index has no SimHash tokens: use --metric jaccard")
    return scheme.simhash.layout


def distance_for(layout: Layout, distance: int | None) -> int:
    """The Hamming distance asked for, or what the layout guarantees by equality alone.

    Raises UsageError for one that takes more probes than a cluster's query can hold.
    """
    if distance is None:
        return layout.guarantee()
    probes = layout.probes(layout.radius_for(distance))
    if probes > MAX_PROBES:
        raise UsageError(
            f"distance {distance} on a {layout} layout needs {probes:,} terms a query; a cluster"
            f" takes {MAX_PROBES:,}: ask for less, or make an index with more segments"
        )
    return distance
