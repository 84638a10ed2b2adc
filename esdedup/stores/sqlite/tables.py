"""Read and write the tables of one index in a local file: documents by id, at random, or by token.

Groups are in a table of their own, so that `group` writes small rows and no documents.

A table for each field of tokens lists the documents that hold a token. The first search lists the
new documents, sorted together, which is several times as fast as listing each when it is written
(`benchmarks/local_store.py` at commit 4d72008).
"""

from __future__ import annotations

import itertools
import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import xxhash

from esdedup.exceptions import RecordError
from esdedup.models import (
    FIELD,
    MARKS,
    Candidate,
    CandidateQuery,
    Candidates,
    Document,
)
from esdedup.stores.changes import merged
from esdedup.stores.encoded import Encoded, fields_of
from esdedup.stores.fields import only
from esdedup.stores.mapping import IndexMeta, without_tokens
from esdedup.stores.to_json import to_json
from esdedup.text.characters import is_unicode

LISTED_AT_ONCE = 100_000
"""Number of documents. They take some seconds, for which other writers wait."""

_VARIABLES = 500
"""Maximum number of values in one SQL statement; SQLite's own limit is far above."""

_GIVEN = "(SELECT value FROM json_each(?1))"
"""The values of a JSON array, parameter 1, in SQL."""

NO_MARKS = (None,) * len(MARKS)
_MARKS = ", ".join(f'"{name}"' for name in MARKS)


class Columns(NamedTuple):
    """A document as columns. source, tokens: JSON objects, the latter without marks.

    The others are its marks, None for missing ones.
    """

    id: str
    source: str
    tokens: str
    group: Any = None
    original: Any = None
    similarity: Any = None
    distance: Any = None

    @property
    def ours(self) -> dict[str, Any]:
        """The value of FIELD."""
        marks = zip(MARKS, self[3:], strict=True)
        return {
            **json.loads(self.tokens),
            **{name: each for name, each in marks if each is not None},
        }

    @property
    def whole(self) -> dict[str, Any]:
        """The document's fields with its tokens."""
        return {**json.loads(self.source), FIELD: self.ours}

    def document(self, with_key: str = "") -> Document:
        """Return the document without its lists of tokens, except one."""
        whole = without_tokens(self.whole, with_key)
        if not whole[FIELD]:
            del whole[FIELD]
        return Document(self.id, whole)

    @property
    def version(self) -> str:
        """A hash, so that a document that was changed back counts as unchanged."""
        text = f"{self.source}\0{self.tokens}\0{self[3:]!r}"
        return xxhash.xxh3_128_hexdigest(text.encode())

    def changed(self, fields: Mapping[str, Any]) -> Columns:
        """Return the document with merged fields. Raises RecordError if it can't be stored."""
        ours = fields[FIELD] if fields.keys() == {FIELD} else None
        if isinstance(ours, Mapping) and all(map(_is_mark, ours, ours.values())):
            # No other value has to be read.
            return self._replace(**ours)
        return columns_of(Document(self.id, merged(self.whole, fields)))


Numbered = tuple[int, Columns]
"""A stored document with its number."""


class Tables:
    """The tables of one index, used within a transaction of the caller's."""

    def __init__(self, db: sqlite3.Connection, index: str, meta: IndexMeta) -> None:
        self.db = db
        # SQLite ignores case in names, and reserves those that begin with sqlite_.
        cased = re.sub("[A-Z^]", lambda found: f"^{found[0].lower()}", index)
        self._index = cased.replace('"', '""')
        self.documents, self.groups = self._name("documents"), self._name("groups")
        self.marked = f"{self.documents} LEFT JOIN {self.groups} USING (number)"
        """The documents with their marks, in SQL."""
        self._keys = [
            listed_as(part.field, key)
            for part in meta.parts
            for key in (*part.scheme.keys, "wordless")
        ]

    def _name(self, name: str) -> str:
        """Return the quoted name of a table: documents, groups, listed, or a list of tokens."""
        return f'"{name}:{self._index}"'

    def one(self, statement: str, *values: Any) -> Any:
        """Return the first column of the first row."""
        return self.db.execute(statement, values).fetchone()[0]

    def create(self) -> None:
        self.db.execute(
            f"CREATE TABLE {self.documents}(number INTEGER PRIMARY KEY,"
            " id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, scheme TEXT, tokens TEXT NOT NULL)"
        )
        self.db.execute(f"CREATE TABLE {self.groups}(number INTEGER PRIMARY KEY, {_MARKS})")
        for name in self._keys:
            self.db.execute(
                f"CREATE TABLE {self._name(name)}(token TEXT NOT NULL,"
                " document INTEGER NOT NULL, PRIMARY KEY(token, document)) WITHOUT ROWID"
            )
        self.db.execute(f"CREATE TABLE {self._name('listed')}(number INTEGER NOT NULL)")
        self.db.execute(f"INSERT INTO {self._name('listed')} VALUES(0)")

    def drop(self) -> None:
        for name in ("documents", "groups", *self._keys, "listed"):
            self.db.execute(f"DROP TABLE {self._name(name)}")

    def last(self) -> int:
        """Return the highest number of a document, or 0."""
        return int(self.one(f"SELECT coalesce(max(number), 0) FROM {self.documents}"))

    def next(self, number: int) -> int:
        """Return the lowest number of a document from a number on, or 0 if there is none."""
        lowest = f"SELECT coalesce(min(number), 0) FROM {self.documents} WHERE number >= ?"
        return int(self.one(lowest, number))

    def _listed(self) -> int:
        return int(self.one(f"SELECT number FROM {self._name('listed')}"))

    def waiting(self) -> int:
        """Return the number of documents that are not listed yet, or a little more."""
        return max(0, self.last() - self._listed())

    def stored(self, ids: Sequence[str]) -> dict[str, Numbered]:
        """Return the documents that exist, by id."""
        rows = self.by_id(f"{self.documents}.number, {columns('source', 'tokens')}", ids)
        return {id: (number, Columns(id, *rest)) for number, id, *rest in rows}

    def by_id(self, selected: str, ids: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of documents that exist. selected: columns, in SQL."""
        # An id that is not valid Unicode can't be stored, so that it can't be found either.
        known = [id for id in ids if is_unicode(id)]
        for first in range(0, len(known), _VARIABLES):
            some = known[first : first + _VARIABLES]
            marks = ",".join("?" * len(some))
            yield from self.db.execute(
                f"SELECT {selected} FROM {self.marked} WHERE id IN ({marks})", some
            ).fetchall()

    def sample(self, selected: str, meta: IndexMeta, count: int, seed: int) -> list[Columns]:
        """Return at most `count` random documents of a scheme. selected: of `columns_for`."""
        # Only numbers, because ordering a whole table at random would read all of it.
        query = f"SELECT number FROM {self.documents} ORDER BY number"
        numbers = [number for (number,) in self.db.execute(query)]
        random.Random(seed).shuffle(numbers)
        found: list[Columns] = []
        for first in range(0, len(numbers), _VARIABLES):
            some = numbers[first : first + _VARIABLES]
            rows = self.db.execute(
                f"SELECT number, {selected} FROM {self.marked} WHERE"
                f" {value_of(meta.field, 'scheme')} = ?"
                " AND number IN (SELECT value FROM json_each(?))",
                (meta.scheme.id, json.dumps(some)),
            )
            by_number = {number: Columns(*row) for number, *row in rows}
            found += [by_number[number] for number in some if number in by_number]
            if len(found) >= count:
                break
        return found[:count]

    def insert(self, rows: Sequence[Columns]) -> list[int]:
        """Write new documents. Return the positions of those whose ids are taken."""
        # Deleted documents leave numbers free, which count as listed.
        first = max(self.last(), self._listed()) + 1
        done = self.db.executemany(
            f"INSERT INTO {self.documents} VALUES(?1, ?2, ?3, json_extract(?4, '$.scheme'), ?4)"
            " ON CONFLICT(id) DO NOTHING",
            [(number, row.id, row.source, row.tokens) for number, row in enumerate(rows, first)],
        )
        taken: list[int] = []
        if done.rowcount < len(rows):
            selected = f"{self.documents}.number, id"
            numbers = {id: number for number, id in self.by_id(selected, [row.id for row in rows])}
            taken = [at for at, row in enumerate(rows) if numbers[row.id] != first + at]
        marked = {at for at, row in enumerate(rows) if row[3:] != NO_MARKS}.difference(taken)
        self._mark([(first + at, rows[at]) for at in sorted(marked)])
        return taken

    def replace(self, rows: Sequence[tuple[Numbered, Columns]]) -> None:
        """Write documents in place of stored ones; only what differs is written."""
        # The source holds the tokens of other fields than the text.
        first = 1 if any("." in key for key in self._keys) else 2
        changed = json.dumps([old[0] for old, row in rows if old[1][first:3] != row[first:3]])
        self._unlist(changed)
        written = [(number, row) for (number, old), row in rows if old[1:3] != row[1:3]]
        self.db.executemany(
            f"UPDATE {self.documents} SET source = ?1, scheme = json_extract(?2, '$.scheme'),"
            " tokens = ?2 WHERE number = ?3",
            [(row.source, row.tokens, number) for number, row in written],
        )
        self._list(f"number IN {_GIVEN} AND number <= ?2", changed, self._listed())
        self._mark([(number, row) for (number, old), row in rows if old[3:] != row[3:]])

    def forget(self, rows: Sequence[Numbered]) -> None:
        """Delete documents with their tokens."""
        gone = json.dumps([number for number, _ in rows])
        self._unlist(gone)
        for table in (self.documents, self.groups):
            self.db.execute(f"DELETE FROM {table} WHERE number IN {_GIVEN}", (gone,))

    def _mark(self, rows: Sequence[Numbered]) -> None:
        marked = [(number, *row[3:]) for number, row in rows if row[3:] != NO_MARKS]
        self.db.executemany(f"INSERT OR REPLACE INTO {self.groups} VALUES(?, ?, ?, ?, ?)", marked)
        bare = [(number,) for number, row in rows if row[3:] == NO_MARKS]
        self.db.executemany(f"DELETE FROM {self.groups} WHERE number = ?", bare)

    def _unlist(self, numbers: str) -> None:
        """Delete the tokens of documents from the lists. numbers: a JSON array."""
        for key in self._keys:
            self.db.execute(
                f"DELETE FROM {self._name(key)} WHERE (token, document) IN"
                f" (SELECT each.value, number FROM {self.documents}, {_tokens_of(key)} AS each"
                f" WHERE number IN {_GIVEN})",
                (numbers,),
            )

    def _list(self, condition: str, *values: Any) -> None:
        """List the tokens of documents that meet a condition, in SQL."""
        for key in self._keys:
            # In the order of the tree, which takes them in faster.
            self.db.execute(
                f"INSERT OR IGNORE INTO {self._name(key)} SELECT each.value, number FROM"
                f" {self.documents}, {_tokens_of(key)} AS each WHERE {condition} ORDER BY 1, 2",
                values,
            )

    def list_more(self) -> None:
        """List the next documents, at most LISTED_AT_ONCE."""
        listed = self._listed()
        # Past numbers that deleted documents left free.
        first = max(listed, self.next(listed + 1) - 1)
        last = min(self.last(), first + LISTED_AT_ONCE)
        self._list("number > ? AND number <= ?", first, last)
        self.db.execute(f"UPDATE {self._name('listed')} SET number = max(number, ?)", (last,))

    def holders(self, key: str, waiting: int) -> str:
        """Return an SQL query for the documents with each token of a JSON array, parameter 1.

        waiting: the number of documents that are not listed yet.
        """
        # By IN, SQLite would sort the tokens first.
        found = f"SELECT document FROM json_each(?1) CROSS JOIN {self._name(key)} ON token = value"
        if not waiting:
            return found
        return (
            f"{found} UNION ALL SELECT number FROM {self.documents}, {_tokens_of(key)} AS each"
            f" WHERE number > {self._listed()}"
            f" AND each.value IN {_GIVEN}"
        )

    def _rarest(self, key: str) -> str:
        """Return an SQL query for the documents with the rarest token of parameter 1."""
        with_token = f"FROM {self._name(key)} WHERE token ="
        return (
            f"SELECT document {with_token} (SELECT value FROM json_each(?1)"
            f" ORDER BY (SELECT count(*) {with_token} value) LIMIT 1)"
        )

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        """Return for each query the `limit` documents that share most token groups with it."""
        # A document has one token of each position, and a group is of one position, so that
        # counting tokens counts groups. Only the best are joined, because sorting whole documents
        # would read them all.
        keys, waiting = {listed_as(query.field, query.key) for query in queries}, self.waiting()
        holders = {key: self.holders(key, waiting) for key in keys}
        answers, documents = [], dict[tuple[str, str], Document]()
        for query in queries:
            mark = value_of(query.marks_in, "original")
            original = f"(SELECT {mark} FROM {self.marked} WHERE number = document)"
            tokens = [*dict.fromkeys(itertools.chain.from_iterable(query.groups))]
            exclude = query.exclude if is_unicode(query.exclude or "") else None
            wanted = f"AND {original} IS NULL" if query.originals else ""
            key = listed_as(query.field, query.key)
            # Only the documents that have the rarest token can have all.
            all_wanted = not waiting and query.least == len(tokens) > 1
            rare = f"AND document IN ({self._rarest(key)})" if all_wanted else ""
            found = self.db.execute(
                f"SELECT met, {columns('source', 'tokens')} FROM"
                f" (SELECT document AS number, count(*) AS met FROM "
                f" ({holders[key]})"
                f" WHERE document IS NOT (SELECT number FROM {self.documents} WHERE id = ?2) {rare}"
                f" GROUP BY document HAVING met >= ?3 {wanted} ORDER BY met DESC, document"
                f" LIMIT ?4) JOIN {self.documents} USING (number)"
                f" LEFT JOIN {self.groups} USING (number) ORDER BY met DESC, number",
                (json.dumps(tokens), exclude, query.least, limit + 1),
            ).fetchall()
            kept, best = query.key if query.kept else "", []
            for met, id, *row in found[:limit]:
                # Queries of similar texts find the same documents.
                if (id, kept) not in documents:
                    documents[id, kept] = Columns(id, *row).document(kept)
                best.append(Candidate(documents[id, kept], met))
            answers.append(Candidates(best, len(found) > limit))
        return answers


def listed_as(field: str, key: str) -> str:
    """Return the name of the list of tokens of a key below a field of ours."""
    # Tokens of other fields than the text are part of `Columns.source`, and so are their marks.
    return key if field == FIELD else f"{field}.{key}"


def _tokens_of(name: str) -> str:
    """Return the rows of a document's tokens for a list, in SQL."""
    return f"json_each({'source' if '.' in name else 'tokens'}, '$.{name}')"


def value_of(field: str, name: str) -> str:
    """Return the scheme or a mark below a field of ours, in SQL."""
    return f'"{name}"' if field == FIELD else f"json_extract(source, '$.{field}.{name}')"


def _is_mark(name: str, value: Any) -> bool:
    """Return whether a value belongs in the table of groups. Null removes a mark."""
    return name in MARKS and (value is None or type(value) in (str, int, float))


def every_columns(documents: Sequence[Document | Encoded]) -> list[Columns]:
    """Return the columns of documents. Raises RecordError if one can't be stored."""
    tokens = iter(fields_of([each for each in documents if isinstance(each, Encoded)]))
    return [
        columns_of(each) if isinstance(each, Document) else _columns_of(each, next(tokens))
        for each in documents
    ]


def _columns_of(document: Encoded, ours: Mapping[str, str]) -> Columns:
    if ours.keys() != {FIELD}:
        return columns_of(document.document)
    values = map(document.marks.get, MARKS) if document.marks else ()
    return Columns(document.id, document.source, ours[FIELD], *values)


def columns_of(document: Document) -> Columns:
    """Return the columns of a document. Raises RecordError if it can't be stored."""
    of = f"document {document.id!r}"
    if not is_unicode(document.id):
        raise RecordError(f"{of}: the id is not valid Unicode")
    source = {name: value for name, value in document.source.items() if name != FIELD}
    marks = {name: value for name, value in document.tokens.items() if _is_mark(name, value)}
    to_json(marks, of)
    rest = {name: value for name, value in document.tokens.items() if name not in marks}
    return Columns(document.id, to_json(source, of), to_json(rest, of), **marks)


def columns(source: str, tokens: str) -> str:
    """Return the columns of `Columns` in SQL."""
    return f"id, {source}, {tokens}, {_MARKS}"


def columns_for(paths: list[str]) -> tuple[str, Callable[[Columns], dict[str, Any]]]:
    """Return the columns of documents, in SQL, and a function that picks the paths."""
    if all(path.startswith(f"{FIELD}.") and path.count(".") == 1 for path in paths):
        return columns("'{}'", "tokens"), lambda row: only({FIELD: row.ours}, paths)
    return columns("source", "tokens"), lambda row: only(row.whole, paths)
