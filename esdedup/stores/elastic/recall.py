"""Candidates from a cluster: recall queries sent many at once, and their answers read."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from esdedup.exceptions import IndexNotFound, StoreError, StoreUnavailable
from esdedup.models import Candidate, Candidates, Document, RecallQuery
from esdedup.stores.elastic.client import Cluster, line
from esdedup.stores.elastic.errors import passes, reason_of
from esdedup.stores.elastic.queries import QUERIES_AT_ONCE, recall_body
from esdedup.stores.elastic.retry import retrying


def recall(
    cluster: Cluster, path: str, queries: Sequence[RecallQuery], limit: int, where: str
) -> list[Candidates]:
    """For each query the `limit` documents that share most token groups.

    where: the index, for messages. Raises IndexNotFound, StoreUnavailable and StoreError.
    """
    answers: list[Candidates] = []
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        some = queries[first : first + QUERIES_AT_ONCE]
        # A part of the shards would be a silent truncation.
        header = line({"allow_partial_search_results": False})
        body = b"".join(header + line(recall_body(query, limit)) for query in some)
        answers += retrying(functools.partial(_search, cluster, path, body, where), cluster.policy)
    return answers


def _search(cluster: Cluster, path: str, body: bytes, where: str) -> list[Candidates]:
    _, answer = cluster.client.request("POST", f"{path}/_msearch", body)
    return [_candidates(response, where) for response in answer["responses"]]


def _candidates(response: Mapping[str, Any], where: str) -> Candidates:
    if "error" in response:
        if passes(response.get("status", 500), response):
            raise StoreUnavailable(f"{where}: {reason_of(response)}")
        if response["error"].get("type") == "index_not_found_exception":
            raise IndexNotFound(f"there is no {where}")
        raise StoreError(f"{where}: {reason_of(response['error'])}")
    hits, total = response["hits"]["hits"], response["hits"]["total"]
    found = [
        Candidate(Document(hit["_id"], hit.get("_source", {})), round(hit["_score"]))
        for hit in hits
    ]
    return Candidates(found, total["relation"] != "eq" or total["value"] > len(found))
