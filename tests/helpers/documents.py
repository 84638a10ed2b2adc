"""Makes documents with tokens, as an index holds them."""

from collections.abc import Sequence

from esdedup.models import Document
from esdedup.records.documents import NewDocument, encoded
from esdedup.records.files import Record
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta


def with_tokens(documents: Sequence[Document], meta: IndexMeta) -> list[Document]:
    """The documents with the tokens of their texts, which replace any that they had."""
    items = [
        NewDocument(Record("f", 0, one.source), one.id, True, text_of(one.source, meta.text_fields))
        for one in documents
    ]
    return [each.document for each in encoded(items, meta)]
