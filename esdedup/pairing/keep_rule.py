"""Orders documents by the keep rule, which chooses the representative of each group.

All documents are sorted by the rule before groups are found, so that the first row of a group is
its representative (`groups`). Documents that are grouped as they come in follow the nearest earlier
representative instead (`ingest.near_duplicates`).
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from esdedup.arguments import check_type
from esdedup.exceptions import UsageError
from esdedup.models import Document
from esdedup.pairing.strings import Strings, natural_keys
from esdedup.stores.fields import text_at, value_at
from esdedup.text.arrays import I64

_NUMBER, _TEXT, ABSENT = b"\0", b"\1", b"\2"
_INVERTED = bytes(range(255, -1, -1))
_FEW = 30
"""Ids that are looked for one by one: each takes a tenth of the time to read all."""
_FORMS = "first, last, first:FIELD, last:FIELD, oldest:FIELD, newest:FIELD, longest or shortest"


@dataclass(frozen=True)
class KeepRule:
    """The order of precedence of documents: the first document of a group represents it.

    by: the id, a field, or the length of the text.
    last: the greatest comes first.
    field: name of the field.

    Ties go by id, in natural order: a2 before a10. Numbers come before texts. Documents without
    the field come last.
    """

    by: Literal["id", "field", "length"] = "id"
    last: bool = False
    field: str | None = None

    @staticmethod
    def parse(text: str) -> KeepRule:
        """The rule named by text such as "newest:published". Raises UsageError if it is unknown."""
        check_type("keep", text, "str")
        word, colon, field = text.partition(":")
        if colon and field and word in ("first", "last", "oldest", "newest"):
            return KeepRule("field", word in ("last", "newest"), field)
        if not colon and word in ("first", "last"):
            return KeepRule("id", word == "last")
        if not colon and word in ("longest", "shortest"):
            return KeepRule("length", word == "longest")
        raise UsageError(f"keep {text!r}: use {_FORMS}")

    def __str__(self) -> str:
        if self.by == "length":
            return "longest" if self.last else "shortest"
        word = "last" if self.last else "first"
        return f"{word}:{self.field}" if self.by == "field" else word

    def paths(self, text_fields: Sequence[str]) -> list[str]:
        """The fields that the rule needs of a document."""
        if self.by == "length":
            return [*text_fields]
        return [self.field] if self.field is not None else []

    def key(self, document: Document, text_fields: Sequence[str]) -> float | str | None:
        """The number or text that a document is ordered by; None if it has neither."""
        if self.by == "id":
            return None
        if self.by == "length":
            text = text_at(document.source, text_fields)
            return None if text is None else len(text)
        found = value_at(document.source, str(self.field))
        return found if isinstance(found, (int, float, str)) else None

    def keys(self, documents: Sequence[Document], text_fields: Sequence[str]) -> list[Any]:
        """The keys that order documents, but for their ids; nothing if only those count."""
        if self.by == "id":
            return []
        return [self.key(document, text_fields) for document in documents]

    def order(self, by_id: I64, keys: Sequence[Any]) -> I64:
        """The rows by precedence. Raises UsageError if no document has the field.

        by_id: the rows in the natural order of ids, shape (n,). keys: by row, as `keys` gives them.
        """
        if self.by == "id":
            return by_id[::-1] if self.last else by_id
        rows = by_id.tolist()
        numbers = [row for row in rows if isinstance(keys[row], (int, float))]
        texts = [row for row in rows if isinstance(keys[row], str)]
        if rows and not numbers and not texts:
            raise UsageError(f"keep {self}: no document has a number or a text in that field")
        absent = [row for row in rows if keys[row] is None]
        for some in (numbers, texts):
            some.sort(key=keys.__getitem__, reverse=self.last)
        return np.array([*numbers, *texts, *absent], np.int64)


def before_others(order: I64, ids: Sequence[str], first: Collection[str]) -> I64:
    """Return rows with those of some documents before all others, each in the order given.

    order: rows, shape (n,). ids: by row. first: ids of these documents.
    """
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
    """Bytes that sort as `KeepRule.order` puts rows, for rows that do not lie in one process.

    keys: by row, as `sort_key` gives them; they do not matter if only ids count.
    """
    natural = natural_keys(ids)
    raw, ends = natural.raw.tobytes(), natural.offsets.tolist()
    by_id = [raw[start:end] for start, end in itertools.pairwise(ends)]
    if rule.by == "id":
        return [_descending(key) for key in by_id] if rule.last else by_id
    return [key + id for key, id in zip(keys, by_id, strict=True)]


def sort_key(key: Any, last: bool) -> bytes:
    """Bytes that sort numbers before texts, and `ABSENT`, for rows without either, after them.

    key: as `KeepRule.key` gives it. A float that is no number counts as absent. last: the greatest
    comes first.
    """
    if isinstance(key, str):
        written = key.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\1") + b"\0\0"
        return _TEXT + (written.translate(_INVERTED) if last else written)
    if not isinstance(key, (int, float)):
        return ABSENT
    try:
        near = float(key) + 0.0
    except OverflowError:
        near = math.inf if key > 0 else -math.inf
    if math.isnan(near):
        return ABSENT
    (bits,) = struct.unpack(">Q", struct.pack(">d", near))
    bits ^= (1 << 64) - 1 if bits >> 63 else 1 << 63
    # Whole numbers beyond 2**53 differ from the nearest float.
    rest = int(key) - int(near) if isinstance(key, int) and math.isfinite(near) else 0
    rest = max(-(1 << 63), min(rest, (1 << 63) - 1))
    written = struct.pack(">QQ", bits, rest + (1 << 63))
    return _NUMBER + (written.translate(_INVERTED) if last else written)


def _descending(key: bytes) -> bytes:
    """Bytes that sort the other way round, also if one is the beginning of another."""
    return key.translate(_INVERTED) + b"\xff"
