"""The tables of one index in a local file: which there are, and what lies in their rows."""

from __future__ import annotations

import itertools
import json
import random
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import xxhash

from esdedup.datatypes import FIELD, TOKEN_KINDS, Document, Held
from esdedup.stores.rows import as_document, as_row, chunks, is_unicode, marks

_DRAWN_AT_ONCE = 500

DIGEST, ORIGINAL = "json_extract(tokens, '$.digest')", "json_extract(tokens, '$.original')"
"""What documents say of themselves beside their tokens, in SQL."""

TokensOf = dict[str, tuple[int, dict[str, Any]]]
"""By a document's id its number and its tokens."""


class Tables:
    """The tables of one index, used within a transaction of the caller's."""

    def __init__(self, index: str) -> None:
        self._index = index

    def create(self, db: sqlite3.Connection) -> None:
        """Makes the tables."""
        db.execute(
            f"CREATE TABLE {self.name('documents')}(number INTEGER PRIMARY KEY,"
            " id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, scheme TEXT, tokens TEXT)"
        )
        for kind in TOKEN_KINDS:
            db.execute(
                f"CREATE TABLE {self.name(kind)}(token TEXT NOT NULL, document INTEGER"
                " NOT NULL, PRIMARY KEY(token, document)) WITHOUT ROWID"
            )
        self.create_indices(db)

    def create_indices(self, db: sqlite3.Connection) -> None:
        """Makes what files of an earlier esdedup lack."""
        db.execute(
            f"CREATE INDEX IF NOT EXISTS {self.name('digest')}"
            f" ON {self.name('documents')}({DIGEST})"
        )

    def holders(self, kind: str) -> str:
        """What lists the documents that hold any token of a JSON array, once for each."""
        wanted = "IN (SELECT value FROM json_each(?))"
        if kind == "digest":
            documents = self.name("documents")
            return f"(SELECT number AS document FROM {documents} WHERE {DIGEST} {wanted})"
        return f"(SELECT document FROM {self.name(kind)} WHERE token {wanted})"

    def read(self, db: sqlite3.Connection, where: str, values: Sequence[Any]) -> list[Document]:
        """The documents that a condition holds for, without their tokens."""
        rows = db.execute(
            f"SELECT id, source, tokens FROM {self.name('documents')} WHERE {where}", values
        )
        return [as_document(*row) for row in rows]

    def whole(self, db: sqlite3.Connection, id: str) -> Document | None:
        """A document with its tokens."""
        if not is_unicode(id):
            return None
        row = db.execute(
            f"SELECT source, tokens FROM {self.name('documents')} WHERE id = ?", (id,)
        ).fetchone()
        if row is None:
            return None
        return Document(id, {**json.loads(row[0]), FIELD: json.loads(row[1])})

    def tokens_of(self, db: sqlite3.Connection, ids: Sequence[str]) -> TokensOf:
        """The number and the tokens of those of the documents that exist."""
        found: dict[str, tuple[int, dict[str, Any]]] = {}
        for some in chunks(ids):
            for id, number, tokens in db.execute(
                f"SELECT id, number, tokens FROM {self.name('documents')}"
                f" WHERE id IN ({marks(some)})",
                some,
            ):
                found[id] = (number, json.loads(tokens))
        return found

    def forget(self, db: sqlite3.Connection, stored: TokensOf) -> None:
        """Takes documents out, with their tokens."""
        for kind in TOKEN_KINDS:
            rows = [
                (token, number)
                for number, tokens in stored.values()
                for token in tokens.get(kind) or ()
            ]
            if rows:
                table = self.name(kind)
                db.executemany(f"DELETE FROM {table} WHERE token = ? AND document = ?", rows)
        db.executemany(
            f"DELETE FROM {self.name('documents')} WHERE number = ?",
            [(number,) for number, _ in stored.values()],
        )

    def sample(
        self, db: sqlite3.Connection, scheme: str, count: int, seed: int
    ) -> list[tuple[str, str, str]]:
        """The id, fields and tokens of random documents of a scheme, all if there are no more."""
        table = self.name("documents")
        (last,) = db.execute(f"SELECT coalesce(max(number), 0) FROM {table}").fetchone()
        # Drawn by number, because to order a whole table at random is to read all of it.
        drawn = _shuffled(last, seed)
        found: list[tuple[str, str, str]] = []
        while len(found) < count and (some := list(itertools.islice(drawn, _DRAWN_AT_ONCE))):
            rows = db.execute(
                f"SELECT number, id, source, tokens FROM {table}"
                f" WHERE scheme = ? AND number IN ({marks(some)})",
                (scheme, *some),
            )
            by_number = {number: (id, source, tokens) for number, id, source, tokens in rows}
            found += [by_number[number] for number in some if number in by_number]
        return found[:count]

    def held(self, db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Held]:
        """Whole documents by id, with their versions."""
        found: dict[str, Held] = {}
        for some in chunks(ids):
            for id, source, tokens in db.execute(
                f"SELECT id, source, tokens FROM {self.name('documents')}"
                f" WHERE id IN ({marks(some)})",
                some,
            ):
                document = Document(id, {**json.loads(source), FIELD: json.loads(tokens)})
                # What is the same again is as good as unchanged.
                found[id] = Held(
                    document, xxhash.xxh3_128_hexdigest(f"{source}\0{tokens}".encode())
                )
        return found

    def replace(self, db: sqlite3.Connection, documents: Sequence[Document]) -> None:
        """Puts documents in, in place of those of the same ids, which keep their numbers."""
        stored = self.tokens_of(db, [document.id for document in documents])
        (last,) = db.execute(
            f"SELECT coalesce(max(number), 0) FROM {self.name('documents')}"
        ).fetchone()
        fresh = [document for document in documents if document.id not in stored]
        numbers = {document.id: last + at for at, document in enumerate(fresh, 1)}
        numbers |= {id: number for id, (number, _) in stored.items()}
        db.executemany(
            f"INSERT OR REPLACE INTO {self.name('documents')} VALUES(?, ?, ?, ?, ?)",
            (as_row(numbers[document.id], document) for document in documents),
        )
        for kind in TOKEN_KINDS:
            new = {
                (token, numbers[document.id])
                for document in documents
                for token in document.tokens.get(kind) or ()
            }
            old = {
                (token, number)
                for number, tokens in stored.values()
                for token in tokens.get(kind) or ()
            }
            if not (new or old):
                # A file of an earlier release has no table of a kind that came later.
                continue
            table = self.name(kind)
            db.executemany(f"DELETE FROM {table} WHERE token = ? AND document = ?", old - new)
            # In the order of the tree, which takes them in faster: by a fifth at 500,000 documents.
            db.executemany(f"INSERT OR IGNORE INTO {table} VALUES(?, ?)", sorted(new - old))

    def name(self, name: str) -> str:
        """The quoted name of one of the tables: documents, minhash or simhash."""
        # SQLite's own names ignore case, and those that begin with sqlite_ are its own.
        cased = re.sub("[A-Z^]", lambda found: f"^{found[0].lower()}", self._index)
        quoted = cased.replace('"', '""')
        return f'"{name}:{quoted}"'


def _shuffled(last: int, seed: int) -> Iterator[int]:
    """The numbers 1 to `last` in random order, each once."""
    source = random.Random(seed)
    drawn: set[int] = set()
    while 2 * len(drawn) < last:
        number = source.randrange(last) + 1
        if number not in drawn:
            drawn.add(number)
            yield number
    # Where few are left, most draws would be of numbers that came already.
    rest = [number for number in range(1, last + 1) if number not in drawn]
    source.shuffle(rest)
    yield from rest
