"""Documents of a cluster by their ids, in one index or in all those behind a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from esdedup.models import Document
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.queries import scan_body

_PAGE = 2_000


def get_documents(
    cluster: Cluster, path: str, ids: Sequence[str], fields: Mapping[str, Any]
) -> dict[str, Document]:
    """Documents by id of one index, as they are now, whether searches see that or not.

    fields: what to read of their `_source`, as a search takes it.
    """
    found = _documents(get_items(cluster, path, [{"_id": id} for id in ids], fields))
    missed = [id for id in ids if id not in found]
    # Only searches find what was written with a routing, whose shard no id tells.
    routed = [target for target in find_targets(cluster, path, missed) if "routing" in target]
    return found | _documents(get_items(cluster, path, routed, fields)) if routed else found


def search_documents(
    cluster: Cluster, path: str, ids: Sequence[str], fields: Mapping[str, Any]
) -> dict[str, Document]:
    """Documents by id of whatever index; a get needs one index to look in."""
    hits = find_hits(cluster, path, ids, {"_source": fields})
    return _documents(hits)


def find_targets(cluster: Cluster, path: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """What names documents in a bulk request, of those that searches see.

    Through an alias or data stream only documents' own indices take changes, and one written
    with a routing is found only with it.
    """
    hits = find_hits(cluster, path, ids, {"_source": False})
    return [
        {
            "_index": hit["_index"],
            "_id": hit["_id"],
            **({"routing": hit["_routing"]} if "_routing" in hit else {}),
        }
        for hit in hits
    ]


def find_hits(
    cluster: Cluster, path: str, ids: Sequence[str], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The hits of documents by id. options: of the search, such as its `_source`."""
    hits: list[dict[str, Any]] = []
    # No document has an empty id, and servers refuse to look for one.
    if wanted := list(filter(None, ids)):
        body = {**scan_body({"ids": {"values": wanted}}, [], _PAGE), **options}
        with cluster.point_in_time(path) as point:
            for page in cluster.pages(point, body):
                hits += page
    return hits


def get_items(
    cluster: Cluster, path: str, targets: list[dict[str, Any]], fields: Any
) -> list[Mapping[str, Any]]:
    """The items of a multi-get that are there. fields: what to read of their `_source`."""
    wanted = [{**target, "_source": fields} for target in targets if target["_id"]]
    return cluster.get_many({"docs": wanted}, path) if wanted else []


def sample_documents(
    cluster: Cluster, path: str, query: dict[str, Any], paths: list[str], count: int
) -> list[Document]:
    """The `count` documents that a query scores highest, in that order, page by page."""
    body = scan_body(query, paths, min(count, _PAGE))
    body["sort"] = [{"_score": "desc"}, *body["sort"]]
    found: list[Document] = []
    with cluster.point_in_time(path) as point:
        for hits in cluster.pages(point, body):
            found += [Document(hit["_id"], hit.get("_source", {})) for hit in hits]
            if len(found) >= count:
                break
    return found[:count]


def _documents(found: Sequence[Mapping[str, Any]]) -> dict[str, Document]:
    return {item["_id"]: Document(item["_id"], item.get("_source", {})) for item in found}
