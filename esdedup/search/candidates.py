"""Builds the query for candidates: from the tokens of a text to a `CandidateQuery`.

A store takes it from there. For a cluster `stores.elastic.queries.candidates_body` makes the JSON
body of the search. For the local file `stores.sqlite.tables` makes the SQL statement.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from esdedup.models import CandidateQuery, Query, TokenKind
from esdedup.search.limits import Limits, distance_for, require_minhash, require_simhash
from esdedup.sketch.kinds.minhash import VALUE_BITS
from esdedup.sketch.kinds.segments import probe_masks, segment_values
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import Sketches
from esdedup.sketch.tokens import encode, encode_at
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_tokens, without
from esdedup.text.arrays import U64


def candidate_queries(
    meta: IndexMeta, sketches: Sketches, queries: Sequence[Query], limits: Limits
) -> list[CandidateQuery]:
    """The queries for candidates by the tokens of the metric: single values if there are any.

    sketches: of the texts of the queries. Raises UsageError if the scheme lacks the tokens.
    """
    if limits.metric == "hamming":
        distance = distance_for(require_simhash(meta.scheme), limits.distance)
        assert sketches.fingerprints is not None
        return segment_queries(meta, sketches.fingerprints, queries, distance)
    require_minhash(meta.scheme)
    if sketches.values is not None:
        return value_queries(meta, sketches.values, queries)
    return band_queries(meta, sketches, queries)


def band_queries(
    meta: IndexMeta, sketches: Sketches, queries: Sequence[Query]
) -> list[CandidateQuery]:
    """Query for documents that share bands, by all probes of each band if there are any."""
    minhash = require_minhash(meta.scheme)
    if sketches.probes is None or sketches.probed is None:
        assert sketches.bands is not None
        return _queries(meta, "minhash", _singles(sketches.bands, minhash.token_bits), queries)
    count, bands, probes = sketches.probes.shape
    positions = np.repeat(np.arange(bands), probes)
    values = sketches.probes.reshape(count, bands * probes)
    rows = encode_at(values, positions, bands, minhash.token_bits) if count else []
    starts = range(0, bands * probes, probes)
    groups = [[tokens[start : start + probes] for start in starts] for tokens in rows]
    for row, band in np.argwhere(~sketches.probed.all(axis=2)).tolist():
        wanted = sketches.probed[row, band]
        groups[row][band] = [*itertools.compress(groups[row][band], wanted.tolist())]
    return _queries(meta, "minhash", groups, queries)


def value_queries(meta: IndexMeta, values: U64, queries: Sequence[Query]) -> list[CandidateQuery]:
    """Query for documents that share single values of the signature, shape (n, values)."""
    return _queries(meta, "signature", _singles(values, VALUE_BITS), queries)


def _singles(values: U64, bits: int) -> list[list[list[str]]]:
    return [[[token] for token in row] for row in encode(values, bits)]


def segment_queries(
    meta: IndexMeta, fingerprints: U64, queries: Sequence[Query], distance: int
) -> list[CandidateQuery]:
    """Query for documents within a Hamming distance, by the neighbours of each segment."""
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
    return _queries(meta, "simhash", groups, queries)


def equal_text_queries(
    meta: IndexMeta, sketches: Sketches, queries: Sequence[Query]
) -> list[CandidateQuery]:
    """Query for documents that share all bands or segments, or that have the same wordless text.

    Documents of an equal text are among these, with the same digest.
    """
    if sketches.bands is not None:
        minhash = require_minhash(meta.scheme)
        found = _queries(meta, "minhash", _singles(sketches.bands, minhash.token_bits), queries)
    else:
        assert sketches.fingerprints is not None
        found = segment_queries(meta, sketches.fingerprints, queries, 0)
    wordless = wordless_queries(meta, sketches.digests, queries)
    return [
        replace(one, least=len(one.groups)) if filled else other
        for one, other, filled in zip(found, wordless, sketches.filled.tolist(), strict=True)
    ]


def wordless_queries(
    meta: IndexMeta, digests: Sequence[str], queries: Sequence[Query]
) -> list[CandidateQuery]:
    """Query for documents whose texts have no words, and the given digests."""
    return _queries(meta, "wordless", ([[digest]] for digest in digests), queries)


def _queries(
    meta: IndexMeta,
    kind: TokenKind | Literal["wordless"],
    groups: Iterable[list[list[str]]],
    queries: Sequence[Query],
) -> list[CandidateQuery]:
    """The queries for groups of tokens, one list of groups for each query."""
    return [
        CandidateQuery(
            kind, own, query.exclude, meta.field, query.filters, originals=query.originals
        )
        for own, query in zip(groups, queries, strict=True)
    ]


def with_least_bands(query: CandidateQuery, scheme: Scheme, limits: Limits) -> CandidateQuery:
    """The query with the most shared bands that it may demand at the recall, of those it has."""
    if limits.metric == "hamming" or limits.threshold is None or not query.groups:
        return query
    rows, swaps = require_minhash(scheme).rows, limits.swaps_for(scheme)
    least = limits.least_of(len(query.groups), rows, swaps)
    return query if least == query.least else replace(query, least=least)


def without_stopped(meta: IndexMeta, queries: Sequence[CandidateQuery]) -> list[CandidateQuery]:
    """Queries of one kind of token without the tokens of the index's stop list."""
    stopped = stopped_tokens(meta.stop, queries[0].kind) if queries else ()
    return [without(query, stopped) if stopped else query for query in queries]


def without_hot_buckets(
    store: Store, meta: IndexMeta, queries: Sequence[CandidateQuery], max_bucket: int | None
) -> list[CandidateQuery]:
    """Queries of one kind of token without the tokens of the stop list and of large buckets.

    max_bucket: leave out tokens that more documents hold, by the sizes that the store gives. The
    smallest bucket of a query stays, whatever its size. None leaves out only the stop list.
    """
    if max_bucket is None or not queries:
        return without_stopped(meta, queries)
    kind = queries[0].kind
    stopped = stopped_tokens(meta.stop, kind)
    tokens = sorted({t for query in queries for group in query.groups for t in group} - stopped)
    sizes = dict(zip(tokens, store.bucket_sizes(kind, tokens, meta), strict=True))
    large = stopped | {token for token, size in sizes.items() if size > max_bucket}
    narrow = []
    for query in queries:
        left = without(query, large)
        # A band is left out without its own token, so that no probe can stand for it.
        first = [group[:1] if kind == "minhash" else group for group in query.groups]
        own = [token for group in first for token in group if token in sizes]
        if own and not left.groups:
            left = without(query, large - {min(own, key=lambda token: (sizes[token], token))})
        narrow.append(left)
    return narrow
