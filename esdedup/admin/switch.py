"""Another scheme for an index that is searched and written to meanwhile.

The new scheme gets a field of its own beside the old one; `_meta` names it as the next. Writers
that read `_meta` fill both. When every document has it, `_meta` makes it the one that searches use,
and names the old field as the former one; last, that is emptied. Each step can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from esdedup.admin.attach import put_mapping, require_text_field
from esdedup.admin.preflight import hindrances
from esdedup.admin.templates import renew_template
from esdedup.exceptions import StoreError, UsageError
from esdedup.models import FIELD
from esdedup.sketch.scheme import Scheme
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.indices import IndexState, attached, path_of, resolve, states
from esdedup.stores.elastic.queries import sketched
from esdedup.stores.mapping import META_SECONDS, IndexMeta, index_mapping, meta_of

WAIT_SECONDS = META_SECONDS + 2.0
"""How long after a step every reader and writer has seen it."""

Stage = Literal["begin", "fill", "forget", "done"]


@dataclass(frozen=True)
class SwitchPlan:
    """Where the change of an index's scheme stands.

    stage: "begin" where nothing is done yet, "fill" where documents are given the next tokens,
    "forget" where the old field is to be emptied, "done" where there is nothing to do.
    meta: what the index says. following: what it shall say at last.
    """

    name: str
    stage: Stage
    meta: IndexMeta
    following: IndexMeta


def plan_switch(
    cluster: Cluster, name: str, scheme: Scheme | None, text_field: str | None = None
) -> SwitchPlan:
    """Where it stands, so that a change that was stopped goes on.

    scheme, text_field: the new ones; None to go on with a change that has begun. Raises UsageError
    where that is to others, or none has begun, or no index has such a text field; IndexNotFound
    where there is no such index or no tokens.
    """
    _, found, meta = attached(cluster, name)
    # Where it was stopped at its first step, only some of the indices name the next scheme.
    following = meta.next or _begun(found)
    if following is not None:
        _require_same(name, following, scheme, text_field)
        return SwitchPlan(name, "begin" if meta.next is None else "fill", meta, following)
    if scheme is None and text_field is None:
        if meta.former is None:
            raise UsageError(f"{name!r} is not changing its scheme: name a new one (--scheme)")
        return SwitchPlan(name, "forget", meta, meta)
    following = IndexMeta(
        scheme or meta.scheme, text_field or meta.text_field, _free_field(found, meta)
    )
    if (following.scheme.id, following.text_field) == (meta.scheme.id, meta.text_field):
        return SwitchPlan(name, "forget" if meta.former else "done", meta, meta)
    if meta.former is not None:
        raise UsageError(
            f"{name!r} has a former field to empty first: esdedup switch --index {name}"
        )
    require_text_field(found, following)
    return SwitchPlan(name, "begin", meta, following)


def begin(cluster: Cluster, plan: SwitchPlan) -> None:
    """Puts the next field into the mapping; writers fill it from now on.

    Raises StoreError, before anything is changed, where something hinders it.
    """
    _, found, meta = attached(cluster, plan.name)
    in_the_way = [str(each) for state in found for each in hindrances(state, plan.following)]
    if in_the_way:
        raise StoreError("; ".join(in_the_way))
    _put(cluster, plan.name, replace(meta, next=plan.following))


def complete(cluster: Cluster, plan: SwitchPlan) -> None:
    """Makes the next scheme the one that searches use.

    Call it when no document waits. Raises StoreError where the index is not being changed so, or
    where documents have tokens of the old scheme and none has any of the next.
    """
    _, _, meta = attached(cluster, plan.name)
    if meta.next is None or meta.next.scheme.id != plan.following.scheme.id:
        raise StoreError(f"{plan.name!r} is not changing to {plan.following.scheme.id}")
    path = path_of(plan.name)
    if cluster.count(path, sketched(meta)) and not cluster.count(path, sketched(meta.next)):
        raise StoreError(
            f"no document of {plan.name!r} got tokens of scheme {meta.next.scheme.id}: searches go"
            f" on with the old ones. Is {meta.next.text_field!r} the field with the text?"
        )
    _put(cluster, plan.name, replace(meta.next, former=meta.field, spent=meta.spent))


def finish(cluster: Cluster, plan: SwitchPlan) -> None:
    """Says that the former field is empty."""
    _, _, meta = attached(cluster, plan.name)
    if meta.former is not None:
        spent = (*(name for name in meta.spent if name != meta.former), meta.former)
        _put(cluster, plan.name, replace(meta, former=None, spent=spent))


def _begun(found: list[IndexState]) -> IndexMeta | None:
    metas = [meta_of(state.mapping) for state in found]
    return next((meta.next for meta in metas if meta is not None and meta.next), None)


def _require_same(
    name: str, following: IndexMeta, scheme: Scheme | None, text_field: str | None
) -> None:
    asked = (scheme or following.scheme).id, text_field or following.text_field
    if asked != (following.scheme.id, following.text_field):
        raise UsageError(
            f"{name!r} is changing to scheme {following.scheme.id} of the field"
            f" {following.text_field!r} already: leave the scheme and the text field out to go on"
        )


def _free_field(found: list[IndexState], meta: IndexMeta) -> str:
    """A field for the next tokens: one that was emptied, or one that no index has."""
    taken = {name for state in found for name in state.mapping.get("properties", {})}
    names = [FIELD, *(f"{FIELD}_{number}" for number in range(2, len(taken) + 3))]
    free = [name for name in names if name not in taken or name in meta.spent]
    return next(name for name in free if name != meta.field)


def _put(cluster: Cluster, name: str, meta: IndexMeta) -> None:
    """Puts it for all indices behind a name, and for those that are made next."""
    named = resolve(cluster, name)
    for state in states(cluster, named):
        others: Mapping[str, Any] = state.mapping.get("_meta", {})
        put_mapping(cluster, state.name, index_mapping(meta, others))
    renew_template(cluster, named, meta)
