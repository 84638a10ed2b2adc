"""Documents as JSON with packed tokens, which stores write without parsing them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from esdedup.models import FIELD, Document
from esdedup.sketch.packed import Packed, unpack
from esdedup.sketch.sketch import token_json


class Encoded(NamedTuple):
    """A document as JSON, to be written without parsing it.

    source: its own fields, an object. ours: its tokens, by the name of their field. marks: values
    to add in the field `marks_in`, or None.
    """

    id: str
    source: str
    ours: Mapping[str, Packed]
    marks: Mapping[str, Any] | None = None
    marks_in: str = FIELD


def fields_of(documents: Sequence[Encoded]) -> list[dict[str, str]]:
    """Return the tokens of each document as JSON, by the name of their field."""
    made: list[dict[str, str]] = [{} for _ in documents]
    places = defaultdict(list)
    for row, each in zip(made, documents, strict=True):
        for field, packed in each.ours.items():
            places[field, packed.scheme.id].append((row, packed))
    for (field, _), some in places.items():
        scheme = some[0][1].scheme
        written = token_json(unpack([packed.data for _, packed in some], scheme), scheme)
        for (row, _), tokens in zip(some, written, strict=True):
            row[field] = tokens
    return made


def documents_of(documents: Sequence[Encoded]) -> list[Document]:
    """Return the documents that are read after these were written, with their tokens."""
    made = []
    for each, fields in zip(documents, fields_of(documents), strict=True):
        ours = {field: json.loads(tokens) for field, tokens in fields.items()}
        if each.marks:
            ours[each.marks_in] = {**ours.get(each.marks_in, {}), **each.marks}
        made.append(Document(each.id, {**json.loads(each.source), **ours}))
    return made
