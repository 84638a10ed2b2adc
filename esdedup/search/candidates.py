"""Build `CandidateQuery` from the tokens of a text, for any store to run."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from esdedup.models import CandidateQuery, Candidates, Document, Query
from esdedup.sketch.kinds.base import Probes, Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import Sketches
from esdedup.sketch.tokens import encode
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_tokens, without

_MOST_GROUPS = 1_000
"""Groups of a query: servers accept 1,024 clauses by default."""


def candidate_queries(
    meta: IndexMeta, sketch: Sketch, sketches: Sketches, queries: Sequence[Query]
) -> list[CandidateQuery]:
    """Return the queries for documents that share what a sketch looks up. sketches: with probes."""
    if sketch.by_server:
        sizes = sketches.words if sketches.sizes is None else sketches.sizes
        assert sizes is not None
        empty_groups: list[list[list[str]]] = [[[]] * sketch.tokens] * len(queries)
        return [
            replace(candidate_query, field=meta.analyzed, text=query.text, shingles=size)
            for candidate_query, query, size in zip(
                _queries(meta, sketch, empty_groups, queries), queries, sizes.tolist(), strict=True
            )
        ]
    probes = sketches.probes.get(sketch.name)
    if probes is None:
        return _queries(meta, sketch, _groups_of_one(sketch, sketches), queries)
    return _queries(meta, sketch, _groups_of_probes(sketch, probes), queries)


def _groups_of_one(sketch: Sketch, sketches: Sketches) -> list[list[list[str]]]:
    """Return of each text a group for each of its own tokens."""
    tokens = encode(sketch.token_values(sketches.values[sketch.name]), sketch.bits)
    return [[[token] for token in tokens_of_text] for tokens_of_text in tokens]


def _groups_of_probes(sketch: Sketch, probes: Probes) -> list[list[list[str]]]:
    """Return of each text a group for each position: the tokens that are looked up there."""
    values, present = probes
    texts, positions, probes_a_position = values.shape
    # A row of tokens holds one probe of each position, as `encode` writes the positions.
    rows = values.transpose(0, 2, 1).reshape(texts * probes_a_position, positions)
    tokens = encode(rows, sketch.bits)
    groups = []
    for start in range(0, len(tokens), probes_a_position):
        of_positions = zip(*tokens[start : start + probes_a_position], strict=True)
        groups.append([list(group) for group in of_positions])
    for text, position in np.argwhere(~present.all(axis=2)).tolist():
        is_present = present[text, position].tolist()
        groups[text][position] = [*itertools.compress(groups[text][position], is_present)]
    return groups


def equal_text_queries(
    meta: IndexMeta, sketch: Sketch, sketches: Sketches, queries: Sequence[Query]
) -> list[CandidateQuery]:
    """Return queries that find all documents of an equal text, by all tokens or its digest."""
    if sketch.by_server:
        by_tokens = candidate_queries(meta, sketch, sketches, queries)
    else:
        by_tokens = _queries(meta, sketch, _groups_of_one(sketch, sketches), queries)
    by_digest = wordless_queries(meta, sketches.digests, queries)
    return [
        replace(token_query, least=len(token_query.groups), kept=False) if filled else digest_query
        for token_query, digest_query, filled in zip(
            by_tokens, by_digest, sketches.filled.tolist(), strict=True
        )
    ]


def wordless_queries(
    meta: IndexMeta, digests: Sequence[str], queries: Sequence[Query]
) -> list[CandidateQuery]:
    """Return queries for documents whose texts have no words, and the given digests."""
    return _queries(meta, None, ([[digest]] for digest in digests), queries)


def _queries(
    meta: IndexMeta,
    sketch: Sketch | None,
    groups: Iterable[list[list[str]]],
    queries: Sequence[Query],
) -> list[CandidateQuery]:
    """Return the queries for groups of tokens, one list of groups for each query.

    sketch: None for digests of texts without words.
    """
    return [
        CandidateQuery(
            key="wordless" if sketch is None else sketch.key,
            groups=groups_of_query,
            exclude=query.exclude,
            field=meta.field,
            filters=query.filters,
            scope=query.scope,
            originals=query.originals,
            marked=query.marked,
            leads=sketch is not None and sketch.leads,
            kept=sketch is not None and sketch.measure.by_values,
            of_values=sketch is not None and sketch.reads_values,
            marks_in=meta.marks_field,
        )
        for groups_of_query, query in zip(groups, queries, strict=True)
    ]


def in_pieces(query: CandidateQuery) -> list[CandidateQuery]:
    """Return queries of few groups each, of which a document has to share any."""
    if query.least > 1 or len(query.groups) <= _MOST_GROUPS:
        return [query]
    # A document may be a candidate of several, and is counted once by its id.
    unverified = replace(query, verify=None)
    return [
        replace(unverified, groups=query.groups[start : start + _MOST_GROUPS])
        for start in range(0, len(query.groups), _MOST_GROUPS)
    ]


def merged(pieces: Sequence[Candidates]) -> Candidates:
    """Return the candidates of a query from those of its pieces."""
    if len(pieces) == 1:
        return pieces[0]
    document_of, matched = dict[str, Document](), Counter[str]()
    for piece in pieces:
        for document, count in zip(piece.documents, piece.matched, strict=True):
            document_of[document.full_id] = document
            matched[document.full_id] += count
    ranked = matched.most_common()
    return Candidates(
        documents=[document_of[id] for id, _ in ranked],
        matched=[count for _, count in ranked],
        missed=sum(piece.missed for piece in pieces),
    )


def with_least(
    query: CandidateQuery, sketch: Sketch, limits: Limits, similarity: float | None = None
) -> CandidateQuery:
    """Return the query with the most shared groups to require.

    similarity: that a document must have; None for the threshold.
    """
    if not query.groups:
        return query
    least = sketch.least(limits, query.shingles or len(query.groups), similarity)
    return query if least == query.least else replace(query, least=least)


def without_stopped(meta: IndexMeta, queries: Sequence[CandidateQuery]) -> list[CandidateQuery]:
    """Return queries of one sketch without the tokens of the index's stop list."""
    stopped = stopped_tokens(meta.stop, queries[0].key) if queries else ()
    return [without(query, stopped) if stopped else query for query in queries]
