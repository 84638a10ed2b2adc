"""Documents as JSON with packed tokens, which stores write without parsing them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from esdedup.models import FIELD, Document
from esdedup.sketch.packed import Packed, unpack
from esdedup.sketch.scheme import Scheme
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

    @property
    def document(self) -> Document:
        """The document that is read after this one was written, with its tokens."""
        ours = {field: json.loads(each) for field, each in fields_of([self])[0].items()}
        if self.marks:
            ours[self.marks_in] = {**ours.get(self.marks_in, {}), **self.marks}
        return Document(self.id, {**json.loads(self.source), **ours})


def fields_of(documents: Sequence[Encoded]) -> list[dict[str, str]]:
    """Return the tokens of each document as JSON, by the name of their field."""
    schemes: dict[tuple[str, str], Scheme] = {}
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, each in enumerate(documents):
        for field, (scheme, _) in each.ours.items():
            schemes[field, scheme.id] = scheme
            rows[field, scheme.id].append(row)
    made: list[dict[str, str]] = [{} for _ in documents]
    for (field, id), some in rows.items():
        sketches = unpack([documents[row].ours[field].data for row in some], schemes[field, id])
        for row, tokens in zip(some, token_json(sketches, schemes[field, id]), strict=True):
            made[row][field] = tokens
    return made
