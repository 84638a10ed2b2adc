"""Similar documents: recall candidates by tokens, then verify them exactly.

Candidates to matches: each is verified, exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import RecordError, UsageError
from esdedup.models import Candidate, Candidates, Match, Query, RecallQuery, Result
from esdedup.search.hot_buckets import narrowed
from esdedup.search.limits import (
    Limits,
    distance_for,
    narrowed_scheme,
    require_bands,
    require_minhash,
    require_prints,
    require_simhash,
)
from esdedup.search.recall import band_queries, segment_queries, value_queries
from esdedup.sketch.banding import expected_recall, least_bands
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.simhash import from_hex
from esdedup.sketch.sketch import Sketches, shingle_sets, sketch
from esdedup.stores.base import Store
from esdedup.stores.elastic.queries import QUERIES_AT_ONCE, recall_body
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_tokens, without
from esdedup.text.jaccard import hamming, jaccard_with

_HEX = re.compile("[0-9a-fA-F]+")


def jaccard_matches(
    meta: IndexMeta, shingles: NDArray[np.uint64], candidates: Sequence[Candidate]
) -> list[Match]:
    """The candidates with their Jaccard similarities, the most similar first, ties by id.

    shingles: the set of the text that is looked for, sorted. One without a text is left out.
    """
    found = [candidate for candidate in candidates if _has_text(candidate, meta)]
    texts = [text_of(candidate.document.source, meta.text_field) for candidate in found]
    similarity = jaccard_with(shingles, shingle_sets(texts, meta.scheme))
    matches = [
        Match(candidate.document.id, value, None, candidate.matched, candidate.document.source)
        for candidate, value in zip(found, similarity.tolist(), strict=True)
    ]
    return sorted(matches, key=by_similarity)


def by_similarity(match: Match) -> tuple[float, str]:
    """The order of matches by Jaccard similarity."""
    return -(match.similarity or 0.0), match.id


def hamming_matches(
    meta: IndexMeta, own: NDArray[np.uint64], candidates: Sequence[Candidate]
) -> list[Match]:
    """The candidates with their Hamming distances, the closest first, ties by id.

    own: the fingerprint of the text that is looked for. One without a fingerprint is left out.
    """
    found = [each for each in candidates if _has_print(each, meta, own.size)]
    prints = from_hex([each.document.tokens_in(meta.field)["fingerprint"] for each in found])
    distances = hamming(prints, own[None, :]) if found else np.empty(0, np.int64)
    matches = [
        Match(candidate.document.id, None, value, candidate.matched, candidate.document.source)
        for candidate, value in zip(found, distances.tolist(), strict=True)
    ]
    return sorted(matches, key=lambda match: (match.distance, match.id))


def _has_text(candidate: Candidate, meta: IndexMeta) -> bool:
    """A foreign update may have taken the text away and left the tokens."""
    try:
        text_of(candidate.document.source, meta.text_field)
    except RecordError:
        return False
    return True


def _has_print(candidate: Candidate, meta: IndexMeta, words: int) -> bool:
    """A foreign writer may have put something else there, or tokens without it."""
    found = candidate.document.tokens_in(meta.field).get("fingerprint")
    return isinstance(found, str) and len(found) == 16 * words and _HEX.fullmatch(found) is not None


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
        threshold = limits.least_similarity
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
    return expected_recall(limits.least_similarity, bands, rows, recall.least)


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
