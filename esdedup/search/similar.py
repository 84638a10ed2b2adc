"""Finds similar documents: fetches candidates by shared tokens, then verifies each one exactly.

Without a threshold, the k nearest documents are searched in levels: first by bands, which few
documents share, then by single values of the signature (`kinds.signature`). The similarity of the
k-th match so far decides how many tokens a nearer document would share, and how likely it was
missed. Bawa, Condie, Ganesan, "LSH Forest: self-tuning indexes for similarity search", WWW 2005,
find the nearest in the same sense, with prefixes of a tree's paths as levels.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.models import (
    CandidateQuery,
    Candidates,
    Cover,
    Document,
    Match,
    Query,
    Result,
    id_with_place,
)
from esdedup.search.candidates import (
    candidate_queries,
    in_pieces,
    merged,
    with_least,
    without_stopped,
    wordless_queries,
)
from esdedup.search.passage_matches import with_passages
from esdedup.sketch.comparisons import ShingleComparison, TextComparison
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, known_operands, sketch, stored_values
from esdedup.stores.base import ALL_PATHS, QUERIES_AT_ONCE, Store
from esdedup.stores.elastic.queries import candidates_body, unread_paths
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, Mask, Ragged, Values, offsets_of
from esdedup.text.normalise import normalise

NEEDS_FIELDS = "a text has no fields: use the `id` of a document, or records with fields"
"""Why a text can't be searched for in a scope."""
Verifier = Callable[[Ragged], tuple[F64, Mask, int]]
"""The `verify` of a `CandidateQuery`."""


def similar(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    """Return the documents similar to each query, in the order of the queries.

    A text without any shingle matches equal texts only. Without a threshold in the limits, the
    nearest documents that share a token are returned, so that there may be fewer than `limits.k`;
    a query gets no further level once it reaches `limits.wanted_recall`. Raises UsageError for
    limits with a scope, and a query without one.
    """
    if limits.within and any(query.scope is None for query in queries):
        raise UsageError(f"within {limits.within}: {NEEDS_FIELDS}")

    def search(start: int) -> list[Result]:
        return _Search(store, meta, queries[start : start + QUERIES_AT_ONCE], limits).results()

    starts = range(0, len(queries), QUERIES_AT_ONCE)
    if len(starts) == 1:
        return search(0)
    return [*itertools.chain.from_iterable(store.window.in_order(search, starts))]


def sharing(
    store: Store, meta: IndexMeta, texts: Sequence[str], limits: Limits
) -> Iterator[tuple[list[CandidateQuery], list[Candidates]]]:
    """Yield the queries of some texts after others, and their candidates, which are not verified.

    A text without tokens, or of stopped ones only, has no candidates.
    """
    level = meta.scheme.chosen(limits)

    def look_up(start: int) -> tuple[list[CandidateQuery], list[Candidates]]:
        block = texts[start : start + QUERIES_AT_ONCE]
        sketches = sketch(block, meta.scheme.only(level), limits=limits)
        queries = candidate_queries(meta, level, sketches, [*map(Query, block)])
        queries = without_stopped(meta, queries)
        with_groups = [query for query in queries if query.groups]
        return queries, _candidates(store, with_groups, limits.candidates)

    return store.window.in_order(look_up, range(0, len(texts), QUERIES_AT_ONCE))


@dataclass(frozen=True)
class _Operands:
    """What is compared of the candidates of a query.

    values: of the valid candidates, an operand each.
    is_valid: False for a candidate whose tokens can't be read, shape (candidates,).
    """

    values: Values
    is_valid: Mask


class _Search:
    """The search for the documents that are similar to a block of queries.

    chosen: the sketch that decides what is similar.
    comparison: of the queries with their candidates.
    least: the least nearness of a match.
    levels: the sketches that are looked up, one after the other.
    sketches: of the texts of the queries.
    operands: what is compared of each query.
    answers: of the queries so far.
    """

    def __init__(
        self, store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
    ) -> None:
        self.store, self.meta, self.queries, self.limits = store, meta, queries, limits
        self.chosen = meta.scheme.chosen(limits)
        self.comparison = self.chosen.comparison(limits)
        self.least = self.chosen.measure.least_of_query(self.chosen.settled(limits))
        self.levels = [self.chosen]
        if limits.threshold is None:
            self.levels = levels_of(meta.scheme, self.chosen)
        self.sketches = sketch(
            [query.text for query in queries],
            meta.scheme.only(*self.levels),
            comparison=self.comparison,
            limits=limits,
        )
        self.operands = self.sketches.operands_of(self.chosen)
        self.answers = [_Answer(limits) for _ in queries]

    def results(self) -> list[Result]:
        """Return the result of each query."""
        for level in self.levels:
            # The candidates of a level are freed before the next one fetches its own.
            self._look_up(level)
        return [self.result(row) for row in range(len(self.queries))]

    def _look_up(self, level: Sketch) -> None:
        """Add the documents that are found at a level to the answers."""
        queries = self.candidate_queries(level)
        if not queries:
            return
        candidates = _candidates(self.store, [*queries.values()], self.limits.candidates)
        self.add(level, queries, candidates)

    def add(
        self, level: Sketch, queries: Mapping[int, CandidateQuery], candidates: Sequence[Candidates]
    ) -> None:
        """Add the candidates at a level to the answers. queries: by row."""
        matches = self._matches(level, [*queries], candidates)
        for row, candidates_of_query, matches_of_query in zip(
            queries, candidates, matches, strict=True
        ):
            self.answers[row].add(queries[row], level, candidates_of_query, matches_of_query)

    def candidate_queries(self, level: Sketch) -> dict[int, CandidateQuery]:
        """Return the queries for candidates at a level, by row, as far as they need any."""
        queries = candidate_queries(self.meta, level, self.sketches, self.queries)
        rows = np.flatnonzero(self.sketches.filled).tolist()
        without = without_stopped(self.meta, [queries[row] for row in rows])
        needed: dict[int, CandidateQuery] = {}
        for row, query in zip(rows, without, strict=True):
            answer = self.answers[row]
            query = with_least(query, level, self.limits, answer.farthest)
            answer.stopped = answer.stopped or query.stopped
            scope = query.scope
            is_missing = scope is not None and scope.is_missing
            if is_missing or not query.groups or answer.is_complete:
                continue
            if self._stores_verify and scope is None:
                query = replace(query, verify=self._verifier(row))
            needed[row] = query
        return needed

    @property
    def _stores_verify(self) -> bool:
        """Whether a store can verify candidates by the sets of shingles that it keeps."""
        # Candidates of several levels are counted by their ids.
        if len(self.levels) > 1:
            return False
        return isinstance(self.comparison, ShingleComparison) and self.comparison.sides == 1

    def _verifier(self, row: int) -> Verifier:
        """Return the `verify` of a query."""
        comparison, shingles = self.comparison, self.operands[row]
        k, least_match = self.limits.k, self.least

        def verify(sets: Ragged) -> tuple[F64, Mask, int]:
            (nearness,) = comparison.nearness_to(shingles, sets)
            matches, least = int(np.count_nonzero(nearness >= least_match)), least_match
            if k < len(sets):
                # Ties are in the order of ids.
                least = max(least, np.partition(nearness, -k)[-k])
            is_near = nearness >= least
            return nearness, is_near, matches - int(np.count_nonzero(is_near))

        return verify

    def _matches(
        self, level: Sketch, rows: Sequence[int], candidates: Sequence[Candidates]
    ) -> list[list[Match]]:
        """Return the candidates of each query of `rows` within the limits, unordered."""
        unverified = [
            candidates_of_query.documents
            for candidates_of_query in candidates
            if not candidates_of_query.nearness
        ]
        operands = iter(self._operands(level, unverified))
        matches = []
        for row, candidates_of_query in zip(rows, candidates, strict=True):
            if candidates_of_query.nearness:
                nearness = np.array([candidates_of_query.nearness])
            else:
                nearness = self._nearness(row, next(operands))
            matches.append(self._near_enough(level, row, candidates_of_query, nearness))
        return matches

    def _operands(
        self, level: Sketch, documents_of_queries: Sequence[Sequence[Document]]
    ) -> list[_Operands]:
        """Return what is compared of the candidates of each query."""
        documents = [*itertools.chain.from_iterable(documents_of_queries)]
        bounds = [0, *itertools.accumulate(map(len, documents_of_queries))]
        queries = [slice(start, end) for start, end in itertools.pairwise(bounds)]
        if isinstance(self.comparison, TextComparison):
            fields, is_valid = self.meta.text_fields, np.ones(len(documents), np.bool_)
            # Other clients may have removed a text and left its tokens.
            texts = [text_at(document.source, fields) or "" for document in documents]
            operands = known_operands(texts, self.meta.scheme, self.comparison)
            return [
                _Operands(Ragged.of_rows(operands[query]), is_valid[query]) for query in queries
            ]
        tokens = [document.tokens_in(self.meta.field).get(level.key) for document in documents]
        # Another client may have written other tokens.
        values, is_valid = stored_values(tokens, level)
        valid_before = offsets_of(is_valid).tolist()
        return [
            _Operands(values[valid_before[query.start] : valid_before[query.stop]], is_valid[query])
            for query in queries
        ]

    def _nearness(self, row: int, operands: _Operands) -> F64:
        """Return the nearness of a query and its candidates, shape (sides, candidates)."""
        nearness = self.comparison.nearness_to(self.operands[row], operands.values)
        if len(operands.values) == operands.is_valid.size:
            return nearness
        of_all = np.full((self.comparison.sides, operands.is_valid.size), -np.inf)
        of_all[:, operands.is_valid] = nearness
        return of_all

    def _near_enough(
        self, level: Sketch, row: int, candidates: Candidates, nearness: F64
    ) -> list[Match]:
        """Return the candidates of a query within the limits.

        nearness: of all candidates, as `_nearness` returns it.
        """
        matches = []
        for position in np.flatnonzero(nearness.max(axis=0) >= self.least).tolist():
            document, sides = candidates.documents[position], nearness[:, position].tolist()
            cover = self._cover(row, *sides) if level.measure.directed else None
            value = level.measure.value_of(sides[-1]) if cover is None else cover.words
            source = self._source(document, level)
            matched = candidates.matched[position]
            match = Match(document.id, value, level.measure, matched, source, cover, document.index)
            matches.append(match)
        return matches

    def _cover(self, row: int, of_query: float, of_document: float) -> Cover:
        """Return the shares of a query and a document that the other one holds."""
        # A share is a number of words, divided by that of all words of the text.
        return Cover(round(of_query * self.operands[row].size), of_query, of_document)

    def _source(self, document: Document, level: Sketch) -> Mapping[str, object]:
        """Return the fields of a match."""
        if not level.measure.by_values:
            return document.source
        # The query asked for these tokens to compare them, not for the caller.
        tokens = dict(document.tokens_in(self.meta.field))
        tokens.pop(level.key, None)
        return {**document.source, self.meta.field: tokens}

    def result(self, row: int) -> Result:
        """Return the result of a query."""
        scope = self.queries[row].scope
        if scope is not None and scope.is_missing:
            complete = 1.0 if self.chosen.measure.has_recall else None
            return Result([], 0, False, complete, total=0)
        if not self.sketches.filled[row]:
            return self._equal_texts(row)
        query, result = self.queries[row], self.answers[row].result(self.chosen)
        if self.meta.scheme.by_server and query.parts != 1:
            # How many shingles are across two strings of a list depends on the list.
            result = replace(result, recall=None)
        if self.chosen.passage:
            matches = with_passages(self.meta, self.chosen, query.text, result.matches, self.limits)
            result = replace(result, matches=matches)
        return result

    def _equal_texts(self, row: int) -> Result:
        """Return the documents of the same text, which has no shingle; none for an empty text."""
        query, digest, measure = self.queries[row], self.sketches.digests[row], self.chosen.measure
        complete = 1.0 if measure.has_recall else None
        value, cover = measure.equal, None
        if measure.directed:
            # Matches by a directed measure are ordered by the words that they cover.
            value, cover = 0.0, Cover(0, 1.0, 1.0)
        if digest == NO_TEXT:
            return Result([], 0, False, complete, total=0)
        wordless = wordless_queries(self.meta, [digest], [query])
        (candidates,) = self.store.candidates(wordless, self.limits.candidates)
        (normalised,) = normalise([query.text], self.meta.scheme.normalisation)
        matches = [
            Match(document.id, value, measure, 0, document.source, cover, document.index)
            for document, text in with_texts(self.meta, candidates)
            if text == normalised
        ]
        return Result(
            matches=_with_indices(sorted(matches, key=_order)[: self.limits.k]),
            candidates=len(candidates.documents),
            truncated=candidates.truncated,
            recall=None if candidates.truncated else complete,
            total=len(matches),
        )


@dataclass
class _Answer:
    """The answer to one query, level after level.

    limits: of the search.
    matches: the nearest first; without a threshold, the k nearest.
    fetched: indices and ids of the candidates that were fetched.
    excluded: number of those that were not, because they can't be in the answer.
    excluded_matches: how many of these match.
    truncated: more candidates shared enough tokens at the last level than were fetched.
    recall: expected at the farthest match, None if it is unknown.
    asked: number of groups of tokens that were looked up.
    stopped: number of groups that were skipped at the first level that skipped any.
    """

    limits: Limits
    matches: list[Match] = field(default_factory=list)
    fetched: set[tuple[str | None, str]] = field(default_factory=set)
    excluded: int = 0
    excluded_matches: int = 0
    truncated: bool = False
    recall: float | None = None
    asked: int = 0
    stopped: int = 0

    @property
    def is_complete(self) -> bool:
        """Return whether the nearest documents are found; no other level is needed then."""
        has_recall = self.recall is not None and self.recall >= self.limits.wanted_recall
        return self.limits.threshold is None and has_recall

    @property
    def farthest(self) -> float | None:
        """The similarity of the k-th of the nearest; None if there are fewer, or a threshold."""
        if self.limits.threshold is not None or len(self.matches) < self.limits.k:
            return None
        return self.matches[self.limits.k - 1].similarity

    def add(
        self, query: CandidateQuery, level: Sketch, candidates: Candidates, matches: list[Match]
    ) -> None:
        """Add the candidates of a query at a level, and those that match."""
        self.asked += len(query.groups)
        self.fetched.update((document.index, document.id) for document in candidates.documents)
        self.excluded += candidates.excluded
        self.excluded_matches += candidates.matching
        self.truncated = candidates.truncated
        match_of = {(match.index, match.id): match for match in (*self.matches, *matches)}
        self.matches = sorted(match_of.values(), key=_order)
        if self.limits.threshold is None:
            self.matches = self.matches[: self.limits.k]
        least = query.least
        if candidates.truncated:
            # Some that share as many tokens as the last candidate were not looked at.
            least = candidates.missed + 1
        # How many similar documents share only stopped tokens depends on the texts.
        if query.stopped or (self.limits.threshold is None and self.farthest is None):
            return
        groups = query.shingles or level.tokens
        recall = level.recall(self.limits, groups, least, self.farthest)
        self.recall = recall if self.recall is None else max(recall or 0.0, self.recall)

    def result(self, level: Sketch) -> Result:
        """Return the result of the query. level: the sketch that decides."""
        by_threshold = self.limits.threshold is not None
        guarantee = max(level.passage, self.limits.words or 0) if level.passage else None
        return Result(
            matches=_with_indices(self.matches[: self.limits.k]),
            candidates=len(self.fetched) + self.excluded,
            truncated=self.truncated and not self.is_complete,
            recall=self.recall,
            asked=self.asked,
            stopped=self.stopped,
            total=len(self.matches) + self.excluded_matches if by_threshold else None,
            guarantee=None if self.truncated or self.stopped else guarantee,
        )


def _candidates(store: Store, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
    """Return the candidates of each query, which may have any number of groups."""
    pieces_of = [in_pieces(query) for query in queries]
    candidates = iter(store.candidates([*itertools.chain.from_iterable(pieces_of)], limit))
    return [merged([*itertools.islice(candidates, len(pieces))]) for pieces in pieces_of]


def with_texts(meta: IndexMeta, candidates: Candidates) -> list[tuple[Document, str]]:
    """Return the documents of candidates with their texts, normalised.

    Other clients may have changed or removed a text and left its tokens.
    """
    documents = candidates.documents
    texts = [text_at(document.source, meta.text_fields) or "" for document in documents]
    return [*zip(documents, normalise(texts, meta.scheme.normalisation), strict=True)]


def request_body(
    meta: IndexMeta, query: Query, limits: Limits, token_fields: Sequence[str]
) -> dict[str, Any]:
    """Return the body of a `_search` for the candidates of a query, which the client must verify.

    token_fields: all fields of the index with tokens, which hits don't need.

    A text without any shingle finds nothing, nor does one whose tokens are all in the stop list.
    Raises UsageError for limits with a scope.
    """
    _refuse_scope(limits)
    level = meta.scheme.chosen(limits)
    if limits.threshold is None:
        # Single values meet at any similarity.
        level = levels_of(meta.scheme, level)[-1]
    sketches = sketch([query.text], meta.scheme.only(level), limits=limits)
    queries = candidate_queries(meta, level, sketches, [query])
    (candidate_query,) = without_stopped(meta, queries)
    body = {**candidates_body(with_least(candidate_query, level, limits), limits.candidates)}
    excluded_paths = {"excludes": unread_paths([candidate_query], token_fields)}
    # Servers leave out vectors unless a path names them.
    included_paths = {"includes": ALL_PATHS} if level.reads_values else {}
    body["_source"] = {**included_paths, **excluded_paths}
    if not sketches.filled[0] or not candidate_query.groups:
        body["query"] = {"match_none": {}}
    return body


def verified(
    store: Store, meta: IndexMeta, query: Query, limits: Limits, candidates: Candidates
) -> Result:
    """Return those of the candidates of a `request_body` that are similar to its query.

    Raises UsageError for limits with a scope.
    """
    _refuse_scope(limits)
    search = _Search(store, meta, [query], limits)
    level = search.levels[-1]
    queries = search.candidate_queries(level)
    if not search.sketches.filled[0]:
        # The search of such a text finds nothing.
        return Result([], 0, False, total=0)
    if queries:
        search.add(level, queries, [candidates])
    return search.result(0)


def _refuse_scope(limits: Limits) -> None:
    """Raise UsageError for limits with a scope, whose values no request body has."""
    if limits.within:
        raise UsageError("`within` can't be part of a request body: use filters")


def levels_of(scheme: Scheme, chosen: Sketch) -> list[Sketch]:
    """Return a sketch, and the others of its measure: together they find the nearest documents."""
    return [
        chosen,
        *(
            sketch
            for sketch in scheme.sketches
            if sketch.measure == chosen.measure and sketch != chosen
        ),
    ]


def _order(match: Match) -> tuple[float, str, str]:
    """Sort matches by similarity, distance or covered words, the nearest first, ties by id."""
    return -match.measure.nearness(match.value), match.id, match.index or ""


def _with_indices(matches: Sequence[Match]) -> list[Match]:
    """Return matches of which those of one id in several indices have the index in their ids."""
    if all(match.index is None for match in matches):
        return [*matches]
    number_of = Counter(match.id for match in matches)
    return [
        replace(match, id=id_with_place(match.index, match.id))
        if number_of[match.id] > 1
        else match
        for match in matches
    ]
