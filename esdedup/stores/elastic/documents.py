"""Documents of a cluster held by their version, and changes to those that are still the same.

Documents of a cluster by their ids, in one index or in all those behind a name.

Partial updates of documents that exist, which overwrite no one's change.

Each update names the version that was read; a document that changed meanwhile is read again.

Whether a cluster gives documents out whole, to be put back later, and how to ask for that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esdedup.exceptions import StoreError
from esdedup.models import Change, Counts, Document, Failure, Held, WriteReport
from esdedup.stores.elastic.bulk import Action
from esdedup.stores.elastic.client import Cluster, line
from esdedup.stores.elastic.indices import path_of
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


_ATTEMPTS = 12
Hit = Mapping[str, Any]
"""A hit of a search with `seq_no_primary_term`, or an item of a multi-get."""
PartialUpdate = tuple[Hit, dict[str, Any]]
"""A document, and the fields to be merged into it."""


@dataclass(frozen=True)
class UpdateReport(Counts):
    """What became of the documents read; read = written + unchanged + without_text + gone + failed.

    written: got tokens, or lost those of a text that is gone. unchanged: had the right ones.
    without_text: have no text and no tokens. gone: deleted meanwhile. conflicts: times that a
    document was read again because it changed. failures: with "index/id" for the id.
    """

    read: int = 0
    written: int = 0
    unchanged: int = 0
    without_text: int = 0
    gone: int = 0
    conflicts: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """The number of failures."""
        return len(self.failures)

    @property
    def settled(self) -> int:
        """Documents that need not be read again."""
        return self.written + self.unchanged + self.gone


Changes = Callable[[Sequence[Hit]], tuple[list[PartialUpdate], UpdateReport]]
"""What to change in documents, and what became of those that need no change."""


def update(
    cluster: Cluster, hits: Sequence[Hit], changes: Changes, fields: Mapping[str, Any]
) -> UpdateReport:
    """Changes documents as they are at the moment of writing.

    hits: with at least what `fields` names of their `_source`, which is read again where a document
    changed.
    Raises the errors of the store.
    """
    report = UpdateReport(read=len(hits))
    pending = list(hits)
    for attempt in range(_ATTEMPTS):
        wanted, settled = changes(pending)
        conflicts, written = _write(cluster, wanted)
        report += settled + written
        if not conflicts:
            return report
        # A writer that is quicker than this must not be met in step each time.
        time.sleep(random.uniform(0, 0.02 * attempt))
        pending, vanished = _read_again(cluster, conflicts, fields)
        report += UpdateReport(conflicts=len(conflicts), gone=vanished)
        if not pending:
            return report
    reason = f"it changed each of {_ATTEMPTS} times between reading and writing; run this again"
    return report + UpdateReport(failures=[Failure(_name(hit), reason) for hit in pending])


def _write(cluster: Cluster, changes: list[PartialUpdate]) -> tuple[list[Hit], UpdateReport]:
    """Sends the updates; the documents that changed meanwhile, and what became of the others."""
    actions = [
        Action(str(row), b"".join(_update_lines(*change))) for row, change in enumerate(changes)
    ]
    report = cluster.bulk(actions, cluster.client.shown)
    conflicts: list[Hit] = []
    failures: list[Failure] = []
    gone = 0
    for failure in report.failures:
        hit = changes[int(failure.id)][0]
        if failure.conflict:
            conflicts.append(hit)
        elif "document_missing_exception" in failure.reason:
            gone += 1
        else:
            failures.append(Failure(_name(hit), failure.reason))
    written = report.created + report.updated
    return conflicts, UpdateReport(written=written, gone=gone, failures=failures)


def _update_lines(hit: Hit, fields: dict[str, Any]) -> Iterator[bytes]:
    target = {
        "_index": hit["_index"],
        "_id": hit["_id"],
        "if_seq_no": hit["_seq_no"],
        "if_primary_term": hit["_primary_term"],
    }
    if "_routing" in hit:
        target["routing"] = hit["_routing"]
    yield line({"update": target})
    yield line({"doc": fields})


def _read_again(
    cluster: Cluster, hits: list[Hit], fields: Mapping[str, Any]
) -> tuple[list[Hit], int]:
    """The documents as they are now, seen by searches or not, and how many are gone."""
    wanted = [
        {
            "_index": hit["_index"],
            "_id": hit["_id"],
            "_source": fields,
            **({"routing": hit["_routing"]} if "_routing" in hit else {}),
        }
        for hit in hits
    ]
    found = cluster.get_many({"docs": wanted})
    return found, len(hits) - len(found)


def _name(hit: Hit) -> str:
    return f"{hit['_index']}/{hit['_id']}"


_SETTINGS = ("index.mapping.exclude_source_vectors", "index.mapping.source.mode")
_VECTORS = ("dense_vector", "rank_vectors", "sparse_vector")


def whole_source(cluster: Cluster, path: str, mappings: Mapping[str, Mapping[str, Any]]) -> Any:
    """What to ask of `_source` for whole documents: True, or an object that only searches take.

    Elasticsearch leaves vectors out of `_source` since 9.2, in a multi-get without a way to have
    them.
    mappings: by index. Raises StoreError, naming the index, where no documents are kept whole.
    """
    _, answer = cluster.ask(
        "GET",
        f"{path}/_settings/{','.join(_SETTINGS)}",
        params={"flat_settings": "true", "include_defaults": "true"},
    )
    hidden = False
    for index, mapping in mappings.items():
        found = answer.get(index, {})
        settings = {**found.get("defaults", {}), **found.get("settings", {})}
        _check(index, mapping.get("_source", {}), str(settings.get(_SETTINGS[1], "")))
        hidden |= settings.get(_SETTINGS[0]) == "true" and any(
            kind in _VECTORS for kind in _types(mapping)
        )
    return {"exclude_vectors": False} if hidden else True


def _check(index: str, source: Mapping[str, Any], mode: str) -> None:
    why = None
    disabled = str(source.get("enabled", "true")).lower() == "false"
    if disabled or "disabled" in (str(source.get("mode")).lower(), mode.lower()):
        why = "_source is disabled"
    elif names := [name for name in ("includes", "excludes") if source.get(name)]:
        why = f"_source has {' and '.join(names)}"
    if why is not None:
        raise StoreError(
            f"index {index!r}: {why}, so that documents can't be read whole, and could not be put"
            " back as they were"
        )


def _types(mapping: Mapping[str, Any]) -> Iterator[str]:
    for each in mapping.get("properties", {}).values():
        yield str(each.get("type", "object"))
        yield from _types(each)
