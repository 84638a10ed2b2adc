"""Finds the k nearest documents, however unlike, without a threshold.

Searches in levels: first for bands, which few documents share, then for single values of the
signature. A document at Jaccard similarity s shares each value with probability s. The similarity
of the k-th match so far says how many tokens a nearer document would share, and how likely it was
missed.

Bawa, Condie, Ganesan, "LSH Forest: self-tuning indexes for similarity search", WWW 2005, find the
nearest in the same sense, with prefixes of a tree's paths as levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from esdedup.models import CandidateQuery, Candidates, Match, Query, Result
from esdedup.search.candidates import candidate_queries, without_stopped
from esdedup.search.similar import by_similarity, jaccard_matches, levels_of, of_equal_texts
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import sketch
from esdedup.stores.base import QUERIES_AT_ONCE, Store
from esdedup.stores.mapping import IndexMeta


@dataclass(frozen=True)
class _Level:
    """A search for each query, by one sketch."""

    sketch: Sketch
    queries: list[CandidateQuery]


@dataclass
class _Look:
    """The state of one query, level after level.

    near: the k nearest so far. seen: ids of all documents that were verified.
    asked: number of bands and values that were looked up.
    truncated: the last search had more candidates than it fetched.
    recall: expected share found of documents as similar as the k-th; None if there are fewer.
    """

    limits: Limits
    near: list[Match] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    asked: int = 0
    truncated: bool = False
    recall: float | None = None

    @property
    def done(self) -> bool:
        return self.recall is not None and self.recall >= self.limits.wanted_recall

    def farthest(self) -> float | None:
        """The similarity of the k-th match, or None if there are fewer."""
        return self.near[-1].similarity if len(self.near) == self.limits.k else None

    def least(self, query: CandidateQuery, level: _Level) -> int:
        """The number of tokens that a document nearer than the k-th shares with a query."""
        return level.sketch.least(self.limits, len(query.groups), self.farthest())

    def add(
        self, query: CandidateQuery, level: _Level, candidates: Candidates, matches: list[Match]
    ) -> None:
        """Take in what a query found. matches: of the candidates."""
        both = {match.id: match for match in (*self.near, *matches) if match.similarity}
        self.near = sorted(both.values(), key=by_similarity)[: self.limits.k]
        self.seen.update(match.id for match in matches)
        self.asked += len(query.groups)
        self.truncated = candidates.truncated
        least = query.least
        if candidates.truncated:
            # Some that share as many tokens as the last candidate were not fetched.
            least = candidates.found[-1].matched + 1
        if (similarity := self.farthest()) is not None and not query.stopped:
            tokens = level.sketch.tokens
            recall = level.sketch.recall(self.limits, tokens, least, similarity) or 0.0
            self.recall = max(recall, self.recall or 0.0)


def nearest(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    """The documents nearest to each query by Jaccard similarity, in the order of the queries.

    Only documents that share a token are found, so that there may be fewer than `limits.k`.
    Documents that share no band may still share single values, if the index has them
    (`kinds.signature`). A query gets no further level once it reaches `limits.wanted_recall`.

    Raises UsageError if the sketch does not compare by Jaccard similarity.
    """
    chosen = levels_of(meta.scheme, limits.chosen(meta.scheme))
    texts = [query.text for query in queries]
    sketches = sketch(texts, meta.scheme.only(*chosen), with_shingles=True, limits=limits)
    sets = sketches.shingles
    assert sets is not None
    levels = [
        _Level(each, without_stopped(meta, candidate_queries(meta, each, sketches, queries)))
        for each in chosen
    ]
    filled = np.flatnonzero(sketches.filled).tolist()
    results = [Result([], 0, False)] * len(queries)
    for row, result in of_equal_texts(store, meta, queries, sketches, limits):
        results[row] = result
    for first in range(0, len(filled), QUERIES_AT_ONCE):
        looks = {row: _Look(limits) for row in filled[first : first + QUERIES_AT_ONCE]}
        for level in levels:
            asked = {
                row: replace(query, least=look.least(query, level))
                for row, look in looks.items()
                if (query := level.queries[row]).groups and not look.done
            }
            if not asked:
                continue
            found = store.candidates(list(asked.values()), limits.candidates)
            own = [sets[row] for row in asked]
            every = jaccard_matches(meta, own, [each.found for each in found])
            for (row, query), candidates, matches in zip(asked.items(), found, every, strict=True):
                looks[row].add(query, level, candidates, matches)
            # The candidates are freed before the next ones are fetched.
            del found, candidates, every, matches
        for row, look in looks.items():
            truncated, stopped = look.truncated and not look.done, levels[0].queries[row].stopped
            results[row] = Result(
                look.near, len(look.seen), truncated, look.recall, look.asked, stopped
            )
    return results
