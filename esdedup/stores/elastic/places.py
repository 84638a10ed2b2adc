"""Ids that several indices behind one name have: "offers-000001/1" is of one document.

An id without an index is that of the document in the newest index that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from esdedup.models import StoredDocument, natural
from esdedup.stores.elastic.bodies import Query


def index_and_id(id: str, indices: Collection[str]) -> tuple[str, str] | None:
    """Return the index and the id in it; None for an id that names none of the indices."""
    index, _, id_in_index = id.partition("/")
    return (index, id_in_index) if id_in_index and index in indices else None


def ids_in_indices(ids: Iterable[str], indices: Collection[str]) -> list[str]:
    """Return the ids to search for, without indices.

    The whole of an id that names an index can be an id too.
    """
    plain_ids: dict[str, None] = {}
    for id in ids:
        plain_ids[id] = None
        if place := index_and_id(id, indices):
            plain_ids[place[1]] = None
    return [*plain_ids]


def as_requested(
    ids: Sequence[str], documents: Sequence[StoredDocument], indices: Collection[str]
) -> list[StoredDocument]:
    """Return the documents of ids, in their order, each with the id by which it is requested.

    documents: all that have an id of `ids_in_indices`.
    """
    document_of = {document.id: document for document in documents}
    if len(document_of) < len(documents):
        oldest_first = sorted(documents, key=lambda document: natural(document.index or ""))
        document_of = {document.id: document for document in oldest_first}
    in_index = {(document.index, document.id): document for document in documents}
    requested: list[StoredDocument] = []
    for id in ids:
        document = document_of.get(id)
        if document is None and (place := index_and_id(id, indices)) and place in in_index:
            document = in_index[place].requested_as(id)
        if document is not None:
            requested.append(document)
    return requested


def with_former_ids(
    documents: Iterable[StoredDocument], former: Iterable[StoredDocument]
) -> list[StoredDocument]:
    """Return documents that were read again, each with the id by which it was requested before."""
    id_of = {(document.index, document.id_in_index): document.id for document in former}
    return [
        document.requested_as(id_of.get((document.index, document.id), document.id))
        for document in documents
    ]


def query_of(id: str, indices: Collection[str]) -> Query:
    """Return the query for the documents of an id, which may name its index."""
    place = index_and_id(id, indices)
    if place is None:
        return {"ids": {"values": [id]}}
    index, id_in_index = place
    return {"bool": {"filter": [{"ids": {"values": [id_in_index]}}, {"term": {"_index": index}}]}}
