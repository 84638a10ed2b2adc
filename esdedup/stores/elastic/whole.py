"""Whether a cluster gives documents out whole, to be put back later, and how to ask for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from esdedup.exceptions import StoreError
from esdedup.stores.elastic.client import Cluster

_SETTINGS = ("index.mapping.exclude_source_vectors", "index.mapping.source.mode")
_VECTORS = ("dense_vector", "rank_vectors", "sparse_vector")


def whole_source(cluster: Cluster, path: str, mappings: Mapping[str, Mapping[str, Any]]) -> Any:
    """What to ask of `_source` for whole documents: True, or an object that only searches take.

    Elasticsearch leaves vectors out of `_source` since 9.2, in a multi-get without a way to have
    them.
    mappings: by index. Raises StoreError, naming the index, where no documents are kept whole.
    """
    _, answer = cluster.ask(
        "GET",
        f"{path}/_settings/{','.join(_SETTINGS)}",
        params={"flat_settings": "true", "include_defaults": "true"},
    )
    hidden = False
    for index, mapping in mappings.items():
        found = answer.get(index, {})
        settings = {**found.get("defaults", {}), **found.get("settings", {})}
        _check(index, mapping.get("_source", {}), str(settings.get(_SETTINGS[1], "")))
        hidden |= settings.get(_SETTINGS[0]) == "true" and any(
            kind in _VECTORS for kind in _types(mapping)
        )
    return {"exclude_vectors": False} if hidden else True


def _check(index: str, source: Mapping[str, Any], mode: str) -> None:
    why = None
    disabled = str(source.get("enabled", "true")).lower() == "false"
    if disabled or "disabled" in (str(source.get("mode")).lower(), mode.lower()):
        why = "_source is disabled"
    elif names := [name for name in ("includes", "excludes") if source.get(name)]:
        why = f"_source has {' and '.join(names)}"
    if why is not None:
        raise StoreError(
            f"index {index!r}: {why}, so that documents can't be read whole, and could not be put"
            " back as they were"
        )


def _types(mapping: Mapping[str, Any]) -> Iterator[str]:
    for field in mapping.get("properties", {}).values():
        yield str(field.get("type", "object"))
        yield from _types(field)
