"""What the document that stays takes from its duplicates: values of fields that it lacks."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product

import numpy as np

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import RecordError, UsageError
from esdedup.models import Fields
from esdedup.sketch.within import Within
from esdedup.stores.changes import merged
from esdedup.stores.fields import value_at
from esdedup.stores.json_text import (
    EXACT,
    VALUES,
    Number,
    any_json,
    json_of_leaves,
    may_lack_digits,
    merged_text,
    value_of,
)
from esdedup.stores.plain_values import in_memory, listed

Values = Mapping[str, object]
"""The values of fields of a document, by path; a field without a value is missing."""


@dataclass(frozen=True)
class Merge:
    """The fields that the document that stays takes from its duplicates; by default none.

    The values of a document that stays come first, then those of its duplicates in their order.
    Null, NaN, an empty text and an empty list are no values.

    collect: fields that become lists of the distinct values of all, by JSON equality. Of equal
        numbers, such as 1.0 and 1.00, the first one's digits stay.
    fill: fields that it takes from the first duplicate that has one, if it has none itself.
    """

    collect: tuple[str, ...] = ()
    fill: tuple[str, ...] = ()

    @staticmethod
    def parse(
        collect: str | Sequence[str] | None, fill: str | Sequence[str] | None = None
    ) -> Merge:
        """Return the fields by their names. Raises UsageError for one that is named in both."""
        merge = Merge(_names("collect", collect), _names("fill", fill))
        if in_both := set(merge.collect).intersection(merge.fill):
            raise UsageError(f"{min(in_both)!r} is named in both `collect` and `fill`")
        return merge

    def __bool__(self) -> bool:
        return bool(self.collect or self.fill)

    @property
    def paths(self) -> list[str]:
        """The dotted names of all fields."""
        return [*self.collect, *self.fill]

    @property
    def setting(self) -> str:
        """The name of the first setting that names a field, for messages."""
        return "collect" if self.collect else "fill"

    def to_json(self) -> dict[str, list[str]]:
        """Return a JSON object of the names."""
        return {"collect": [*self.collect], "fill": [*self.fill]}

    def check(self, compared_fields: Sequence[str]) -> None:
        """Raise UsageError for a field of the text or of the tokens, by which documents compare."""
        for path in self.paths:
            for field in compared_fields:
                if _is_in(path, field) or _is_in(field, path):
                    name = "collect" if path in self.collect else "fill"
                    raise UsageError(f"`{name}` {path}: documents are compared by {field!r}")

    def check_scope(self, within: Within) -> None:
        """Raise UsageError if new values may take the document that stays out of its scope.

        A list of several values is another value, and no time. A field of the scope may be filled,
        also with the object that holds it: only a document without a scope lacks it.
        """
        fields = [*within.fields, *(window.field for window in within.windows)]
        changing = [
            ("collect", path, field)
            for path, field in product(self.collect, fields)
            if _is_in(path, field) or _is_in(field, path)
        ]
        changing += [
            ("fill", path, field)
            for path, field in product(self.fill, fields)
            if path != field and _is_in(path, field)
        ]
        for name, path, field in changing:
            raise UsageError(
                f"`{name}` {path} would change the scope of documents that stay (`within` {field}):"
                " leave it out"
            )

    def values_in(self, source: Mapping[str, object]) -> dict[str, object]:
        """Return the values of the fields of a document."""
        values = {path: value_at(source, path) for path in self.paths}
        return {path: value for path, value in values.items() if not _is_missing(value)}

    def exact_values_in(self, source: Mapping[str, object], text: str) -> dict[str, object]:
        """Return the values of the fields of a document, whose numbers keep their digits.

        text: the JSON of the document.
        """
        values = self.values_in(source)
        # Few values are such numbers, and to parse a text again takes time.
        return self.values_in(value_of(text, EXACT)[0]) if may_lack_digits(values) else values

    def new_values(
        self, values: Values, values_of_duplicates: Iterable[Values]
    ) -> dict[str, object]:
        """Return the new values of the fields that change in the document that stays.

        values: of this document. values_of_duplicates: in the order of the duplicates.
        """
        of_duplicates = [*values_of_duplicates]
        new_values: dict[str, object] = {}
        for path in self.collect:
            listed = [values[path] for values in of_duplicates if path in values]
            collected = _distinct([values.get(path), *listed])
            if len(collected) > len(_distinct([values.get(path)])):
                new_values[path] = collected
        for path in self.fill:
            if path not in values:
                filling = (values[path] for values in of_duplicates if path in values)
                value = next(filling, None)
                if value is not None:
                    new_values[path] = value
        return new_values

    def number_of_new(self, values: Values, new_values: Values) -> dict[str, int]:
        """Return how many of the new values of a document are from its duplicates, by path."""
        return {
            path: len(_distinct([value])) - len(_distinct([values.get(path)]))
            if path in self.collect
            else 1
            for path, value in new_values.items()
        }

    def as_lists(self, source: Mapping[str, object]) -> dict[str, object]:
        """Return the collected fields of a document that are not lists yet, as lists."""
        values = {path: value_at(source, path) for path in self.collect}
        return {
            path: [] if _is_missing(value) else _items_of(value)
            for path, value in values.items()
            if value is not None and not isinstance(value, list)
        }

    def new_text(self, text: str, new_values: Values, subject: str) -> str:
        """Return the JSON of a record of a file with its new values; all other bytes stay.

        text: of an object. new_values: its new values. subject: names the record in messages. Each
        collected field becomes a list. Raises RecordError for a path through a list or a text.
        """
        source = value_of(text, VALUES)[0]
        lists = self.as_lists(source)
        if may_lack_digits(lists):
            lists = self.as_lists(value_of(text, EXACT)[0])
        new_values = {**lists, **new_values}
        if not new_values:
            return text
        # What the record has itself stays, whatever it is.
        return merged_text(text, fields_of(source, new_values), subject, any_json)


NO_MERGE = Merge()
"""The document that stays is left unchanged."""


def fields_of(source: Mapping[str, object], values: Values) -> Fields:
    """Return the fields to merge into a document, objects into objects, to give it values.

    source: the document. values: by path. Raises RecordError for a path through a list or a text.
    """
    fields: Fields = {}
    for path, value in values.items():
        fields = merged(fields, _nested(source, path, value))
    return fields


def _nested(source: Mapping[str, object], path: str, value: object) -> Fields:
    """Return a value in the objects of its path; a dotted name is that of the document."""
    heads = [path[:cut] for cut, character in enumerate(path) if character == "."]
    if path in source or not heads:
        return {path: value}
    present = [head for head in heads if source.get(head) is not None]
    if not present:
        head = heads[0]
        return {head: _nested({}, path[len(head) + 1 :], value)}
    for head in present:
        parent, name = source[head], path[len(head) + 1 :]
        is_last = head == present[-1]
        if isinstance(parent, Mapping) and (is_last or value_at(parent, name) is not None):
            return {head: _nested(parent, name, value)}
    raise RecordError(f"its field {present[-1]!r} is no object, so {path!r} can't be written")


def _names(setting: str, fields: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return names of fields, each once."""
    names = [fields] if isinstance(fields, str) else fields or []
    check_list(setting, names)
    for name in names:
        check_type(setting, name, "str")
        if not name.strip():
            raise UsageError(f"`{setting}` is empty: name a field")
    return tuple(dict.fromkeys(names))


def _is_in(path: str, field: str) -> bool:
    """Return whether a path names a field, or one of the object that it holds."""
    return f"{path}.".startswith(f"{field}.")


def _is_missing(value: object) -> bool:
    """Return whether a value is none: null, NaN, an empty text, or a list of such values.

    The missing values of frames are none either, wherever a program has them.
    """
    remaining = [value]
    while remaining:
        item = remaining.pop()
        if isinstance(item, str | int | dict):
            if item != "":
                return False
            continue
        item = in_memory(item)
        if isinstance(item, list):
            remaining += item
        elif item is not None and not (isinstance(item, str) and item == ""):
            return False
    return True


def _items_of(value: object) -> list[object]:
    """Return the items of a value that is a list, an array or a tuple, else the value in a list."""
    items = listed(value)
    return items if isinstance(items, list) else [value]


def _distinct(values: Iterable[object]) -> list[object]:
    """Return the distinct ones of values, and of the items of those that are lists.

    They are the objects themselves, which are compared by their values of JSON.
    """
    distinct: dict[str | tuple[str], object] = {}
    for value in values:
        for item in _items_of(value):
            if type(item) is str:
                if item:
                    distinct.setdefault(item, item)
            elif type(item) is int:
                # Its JSON, without an encoder for each.
                distinct.setdefault((str(item),), item)
            elif not _is_missing(item):
                distinct.setdefault((_comparable(item),), item)
    return [*distinct.values()]


def _comparable(value: object) -> str:
    """Return a key that equal values share. As JSON, 1, 1.0 and true differ, not 1.0 and 1.00."""
    return json_of_leaves(value, _comparable_leaf, sort_keys=True)


def _comparable_leaf(leaf: object) -> str:
    """Return the key of a value that is neither a list nor an object."""
    if isinstance(leaf, Number):
        return _plain_digits(leaf.digits)
    if not isinstance(leaf, datetime.timedelta | np.timedelta64):
        # Durations are numbers of their units, of which others of other units are equal ones.
        leaf = in_memory(leaf)
    if isinstance(leaf, list):
        return _comparable(leaf)
    return json.dumps(leaf, default=str)


def _plain_digits(digits: str) -> str:
    """Return the sign, the digits and the exponent of a number, without zeros at its end."""
    try:
        sign, numerals, exponent = Decimal(digits).as_tuple()
    except InvalidOperation:
        return digits  # Its exponent has some 20 digits.
    text = "".join(map(str, numerals))
    significant = text.rstrip("0")
    assert isinstance(exponent, int)
    power = exponent + len(text) - len(significant) if significant else 0
    return f"{'-' if sign else ''}{significant}e{power}"
