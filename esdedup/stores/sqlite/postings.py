"""Which documents of a local file hold a token: the lists that its searches read.

A document that comes in is not listed at once but when a search first asks: many are then sorted
together, which takes them in several times as fast (`benchmarks/local_store.py` at commit
4d72008), and who only wants all pairs needs no lists. Searches find what is not listed yet as
well, from its tokens.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from esdedup.models import TOKEN_KINDS

LISTED_AT_ONCE = 100_000
"""Documents, which take some seconds: others that write wait so long."""

DIGEST = "json_extract(tokens, '$.digest')"
"""What a document says of its text beside its tokens, in SQL."""

Tokens = Mapping[int, Mapping[str, Any]]
"""The tokens of documents by their numbers."""


class Postings:
    """The lists of one index, used within a transaction of the caller's.

    name: gives the quoted name of a table of the index.
    """

    def __init__(self, name: Callable[[str], str]) -> None:
        self._name = name

    def create(self, db: sqlite3.Connection, listed: int) -> None:
        """Makes the tables, where the documents up to a number are listed already."""
        for kind in TOKEN_KINDS:
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {self._name(kind)}(token TEXT NOT NULL,"
                " document INTEGER NOT NULL, PRIMARY KEY(token, document)) WITHOUT ROWID"
            )
        db.execute(f"CREATE TABLE {self._name('listed')}(number INTEGER NOT NULL)")
        db.execute(f"INSERT INTO {self._name('listed')} VALUES(?)", (listed,))

    def listed(self, db: sqlite3.Connection) -> int | None:
        """The number up to which documents are listed.

        None where all are, in a file of an earlier release.
        """
        try:
            row = db.execute(f"SELECT number FROM {self._name('listed')}").fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return None
        return int(row[0])

    def waiting(self, db: sqlite3.Connection) -> int:
        """How many numbers are not listed yet."""
        listed = self.listed(db)
        return 0 if listed is None else max(0, self._last(db) - listed)

    def next_number(self, db: sqlite3.Connection) -> int:
        """A number for a new document, above all that are listed or were."""
        listed = self.listed(db)
        last = self._last(db)
        if listed is None:
            self.create(db, last)
            return last + 1
        # What was deleted leaves numbers free, which count as listed.
        return max(last, listed) + 1

    def extend(self, db: sqlite3.Connection) -> None:
        """Lists the next documents, LISTED_AT_ONCE at most."""
        first = self.listed(db)
        if first is None:
            return
        last = min(self._last(db), first + LISTED_AT_ONCE)
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
        """Puts other tokens into the lists, for those of the documents that are listed."""
        listed = self.listed(db)
        old, new = _up_to(listed, old), _up_to(listed, new)
        for kind in TOKEN_KINDS:
            before, after = _rows(kind, old), _rows(kind, new)
            if not (before or after):
                # A file of an earlier release has no table of a kind that came later.
                continue
            table = self._name(kind)
            gone = sorted(before - after)
            db.executemany(f"DELETE FROM {table} WHERE token = ? AND document = ?", gone)
            db.executemany(f"INSERT OR IGNORE INTO {table} VALUES(?, ?)", sorted(after - before))

    def holders(self, db: sqlite3.Connection, kind: str) -> str:
        """A query for the documents that hold any token of a JSON array, the parameter 1.

        A document comes once for each token that it holds.
        """
        wanted = "IN (SELECT value FROM json_each(?1))"
        documents = self._name("documents")
        if kind == "digest":
            return f"SELECT number AS document FROM {documents} WHERE {DIGEST} {wanted}"
        found = f"SELECT document FROM {self._name(kind)} WHERE token {wanted}"
        listed = self.listed(db)
        if listed is None or listed >= self._last(db):
            return found
        return (
            f"{found} UNION ALL SELECT number FROM {documents}, json_each(tokens, '$.{kind}')"
            f" AS each WHERE number > {listed} AND each.value {wanted}"
        )

    def _last(self, db: sqlite3.Connection) -> int:
        (last,) = db.execute(
            f"SELECT coalesce(max(number), 0) FROM {self._name('documents')}"
        ).fetchone()
        return int(last)


def _up_to(listed: int | None, tokens: Tokens) -> Tokens:
    if listed is None:
        return tokens
    return {number: each for number, each in tokens.items() if number <= listed}


def _rows(kind: str, tokens: Tokens) -> set[tuple[str, int]]:
    return {(token, number) for number, each in tokens.items() for token in each.get(kind) or ()}
