"""Decide which documents are in one scope (`Within`): equal values of fields, and near times.

Values are compared as texts: 1, 1.0 and "1" are equal, as they are for a server with a keyword
field. Of a list all values count, in any order. They are compared by 128 bits of SHA-256, as texts
are by their digests. Times are compared in microseconds.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from json.encoder import encode_basestring_ascii

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.models import QueryScope, TimeField
from esdedup.sketch.within import Within
from esdedup.stores.fields import value_at
from esdedup.text.arrays import I64, U64, Mask, run_starts
from esdedup.text.characters import count
from esdedup.text.hashing import avalanche
from esdedup.text.instants import instant_of

WORDS_OF_FIELDS = 2
"""Of a scope, the first words: the digest of the values of all fields."""
_EARLIEST, _LATEST = -(1 << 62), 1 << 62
"""Microseconds of times; others are none."""
_NONE = 0
"""Both words of the digest of a document without a scope."""
_NO_FIELDS = 1
"""Both words of the digest if there are windows alone."""
_WORDS = struct.Struct(f"<{WORDS_OF_FIELDS}Q")
"""The first words of a digest."""
_PRIME = np.uint64(0x9E3779B97F4A7C15)


def scope_paths(within: Within) -> list[str]:
    """Return the names of the fields that decide on the scope of a document."""
    return [*within.fields, *(TimeField(window.field) for window in within.windows)]


def scope_of(within: Within, source: Mapping[str, object]) -> tuple[int, ...] | None:
    """Return the scope of a document in words of 64 bits, or None if it has none.

    The first words are the digest of the values of the fields; then comes the time of each window,
    in microseconds since 1970.
    """
    instants = []
    for window in within.windows:
        instant = microseconds_of(value_at(source, window.field))
        if instant is None:
            return None
        instants.append(instant)
    words = _words_of_fields(within, source)
    return None if words is None else (*words, *instants)


def _words_of_fields(within: Within, source: Mapping[str, object]) -> tuple[int, ...] | None:
    """Return the first words of the scope of a document, or None if it lacks the value of a field.

    They are the digest of the values of the fields.
    """
    if not within.fields:
        return _NO_FIELDS, _NO_FIELDS
    values = []
    for field in within.fields:
        texts = texts_of_value(value_at(source, field))
        if not texts:
            return None
        values.append(texts)
    return _WORDS.unpack_from(hashlib.sha256(_encoded(values)).digest())


def _encoded(values: Sequence[Sequence[str]]) -> bytes:
    """Return the values of all fields as JSON, as `json.dumps` writes it, in a third of the time.

    values: by field.
    """
    fields = (", ".join(map(encode_basestring_ascii, texts)) for texts in values)
    return f"[[{'], ['.join(fields)}]]".encode("ascii")


def changed_in_scope(
    within: Within, former: Sequence[int], source: Mapping[str, object]
) -> list[str]:
    """Return the fields of a scope of which a document has other values than it had.

    former: its `scope_words` then; nothing has changed in a document without a scope. If one of
    several fields that are compared for equality has changed, all of them are returned.
    """
    words = tuple(former[:WORDS_OF_FIELDS])
    if words == (_NONE, _NONE):
        return []
    fields = [*within.fields] if _words_of_fields(within, source) != words else []
    for window, word in zip(within.windows, former[WORDS_OF_FIELDS:], strict=True):
        instant = microseconds_of(value_at(source, window.field))
        # A time before 1970 is stored as the word of its 64 bits.
        if instant is None or instant % (1 << 64) != word:
            fields.append(window.field)
    return [*dict.fromkeys(fields)]


def query_scope(within: Within, source: Mapping[str, object]) -> QueryScope:
    """Return the scope of the documents that may match a query, by the fields of its document."""
    scope = scope_of(within, source)
    if scope is None:
        return QueryScope(_includes_none, is_missing=True)
    texts = {field: texts_of_value(value_at(source, field)) for field in within.fields}
    times = dict[str, tuple[int, int]]()
    for window, instant in zip(within.windows, scope[WORDS_OF_FIELDS:], strict=True):
        first, last = times.get(window.field, (_EARLIEST, _LATEST))
        length = window.microseconds
        times[window.field] = max(first, instant - length), min(last, instant + length)
    return QueryScope(partial(_includes, within, scope), texts, times)


def _includes(within: Within, scope: tuple[int, ...], source: Mapping[str, object]) -> bool:
    other_scope = scope_of(within, source)
    return other_scope is not None and is_one_scope(within, scope, other_scope)


def _includes_none(_: Mapping[str, object]) -> bool:
    return False


def is_one_scope(within: Within, left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """Return whether two documents are in one scope. left, right: as of `scope_of`."""
    instants = zip(left[WORDS_OF_FIELDS:], right[WORDS_OF_FIELDS:], within.windows, strict=True)
    return left[:WORDS_OF_FIELDS] == right[:WORDS_OF_FIELDS] and all(
        abs(left_instant - right_instant) <= window.microseconds
        for left_instant, right_instant, window in instants
    )


def texts_of_value(value: object) -> list[str]:
    """Return the distinct values of a field as texts, sorted; none if it has no value."""
    if type(value) is str:
        # Most values are such texts, or integers.
        return [value] if value and not value.isspace() else []
    if type(value) is int:
        return [str(value)]
    values = value if isinstance(value, (list, tuple, set)) else [value]
    texts = (_text_of(value) for value in values)
    return sorted({text for text in texts if text is not None and text.strip()})


def microseconds_of(value: object) -> int | None:
    """Return the time that a value is, or a list of one value, in microseconds since 1970."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        (value,) = value
    instant = instant_of(value)
    if instant is None:
        return None
    microseconds = instant.nanoseconds // 1_000
    return microseconds if _EARLIEST < microseconds < _LATEST else None


def scope_words(within: Within, sources: Iterable[Mapping[str, object]]) -> U64:
    """Return the scopes of n documents, shape (n, words); zeros for one without."""
    width = WORDS_OF_FIELDS + len(within.windows)
    no_scope = (_NONE,) * width
    scopes = [scope_of(within, source) or no_scope for source in sources]
    words = np.empty((len(scopes), width), np.uint64)
    for column, values in enumerate(zip(*scopes, strict=True)):
        is_time = column >= WORDS_OF_FIELDS
        words[:, column] = np.array(values, np.int64 if is_time else np.uint64).view(np.uint64)
    return words


def has_scopes(words: U64) -> Mask:
    """Mark the documents that have a scope, by their `scope_words`."""
    has_scope: Mask = (words[:, :WORDS_OF_FIELDS] != _NONE).any(axis=1)
    return has_scope


def _text_of(value: object) -> str | None:
    """Return a value as text, or None for a missing one."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (float, Decimal)) and math.isfinite(value) and value % 1 == 0:
        return str(int(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, sort_keys=True, default=str)
    return str(value)


@dataclass(frozen=True)
class Scopes:
    """The scopes of n documents.

    numbers: the same for documents that agree in all fields, and another one for each document
        without a scope, shape (n,).
    instants: times in microseconds since 1970, shape (windows, n).
    lengths: the most between the times of two documents, in microseconds, of each window.
    missing: number of documents without a scope.
    """

    numbers: I64
    instants: I64
    lengths: tuple[int, ...]
    missing: int

    @staticmethod
    def of(within: Within, words: U64) -> Scopes:
        """Return the scopes of documents by their `scope_words`."""
        fields = words[:, :WORDS_OF_FIELDS]
        is_missing = ~has_scopes(words)
        missing = int(np.count_nonzero(is_missing))
        order = np.lexsort(fields.T)
        ordered = fields[order]
        is_first = run_starts(ordered[:, 0]) | run_starts(ordered[:, 1])
        numbers = np.empty(len(words), np.int64)
        numbers[order] = np.cumsum(is_first) - 1
        numbers[is_missing] = len(words) + np.arange(missing)
        instants = instants_of_words(words)
        lengths = tuple(window.microseconds for window in within.windows)
        return Scopes(numbers, instants, lengths, missing)

    @staticmethod
    def of_all(within: Within, words: U64) -> Scopes:
        """Return the scopes of all documents. Raises UsageError if none of them has one."""
        scopes = Scopes.of(within, words)
        if scopes.missing and scopes.missing == len(words):
            raise UsageError(f"within {within}: no document has {needed_values(within)}")
        return scopes

    def picked(self, rows: I64) -> Scopes:
        """Return the scopes of some documents."""
        return Scopes(self.numbers[rows], self.instants[:, rows], self.lengths, self.missing)

    def agree(self, left: I64, right: I64) -> Mask:
        """Mark pairs of different documents that are in one scope. left, right: shape (pairs,)."""
        agreeing: Mask = (self.numbers[left] == self.numbers[right]) & (left != right)
        for instants, length in zip(self.instants, self.lengths, strict=True):
            # Times are less than half of 63 bits, so no difference overflows.
            agreeing &= np.abs(instants[left] - instants[right]) <= length
        return agreeing

    @property
    def times_a_row(self) -> int:
        """How often `joining` returns each document."""
        return 2 if self.lengths else 1

    def joining(self) -> U64:
        """Return numbers of which two documents of one scope share one, shape (n, times_a_row).

        With a window, time is divided into slots of its length. Two times that are near enough are
        in one slot or in neighbouring ones, so each document has the numbers of its slot and of the
        next one. Later windows are not part of the numbers. Documents of several scopes can share a
        number by chance (1 in 2^64), so that `agree` decides.
        """
        numbers = avalanche(self.numbers.astype(np.uint64) + np.uint64(1))
        return _in_slots(numbers, self.instants, self.lengths)


def _in_slots(numbers: U64, instants: I64, lengths: Sequence[int]) -> U64:
    """Return the numbers of scopes, with windows those of the slots of each document."""
    if not lengths:
        return numbers[:, None]
    slots = instants[0] // lengths[0]
    both = np.stack([slots, slots + 1], axis=1).view(np.uint64)
    return avalanche(both * _PRIME ^ numbers[:, None])


def joining_of_words(within: Within, words: U64) -> U64:
    """Return numbers as of `Scopes.joining`, which are the same for documents of other batches."""
    lengths = [window.microseconds for window in within.windows]
    return _in_slots(avalanche(words[:, 0].copy()), instants_of_words(words), lengths)


def instants_of_words(words: U64) -> I64:
    """Return the times of documents by their `scope_words`, shape (windows, n)."""
    return np.ascontiguousarray(words[:, WORDS_OF_FIELDS:].T).view(np.int64)


def needed_values(within: Within, joined_by: str = "and") -> str:
    """Return the fields of a scope in words, for a message."""
    fields = [f"a value of {field!r}" for field in within.fields]
    times = [f"a time in {window.field!r}" for window in within.windows]
    return f" {joined_by} ".join([*fields, *times])


def warning_of_query(within: Within) -> str:
    """Return a sentence about a query without a scope, which nothing matches."""
    return f"The document lacks {needed_values(within, 'or')}: nothing matches it (`within`)"


def warning_of_missing(within: Within, missing: int) -> str | None:
    """Return a sentence about the documents without a scope, or None if there are none."""
    if not missing:
        return None
    documents = count(missing, "document lacks", "documents lack")
    return f"{documents} {needed_values(within, 'or')}: duplicates of none (`within`)"
