"""What stands in the way of adding our fields to an index, or of filling them in its documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from esdedup.datatypes import FIELD
from esdedup.schema import IndexMeta, field_mapping
from esdedup.stores.indices import IndexState

Stops = Literal["attach", "backfill", "nothing"]

_TEXTS = ("text", "match_only_text", "annotated_text", "keyword", "wildcard", "constant_keyword",
          "search_as_you_type", "semantic_text")  # fmt: skip


@dataclass(frozen=True)
class Obstacle:
    """Something found on an index.

    stops: "attach" where the mapping can't be put, "backfill" where documents can't be updated,
    "nothing" for what is only worth knowing. reason: what it is, and what to do.
    """

    index: str
    stops: Stops
    reason: str

    def __str__(self) -> str:
        return f"{self.index}: {self.reason}"


def obstacles(state: IndexState, meta: IndexMeta) -> list[Obstacle]:
    """All that can be told from an index's mapping and settings."""
    return [
        Obstacle(state.name, stops, reason)
        for find in (_blocked, _field_taken, _source, _unchangeable, _text_field)
        for stops, reason in find(state, meta)
    ]


def _blocked(state: IndexState, meta: IndexMeta) -> Iterator[tuple[Stops, str]]:
    if state.closed:
        yield "attach", f"the index is closed: open it (POST /{state.name}/_open)"
    for block, stops in (
        ("read_only", "attach"),
        ("read_only_allow_delete", "attach"),
        ("metadata", "attach"),
        ("write", "backfill"),
    ):
        if state.setting(f"blocks.{block}") == "true" and not _mounted(state):
            full = " (set by the server when its disk is full)" if "allow" in block else ""
            yield (
                stops,
                (  # type: ignore[misc]
                    f"index.blocks.{block} is set{full}: the index is read-only; set it to null, or"
                    " fill a sidecar index (--sidecar)"
                ),
            )


def _field_taken(state: IndexState, meta: IndexMeta) -> Iterator[tuple[Stops, str]]:
    """The field of our name that somebody else made."""
    stored = state.mapping.get("properties", {}).get(meta.field)
    advice = f"choose another name (--field {FIELD}_tokens)"
    if stored is None:
        return
    kind = stored.get("type", "object")
    if kind != "object":
        yield "attach", f"the field {meta.field!r} exists already, as {kind}: {advice}"
        return
    if str(stored.get("enabled", "true")).lower() == "false":
        yield "attach", f"the field {meta.field!r} exists already and is disabled: {advice}"
    for name, wanted in field_mapping(meta.scheme)["properties"].items():
        found = stored.get("properties", {}).get(name, wanted)
        if found.get("type", "object") != wanted["type"]:
            yield (
                "attach",
                (
                    f"the field '{meta.field}.{name}' exists already, as"
                    f" {found.get('type', 'object')}, not {wanted['type']}: {advice}"
                ),
            )


def _source(state: IndexState, meta: IndexMeta) -> Iterator[tuple[Stops, str]]:
    """A `_source` that an update can't start from."""
    stored = state.mapping.get("_source", {})
    mode = stored.get("mode") or state.setting("mapping.source.mode")
    if str(stored.get("enabled", "true")).lower() == "false" or mode == "disabled":
        yield (
            "backfill",
            (
                "_source is disabled: documents can be neither read nor updated; a sidecar index"
                f" (--sidecar) can be filled only where {meta.text_field!r} is stored"
            ),
        )
    elif hidden := [name for name in ("includes", "excludes") if stored.get(name)]:
        yield (
            "backfill",
            (
                f"_source has {' and '.join(hidden)}: an update would lose the fields that are left"
                " out; fill a sidecar index (--sidecar)"
            ),
        )
    elif mode == "synthetic" or state.setting("mode") == "logsdb":
        yield (
            "nothing",
            ("_source is synthetic: tokens come back sorted, which changes nothing for searches"),
        )


def _unchangeable(state: IndexState, meta: IndexMeta) -> Iterator[tuple[Stops, str]]:
    if state.setting("mode") == "time_series":
        yield "backfill", ("a time series index takes no updates: fill a sidecar index (--sidecar)")
    if _mounted(state):
        yield (
            "backfill",
            (
                "the index is mounted from a snapshot (frozen or searchable) and takes no updates:"
                " fill a sidecar index (--sidecar)"
            ),
        )


def _mounted(state: IndexState) -> bool:
    return state.setting("store.type") in ("snapshot", "remote_snapshot")


def _text_field(state: IndexState, meta: IndexMeta) -> Iterator[tuple[Stops, str]]:
    found = field_at(state.mapping, meta.text_field)
    if found is None:
        known = ", ".join(sorted(_text_fields(state.mapping))[:10])
        other = f"; fields with text: {known}" if known else ""
        strict = " and, dynamic being strict, none can get it" if _strict(state) else ""
        yield (
            "nothing",
            (
                f"no document has a field {meta.text_field!r}{strict}; name the one that holds the"
                f" text (--text-field){other}"
            ),
        )
    elif found.get("type", "object") not in _TEXTS:
        yield (
            "nothing",
            (
                f"the field {meta.text_field!r} is of type {found.get('type', 'object')}: only"
                " values that are strings get tokens"
            ),
        )


def _strict(state: IndexState) -> bool:
    return str(state.mapping.get("dynamic", "true")).lower() == "strict"


def field_at(mapping: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """The mapping of a field by its dotted name, or None where there is none."""
    properties = mapping.get("properties", {})
    if path in properties:
        found: Mapping[str, Any] = properties[path]
        return found
    for cut, character in enumerate(path):
        if character == "." and path[:cut] in properties:
            below = field_at(properties[path[:cut]], path[cut + 1 :])
            if below is not None:
                return below
    return None


def _text_fields(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, field in mapping.get("properties", {}).items():
        if "properties" in field:
            if not f"{prefix}{name}".startswith(FIELD):
                yield from _text_fields(field, f"{prefix}{name}.")
        elif field.get("type") in _TEXTS:
            yield f"{prefix}{name}"


def searchable_text(state: IndexState, meta: IndexMeta) -> bool:
    """Whether an `exists` query finds every document with the text."""
    found = field_at(state.mapping, meta.text_field)
    # A keyword past ignore_above, say, is there and not found.
    return (
        found is not None
        and found.get("type") in ("text", "match_only_text")
        and str(found.get("index", "true")).lower() != "false"
    )
