"""The local store: one SQLite file, no server.

Documents are written at once. Their tokens are listed when a search first asks (`postings`).

Tokens lie in a plain table with (token, document) as its primary key, and not in FTS5. FTS5 takes
documents in twice as fast, but answers a query fourteen times as slowly, and queries are what there
is more of (`benchmarks/local_store.py` at commit 4d72008).
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from esdedup.exceptions import IndexNotFound, StoreError, UsageError
from esdedup.models import (
    FIELD,
    WHOLE,
    CandidateQuery,
    Candidates,
    Change,
    Document,
    Encoded,
    Failure,
    Held,
    Share,
    Statistics,
    WriteReport,
    check_sample,
)
from esdedup.stores.changes import CHANGED
from esdedup.stores.fields import only
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.database import Database
from esdedup.stores.sqlite.tables import Tables, as_columns, columns_for, is_unicode, merged

log = logging.getLogger("esdedup")

_LAYOUT = 1
"""The number of the tables' layout, kept as the file's `user_version`."""

_PAGE = 1_000

_MANY = 100_000
"""Number of documents that take seconds to list, so that a warning is logged."""

_SECONDS_TO_READ = 1e-5
"""About the time to look for tokens in a document that is not listed."""


class LocalStore:
    """A store in one SQLite file, which may hold several indices.

    Documents are durable when `write` returns (WAL, synchronous=FULL). One process writes at a
    time, others wait. Readers never wait, and see whole commits.
    """

    def __init__(self, path: str | Path, index: str) -> None:
        if not index or "\0" in index or not is_unicode(index):
            raise UsageError(f"index name {index!r}: use any other text")
        self._database = Database(Path(path))
        self._index = index
        self._tables = Tables(index)

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
            db.execute(f"PRAGMA user_version = {_LAYOUT}")
            db.execute(
                "CREATE TABLE IF NOT EXISTS esdedup_indices(name TEXT PRIMARY KEY, meta TEXT)"
            )
            db.execute(
                "INSERT INTO esdedup_indices VALUES(?, ?)",
                (self._index, json.dumps(meta.to_json())),
            )
            self._tables.create(db)

    @staticmethod
    def encode(document: Document) -> tuple[str, str, str | None, str]:
        return as_columns(document)

    def write(
        self, documents: Sequence[Document | Encoded], *, create: bool = False
    ) -> WriteReport:
        created = updated = 0
        failures: list[Failure] = []
        latest: dict[str, tuple[str, str, str | None, str]] = {}
        # Before the transaction, in which other processes wait.
        columns = [
            each.form if isinstance(each, Encoded) else as_columns(each) for each in documents
        ]
        with self._writing() as db:
            taken = self._tables.tokens_of(db, [id for id, *_ in columns])
            for row in columns:
                known = row[0] in taken or row[0] in latest
                if create and known:
                    failures.append(Failure(row[0], "the id is taken", conflict=True))
                    continue
                created, updated = created + (not known), updated + known
                latest[row[0]] = row
            stored = {id: taken[id] for id in latest if id in taken}
            self._tables.replace(db, list(latest.values()), stored)
        return WriteReport(created, updated, failures)

    def update(self, documents: Sequence[Document]) -> WriteReport:
        failures: list[Failure] = []
        with self._writing() as db:
            found = self._tables.held(db, [document.id for document in documents])
            latest = {id: held.document for id, held in found.items()}
            for id, source in ((document.id, document.source) for document in documents):
                if id in latest:
                    latest[id] = Document(id, merged(latest[id].source, source))
                else:
                    failures.append(Failure(id, "there is no such document"))
            self._put(db, latest)
        return WriteReport(updated=len(documents) - len(failures), failures=failures)

    def get(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Document]:
        with self._reading() as db:
            found = self._tables.read(db, ids, paths)
        return [found[id] for id in ids if id in found]

    def hold(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Held]:
        with self._reading() as db:
            found = self._tables.held(db, ids)
        chosen = [found[id] for id in ids if id in found]
        if paths is None:
            return chosen
        return [
            replace(held, document=Document(held.document.id, only(held.document.source, paths)))
            for held in chosen
        ]

    def hold_again(self, held: Sequence[Held], paths: list[str] | None = None) -> list[Held]:
        return self.hold([one.document.id for one in held], paths)

    def change(self, changes: Sequence[Change]) -> WriteReport:
        failures: list[Failure] = []
        latest: dict[str, Document] = {}
        gone: list[str] = []
        with self._writing() as db:
            found = self._tables.held(db, [change.held.document.id for change in changes])
            for change in changes:
                id = change.held.document.id
                known = found.pop(id, None)
                if known is None or known.version != change.held.version:
                    failures.append(Failure(id, CHANGED, conflict=True))
                elif change.fields is None:
                    gone.append(id)
                else:
                    old = {} if change.whole else known.document.source
                    latest[id] = Document(id, merged(old, change.fields))
            self._put(db, latest)
            self._tables.forget(db, self._tables.tokens_of(db, gone))
        return WriteReport(updated=len(latest) + len(gone), failures=failures)

    def restore(self, held: Sequence[Held]) -> WriteReport:
        return self.write([one.document for one in held], create=True)

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        if any(query.filters for query in queries):
            raise UsageError("filters are queries of a cluster; a local file takes none")
        with self._searching() as db:
            return self._tables.candidates(db, queries, limit)

    def scan(
        self, paths: list[str], meta: IndexMeta, share: Share = WHOLE
    ) -> Iterator[list[Document]]:
        self._require()
        table = self._tables.name("documents")
        source, chosen = columns_for(paths)
        with self._database.snapshot() as db:
            # A document stays in its stripe of numbers, whatever documents come or go.
            last = self._tables.postings.last(db) // _PAGE
            stripes = range(share.number - 1, last + 1, share.of)
            for first in (stripe * _PAGE for stripe in stripes):
                rows = db.execute(
                    f"SELECT id, {source}, tokens FROM {table}"
                    " WHERE scheme = ? AND number >= ? AND number < ? ORDER BY number",
                    (meta.scheme.id, first, first + _PAGE),
                ).fetchall()
                if rows:
                    yield [Document(id, chosen(own, ours)) for id, own, ours in rows]

    def bucket_sizes(self, kind: str, tokens: Sequence[str], meta: IndexMeta) -> list[int]:
        with self._searching() as db:
            counted = f"SELECT count(*) FROM ({self._tables.postings.holders(db, kind)})"
            sizes = [db.execute(counted, (json.dumps([token]),)).fetchone() for token in tokens]
        return [int(size) for (size,) in sizes]

    def put_stop(self, meta: IndexMeta, stop: tuple[str, ...]) -> None:
        with self._writing() as db:
            if self._stored_meta(db) != meta:
                raise StoreError(f"{self.where} was changed by another process: try again")
            db.execute(
                "UPDATE esdedup_indices SET meta = ? WHERE name = ?",
                (json.dumps(replace(meta, stop=stop).to_json()), self._index),
            )

    def sample(self, paths: list[str], meta: IndexMeta, count: int, seed: int) -> list[Document]:
        check_sample(count)
        self._require()
        with self._database.snapshot() as db:
            rows = self._tables.sample(db, meta.scheme.id, count, seed)
            return [
                Document(id, only({**json.loads(source), FIELD: json.loads(tokens)}, paths))
                for id, source, tokens in rows
            ]

    def delete(self, ids: Sequence[str]) -> int:
        with self._writing() as db:
            taken = self._tables.tokens_of(db, ids)
            self._tables.forget(db, taken)
        return len(taken)

    def refresh(self) -> None:
        """Does nothing, because committed documents are visible."""

    def statistics(self, meta: IndexMeta) -> Statistics:
        with self._reading() as db:
            documents, sketched, other = db.execute(
                "SELECT count(*), count(CASE WHEN scheme = ? THEN 1 END),"
                " count(CASE WHEN scheme <> ? THEN 1 END)"
                f" FROM {self._tables.name('documents')}",
                (meta.scheme.id, meta.scheme.id),
            ).fetchone()
            pages, size = (
                db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
            )
        store = f"SQLite {sqlite3.sqlite_version}"
        return Statistics(documents, sketched, other, pages * size, store)

    def close(self) -> None:
        self._database.close()

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        self._require()
        return self._database.reading()

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        self._require()
        return self._database.transaction()

    def _put(self, db: sqlite3.Connection, latest: dict[str, Document]) -> None:
        columns = [as_columns(document) for document in latest.values()]
        self._tables.replace(db, columns, self._tables.tokens_of(db, list(latest)))

    @contextmanager
    def _searching(self) -> Iterator[sqlite3.Connection]:
        """Gives a connection after new documents were listed.

        It waits for another process that writes no longer than reading the new documents takes,
        and then leaves them unlisted.
        """
        self._require()
        postings = self._tables.postings
        with self._database.reading() as db:
            waiting = postings.waiting(db)
        if waiting >= _MANY:
            log.warning("Listing the tokens of %s documents, once, for this search", f"{waiting:,}")
        with suppress(StoreError):
            while waiting:
                with self._database.transaction(wait=waiting * _SECONDS_TO_READ) as db:
                    postings.extend(db)
                    waiting = postings.waiting(db)
        with self._database.reading() as db:
            # Another process may list documents at the same time. Without one moment for all
            # reads, a document could be met twice.
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("COMMIT")

    def _require(self) -> None:
        """Raises IndexNotFound if there is no such index."""
        if self.meta() is None:
            raise IndexNotFound(f"there is no {self.where}")

    def _stored_meta(self, db: sqlite3.Connection) -> IndexMeta | None:
        made, layout = db.execute(
            "SELECT count(name), user_version FROM pragma_user_version"
            " LEFT JOIN sqlite_master ON name = 'esdedup_indices'"
        ).fetchone()
        if not made:
            return None
        if layout != _LAYOUT:
            raise StoreError(
                f"{self._database.path}: its tables have layout {layout}, and this esdedup needs"
                f" layout {_LAYOUT}: index the documents again, into another file"
            )
        row = db.execute(
            "SELECT meta FROM esdedup_indices WHERE name = ?", (self._index,)
        ).fetchone()
        return IndexMeta.from_json(json.loads(row[0])) if row else None
