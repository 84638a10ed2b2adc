"""How many documents of a cluster hold a token: the sizes of buckets."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from esdedup.stores.elastic.client import Cluster, line
from esdedup.stores.elastic.errors import error_of
from esdedup.stores.elastic.retry import retrying

_TOKENS_AT_ONCE = 200


def bucket_sizes(cluster: Cluster, path: str, field: str, tokens: Sequence[str]) -> list[int]:
    """The number of documents behind a path whose field holds each token, in order."""
    sizes: list[int] = []
    for first in range(0, len(tokens), _TOKENS_AT_ONCE):
        some = tokens[first : first + _TOKENS_AT_ONCE]
        sizes += retrying(functools.partial(_sizes, cluster, path, field, some), cluster.policy)
    return sizes


def _sizes(cluster: Cluster, path: str, field: str, tokens: Sequence[str]) -> list[int]:
    # A part of the shards would give too small a number.
    header = line({"allow_partial_search_results": False})
    counted = {"size": 0, "track_total_hits": True}
    body = b"".join(header + line({**counted, "query": {"term": {field: t}}}) for t in tokens)
    _, answer = cluster.client.request("POST", f"{path}/_msearch", body)
    for response in answer["responses"]:
        if "error" in response:
            raise error_of(response.get("status", 500), response, cluster.client.shown)
    return [int(response["hits"]["total"]["value"]) for response in answer["responses"]]
