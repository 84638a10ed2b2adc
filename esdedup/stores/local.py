"""The local store: one SQLite file, no server.

Tokens lie in a plain table, (token, document) in its primary key, and not in FTS5: that takes
documents in twice as fast, but answers a query fourteen times as slowly, of which there are more
(`benchmarks/local_store.py`).
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from esdedup.datatypes import (
    FIELD,
    TOKEN_KINDS,
    Candidate,
    Candidates,
    Document,
    Failure,
    RecallQuery,
    Statistics,
    WriteReport,
)
from esdedup.exceptions import IndexNotFound, RecordError, UsageError
from esdedup.fields import only
from esdedup.schema import IndexMeta
from esdedup.stores.rows import as_document, as_row, chunks, is_unicode, marks, merged
from esdedup.stores.sqlite import Database

_PAGE = 1_000


class LocalStore:
    """A store in one SQLite file, which may hold several indices.

    Commits are durable when `write` returns (WAL, synchronous=FULL). One process writes at a time,
    others wait; readers never wait and see whole commits.
    """

    def __init__(self, path: str | Path, index: str) -> None:
        if not index or "\0" in index or not is_unicode(index):
            raise UsageError(f"index name {index!r}: use any other text")
        self._database = Database(Path(path))
        self._index = index

    @property
    def where(self) -> str:
        return f"index {self._index!r} in {self._database.path}"

    def meta(self) -> IndexMeta | None:
        if not self._database.exists:
            return None
        with self._database.reading() as db:
            return self._stored_meta(db)

    def create(self, meta: IndexMeta) -> None:
        with self._database.transaction() as db:
            if (stored := self._stored_meta(db)) is not None:
                stored.require(meta, self.where)
                return
            db.execute(
                "CREATE TABLE IF NOT EXISTS esdedup_indices(name TEXT PRIMARY KEY, meta TEXT)"
            )
            db.execute(
                "INSERT INTO esdedup_indices VALUES(?, ?)",
                (self._index, json.dumps(meta.to_json())),
            )
            db.execute(
                f"CREATE TABLE {self._table('documents')}(number INTEGER PRIMARY KEY,"
                " id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, scheme TEXT, tokens TEXT)"
            )
            for kind in TOKEN_KINDS:
                db.execute(
                    f"CREATE TABLE {self._table(kind)}(token TEXT NOT NULL, document INTEGER"
                    " NOT NULL, PRIMARY KEY(token, document)) WITHOUT ROWID"
                )

    def write(self, documents: Sequence[Document], *, create: bool = False) -> WriteReport:
        created = updated = 0
        failures: list[Failure] = []
        latest: dict[str, Document] = {}
        for document in documents:
            if not is_unicode(document.id):
                raise RecordError(f"document {document.id!r}: the id is no valid Unicode")
        with self._writing() as db:
            taken = self._tokens_of(db, [document.id for document in documents])
            for document in documents:
                known = document.id in taken or document.id in latest
                if create and known:
                    failures.append(Failure(document.id, "the id is taken", conflict=True))
                    continue
                created, updated = created + (not known), updated + known
                latest[document.id] = document
            self._forget(db, {id: taken[id] for id in latest.keys() & taken.keys()})
            self._insert(db, list(latest.values()))
        return WriteReport(created, updated, failures)

    def update(self, documents: Sequence[Document]) -> WriteReport:
        latest: dict[str, Document] = {}
        failures: list[Failure] = []
        with self._writing() as db:
            for document in documents:
                known = latest.get(document.id) or self._whole(db, document.id)
                if known is None:
                    failures.append(Failure(document.id, "there is no such document"))
                else:
                    whole = merged(known.source, document.source)
                    latest[document.id] = Document(document.id, whole)
            self._forget(db, self._tokens_of(db, list(latest)))
            self._insert(db, list(latest.values()))
        return WriteReport(updated=len(documents) - len(failures), failures=failures)

    def get(self, ids: Sequence[str]) -> list[Document]:
        found: dict[str, Document] = {}
        with self._reading() as db:
            for some in chunks(ids):
                for document in self._read(db, f"id IN ({marks(some)})", some):
                    found[document.id] = document
        return [found[id] for id in ids if id in found]

    def recall(self, queries: Sequence[RecallQuery], limit: int) -> list[Candidates]:
        if any(query.filters for query in queries):
            raise UsageError("filters are queries of a cluster; a local file has none")
        with self._reading() as db:
            return [self._recall(db, query, limit) for query in queries]

    def scan(self, paths: list[str], meta: IndexMeta) -> Iterator[list[Document]]:
        self._require()
        with self._database.snapshot() as db:
            rows = db.execute(
                f"SELECT id, source, tokens FROM {self._table('documents')} WHERE scheme = ?",
                (meta.scheme.id,),
            )
            while page := rows.fetchmany(_PAGE):
                yield [
                    Document(id, only({**json.loads(source), FIELD: json.loads(tokens)}, paths))
                    for id, source, tokens in page
                ]

    def delete(self, ids: Sequence[str]) -> int:
        with self._writing() as db:
            taken = self._tokens_of(db, ids)
            self._forget(db, taken)
        return len(taken)

    def refresh(self) -> None:
        """Nothing to do: what is committed is visible."""

    def statistics(self, meta: IndexMeta) -> Statistics:
        with self._reading() as db:
            documents, sketched, other = db.execute(
                "SELECT count(*), count(CASE WHEN scheme = ? THEN 1 END),"
                " count(CASE WHEN scheme <> ? THEN 1 END)"
                f" FROM {self._table('documents')}",
                (meta.scheme.id, meta.scheme.id),
            ).fetchone()
            pages, size = (
                db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
            )
        store = f"SQLite {sqlite3.sqlite_version}"
        return Statistics(documents, sketched, other, pages * size, store)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self._require()
        with self._database.reading() as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._require()
        with self._database.transaction() as db:
            yield db

    def _require(self) -> None:
        """Raises IndexNotFound where there is no such index."""
        if self.meta() is None:
            raise IndexNotFound(f"there is no {self.where}")

    def _stored_meta(self, db: sqlite3.Connection) -> IndexMeta | None:
        (made,) = db.execute(
            "SELECT count(*) FROM sqlite_master WHERE name = 'esdedup_indices'"
        ).fetchone()
        if not made:
            return None
        row = db.execute(
            "SELECT meta FROM esdedup_indices WHERE name = ?", (self._index,)
        ).fetchone()
        return IndexMeta.from_json(json.loads(row[0])) if row else None

    def _recall(self, db: sqlite3.Connection, query: RecallQuery, limit: int) -> Candidates:
        # A document has one token of each position and a group is of one position, so that
        # counting tokens counts groups. Only the best are joined: to sort whole documents would
        # read them all.
        tokens = [token for group in query.groups for token in group]
        exclude = query.exclude if is_unicode(query.exclude or "") else None
        documents = self._table("documents")
        found = db.execute(
            f"SELECT id, source, tokens, met FROM (SELECT document, count(*) AS met"
            f" FROM {self._table(query.kind)} WHERE token IN (SELECT value FROM json_each(?))"
            f" AND document IS NOT (SELECT number FROM {documents} WHERE id = ?)"
            " GROUP BY document HAVING met >= ? ORDER BY met DESC, document LIMIT ?)"
            f" JOIN {documents} ON number = document ORDER BY met DESC, number",
            (json.dumps(tokens), exclude, query.least, limit + 1),
        ).fetchall()
        candidates = [
            Candidate(as_document(id, source, tokens), met) for id, source, tokens, met in found
        ]
        return Candidates(candidates[:limit], len(candidates) > limit)

    def _read(self, db: sqlite3.Connection, where: str, values: Sequence[Any]) -> list[Document]:
        rows = db.execute(
            f"SELECT id, source, tokens FROM {self._table('documents')} WHERE {where}", values
        )
        return [as_document(*row) for row in rows]

    def _whole(self, db: sqlite3.Connection, id: str) -> Document | None:
        """A document with its tokens."""
        if not is_unicode(id):
            return None
        row = db.execute(
            f"SELECT source, tokens FROM {self._table('documents')} WHERE id = ?", (id,)
        ).fetchone()
        if row is None:
            return None
        return Document(id, {**json.loads(row[0]), FIELD: json.loads(row[1])})

    def _tokens_of(
        self, db: sqlite3.Connection, ids: Sequence[str]
    ) -> dict[str, tuple[int, dict[str, Any]]]:
        """The number and the tokens of those of the documents that exist."""
        found: dict[str, tuple[int, dict[str, Any]]] = {}
        for some in chunks(ids):
            for id, number, tokens in db.execute(
                f"SELECT id, number, tokens FROM {self._table('documents')}"
                f" WHERE id IN ({marks(some)})",
                some,
            ):
                found[id] = (number, json.loads(tokens))
        return found

    def _forget(
        self, db: sqlite3.Connection, stored: dict[str, tuple[int, dict[str, Any]]]
    ) -> None:
        for kind in TOKEN_KINDS:
            rows = [
                (token, number)
                for number, tokens in stored.values()
                for token in tokens.get(kind) or ()
            ]
            # A file of an earlier release has no table of a kind that came later.
            if rows:
                db.executemany(
                    f"DELETE FROM {self._table(kind)} WHERE token = ? AND document = ?", rows
                )
        db.executemany(
            f"DELETE FROM {self._table('documents')} WHERE number = ?",
            [(number,) for number, _ in stored.values()],
        )

    def _insert(self, db: sqlite3.Connection, documents: Sequence[Document]) -> None:
        first = db.execute(
            f"SELECT coalesce(max(number), 0) + 1 FROM {self._table('documents')}"
        ).fetchone()[0]
        db.executemany(
            f"INSERT INTO {self._table('documents')} VALUES(?, ?, ?, ?, ?)",
            (as_row(number, document) for number, document in enumerate(documents, first)),
        )
        for kind in TOKEN_KINDS:
            # In the order of the tree, which takes them in faster: by a fifth at 500,000 documents.
            rows = sorted(
                (token, number)
                for number, document in enumerate(documents, first)
                for token in document.tokens.get(kind) or ()
            )
            if rows:
                db.executemany(f"INSERT OR IGNORE INTO {self._table(kind)} VALUES(?, ?)", rows)

    def _table(self, name: str) -> str:
        # SQLite's own names ignore case, and those that begin with sqlite_ are its own.
        cased = re.sub("[A-Z^]", lambda found: f"^{found[0].lower()}", self._index)
        quoted = cased.replace('"', '""')
        return f'"{name}:{quoted}"'
