"""Builds `CandidateQuery` from the tokens of a text, for any store to run."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from esdedup.models import CandidateQuery, Candidates, Document, Query
from esdedup.sketch.kinds.base import Sketch
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
        sizes = sketches.words if sketches.shingles is None else sketches.shingles.counts
        assert sizes is not None
        found = _queries(meta, sketch, [[[]] * sketch.tokens] * len(queries), queries)
        every = zip(found, queries, sizes.tolist(), strict=True)
        return [
            replace(each, field=meta.analyzed, text=query.text, shingles=size)
            for each, query, size in every
        ]
    if (probes := sketches.probes.get(sketch.name)) is None:
        return _queries(meta, sketch, _own_tokens(sketch, sketches), queries)
    values, present = probes
    count, positions, many = values.shape
    tokens = encode(values.transpose(0, 2, 1).reshape(count * many, positions), sketch.bits)
    starts = range(0, count * many, many)
    groups = [[*map(list, zip(*tokens[at : at + many], strict=True))] for at in starts]
    for row, position in np.argwhere(~present.all(axis=2)).tolist():
        wanted = present[row, position].tolist()
        groups[row][position] = [*itertools.compress(groups[row][position], wanted)]
    return _queries(meta, sketch, groups, queries)


def equal_text_queries(
    meta: IndexMeta, sketch: Sketch, sketches: Sketches, queries: Sequence[Query]
) -> list[CandidateQuery]:
    """Return queries that find all documents of an equal text, by all tokens or its digest."""
    if sketch.by_server:
        found = candidate_queries(meta, sketch, sketches, queries)
    else:
        found = _queries(meta, sketch, _own_tokens(sketch, sketches), queries)
    wordless = wordless_queries(meta, sketches.digests, queries)
    return [
        replace(one, least=len(one.groups), kept=False) if filled else other
        for one, other, filled in zip(found, wordless, sketches.filled.tolist(), strict=True)
    ]


def wordless_queries(
    meta: IndexMeta, digests: Sequence[str], queries: Sequence[Query]
) -> list[CandidateQuery]:
    """Return queries for documents whose texts have no words, and the given digests."""
    return _queries(meta, None, ([[digest]] for digest in digests), queries)


def _own_tokens(sketch: Sketch, sketches: Sketches) -> list[list[list[str]]]:
    """Return groups of one token each."""
    tokens = encode(sketch.token_values(sketches.values[sketch.name]), sketch.bits)
    return [[[each] for each in row] for row in tokens]


def _queries(
    meta: IndexMeta,
    sketch: Sketch | None,
    groups: Iterable[list[list[str]]],
    queries: Sequence[Query],
) -> list[CandidateQuery]:
    """Return the queries for groups of tokens, one list of groups for each query."""
    key, leads, kept = "wordless", False, False
    if sketch is not None:
        key, leads, kept = sketch.key, sketch.leads, sketch.metric == "hamming"
    return [
        CandidateQuery(
            key,
            own,
            query.exclude,
            meta.field,
            query.filters,
            originals=query.originals,
            marked=query.marked,
            leads=leads,
            kept=kept,
            marks_in=meta.marks_field,
        )
        for own, query in zip(groups, queries, strict=True)
    ]


def in_pieces(query: CandidateQuery) -> list[CandidateQuery]:
    """Return queries of few groups each, of which a document has to share any."""
    if query.least > 1 or len(query.groups) <= _MOST_GROUPS:
        return [query]
    starts = range(0, len(query.groups), _MOST_GROUPS)
    # A document may be a candidate of several, and is counted once by its id.
    part = replace(query, verify=None)
    return [replace(part, groups=query.groups[at : at + _MOST_GROUPS]) for at in starts]


def merged(pieces: Sequence[Candidates]) -> Candidates:
    """Return the candidates of a query from those of its pieces."""
    if len(pieces) == 1:
        return pieces[0]
    documents, shared = dict[str, Document](), Counter[str]()
    for piece in pieces:
        for each, count in zip(piece.documents, piece.matched, strict=True):
            documents[each.id] = each
            shared[each.id] += count
    order = shared.most_common()
    found = [documents[id] for id, _ in order], [each for _, each in order]
    return Candidates(*found, sum(piece.missed for piece in pieces))


def with_least(
    query: CandidateQuery, sketch: Sketch, limits: Limits, similarity: float | None = None
) -> CandidateQuery:
    """Return the query with the most shared groups to require; similarity: else the threshold."""
    if not query.groups:
        return query
    least = sketch.least(limits, query.shingles or len(query.groups), similarity)
    return query if least == query.least else replace(query, least=least)


def without_stopped(meta: IndexMeta, queries: Sequence[CandidateQuery]) -> list[CandidateQuery]:
    """Return queries of one sketch without the tokens of the index's stop list."""
    stopped = stopped_tokens(meta.stop, queries[0].key) if queries else ()
    return [without(query, stopped) if stopped else query for query in queries]
