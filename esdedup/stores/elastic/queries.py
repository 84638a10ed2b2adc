"""Build the bodies of searches, and convert their hits to documents.

A query for candidates is a `bool.should` of `constant_score` clauses, one for each group of tokens,
so that the score is the number of groups that a document shares, and those that share most come
first. Plain `terms` would give all of them the same score. `benchmarks/recall_query.py` at commit
4d72008 measured the cost of the ranking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from esdedup.models import MOST_SLICES, CandidateQuery, Candidates, Document, Held, Share
from esdedup.stores.elastic.raw import RAW
from esdedup.stores.mapping import TOKEN_PATHS, SketchedFields

_SLICES = 4
MOST_TERMS = 65_536
"""The servers' default of `index.max_terms_count`."""
_NO_NUMBER = -2
"""The number that searches return where there is none (index.disable_sequence_numbers)."""


class Slice(NamedTuple):
    """A search of which pages are left: its point in time, and the body of the next page.

    shards: of the point in time. raw: keep the JSON of whole documents.
    """

    point: str
    body: Mapping[str, Any]
    shards: int = 1
    raw: bool = False

    def parts(self, share: Share, by_number: bool, least: int = _SLICES) -> list[Slice]:
        """Return the slices of a share; of a whole index, each has a single shard.

        least: their number at least. by_number: choose a part of a shard by the documents' sequence
        numbers, and not by their places on disk; so does each share of several, because by number a
        document stays in its share for every client.
        """
        count = self.shards * -(-max(least, _SLICES) // self.shards)
        if share.of * count > MOST_SLICES:
            count = 1
        field = {"field": "_seq_no"} if by_number or share.of > 1 else {}
        first, most = share.number - 1, share.of * count
        ids = range(first, most, share.of)
        return [
            self._replace(body={**self.body, "slice": {**field, "id": id, "max": most}})
            for id in ids
        ]


def candidates_body(
    query: CandidateQuery, limit: int, most_terms: int = MOST_TERMS
) -> dict[str, Any]:
    """Return the search for the `limit` documents that share most token groups with a query.

    most_terms: the maximum length of a list of terms.
    """
    field = f"{query.field}.{query.key}"
    condition: dict[str, Any]
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
    if query.filters:
        condition["filter"] = list(query.filters)
    # Servers refuse empty ids.
    if query.exclude:
        condition.setdefault("must_not", []).append({"ids": {"values": [query.exclude]}})
    if query.originals:
        condition.setdefault("must_not", []).append(
            {"exists": {"field": f"{query.marks_in}.original"}}
        )
    return {
        "query": {"bool": condition},
        "size": limit,
        # Enough to detect truncation, without counting all hits.
        "track_total_hits": limit,
    }


def _any_of(field: str, values: Sequence[str], most: int) -> dict[str, Any]:
    """Return the query for documents with one of some values. most: length of a list of terms."""
    if len(values) == 1:
        return {"term": {field: values[0]}}
    if len(values) <= most:
        return {"terms": {field: values}}
    parts = (values[at : at + most] for at in range(0, len(values), most))
    return {"bool": {"should": [_any_of(field, part, most) for part in parts]}}


def unread_paths(queries: Sequence[CandidateQuery]) -> list[str]:
    """Return the paths of the tokens that no query reads."""
    kept = [f"{query.field}.{query.key}" for query in queries if query.kept]
    return [path for path in TOKEN_PATHS if not any(fnmatchcase(field, path) for field in kept)]


def sketched(meta: SketchedFields) -> dict[str, Any]:
    """Return the query for documents with a scheme's tokens."""
    if meta.scheme.by_server:
        return {"exists": {"field": meta.analyzed}}
    return {"term": {f"{meta.field}.scheme": meta.scheme.id}}


def grouped(meta: SketchedFields) -> dict[str, Any]:
    """Return the query for documents with a scheme's tokens and a group."""
    group = {"exists": {"field": f"{meta.marks_field}.group"}}
    return {"bool": {"filter": [sketched(meta), group]}}


def not_sketched(meta: SketchedFields) -> dict[str, Any]:
    """Return the query for documents without a scheme's tokens."""
    return {"bool": {"must_not": [sketched(meta)]}}


def with_text(query: dict[str, Any], meta: SketchedFields) -> dict[str, Any]:
    """Return a `bool` query restricted to documents that have any of the text fields."""
    present = [{"exists": {"field": name}} for name in meta.text_fields]
    return {"bool": {**query["bool"], "filter": [{"bool": {"should": present}}]}}


def any_of(queries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the query for documents that match any of some queries."""
    given = [*queries]
    return given[0] if len(given) == 1 else {"bool": {"should": given}}


def bare(meta: SketchedFields) -> dict[str, Any]:
    """Return the query for documents without tokens of any scheme."""
    if meta.scheme.by_server:
        return not_sketched(meta)
    return {"bool": {"must_not": [{"exists": {"field": f"{meta.field}.scheme"}}]}}


def other_scheme(meta: SketchedFields) -> dict[str, Any]:
    """Return the query for documents with another scheme's tokens."""
    return {
        "bool": {
            "filter": [{"exists": {"field": f"{meta.field}.scheme"}}],
            "must_not": [sketched(meta)],
        }
    }


def random_order(query: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the query for the same documents with random scores, the same for the same seed.

    Scores by `_id` would load the ids of all documents.
    """
    score = {"seed": seed, "field": "_seq_no"}
    return {"function_score": {"query": query, "random_score": score, "boost_mode": "replace"}}


def scan_body(
    query: Mapping[str, Any], paths: Any, size: int, times: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the search for one page.

    paths: names of fields, or another value of `_source`. times: fields as of `with_times`.
    """
    body = {
        "query": query,
        "size": size,
        "_source": paths or False,
        "track_total_hits": False,
        # On OpenSearch `_doc` with search_after loses documents across shards.
        "sort": [{"_shard_doc": "asc"}],
    }
    return with_times(body, times)


def with_times(body: dict[str, Any], times: Sequence[str]) -> dict[str, Any]:
    """Return a search that also returns fields of times as the server sees them, in ISO 8601."""
    fields = [{"field": name, "format": "strict_date_optional_time_nanos"} for name in times]
    return {**body, "fields": fields} if fields else body


def held_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search whose hits have what a change of their documents needs."""
    return {**body, "seq_no_primary_term": True, "version": True}


def candidates_of(answer: Mapping[str, Any]) -> Candidates:
    """Return the candidates in the answer to a search of `candidates_body`."""
    # OpenSearch leaves out the empty list when it filters the answer.
    hits, total = answer["hits"].get("hits", ()), answer["hits"]["total"]
    truncated = total["relation"] != "eq" or total["value"] > len(hits)
    matched = [round(hit["_score"]) for hit in hits]
    return Candidates(documents_of(hits), matched, min(matched, default=1) if truncated else 0)


def documents_of(hits: Iterable[Mapping[str, Any]]) -> list[Document]:
    return [Document(hit["_id"], _source_of(hit)) for hit in hits]


def _source_of(hit: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the source of a hit, with the times that were requested by `with_times`."""
    source: Mapping[str, Any] = hit.get("_source", {})
    fields = hit.get("fields", {}).items()
    # A field of several times has no single one to compare.
    return {**source, **{name: times[0] if len(times) == 1 else times for name, times in fields}}


def held_of(hit: Mapping[str, Any]) -> Held:
    """Return the document of a hit of a `held_body`, or of an item of a multi-get.

    An index without sequence numbers rejects a change of any version.
    """
    return Held(
        Document(hit["_id"], _source_of(hit), hit.get(RAW)),
        f"{hit.get('_seq_no', _NO_NUMBER)}/{hit.get('_primary_term', 0)}",
        hit["_index"],
        hit.get("_routing"),
        hit.get("_version"),
    )
