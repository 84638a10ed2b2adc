"""Fills a sidecar: a second index that holds the tokens of an index that takes no updates.

It has the same ids, the texts, and their tokens, and is searched like any other index. The texts
are stored but not indexed. Searches need them to verify candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from esdedup.admin.attach import plan_attach
from esdedup.admin.preflight import Obstacle, field_at, obstacles
from esdedup.exceptions import StoreError, UsageError
from esdedup.ingest.renew import digests
from esdedup.models import FIELD, Failure
from esdedup.records.documents import tokens_of
from esdedup.sketch.scheme import Scheme
from esdedup.stores import Cluster, Target, reached
from esdedup.stores.changes import ChangeReport
from esdedup.stores.elastic import indices
from esdedup.stores.elastic.bulk import Action
from esdedup.stores.elastic.client import line
from esdedup.stores.elastic.errors import reason_of
from esdedup.stores.elastic.indices import IndexState, Named, path_of, states
from esdedup.stores.elastic.queries import scan_body
from esdedup.stores.fields import only, quoted, text_at
from esdedup.stores.mapping import IndexMeta, TextFields, index_mapping, meta_of

_PAGE = 1_000
_COMPARED = ("scheme", "digest", "origin")

_MARK = f"{FIELD}_sidecar_of"
"""The key of the mapping's `_meta` that marks a sidecar. Only a marked index is written to, because
its documents are replaced."""


@dataclass(frozen=True)
class SidecarPlan:
    """The indices to read, the obstacles to reading others, and the number of documents.

    sidecar: the name of the index to fill.
    """

    named: Named
    sidecar: str
    meta: IndexMeta
    chosen: tuple[IndexState, ...]
    left_out: tuple[Obstacle, ...]
    waiting: int


def plan_sidecar(
    target: Target,
    name: str,
    sidecar: str,
    scheme: Scheme | None = None,
    text_field: TextFields | None = None,
) -> SidecarPlan:
    """Return what there is to read for a sidecar; nothing is changed yet.

    name: an index, alias or data stream. sidecar: the name of the index to fill. scheme,
    text_field: as in `plan_attach`, whose errors are raised.
    """
    with reached(target) as cluster:
        plan = plan_attach(cluster, name, scheme, text_field)
        chosen: list[IndexState] = []
        left_out: list[Obstacle] = []
        for state in states(cluster, plan.named):
            if state.closed:
                found = obstacles(state, plan.meta)
                left_out += [each for each in found if each.kind == "closed"]
            elif hidden := _hidden(state, plan.meta):
                reason = f"{quoted(hidden)} can't be read: not in _source, and not stored"
                left_out.append(Obstacle(state.name, "source", "backfill", reason))
            else:
                chosen.append(state)
        waiting = sum(cluster.count(path_of(state.name)) for state in chosen)
    return SidecarPlan(plan.named, sidecar, plan.meta, tuple(chosen), tuple(left_out), waiting)


def fill_sidecar(
    target: Target,
    plan: SidecarPlan,
    on_update: Callable[[ChangeReport], None] | None = None,
) -> ChangeReport:
    """Make the sidecar if there is none, and write every document that it lacks or has otherwise.

    Nothing is deleted from it. on_update: called with the counts of each page of documents. Raises
    UsageError if the name is of another index than a sidecar of this name, SchemeMismatch if it
    holds another scheme, and the errors of the store. After an error the same call goes on.
    """
    total = ChangeReport()
    with reached(target) as cluster:
        _make(cluster, plan.named, plan.sidecar, plan.meta)
        for state in plan.chosen:
            asked = _reading(state, plan.meta)
            body = scan_body({"match_all": {}}, asked.pop("_source"), _PAGE)
            body |= {key: names for key, names in asked.items() if names}
            with cluster.point_in_time(path_of(state.name)) as point:
                for hits in cluster.pages(point, body):
                    done = _fill(cluster, hits, plan.sidecar, plan.meta)
                    total += done
                    if on_update is not None:
                        on_update(done)
        cluster.ask("POST", f"{path_of(plan.sidecar)}/_refresh")
    return total


def _make(cluster: Cluster, named: Named, sidecar: str, meta: IndexMeta) -> None:
    indices.check_name(sidecar)
    mapping = {"dynamic": False, **index_mapping(meta, {_MARK: named.name})}
    status, answer = cluster.ask(
        "PUT", path_of(sidecar), {"mappings": mapping}, allowed=frozenset({400})
    )
    if status == 200:
        return
    if "exists" not in reason_of(answer):
        raise StoreError(f"index {sidecar!r}: {reason_of(answer)}")
    found = states(cluster, indices.resolve(cluster, sidecar))
    origins = {state.mapping.get("_meta", {}).get(_MARK) for state in found}
    if len(found) != 1 or found[0].name != sidecar or origins != {named.name}:
        raise UsageError(
            f"sidecar {sidecar!r}: it exists and is not a sidecar of {named.name!r}, so that"
            " filling it could replace others' documents: name an index that does not exist"
        )
    stored = meta_of(found[0].mapping)
    if stored is not None:
        stored.require(meta, f"index {sidecar!r}")


def _reading(state: IndexState, meta: IndexMeta) -> dict[str, list[str]]:
    """The text fields that can be read, by the part of a search body that asks for them."""
    disabled, filters = indices.source_limits(state.mapping, state.setting("mapping.source.mode"))
    asked: dict[str, list[str]] = {"_source": [], "stored_fields": [], "docvalue_fields": []}
    for name in meta.text_fields:
        field = field_at(state.mapping, name) or {}
        has_values = str(field.get("doc_values", "true")).lower() == "true"
        if not disabled and not (filters and _filtered(state.mapping["_source"], name)):
            asked["_source"].append(name)
        elif str(field.get("store", "false")).lower() == "true":
            asked["stored_fields"].append(name)
        elif field.get("type") == "keyword" and has_values:
            # Several values come sorted, each once.
            asked["docvalue_fields"].append(name)
    return asked


def _hidden(state: IndexState, meta: IndexMeta) -> list[str]:
    """The text fields that can't be read."""
    readable = {name for names in _reading(state, meta).values() for name in names}
    return [name for name in meta.text_fields if name not in readable]


def _filtered(source: Mapping[str, Any], name: str) -> bool:
    """Return whether the filters of `_source` leave a field out."""
    parents = [name[:cut] for cut, character in enumerate(name) if character == "."]

    def named(patterns: list[str]) -> bool:
        return any(fnmatchcase(each, one) for each in (name, *parents) for one in patterns)

    includes, excludes = source.get("includes") or ["*"], source.get("excludes") or []
    return named(excludes) or not named(includes)


def _fill(
    cluster: Cluster, hits: list[dict[str, Any]], sidecar: str, meta: IndexMeta
) -> ChangeReport:
    found: list[tuple[dict[str, Any], str]] = []
    for hit in hits:
        source = {**only(hit.get("_source", {}), meta.text_fields), **hit.get("fields", {})}
        if (text := text_at(source, meta.text_fields)) is not None:
            found.append(({**hit, "_source": source}, text))
    ids = {"ids": [hit["_id"] for hit, _ in found]}
    paths = {"_source_includes": ",".join(f"{meta.field}.{name}" for name in _COMPARED)}
    known = cluster.get_many(ids, path_of(sidecar), paths) if found else []
    stored = {item["_id"]: item["_source"].get(meta.field) or {} for item in known}
    fresh: list[tuple[dict[str, Any], str]] = []
    failures: list[Failure] = []
    wanted = digests([text for _, text in found], meta)
    for (hit, text), digest in zip(found, wanted, strict=True):
        index, id = hit["_index"], hit["_id"]
        ours = stored.get(id, {"origin": index})
        if ours.get("origin") != index:
            reason = f"the sidecar has a document of this id, from {ours.get('origin')}"
            failures.append(Failure(f"{index}/{id}", reason))
        elif (ours.get("scheme"), ours.get("digest")) != (meta.scheme.id, digest):
            fresh.append((hit, text))
    actions = []
    made = tokens_of([text for _, text in fresh], meta.scheme)
    for (hit, _), tokens in zip(fresh, made, strict=True):
        header = line({"index": {"_index": sidecar, "_id": hit["_id"]}})
        document = {**hit["_source"], meta.field: {**tokens, "origin": hit["_index"]}}
        actions.append(Action(hit["_id"], header + line(document)))
    report = cluster.bulk(actions, f"index {sidecar!r}")
    unchanged = len(found) - len(fresh) - len(failures)
    failures += [Failure(f"{sidecar}/{each.id}", each.reason) for each in report.failures]
    return ChangeReport(
        read=len(hits),
        written=report.created + report.updated,
        unchanged=unchanged,
        without_text=len(hits) - len(found),
        failures=failures,
    )
