"""Reads documents of a cluster by id, with their versions, and changes those nobody changed.

A version is a document's sequence number and primary term. One index finds a document by its id
at once, even before searches see it. Behind an alias or a data stream only a search tells which
index a document lies in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from esdedup.models import Change, Document, Failure, Held, WriteReport
from esdedup.stores.changes import CHANGED
from esdedup.stores.elastic.bulk import Action
from esdedup.stores.elastic.client import Cluster, line
from esdedup.stores.elastic.indices import path_of
from esdedup.stores.elastic.queries import scan_body

_PAGE = 2_000
_AS_IT_IS = {"pipeline": "_none"}
"""Keeps a document out of the index's own pipeline, which it has been through already."""


def get_held(cluster: Cluster, path: str, ids: Sequence[str], fields: Any) -> list[Held]:
    """Returns documents of one index as they are now, even if searches do not see that yet.

    fields: what to read of their `_source`, in the form of a multi-get.
    """
    # No document has an empty id, and servers refuse to look for one.
    found = _get(cluster, [{"_id": id} for id in ids if id], fields, path)
    missed = set(ids) - {one.document.id for one in found}
    # Only a search finds a document with a routing of its own: its id does not tell the shard.
    routed = [target for target in find_targets(cluster, path, list(missed)) if "routing" in target]
    return found + _get(cluster, routed, fields, path)


def search_held(cluster: Cluster, path: str, ids: Sequence[str], fields: Any) -> list[Held]:
    """Returns documents of all indices behind a path, as searches see them.

    fields: what to read of their `_source`, in the form of a search.
    """
    found: list[Held] = []
    if wanted := list(filter(None, ids)):
        body = scan_body({"ids": {"values": wanted}}, fields, _PAGE)
        with cluster.point_in_time(path) as point:
            for hits in cluster.pages(point, {**body, "seq_no_primary_term": True}):
                found += map(held_of, hits)
    return found


def get_again(cluster: Cluster, held: Sequence[Held], fields: Any) -> list[Held]:
    """Returns held documents as they are now, even if searches do not see that yet.

    fields: as in `get_held`.
    """
    return _get(cluster, [_place(one) for one in held], fields)


def find_targets(cluster: Cluster, path: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Returns what names documents in a bulk request, of those that searches see.

    Through an alias or data stream a change must name the document's own index, and a document
    that was written with a routing is found only with it.
    """
    return [_place(one) for one in search_held(cluster, path, ids, False)]


def held_of(hit: Mapping[str, Any]) -> Held:
    """Returns the document of a hit with `seq_no_primary_term`, or of an item of a multi-get."""
    return Held(
        Document(hit["_id"], hit.get("_source", {})),
        f"{hit['_seq_no']}/{hit['_primary_term']}",
        hit["_index"],
        hit.get("_routing"),
    )


def sample_documents(
    cluster: Cluster, path: str, query: dict[str, Any], paths: list[str], count: int
) -> list[Document]:
    """Returns the `count` documents that a query scores highest, in that order."""
    body = scan_body(query, paths, min(count, _PAGE))
    body["sort"] = [{"_score": "desc"}, *body["sort"]]
    found: list[Document] = []
    with cluster.point_in_time(path) as point:
        for hits in cluster.pages(point, body):
            found += [Document(hit["_id"], hit.get("_source", {})) for hit in hits]
            if len(found) >= count:
                break
    return found[:count]


def send_changes(cluster: Cluster, changes: Sequence[Change], where: str) -> WriteReport:
    """Changes or deletes documents that still have the version held.

    where: the index, for messages.
    """
    actions = [
        Action(str(row), b"".join(_lines_to_change(change))) for row, change in enumerate(changes)
    ]
    report = cluster.bulk(actions, where)
    failures = [_failure(changes[int(each.id)].held.document.id, each) for each in report.failures]
    return WriteReport(updated=report.created + report.updated, failures=failures)


def restore_held(cluster: Cluster, path: str, held: Sequence[Held], where: str) -> WriteReport:
    """Puts documents back into their indices if no index behind the path has their ids.

    where: the index, for messages.
    """
    cluster.ask("POST", f"{path}/_refresh")
    # A create sees only the index that it goes to, and of that only the shard of its routing.
    ids = [one.document.id for one in held]
    taken = {target["_id"] for target in find_targets(cluster, path, ids)}
    failures = [Failure(id, "the id is taken", conflict=True) for id in ids if id in taken]
    names = {one.index: _takes_creates(cluster, one.index) for one in held}
    actions = [
        Action(one.document.id, b"".join(_lines_to_create(one, names[one.index])))
        for one in held
        if one.document.id not in taken
    ]
    return cluster.bulk(actions, where, path) + WriteReport(failures=failures)


def _get(
    cluster: Cluster, targets: Sequence[Mapping[str, Any]], fields: Any, path: str = ""
) -> list[Held]:
    wanted = [{**target, "_source": fields} for target in targets]
    return list(map(held_of, cluster.get_many({"docs": wanted}, path))) if wanted else []


def _place(held: Held) -> dict[str, Any]:
    place: dict[str, Any] = {"_index": held.index, "_id": held.document.id}
    return place if held.routing is None else {**place, "routing": held.routing}


def _takes_creates(cluster: Cluster, index: str | None) -> str | None:
    """The name through which an index takes new documents, or None if there is no such index.

    To write to the name of a deleted index would create it again.
    """
    if index is None:
        return None
    _, answer = cluster.ask(
        "GET",
        f"/_resolve/index{path_of(index)}",
        params={"expand_wildcards": "all"},
        allowed=frozenset({404}),
    )
    found = [each for each in answer.get("indices", ()) if each["name"] == index]
    # A backing index of a data stream takes new documents only by the stream's name.
    return found[0].get("data_stream", index) if found else None


def _lines_to_create(held: Held, index: str | None) -> Iterator[bytes]:
    target = {**_place(held), "_index": index, **_AS_IT_IS}
    if index is None:
        del target["_index"]
    yield line({"create": target})
    yield line(held.document.source, f"document {held.document.id!r}")


def _lines_to_change(change: Change) -> Iterator[bytes]:
    number, term = change.held.version.split("/")
    version = {"if_seq_no": int(number), "if_primary_term": int(term)}
    target = {**_place(change.held), **version}
    of = f"document {change.held.document.id!r}"
    if change.fields is None:
        yield line({"delete": target})
    elif change.whole:
        yield line({"index": {**target, **_AS_IT_IS}})
        yield line(change.fields, of)
    else:
        yield line({"update": target})
        yield line({"doc": change.fields}, of)


def _failure(id: str, failure: Failure) -> Failure:
    gone = "document_missing_exception" in failure.reason or failure.reason == "not_found"
    if failure.conflict or gone:
        return Failure(id, CHANGED, conflict=True)
    return Failure(id, failure.reason)
