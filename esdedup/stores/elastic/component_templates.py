"""Install component templates with our fields, for the next indices of a data stream or rollover.

The user's own index templates are never changed; messages show what to add to them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from esdedup.stores.elastic.bodies import Body
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.indices import IndexState, Named, path_of, put_metas, resolve, states
from esdedup.stores.mapping import IndexMeta, analysis_of, index_mapping, meta_of, uncomputed

_UNKNOWN = frozenset({400, 403, 404})
"""Statuses of requests for templates that leave unknown what there is, such as without a right."""


def template_name(name: str) -> str:
    """Return the name of the component template for the next indices behind a name."""
    return f"esdedup-{name}"


def template_body(meta: IndexMeta, *, doc_values: bool = False) -> Body:
    """Return the component template of an index. doc_values: as of `index_mapping`."""
    analysis = analysis_of(meta)
    settings = {"settings": {"analysis": analysis}} if analysis else {}
    return {"template": {**settings, "mappings": index_mapping(meta, doc_values=doc_values)}}


def put_template(cluster: Cluster, named: Named, meta: IndexMeta) -> None:
    """Put the component template of a name."""
    path = f"/_component_template{path_of(template_name(named.name))}"
    state = next_state(cluster, named)
    doc_values = state is not None and state.rebuilds_source
    cluster.ask("PUT", path, template_body(meta, doc_values=doc_values))


def renew_template(cluster: Cluster, named: Named, meta: IndexMeta) -> None:
    """Replace the component template of an alias, if it has one; a data stream always gets one."""
    if named.kind == "alias":
        path = f"/_component_template{path_of(template_name(named.name))}"
        status, answer = cluster.ask("GET", path, allowed=frozenset({404}))
        if status == 404 or not answer["component_templates"]:
            return
    if named.kind != "index":
        put_template(cluster, named, meta)


def replace_meta(
    cluster: Cluster,
    named: Named,
    indices: Sequence[IndexState],
    stored: IndexMeta,
    meta: IndexMeta,
) -> None:
    """Replace the description of the indices behind a name, and that of the next ones."""
    # Put the same template first: without the right to, nothing must change.
    renew_template(cluster, named, stored)
    former = [stored, *(meta_of(state.mapping) for state in indices)]

    def is_former(state: IndexState) -> bool:
        described = meta_of(state.mapping)
        return described != meta and described in former

    while indices:
        put_metas(cluster, {state.name: (meta_of(state.mapping), meta) for state in indices})
        renew_template(cluster, named, meta)
        if named.kind == "index":
            return
        # A rollover in between made an index by the former template.
        indices = [*filter(is_former, states(cluster, resolve(cluster, named.name)))]


def next_has_fields(cluster: Cluster, named: Named, meta: IndexMeta) -> bool | None:
    """Return whether the next index behind a name will have our fields, or None if unknown."""
    if (state := next_state(cluster, named)) is None:
        return None
    stored = meta_of(state.mapping)
    return stored is not None and stored.holds(meta) and not uncomputed(meta, state.mapping)


def next_state(cluster: Cluster, named: Named) -> IndexState | None:
    """Return the mapping and settings of the next index behind a name, or None if unknown."""
    path = f"/_index_template/_simulate_index{path_of((named.name, *named.indices)[-1])}"
    if named.kind == "data stream":
        name = _template_of(cluster, named)
        if name is None:
            return None
        path = f"/_index_template/_simulate{path_of(name)}"
    status, answer = cluster.ask("POST", path, allowed=_UNKNOWN)
    if status != 200:
        return None
    template = answer.get("template", {})
    mapping = template.get("mappings", {})
    # Some versions return the mapping as the text of its JSON, or below a type's name.
    mapping = json.loads(mapping) if isinstance(mapping, str) else mapping
    mapping = mapping.get("_doc", mapping)
    settings = dict(_flat(template.get("settings", {})))
    return IndexState(f"the next index of {named.name}", mapping, settings)


def _flat(settings: Body, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield settings by their dotted names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def advice_on_next(cluster: Cluster, named: Named, meta: IndexMeta) -> str | None:
    """Return what remains to do, so that the next indices behind a name have our fields, if any."""
    has_fields = next_has_fields(cluster, named, meta)
    if has_fields:
        return None
    name, template = template_name(named.name), _template_of(cluster, named)
    is_installed = _is_installed(cluster, name, meta)
    composing = _composing(cluster, name)
    is_composed = bool(composing) if template is None else template in composing
    whose = f"the next indices of {named.name!r} will not have these fields"
    steps = []
    if not is_installed:
        steps.append(f"run `esdedup template -i {named.name}` with `install`")
    if not is_composed:
        maker = "that makes them" if template is None else repr(template)
        steps.append(f"add {name!r} to composed_of of the index template {maker}")
    if steps:
        limit = ". With `server`, that template can't map the text field"
        return f"{whose} yet: {', and '.join(steps)}{limit if meta.scheme.by_server else ''}"
    if has_fields is None or not named.indices:
        return None
    return (
        f"{whose}, though {', '.join(map(repr, composing))} has {name!r} in composed_of: another"
        " index template has a higher priority, or maps the text field of `server`"
    )


def _template_of(cluster: Cluster, named: Named) -> str | None:
    """Return the index template of a data stream, or None if it is unknown."""
    if named.kind != "data stream":
        return None
    path = f"/_data_stream{path_of(named.name)}"
    status, answer = cluster.ask("GET", path, allowed=_UNKNOWN)
    return answer["data_streams"][0]["template"] if status == 200 else None


def _is_installed(cluster: Cluster, name: str, meta: IndexMeta) -> bool:
    """Return whether a component template is known to have the fields of a description."""
    path = f"/_component_template{path_of(name)}"
    status, answer = cluster.ask("GET", path, allowed=_UNKNOWN)
    if status != 200 or not answer["component_templates"]:
        return False
    template = answer["component_templates"][0]["component_template"]["template"]
    stored = meta_of(template.get("mappings", {}))
    return stored is not None and stored.holds(meta)


def _composing(cluster: Cluster, name: str) -> list[str]:
    """Return the index templates that are known to compose a component template."""
    status, answer = cluster.ask("GET", "/_index_template", allowed=_UNKNOWN)
    templates = answer["index_templates"] if status == 200 else []
    return [
        template["name"]
        for template in templates
        if name in template["index_template"].get("composed_of", ())
    ]
