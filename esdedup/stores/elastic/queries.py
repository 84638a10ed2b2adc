"""Bodies of searches, as plain dictionaries.

A recall query is a `bool.should` of `constant_score` clauses, one a group of tokens, so that the
score is the number of groups that met: where more candidates share enough than are fetched, the
ones that share most come first. Plain `terms` scores all alike and leaves to chance which ones
come; what the ranking costs is measured by `benchmarks/recall_query.py`.
"""

from __future__ import annotations

from typing import Any

from esdedup.models import RecallQuery
from esdedup.stores.mapping import TOKEN_PATHS, IndexMeta

QUERIES_AT_ONCE = 50
"""Recall queries of one request, and those whose candidates are in memory at the same time."""


def recall_body(query: RecallQuery, limit: int) -> dict[str, Any]:
    """The search for the `limit` documents that share most token groups with a query."""
    field = f"{query.field}.{query.kind}"
    condition: dict[str, Any] = {
        "should": [_clause(field, group) for group in query.groups],
        # Also where it is 1: beside a filter, `should` clauses would not be obligatory.
        "minimum_should_match": query.least,
    }
    if query.filters:
        condition["filter"] = list(query.filters)
    excluded: list[dict[str, Any]] = []
    # No document has an empty id, and servers refuse to look for one.
    if query.exclude:
        excluded.append({"ids": {"values": [query.exclude]}})
    if query.originals:
        excluded.append({"exists": {"field": f"{query.field}.original"}})
    if excluded:
        condition["must_not"] = excluded
    return {
        "query": {"bool": condition},
        "size": limit,
        # Enough to know whether there are more than fetched, without counting them all.
        "track_total_hits": limit,
        "_source": {"excludes": TOKEN_PATHS},
    }


def _clause(field: str, group: list[str]) -> dict[str, Any]:
    matching = {"term": {field: group[0]}} if len(group) == 1 else {"terms": {field: group}}
    return {"constant_score": {"filter": matching}}


def sketched(meta: IndexMeta) -> dict[str, Any]:
    """The query for documents that hold a scheme's tokens."""
    return {"term": {f"{meta.field}.scheme": meta.scheme.id}}


def not_sketched(meta: IndexMeta) -> dict[str, Any]:
    """The query for documents that do not hold a scheme's tokens."""
    return {"bool": {"must_not": [sketched(meta)]}}


def with_text(query: dict[str, Any], meta: IndexMeta) -> dict[str, Any]:
    """A query, which is a `bool`, only for documents that have the text field."""
    return {"bool": {**query["bool"], "filter": [{"exists": {"field": meta.text_field}}]}}


def bare(meta: IndexMeta) -> dict[str, Any]:
    """The query for documents without tokens of any scheme."""
    return {"bool": {"must_not": [{"exists": {"field": f"{meta.field}.scheme"}}]}}


def other_scheme(meta: IndexMeta) -> dict[str, Any]:
    """The query for documents that hold another scheme's tokens."""
    return {
        "bool": {
            "filter": [{"exists": {"field": f"{meta.field}.scheme"}}],
            "must_not": [sketched(meta)],
        }
    }


def random_order(query: dict[str, Any], seed: int) -> dict[str, Any]:
    """The documents that match, scored at random: the same seed scores a document alike.

    By sequence number, because a random score by `_id` would load the ids of all documents.
    """
    score = {"seed": seed, "field": "_seq_no"}
    return {"function_score": {"query": query, "random_score": score, "boost_mode": "replace"}}


def scan_body(query: dict[str, Any], paths: Any, size: int) -> dict[str, Any]:
    """One page of a scan over the documents that match, with only the given fields.

    paths: dotted names, or what else `_source` takes.
    """
    return {
        "query": query,
        "size": size,
        "_source": paths or False,
        "track_total_hits": False,
        # On OpenSearch `_doc` with search_after loses documents across shards.
        "sort": [{"_shard_doc": "asc"}],
    }
