"""Write lines of bulk requests that change documents, and leave all else in them unchanged.

A server's own update parses `_source`, and writes its numbers anew: 100.10 becomes 100.1. So a
document is written whole, with its JSON as it came, in which only our values are replaced. The
servers update documents themselves, if that changes no number, where a document that is written
whole would pass a `final_pipeline` again, or have its embeddings computed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from esdedup.exceptions import RecordError
from esdedup.models import Change, Failure, StoredDocument
from esdedup.stores.elastic.bodies import Body
from esdedup.stores.elastic.bulk import line, raw_line
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.indices import path_of, types_of
from esdedup.stores.json_text import (
    REMOVED,
    Number,
    exact_json,
    holds,
    merged_text,
    rewritten_number,
)
from esdedup.stores.mapping import meta_of

_INFERRED = ("semantic_text", "semantic")
"""Types of fields whose embeddings are computed for each document that is written whole."""
_AS_IT_IS = {"pipeline": "_none"}
"""Bypasses the index's own pipeline, which the document has passed already."""


@dataclass(frozen=True)
class Rules:
    """How documents of an index are changed.

    final_pipeline: its name, or "" if there is none.
    inferred: has fields whose embeddings the servers compute.
    external: its owner numbers the versions of documents (`external_versions`).
    """

    final_pipeline: str = ""
    inferred: bool = False
    external: bool = False


def rules_of(cluster: Cluster, index: str) -> Rules:
    """Return the rules of an index, which its owner may change at any time."""
    return cluster.remembered(("rules", index), lambda: _rules(cluster, index))


def _rules(cluster: Cluster, index: str) -> Rules:
    path, name = path_of(index), "index.final_pipeline"
    _, mappings = cluster.ask("GET", f"{path}/_mapping")
    _, settings = cluster.ask("GET", f"{path}/_settings/{name}", params={"flat_settings": "true"})
    ((_, described),) = mappings.items()
    mapping = described["mappings"]
    pipeline = settings.get(index, {}).get("settings", {}).get(name, "")
    meta = meta_of(mapping)
    return Rules(
        "" if pipeline == "_none" else pipeline,
        any(kind in _INFERRED for kind in types_of(mapping)),
        meta is not None and meta.external_versions,
    )


def place_of(stored: StoredDocument) -> Body:
    """Return the index, id and routing that identify a document in a bulk request or multi-get.

    Through an alias, a change must name the index; only with its routing is a document found.
    """
    place = {"_index": stored.index, "_id": stored.id_in_index}
    return place if stored.routing is None else {**place, "routing": stored.routing}


def lines_to_create(stored: StoredDocument, index: str | None, external: bool = False) -> bytes:
    """Return the lines that restore a document.

    index: None for the request's own. external: with the version number that it had, if it is
    known; a newer version is not replaced.
    """
    target = {**place_of(stored), "_index": index, **_AS_IT_IS}
    if index is None:
        del target["_index"]
    verb, document = "create", stored.document
    if external and stored.number is not None:
        verb, target = "index", target | _external(stored.number)
    if document.raw is not None:
        return line({verb: target}) + raw_line(document.raw)
    return line({verb: target}) + line(document.source, f"document {document.id!r}")


def lines_to_change(change: Change, rules: Rules) -> bytes | Failure:
    """Return the lines that change or delete a document if it still has its version.

    A document that is merged with fields must have been read whole. Returns a failure if other
    values in it would change.
    """
    stored, name = change.stored, f"document {change.stored.id!r}"
    target = {**place_of(stored)}
    external = rules.external and stored.number is not None
    if external:
        # A condition on the sequence number would raise the version: the owner's next write, of the
        # same number, would be refused.
        target |= _external(stored.number or 0)
    else:
        number, term = map(int, stored.version.split("/"))
        target |= {"if_seq_no": number, "if_primary_term": term}
    if change.fields is None:
        return line({"delete": target})
    if change.whole:
        options = {} if change.new else _AS_IT_IS
        body = line(change.fields, name) if change.raw is None else raw_line(change.raw)
        return line({"index": {**target, **options}}) + body
    raw = stored.raw
    if raw is None:
        raise ValueError(f"{name} was not read whole")
    if (rules.final_pipeline or rules.inferred) and not _removes(change.fields):
        rewritten = rewritten_number(raw)
        if rewritten is None and holds(change.fields, Number):
            rewritten = rewritten_number(exact_json(change.fields, name))
        if rules.final_pipeline and (fault := _fault(rules, rewritten, external)):
            return Failure(stored.id, fault)
        if rules.final_pipeline or (not external and rewritten is None):
            # Nothing to merge has the server index the document once more.
            again = {} if change.fields else {"detect_noop": False}
            return line({"update": target}) + line({"doc": change.fields, **again}, name)
    try:
        merged = merged_text(raw, change.fields, name)
    except RecordError as error:
        return Failure(stored.id, str(error))
    return line({"index": {**target, **_AS_IT_IS}}) + raw_line(merged)


def _external(number: int) -> dict[str, object]:
    return {"version": number, "version_type": "external_gte"}


def _removes(fields: Mapping[str, object]) -> bool:
    return any(
        value is REMOVED or (isinstance(value, Mapping) and _removes(value))
        for value in fields.values()
    )


def _fault(rules: Rules, number: str | None, external: bool) -> str | None:
    """Return why a document can't be changed in an index that has a final pipeline.

    number: one that the server would change.
    """
    changed = "its version number" if external else None
    if changed is None and number is not None:
        changed = f"the number {number[:40]}"
    if changed is None:
        return None
    return (
        f"an update by the server would change {changed}, and a document that is written whole"
        f" would pass the index's final_pipeline {rules.final_pipeline!r} again: set"
        " index.final_pipeline to _none for the time of this run"
    )
