"""List which documents of a local file hold each token, for searches.

The first search lists the tokens of new documents, sorted together (`postings`), which takes a
small part of the time of listing each document when it is written.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from esdedup.models import FIELD, tokens_in
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.packed import is_wordless, records
from esdedup.sketch.sketch import written_digests
from esdedup.sketch.tokens import flat
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.postings import Entries, Postings, numbers_of, numbers_of_values
from esdedup.stores.sqlite.rows import NumberedRow
from esdedup.stores.sqlite.sizes import StoreSizes
from esdedup.stores.sqlite.sources import Source, json_of
from esdedup.stores.sqlite.table_names import TableNames
from esdedup.text.arrays import I64, ranges

LISTED_AT_ONCE = 100_000
"""Number of documents. They take less than a second, for which other writers wait."""

_ENTRIES_AT_ONCE = 1 << 22
"""Number of tokens that are listed together. An entry takes 40 bytes of memory."""

_READ_AT_ONCE = 2_000
"""Number of documents whose tokens are unpacked together."""


class _TokenList(NamedTuple):
    """A list of tokens.

    field: the field of ours that holds the tokens.
    key: their key below it.
    sketch: the sketch of the tokens; None for digests of texts without words.
    """

    field: str
    key: str
    sketch: Sketch | None


class _Fields(NamedTuple):
    """The values under a field of ours of a document."""

    number: int
    field: str
    values: Mapping[str, object]


class Listing:
    """The lists of tokens of one index, used within a transaction of the caller's."""

    def __init__(
        self, db: sqlite3.Connection, tables: TableNames, meta: IndexMeta, sizes: StoreSizes
    ) -> None:
        self.db, self._tables, self._scheme, self._sizes = db, tables, meta.scheme, sizes
        self.reads_source = bool(meta.other_schemes) or meta.field != FIELD
        """Whether there are tokens in the source: those of other fields than the text are."""
        self._lists: dict[str, _TokenList] = {}
        for part in meta.sketched:
            for sketch in (*part.scheme.sketches, None):
                key = "wordless" if sketch is None else sketch.key
                self._lists[listed_as(part.field, key)] = _TokenList(part.field, key, sketch)

    def listed(self) -> int:
        """Return the number up to which documents are listed."""
        (number,) = self.db.execute(f"SELECT number FROM {self._tables.listed}").fetchone()
        return int(number)

    def last_document(self) -> int:
        """Return the highest number of a document, or 0."""
        query = f"SELECT coalesce(max(number), 0) FROM {self._tables.documents}"
        return int(self.db.execute(query).fetchone()[0])

    def next_document(self, number: int) -> int:
        """Return the lowest number of a document from a number on, or 0 if there is none."""
        lowest = f"SELECT coalesce(min(number), 0) FROM {self._tables.documents} WHERE number >= ?"
        return int(self.db.execute(lowest, (number,)).fetchone()[0])

    def unlisted(self) -> int:
        """Return the number of documents that are not listed yet, or a little more."""
        return max(0, self.last_document() - self.listed())

    def add(self, rows: Sequence[NumberedRow]) -> None:
        """List the tokens of documents."""
        self._add([self._entries_of(rows)])

    def remove(self, rows: Sequence[NumberedRow]) -> None:
        """Remove the tokens of documents from the lists."""
        for name, (tokens, documents) in self._entries_of(rows).items():
            self._postings(name).remove(np.unique(tokens), np.unique(documents))

    def list_more(self) -> None:
        """List the next documents, at most LISTED_AT_ONCE."""
        # Pages of the documents before, up to the size of the cache, are not needed again.
        self.db.execute("PRAGMA shrink_memory")
        listed = self.listed()
        # Past numbers that deleted documents left free.
        first, end = max(listed, self.next_document(listed + 1) - 1), self.last_document()
        last, count = min(end, first + LISTED_AT_ONCE), 0
        batches = []
        for number, batch in self._batches(first, last):
            batches.append(batch)
            count += sum(entries.tokens.size for entries in batch.values())
            if count >= _ENTRIES_AT_ONCE:
                last = number
                break
        if batches:
            self._add(batches, more_follow=last < end)
        self.db.execute(f"UPDATE {self._tables.listed} SET number = max(number, ?)", (last,))

    def holders(self, name: str, tokens: Sequence[str]) -> tuple[I64, I64]:
        """Return the documents that hold tokens of a list: positions of tokens, and numbers."""
        nothing = np.empty(0, np.int64), np.empty(0, np.int64)
        positions, documents = zip(nothing, *self.holders_in_blocks(name, tokens), strict=True)
        return np.concatenate(positions), np.concatenate(documents)

    def holders_in_blocks(self, name: str, tokens: Sequence[str]) -> Iterator[tuple[I64, I64]]:
        """Yield what `holders` returns in blocks."""
        numbers = numbers_of(tokens, self._lists[name].sketch)
        order = np.argsort(numbers)
        sorted_numbers = numbers[order]
        for positions, documents in self._postings(name).find_in_blocks(sorted_numbers):
            yield order[positions], documents.astype(np.int64)
        if self.unlisted():
            for _, batch in self._batches(self.listed(), self.last_document()):
                entries = batch[name]
                first = np.searchsorted(sorted_numbers, entries.tokens, "left")
                counts = np.searchsorted(sorted_numbers, entries.tokens, "right") - first
                positions = order[ranges(first, counts)]
                yield positions, np.repeat(entries.documents, counts).astype(np.int64)

    def _postings(self, name: str) -> Postings:
        return Postings(self.db, name, self._tables.quoted, self._sizes.pages)

    def _add(self, batches: Sequence[dict[str, Entries]], *, more_follow: bool = False) -> None:
        """List entries, and empty the batches. more_follow: further documents are listed next."""
        for name in self._lists:
            entries = [batch.pop(name) for batch in batches]
            self._postings(name).add(entries, more_follow=more_follow)

    def _batches(self, first: int, last: int) -> Iterator[tuple[int, dict[str, Entries]]]:
        """Yield the entries of the documents after one number, to another; and the last number."""
        source = "source" if self.reads_source else "''"
        rows = self.db.execute(
            f"SELECT number, {source}, tokens FROM {self._tables.documents}"
            " WHERE number > ? AND number <= ? ORDER BY number",
            (first, last),
        )
        while batch := rows.fetchmany(_READ_AT_ONCE):
            yield batch[-1][0], self._entries(batch)

    def _entries_of(self, rows: Sequence[NumberedRow]) -> dict[str, Entries]:
        return self._entries((number, row.source, row.tokens) for number, row in rows)

    def _entries(self, rows: Iterable[tuple[int, Source, bytes | str]]) -> dict[str, Entries]:
        """Return the entries of documents for each list. rows: their numbers, sources, tokens."""
        numbers, packed, unpacked = list[int](), list[bytes](), list[_Fields]()
        for number, source, tokens in rows:
            if isinstance(tokens, str):
                unpacked.append(_Fields(number, FIELD, json.loads(tokens)))
            elif is_wordless(tokens):
                (digest,) = written_digests([tokens])
                unpacked.append(_Fields(number, FIELD, {"wordless": digest}))
            else:
                numbers.append(number)
                packed.append(tokens)
            if self.reads_source:
                fields = json.loads(json_of(source))
                unpacked += [_Fields(number, field, tokens_in(fields, field)) for field in fields]
        values, _ = records(packed, self._scheme)
        entries = {}
        for name, (field, key, sketch) in self._lists.items():
            entries[name] = _unpacked_entries(unpacked, self._lists[name])
            if field == FIELD and sketch is not None:
                token_values, counts = flat(values[key])
                documents = np.repeat(np.array(numbers, np.uint64), counts)
                entries[name] = Entries(
                    np.append(entries[name].tokens, numbers_of_values(token_values, sketch)),
                    np.append(entries[name].documents, documents),
                )
        return entries


def _unpacked_entries(documents: Sequence[_Fields], tokens: _TokenList) -> Entries:
    """Return the entries for a list of documents whose tokens are strings."""
    tokens_of_documents = [
        (number, token)
        for number, field, values in documents
        if field == tokens.field
        for token in _strings(values.get(tokens.key))
    ]
    numbers = np.array([number for number, _ in tokens_of_documents], np.uint64)
    return Entries(numbers_of([token for _, token in tokens_of_documents], tokens.sketch), numbers)


def listed_as(field: str, key: str) -> str:
    """Return the name of the list of tokens of a key below a field of ours."""
    # Tokens of other fields than the text are part of `Row.source`, and so are their marks.
    return key if field == FIELD else f"{field}.{key}"


def _strings(value: object) -> set[str]:
    """Return the tokens in the value of a field."""
    values = value if isinstance(value, list) else [value]
    return {token for token in values if isinstance(token, str)}
