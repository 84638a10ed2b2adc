"""Change the scheme, or the text field, of an index that is searched and written to meanwhile.

The new scheme gets a field of its own beside the old one, and `_meta` names it as the next. Writers
that read `_meta` fill both fields. When every document has the new field, searches use it. Marks
and old tokens stay where they are. Each step can be repeated, so that a change resumes.
"""

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from esdedup.admin.attaching import require_text_field
from esdedup.admin.backfilling import BackfillPlan, Effort, backfill, plan_backfill
from esdedup.admin.obstacles import hindrances
from esdedup.exceptions import StoreError, UsageError
from esdedup.models import FIELD
from esdedup.sketch.scheme import Scheme
from esdedup.stores import Cluster, Target, connected
from esdedup.stores.changes import ChangeReport
from esdedup.stores.elastic.bodies import Body
from esdedup.stores.elastic.component_templates import replace_meta
from esdedup.stores.elastic.indices import IndexState, attached, has_filter, path_of
from esdedup.stores.elastic.queries import sketched
from esdedup.stores.fields import quoted
from esdedup.stores.mapping import IndexMeta, TextFields, index_mapping, meta_of, names_of

_ROUNDS = 3
"""While documents are filled, a data stream may get another index, or one from a writer that knows
no esdedup. Documents that the last round leaves lack the old tokens too."""

log = logging.getLogger("esdedup")


@dataclass(frozen=True)
class SwitchPlan:
    """A change, and how far it is.

    name: of the index, alias or data stream.
    stage: "begin" if nothing is changed yet, "fill" if documents get the next tokens, "done" if
        there is nothing to do.
    meta: describes the tokens now.
    following: describes them at the end.
    """

    name: str
    stage: Literal["begin", "fill", "done"]
    meta: IndexMeta
    following: IndexMeta

    @property
    def properties(self) -> Body:
        """The mapping of the next fields, which is put beside the present ones."""
        properties: Body = index_mapping(self.following)["properties"]
        return properties


Fill = Callable[[BackfillPlan], ChangeReport]
"""Executes a plan, as `backfill` does."""
OnWait = Callable[[str], None]
"""Receives a sentence before each wait."""


def switch(
    target: Target,
    name: str,
    scheme: Scheme | None = None,
    text_field: TextFields | None = None,
    *,
    effort: Effort = Effort(),  # noqa: B008
    on_wait: OnWait = log.info,
) -> ChangeReport:
    """Change the scheme or the text field of an index while searches and writers continue.

    name: an index, alias or data stream.
    scheme, text_field: the new ones; None to resume a change.
    effort: of `backfill`.
    on_wait: called with a sentence before each wait.

    Returns the counts of the documents that got the next tokens. After an error the same call
    resumes. Raises the errors of `plan_switch` and `execute_switch`.
    """
    with connected(target) as cluster:
        plan = plan_switch(cluster, name, scheme, text_field)
        return execute_switch(cluster, plan, partial(backfill, cluster, effort=effort), on_wait)


def execute_switch(
    cluster: Cluster, plan: SwitchPlan, fill: Fill, on_wait: OnWait = log.info
) -> ChangeReport:
    """Carry out a change, and return the counts of the documents that got the next tokens.

    on_wait: as of `switch`.

    Raises StoreError if there is an obstacle, before any change, or a document was not updated.
    """
    if plan.stage == "done":
        return ChangeReport()
    filled = _fill_next(cluster, plan, fill, on_wait)
    _complete(cluster, plan)
    return filled


def plan_switch(
    cluster: Cluster, name: str, scheme: Scheme | None, text_field: TextFields | None = None
) -> SwitchPlan:
    """Return the stage of a change. scheme, text_field: as in `switch`.

    Raises UsageError if a change to others has begun, if none has begun and none is requested, if
    no index has such a text field, or if the name is an alias with a filter, as all documents of
    an index have one scheme; IndexNotFound without an index or its tokens.
    """
    named, indices, meta = attached(cluster, name)
    if named.kind == "alias" and has_filter(cluster, name):
        raise UsageError(
            f"{name!r} is an alias with a filter, and a scheme is that of all documents: name"
            f" {' or '.join(named.indices)}"
        )
    names = None if text_field is None else names_of(text_field)
    following = _begun_change(indices, meta)
    if following is not None:
        is_another_scheme = scheme is not None and scheme.id != following.full_scheme.id
        if is_another_scheme or (names or following.text_fields) != following.text_fields:
            raise UsageError(
                f"{name!r} is changing to scheme {following.full_scheme.id} of"
                f" {quoted(following.text_fields)} already: leave the scheme and the text field out"
                " to go on"
            )
        return SwitchPlan(name, "begin" if meta.next is None else "fill", meta, following)
    if scheme is None and names is None:
        raise UsageError(f"{name!r} is not changing its scheme: name a new one (`scheme`)")
    following = IndexMeta(
        scheme or meta.full_scheme,
        names or meta.text_fields,
        _free_field(indices),
        marks_in=meta.marks_field,
        external_versions=meta.external_versions,
        attached=meta.attached,
    )
    if (following.full_scheme.id, following.text_fields) == (meta.full_scheme.id, meta.text_fields):
        return SwitchPlan(name, "done", meta, meta)
    if meta.scheme.by_server or following.scheme.by_server:
        raise UsageError(
            f"{name!r} can't change between tokens of the server and others: attach a new index,"
            " copy the documents (_reindex), and point an alias to it"
        )
    if meta.other_schemes:
        raise UsageError(
            f"{name!r} has sketches of fields of their own, which can't be switched: index or"
            " reindex its documents into another index"
        )
    require_text_field(cluster, indices, following)
    return SwitchPlan(name, "begin", meta, following)


def _begun_change(indices: Sequence[IndexState], meta: IndexMeta) -> IndexMeta | None:
    """Return what describes the tokens at the end of a change that has begun, if one has."""
    # If its first step was interrupted, only some of the indices name the next scheme.
    stored_metas = [meta, *(meta_of(state.mapping) for state in indices)]
    next_metas = [stored.next for stored in stored_metas if stored is not None]
    return next((following for following in next_metas if following is not None), None)


def _free_field(indices: Sequence[IndexState]) -> str:
    """Return the name of a field for the next tokens, which no index has."""
    fields = {field for state in indices for field in state.mapping.get("properties", {})}
    numbered = (f"{FIELD}_{number}" for number in itertools.count(2))
    return next(name for name in numbered if name not in fields)


def _fill_next(cluster: Cluster, plan: SwitchPlan, fill: Fill, on_wait: OnWait) -> ChangeReport:
    """Put the next field into the mapping, and add the next tokens until none is missing."""
    if plan.stage == "begin":
        named, indices, meta = attached(cluster, plan.name)
        obstacles = [
            obstacle for state in indices for obstacle in hindrances(state, plan.following)
        ]
        if obstacles:
            raise StoreError("; ".join(map(str, obstacles)))
        replace_meta(cluster, named, indices, meta, replace(meta, next=plan.following))
    seconds = cluster.connection.waits.switch
    on_wait(f"Waiting {seconds:.0f} s until every writer fills both")
    time.sleep(seconds)
    total = ChangeReport()
    for _ in range(_ROUNDS):
        filling = plan_backfill(cluster, plan.name, following=True)
        if filling.left_out:
            raise StoreError(
                f"{plan.name!r} can't change its scheme while indices are left out:"
                f" {'; '.join(map(str, filling.left_out))}"
            )
        report = fill(filling)
        if report.failures:
            failure = report.failures[0]
            raise StoreError(
                f"documents not updated: {report.failed:,}, such as {failure.id}: {failure.reason}."
                " Switch again to go on"
            )
        total += report
        if not report.written:
            break
    return total


def _complete(cluster: Cluster, plan: SwitchPlan) -> None:
    """Make the next scheme the one that searches use, when every document has its tokens."""
    named, indices, meta = attached(cluster, plan.name)
    if meta.next is None or meta.next.full_scheme.id != plan.following.full_scheme.id:
        raise StoreError(f"{plan.name!r} is not changing to {plan.following.full_scheme.id}")
    path = path_of(plan.name)
    if cluster.count(path, sketched(meta)) and not cluster.count(path, sketched(meta.next)):
        raise StoreError(
            f"no document of {plan.name!r} got tokens of scheme {meta.next.full_scheme.id}:"
            f" searches go on with the old ones. Is the text in {quoted(meta.next.text_fields)}?"
        )
    replace_meta(cluster, named, indices, meta, meta.next)
