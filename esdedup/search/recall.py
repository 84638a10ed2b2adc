"""Recall queries: the tokens that are looked for, of texts that were sketched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from esdedup.models import Query, RecallQuery, TokenKind
from esdedup.sketch.minhash import VALUE_BITS
from esdedup.sketch.segments import probe_masks, segment_values
from esdedup.sketch.tokens import encode, encode_at
from esdedup.stores.mapping import IndexMeta


def band_queries(
    meta: IndexMeta, bands: NDArray[np.uint64], queries: Sequence[Query]
) -> list[RecallQuery]:
    """Queries for documents that share bands; one for each row of `bands`."""
    assert meta.scheme.minhash is not None
    return [
        _recall_query("minhash", [[token] for token in row], meta, query)
        for row, query in zip(encode(bands, meta.scheme.minhash.token_bits), queries, strict=True)
    ]


def value_queries(
    meta: IndexMeta, values: NDArray[np.uint64], queries: Sequence[Query]
) -> list[RecallQuery]:
    """Queries for documents that share values of the signature; one for each row of `values`."""
    return [
        _recall_query("signature", [[token] for token in row], meta, query)
        for row, query in zip(encode(values, VALUE_BITS), queries, strict=True)
    ]


def segment_queries(
    meta: IndexMeta, fingerprints: NDArray[np.uint64], queries: Sequence[Query], distance: int
) -> list[RecallQuery]:
    """Queries that hold every neighbour, within the radius, of every segment."""
    assert meta.scheme.simhash is not None
    layout = meta.scheme.simhash.layout
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
    kind: TokenKind, groups: list[list[str]], meta: IndexMeta, query: Query
) -> RecallQuery:
    return RecallQuery(
        kind, groups, query.exclude, meta.field, query.filters, originals=query.originals
    )
