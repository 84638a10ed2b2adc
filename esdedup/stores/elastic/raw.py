"""Parse answers of searches and multi-gets, with the JSON of each document as it came."""

from esdedup.models import Fields
from esdedup.stores.elastic.bodies import Body
from esdedup.stores.json_text import (
    VALUES,
    after_blanks,
    list_with_texts,
    values_with_texts,
    without_comments,
)

RAW = "_raw"
"""The name, in a hit, of the JSON of its `_source`."""


def with_raw(data: bytes) -> Body:
    """Parse an answer whose hits, or items of a multi-get, get the JSON of `_source` as `RAW`.

    Raises ValueError or IndexError if it is not valid.
    """
    # Servers keep halves of surrogate pairs, as Python's own parser does.
    text = data.decode("utf-8", "surrogatepass")
    try:
        return _answer(text)
    except ValueError:
        if (plain := without_comments(text)) == text:
            raise
        return _answer(plain)


def _answer(text: str) -> Body:
    readers = {"hits": _hits, "docs": _items}
    return values_with_texts(text, readers, after_blanks(text, 0))[0]


def _hits(text: str, start: int) -> tuple[Fields, int]:
    return values_with_texts(text, {"hits": _items}, start)


def _items(text: str, start: int) -> tuple[list[Fields], int]:
    return list_with_texts(text, start, _item)


def _item(text: str, start: int) -> tuple[Fields, int]:
    raw = None

    def source(text: str, start: int) -> tuple[object, int]:
        nonlocal raw
        value, end = VALUES.raw_decode(text, start)
        raw = text[start:end]
        return value, end

    item, end = values_with_texts(text, {"_source": source}, start)
    return {**item, RAW: raw}, end
