"""Rank the documents of a local file by the token groups that they share with queries."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from esdedup.models import FIELD, CandidateQuery, Candidates, Document
from esdedup.stores.sqlite.documents import COLUMNS, NUMBERS, DocumentTable
from esdedup.stores.sqlite.listing import Listing, listed_as
from esdedup.stores.sqlite.sizes import StoreSizes
from esdedup.text.arrays import I64, Ragged, blocks, offsets_of, ranges

_NONE = np.empty(0, np.int64)

_NUMBER_BITS = 48
"""Bits of a document's number."""


@dataclass(frozen=True)
class _Lookup:
    """The parameters that queries which are answered together share.

    list_name: the list of tokens to look into.
    token_list: the key of the tokens to return with the documents, or "".
    marks_in: the field that holds marks.
    marked: whether to return fields of ours.
    """

    list_name: str
    token_list: str
    marks_in: str
    marked: bool

    @staticmethod
    def of(query: CandidateQuery) -> _Lookup:
        """Return how to answer a query."""
        return _Lookup(
            list_name=listed_as(query.field, query.key),
            token_list=query.key if query.kept else "",
            marks_in=query.marks_in,
            marked=query.kept or query.marked,
        )


@dataclass(frozen=True)
class _Shared:
    """Documents that share groups with queries, in arrays of one length.

    queries: the position of a query.
    numbers: the number of a document.
    groups: the number of groups that these share.
    """

    queries: I64
    numbers: I64
    groups: I64

    def part(self, span: slice) -> _Shared:
        """Return those of a span of positions."""
        return _Shared(self.queries[span], self.numbers[span], self.groups[span])


@dataclass(frozen=True)
class _Ranking:
    """The candidates of a query, the best first. The values have the meaning of `Candidates`.

    numbers: of the documents.
    shared: the number of groups that each shares.
    missed: the most groups that a document beyond the limit shares.
    nearness: of the documents, if they were verified.
    excluded: number of candidates that verification left out.
    matching: how many of these match.
    """

    numbers: I64
    shared: I64
    missed: int
    nearness: Sequence[float] = ()
    excluded: int = 0
    matching: int = 0

    @staticmethod
    def best_of(numbers: I64, shared: I64, limit: int) -> _Ranking:
        """Return the first documents of ranked ones."""
        missed = int(shared[limit - 1]) if numbers.size > limit else 0
        return _Ranking(numbers[:limit], shared[:limit], missed)


class RankedCandidates:
    """Documents by the number of token groups that they share with queries."""

    def __init__(self, documents: DocumentTable, listing: Listing, sizes: StoreSizes) -> None:
        self._documents, self._listing, self._sizes = documents, listing, sizes

    def of(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        """Return for each query the `limit` documents that share most token groups with it."""
        answers = []
        for lookup, group in itertools.groupby(queries, _Lookup.of):
            batch = [*group]
            rankings = [*self._verified(batch, [*self._best(lookup, batch, limit)])]
            documents = self._read(rankings, lookup)
            for ranking in rankings:
                answers.append(
                    Candidates(
                        [documents[number] for number in ranking.numbers.tolist()],
                        ranking.shared.tolist(),
                        ranking.missed,
                        ranking.nearness,
                        ranking.excluded,
                        ranking.matching,
                    )
                )
        return answers

    def _read(self, rankings: Sequence[_Ranking], lookup: _Lookup) -> dict[int, Document]:
        """Return the documents of rankings by number."""
        # Queries of similar texts find the same documents.
        numbers = {number for ranking in rankings for number in ranking.numbers.tolist()}
        columns = COLUMNS if lookup.marked else "id, source"
        rows = self._documents.by_number(sorted(numbers), columns)
        documents = self._documents.format.documents(
            [*rows.values()], lookup.token_list, marked=lookup.marked
        )
        return dict(zip(rows, documents, strict=True))

    def _verified(
        self, queries: Sequence[CandidateQuery], rankings: Sequence[_Ranking]
    ) -> Iterator[_Ranking]:
        """Yield the ranking of each query, without documents that can't be in the answer.

        Few documents are not verified here, because to read them takes less time.
        """
        checks = [
            query.verify
            if query.field == FIELD and ranking.numbers.size > self._sizes.unverified
            else None
            for query, ranking in zip(queries, rankings, strict=True)
        ]
        checked = itertools.compress(rankings, checks)
        numbers = {number for ranking in checked for number in ranking.numbers.tolist()}
        sets = self._documents.shingle_sets(sorted(numbers))
        for verify, ranking in zip(checks, rankings, strict=True):
            if verify is None:
                yield ranking
                continue
            candidate_sets = Ragged.of_rows([sets[number] for number in ranking.numbers.tolist()])
            nearness, possible, matching = verify(candidate_sets)
            yield _Ranking(
                ranking.numbers[possible],
                ranking.shared[possible],
                ranking.missed,
                nearness[possible].tolist(),
                int(np.count_nonzero(~possible)),
                matching,
            )

    def _best(
        self, lookup: _Lookup, queries: Sequence[CandidateQuery], limit: int
    ) -> Iterator[_Ranking]:
        """Yield the documents of each query that share most groups."""
        # A document has one token of each position, and a group is of one position, so that
        # counting tokens counts groups.
        tokens = [
            [*dict.fromkeys(itertools.chain.from_iterable(query.groups))] for query in queries
        ]
        if len(queries) == 1:
            shared = self._counted(lookup.list_name, tokens[0], queries[0].least)
            shared = self._ranked(shared, queries, lookup.marks_in)
            yield self._best_of(queries[0], shared, limit)
            return
        rows = {token: row for row, token in enumerate(dict.fromkeys(itertools.chain(*tokens)))}
        holder_rows, holders = self._listing.holders(lookup.list_name, [*rows])
        holders = holders[np.argsort(holder_rows, kind="stable")]
        sizes = np.bincount(holder_rows, minlength=len(rows))
        starts = offsets_of(sizes)[:-1]
        rows_of_queries = [
            np.array([rows[token] for token in query_tokens], np.int64) for query_tokens in tokens
        ]
        # Queries of one text have the same, maybe large, buckets.
        entries = np.array([sizes[query_rows].sum() for query_rows in rows_of_queries], np.int64)
        for block in blocks(entries, self._sizes.counted_entries):
            block_queries, block_rows = queries[block], rows_of_queries[block]
            token_rows = np.concatenate([_NONE, *block_rows])
            token_queries = np.repeat(np.arange(len(block_queries)), [*map(len, block_rows)])
            shared = _counted_by_query(
                np.repeat(token_queries, sizes[token_rows]),
                holders[ranges(starts[token_rows], sizes[token_rows])],
            )
            shared = self._ranked(shared, block_queries, lookup.marks_in)
            bounds = np.searchsorted(shared.queries, np.arange(len(block_queries) + 1)).tolist()
            spans = map(slice, bounds, bounds[1:])
            for query, span in zip(block_queries, spans, strict=True):
                yield self._best_of(query, shared.part(span), limit)

    def _best_of(self, query: CandidateQuery, shared: _Shared, limit: int) -> _Ranking:
        """Return the first of the ranked documents of a query that are in its scope."""
        if query.scope is None:
            return _Ranking.best_of(shared.numbers, shared.groups, limit)
        in_scope, read = [_NONE], 0
        most_read = min(shared.numbers.size, limit * self._sizes.read_in_scope)
        while read < most_read and sum(map(len, in_scope)) <= limit:
            end = min(read + max(limit, self._sizes.unverified), most_read)
            rows = np.arange(read, end)
            numbers = shared.numbers[rows].tolist()
            read_rows = self._documents.by_number(sorted(numbers), "id, source")
            documents = self._documents.format.documents([*read_rows.values()], marked=False)
            sources = dict(zip(read_rows, documents, strict=True))
            is_included = [query.scope.includes(sources[number].source) for number in numbers]
            in_scope.append(rows[np.array(is_included, np.bool_)])
            read = end
        rows = np.concatenate(in_scope)
        ranking = _Ranking.best_of(shared.numbers[rows], shared.groups[rows], limit)
        if ranking.missed or read == shared.numbers.size:
            return ranking
        return replace(ranking, missed=int(shared.groups[read]))

    def _counted(self, list_name: str, tokens: Sequence[str], least: int) -> _Shared:
        """Return the documents that hold tokens of one query, ascending.

        Those of fewer than `least` may be left out. Of many entries, only a counter of each
        document of the index is in memory: sorted they would take 50 bytes each.
        """
        last = self._listing.last_document()
        most_sorted = max(self._sizes.counted_entries, last // self._sizes.counters_per_entry)
        uncounted, entries, counters = list[I64](), 0, None
        for _, holders in self._listing.holders_in_blocks(list_name, tokens):
            uncounted.append(holders)
            entries += holders.size
            if counters is None and entries > most_sorted:
                counters = np.zeros(last + 1, np.uint16)
            if counters is not None:
                for numbers in uncounted:
                    np.add.at(counters, numbers, 1)
                uncounted.clear()
        if counters is None:
            numbers, groups = np.unique(np.concatenate([_NONE, *uncounted]), return_counts=True)
        else:
            numbers = np.flatnonzero(counters >= max(1, least))
            groups = counters[numbers].astype(np.int64)
        return _Shared(np.zeros_like(numbers), numbers, groups)

    def _ranked(self, shared: _Shared, queries: Sequence[CandidateQuery], marks_in: str) -> _Shared:
        """Return the documents that queries ask for, by query, the best of each first."""
        enough = shared.groups >= np.array([query.least for query in queries])[shared.queries]
        excluded = [query.exclude for query in queries if query.exclude is not None]
        tables = self._documents.tables
        rows = self._documents.by_id(f"{tables.documents}.number, id", excluded)
        numbers = {id: number for number, id in rows}
        excluded_numbers = np.array([numbers.get(query.exclude, 0) for query in queries])
        enough &= shared.numbers != excluded_numbers[shared.queries]
        originals = np.array([query.originals for query in queries])[shared.queries] & enough
        if originals.any():
            original = self._documents.value_of(marks_in, "original")
            duplicates = self._documents.db.execute(
                f"SELECT number FROM {tables.marked} WHERE number IN {NUMBERS}"
                f" AND {original} IS NOT NULL",
                (json.dumps(shared.numbers[originals].tolist()),),
            )
            is_duplicate = np.isin(shared.numbers, [number for (number,) in duplicates])
            enough &= ~(originals & is_duplicate)
        order = np.flatnonzero(enough)
        order = order[np.lexsort((-shared.groups[order], shared.queries[order]))]
        return _Shared(shared.queries[order], shared.numbers[order], shared.groups[order])


def _counted_by_query(queries: I64, numbers: I64) -> _Shared:
    """Count how often each document comes for a query. queries, numbers: of one length."""
    pairs, groups = np.unique(queries << _NUMBER_BITS | numbers, return_counts=True)
    return _Shared(pairs >> _NUMBER_BITS, pairs & ((1 << _NUMBER_BITS) - 1), groups)
