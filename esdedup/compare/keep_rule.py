"""Order documents by the keep rule, so that the first document of a group represents it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
        kinds = {"time": "time", "number": "number"}
        used = {tied.compared for tied in rule.rules}
        kind = " or ".join(word for compared, word in kinds.items() if compared in used)
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
    tie_rule: the rule for documents that are equal by this one; None for the order of ids.

    Ties are in natural order of ids: a2 before a10. Documents without the field come last, after
    them those whose value can't be compared.
    """

    by: Literal["auto", "id", "field", "length", "words"] = "id"
    last: bool = False
    field: str | None = None
    compared: Compared = "value"
    values: tuple[str, ...] = ()
    tie_rule: KeepRule | None = None

    @staticmethod
    def parse(text: str | Sequence[str]) -> KeepRule:
        """Parse a rule such as "newest:published", or several, of which later ones decide ties.

        Raises UsageError for an unknown rule, and for rules that can't be combined.
        """
        if isinstance(text, (list, tuple)):
            return _in_a_row([KeepRule.parse(rule) for rule in text])
        check_type("keep", text, "str")
        assert isinstance(text, str)
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

    @property
    def rules(self) -> list[KeepRule]:
        """This rule and those that decide ties, each without the next ones."""
        return [replace(self, tie_rule=None), *(self.tie_rule.rules if self.tie_rule else ())]

    def __str__(self) -> str:
        if self.tie_rule is not None:
            return ", then ".join(map(str, self.rules))
        if self.by == "length":
            return "longest" if self.last else "shortest"
        if self.by in ("auto", "words"):
            return "auto" if self.by == "auto" else "most-words"
        word = _WORDS[self.compared][self.last]
        preferred = f"={','.join(self.values)}" if self.values else ""
        return f"{word}:{self.field}{preferred}" if self.by == "field" else word

    def paths(self, text_fields: Sequence[str]) -> list[str]:
        """The fields that the rule needs of a document."""
        if self.tie_rule is not None:
            return [path for rule in self.rules for path in rule.paths(text_fields)]
        if self.by in ("length", "words"):
            return [*text_fields]
        if self.field is None:
            return []
        return [TimeField(self.field) if self.compared == "time" else self.field]

    def key(self, document: Document, text_fields: Sequence[str]) -> bytes:
        """Return the `sort_key` of a document, for a rule by a field or by length.

        The key of several rules is theirs in a row, as `_split` reads it.
        """
        if self.tie_rule is not None:
            rules = [rule for rule in self.rules if rule.by != "id"]
            return b"".join(_delimited(rule.key(document, text_fields)) for rule in rules)
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
        if self.tie_rule is not None:
            return self._order_by_all(by_id, keys)
        keys = keys.picked(by_id)
        if len(keys) and (keys.raw[keys.offsets[:-1]] >= ABSENT[0]).all():
            raise UsageError(self.nothing_to_compare())
        # The values that can't be compared are no order.
        encoded = (key[:1] if key.startswith(UNORDERED) else key for key in keys.encoded())
        return by_id[byte_order(encoded, len(keys))[0]]

    def _order_by_all(self, by_id: I64, keys: Strings) -> I64:
        """Return the rows by precedence, of several rules. As `order`."""
        rules = self.rules
        if rules[-1].by == "id" and rules[-1].last:
            by_id = by_id[::-1]
        unused = {rule for rule in rules if rule.by == "field"} if len(keys) else set()
        ordered = []
        for key in keys.picked(by_id).encoded():
            rule_keys = _split(key, rules)
            # Values that can't be compared are no order.
            ordered.append(b"".join(k[:1] if k[:1] == UNORDERED else k for k in rule_keys))
            if unused:
                compared = zip(rule_keys, rules, strict=False)
                unused -= {rule for rule_key, rule in compared if rule_key < ABSENT}
        for rule in rules:
            if rule in unused:
                raise UsageError(rule.nothing_to_compare())
        return by_id[byte_order(ordered, len(ordered))[0]]

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
        if self.tie_rule is not None:
            return self._unordered_by_all(keys, ids_of)
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

    def _unordered_by_all(self, keys: Strings, ids_of: Callable[[I64], Sequence[str]]) -> Unordered:
        """Return the documents of which one of several rules can't compare a value."""
        rules = self.rules
        if all(rule.compared == "value" for rule in rules):
            return Unordered()
        rows: list[int] = []
        values: list[str] = []
        first_of_kind: dict[KeepRule, dict[str, int]] = {rule: {} for rule in rules}
        for row, key in enumerate(keys.encoded()):
            for rule_key, rule in zip(_split(key, rules), rules, strict=False):
                value = text_of_key(rule_key)
                if value is not None and (not rows or rows[-1] != row):
                    rows.append(row)
                    values.append(value)
                elif rule.compared == "time" and (kind := kind_of_key(rule_key)):
                    first_of_kind[rule].setdefault(kind, row)
        for rule, firsts in first_of_kind.items():
            ids = ids_of(np.array([*firsts.values()], np.int64))
            if message := rule.several_kinds(dict(zip(firsts, ids, strict=True))):
                raise UsageError(message)
        ids = ids_of(np.array(rows[:EXAMPLES], np.int64))
        return Unordered(len(rows), tuple(zip(ids, values[:EXAMPLES], strict=True)))

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


def _in_a_row(rules: Sequence[KeepRule]) -> KeepRule:
    """Return rules as one, each for the ties of the one before it. Raises UsageError."""
    if not rules:
        raise UsageError("keep: name a rule, or leave it out")
    if len(rules) > 1:
        for rule in rules:
            if rule.by in ("auto", "words"):
                raise UsageError(f"keep {rule}: can't be combined with other rules")
        for rule in rules[:-1]:
            if rule.by == "id":
                raise UsageError(f"keep {rule}: ids decide all ties, so it must be the last rule")
        decided_by = [rule.field if rule.by == "field" else rule.by for rule in rules]
        if len(set(decided_by)) < len(decided_by):
            raise UsageError("keep: name each field, and the length, in one rule only")
    combined = rules[-1]
    for rule in reversed(rules[:-1]):
        combined = replace(rule, tie_rule=combined)
    return combined


def _delimited(key: bytes) -> bytes:
    """Return the key of one rule so that another can follow it: a value that is no order by size.

    Of at most 60 characters, it has less than 256 bytes.
    """
    return UNORDERED + bytes([len(key) - 1]) + key[1:] if key.startswith(UNORDERED) else key


def _split(key: bytes, rules: Sequence[KeepRule]) -> list[bytes]:
    """Return the key of several rules as the key of each, without that of a rule by ids."""
    rule_keys, start = [], 0
    for rule in rules:
        if start == len(key):
            break
        kind = key[start : start + 1]
        if kind == UNORDERED:
            end = start + 2 + key[start + 1]
            rule_keys.append(UNORDERED + key[start + 2 : end])
            start = end
            continue
        if kind == ABSENT:
            end = start + 1
        elif kind == _NUMBER:
            end = start + (2 + _INSTANT_BYTES if rule.compared == "time" else 9)
        else:
            end = key.index(b"\xff\xff" if rule.last else b"\0\0", start + 1) + 2
        rule_keys.append(key[start:end])
        start = end
    return rule_keys


def _preferring(text: str) -> KeepRule:
    """Parse a rule with values, such as "first:source=reuters,ap". Raises UsageError."""
    word, _, preference = text.partition(":")
    field, _, listed = preference.partition("=")
    values = tuple(value.strip() for value in listed.split(","))
    if word != "first":
        raise UsageError(f"keep {text!r}: use first:{preference}, with the preferred value first")
    if not field or not all(values):
        raise UsageError(f"keep {text!r}: use first:FIELD=VALUE,VALUE, without empty values")
    if len(set(values)) < len(values):
        raise UsageError(f"keep {text!r}: name each value once")
    return KeepRule("field", field=field, values=values)


def _preference_key(value: Any, values: Sequence[str]) -> bytes:
    """Return bytes that sort values in the order of a list; `ABSENT` for all others."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
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
