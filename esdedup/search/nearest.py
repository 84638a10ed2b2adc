"""The k nearest documents, however unlike: from the tokens that say most to those that say least.

Bawa, Condie, Ganesan, "LSH Forest: self-tuning indexes for similarity search", WWW 2005, whose
promise this keeps without a threshold. There it goes up the prefixes of a tree's path; here from
bands of rows, which few documents share, to single values of the signature, which a document at
Jaccard similarity s shares with probability s each. The similarity of the k-th found so far says
how many tokens any nearer one would share, and whether it could have been missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from esdedup.models import Candidates, Match, Query, RecallQuery, Result
from esdedup.search.limits import Limits, require_bands, require_minhash
from esdedup.search.recall import band_queries, value_queries
from esdedup.search.similar import by_similarity, jaccard_matches
from esdedup.sketch.banding import expected_recall, least_bands
from esdedup.sketch.sketch import Sketches, sketch
from esdedup.stores.base import Store
from esdedup.stores.elastic.queries import QUERIES_AT_ONCE
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_tokens, without


@dataclass(frozen=True)
class _Level:
    """Tokens of one kind, of so many rows each: the searches for them, by query."""

    rows: int
    queries: list[RecallQuery]


@dataclass
class _Look:
    """What is found for one query, a level after the other.

    near: the k nearest so far. seen: ids of all that were verified. asked: bands and values that
    were looked up. recall: of documents as similar as the k-th, expected; None while there are
    fewer.
    """

    limits: Limits
    near: list[Match] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    asked: int = 0
    truncated: bool = False
    recall: float | None = None

    @property
    def done(self) -> bool:
        return self.recall is not None and self.recall >= self.limits.recall

    def farthest(self) -> float | None:
        """The similarity of the k-th, or None where there are fewer."""
        return self.near[-1].similarity if len(self.near) == self.limits.matches else None

    def least(self, tokens: int, rows: int) -> int:
        """The tokens that a document must share to be looked at: as one nearer than the k-th."""
        similarity = self.farthest()
        if similarity is None:
            return 1
        return least_bands(similarity, self.limits.recall, tokens, rows)

    def add(
        self, query: RecallQuery, rows: int, candidates: Candidates, matches: list[Match]
    ) -> None:
        """What a query found, by its tokens of so many rows each."""
        both = {match.id: match for match in (*self.near, *matches) if match.similarity}
        self.near = sorted(both.values(), key=by_similarity)[: self.limits.matches]
        self.seen.update(match.id for match in matches)
        self.asked += len(query.groups)
        self.truncated = candidates.truncated
        least = query.least
        if candidates.truncated:
            # Of those that share as many as the last one fetched, some were not.
            least = candidates.found[-1].matched + 1
        if (similarity := self.farthest()) is not None:
            # Those in the stop list are not among them.
            recall = expected_recall(similarity, len(query.groups), rows, least)
            self.recall = max(recall, self.recall or 0.0)

    def result(self) -> Result:
        truncated = self.truncated and not self.done
        return Result(self.near, len(self.seen), truncated, self.recall, self.asked)


def nearest(
    store: Store, meta: IndexMeta, queries: Sequence[Query], limits: Limits
) -> list[Result]:
    """The documents nearest to each query by Jaccard similarity, in the order of the queries.

    Only those that share a token are met, so that there may be fewer than `limits.matches`; single
    values as tokens (`MinHash.signature`) are shared by documents far less alike than bands are.
    A level is the last one where `limits.recall` is reached. Raises UsageError where the index has
    no MinHash tokens.
    """
    asked = replace(meta.scheme, simhash=None) if meta.scheme.minhash else meta.scheme
    sketches = sketch([query.text for query in queries], asked, with_shingles=True)
    levels = _levels(meta, sketches, queries)
    filled = np.flatnonzero(sketches.filled).tolist()
    results = [Result([], 0, False)] * len(queries)
    for first in range(0, len(filled), QUERIES_AT_ONCE):
        looks = {row: _Look(limits) for row in filled[first : first + QUERIES_AT_ONCE]}
        for level in levels:
            _look(store, meta, sketches, level, looks, limits)
        for row, look in looks.items():
            results[row] = replace(look.result(), stopped=levels[0].queries[row].stopped)
    return results


def _levels(meta: IndexMeta, sketches: Sketches, queries: Sequence[Query]) -> list[_Level]:
    bands = require_bands(sketches.bands)
    minhash = require_minhash(meta.scheme)
    stopped = stopped_tokens(meta.stop, "minhash")
    left = [without(query, stopped) for query in band_queries(meta, bands, queries)]
    levels = [_Level(minhash.rows, left)]
    if sketches.values is not None:
        found = value_queries(meta, sketches.values, queries)
        levels.append(_Level(1, found))
    return levels


def _look(
    store: Store,
    meta: IndexMeta,
    sketches: Sketches,
    level: _Level,
    looks: dict[int, _Look],
    limits: Limits,
) -> None:
    """Looks at one level, for the queries that are not done."""
    sets = sketches.shingles
    assert sets is not None
    asked = {
        row: replace(query, least=look.least(len(query.groups), level.rows))
        for row, look in looks.items()
        if (query := level.queries[row]).groups and not look.done
    }
    found = store.recall(list(asked.values()), limits.candidates)
    for (row, query), candidates in zip(asked.items(), found, strict=True):
        matches = jaccard_matches(meta, sets[row], candidates.found)
        looks[row].add(query, level.rows, candidates, matches)
