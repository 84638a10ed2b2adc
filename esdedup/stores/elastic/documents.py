"""Documents of a cluster held by their version, and changes to those that are still the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from esdedup.models import Change, Document, Failure, Held, WriteReport
from esdedup.stores.elastic.bulk import Action
from esdedup.stores.elastic.client import Cluster, line
from esdedup.stores.elastic.indices import path_of
from esdedup.stores.elastic.lookup import find_hits, find_targets, get_items

_CHANGED = "it changed since it was looked at"

_AS_IT_IS = {"pipeline": "_none"}
"""What is put back has been through the index's own pipeline already."""


def get_held(cluster: Cluster, path: str, ids: Sequence[str], fields: Any) -> dict[str, Held]:
    """Documents by id of one index, as they are now, whether searches see that or not.

    fields: what to read of their `_source`, as a multi-get takes it.
    """
    found = _held(get_items(cluster, path, [{"_id": id} for id in ids], fields))
    missed = [id for id in ids if id not in found]
    routed = [target for target in find_targets(cluster, path, missed) if "routing" in target]
    return found | _held(get_items(cluster, path, routed, fields)) if routed else found


def search_held(cluster: Cluster, path: str, ids: Sequence[str], fields: Any) -> dict[str, Held]:
    """Documents by id of whatever index, as searches see them.

    fields: what to read of their `_source`, as a search takes it.
    """
    return _held(find_hits(cluster, path, ids, {"_source": fields, "seq_no_primary_term": True}))


def change_held(cluster: Cluster, changes: Sequence[Change], where: str) -> WriteReport:
    """Changes or deletes documents whose version is still the one held."""
    actions = [
        Action(str(row), _lines(change, _target(change.held))) for row, change in enumerate(changes)
    ]
    report = cluster.bulk(actions, where)
    failures = [_failure(changes[int(each.id)].held.document.id, each) for each in report.failures]
    return WriteReport(updated=report.created + report.updated, failures=failures)


def restore_held(cluster: Cluster, path: str, held: Sequence[Held], where: str) -> WriteReport:
    """Puts documents back into their indices, if no index behind the name has their ids."""
    cluster.ask("POST", f"{path}/_refresh")
    # A create sees only the index that it goes to, and of that only the routing's shard.
    ids = [one.document.id for one in held]
    taken = {target["_id"] for target in find_targets(cluster, path, ids)}
    failures = [Failure(id, "the id is taken", conflict=True) for id in ids if id in taken]
    names = {one.index: _takes_creates(cluster, one.index) for one in held}
    actions = [
        Action(one.document.id, _create(one, names[one.index]))
        for one in held
        if one.document.id not in taken
    ]
    return cluster.bulk(actions, where, path) + WriteReport(failures=failures)


def _takes_creates(cluster: Cluster, index: str | None) -> str | None:
    """Where to put what lay in an index, or None where that is gone, lest it be made anew."""
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


def _create(held: Held, index: str | None) -> bytes:
    target = {
        "_id": held.document.id,
        **({} if index is None else {"_index": index}),
        **({} if held.routing is None else {"routing": held.routing}),
        **_AS_IT_IS,
    }
    of = f"document {held.document.id!r}"
    return line({"create": target}) + line(held.document.source, of)


def _lines(change: Change, target: Mapping[str, Any]) -> bytes:
    if change.fields is None:
        return line({"delete": target})
    of = f"document {change.held.document.id!r}"
    if change.whole:
        return line({"index": {**target, **_AS_IT_IS}}) + line(change.fields, of)
    return line({"update": target}) + line({"doc": change.fields}, of)


def _target(held: Held) -> dict[str, Any]:
    number, term = held.version.split("/")
    target: dict[str, Any] = {
        "_index": held.index,
        "_id": held.document.id,
        "if_seq_no": int(number),
        "if_primary_term": int(term),
    }
    return target if held.routing is None else {**target, "routing": held.routing}


def _failure(id: str, failure: Failure) -> Failure:
    gone = "document_missing_exception" in failure.reason or failure.reason == "not_found"
    if failure.conflict or gone:
        return Failure(id, _CHANGED, conflict=True)
    return Failure(id, failure.reason)


def _held(items: Sequence[Mapping[str, Any]]) -> dict[str, Held]:
    return {
        item["_id"]: Held(
            Document(item["_id"], item.get("_source", {})),
            f"{item['_seq_no']}/{item['_primary_term']}",
            item["_index"],
            item.get("_routing"),
        )
        for item in items
    }
