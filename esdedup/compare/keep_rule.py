"""Order documents by the keep rule, so that the first document of a group represents it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from esdedup.arguments import check_type
from esdedup.exceptions import UsageError
from esdedup.models import Document, TimeField
from esdedup.stores.fields import text_at, value_at
from esdedup.text.arrays import I64
from esdedup.text.characters import count
from esdedup.text.instants import KINDS, instant_of, number_of
from esdedup.text.strings import Strings, byte_order, natural_key

_NUMBER, _TEXT, ABSENT, UNORDERED = b"\0", b"\1", b"\2", b"\3"
_INVERTED = bytes(range(255, -1, -1))
_FEW = 30
"""Ids that are looked up one by one: each takes a tenth of the time to read all."""
_INSTANT_BYTES, _INSTANT_ZERO = 12, 1 << 95
"""Of a time in nanoseconds: that of any year with four digits fits."""
EXAMPLES = 3
"""Documents that a message names."""
_SHOWN = 60
"""Characters of a value in a message."""
Compared = Literal["value", "time", "number"]
_WORDS: Mapping[Compared, tuple[str, str]] = MappingProxyType(
    {"value": ("first", "last"), "time": ("oldest", "newest"), "number": ("lowest", "highest")}
)
"""By how the values of a field are compared: the words for the least and the greatest."""
_FORMS = (
    "auto, first, last, longest, shortest, most-words, or first:FIELD, last:FIELD, oldest:FIELD,"
    " newest:FIELD, lowest:FIELD, highest:FIELD, first:FIELD=VALUE,VALUE"
)


@dataclass(frozen=True)
class Unordered:
    """Documents whose value a keep rule can't compare, such as a text that is no time.

    count: their number. examples: ids and values of a few.
    """

    count: int = 0
    examples: Sequence[tuple[str, str]] = ()

    def warning(self, rule: KeepRule) -> str | None:
        """Return a sentence about them, or None if there are none."""
        if not self.count:
            return None
        listed = ", ".join(f"{value!r} of document {id!r}" for id, value in self.examples)
        kind = "time" if rule.compared == "time" else "number"
        documents = count(self.count, "document has", "documents have")
        return (
            f"keep {rule}: {documents} a value that is no {kind}, and comes last, such as {listed}"
        )


@dataclass(frozen=True)
class KeepRule:
    """The order of precedence of documents: the first document of a group represents it.

    by: the id, a field, the length of the text, or its number of different words and then of all
    words. auto: chosen by the measure (`Plan`). last: the greatest comes first.
    compared: values of the field as times (`instants`), as numbers, or as they are: numbers, which
    precede texts.
    values: texts of the field's values, the preferred ones first; none to compare the values.

    Ties are in natural order of ids: a2 before a10. Documents without the field come last, after
    them those whose value can't be compared.
    """

    by: Literal["auto", "id", "field", "length", "words"] = "id"
    last: bool = False
    field: str | None = None
    compared: Compared = "value"
    values: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> KeepRule:
        """Parse a rule such as "newest:published". Raises UsageError for an unknown one."""
        check_type("keep", text, "str")
        word, colon, field = text.partition(":")
        if "=" in field and word in _WORDS["value"]:
            return _preferring(text)
        for compared, words in _WORDS.items():
            if colon and field and word in words:
                return KeepRule("field", word == words[1], field, compared)
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
        word = _WORDS[self.compared][self.last]
        preferred = f"={','.join(self.values)}" if self.values else ""
        return f"{word}:{self.field}{preferred}" if self.by == "field" else word

    def paths(self, text_fields: Sequence[str]) -> list[str]:
        """The fields that the rule needs of a document."""
        if self.by in ("length", "words"):
            return [*text_fields]
        if self.field is None:
            return []
        return [TimeField(self.field) if self.compared == "time" else self.field]

    def key(self, document: Document, text_fields: Sequence[str]) -> bytes:
        """Return the `sort_key` of a document, for a rule by a field or by length."""
        if self.by == "length":
            text = text_at(document.source, text_fields)
            return sort_key(None if text is None else len(text), self.last)
        value = value_at(document.source, str(self.field))
        if self.values:
            return _preference_key(value, self.values)
        if self.compared == "value":
            return sort_key(value, self.last)
        if isinstance(value, (list, dict)) or value in (None, ""):
            return ABSENT
        if self.compared == "time":
            return _time_key(value, self.last)
        number = number_of(value)
        return _unordered(value) if number is None else sort_key(number, self.last)

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
        if len(keys) and (keys.raw[keys.offsets[:-1]] >= ABSENT[0]).all():
            raise UsageError(self.nothing_to_compare())
        # The values that can't be compared are no order.
        encoded = (key[:1] if key.startswith(UNORDERED) else key for key in keys.encoded())
        return by_id[byte_order(encoded, len(keys))[0]]

    def nothing_to_compare(self) -> str:
        """Return the message for documents of which none has a value to compare."""
        if self.values:
            return f"keep {self}: no document has one of these values in field {self.field!r}"
        values = {"value": "a number or a text", "time": "a time", "number": "a number"}
        return f"keep {self}: no document has {values[self.compared]} in that field"

    def unordered(self, keys: Strings, ids_of: Callable[[I64], Sequence[str]]) -> Unordered:
        """Return the documents whose value can't be compared.

        keys: of all documents. ids_of: returns the ids of rows. Raises UsageError if the values of
        a field are times of two kinds.
        """
        if self.by != "field" or self.compared == "value" or not len(keys):
            return Unordered()
        first = keys.raw[keys.offsets[:-1]]
        if self.compared == "time":
            rows = np.flatnonzero(first == _NUMBER[0])
            kinds, firsts = np.unique(keys.raw[keys.offsets[1:][rows] - 1], return_index=True)
            examples = zip(kinds.tolist(), ids_of(rows[firsts]), strict=True)
            if message := self.several_kinds({KINDS[kind]: id for kind, id in examples}):
                raise UsageError(message)
        rows = np.flatnonzero(first == UNORDERED[0])
        shown = rows[:EXAMPLES]
        values = [text_of_key(key) or "" for key in keys.picked(shown).encoded()]
        return Unordered(rows.size, tuple(zip(ids_of(shown), values, strict=True)))

    def several_kinds(self, examples: Mapping[str, str]) -> str | None:
        """Return the message for times of several kinds. examples: an id by kind."""
        forms = [f"document {id!r} has {kind}" for kind, id in examples.items() if kind]
        if len(forms) < 2:
            return None
        return f"keep {self}: {' and '.join(forms[:2])} in that field: use times of one form"


def before_others(order: I64, ids: Sequence[str], first: Collection[str]) -> I64:
    """Return rows with those of some documents before all others, each in the order given."""
    if not first:
        return order
    chosen = np.isin(order, rows_of(ids, first))
    return np.concatenate([order[chosen], order[~chosen]])


def rows_of(ids: Sequence[str], chosen: Collection[str]) -> I64:
    """Return the rows of those of the chosen ids that exist, ascending."""
    chosen_ids = set(chosen)
    if isinstance(ids, Strings) and len(chosen_ids) <= _FEW:
        rows = [row for id in chosen_ids if (row := ids.row_of(id)) is not None]
        return np.array(sorted(rows), np.int64)
    return np.array([row for row, id in enumerate(ids) if id in chosen_ids], np.int64)


def sort_keys(rule: KeepRule, ids: Strings, keys: Sequence[bytes]) -> list[bytes]:
    """Return bytes that sort documents by a rule, of their keys by it, and then by id."""
    by_id = [natural_key(id) for id in ids.encoded()]
    if rule.by == "id":
        # The end keeps the order if one id is the beginning of another.
        return [id.translate(_INVERTED) + b"\xff" for id in by_id] if rule.last else by_id
    ordered = (key[:1] if key.startswith(UNORDERED) else key for key in keys)
    return [key + id for key, id in zip(ordered, by_id, strict=True)]


def sort_key(value: Any, last: bool) -> bytes:
    """Return bytes that sort numbers before texts before `ABSENT`, for any other value.

    Numbers are compared as 64-bit floats. last: the greatest comes first.
    """
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\1") + b"\0\0"
        return _TEXT + (text.translate(_INVERTED) if last else text)
    number = number_of(value) if isinstance(value, (int, float)) else None
    if number is None:
        return ABSENT
    (bits,) = struct.unpack(">Q", struct.pack(">d", number + 0.0))
    written = struct.pack(">Q", bits ^ ((1 << 64) - 1 if bits >> 63 else 1 << 63))
    return _NUMBER + (written.translate(_INVERTED) if last else written)


def kind_of_key(key: bytes) -> str | None:
    """Return the kind of the time that a key by time is of; None without one."""
    return KINDS[key[-1]] if key.startswith(_NUMBER) else None


def text_of_key(key: bytes) -> str | None:
    """Return the value that can't be compared, of the key of its document; None for others."""
    return key[1:].decode("utf-8", "surrogatepass") if key.startswith(UNORDERED) else None


def _preferring(text: str) -> KeepRule:
    """Parse a rule with values, such as "first:source=reuters,ap". Raises UsageError."""
    word, _, rest = text.partition(":")
    field, _, listed = rest.partition("=")
    values = tuple(value.strip() for value in listed.split(","))
    if word != "first":
        raise UsageError(f"keep {text!r}: use first:{rest}, with the preferred value first")
    if not field or not all(values):
        raise UsageError(f"keep {text!r}: use first:FIELD=VALUE,VALUE, without empty values")
    if len(set(values)) < len(values):
        raise UsageError(f"keep {text!r}: name each value once")
    return KeepRule("field", field=field, values=values)


def _preference_key(value: Any, values: Sequence[str]) -> bytes:
    """Return bytes that sort values in the order of a list; `ABSENT` for all others."""
    text = value if isinstance(value, str) else json.dumps(value)
    return sort_key(values.index(text), last=False) if text in values else ABSENT


def _time_key(value: Any, last: bool) -> bytes:
    """Return bytes that sort times, with their kind at the end."""
    if (instant := instant_of(value)) is None:
        return _unordered(value)
    written = (instant.nanoseconds + _INSTANT_ZERO).to_bytes(_INSTANT_BYTES)
    ordered = written.translate(_INVERTED) if last else written
    return _NUMBER + ordered + bytes([KINDS.index(instant.kind)])


def _unordered(value: Any) -> bytes:
    return UNORDERED + str(value)[:_SHOWN].encode("utf-8", "surrogatepass")
