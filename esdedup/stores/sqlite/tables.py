"""The tables of one index in a local file: documents as rows, by id, at random, or by token.

A table for each kind of token lists the documents that hold a token. A new document is listed when
a search first asks, and not at once. Many documents are then sorted together, which is several
times as fast (`benchmarks/local_store.py` at commit 4d72008), and a run that wants only all pairs
needs no lists. A search finds the documents that are not listed yet by their tokens.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import xxhash

from esdedup.exceptions import RecordError
from esdedup.models import FIELD, TOKEN_KINDS, Candidate, CandidateQuery, Candidates, Document, Held
from esdedup.stores.fields import only
from esdedup.stores.to_json import to_json
from esdedup.text.characters import is_unicode

LISTED_AT_ONCE = 100_000
"""Number of documents; they take some seconds, for which other writers wait."""

_VARIABLES = 500
"""Maximum number of values in one SQL statement; SQLite's own limit is far above."""

_SPARSE = 100
"""Numbers a document, from which on a sample is not drawn from all numbers, most of them free."""

GROUP = "json_extract(tokens, '$.group')"
_DIGEST = "json_extract(tokens, '$.digest')"
_ORIGINAL = "json_extract(tokens, '$.original')"
"""The id of the document that a document is marked as a duplicate of, in SQL."""

Columns = tuple[str, str, str | None, str]
"""The columns of a document: id, fields, scheme, tokens."""

TokensOf = dict[str, tuple[int, dict[str, Any]]]
"""The number and the tokens of documents, by their ids."""

TokensByNumber = Mapping[int, Mapping[str, Any]]


class Tables:
    """The tables of one index, used within a transaction of the caller's."""

    def __init__(self, db: sqlite3.Connection, index: str) -> None:
        self.db = db
        # SQLite ignores case in names, and reserves those that begin with sqlite_.
        cased = re.sub("[A-Z^]", lambda found: f"^{found[0].lower()}", index)
        self._index = cased.replace('"', '""')
        self.documents = self._name("documents")

    def _name(self, name: str) -> str:
        """The quoted name of one of the tables: documents, listed, or a kind of token."""
        return f'"{name}:{self._index}"'

    def create(self) -> None:
        """Makes the tables."""
        self.db.execute(
            f"CREATE TABLE {self.documents}(number INTEGER PRIMARY KEY,"
            " id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, scheme TEXT, tokens TEXT)"
        )
        self.db.execute(f"CREATE INDEX {self._name('digest')} ON {self.documents}({_DIGEST})")
        for kind in TOKEN_KINDS:
            self.db.execute(
                f"CREATE TABLE {self._name(kind)}(token TEXT NOT NULL,"
                " document INTEGER NOT NULL, PRIMARY KEY(token, document)) WITHOUT ROWID"
            )
        self.db.execute(f"CREATE TABLE {self._name('listed')}(number INTEGER NOT NULL)")
        self.db.execute(f"INSERT INTO {self._name('listed')} VALUES(0)")

    def last(self) -> int:
        """The highest number of a document, or 0."""
        last = f"SELECT coalesce(max(number), 0) FROM {self.documents}"
        return int(self.db.execute(last).fetchone()[0])

    def next(self, number: int) -> int:
        """The lowest number of a document from a number on, or 0 if there is none."""
        lowest = f"SELECT coalesce(min(number), 0) FROM {self.documents} WHERE number >= ?"
        return int(self.db.execute(lowest, (number,)).fetchone()[0])

    def _listed(self) -> int:
        """The number up to which documents are listed."""
        return int(self.db.execute(f"SELECT number FROM {self._name('listed')}").fetchone()[0])

    def waiting(self) -> int:
        """The number of documents that are not listed yet, or a little more."""
        return max(0, self.last() - self._listed())

    def read(self, ids: Sequence[str], paths: list[str] | None) -> dict[str, Document]:
        """Documents by id, without their tokens. paths: as in `Store.get`."""
        # To parse tokens that are not asked for would take most of the time.
        ours = paths is None or any(path.split(".")[0] == FIELD for path in paths)
        rows = self._by_id("id, source, tokens" if ours else "id, source, '{}'", ids)
        found = [as_document(*row) for row in rows]
        if paths is not None:
            found = [Document(each.id, only(each.source, paths)) for each in found]
        return {each.id: each for each in found}

    def tokens_of(self, ids: Sequence[str]) -> TokensOf:
        """The numbers and the tokens of the documents that exist."""
        rows = self._by_id("id, number, tokens", ids)
        return {id: (number, json.loads(tokens)) for id, number, tokens in rows}

    def held(self, ids: Sequence[str], paths: list[str] | None = None) -> dict[str, Held]:
        """Documents by id, with their versions. paths: as in `Store.hold`."""
        found: dict[str, Held] = {}
        for id, source, tokens in self._by_id("id, source, tokens", ids):
            whole = {**json.loads(source), FIELD: json.loads(tokens)}
            document = Document(id, whole if paths is None else only(whole, paths))
            # A document that was changed and changed back counts as unchanged.
            found[id] = Held(document, xxhash.xxh3_128_hexdigest(f"{source}\0{tokens}".encode()))
        return found

    def _by_id(self, columns: str, ids: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        # An id that is not valid Unicode can't be stored, so that it can't be found either.
        known = [id for id in ids if is_unicode(id)]
        for first in range(0, len(known), _VARIABLES):
            some = known[first : first + _VARIABLES]
            marks = ",".join("?" * len(some))
            yield from self.db.execute(
                f"SELECT {columns} FROM {self.documents} WHERE id IN ({marks})", some
            ).fetchall()

    def sample(self, scheme: str, count: int, seed: int) -> list[tuple[str, str, str]]:
        """The id, fields and tokens of at most `count` random documents of a scheme."""
        # Drawn by number, because ordering a whole table at random would read all of it.
        last = self.last()
        drawn = _shuffled(range(1, last + 1), seed)
        (documents,) = self.db.execute(f"SELECT count(*) FROM {self.documents}").fetchone()
        if last > _SPARSE * documents:
            numbers = self.db.execute(f"SELECT number FROM {self.documents} ORDER BY number")
            drawn = _shuffled([number for (number,) in numbers], seed)
        found: list[tuple[str, str, str]] = []
        while len(found) < count and (some := list(itertools.islice(drawn, _VARIABLES))):
            rows = self.db.execute(
                f"SELECT number, id, source, tokens FROM {self.documents}"
                " WHERE scheme = ? AND number IN (SELECT value FROM json_each(?))",
                (scheme, json.dumps(some)),
            )
            by_number = {number: columns for number, *columns in rows}
            found += [tuple(by_number[number]) for number in some if number in by_number]
        return found[:count]

    def replace(self, columns: Sequence[Columns], stored: TokensOf) -> None:
        """Writes documents; one whose id exists is replaced, and its number stays.

        columns: of each document, by `as_columns`, which takes longer than writing them. stored:
        `tokens_of` their ids.
        """
        fresh = (id for id, *_ in columns if id not in stored)
        numbers = {id: number for id, (number, _) in stored.items()}
        # Deleted documents leave numbers free, which count as listed.
        first = max(self.last(), self._listed()) + 1
        numbers |= {id: number for number, id in enumerate(fresh, first)}
        self.db.executemany(
            f"INSERT OR REPLACE INTO {self.documents} VALUES(?, ?, ?, ?, ?)",
            ((numbers[row[0]], *row) for row in columns),
        )
        # A new document is not listed yet.
        new = {numbers[id]: json.loads(tokens) for id, *_, tokens in columns if id in stored}
        self._list(stored, new)

    def forget(self, stored: TokensOf) -> None:
        """Deletes documents with their tokens."""
        self._list(stored, {})
        self.db.executemany(
            f"DELETE FROM {self.documents} WHERE number = ?",
            [(number,) for number, _ in stored.values()],
        )

    def _list(self, old: TokensOf, new: TokensByNumber) -> None:
        """Replaces the tokens of listed documents in the lists."""
        listed = self._listed()
        for kind in TOKEN_KINDS:
            before, after = _rows(kind, dict(old.values()), listed), _rows(kind, new, listed)
            table, gone, added = self._name(kind), sorted(before - after), sorted(after - before)
            self.db.executemany(f"DELETE FROM {table} WHERE token = ? AND document = ?", gone)
            self.db.executemany(f"INSERT OR IGNORE INTO {table} VALUES(?, ?)", added)

    def list_more(self) -> None:
        """Lists the next documents, at most LISTED_AT_ONCE."""
        listed = self._listed()
        # Past numbers that deleted documents left free.
        first = max(listed, self.next(listed + 1) - 1)
        last = min(self.last(), first + LISTED_AT_ONCE)
        for kind in TOKEN_KINDS:
            # In the order of the tree, which takes them in faster.
            self.db.execute(
                f"INSERT OR IGNORE INTO {self._name(kind)} SELECT each.value, number"
                f" FROM {self.documents}, json_each(tokens, '$.{kind}') AS each"
                " WHERE number > ? AND number <= ? ORDER BY 1, 2",
                (first, last),
            )
        self.db.execute(f"UPDATE {self._name('listed')} SET number = max(number, ?)", (last,))

    def holders(self, kind: str) -> str:
        """An SQL query for the documents that hold any token of a JSON array, the parameter 1.

        A document comes once for each token that it holds.
        """
        wanted = "IN (SELECT value FROM json_each(?1))"
        if kind == "digest":
            return f"SELECT number AS document FROM {self.documents} WHERE {_DIGEST} {wanted}"
        found = f"SELECT document FROM {self._name(kind)} WHERE token {wanted}"
        if not self.waiting():
            return found
        return (
            f"{found} UNION ALL SELECT number FROM {self.documents}, json_each(tokens, '$.{kind}')"
            f" AS each WHERE number > {self._listed()} AND each.value {wanted}"
        )

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        """For each query the `limit` documents that share most token groups with it."""
        # A document has one token of each position, and a group is of one position, so that
        # counting tokens counts groups. Only the best are joined, because sorting whole documents
        # would read them all.
        original = f"(SELECT {_ORIGINAL} FROM {self.documents} WHERE number = document)"
        holders = {kind: self.holders(kind) for kind in {query.kind for query in queries}}
        answers = []
        for query in queries:
            tokens = [token for group in query.groups for token in group]
            exclude = query.exclude if is_unicode(query.exclude or "") else None
            wanted = f"AND {original} IS NULL" if query.originals else ""
            found = self.db.execute(
                f"SELECT id, source, tokens, met FROM (SELECT document, count(*) AS met"
                f" FROM ({holders[query.kind]})"
                f" WHERE document IS NOT (SELECT number FROM {self.documents} WHERE id = ?2)"
                f" GROUP BY document HAVING met >= ?3 {wanted} ORDER BY met DESC, document"
                f" LIMIT ?4) JOIN {self.documents} ON number = document ORDER BY met DESC, number",
                (json.dumps(tokens), exclude, query.least, limit + 1),
            ).fetchall()
            best = [Candidate(as_document(*row), met) for *row, met in found[:limit]]
            answers.append(Candidates(best, len(found) > limit))
        return answers


def _rows(kind: str, tokens: TokensByNumber, listed: int) -> set[tuple[str, int]]:
    return {
        (token, number)
        for number, each in tokens.items()
        if number <= listed
        for token in each.get(kind) or ()
    }


def as_columns(document: Document) -> Columns:
    """Returns the columns of a document. Raises RecordError if it can't be stored."""
    if not is_unicode(document.id):
        raise RecordError(f"document {document.id!r}: the id is not valid Unicode")
    source = {name: value for name, value in document.source.items() if name != FIELD}
    return (
        document.id,
        to_json(source, f"document {document.id!r}"),
        document.tokens.get("scheme"),
        to_json(document.tokens, f"document {document.id!r}"),
    )


def as_document(id: str, source: str, tokens: str) -> Document:
    """Returns a document as callers get it, without its lists of tokens."""
    kept = {name: value for name, value in json.loads(tokens).items() if name not in TOKEN_KINDS}
    return Document(id, {**json.loads(source), **({FIELD: kept} if kept else {})})


def columns_for(paths: list[str]) -> tuple[str, Callable[[str, str], dict[str, Any]]]:
    """Returns the column of a document's own fields, in SQL, and a function that picks the paths.

    The column is NULL if only fields of ours are asked for, which spares reading the others.
    """
    names = {path: path.removeprefix(f"{FIELD}.") for path in paths}
    if all(path == f"{FIELD}.{name}" and "." not in name for path, name in names.items()):

        def of_tokens(_: str, tokens: str) -> dict[str, Any]:
            found = json.loads(tokens)
            return {path: found[name] for path, name in names.items() if name in found}

        return "NULL", of_tokens
    return "source", lambda source, tokens: only(
        {**json.loads(source), FIELD: json.loads(tokens)}, paths
    )


def merged(old: Any, new: Any) -> Any:
    """Merges a partial document into another, as a cluster does."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def _shuffled(numbers: Sequence[int], seed: int) -> Iterator[int]:
    """Different numbers in random order, each once."""
    source = random.Random(seed)
    drawn: set[int] = set()
    while 2 * len(drawn) < len(numbers):
        number = numbers[source.randrange(len(numbers))]
        if number not in drawn:
            drawn.add(number)
            yield number
    # If few numbers are left, most draws would be of numbers that came already.
    rest = [number for number in numbers if number not in drawn]
    source.shuffle(rest)
    yield from rest
