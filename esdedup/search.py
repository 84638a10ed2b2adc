"""Similar documents: recall candidates by tokens, then verify them exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from esdedup.datatypes import Candidate, Candidates, Match, Metric, RecallQuery, Result
from esdedup.exceptions import RecordError, UsageError
from esdedup.fields import text_of
from esdedup.queries import QUERIES_AT_ONCE, recall_body
from esdedup.schema import IndexMeta
from esdedup.scheme import Scheme
from esdedup.segments import Layout, probe_masks, segment_values
from esdedup.simhash import from_hex
from esdedup.sketch import Sketches, shingle_sets, sketch
from esdedup.stores.base import Store
from esdedup.tokens import encode, encode_at
from esdedup.verify import hamming, jaccard_with

MAX_CANDIDATES = 10_000
MAX_PROBES = 65_536
"""The most terms that a cluster takes in one query by default."""

_HEX = re.compile("[0-9a-fA-F]+")


@dataclass(frozen=True)
class Query:
    """A text to find similar documents of.

    exclude: the id of a document to leave out. filters: queries in the cluster's own language that
    a document must match too, such as a range of dates or a tenant. originals: only documents that
    are not marked as like another.
    """

    text: str
    exclude: str | None = None
    filters: Sequence[Mapping[str, Any]] = ()
    originals: bool = False


@dataclass(frozen=True)
class Limits:
    """How far to look.

    metric: "jaccard" or "hamming". threshold: least Jaccard similarity of a match. distance: most
    Hamming distance of a match, in bits; None for what the layout guarantees by equality alone.
    matches: at most so many for a query. candidates: documents to fetch and verify for a query.

    Raises UsageError for values out of range.
    """

    metric: Metric = "jaccard"
    threshold: float = 0.5
    distance: int | None = None
    matches: int = 10
    candidates: int = 1_000

    def __post_init__(self) -> None:
        if self.metric not in ("jaccard", "hamming"):
            raise UsageError(f"metric {self.metric!r}: use jaccard or hamming")
        check_threshold(self.threshold)
        if self.matches < 1:
            raise UsageError(f"matches {self.matches}: use at least 1")
        if not 1 <= self.candidates <= MAX_CANDIDATES:
            raise UsageError(f"candidates {self.candidates}: use 1 to {MAX_CANDIDATES}")


def check_threshold(threshold: float) -> None:
    """Raises UsageError for a threshold that is no similarity above 0."""
    if not 0.0 < threshold <= 1.0:
        raise UsageError(f"threshold {threshold}: use a similarity above 0, up to 1")


def similar(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    """The documents similar to each query, in the order of the queries.

    Every match is verified exactly. A text without any shingle matches nothing.
    """
    texts = [query.text for query in queries]
    exact = limits.metric == "jaccard"
    sketches = sketch(texts, _asked(meta.scheme, limits), with_shingles=exact)
    recalls = _recall_queries(meta, sketches, queries, limits)
    asked = np.flatnonzero(sketches.filled).tolist()
    verify = _verifier(meta, sketches, limits)
    results = [Result([], 0, False)] * len(queries)
    for first in range(0, len(asked), QUERIES_AT_ONCE):
        some = asked[first : first + QUERIES_AT_ONCE]
        wanted = [recalls[row] for row in some]
        for row, result in zip(some, _results(store, wanted, limits, some, verify), strict=True):
            results[row] = result
    return results


def _results(
    store: Store,
    recalls: Sequence[RecallQuery],
    limits: Limits,
    rows: Sequence[int],
    verify: Callable[[int, Candidates], Result],
) -> list[Result]:
    # When this returns the candidates are gone, before the next ones are fetched.
    found = store.recall(recalls, limits.candidates)
    return [verify(row, candidates) for row, candidates in zip(rows, found, strict=True)]


def _verifier(
    meta: IndexMeta, sketches: Sketches, limits: Limits
) -> Callable[[int, Candidates], Result]:
    """Makes the result of a query, given by its row, of its candidates."""
    if limits.metric == "jaccard":
        sets = sketches.shingles
        assert sets is not None
        return lambda row, found: _verify_jaccard(meta, sets[row], found, limits)
    prints = require_prints(sketches.fingerprints)
    distance = distance_for(require_simhash(meta.scheme), limits.distance)
    return lambda row, found: _verify_hamming(meta, prints[row], found, limits, distance)


def request_body(meta: IndexMeta, query: Query, limits: Limits) -> dict[str, Any]:
    """The body of a `_search` that recalls the candidates of a query, for any client to send.

    The score of a hit is the number of tokens that it shares with the text; to verify it is up to
    the sender. A text without any shingle finds nothing.
    """
    sketches = sketch([query.text], _asked(meta.scheme, limits))
    (recall,) = _recall_queries(meta, sketches, [query], limits)
    body = recall_body(recall, limits.candidates)
    if not sketches.filled[0]:
        body["query"] = {"match_none": {}}
    return body


def _asked(scheme: Scheme, limits: Limits) -> Scheme:
    """The half of a scheme that a metric needs, if there is that; the other is left out."""
    if limits.metric == "jaccard" and scheme.minhash is not None:
        return replace(scheme, simhash=None)
    if limits.metric == "hamming" and scheme.simhash is not None:
        return replace(scheme, minhash=None)
    return scheme


def _recall_queries(
    meta: IndexMeta, sketches: Sketches, queries: Sequence[Query], limits: Limits
) -> list[RecallQuery]:
    if limits.metric == "jaccard":
        return _band_queries(meta, require_bands(sketches.bands), queries)
    distance = distance_for(require_simhash(meta.scheme), limits.distance)
    return _segment_queries(meta, require_prints(sketches.fingerprints), queries, distance)


def require_bands(bands: NDArray[np.uint64] | None) -> NDArray[np.uint64]:
    """The band hashes. Raises UsageError where the scheme has none."""
    if bands is None:
        raise UsageError("the index has no MinHash tokens: use --metric hamming")
    return bands


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


def _band_queries(
    meta: IndexMeta, bands: NDArray[np.uint64], queries: Sequence[Query]
) -> list[RecallQuery]:
    assert meta.scheme.minhash is not None
    tokens = encode(bands, meta.scheme.minhash.token_bits)
    return [
        _recall_query("minhash", [[token] for token in row], meta, query)
        for row, query in zip(tokens, queries, strict=True)
    ]


def _segment_queries(
    meta: IndexMeta, fingerprints: NDArray[np.uint64], queries: Sequence[Query], distance: int
) -> list[RecallQuery]:
    """Queries that hold every neighbour, within the radius, of every segment."""
    layout = require_simhash(meta.scheme)
    radius = layout.radius_for(distance)
    values = segment_values(fingerprints, layout)
    count = values.shape[1]
    groups: list[list[list[str]]] = [[] for _ in queries]
    for position, width in enumerate(layout.widths):
        probes = values[:, position, None] ^ probe_masks(width, radius)
        positions = np.full(probes.shape[1], position)
        for row, tokens in enumerate(encode_at(probes, positions, count, layout.segment_bits)):
            groups[row].append(tokens)
    return [
        _recall_query("simhash", tokens, meta, query)
        for tokens, query in zip(groups, queries, strict=True)
    ]


def _recall_query(
    kind: Literal["minhash", "simhash"], groups: list[list[str]], meta: IndexMeta, query: Query
) -> RecallQuery:
    return RecallQuery(
        kind, groups, query.exclude, meta.field, query.filters, originals=query.originals
    )


def _verify_jaccard(
    meta: IndexMeta, shingles: NDArray[np.uint64], candidates: Candidates, limits: Limits
) -> Result:
    found = [candidate for candidate in candidates.found if _has_text(candidate, meta)]
    if not found:
        return Result([], len(candidates.found), candidates.truncated)
    texts = [text_of(candidate.document.source, meta.text_field) for candidate in found]
    similarity = jaccard_with(shingles, shingle_sets(texts, meta.scheme))
    matches = [
        Match(candidate.document.id, value, None, candidate.matched, candidate.document.source)
        for candidate, value in zip(found, similarity.tolist(), strict=True)
        if value >= limits.threshold
    ]
    matches.sort(key=lambda match: (-(match.similarity or 0.0), match.id))
    return Result(matches[: limits.matches], len(candidates.found), candidates.truncated)


def _has_text(candidate: Candidate, meta: IndexMeta) -> bool:
    """A foreign update may have taken the text away and left the tokens."""
    try:
        text_of(candidate.document.source, meta.text_field)
    except RecordError:
        return False
    return True


def _verify_hamming(
    meta: IndexMeta, own: NDArray[np.uint64], candidates: Candidates, limits: Limits, distance: int
) -> Result:
    found = [each for each in candidates.found if _has_print(each, meta, own.size)]
    prints = from_hex([each.document.tokens_in(meta.field)["fingerprint"] for each in found])
    distances = hamming(prints, own[None, :]) if found else np.empty(0, np.int64)
    matches = [
        Match(candidate.document.id, None, value, candidate.matched, candidate.document.source)
        for candidate, value in zip(found, distances.tolist(), strict=True)
        if value <= distance
    ]
    matches.sort(key=lambda match: (match.distance, match.id))
    return Result(matches[: limits.matches], len(candidates.found), candidates.truncated)


def _has_print(candidate: Candidate, meta: IndexMeta, words: int) -> bool:
    """A foreign writer may have put something else there, or tokens without it."""
    found = candidate.document.tokens_in(meta.field).get("fingerprint")
    return isinstance(found, str) and len(found) == 16 * words and _HEX.fullmatch(found) is not None
