"""Finds similar documents: fetches candidates by shared tokens, then verifies each one exactly.

Without a threshold, the k nearest documents are searched in levels: first by bands, which few
documents share, then by single values of the signature (`kinds.signature`). The similarity of the
k-th match so far decides how many tokens a nearer document would share, and how likely it was
missed. Bawa, Condie, Ganesan, "LSH Forest: self-tuning indexes for similarity search", WWW 2005,
find the nearest in the same sense, with prefixes of a tree's paths as levels.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from esdedup.models import CandidateQuery, Candidates, Cover, Document, Match, Query, Result
from esdedup.search.candidates import (
    candidate_queries,
    in_pieces,
    merged,
    with_least,
    without_stopped,
    wordless_queries,
)
from esdedup.search.passage_matches import covered_matches, with_passages
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, known_sets, sketch, stored_values
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.elastic.queries import candidates_body, unread_paths
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import F64, U64, Mask, Ragged
from esdedup.text.jaccard import hamming, jaccard_with
from esdedup.text.normalise import normalise


def similar(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    """Return the documents similar to each query, in the order of the queries.

    A text without any shingle matches equal texts only. Without a threshold in the limits, the
    nearest documents that share a token are returned, so that there may be fewer than `limits.k`;
    a query gets no further level once it reaches `limits.wanted_recall`.
    """
    blocks = [
        queries[start : start + QUERIES_AT_ONCE]
        for start in range(0, len(queries), QUERIES_AT_ONCE)
    ]
    if len(blocks) == 1:
        return _Search(store, meta, queries, limits).results()

    def search(queries: Sequence[Query]) -> list[Result]:
        return _Search(store, meta, queries, limits).results()

    return [*itertools.chain.from_iterable(store.window.in_order(search, blocks))]


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


class _Search:
    """The search for the documents that are similar to a block of queries.

    chosen: the sketch that decides what is similar.
    levels: the sketches that are looked up, one after the other.
    sketches: of the texts of the queries.
    answers: of the queries so far.
    """

    def __init__(
        self, store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
    ) -> None:
        self.store, self.meta, self.queries, self.limits = store, meta, queries, limits
        self.chosen = meta.scheme.chosen(limits)
        self.levels = [self.chosen]
        if limits.threshold is None:
            self.levels = levels_of(meta.scheme, self.chosen)
        self.sketches = sketch(
            [query.text for query in queries],
            meta.scheme.only(*self.levels),
            with_shingles=self.chosen.measure.compares == "shingles",
            limits=limits,
        )
        self.answers = [_Answer(limits) for _ in queries]

    def results(self) -> list[Result]:
        """Return the result of each query."""
        for level in self.levels:
            # The candidates of a level are freed before the next one fetches its own.
            self._look_up(level)
        return [self._result(row) for row in range(len(self.queries))]

    def _look_up(self, level: Sketch) -> None:
        """Add the documents that are found at a level to the answers."""
        queries = self._candidate_queries(level)
        if not queries:
            return
        candidates = _candidates(self.store, [*queries.values()], self.limits.candidates)
        matches = self._matches(level, [*queries], candidates)
        for row, candidates_of_query, matches_of_query in zip(
            queries, candidates, matches, strict=True
        ):
            self.answers[row].add(queries[row], level, candidates_of_query, matches_of_query)

    def _candidate_queries(self, level: Sketch) -> dict[int, CandidateQuery]:
        """Return the queries for candidates at a level, by row, as far as they need any."""
        queries = candidate_queries(self.meta, level, self.sketches, self.queries)
        rows = np.flatnonzero(self.sketches.filled).tolist()
        without = without_stopped(self.meta, [queries[row] for row in rows])
        needed: dict[int, CandidateQuery] = {}
        for row, query in zip(rows, without, strict=True):
            answer = self.answers[row]
            query = with_least(query, level, self.limits, answer.farthest)
            answer.stopped = answer.stopped or query.stopped
            if not query.groups or answer.is_complete:
                continue
            if self.sketches.shingles is not None and len(self.levels) == 1:
                # Candidates of several levels are counted by their ids.
                verify = _verifier(self.sketches.shingles[row], self.limits)
                query = replace(query, verify=verify)
            needed[row] = query
        return needed

    def _matches(
        self, level: Sketch, rows: Sequence[int], candidates: Sequence[Candidates]
    ) -> list[list[Match]]:
        """Return the candidates of each query of `rows` within the limits, unordered."""
        if level.measure.compares == "words":
            texts = [self.queries[row].text for row in rows]
            return covered_matches(self.meta, level, texts, candidates, self.limits)
        if self.sketches.shingles is None:
            return self._matches_by_values(level, rows, candidates)
        return self._matches_by_shingles(self.sketches.shingles, rows, candidates)

    def _matches_by_values(
        self, level: Sketch, rows: Sequence[int], candidates: Sequence[Candidates]
    ) -> list[list[Match]]:
        """Compare the stored values of candidates with those of the queries."""
        field = self.meta.field
        documents = [document for of_query in candidates for document in of_query.documents]
        matched = [count for of_query in candidates for count in of_query.matched]
        query_of = [
            number for number, of_query in enumerate(candidates) for _ in of_query.documents
        ]
        tokens_of = [document.tokens_in(field) for document in documents]
        # Another client may have written other tokens.
        stored, is_valid = stored_values([tokens.get(level.key) for tokens in tokens_of], level)
        valid = np.flatnonzero(is_valid).tolist()
        values = self.sketches.values[level.name][[rows[query_of[number]] for number in valid]]
        most = level.max_distance(self.limits)
        matches: list[list[Match]] = [[] for _ in rows]
        for number, distance in zip(valid, hamming(stored, values).tolist(), strict=True):
            if distance <= most:
                document, tokens = documents[number], dict(tokens_of[number])
                # The query asked for these tokens to compare them, not for the caller.
                tokens.pop(level.key, None)
                source = {**document.source, field: tokens}
                match = Match(document.id, distance, level.measure, matched[number], source)
                matches[query_of[number]].append(match)
        return matches

    def _matches_by_shingles(
        self, shingles: Ragged, rows: Sequence[int], candidates: Sequence[Candidates]
    ) -> list[list[Match]]:
        """Compare the texts of candidates with those of the queries, as far as no store did.

        shingles: the sets of all queries.
        """
        least = _least(self.limits)
        unverified = [
            document
            for of_query in candidates
            if not of_query.similarities
            for document in of_query.documents
        ]
        # Other clients may have removed a text and left its tokens.
        texts = [text_at(document.source, self.meta.text_fields) or "" for document in unverified]
        sets, start = known_sets(texts, self.meta.scheme), 0
        measure, matches = self.chosen.measure, []
        for row, candidates_of_query in zip(rows, candidates, strict=True):
            documents, matched = candidates_of_query.documents, candidates_of_query.matched
            similarities = candidates_of_query.similarities
            if not similarities:
                end = start + len(documents)
                sets_of_query = Ragged.of_rows(sets[start:end])
                similarities = jaccard_with(shingles[row], sets_of_query).tolist()
                start = end
            matches.append(
                [
                    Match(document.id, similarity, measure, count, document.source)
                    for document, similarity, count in zip(
                        documents, similarities, matched, strict=True
                    )
                    if similarity >= least
                ]
            )
        return matches

    def _result(self, row: int) -> Result:
        """Return the result of a query."""
        if not self.sketches.filled[row]:
            return self._equal_texts(row)
        query, result = self.queries[row], self.answers[row].result(self.chosen)
        if self.meta.scheme.by_server and query.parts != 1:
            # How many shingles are across two strings of a list depends on the list.
            result = replace(result, recall=None)
        if self.chosen.measure.compares == "words":
            matches = with_passages(self.meta, self.chosen, query.text, result.matches, self.limits)
            result = replace(result, matches=matches)
        return result

    def _equal_texts(self, row: int) -> Result:
        """Return the documents of the same text, which has no shingle; none for an empty text."""
        query, digest, measure = self.queries[row], self.sketches.digests[row], self.chosen.measure
        complete = 1.0 if measure.has_recall else None
        value, cover = measure.equal, None
        if measure.compares == "words":
            # Matches by passages are ordered by the words that they cover.
            value, cover = 0.0, Cover(0, 1.0, 1.0)
        if digest == NO_TEXT:
            return Result([], 0, False, complete, total=0)
        wordless = wordless_queries(self.meta, [digest], [query])
        (candidates,) = self.store.candidates(wordless, self.limits.candidates)
        (normalised,) = normalise([query.text], self.meta.scheme.normalisation)
        matches = [
            Match(document.id, value, measure, 0, document.source, cover)
            for document, text in with_texts(self.meta, candidates)
            if text == normalised
        ]
        return Result(
            matches=sorted(matches, key=_order)[: self.limits.k],
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
    fetched: ids of the candidates that were fetched.
    excluded: number of those that were not, because they can't be in the answer.
    excluded_matches: how many of these match.
    truncated: more candidates shared enough tokens at the last level than were fetched.
    recall: expected at the farthest match, None if it is unknown.
    asked: number of groups of tokens that were looked up.
    stopped: number of groups that were skipped at the first level that skipped any.
    """

    limits: Limits
    matches: list[Match] = field(default_factory=list)
    fetched: set[str] = field(default_factory=set)
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
        self.fetched.update(document.id for document in candidates.documents)
        self.excluded += candidates.excluded
        self.excluded_matches += candidates.matching
        self.truncated = candidates.truncated
        match_of = {match.id: match for match in (*self.matches, *matches)}
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
            matches=self.matches[: self.limits.k],
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


def _verifier(shingles: U64, limits: Limits) -> Callable[[Ragged], tuple[F64, Mask, int]]:
    """Return the `verify` of a query. shingles: of its text."""

    def verify(sets: Ragged) -> tuple[F64, Mask, int]:
        similarities, least = jaccard_with(shingles, sets), _least(limits)
        matches = int(np.count_nonzero(similarities >= least))
        if limits.k < len(sets):
            # Ties are in the order of ids.
            least = max(least, np.partition(similarities, -limits.k)[-limits.k])
        is_near = similarities >= least
        return similarities, is_near, matches - int(np.count_nonzero(is_near))

    return verify


def _least(limits: Limits) -> float:
    """Return the least similarity of a match."""
    # Without a threshold, any shared shingle counts.
    return limits.threshold or sys.float_info.min


def with_texts(meta: IndexMeta, candidates: Candidates) -> list[tuple[Document, str]]:
    """Return the documents of candidates with their texts, normalised.

    Other clients may have changed or removed a text and left its tokens.
    """
    documents = candidates.documents
    texts = [text_at(document.source, meta.text_fields) or "" for document in documents]
    return [*zip(documents, normalise(texts, meta.scheme.normalisation), strict=True)]


def request_body(meta: IndexMeta, query: Query, limits: Limits) -> dict[str, Any]:
    """Return the body of a `_search` for the candidates of a query, which the client must verify.

    A text without any shingle finds nothing, nor does one whose tokens are all in the stop list.
    """
    level = meta.scheme.chosen(limits)
    if limits.threshold is None:
        # Single values meet at any similarity.
        level = levels_of(meta.scheme, level)[-1]
    sketches = sketch([query.text], meta.scheme.only(level), with_shingles=True, limits=limits)
    queries = candidate_queries(meta, level, sketches, [query])
    (candidate_query,) = without_stopped(meta, queries)
    body = {**candidates_body(with_least(candidate_query, level, limits), limits.candidates)}
    body["_source"] = {"excludes": unread_paths([candidate_query])}
    if not sketches.filled[0] or not candidate_query.groups:
        body["query"] = {"match_none": {}}
    return body


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


def _order(match: Match) -> tuple[float, str]:
    """Sort matches by similarity, distance or covered words, the nearest first, ties by id."""
    return -match.measure.nearness(match.value), match.id
