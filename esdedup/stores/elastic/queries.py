"""Build the bodies of searches, and convert their hits to documents.

Where several indices behind a name have an id, "offers-000001/1" is that of one document. An id
without an index is that of the document in the newest index that has it.

A query for candidates is a `bool.should` of `constant_score` clauses, one for each group of tokens,
so that the score is the number of groups that a document shares, and those that share most come
first. Plain `terms` would give all of them the same score. `benchmarks/recall_query.py` at commit
4d72008 measured the cost of the ranking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

from esdedup.exceptions import UsageError
from esdedup.models import (
    FIELD,
    MOST_SLICES,
    CandidateQuery,
    Candidates,
    Document,
    QueryScope,
    Share,
    StoredDocument,
    natural,
)
from esdedup.stores.base import ALL_PATHS
from esdedup.stores.elastic.bodies import Body, Hit, Query, SourceFilter
from esdedup.stores.elastic.raw import RAW
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import TOKEN_NAMES, SketchedFields

_SLICES = 4
MOST_TERMS = 65_536
"""The servers' default of `index.max_terms_count`."""
_ANY_FIELD = (f"{FIELD}*",)
"""The path of every field with tokens."""
_NO_NUMBER = -2
"""The number that searches return where there is none (index.disable_sequence_numbers)."""


class Slice(NamedTuple):
    """A search of which pages are still to be read.

    point: its point in time.
    body: of the next page.
    shards: of the point in time.
    raw: keep the JSON of whole documents.
    """

    point: str
    body: Body
    shards: int = 1
    raw: bool = False

    def with_size(self, size: int) -> Slice:
        """Return the slice with another number of documents in a page."""
        return self._replace(body={**self.body, "size": size})

    def slices_of(self, share: Share, by_number: bool, least: int = _SLICES) -> list[Slice]:
        """Return the slices of a share; of a whole index, each has a single shard.

        by_number: choose a part of a shard by the documents' sequence numbers, and not by their
        places on disk; so does each share of several, because by number a document stays in its
        share for every client.
        least: their number at least.
        """
        count = self.shards * -(-max(least, _SLICES) // self.shards)
        if share.of * count > MOST_SLICES:
            count = 1
        field = {"field": "_seq_no"} if by_number or share.of > 1 else {}
        first, slices = share.number - 1, share.of * count
        ids = range(first, slices, share.of)
        return [
            self._replace(body={**self.body, "slice": {**field, "id": id, "max": slices}})
            for id in ids
        ]


def candidates_body(
    query: CandidateQuery,
    limit: int,
    most_terms: int = MOST_TERMS,
    scope_filters: Sequence[Query] = (),
    indices: Collection[str] = (),
) -> Body:
    """Return the search for the `limit` documents that share most token groups with a query.

    most_terms: the maximum length of a list of terms. scope_filters: of the scope of the query.
    indices: behind the name, if there are several; the id to exclude may name one of them.
    """
    field = f"{query.field}.{query.key}"
    condition: dict[str, object]
    if query.text is not None:
        match = {"query": query.text, "minimum_should_match": query.least}
        condition = {"must": [{"match": {query.field: match}}]}
    else:
        groups = [_any_of(field, group, most_terms) for group in query.groups]
        condition = {
            "should": [{"constant_score": {"filter": group}} for group in groups],
            # Beside a filter, `should` clauses would be optional without it.
            "minimum_should_match": query.least,
        }
    if filters := [*query.filters, *scope_filters]:
        condition["filter"] = filters
    excluded: list[Query] = []
    # Servers refuse empty ids.
    if query.exclude:
        excluded.append(query_of(query.exclude, indices))
    if query.originals:
        excluded.append({"exists": {"field": f"{query.marks_in}.original"}})
    if excluded:
        condition["must_not"] = excluded
    body = {
        "query": {"bool": condition},
        "size": limit,
        # Enough to detect truncation, without counting all hits.
        "track_total_hits": limit,
    }
    # Since 9.2 Elasticsearch leaves vectors out of documents, unless a path names them.
    return {**body, "_source": ALL_PATHS} if query.of_values else body


def _any_of(field: str, values: Sequence[str], most_terms: int) -> Query:
    """Return the query for documents with one of some values."""
    if len(values) == 1:
        return {"term": {field: values[0]}}
    if len(values) <= most_terms:
        return {"terms": {field: values}}
    lists = (values[start : start + most_terms] for start in range(0, len(values), most_terms))
    return {"bool": {"should": [_any_of(field, terms, most_terms) for terms in lists]}}


def unread_paths(
    queries: Sequence[CandidateQuery], fields: Sequence[str] = _ANY_FIELD
) -> list[str]:
    """Return the paths of the tokens that no query reads.

    fields: with tokens. To exclude the paths of `esdedup*` from `_source`, servers compile 30 ms
    for each search of an index of 5,000 documents, where `esdedup` takes 1 ms.
    """
    read = [f"{query.field}.{query.key}" for query in queries if query.kept]
    paths = [f"{field}.{name}*" for field in fields for name in TOKEN_NAMES]
    return [path for path in paths if not any(fnmatchcase(field, path) for field in read)]


def sketched(meta: SketchedFields) -> Query:
    """Return the query for documents with a scheme's tokens."""
    if meta.scheme.by_server:
        return {"exists": {"field": meta.analyzed}}
    return {"term": {f"{meta.field}.scheme": meta.scheme.id}}


def grouped(meta: SketchedFields) -> Query:
    """Return the query for documents with a scheme's tokens and a group."""
    group = {"exists": {"field": f"{meta.marks_field}.group"}}
    return {"bool": {"filter": [sketched(meta), group]}}


def not_sketched(meta: SketchedFields) -> Query:
    """Return the query for documents without a scheme's tokens."""
    return {"bool": {"must_not": [sketched(meta)]}}


def with_text(query: Query, meta: SketchedFields) -> Query:
    """Return a `bool` query restricted to documents that have any of the text fields."""
    present = [{"exists": {"field": name}} for name in meta.text_fields]
    return {"bool": {**query["bool"], "filter": [{"bool": {"should": present}}]}}


def bounded(query: Query, filter: Query | None) -> Query:
    """Return a query for those of its documents that match a filter too, if there is one."""
    return query if filter is None else {"bool": {"filter": [query, filter]}}


def any_of(queries: Iterable[Query]) -> Query:
    """Return the query for documents that match any of some queries."""
    clauses = [*queries]
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses}}


def bare(meta: SketchedFields) -> Query:
    """Return the query for documents without tokens of any scheme."""
    if meta.scheme.by_server:
        return not_sketched(meta)
    return {"bool": {"must_not": [{"exists": {"field": f"{meta.field}.scheme"}}]}}


def other_scheme(meta: SketchedFields) -> Query:
    """Return the query for documents with another scheme's tokens."""
    return {
        "bool": {
            "filter": [{"exists": {"field": f"{meta.field}.scheme"}}],
            "must_not": [sketched(meta)],
        }
    }


def random_order(query: Query, seed: int) -> Query:
    """Return the query for the same documents with random scores, the same for the same seed.

    Scores by `_id` would load the ids of all documents.
    """
    score = {"seed": seed, "field": "_seq_no"}
    return {"function_score": {"query": query, "random_score": score, "boost_mode": "replace"}}


def scan_body(query: Query, source: SourceFilter, size: int, times: Sequence[str] = ()) -> Body:
    """Return the search for one page. times: fields as of `with_times`."""
    body = {
        "query": query,
        "size": size,
        "_source": source or False,
        "track_total_hits": False,
        # On OpenSearch `_doc` with search_after loses documents across shards.
        "sort": [{"_shard_doc": "asc"}],
    }
    return with_times(body, times)


def with_times(body: Body, times: Sequence[str]) -> Body:
    """Return a search that also returns fields of times as the server sees them, in ISO 8601."""
    fields = [{"field": name, "format": "strict_date_optional_time_nanos"} for name in times]
    return {**body, "fields": fields} if fields else body


def versioned_body(body: Body) -> Body:
    """Return a search whose hits have what a change of their documents needs."""
    return {**body, "seq_no_primary_term": True, "version": True}


def candidates_of(
    answer: Body, scope: QueryScope | None = None, *, with_indices: bool = False
) -> Candidates:
    """Return the candidates in the answer to a search of `candidates_body`.

    scope: of the query. with_indices: as of `documents_of`.
    """
    # OpenSearch leaves out the empty list when it filters the answer.
    hits, total = answer["hits"].get("hits", ()), answer["hits"]["total"]
    truncated = total["relation"] != "eq" or total["value"] > len(hits)
    missed = min((round(hit["_score"]) for hit in hits), default=1) if truncated else 0
    if scope is not None:
        hits = [hit for hit in hits if scope.includes(_source_of(hit))]
    matched = [round(hit["_score"]) for hit in hits]
    # Times as the server sees them are for the scope alone.
    documents = [
        Document(hit["_id"], hit.get("_source", {}), index=hit["_index"] if with_indices else None)
        for hit in hits
    ]
    return Candidates(documents, matched, missed)


def candidates_of_hits(hits: Body | Iterable[Hit], text_fields: Sequence[str]) -> Candidates:
    """Return the candidates that another client found with `request_body`.

    hits: the whole answer, or its hits alone, which don't report truncation.

    Raises UsageError for hits of another form, and if none has any of the text fields.
    """
    try:
        if "hits" in hits:
            # The classes of answers of Elasticsearch's client are no mappings.
            candidates = candidates_of(cast("Body", hits))
        else:
            # Another client's hits: their form is checked by reading them.
            listed: list[Any] = [*hits]
            matched = [round(hit["_score"]) for hit in listed]
            candidates = Candidates(documents_of(listed), matched)
    except (LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            "hits: use the answer to a search by `request_body`, or its hits"
        ) from error
    documents = candidates.documents
    if documents and all(text_at(document.source, text_fields) is None for document in documents):
        names = " and ".join(text_fields)
        raise UsageError(f"hits: no `_source` holds {names}: request it in the search")
    return candidates


def documents_of(hits: Iterable[Hit], *, with_indices: bool = False) -> list[Document]:
    """Return the documents of hits. with_indices: with the index of each."""
    if with_indices:
        return [Document(hit["_id"], _source_of(hit), index=hit["_index"]) for hit in hits]
    return [Document(hit["_id"], _source_of(hit)) for hit in hits]


def _source_of(hit: Hit) -> Body:
    """Return the source of a hit, with the times that were requested by `with_times`."""
    source: Body = hit.get("_source", {})
    fields = hit.get("fields", {}).items()
    # A field of several times has no single one to compare.
    return {**source, **{name: times[0] if len(times) == 1 else times for name, times in fields}}


def stored_of(hit: Hit) -> StoredDocument:
    """Return the document of a hit of a `versioned_body`, or of an item of a multi-get.

    An index without sequence numbers rejects a change of any version.
    """
    return StoredDocument(
        Document(hit["_id"], _source_of(hit), hit.get(RAW)),
        f"{hit.get('_seq_no', _NO_NUMBER)}/{hit.get('_primary_term', 0)}",
        hit["_index"],
        hit.get("_routing"),
        hit.get("_version"),
    )


def index_and_id(id: str, indices: Collection[str]) -> tuple[str, str] | None:
    """Return the index and the id in it; None for an id that names none of the indices."""
    index, _, id_in_index = id.partition("/")
    return (index, id_in_index) if id_in_index and index in indices else None


def ids_in_indices(ids: Iterable[str], indices: Collection[str]) -> list[str]:
    """Return the ids to search for, without indices.

    The whole of an id that names an index can be an id too.
    """
    plain_ids: dict[str, None] = {}
    for id in ids:
        plain_ids[id] = None
        if place := index_and_id(id, indices):
            plain_ids[place[1]] = None
    return [*plain_ids]


def as_requested(
    ids: Sequence[str], documents: Sequence[StoredDocument], indices: Collection[str]
) -> list[StoredDocument]:
    """Return the documents of ids, in their order, each with the id by which it is requested.

    documents: all that have an id of `ids_in_indices`.
    """
    document_of = {document.id: document for document in documents}
    if len(document_of) < len(documents):
        number_of = Counter(document.id for document in documents)
        oldest_first = sorted(documents, key=lambda document: natural(document.index or ""))
        document_of = {
            document.id: replace(document, is_ambiguous=number_of[document.id] > 1)
            for document in oldest_first
        }
    in_index = {(document.index, document.id): document for document in documents}
    requested: list[StoredDocument] = []
    for id in ids:
        document = document_of.get(id)
        if document is None and (place := index_and_id(id, indices)) and place in in_index:
            document = in_index[place].requested_as(id)
        if document is not None:
            requested.append(document)
    return requested


def with_former_ids(
    documents: Iterable[StoredDocument], former: Iterable[StoredDocument]
) -> list[StoredDocument]:
    """Return documents that were read again, each with the id by which it was requested before."""
    id_of = {(document.index, document.id_in_index): document.id for document in former}
    return [
        document.requested_as(id_of.get((document.index, document.id), document.id))
        for document in documents
    ]


def query_of(id: str, indices: Collection[str]) -> Query:
    """Return the query for the documents of an id, which may name its index."""
    place = index_and_id(id, indices)
    if place is None:
        return {"ids": {"values": [id]}}
    index, id_in_index = place
    return {"bool": {"filter": [{"ids": {"values": [id_in_index]}}, {"term": {"_index": index}}]}}


def full_text_body(words: str, text_fields: Sequence[str], limit: int) -> Body:
    """Return the body of a search for documents with all words, those with them in a row first."""
    fields = [*text_fields]
    common = {"query": words, "fields": fields, "lenient": True}
    all_words = {"multi_match": {**common, "type": "cross_fields", "operator": "and"}}
    in_a_row = {"multi_match": {**common, "type": "phrase", "boost": 10}}
    query = {"bool": {"must": [all_words], "should": [in_a_row]}}
    return {"size": limit, "_source": False, "query": query}
