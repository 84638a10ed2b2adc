"""Documents of a cluster held by their version, and changes to those that are still the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from esdedup.datatypes import Change, Document, Failure, Held, WriteReport
from esdedup.stores.bulk import Action
from esdedup.stores.client import Cluster, line
from esdedup.stores.lookup import find_hits, find_targets, get_items

_CHANGED = "it changed since it was looked at"


def get_held(
    cluster: Cluster, path: str, ids: Sequence[str], paths: list[str] | None
) -> dict[str, Held]:
    """Documents by id of one index, as they are now, whether searches see that or not."""
    fields: Any = True if paths is None else paths or False
    found = _held(get_items(cluster, path, [{"_id": id} for id in ids], fields))
    missed = [id for id in ids if id not in found]
    routed = [target for target in find_targets(cluster, path, missed) if "routing" in target]
    return found | _held(get_items(cluster, path, routed, fields)) if routed else found


def search_held(
    cluster: Cluster, path: str, ids: Sequence[str], paths: list[str] | None
) -> dict[str, Held]:
    """Documents by id of whatever index, as searches see them."""
    fields: Any = True if paths is None else paths or False
    return _held(find_hits(cluster, path, ids, {"_source": fields, "seq_no_primary_term": True}))


def change_held(cluster: Cluster, changes: Sequence[Change], where: str) -> WriteReport:
    """Changes or deletes documents whose version is still the one held."""
    actions = [
        Action(str(row), _lines(change, _target(change.held))) for row, change in enumerate(changes)
    ]
    report = cluster.bulk(actions, where)
    failures = [_failure(changes[int(each.id)].held.document.id, each) for each in report.failures]
    return WriteReport(updated=report.created + report.updated, failures=failures)


def _lines(change: Change, target: Mapping[str, Any]) -> bytes:
    if change.fields is None:
        return line({"delete": target})
    of = f"document {change.held.document.id!r}"
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
