"""Our fields into the mapping of indices that exist: shown first, then put."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from esdedup.admin.preflight import Obstacle, obstacles
from esdedup.admin.templates import TemplatePlan, install_template, plan_template
from esdedup.exceptions import PermissionDenied, StoreError, UsageError
from esdedup.sketch.scheme import Scheme
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.indices import IndexState, Named, path_of, resolve, states
from esdedup.stores.mapping import IndexMeta, index_mapping, meta_of


@dataclass(frozen=True)
class Change:
    """What is to be put into an index's mapping, or None where it is there; and what hinders it."""

    index: str
    mapping: Mapping[str, Any] | None
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True)
class AttachPlan:
    """The changes for all indices behind a name, and the template for the next ones.

    template: for a data stream, else None.
    """

    named: Named
    meta: IndexMeta
    changes: tuple[Change, ...]
    template: TemplatePlan | None

    @property
    def hindrances(self) -> list[Obstacle]:
        """What must be out of the way first."""
        return [
            obstacle
            for change in self.changes
            if change.mapping is not None
            for obstacle in change.obstacles
            if obstacle.stops == "attach"
        ]


def plan_attach(
    cluster: Cluster,
    name: str,
    scheme: Scheme | None = None,
    text_field: str | None = None,
    field: str | None = None,
) -> AttachPlan:
    """What attaching would change; nothing is changed yet.

    scheme, text_field, field: for indices that have none; by default those of the others behind
    the name, else the default ones. Raises SchemeMismatch where indices hold something else,
    IndexNotFound, and UsageError where no field of that name holds a text.
    """
    named = resolve(cluster, name)
    found = states(cluster, named)
    metas = {state.name: meta_of(state.mapping) for state in found}
    wanted = _wanted([meta for meta in metas.values() if meta], scheme, text_field, field)
    changes = []
    for state in found:
        stored = metas[state.name]
        if stored is not None:
            stored.require(wanted, f"index {state.name!r}")
        mapping = None
        if stored is None or stored.next != wanted.next:
            mapping = index_mapping(wanted, state.mapping.get("_meta"))
        changes.append(Change(state.name, mapping, tuple(obstacles(state, wanted))))
    if text_field is None:
        # What nobody named and no index has is a mistake to be told at once.
        require_text_field(found, wanted)
    template = plan_template(cluster, named, wanted) if named.kind == "data stream" else None
    return AttachPlan(named, wanted, tuple(changes), template)


def _wanted(
    stored: list[IndexMeta], scheme: Scheme | None, text_field: str | None, field: str | None
) -> IndexMeta:
    base = stored[-1] if stored else IndexMeta(Scheme())
    return replace(
        base,
        scheme=scheme or base.scheme,
        text_field=text_field or base.text_field,
        field=field or base.field,
    )


def require_text_field(found: list[IndexState], meta: IndexMeta) -> None:
    """Raises UsageError where indices have fields, and none the one that shall hold the text."""
    missing = [
        obstacle.reason
        for state in found
        for obstacle in obstacles(state, meta)
        if obstacle.kind == "no text"
    ]
    mapped = any(state.mapping.get("properties") for state in found)
    if mapped and len(missing) == len(found):
        raise UsageError(f"index {found[0].name!r}: {missing[0]}")


def attach(cluster: Cluster, plan: AttachPlan) -> None:
    """Puts what a plan shows.

    Raises StoreError where something hinders it, before anything is changed; PermissionDenied with
    the privilege that is lacking; SchemeMismatch where another client was faster with another one.
    """
    if plan.hindrances:
        raise StoreError("; ".join(str(obstacle) for obstacle in plan.hindrances))
    for change in plan.changes:
        if change.mapping is not None:
            put_mapping(cluster, change.index, change.mapping)
    for state in states(cluster, plan.named):
        stored = meta_of(state.mapping)
        if stored is None:
            raise StoreError(f"index {state.name!r}: the mapping was not stored")
        stored.require(plan.meta, f"index {state.name!r}")
    if plan.template is not None:
        install_template(cluster, plan.template)


def put_mapping(cluster: Cluster, index: str, mapping: Mapping[str, Any]) -> None:
    """Puts a mapping, and explains a refusal."""
    try:
        cluster.ask("PUT", f"{path_of(index)}/_mapping", mapping)
    except PermissionDenied as error:
        raise PermissionDenied(
            f"{error}. To attach needs the index privilege 'manage' (Elasticsearch; since 8.0"
            " 'write' does not allow mapping changes), or indices:admin/mapping/put and"
            " indices:admin/mappings/get (OpenSearch)"
        ) from error
    except StoreError as error:
        raise type(error)(f"index {index!r}: {_explained(str(error))}") from error


def _explained(reason: str) -> str:
    if "Limit of total fields" in reason:
        return f"the mapping has no room ({reason}): raise index.mapping.total_fields.limit"
    if "synthetic source" in reason:
        return f"this version takes no such fields beside a synthetic _source ({reason})"
    return reason
