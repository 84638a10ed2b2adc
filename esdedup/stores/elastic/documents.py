"""Convert hits of searches to documents, and documents to lines of bulk bodies.

The version of a document is its sequence number and primary term.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from esdedup.models import Change, Document, Encoded, Held
from esdedup.stores.elastic.client import line
from esdedup.stores.to_json import to_json

_AS_IT_IS = {"pipeline": "_none"}
"""Bypasses the index's own pipeline, which the document has passed already."""


def documents_of(hits: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Return the documents of hits."""
    return [Document(hit["_id"], hit.get("_source", {})) for hit in hits]


def held_of(hit: Mapping[str, Any]) -> Held:
    """Return the document of a hit with `seq_no_primary_term`, or of an item of a multi-get."""
    return Held(
        Document(hit["_id"], hit.get("_source", {})),
        f"{hit['_seq_no']}/{hit['_primary_term']}",
        hit["_index"],
        hit.get("_routing"),
    )


def place_of(held: Held) -> dict[str, Any]:
    """Return the index, id and routing that identify a document in a bulk request or multi-get.

    A change through an alias or data stream must name the document's own index, and a document
    that was written with a routing is found only with it.
    """
    place: dict[str, Any] = {"_index": held.index, "_id": held.document.id}
    return place if held.routing is None else {**place, "routing": held.routing}


def document_line(document: Document | Encoded) -> bytes:
    """Return the line of a document. Raises RecordError if JSON can't hold it."""
    of = f"document {document.id!r}"
    if isinstance(document, Document):
        return line(document.source, of)
    added = f",{to_json(document.marks, of)[1:-1]}" if document.marks else ""
    fields = [f'"{field}":{tokens[:-1]}{added}}}' for field, tokens in document.ours.items()]
    own = [document.source[1:-1]] if len(document.source) > 2 else []
    return f"{{{','.join(own + fields)}}}\n".encode()


def lines_to_create(held: Held, index: str | None) -> bytes:
    """Return the lines that restore a document. index: None for the request's own."""
    target = {**place_of(held), "_index": index, **_AS_IT_IS}
    if index is None:
        del target["_index"]
    document = held.document
    return line({"create": target}) + line(document.source, f"document {document.id!r}")


def lines_to_change(change: Change) -> bytes:
    """Return the lines that change or delete a document if it still has its version."""
    number, term = map(int, change.held.version.split("/"))
    target = {**place_of(change.held), "if_seq_no": number, "if_primary_term": term}
    of = f"document {change.held.document.id!r}"
    if change.fields is None:
        return line({"delete": target})
    if change.whole:
        how = {} if change.new else _AS_IT_IS
        return line({"index": {**target, **how}}) + line(change.fields, of)
    return line({"update": target}) + line({"doc": change.fields}, of)
