"""Order documents by the keep rule, so that the first document of a group represents it."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from esdedup.arguments import check_type
from esdedup.exceptions import UsageError
from esdedup.models import Document
from esdedup.pairing.strings import Strings, byte_order, natural_key
from esdedup.stores.fields import text_at, value_at
from esdedup.text.arrays import I64

_NUMBER, _TEXT, ABSENT = b"\0", b"\1", b"\2"
_INVERTED = bytes(range(255, -1, -1))
_FEW = 30
"""Ids that are looked up one by one: each takes a tenth of the time to read all."""
_FIRST, _LAST = ("first", "oldest", "lowest"), ("last", "newest", "highest")
_FORMS = (
    "auto, first, last, longest, shortest, most-words, or first:FIELD, last:FIELD, oldest:FIELD,"
    " newest:FIELD, lowest:FIELD, highest:FIELD"
)


@dataclass(frozen=True)
class KeepRule:
    """The order of precedence of documents: the first document of a group represents it.

    by: the id, a field, the length of the text, or its number of different words and then of all
    words. auto: chosen by the measure (`Grouping.of`). last: the greatest comes first.

    Ties are in natural order of ids: a2 before a10. Numbers precede texts, and documents without
    the field come last.
    """

    by: Literal["auto", "id", "field", "length", "words"] = "id"
    last: bool = False
    field: str | None = None

    @staticmethod
    def parse(text: str) -> KeepRule:
        """Parse a rule such as "newest:published". Raises UsageError for an unknown one."""
        check_type("keep", text, "str")
        word, colon, field = text.partition(":")
        if colon and field and word in _FIRST + _LAST:
            return KeepRule("field", word in _LAST, field)
        if not colon and word in ("first", "last"):
            return KeepRule("id", word == "last")
        if not colon and word in ("longest", "shortest"):
            return KeepRule("length", word == "longest")
        if text == "auto":
            return KeepRule("auto")
        if text == "most-words":
            return KeepRule("words", last=True)
        raise UsageError(f"keep {text!r}: use {_FORMS}")

    def __str__(self) -> str:
        if self.by == "length":
            return "longest" if self.last else "shortest"
        if self.by in ("auto", "words"):
            return "auto" if self.by == "auto" else "most-words"
        word = "last" if self.last else "first"
        return f"{word}:{self.field}" if self.by == "field" else word

    def paths(self, text_fields: Sequence[str]) -> list[str]:
        """The fields that the rule needs of a document."""
        if self.by in ("length", "words"):
            return [*text_fields]
        return [self.field] if self.field is not None else []

    def key(self, document: Document, text_fields: Sequence[str]) -> bytes:
        """Return the `sort_key` of a document, for a rule by a field or by length."""
        if self.by == "length":
            text = text_at(document.source, text_fields)
            return sort_key(None if text is None else len(text), self.last)
        return sort_key(value_at(document.source, str(self.field)), self.last)

    def keys(self, documents: Iterable[Document], text_fields: Sequence[str]) -> Strings:
        """Return the keys of documents, shape (n,); none by ids or by words (`keys_by_words`)."""
        if self.by in ("id", "words"):
            return Strings.of_bytes(())
        return Strings.of_bytes([self.key(document, text_fields) for document in documents])

    def keys_by_words(self, vocabulary: I64, words: I64) -> Strings:
        """Return the keys of documents by the words of their texts, shape (n,).

        vocabulary: their numbers of different words. words: their numbers of words.
        """
        counts = zip(vocabulary.tolist(), words.tolist(), strict=True)
        return Strings.of_bytes(
            [b"".join(sort_key(count, self.last) for count in both) for both in counts]
        )

    def order(self, by_id: I64, keys: Strings) -> I64:
        """Return the rows by precedence. Raises UsageError if no document has the field.

        by_id: the rows in the natural order of ids, shape (n,). keys: by row.
        """
        if self.by == "id":
            return by_id[::-1] if self.last else by_id
        keys = keys.picked(by_id)
        if len(keys) and (keys.raw[keys.offsets[:-1]] == ABSENT[0]).all():
            raise UsageError(f"keep {self}: no document has a number or a text in that field")
        return by_id[byte_order(keys.encoded(), len(keys))[0]]


def before_others(order: I64, ids: Sequence[str], first: Collection[str]) -> I64:
    """Return rows with those of some documents before all others, each in the order given."""
    if not first:
        return order
    chosen = np.isin(order, rows_of(ids, first))
    return np.concatenate([order[chosen], order[~chosen]])


def rows_of(ids: Sequence[str], wanted: Collection[str]) -> I64:
    """Return the rows of the ids that exist, ascending."""
    names = set(wanted)
    if isinstance(ids, Strings) and len(names) <= _FEW:
        found = [row for name in names if (row := ids.row_of(name)) is not None]
        return np.array(sorted(found), np.int64)
    return np.array([row for row, id in enumerate(ids) if id in names], np.int64)


def sort_keys(rule: KeepRule, ids: Strings, keys: Sequence[bytes]) -> list[bytes]:
    """Return bytes that sort documents by a rule, of their keys by it, and then by id."""
    by_id = [natural_key(id) for id in ids.encoded()]
    if rule.by == "id":
        # The end keeps the order if one id is the beginning of another.
        return [id.translate(_INVERTED) + b"\xff" for id in by_id] if rule.last else by_id
    return [key + id for key, id in zip(keys, by_id, strict=True)]


def sort_key(value: Any, last: bool) -> bytes:
    """Return bytes that sort numbers before texts before `ABSENT`, for any other value.

    Numbers are compared as 64-bit floats. last: the greatest comes first.
    """
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\1") + b"\0\0"
        return _TEXT + (text.translate(_INVERTED) if last else text)
    try:
        number = float(value) + 0.0 if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        number = math.copysign(math.inf, value)
    if math.isnan(number):
        return ABSENT
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    written = struct.pack(">Q", bits ^ ((1 << 64) - 1 if bits >> 63 else 1 << 63))
    return _NUMBER + (written.translate(_INVERTED) if last else written)
