"""Find obstacles to adding our fields to an index, or to filling them in its documents."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from esdedup.models import FIELD
from esdedup.records.documents import is_ours
from esdedup.sketch.kinds.base import ValueField
from esdedup.stores.elastic.indices import IndexState, source_limits
from esdedup.stores.mapping import IndexMeta, field_mapping, fields_of, meta_of

Stops = Literal["attach", "backfill", "nothing"]
_Found = tuple[Stops, str]
"""The fields of an `Obstacle` except the index."""

_TEXTS = ("text", "match_only_text", "annotated_text", "keyword", "wildcard", "constant_keyword",
          "search_as_you_type", "semantic_text")  # fmt: skip
_COPY = "copy its texts to another index and search that"


@dataclass(frozen=True)
class Obstacle:
    """An obstacle on an index. reason: describes it and what to do.

    stops: "attach" if the mapping can't be put, "backfill" if documents can't be updated.
    """

    index: str
    stops: Stops
    reason: str

    def __str__(self) -> str:
        return f"{self.index}: {self.reason}"


def obstacles(state: IndexState, meta: IndexMeta) -> list[Obstacle]:
    """Return the obstacles that an index's mapping and settings show."""
    finders = (_closed_or_blocked, _taken, _source, _text_fields)
    every = (found for part in meta.parts for find in finders for found in find(state, part))
    return [Obstacle(state.name, *found) for found in dict.fromkeys(every)]


def hindrances(state: IndexState, meta: IndexMeta) -> list[Obstacle]:
    """Return the obstacles that stop an attach or a backfill."""
    return [obstacle for obstacle in obstacles(state, meta) if obstacle.stops != "nothing"]


def _closed_or_blocked(state: IndexState, meta: IndexMeta) -> Iterator[_Found]:
    if state.closed:
        yield "attach", f"the index is closed: open it (POST /{state.name}/_open)"
    for block in ("read_only", "read_only_allow_delete", "metadata", "write"):
        if state.setting(f"blocks.{block}") == "true":
            full = " (set by the server when its disk is full)" if "allow" in block else ""
            advice = f"the index is read-only; set it to null, or {_COPY}"
            stops: Stops = "backfill" if block == "write" else "attach"
            yield stops, f"index.blocks.{block} is set{full}: {advice}"


def _taken(state: IndexState, meta: IndexMeta) -> Iterator[_Found]:
    if str(state.mapping.get("subobjects", "true")).lower() == "false":
        reason = "the mapping has subobjects: false, and the tokens are in an object"
        yield "attach", f"{reason}: {_COPY}"
    stored = state.mapping.get("properties", {}).get(meta.field)
    if stored is None:
        return
    own = meta_of(state.mapping)
    # The fields that are ours, now or before, by the index's `_meta`.
    names = [] if own is None else [one.field for one in own.all]
    found, wanted = stored.get("properties", {}), field_mapping(meta.scheme)["properties"]
    kinds = {name: found[name].get("type", "object") for name in found.keys() & wanted.keys()}
    differing = sorted(name for name, kind in kinds.items() if kind != wanted[name]["type"])
    # Other tools may overwrite `_meta`; then the fields below show whether it is ours.
    ours = {"scheme", "digest"} <= found.keys() and all(
        name in wanted or is_ours(name) for name in found
    )
    field, how = repr(meta.field), ""
    advice = f"choose another name (--field {FIELD}_tokens)"
    if (kind := stored.get("type", "object")) != "object":
        how = f", as {kind}"
    elif str(stored.get("enabled", "true")).lower() == "false":
        how = " and is disabled"
    elif differing and ours:
        how = ", as text, from documents that were copied with their tokens"
        advice = (
            "create the index again, attach it, and copy the documents then, or copy them without"
            f" {meta.field!r} (_source.excludes of _reindex)"
        )
    elif differing:
        name = differing[0]
        field, how = f"'{meta.field}.{name}'", f", as {kinds[name]}, not {wanted[name]['type']}"
    elif meta.field not in names and not ours:
        how = ", with fields that are not of esdedup"
    if how:
        yield "attach", f"the field {field} exists already{how}: {advice}"


def _source(state: IndexState, meta: IndexMeta) -> Iterator[_Found]:
    mode = state.setting("mapping.source.mode")
    disabled, hidden = source_limits(state.mapping, mode)
    mode = state.mapping.get("_source", {}).get("mode") or mode
    if disabled:
        yield "backfill", "_source is disabled: documents can't be read or updated"
    elif hidden:
        lost = "an update would lose the fields that are left out"
        yield "backfill", f"_source has {' and '.join(hidden)}: {lost}; {_COPY}"
    elif mode == "synthetic" or state.setting("mode") == "logsdb":
        reason = "_source is synthetic: tokens come back sorted, which changes nothing for searches"
        yield "nothing", reason


def _text_fields(state: IndexState, meta: IndexMeta) -> Iterator[_Found]:
    for name in meta.text_fields:
        if reason := no_text(state, name):
            yield "nothing", reason
        elif isinstance(name, ValueField):
            continue
        elif (kind := dict(fields_of(state.mapping))[name].get("type", "object")) not in _TEXTS:
            only = f"is of type {kind}: only values that are strings get tokens"
            yield "nothing", f"the field {name!r} {only}"


def no_text(state: IndexState, name: str) -> str:
    """Return why no document of an index has a text in a field, or "" if some can have one."""
    if instead := _filled_from(state.mapping, name):
        why = f"documents do not hold the field {name!r}, which servers fill from"
        return f"{why} {', '.join(instead)}: name that (--text-field)"
    fields = dict(fields_of(state.mapping))
    if name not in fields:
        texts = [path for path, field in fields.items() if field.get("type") in _TEXTS]
        known = ", ".join([each for each in sorted(texts) if not each.startswith(FIELD)][:10])
        other = f"; fields with text: {known}" if known else ""
        strict = str(state.mapping.get("dynamic", "true")).lower() == "strict"
        never = " and, dynamic being strict, none can get it" if strict else ""
        advice = f"name the one that holds the text (--text-field){other}"
        return f"no document has a field {name!r}{never}; {advice}"
    return ""


def _filled_from(mapping: Mapping[str, Any], name: str) -> list[str]:
    """Return the fields that servers fill one from: an alias, a multi-field or `copy_to`."""
    found: list[str] = []
    for path, field in fields_of(mapping):
        copies = field.get("copy_to", [])
        if name in ([copies] if isinstance(copies, str) else copies):
            found.append(path)
        elif path == name and field.get("type") == "alias":
            found.append(str(field["path"]))
        elif any(name == f"{path}.{each}" for each in field.get("fields", {})):
            found.append(path)
    return found


def searchable_text(state: IndexState, meta: IndexMeta) -> bool:
    """Return whether an `exists` query finds every document with the text."""
    # It does not find a text below a nested object, nor a keyword longer than ignore_above.
    fields = dict(fields_of(state.mapping, nested=False))
    found = [fields.get(name, {}) for name in meta.text_fields]
    return all(
        each.get("type") in ("text", "match_only_text")
        and str(each.get("index", "true")).lower() != "false"
        for each in found
    )
