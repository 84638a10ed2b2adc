"""Finds similar documents: fetches candidates by shared tokens, then verifies each one exactly.

`search.candidates` builds the queries, the store finds the candidates, and their texts (for Jaccard
similarity) or fingerprints (for Hamming distance) are compared here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.models import Candidate, Candidates, Document, Match, Query, Result
from esdedup.search.candidates import (
    candidate_queries,
    with_least,
    without_hot_buckets,
    without_stopped,
    wordless_queries,
)
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, Sketches, shingle_sets, sketch, stored_values
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.elastic.queries import candidates_body
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import U64
from esdedup.text.jaccard import hamming, jaccard_with
from esdedup.text.normalise import normalise


def similar(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    """Return the documents similar to each query, in the order of the queries.

    A text without any shingle matches equal texts only. Raises UsageError if the limits have no
    threshold.
    """
    chosen = limits.chosen(meta.scheme)
    by_sets = chosen.metric == "jaccard"
    texts = [query.text for query in queries]
    sketches = sketch(texts, meta.scheme.only(chosen), with_shingles=by_sets, limits=limits)
    wanted = candidate_queries(meta, chosen, sketches, queries)
    filled = np.flatnonzero(sketches.filled).tolist()
    some = [wanted[row] for row in filled]
    narrow = without_hot_buckets(store, meta, some, limits.max_bucket)
    for row, query in zip(filled, narrow, strict=True):
        wanted[row] = query
    wanted = [with_least(query, chosen, limits) for query in wanted]
    results = []
    for query in wanted:
        # How many similar documents share only stopped tokens depends on the texts.
        recall = None if query.stopped else chosen.recall(limits, chosen.tokens, query.least)
        results.append(Result([], 0, False, recall, stopped=query.stopped, total=0))
    asked = [row for row in filled if wanted[row].groups]
    for first in range(0, len(asked), QUERIES_AT_ONCE):
        some_rows = asked[first : first + QUERIES_AT_ONCE]
        found = store.candidates([wanted[row] for row in some_rows], limits.candidates)
        some_found = [each.found for each in found]
        if sketches.shingles is not None:
            sets = [sketches.shingles[row] for row in some_rows]
            matches = jaccard_matches(meta, sets, some_found, limits.least_similarity)
        else:
            stored = sketches.values[chosen.name][some_rows]
            matches = [
                _hamming_matches(meta, chosen, own, each, limits)
                for own, each in zip(stored, some_found, strict=True)
            ]
        for row, each, near in zip(some_rows, found, matches, strict=True):
            results[row] = replace(
                results[row],
                matches=near[: limits.k],
                candidates=len(each.found),
                truncated=each.truncated,
                asked=len(wanted[row].groups),
                total=len(near),
            )
        # The candidates are freed before the next ones are fetched.
        del found, some_found, matches, each, near
    for row, result in of_equal_texts(store, meta, queries, sketches, limits):
        results[row] = result
    return results


def of_equal_texts(
    store: Store, meta: IndexMeta, queries: Sequence[Query], sketches: Sketches, limits: Limits
) -> Iterator[tuple[int, Result]]:
    """Answer the queries by texts without any shingle: (row, documents of the same text).

    sketches: of the texts of all queries. An empty text equals none.
    """
    rows = np.flatnonzero(~sketches.filled).tolist()
    by_sets = limits.chosen(meta.scheme).metric == "jaccard"
    similarity, distance = (1.0, None) if by_sets else (None, 0)
    empty = Result([], 0, False, similarity, total=0)
    yield from ((row, empty) for row in rows)
    asked = [row for row in rows if sketches.digests[row] != NO_TEXT]
    for first in range(0, len(asked), QUERIES_AT_ONCE):
        some = asked[first : first + QUERIES_AT_ONCE]
        asking, digests = [queries[row] for row in some], [sketches.digests[row] for row in some]
        found = store.candidates(wordless_queries(meta, digests, asking), limits.candidates)
        own = normalise([query.text for query in asking], meta.scheme.normalisation)
        for row, text, each in zip(some, own, found, strict=True):
            matches = [
                Match(document.id, similarity, distance, 0, document.source)
                for document, stored in with_texts(meta, each)
                if stored == text
            ]
            matches.sort(key=by_similarity)
            yield (
                row,
                replace(
                    empty,
                    matches=matches[: limits.k],
                    candidates=len(each.found),
                    truncated=each.truncated,
                    total=len(matches),
                ),
            )


def with_texts(meta: IndexMeta, found: Candidates) -> list[tuple[Document, str]]:
    """The documents of candidates, with their texts, normalised.

    Others may have changed a text, or taken it away, and left the tokens.
    """
    documents = [candidate.document for candidate in found.found]
    texts = [text_at(document.source, meta.text_fields) or "" for document in documents]
    return [*zip(documents, normalise(texts, meta.scheme.normalisation), strict=True)]


def request_body(meta: IndexMeta, query: Query, limits: Limits) -> dict[str, Any]:
    """The body of a `_search` that finds the candidates of a query, for any client to send.

    The score of a hit is the number of bands or segments that it shares with the text. The sender
    has to verify the hits. A text without any shingle finds nothing, nor does one whose tokens are
    all in the stop list.

    Raises UsageError if `max_bucket` is set: only a search can ask for the sizes of buckets.
    """
    if limits.max_bucket is not None:
        raise UsageError(
            "max bucket looks sizes up before it searches: it can't be combined with a request body"
        )
    chosen = limits.chosen(meta.scheme)
    if limits.threshold is None:
        # Single values meet at any similarity.
        chosen = levels_of(meta.scheme, chosen)[-1]
    sketches = sketch([query.text], meta.scheme.only(chosen), limits=limits)
    (wanted,) = without_stopped(meta, candidate_queries(meta, chosen, sketches, [query]))
    body = candidates_body(with_least(wanted, chosen, limits), limits.candidates)
    if not sketches.filled[0] or not wanted.groups:
        body["query"] = {"match_none": {}}
    return body


def levels_of(scheme: Scheme, chosen: Sketch) -> list[Sketch]:
    """Return a sketch, and the others of its measure: together they find the nearest documents."""
    same = [each for each in scheme.sketches if each.metric == chosen.metric]
    return [chosen, *(each for each in same if each != chosen)]


def jaccard_matches(
    meta: IndexMeta,
    sets: Sequence[U64],
    candidates: Sequence[Sequence[Candidate]],
    least: float = 0.0,
) -> list[list[Match]]:
    """The candidates of a Jaccard similarity from `least` on, most similar first, ties by id.

    sets, candidates: of each query, the sorted set of its text's shingles and its candidates. A
    candidate without a text is left out: others may have taken the text away and left the tokens.
    """
    found = [
        [
            (each, text)
            for each in some
            if (text := text_at(each.document.source, meta.text_fields)) is not None
        ]
        for some in candidates
    ]
    stored = shingle_sets([text for some in found for _, text in some], meta.scheme)
    matches = []
    first = 0
    for own, some in zip(sets, found, strict=True):
        similarities = jaccard_with(own, stored.slice(first, first + len(some))).tolist()
        first += len(some)
        near = [
            Match(each.document.id, value, None, each.matched, each.document.source)
            for (each, _), value in zip(some, similarities, strict=True)
            if value >= least
        ]
        matches.append(sorted(near, key=by_similarity))
    return matches


def by_similarity(match: Match) -> tuple[float, str]:
    """The sort key of matches by Jaccard similarity, the most similar first."""
    return -(match.similarity or 0.0), match.id


def _hamming_matches(
    meta: IndexMeta, chosen: Sketch, own: U64, candidates: Sequence[Candidate], limits: Limits
) -> list[Match]:
    """Return the candidates within the Hamming distance, the closest first, ties by id.

    own: the values of the query's text, shape (words,). A candidate is left out if another client
    wrote other tokens.
    """
    rows = [each.document.tokens_in(meta.field).get(chosen.key) for each in candidates]
    stored, whole = stored_values(rows, chosen)
    found = [each for each, fits in zip(candidates, whole.tolist(), strict=True) if fits]
    most = chosen.distance(limits)
    matches = [
        Match(each.document.id, None, value, each.matched, _without(meta, chosen, each.document))
        for each, value in zip(found, hamming(stored, own[None, :]).tolist(), strict=True)
        if value <= most
    ]
    return sorted(matches, key=lambda match: (match.distance, match.id))


def _without(meta: IndexMeta, chosen: Sketch, document: Document) -> dict[str, Any]:
    ours = {**document.tokens_in(meta.field)}
    ours.pop(chosen.key, None)
    return {**document.source, meta.field: ours}
