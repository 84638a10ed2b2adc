"""Plan and put our fields into the mappings of existing indices."""

from dataclasses import dataclass, field, replace
from functools import partial

from esdedup.admin.obstacles import Obstacle, obstacles, why_no_text
from esdedup.exceptions import IndexNotFound, StoreError, UsageError
from esdedup.models import FIELD
from esdedup.sketch.scheme import Scheme
from esdedup.stores import Cluster, Target, connected
from esdedup.stores.elastic.bodies import Body
from esdedup.stores.elastic.component_templates import put_template
from esdedup.stores.elastic.indices import (
    IndexState,
    Named,
    open_again,
    path_of,
    put_analysis,
    put_metas,
    resolve,
    states,
)
from esdedup.stores.elastic.queries import any_of, not_sketched
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import (
    IndexMapping,
    IndexMeta,
    TextFields,
    analysis_of,
    index_mapping,
    meta_of,
    names_of,
    uncomputed,
)

_LOOKED_AT = 100
"""Documents that are read to see whether they have a field that the mapping does not show."""


@dataclass(frozen=True)
class MappingChange:
    """The change of an index's mapping.

    index: its name.
    mapping: to put; None if it has our fields already.
    obstacles: to the change, or to be known.
    stored: the description of its tokens that the index has.
    analysis: settings of analyzers, which the index has to be closed for.
    opens: whether it is to be opened first, as an earlier attach that was interrupted closed it.
    """

    index: str
    mapping: IndexMapping | None
    obstacles: tuple[Obstacle, ...]
    stored: IndexMeta | None = None
    analysis: Body = field(default_factory=dict)
    opens: bool = False

    @property
    def stopped(self) -> bool:
        """Whether documents that are there can't get tokens."""
        stops = (obstacle.stops for obstacle in self.obstacles)
        return not self.opens and any(stop in ("index", "backfill") for stop in stops)


@dataclass(frozen=True)
class AttachPlan:
    """Changes for all indices behind a name; a data stream also gets a component template.

    named: the name, and what it stands for.
    meta: describes the tokens that the indices will have.
    changes: one an index.
    """

    named: Named
    meta: IndexMeta
    changes: tuple[MappingChange, ...]

    @property
    def hindrances(self) -> list[Obstacle]:
        """The obstacles that must be removed first."""
        return [
            obstacle
            for change in self.changes
            for obstacle in change.obstacles
            if change.mapping and obstacle.stops == "attach"
        ]

    def check(self) -> None:
        """Raise StoreError if an obstacle stops the change."""
        if self.hindrances:
            raise StoreError("; ".join(map(str, self.hindrances)))


def plan_attach(
    target: Target,
    name: str,
    scheme: Scheme | None = None,
    text_field: TextFields | None = None,
    field: str | None = None,
    external_versions: bool | None = None,
) -> AttachPlan:
    """Return what attaching would change, without changing anything.

    name: an index, alias or data stream.
    scheme, text_field, field: for indices that have none; by default those of the other indices
    behind the name, else the default ones.
    text_field: one name, or several, whose texts are joined.
    external_versions: the owner numbers the versions of documents (`version_type`), which changes
    of ours then keep; None for what is stored.

    Raises SchemeMismatch if indices have others, IndexNotFound if the name does not exist, and
    UsageError if no field of that name holds a text.
    """
    with connected(target) as cluster:
        named = resolve(cluster, name)
        if external_versions and named.kind == "data stream":
            raise UsageError(f"{name!r} is a data stream, which takes no external versions")
        indices = states(cluster, named)
        stored_metas = [meta_of(state.mapping) for state in indices]
        base = [IndexMeta(Scheme()), *filter(None, stored_metas)][-1]
        names = None if text_field is None else names_of(text_field)
        if external_versions is None:
            external_versions = base.external_versions
        meta = replace(
            base,
            scheme=scheme or base.full_scheme,
            other_schemes=(),
            text_fields=names or base.text_fields,
            field=field or base.field,
            external_versions=external_versions,
            # Of one that has tokens, only its own mark shows who made it.
            attached=base.attached or not any(stored_metas),
        )
        changes = tuple(map(partial(_change, meta=meta), indices, stored_metas))
        if text_field is None or not all(stored_metas):
            # A text field that no index has is a mistake.
            require_text_field(cluster, indices, meta)
        return AttachPlan(named, meta, changes)


def _change(state: IndexState, stored: IndexMeta | None, meta: IndexMeta) -> MappingChange:
    """Return the change of an index. stored: what it has. Raises SchemeMismatch."""
    if stored is not None:
        stored.require(meta, f"index {state.name!r}")
    mapping = None
    is_stored = (
        stored is not None
        and stored.next == meta.next
        and stored.external_versions == meta.external_versions
    )
    if not is_stored or uncomputed(meta, state.mapping):
        mapping = index_mapping(meta, state.mapping, doc_values=state.rebuilds_source)
    analysis = analysis_of(meta)
    names = (f"analysis.analyzer.{name}.tokenizer" for name in analysis.get("analyzer", ()))
    return MappingChange(
        state.name,
        mapping,
        tuple(obstacles(state, meta)),
        stored,
        {} if all(map(state.setting, names)) else analysis,
        # One that another client closed is an obstacle.
        state.marked_closed and (state.closed_by_attach or not state.closed),
    )


def plan_next(
    target: Target,
    name: str,
    scheme: Scheme | None = None,
    text_field: TextFields | None = None,
    field: str | None = None,
    external_versions: bool | None = None,
) -> AttachPlan:
    """Return the changes for the next indices of a name, even before the first one exists."""
    try:
        return plan_attach(target, name, scheme, text_field, field, external_versions)
    except IndexNotFound as error:
        if text_field is None:
            raise IndexNotFound(
                f"{error}. If it does not exist yet, name its text field (`text_field`)"
            ) from error
    meta = IndexMeta(
        scheme or Scheme(),
        names_of(text_field),
        field or FIELD,
        external_versions=external_versions is True,
        attached=True,
    )
    return AttachPlan(Named(name, "index", ()), meta, ())


def require_text_field(cluster: Cluster, indices: list[IndexState], meta: IndexMeta) -> None:
    """Raise UsageError if the indices have fields, and none of them has one of the text fields.

    A field that servers do not index is in documents, and not in the mapping.
    """
    if not any(state.mapping.get("properties") for state in indices):
        return
    for name in meta.text_fields:
        reasons = [why_no_text(state, name) for state in indices]
        if all(reasons) and not any(_in_documents(cluster, state, name) for state in indices):
            raise UsageError(f"index {indices[0].name!r}: {reasons[0]}")


def _in_documents(cluster: Cluster, state: IndexState, name: str) -> bool:
    """Return whether some of the first documents have a field, or there are none that could."""
    body = {"size": _LOOKED_AT, "_source": [name], "track_total_hits": False}
    try:
        _, answer = cluster.ask("POST", f"{path_of(state.name)}/_search", body)
    except StoreError:
        # The right to read documents is no part of that to attach.
        return False
    hits = answer["hits"]["hits"]
    dynamic = str(state.mapping.get("dynamic", "true")).lower()
    if not hits:
        return dynamic == "false"
    return any(value_at(hit.get("_source", {}), name) is not None for hit in hits)


def missing_tokens(cluster: Cluster, plan: AttachPlan) -> int | None:
    """Return the number of documents behind the name that lack tokens; None if it is unknown."""
    try:
        path = path_of(plan.named.name)
        # Documents that were just written are found without the right to refresh, a second later.
        cluster.ask("POST", f"{path}/_refresh", allowed=frozenset({403}))
        return cluster.count(path, any_of(map(not_sketched, plan.meta.sketched)))
    except StoreError:
        return None


def attach(
    target: Target,
    what: str | AttachPlan,
    scheme: Scheme | None = None,
    text_field: TextFields | None = None,
    field: str | None = None,
    external_versions: bool | None = None,
) -> AttachPlan:
    """Add our fields to an index, or to all behind an alias or data stream; no document changes.

    what: a name, or a plan of `plan_attach`, which replaces the other arguments.

    Returns the plan. Raises StoreError, before any change, if there is an obstacle, and if another
    client attaches another scheme at the same time, and the errors of `plan_attach`.
    """
    with connected(target) as cluster:
        plan = what
        if isinstance(plan, str):
            plan = plan_attach(cluster, plan, scheme, text_field, field, external_versions)
        plan.check()
        for change in plan.changes:
            if change.opens:
                open_again(cluster, change.index)
        changes = [change for change in plan.changes if change.mapping is not None]
        # The last one first: OpenSearch never closes the one that a data stream writes to.
        for change in reversed(changes):
            if change.analysis:
                put_analysis(cluster, change.index, change.analysis)
        put_metas(cluster, {change.index: (change.stored, plan.meta) for change in changes})
        if plan.named.kind == "data stream":
            put_template(cluster, plan.named, plan.meta)
    return plan
