"""An index beside one whose documents can't be updated: the same ids, the text, and its tokens.

It is searched as any index of ours. The text is kept there too, unindexed, because a candidate is
verified by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from esdedup.datatypes import Failure
from esdedup.documents import fields_of
from esdedup.exceptions import UsageError
from esdedup.fields import value_at
from esdedup.obstacles import Obstacle, field_at, obstacles
from esdedup.queries import scan_body
from esdedup.renewal import digests
from esdedup.schema import IndexMeta, index_mapping
from esdedup.stores.bulk import Action
from esdedup.stores.client import Cluster, line
from esdedup.stores.cluster import ClusterStore
from esdedup.stores.indices import IndexState, Named, path_of, states
from esdedup.stores.updates import UpdateReport

_PAGE = 1_000


def make_sidecar(cluster: Cluster, named: Named, sidecar: str, meta: IndexMeta) -> None:
    """Makes the index, if there is none. Raises SchemeMismatch where it holds something else."""
    if sidecar == named.name or sidecar in named.indices:
        raise UsageError(f"sidecar {sidecar!r}: name another index than {named.name!r}")
    store = ClusterStore(cluster, sidecar)
    if store.meta() is None:
        mapping = {"dynamic": False, **index_mapping(meta)}
        # Where it was made meanwhile, what follows tells whether it fits.
        path, taken = path_of(sidecar), frozenset({400})
        cluster.ask("PUT", path, {"mappings": mapping}, allowed=taken)
    store.create(meta)


def readable(
    cluster: Cluster, named: Named, meta: IndexMeta
) -> tuple[list[IndexState], list[Obstacle]]:
    """The indices whose texts can be read, and what is wrong with the others."""
    chosen: list[IndexState] = []
    left_out: list[Obstacle] = []
    for state in states(cluster, named):
        if state.closed:
            left_out += [each for each in obstacles(state, meta) if "closed" in each.reason]
        elif _is_hidden(state) and _reading(state, meta) is None:
            left_out += [each for each in obstacles(state, meta) if "_source" in each.reason]
        else:
            chosen.append(state)
    return chosen, left_out


def fill_sidecar(
    cluster: Cluster,
    chosen: Sequence[IndexState],
    sidecar: str,
    meta: IndexMeta,
    on_update: Callable[[UpdateReport], None] | None = None,
) -> UpdateReport:
    """Writes every document that the sidecar lacks, or has with another text.

    Nothing is deleted from it. Raises the errors of the store; the same again goes on.
    """
    total = UpdateReport()
    for state in chosen:
        body = scan_body({"match_all": {}}, [meta.text_field], _PAGE)
        if _is_hidden(state):
            body |= {"_source": False, **(_reading(state, meta) or {})}
        with cluster.point_in_time(path_of(state.name)) as point:
            for hits in cluster.pages(point, body):
                done = _fill(cluster, hits, sidecar, meta)
                total += done
                if on_update is not None:
                    on_update(done)
    cluster.ask("POST", f"{path_of(sidecar)}/_refresh")
    return total


def _is_hidden(state: IndexState) -> bool:
    source = state.mapping.get("_source", {})
    disabled = str(source.get("enabled", "true")).lower() == "false"
    return disabled or "disabled" in (source.get("mode"), state.setting("mapping.source.mode"))


def _reading(state: IndexState, meta: IndexMeta) -> dict[str, Any] | None:
    """How to get the text without `_source`, or None where it is kept nowhere."""
    field = field_at(state.mapping, meta.text_field) or {}
    if str(field.get("store", "false")).lower() == "true":
        return {"stored_fields": [meta.text_field]}
    if field.get("type") == "keyword" and str(field.get("doc_values", "true")).lower() == "true":
        return {"docvalue_fields": [meta.text_field]}
    return None


def _text(hit: Mapping[str, Any], meta: IndexMeta) -> Any:
    values = hit.get("fields", {}).get(meta.text_field)
    return values[0] if values else value_at(hit.get("_source", {}), meta.text_field)


def _fill(
    cluster: Cluster, hits: list[dict[str, Any]], sidecar: str, meta: IndexMeta
) -> UpdateReport:
    texts = [_text(hit, meta) for hit in hits]
    with_text = [row for row, text in enumerate(texts) if isinstance(text, str)]
    wanted = digests([texts[row] for row in with_text], meta)
    known = _known(cluster, [hits[row]["_id"] for row in with_text], sidecar, meta)
    fresh = [
        row
        for row, digest in zip(with_text, wanted, strict=True)
        if known.get(hits[row]["_id"]) != (meta.scheme.id, digest)
    ]
    fields = fields_of([texts[row] for row in fresh], meta)
    actions = [
        Action(hits[row]["_id"], b"".join(_lines(hits[row], sidecar, meta, texts[row], tokens)))
        for row, tokens in zip(fresh, fields, strict=True)
    ]
    report = cluster.bulk(actions, f"index {sidecar!r}")
    failures = [Failure(f"{sidecar}/{each.id}", each.reason) for each in report.failures]
    return UpdateReport(
        read=len(hits),
        written=report.created + report.updated,
        unchanged=len(with_text) - len(fresh),
        without_text=len(hits) - len(with_text),
        failures=failures,
    )


def _lines(
    hit: Mapping[str, Any], sidecar: str, meta: IndexMeta, text: str, fields: dict[str, Any]
) -> Iterator[bytes]:
    ours = {**fields[meta.field], "origin": hit["_index"]}
    yield line({"index": {"_index": sidecar, "_id": hit["_id"]}})
    yield line({meta.text_field: text, meta.field: ours})


def _known(
    cluster: Cluster, ids: list[str], sidecar: str, meta: IndexMeta
) -> dict[str, tuple[Any, Any]]:
    """The scheme and digest of those documents that the sidecar has."""
    if not ids:
        return {}
    paths = {"_source_includes": f"{meta.field}.scheme,{meta.field}.digest"}
    _, answer = cluster.ask("POST", f"{path_of(sidecar)}/_mget", {"ids": ids}, paths)
    found = {}
    for item in answer["docs"]:
        ours = item.get("_source", {}).get(meta.field) or {}
        found[item["_id"]] = (ours.get("scheme"), ours.get("digest"))
    return found
