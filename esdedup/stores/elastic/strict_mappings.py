"""Strict mappings: servers refuse a document with a field that these lack."""

import json
from collections.abc import Collection, Iterable, Sequence

from esdedup.stores.mapping import IndexMapping

REFUSED_FIELD = "strict_dynamic_mapping_exception"
"""How the reason of servers begins."""


def is_strict(mapping: IndexMapping) -> bool:
    """Return whether servers refuse documents with fields that a mapping lacks."""
    return str(mapping.get("dynamic", "true")).lower() == "strict"


def missing_fields(mappings: Collection[IndexMapping], names: Iterable[str]) -> list[str]:
    """Return the top-level fields that all of several strict mappings lack, sorted.

    names: fields of documents. Empty if one of the mappings is not strict, as documents may come
    into its index.
    """
    if not mappings or not all(map(is_strict, mappings)):
        return []
    accepted = {
        name
        for mapping in mappings
        for name in (*mapping.get("properties", {}), *mapping.get("runtime", {}))
    }
    return sorted({name.partition(".")[0] for name in names} - accepted)


def how_to_add(index: str, names: Sequence[str]) -> str:
    """Return the request that adds fields to the mapping of an index."""
    types = {name: {"type": "keyword" if name == "id" else "..."} for name in names}
    return f"PUT {index}/_mapping {json.dumps({'properties': types}, ensure_ascii=False)}"
