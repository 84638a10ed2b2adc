"""Resolve names of a cluster to indices, read their settings, and change their mappings."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote

from esdedup.exceptions import IndexNotFound, StoreError, UsageError
from esdedup.models import FIELD
from esdedup.stores.elastic.bodies import Body, Query, SourceFilter
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.mapping import (
    IndexMapping,
    IndexMeta,
    common_meta,
    index_mapping,
    meta_of,
    require_attached,
    uncomputed,
)

_SETTINGS = ("index.mapping.exclude_source_vectors", "index.mapping.source.mode")
_VECTORS = ("dense_vector", "rank_vectors", "sparse_vector")
_CLOSED = f"{FIELD}_closed"
"""In `_meta`, the time at which `put_analysis` closed the index, until it is open again."""
_CLOSED_SECONDS = 3_600.0
"""Time after which an index with that note is taken for one that another client closed."""
_NEEDS_DOC_VALUES = "Unable to derive source"
"""A part of the reason why OpenSearch refuses fields of ours without doc values."""
_NO_NAME = re.compile(r'[*,?"<>| \\/#:\ud800-\udfff]')


@dataclass(frozen=True)
class Named:
    """A name, and the indices behind it.

    name: of an index, alias or data stream.
    kind: which of these it is.
    indices: names of those behind it, oldest first.
    aliases: of an index.
    """

    name: str
    kind: Literal["index", "alias", "data stream"]
    indices: tuple[str, ...]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexState:
    """The state of an index.

    name: of the index.
    mapping: with our fields, if it has them.
    settings: by dotted name.
    """

    name: str
    mapping: IndexMapping
    settings: Mapping[str, str]

    @property
    def closed(self) -> bool:
        return self.setting("verified_before_close") == "true"

    @property
    def marked_closed(self) -> bool:
        """Return whether `put_analysis` began to close the index, and did not come to its end."""
        return _CLOSED in self.mapping.get("_meta", {})

    @property
    def closed_by_attach(self) -> bool:
        """Return whether it was `put_analysis` that closed the index, if it is closed.

        It notes the time before it closes an index. Since another client may close the index after
        that too, the note counts for `_CLOSED_SECONDS`.
        """
        since = self.mapping.get("_meta", {}).get(_CLOSED)
        is_noted = isinstance(since, (int, float))
        return is_noted and abs(time.time() - since) < _CLOSED_SECONDS

    @property
    def rebuilds_source(self) -> bool:
        """Return whether `_source` is rebuilt from doc values, so that every field needs some."""
        return self.setting("derived_source.enabled") == "true"

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting, named without the prefix "index."."""
        return str(self.settings.get(f"index.{name}", default))


def path_of(name: str) -> str:
    """Return the path of an index."""
    return f"/{quote(name, safe='')}"


def check_name(name: str) -> None:
    """Raise UsageError if a text can't be the name of one index, alias or data stream."""
    if not name or name[0] in "-_+" or name in (".", "..") or _NO_NAME.search(name):
        raise UsageError(f"index name {name!r}: name one index, alias or data stream")


def resolve(cluster: Cluster, name: str) -> Named:
    """Return the indices behind a name. Raises UsageError for a pattern, or IndexNotFound."""
    check_name(name)
    status, answer = cluster.ask("GET", f"/_resolve/index{path_of(name)}", allowed=frozenset({404}))
    if status == 200:
        for stream in answer["data_streams"]:
            return Named(name, "data stream", _all_of(stream["backing_indices"]))
        for alias in answer["aliases"]:
            return Named(name, "alias", tuple(sorted(_all_of(alias["indices"]))))
        for index in answer["indices"]:
            return Named(name, "index", (index["name"],), tuple(index.get("aliases", ())))
    raise IndexNotFound(
        f"there is no index, alias or data stream {name!r} at {cluster.connection.shown}"
    )


def attached(cluster: Cluster, name: str) -> tuple[Named, list[IndexState], IndexMeta]:
    """Return the indices behind a name that has our field, their states, and their `IndexMeta`.

    Raises IndexNotFound if the name or the field does not exist, and StoreError if only some of the
    indices have it.
    """
    named = resolve(cluster, name)
    indices = states(cluster, named)
    mappings = {state.name: state.mapping for state in indices}
    meta = common_meta(mappings, name)
    if meta is None:
        raise IndexNotFound(f"{name!r} has no esdedup field: run `esdedup attach -i {name}`")
    require_attached(mappings, name)
    return replace(named, indices=tuple(mappings)), indices, meta


def has_filter(cluster: Cluster, name: str) -> bool:
    """Return whether a name is an alias with a filter.

    A filter bounds each command that reads documents by the name.
    """
    return any(alias.get("filter") is not None for alias in _alias(cluster, name).values())


def filters_of(cluster: Cluster, named: Named) -> dict[str, Query]:
    """Return the filters of an alias, by index; {} for another name.

    Raises StoreError if it is not known which filter bounds an index.
    """
    if named.kind != "alias":
        return {}
    aliases = _alias(cluster, named.name)
    if aliases and all(alias.get("filter") is None for alias in aliases.values()):
        return {}
    streams = dict[str, str]()
    if not aliases.keys() >= set(named.indices):
        # The name of an index need not show its data stream, such as after a migration.
        params = {"filter_path": "*.data_stream"}
        _, answer = cluster.ask("GET", path_of(named.name), params=params)
        streams = {index: described["data_stream"] for index, described in answer.items()}
    filters = dict[str, Query]()
    for index in named.indices:
        alias = aliases.get(index, aliases.get(streams.get(index, "")))
        if alias is None:
            raise StoreError(
                f"the filter of the alias {named.name!r} for {index!r} is not known: try again"
            )
        if (query := alias.get("filter")) is not None:
            filters[index] = query
    return filters


def _alias(cluster: Cluster, name: str) -> dict[str, Body]:
    """Return what an alias says of each index or data stream behind it; {} for another name."""
    unknown, path = frozenset({404}), f"/_alias{path_of(name)}"
    status, answer = cluster.ask("GET", f"{path_of(name)}{path}", allowed=unknown)
    if status == 404 and not cluster.is_opensearch:
        # Only so Elasticsearch lists data streams, and only it has aliases of these.
        status, answer = cluster.ask("GET", path, allowed=unknown)
    if status == 404:
        return {}
    return {
        place: described.get("aliases", {}).get(name, {}) for place, described in answer.items()
    }


def write_index(cluster: Cluster, name: str) -> str | None:
    """Return the index that a name writes new documents to; None if an alias has none."""
    named = resolve(cluster, name)
    if named.kind != "alias":
        return named.indices[-1]
    aliases = _alias(cluster, name)
    for written, alias in aliases.items():
        if len(aliases) == 1 or str(alias.get("is_write_index", "")).lower() == "true":
            # An alias can have data streams.
            return written if written in named.indices else write_index(cluster, written)
    return None


def _all_of(names: str | list[str]) -> tuple[str, ...]:
    # The servers write a list of one as a single value.
    return (names,) if isinstance(names, str) else tuple(names)


def name_for_creates(cluster: Cluster, index: str | None) -> str | None:
    """Return the name through which an index accepts new documents, or None if it does not exist.

    A write to the name of a deleted index would create it again.
    """
    if index is None:
        return None
    path, params = f"/_resolve/index{path_of(index)}", {"expand_wildcards": "all"}
    _, answer = cluster.ask("GET", path, params=params, allowed=frozenset({404}))
    for described in answer.get("indices", ()):
        if described["name"] == index:
            # A backing index of a data stream accepts new documents only by the stream's name.
            return str(described.get("data_stream", index))
    return None


def mappings_of(cluster: Cluster, name: str) -> dict[str, IndexMapping]:
    """Return the mappings of the indices behind a name, by index."""
    _, answer = cluster.ask("GET", f"{path_of(name)}/_mapping")
    return {index: described["mappings"] for index, described in answer.items()}


def states(cluster: Cluster, named: Named) -> list[IndexState]:
    """Return the state of each index behind a name, in the same order.

    An index that a lifecycle deletes between the requests is left out. Raises IndexNotFound if all
    are.
    """
    mappings, params = mappings_of(cluster, named.name), {"flat_settings": "true"}
    _, settings = cluster.ask("GET", f"{path_of(named.name)}/_settings", params=params)
    left = [name for name in named.indices if name in mappings and name in settings]
    if named.indices and not left:
        raise IndexNotFound(f"the indices of {named.name!r} were deleted meanwhile: try again")
    return [IndexState(name, mappings[name], settings[name]["settings"]) for name in left]


def whole_source(cluster: Cluster, path: str, mappings: Mapping[str, IndexMapping]) -> SourceFilter:
    """Return the `_source` to request whole documents: True, or an object for searches only.

    Since 9.2 Elasticsearch leaves vectors out of `_source`, and only a search can request them.
    mappings: by index. Raises StoreError, naming the index, if it does not keep documents whole.
    """
    params = {"flat_settings": "true", "include_defaults": "true"}
    _, answer = cluster.ask("GET", f"{path}/_settings/{','.join(_SETTINGS)}", params=params)
    hidden = False
    for index, mapping in mappings.items():
        described = answer.get(index, {})
        settings = {**described.get("defaults", {}), **described.get("settings", {})}
        disabled, filters = source_limits(mapping, str(settings.get(_SETTINGS[1], "")))
        if disabled or filters:
            why = "_source is disabled" if disabled else f"_source has {' and '.join(filters)}"
            raise StoreError(
                f"index {index!r}: {why}, so that documents can't be read whole, and could not be"
                " put back as they were"
            )
        hidden |= settings.get(_SETTINGS[0]) == "true" and maps_vectors(mapping)
    return {"exclude_vectors": False} if hidden else True


def maps_vectors(mapping: IndexMapping) -> bool:
    """Return whether a field is of a type that Elasticsearch leaves out of documents."""
    return any(kind in _VECTORS for kind in types_of(mapping))


def source_limits(mapping: IndexMapping, mode: str) -> tuple[bool, list[str]]:
    """Return whether `_source` is disabled, and its filters. mode: index.mapping.source.mode."""
    source = mapping.get("_source", {})
    modes = str(source.get("mode")).lower(), mode.lower()
    disabled = str(source.get("enabled", "true")).lower() == "false" or "disabled" in modes
    return disabled, [name for name in ("includes", "excludes") if source.get(name)]


def types_of(mapping: IndexMapping) -> Iterator[str]:
    """Yield the type of each field, also below objects."""
    for field in mapping.get("properties", {}).values():
        yield str(field.get("type", "object"))
        yield from types_of(field)


_LOADING = {"refresh_interval": "-1", "number_of_replicas": "0"}
_SUSPENDED = f"{FIELD}_suspended"
"""In `_meta`, the settings that come back when an index is loaded."""


def suspend(cluster: Cluster, index: str) -> None:
    """Suspend the refreshes and replicas of an index until `resume`, also of a later run."""
    (state,) = states(cluster, Named(index, "index", (index,)))
    meta = state.mapping.get("_meta", {})
    if _SUSPENDED not in meta:
        settings = {name: state.settings.get(f"index.{name}") for name in _LOADING}
        body = {"_meta": {**meta, _SUSPENDED: settings}}
        cluster.ask("PUT", f"{path_of(index)}/_mapping", body)
    cluster.ask("PUT", f"{path_of(index)}/_settings", {"index": _LOADING})


def resume(cluster: Cluster, index: str) -> None:
    """Restore what `suspend` suspended, if it did."""
    for name, mapping in mappings_of(cluster, index).items():
        meta = dict(mapping.get("_meta", {}))
        if (settings := meta.pop(_SUSPENDED, None)) is not None:
            cluster.ask("PUT", f"{path_of(name)}/_settings", {"index": settings})
            cluster.ask("PUT", f"{path_of(name)}/_mapping", {"_meta": meta})


def put_analysis(cluster: Cluster, index: str, analysis: Body) -> None:
    """Close an index, put analyzers into its settings, and open it.

    Raises StoreError if it can't be closed or opened, and, without closing it, PermissionDenied if
    the user can't open it or change its settings or mapping.
    """
    path = path_of(index)
    if not cluster.is_opensearch and _put_reopening(cluster, path, analysis):
        return
    # These change nothing.
    replicas = {"index": {"number_of_replicas": 1}}
    cluster.ask("POST", f"{path}/_open")
    cluster.ask("PUT", f"{path}/_settings", replicas, {"preserve_existing": "true"})
    meta = mappings_of(cluster, index)[index].get("_meta", {})
    cluster.ask("PUT", f"{path}/_mapping", {"_meta": {**meta, _CLOSED: round(time.time())}})
    try:
        _, closed = cluster.ask("POST", f"{path}/_close")
        if not closed["acknowledged"]:
            raise StoreError(f"index {index!r} can't be closed: {closed['indices']}")
        cluster.ask("PUT", f"{path}/_settings", {"index": {"analysis": analysis}})
    except StoreError as error:
        if "data stream write ind" not in str(error):
            raise
        raise StoreError(
            f"index {index!r} is being written to: install its template (`esdedup template` with"
            f" `server` and `install`), roll over, and try again ({error})"
        ) from error
    finally:
        try:
            open_again(cluster, index)
        except StoreError as error:
            raise type(error)(
                f"index {index!r} may be closed: open it (POST /{index}/_open): {error}"
            ) from error


def _put_reopening(cluster: Cluster, path: str, analysis: Body) -> bool:
    """Have Elasticsearch close and open an index by itself; False before 8.12, which can't.

    It does so in one change of its state, which no client that ends can interrupt.
    """
    # Without the right to change the mapping, nothing must change.
    cluster.ask("PUT", f"{path}/_mapping", {})
    try:
        settings = {"index": {"analysis": analysis}}
        cluster.ask("PUT", f"{path}/_settings", settings, {"reopen": "true"})
    except StoreError as error:
        if "unrecognized parameter" in str(error):
            return False
        raise
    return True


def open_again(cluster: Cluster, index: str) -> None:
    """Open an index that `put_analysis` closed, and remove its note."""
    cluster.ask("POST", f"{path_of(index)}/_open")
    meta = dict(mappings_of(cluster, index)[index].get("_meta", {}))
    if meta.pop(_CLOSED, None) is not None:
        cluster.ask("PUT", f"{path_of(index)}/_mapping", {"_meta": meta})


def put_fields(
    put: Callable[[IndexMapping], object],
    meta: IndexMeta,
    mapping: IndexMapping = MappingProxyType({}),
) -> None:
    """Put our fields, with doc values if the index can't do without.

    put: sends a mapping.
    mapping: as of `index_mapping`.
    """
    try:
        put(index_mapping(meta, mapping))
    except StoreError as error:
        if _NEEDS_DOC_VALUES not in str(error):
            raise
        put(index_mapping(meta, mapping, doc_values=True))


def create(
    cluster: Cluster,
    path: str,
    body: IndexMapping,
    settings: Mapping[str, object],
    with_vectors: bool,
) -> None:
    """Create an index.

    with_vectors: its documents hold vectors, to be returned as they came. Elasticsearch leaves them
    out of `_source` since 9.2, and rounds them when it restores them, unless their length is 1.
    """

    def put(settings: Mapping[str, object]) -> None:
        cluster.ask("PUT", path, {"settings": settings, **body} if settings else body)

    if not with_vectors or cluster.is_opensearch:
        put(settings)
        return
    try:
        put({**settings, _SETTINGS[0]: False})
    except StoreError as error:
        # Earlier versions have no such setting, and keep vectors.
        if _SETTINGS[0] not in str(error):
            raise
        put(settings)


def put_metas(cluster: Cluster, changes: Mapping[str, tuple[IndexMeta | None, IndexMeta]]) -> None:
    """Put our fields and `_meta` into the mappings of indices.

    The servers put a mapping unconditionally. So each client reads it just before it puts its own,
    and again when every client that had read before has put: of two, either the later one sees the
    change of the earlier one, or the earlier one sees that its change was replaced.

    changes: by index, its `IndexMeta` now, None if it has none, and the one to put. Raises
    StoreError if an index has another one, before or afterwards.
    """
    put: dict[str, IndexMeta] = {}
    for index, (before, after) in changes.items():
        mapping = mappings_of(cluster, index)[index]
        stored = meta_of(mapping)
        if stored == after and not uncomputed(after, mapping):
            continue
        if stored != before:
            raise _changed(index, stored)
        try:
            put_fields(partial(cluster.ask, "PUT", f"{path_of(index)}/_mapping"), after, mapping)
        except StoreError as error:
            reason = str(error)
            if "Limit of total fields" in reason:
                reason = f"the mapping is full ({error}): raise index.mapping.total_fields.limit"
            elif "synthetic source" in reason:
                reason = f"this version takes no such fields beside a synthetic _source ({error})"
            elif "has not been configured" in reason:
                reason = (
                    f"it lacks the analyzer ({error}): run `esdedup attach -i {index}` with"
                    " `server`"
                )
            raise type(error)(f"index {index!r}: {reason}") from error
        put[index] = after
    if put:
        time.sleep(cluster.connection.waits.settle)
    for index, meta in put.items():
        if (stored := meta_of(mappings_of(cluster, index)[index])) != meta:
            raise _changed(index, stored)


def _changed(index: str, stored: IndexMeta | None) -> StoreError:
    says = "no esdedup fields" if stored is None else f"scheme {stored.scheme.id}"
    return StoreError(
        f"index {index!r} was changed by another client at the same time, and has {says} now: look"
        f" at it (`esdedup check -i {index}`), and try again"
    )
