"""Lists, for each token, the documents of a local file that hold it; searches read these lists.

A new document is listed when a search first asks, and not at once. Many documents are then sorted
together, which is several times as fast (`benchmarks/local_store.py` at commit 4d72008), and a run
that wants only all pairs needs no lists. A search finds the documents that are not listed yet by
their tokens.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from esdedup.models import TOKEN_KINDS

LISTED_AT_ONCE = 100_000
"""Number of documents; they take some seconds, for which other writers wait."""

DIGEST = "json_extract(tokens, '$.digest')"
"""The digest of a document's text, in SQL."""

Tokens = Mapping[int, Mapping[str, Any]]
"""Tokens by the numbers of their documents."""


class Postings:
    """The lists of one index, used within a transaction of the caller's.

    name: gives the quoted name of a table of the index.
    """

    def __init__(self, name: Callable[[str], str]) -> None:
        self._name = name

    def create(self, db: sqlite3.Connection) -> None:
        """Makes the tables."""
        for kind in TOKEN_KINDS:
            db.execute(
                f"CREATE TABLE {self._name(kind)}(token TEXT NOT NULL,"
                " document INTEGER NOT NULL, PRIMARY KEY(token, document)) WITHOUT ROWID"
            )
        db.execute(f"CREATE TABLE {self._name('listed')}(number INTEGER NOT NULL)")
        db.execute(f"INSERT INTO {self._name('listed')} VALUES(0)")

    def last(self, db: sqlite3.Connection) -> int:
        """The highest number of a document, or 0."""
        last = f"SELECT coalesce(max(number), 0) FROM {self._name('documents')}"
        return int(db.execute(last).fetchone()[0])

    def listed(self, db: sqlite3.Connection) -> int:
        """The number up to which documents are listed."""
        (number,) = db.execute(f"SELECT number FROM {self._name('listed')}").fetchone()
        return int(number)

    def waiting(self, db: sqlite3.Connection) -> int:
        """The number of documents that are not listed yet, or a little more."""
        return max(0, self.last(db) - self.listed(db))

    def next_number(self, db: sqlite3.Connection) -> int:
        """A number for a new document, above all that are or were listed."""
        # Deleted documents leave numbers free, which count as listed.
        return max(self.last(db), self.listed(db)) + 1

    def extend(self, db: sqlite3.Connection) -> None:
        """Lists the next documents, at most LISTED_AT_ONCE."""
        first = self.listed(db)
        last = min(self.last(db), first + LISTED_AT_ONCE)
        for kind in TOKEN_KINDS:
            # In the order of the tree, which takes them in faster.
            db.execute(
                f"INSERT OR IGNORE INTO {self._name(kind)} SELECT each.value, number"
                f" FROM {self._name('documents')}, json_each(tokens, '$.{kind}') AS each"
                " WHERE number > ? AND number <= ? ORDER BY 1, 2",
                (first, last),
            )
        db.execute(f"UPDATE {self._name('listed')} SET number = max(number, ?)", (last,))

    def replace(self, db: sqlite3.Connection, old: Tokens, new: Tokens) -> None:
        """Replaces the tokens of listed documents in the lists; others are not listed yet."""
        listed = self.listed(db)
        for kind in TOKEN_KINDS:
            before, after = _rows(kind, old, listed), _rows(kind, new, listed)
            table = self._name(kind)
            gone = sorted(before - after)
            db.executemany(f"DELETE FROM {table} WHERE token = ? AND document = ?", gone)
            db.executemany(f"INSERT OR IGNORE INTO {table} VALUES(?, ?)", sorted(after - before))

    def holders(self, db: sqlite3.Connection, kind: str) -> str:
        """An SQL query for the documents that hold any token of a JSON array, the parameter 1.

        A document comes once for each token that it holds.
        """
        wanted = "IN (SELECT value FROM json_each(?1))"
        documents = self._name("documents")
        if kind == "digest":
            return f"SELECT number AS document FROM {documents} WHERE {DIGEST} {wanted}"
        found = f"SELECT document FROM {self._name(kind)} WHERE token {wanted}"
        listed = self.listed(db)
        if listed >= self.last(db):
            return found
        return (
            f"{found} UNION ALL SELECT number FROM {documents}, json_each(tokens, '$.{kind}')"
            f" AS each WHERE number > {listed} AND each.value {wanted}"
        )


def _rows(kind: str, tokens: Tokens, listed: int) -> set[tuple[str, int]]:
    return {
        (token, number)
        for number, each in tokens.items()
        if number <= listed
        for token in each.get(kind) or ()
    }
