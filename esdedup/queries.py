"""Bodies of searches, as plain dictionaries.

A recall query is a `bool.should` of `constant_score` clauses, one a group of tokens, so that the
score is the number of groups that met: where more candidates share a token than are fetched, the
ones that share most come first. Plain `terms` scores all alike and leaves to chance which ones
come; what the ranking costs is measured by `benchmarks/recall_query.py`.
"""

from __future__ import annotations

from typing import Any

from esdedup.datatypes import FIELD, RecallQuery
from esdedup.schema import TOKEN_PATHS


def recall_body(query: RecallQuery, limit: int) -> dict[str, Any]:
    """The search for the `limit` documents that share most token groups with a query."""
    field = f"{FIELD}.{query.kind}"
    condition: dict[str, Any] = {"should": [_clause(field, group) for group in query.groups]}
    if query.exclude is not None:
        # Without a filter that must match, `should` clauses stay obligatory.
        condition["must_not"] = [{"ids": {"values": [query.exclude]}}]
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


def sketched_body(scheme_id: str) -> dict[str, Any]:
    """The query for documents that hold a scheme's tokens."""
    return {"query": {"term": {f"{FIELD}.scheme": scheme_id}}}


def other_scheme_body(scheme_id: str) -> dict[str, Any]:
    """The query for documents that hold another scheme's tokens."""
    field = f"{FIELD}.scheme"
    return {
        "query": {
            "bool": {
                "filter": [{"exists": {"field": field}}],
                "must_not": [{"term": {field: scheme_id}}],
            }
        }
    }


def scan_body(paths: list[str], size: int, scheme_id: str) -> dict[str, Any]:
    """One page of a scan over the documents of a scheme, with only the given fields."""
    return {
        **sketched_body(scheme_id),
        "size": size,
        "_source": paths or False,
        "track_total_hits": False,
    }
