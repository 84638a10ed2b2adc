"""Another scheme for an index that is searched and written to meanwhile.

The new scheme gets a field of its own beside the old one; `_meta` names it as the next. Writers
that read `_meta` fill both. When every document has it, `_meta` makes it the one that searches use,
and names the old field as the former one; last, that is emptied. Each step can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from esdedup.attach import put_mapping
from esdedup.datatypes import FIELD
from esdedup.exceptions import IndexNotFound, StoreError, UsageError
from esdedup.index import META_SECONDS
from esdedup.schema import IndexMeta, common_meta, index_mapping, meta_of
from esdedup.scheme import Scheme
from esdedup.stores.client import Cluster
from esdedup.stores.indices import Named, resolve, states
from esdedup.templates import install_template, plan_template

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

    named: Named
    stage: Stage
    meta: IndexMeta
    following: IndexMeta


def plan_switch(
    cluster: Cluster, name: str, scheme: Scheme | None, text_field: str | None = None
) -> SwitchPlan:
    """Where it stands, so that a change that was stopped goes on.

    scheme: the new one; None to go on with a change that has begun. Raises UsageError where that is
    another one, or none has begun; IndexNotFound where there is no such index or no tokens.
    """
    named = resolve(cluster, name)
    meta = _meta(cluster, named)
    # Where it was stopped at its first step, only some of the indices name the next scheme.
    following = meta.next or _begun(cluster, named)
    if following is None:
        if scheme is None and text_field is None:
            if meta.former is None:
                raise UsageError(f"{name!r} is not changing its scheme: name a new one (--scheme)")
            return SwitchPlan(named, "forget", meta, meta)
        following = IndexMeta(
            scheme or meta.scheme, text_field or meta.text_field, _other_field(meta.field)
        )
        if (following.scheme.id, following.text_field) == (meta.scheme.id, meta.text_field):
            return SwitchPlan(named, "forget" if meta.former else "done", meta, meta)
        if meta.former is not None:
            raise UsageError(f"{name!r} has a former field to empty first: esdedup switch {name}")
        return SwitchPlan(named, "begin", meta, following)
    if scheme is not None and scheme.id != following.scheme.id:
        raise UsageError(
            f"{name!r} is changing to scheme {following.scheme.id} already, not {scheme.id}:"
            " leave the scheme out to go on"
        )
    return SwitchPlan(named, "begin" if meta.next is None else "fill", meta, following)


def _begun(cluster: Cluster, named: Named) -> IndexMeta | None:
    metas = [meta_of(state.mapping) for state in states(cluster, named)]
    return next((meta.next for meta in metas if meta is not None and meta.next), None)


def begin(cluster: Cluster, plan: SwitchPlan) -> None:
    """Puts the next field into the mapping; writers fill it from now on."""
    _put(cluster, plan.named, replace(plan.meta, next=plan.following))


def complete(cluster: Cluster, plan: SwitchPlan) -> None:
    """Makes the next scheme the one that searches use.

    Call it when no document waits. Raises StoreError where the index is not being changed so.
    """
    meta = _meta(cluster, plan.named)
    if meta.next is None or meta.next.scheme.id != plan.following.scheme.id:
        raise StoreError(f"{plan.named.name!r} is not changing to {plan.following.scheme.id}")
    _put(cluster, plan.named, replace(meta.next, former=meta.field))


def finish(cluster: Cluster, plan: SwitchPlan) -> None:
    """Says that the former field is empty."""
    _put(cluster, plan.named, replace(_meta(cluster, plan.named), former=None))


def _other_field(field: str) -> str:
    return f"{FIELD}_2" if field != f"{FIELD}_2" else FIELD


def _meta(cluster: Cluster, named: Named) -> IndexMeta:
    mappings = {state.name: state.mapping for state in states(cluster, named)}
    meta = common_meta(mappings, named.name)
    if meta is None:
        raise IndexNotFound(f"{named.name!r} holds no esdedup field: esdedup attach {named.name}")
    return meta


def _put(cluster: Cluster, named: Named, meta: IndexMeta) -> None:
    """Puts it for all indices behind a name, and for those that a data stream makes next."""
    for state in states(cluster, named):
        others: Mapping[str, Any] = state.mapping.get("_meta", {})
        put_mapping(cluster, state.name, index_mapping(meta, others))
    if named.kind == "data stream":
        install_template(cluster, plan_template(cluster, named, meta))
