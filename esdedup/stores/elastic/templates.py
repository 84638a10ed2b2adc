"""Install component templates with our fields, for the next indices of a data stream or rollover.

The user's own index templates are never changed; messages show what to add to them.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from esdedup.exceptions import PermissionDenied, UsageError
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.indices import Named, path_of
from esdedup.stores.mapping import IndexMeta, index_mapping, meta_of


@dataclass(frozen=True)
class TemplatePlan:
    """A component template, and whether the next index will have its fields.

    name, body: of the component template. index_template: makes the next index; None if there is
    none. composed: the index template composes the component template. ready: an index that it
    makes now has the fields, from this or another component template.
    """

    name: str
    body: Mapping[str, Any]
    index_template: str | None
    composed: bool
    ready: bool

    @property
    def advice(self) -> str | None:
        """What the user has to do after the component template is installed, or None."""
        if self.composed or self.ready:
            return None
        if self.index_template is None:
            return (
                f"no index template matches this name: add {self.name!r} to composed_of of the one"
                " that will make its indices"
            )
        return (
            f"add {self.name!r} to composed_of of your index template {self.index_template!r}:"
            " until then, indices that it makes have no esdedup fields"
        )


def plan_template(cluster: Cluster, named: Named, meta: IndexMeta) -> TemplatePlan:
    """Return the component template for the next indices behind a name, without installing it.

    Raises UsageError if another component template has its name.
    """
    name = f"esdedup-{named.name}"
    stored = _stored(cluster, name)
    if stored is not None and meta_of(stored.get("mappings", {})) is None:
        raise UsageError(f"component template {name!r} exists and is not of esdedup: rename it")
    index_template = _template_of(cluster, named, name)
    composed = ready = False
    if index_template is not None:
        _, answer = cluster.ask("GET", f"/_index_template{path_of(index_template)}")
        parts = answer["index_templates"][0]["index_template"].get("composed_of", [])
        composed = name in parts
        ready = _gives(cluster, index_template, meta, composed)
    body = {"template": {"mappings": index_mapping(meta)}}
    return TemplatePlan(name, body, index_template, composed, ready)


def renew_template(cluster: Cluster, named: Named, meta: IndexMeta) -> bool:
    """Replace our component template of a name; a data stream always gets one.

    Returns False if the user can't see component templates and the name is of one index, which
    rarely has one. Raises PermissionDenied for other names.
    """
    try:
        stored = _stored(cluster, f"esdedup-{named.name}")
    except PermissionDenied:
        if named.kind != "index":
            raise
        return False
    if named.kind == "data stream" or stored is not None:
        install_template(cluster, plan_template(cluster, named, meta))
    return True


def install_template(cluster: Cluster, plan: TemplatePlan) -> None:
    """Put the component template, and nothing else."""
    try:
        cluster.ask("PUT", f"/_component_template{path_of(plan.name)}", plan.body)
    except PermissionDenied as error:
        raise PermissionDenied(
            f"{error}. A component template needs the cluster privilege 'manage_index_templates'"
            " (Elasticsearch) or cluster:admin/component_template/put (OpenSearch)"
        ) from error


def _stored(cluster: Cluster, name: str) -> Mapping[str, Any] | None:
    path = f"/_component_template{path_of(name)}"
    status, answer = cluster.ask("GET", path, allowed=frozenset({404}))
    if status == 404 or not answer["component_templates"]:
        return None
    found: Mapping[str, Any] = answer["component_templates"][0]["component_template"]["template"]
    return found


def _template_of(cluster: Cluster, named: Named, component: str) -> str | None:
    """The index template of a data stream, or else the one whose patterns match the name.

    If none matches, one that composes our component template makes the indices.
    """
    if named.kind == "data stream":
        _, answer = cluster.ask("GET", f"/_data_stream{path_of(named.name)}")
        for stream in answer["data_streams"]:
            return str(stream["template"])
    _, answer = cluster.ask("GET", "/_index_template")
    ranked = []
    for found in answer["index_templates"]:
        template, names = found["index_template"], [*named.indices[-1:], named.name]
        pairs = itertools.product(names, template["index_patterns"])
        matches = any(itertools.starmap(fnmatch.fnmatchcase, pairs))
        if matches or component in template.get("composed_of", []):
            ranked.append((matches, int(template.get("priority") or 0), str(found["name"])))
    return max(ranked)[-1] if ranked else None


def _gives(cluster: Cluster, index_template: str, meta: IndexMeta, unknown: bool) -> bool:
    """Return whether an index that the template makes has the fields.

    unknown: returned if the user may not simulate templates.
    """
    path = f"/_index_template/_simulate{path_of(index_template)}"
    status, answer = cluster.ask("POST", path, allowed=frozenset({400, 403, 404}))
    if status != 200:
        return unknown
    mapping = answer.get("template", {}).get("mappings", {})
    # Some versions return the mapping as the text of its JSON, or below a type's name.
    mapping = json.loads(mapping) if isinstance(mapping, str) else mapping
    found = meta_of(mapping.get("_doc", mapping))
    # Stop lists do not matter, because a token that one index stops is stopped in all of them.
    return found is not None and replace(found, stop=()) == replace(meta, stop=())
