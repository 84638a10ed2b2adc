"""Everything in the settings and the mapping of an index that is in the way of its tokens.

`KINDS` is the list, which docs/how-to/existing-index.md shows as a table. What is named before the
mapping changes, in `check` and when documents are indexed comes from it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from esdedup.exceptions import IndexNotFound
from esdedup.models import FIELD
from esdedup.records.documents import is_ours
from esdedup.sketch.kinds.base import ValueField
from esdedup.stores import Store
from esdedup.stores.elastic.client import refreshes_soon
from esdedup.stores.elastic.component_templates import next_state
from esdedup.stores.elastic.indices import IndexState, Named, resolve, source_limits, states
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.elastic.strict_mappings import how_to_add, is_strict, missing_fields
from esdedup.stores.mapping import (
    IndexMapping,
    IndexMeta,
    SketchedFields,
    field_mapping,
    fields_of,
    meta_of,
)

Stops = Literal["attach", "index", "backfill", "nothing"]

_TEXTS = ("text", "match_only_text", "annotated_text", "keyword", "wildcard", "constant_keyword",
          "search_as_you_type", "semantic_text")  # fmt: skip
_COPY = "copy its texts to another index and search that"
_ONLY_NEW = (
    "new documents get tokens through the proxy, or from the index itself (`server` in a new"
    f" index); for those that are there, {_COPY}"
)
_PAGE = 2_000
"""Documents that commands read at once, where an index allows it."""


@dataclass(frozen=True)
class Obstacle:
    """An obstacle on an index.

    index: the name of the index.
    stops: "attach" if the mapping can't be put, "index" if `esdedup index` can't write any, and
    none can be updated, "backfill" if none can be updated, "nothing" for what is to be known.
    reason: describes it and what to do.
    name: of its kind.
    """

    index: str
    stops: Stops
    reason: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.index}: {self.reason}"


@dataclass(frozen=True)
class Kind:
    """A kind of obstacle.

    name: what the pages call it.
    stops: as of `Obstacle`.
    recognise: returns what the state of an index shows of it, nothing if it is not there.
    breaks: what does not work; "" if that is a part of what is recognised.
    way_out: what to do, with {index} for the name of the index.
    """

    name: str
    stops: Stops
    recognise: Callable[[IndexState, SketchedFields], Iterable[str]]
    breaks: str = ""
    way_out: str = ""

    def obstacles(self, state: IndexState, sketched: SketchedFields) -> Iterator[Obstacle]:
        """Yield the obstacles of this kind on an index."""
        advice = "; ".join(filter(None, (self.breaks, self.way_out.replace("{index}", state.name))))
        for sign in self.recognise(state, sketched):
            reason = f"{sign}: {advice}" if advice else sign
            yield Obstacle(state.name, self.stops, reason, self.name)


def obstacles(state: IndexState, meta: IndexMeta, *, text_known: bool = True) -> list[Obstacle]:
    """Return the obstacles that an index's mapping and settings show.

    text_known: whether the text fields of `meta` are those of the index, and not the default.
    """
    kinds = [kind for kind in KINDS if text_known or kind is not _TEXT_FIELD]
    all_obstacles = (
        obstacle
        for sketched in meta.sketched
        for kind in kinds
        for obstacle in kind.obstacles(state, sketched)
    )
    # Most are the same for all sketched fields.
    return list(dict.fromkeys(all_obstacles))


def hindrances(state: IndexState, meta: IndexMeta) -> list[Obstacle]:
    """Return the obstacles that stop an attach, an index or a backfill."""
    return [obstacle for obstacle in obstacles(state, meta) if obstacle.stops != "nothing"]


def obstacles_of(store: Store, meta: IndexMeta) -> list[Obstacle]:
    """Return the obstacles on all indices behind the name of a store; none on a local file.

    An index that does not exist has those of its template.
    """
    if not isinstance(store, ClusterStore):
        return []
    try:
        indices = states(store.cluster, resolve(store.cluster, store.index))
    except IndexNotFound:
        following = next_state(store.cluster, Named(store.index, "index", ()))
        indices = [] if following is None else [following]
    return [obstacle for state in indices for obstacle in obstacles(state, meta)]


def _closed(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if state.closed and not state.closed_by_attach:
        yield "the index is closed"


def _closed_by_attach(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if state.closed and state.closed_by_attach:
        yield "the index is closed, by an attach that was interrupted"


def _blocks(*names: str) -> Callable[[IndexState, SketchedFields], Iterator[str]]:
    def recognise(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
        for name in names:
            if state.setting(f"blocks.{name}") == "true":
                cause = " (set by the server when its disk is full)" if "allow" in name else ""
                yield f"index.blocks.{name} is set{cause}"

    return recognise


def _no_objects(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if str(state.mapping.get("subobjects", "true")).lower() == "false":
        yield "the mapping has subobjects: false"


def _taken(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    field = sketched.field
    mapped = state.mapping.get("properties", {}).get(field)
    if mapped is None:
        return
    advice = f"choose another name (`field` {FIELD}_tokens)"
    type = mapped.get("type", "object")
    if type != "object":
        yield f"the field {field!r} exists already, as {type}: {advice}"
        return
    if str(mapped.get("enabled", "true")).lower() == "false":
        yield f"the field {field!r} exists already and is disabled: {advice}"
        return
    present, ours = mapped.get("properties", {}), field_mapping(sketched.scheme)["properties"]
    # Other tools may overwrite `_meta`; then the fields below show whether it is ours.
    from_esdedup = {"scheme", "digest"} <= present.keys() and all(
        name in ours or is_ours(name) for name in present
    )
    present_types = {
        name: present[name].get("type", "object") for name in present.keys() & ours.keys()
    }
    differing = sorted(name for name, type in present_types.items() if type != ours[name]["type"])
    if differing and from_esdedup:
        yield (
            f"the field {field!r} exists already, as text, from documents that were copied with"
            " their tokens: create the index again, attach it, and copy the documents then, or"
            f" copy them without {field!r} (_source.excludes of _reindex)"
        )
    elif differing:
        name = differing[0]
        types = f"as {present_types[name]}, not {ours[name]['type']}"
        yield f"the field '{field}.{name}' exists already, {types}: {advice}"
    elif not from_esdedup and not _is_attached(state, field):
        yield (f"the field {field!r} exists already, with fields that are not of esdedup: {advice}")


def _is_attached(state: IndexState, field: str) -> bool:
    """Return whether a field is ours, now or before, by the `_meta` of an index."""
    meta = meta_of(state.mapping)
    return meta is not None and any(sketched.field == field for sketched in meta.sketched_with_next)


def _source_disabled(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if not sketched.scheme.by_server and source_limits(state.mapping, _source_mode(state))[0]:
        yield "_source is disabled"


def _source_filters(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    disabled, filters = source_limits(state.mapping, _source_mode(state))
    if filters and not disabled:
        yield f"_source has {' and '.join(filters)}"


def _text_not_in_source(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if not sketched.scheme.by_server:
        return
    if source_limits(state.mapping, _source_mode(state))[0]:
        yield "_source is disabled"
        return
    source = state.mapping.get("_source", {})
    includes, excludes = (_patterns(source.get(name)) for name in ("includes", "excludes"))
    for name in sketched.text_fields:
        if _matches(name, excludes) or (includes and not _matches(name, includes)):
            yield f"_source leaves out the field {name!r}"


def _patterns(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or ()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern matches a field, or an object that holds it."""
    steps = name.split(".")
    paths = [".".join(steps[:end]) for end in range(1, len(steps) + 1)]
    return any(fnmatchcase(path, pattern) for path in paths for pattern in patterns)


def _source_mode(state: IndexState) -> str:
    return state.setting("mapping.source.mode")


def _text_not_indexed(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if not sketched.scheme.by_server:
        return
    fields = dict(fields_of(state.mapping))
    for name in sketched.text_fields:
        steps = name.split(".")
        for end in range(1, len(steps)):
            parent = fields.get(path := ".".join(steps[:end]), {})
            if str(parent.get("enabled", "true")).lower() == "false":
                yield f"the field {name!r} is in the object {path!r}, which is not enabled"
            elif (type := parent.get("type", "object")) != "object":
                # A search of documents finds nothing within nested objects.
                yield f"the field {name!r} is in {path!r}, of type {type}"


def _time_series(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if state.setting("mode") == "time_series":
        yield "the index is in time_series mode"


def _columnar(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if state.setting("mode") == "columnar":
        yield "the index is in columnar mode"


def _no_sequence_numbers(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if state.setting("disable_sequence_numbers") == "true":
        yield "the index has no sequence numbers (index.disable_sequence_numbers)"


def _append_only(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if state.setting("append_only.enabled") == "true":
        yield "the index is append-only (index.append_only.enabled)"


def _strict_mapping(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if missing_fields([state.mapping], ["id"]):
        yield "the mapping is strict (dynamic: strict) and has no field 'id'"


def _rebuilt_source(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    mode = state.mapping.get("_source", {}).get("mode") or _source_mode(state)
    if state.rebuilds_source:
        yield "_source is rebuilt from doc values, which the fields of esdedup get here"
    elif mode == "synthetic" or state.setting("mode") in ("logsdb", "time_series"):
        yield "_source is synthetic"


def _pipelines(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if sketched.scheme.by_server:
        return
    for name in ("default_pipeline", "final_pipeline"):
        if (pipeline := state.setting(name, "_none")) not in ("", "_none"):
            yield f"documents pass the ingest pipeline {pipeline!r} (index.{name})"


def _slow_refresh(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if not refreshes_soon(interval := state.setting("refresh_interval")):
        yield f"index.refresh_interval is {interval}"


def _small_pages(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    if (window := state.setting("max_result_window")).isdigit() and int(window) < _PAGE:
        yield f"index.max_result_window is {int(window):,}"


def _text_fields(state: IndexState, sketched: SketchedFields) -> Iterator[str]:
    fields = dict(fields_of(state.mapping))
    for name in sketched.text_fields:
        if sources := _filled_from(state.mapping, name):
            yield _not_held(name, sources)
        elif name not in fields:
            yield (
                f"the mapping has no field {name!r}: documents that have it get tokens, but to find"
                " those without, all are read"
            )
        elif isinstance(name, ValueField):
            continue
        elif (type := fields[name].get("type", "object")) not in _TEXTS:
            yield (f"the field {name!r} is of type {type}: only values that are strings get tokens")


def why_no_text(state: IndexState, name: str) -> str:
    """Return why the mapping shows no text in a field, or "" if documents can have one."""
    if sources := _filled_from(state.mapping, name):
        return _not_held(name, sources)
    fields = dict(fields_of(state.mapping))
    if name in fields:
        return ""
    texts = [path for path, field in fields.items() if field.get("type") in _TEXTS]
    paths = ", ".join([path for path in sorted(texts) if not path.startswith(FIELD)][:10])
    fields_with_text = f"; fields with text: {paths}" if paths else ""
    consequence = " and, dynamic being strict, none can get it" * is_strict(state.mapping)
    advice = f"name the one that holds the text (`text_field`){fields_with_text}"
    return f"the mapping has no field {name!r}{consequence}; {advice}"


def _not_held(name: str, sources: Sequence[str]) -> str:
    return (
        f"documents do not hold the field {name!r}, which servers fill from"
        f" {', '.join(sources)}: name that (`text_field`)"
    )


def _filled_from(mapping: IndexMapping, name: str) -> list[str]:
    """Return the fields that servers fill one from: an alias, a multi-field or `copy_to`."""
    sources: list[str] = []
    for path, field in fields_of(mapping):
        copies = field.get("copy_to", [])
        if name in ([copies] if isinstance(copies, str) else copies):
            sources.append(path)
        elif path == name and field.get("type") == "alias":
            sources.append(str(field["path"]))
        elif any(name == f"{path}.{multi}" for multi in field.get("fields", {})):
            sources.append(path)
    return sources


def searchable_text(state: IndexState, sketched: SketchedFields) -> bool:
    """Return whether an `exists` query finds every document with the text."""
    # It does not find a text below a nested object, nor a keyword longer than ignore_above.
    fields = dict(fields_of(state.mapping, nested=False))
    texts = [fields.get(name, {}) for name in sketched.text_fields]
    return all(
        field.get("type") in ("text", "match_only_text")
        and str(field.get("index", "true")).lower() != "false"
        for field in texts
    )


_TEXT_FIELD = Kind("text field", "nothing", _text_fields)
PIPELINE = Kind(
    "ingest pipeline",
    "nothing",
    _pipelines,
    breaks="it may change, rename or drop texts after their tokens were computed",
    way_out=(
        "if it does, let the index compute the tokens (`server`, in a new index if this one has"
        " other tokens)"
    ),
)

KINDS: tuple[Kind, ...] = (
    Kind("closed index", "attach", _closed, way_out="open it (POST /{index}/_open)"),
    Kind(
        "closed by an interrupted attach",
        "backfill",
        _closed_by_attach,
        way_out="run the same attach again, which opens it",
    ),
    Kind(
        "read-only index",
        "attach",
        _blocks("read_only", "read_only_allow_delete", "metadata"),
        breaks="the index is read-only",
        way_out=f"set it to null, or {_COPY}",
    ),
    Kind(
        "write block",
        "backfill",
        _blocks("write"),
        breaks="the index is read-only",
        way_out=f"set it to null, or {_COPY}",
    ),
    Kind("no objects", "attach", _no_objects, breaks="the tokens are in an object", way_out=_COPY),
    Kind("field in use", "attach", _taken),
    Kind(
        "_source disabled",
        "backfill",
        _source_disabled,
        breaks="documents can't be read or updated",
        way_out="write them to an index that keeps them",
    ),
    Kind(
        "_source filters",
        "backfill",
        _source_filters,
        breaks="an update would lose the fields that are left out",
        way_out=_COPY,
    ),
    Kind(
        "text not in _source",
        "attach",
        _text_not_in_source,
        breaks="no text can be read to verify what the tokens find",
        way_out="write the documents to an index that keeps them",
    ),
    Kind(
        "text not indexed",
        "attach",
        _text_not_indexed,
        breaks="the index can't compute tokens of it that searches find",
        way_out="attach without `server`, or copy the text to a field of its own in a new index",
    ),
    Kind(
        "time series",
        "index",
        _time_series,
        breaks="no document can be updated, and `esdedup index` can't write any",
        way_out=_ONLY_NEW,
    ),
    Kind(
        "columnar",
        "attach",
        _columnar,
        breaks="no document can be updated, and none returns the object that holds its tokens",
        way_out=f"use another mode, or {_COPY}",
    ),
    Kind(
        "no sequence numbers",
        "backfill",
        _no_sequence_numbers,
        breaks="no document can be updated without overwriting changes of other clients",
        way_out=(
            "new documents get tokens from `esdedup index`, the proxy or the index itself (`server`"
            f" in a new index); for those that are there, {_COPY}"
        ),
    ),
    Kind(
        "append-only",
        "index",
        _append_only,
        breaks=(
            "no document can be updated, and `esdedup index` can't write any, as documents get no"
            " ids"
        ),
        way_out=_ONLY_NEW,
    ),
    Kind(
        "rebuilt _source",
        "nothing",
        _rebuilt_source,
        breaks="tokens come back sorted, which changes nothing for searches",
    ),
    PIPELINE,
    Kind(
        "strict mapping",
        "nothing",
        _strict_mapping,
        breaks="servers refuse records with this or any other field that the mapping lacks",
        way_out=f"before `esdedup index` writes such records, {how_to_add('{index}', ['id'])}",
    ),
    Kind(
        "slow refresh",
        "nothing",
        _slow_refresh,
        breaks="a search such as `esdedup similar` finds new documents only after a refresh",
        way_out="commands that read all documents refresh the index first",
    ),
    Kind(
        "small pages",
        "nothing",
        _small_pages,
        breaks=(
            "more requests read the documents, and `esdedup similar` compares no more candidates"
            " than that"
        ),
        way_out="raise it if `esdedup similar` reports that a match may be missing",
    ),
    _TEXT_FIELD,
)
"""All kinds of obstacles, in the order in which they are named."""
