"""Strict mappings and objects: servers refuse a document with a field that these lack."""

import json
import re
from collections.abc import Collection, Iterable, Sequence

from esdedup.stores.mapping import IndexMapping, NewMapping

REFUSED_FIELD = "strict_dynamic_mapping_exception"
"""How the reason of servers begins."""
_REFUSAL = re.compile(r"dynamic introduction of \[(.+)\] within \[(.+)\] is not allowed")
"""Matches the part of such a reason that names the first field that a mapping lacks."""
_WHOLE_DOCUMENT = "_doc"
"""How a reason names the object of the top-level fields."""


def is_strict(mapping: IndexMapping) -> bool:
    """Return whether servers refuse documents with fields that a mapping lacks."""
    return _dynamic(mapping) == "strict"


def missing_fields(mappings: Collection[IndexMapping], names: Iterable[str]) -> list[str]:
    """Return the fields that all of several strict mappings or objects lack, sorted.

    names: dotted names of fields of documents. Of a missing object, the result has its own name
    only. Empty if one of the mappings accepts the fields, as documents may come into its index.
    """
    if not mappings:
        return []
    paths = [name.split(".") for name in names]
    return sorted(set.intersection(*(_missing(mapping, paths) for mapping in mappings)))


def refused_fields(reasons: Iterable[str]) -> set[str]:
    """Return the dotted names of the fields for which servers refused documents.

    This is also known of `strict_allow_templates`, which accepts fields that a template matches.
    """
    matches = filter(None, map(_REFUSAL.search, reasons))
    return {
        name if within == _WHOLE_DOCUMENT else f"{within}.{name}"
        for name, within in (match.groups() for match in matches)
    }


def how_to_add(index: str, names: Sequence[str]) -> str:
    """Return the request that adds fields to the mapping of an index."""
    properties: NewMapping = {}
    for name in names:
        *objects, last = name.split(".")
        fields = properties
        for parent in objects:
            fields = fields.setdefault(parent, {}).setdefault("properties", {})
        fields[last] = {"type": "keyword" if name == "id" else "..."}
    return f"PUT {index}/_mapping {json.dumps({'properties': properties}, ensure_ascii=False)}"


def _dynamic(mapping: IndexMapping, inherited: object = "true") -> str:
    """Return the setting of a mapping or object. inherited: that of the object above it."""
    return str(mapping.get("dynamic", inherited)).lower()


def _missing(mapping: IndexMapping, paths: Iterable[Sequence[str]]) -> set[str]:
    """Return the fields that a mapping lacks where it is strict."""
    runtime_fields = mapping.get("runtime", {})
    missing_paths = (
        _missing_path(mapping, path, "true") for path in paths if path[0] not in runtime_fields
    )
    return {".".join(path) for path in missing_paths if path}


def _missing_path(mapping: IndexMapping, path: Sequence[str], inherited: str) -> Sequence[str]:
    """Return the path to the first object or field that a strict mapping lacks, or ()."""
    dynamic = _dynamic(mapping, inherited)
    name, *names_below = path
    field = mapping.get("properties", {}).get(name)
    if field is None:
        return [name] if dynamic == "strict" else ()
    # Servers look into nothing else for more fields.
    is_object = field.get("type", "object") in ("object", "nested") and field.get("enabled", True)
    if not names_below or not is_object:
        return ()
    missing_path = _missing_path(field, names_below, dynamic)
    return [name, *missing_path] if missing_path else ()
