"""The local store: one SQLite file, no server.

Documents are written immediately. Their tokens are listed by the first search (`tables`).

Tokens are in pages of our own (`postings`), and not in FTS5, which answers queries fourteen times
as slowly as rows of tokens did (`benchmarks/local_store.py` at commit 4d72008).
"""

from __future__ import annotations

import functools
import json
import logging
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np

from esdedup.exceptions import IndexNotFound, StoreError, UsageError
from esdedup.models import (
    WHOLE,
    CandidateQuery,
    Candidates,
    Change,
    Document,
    Failure,
    Held,
    Share,
    Statistics,
    WriteReport,
    check_sample,
)
from esdedup.stores.base import KEPT
from esdedup.stores.changes import CHANGED
from esdedup.stores.concurrency import Window
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.fields import only
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.database import Database
from esdedup.stores.sqlite.rows import NO_MARKS, Columns, with_raw
from esdedup.stores.sqlite.tables import COLUMNS, Numbered, Tables, listed_as
from esdedup.text.characters import is_unicode

log = logging.getLogger("esdedup")

_LAYOUT = 3
"""The number of the tables' layout: the lowest byte of the file's `user_version`.

The others are random, and tell one file from another (`database`).
"""

_PAGE = 1_000

_MANY = 100_000
"""Number of documents from which listing takes seconds and is logged."""

_SECONDS_TO_READ = 1e-5
"""About the time of looking for tokens in a document that is not listed."""


class LocalStore:
    """A store in one SQLite file, which may hold several indices.

    One process writes at a time, others wait. Readers never wait, and see whole commits only.
    """

    def __init__(self, path: str | Path, index: str) -> None:
        if not index or "\0" in index or not is_unicode(index):
            raise UsageError(f"index name {index!r}: use any other text")
        self._database = Database(Path(path))
        self.index = index
        self.window = Window()

    @property
    def where(self) -> str:
        return f"index {self.index!r} in {self._database.path}"

    @property
    def address(self) -> str:
        return str(self._database.path.resolve())

    def meta(self) -> IndexMeta | None:
        if not self._database.exists:
            return None
        with self._database.reading() as db:
            return self._meta(db)

    def create(self, meta: IndexMeta, *, mapped: bool = True) -> None:
        _require_own_tokens(meta)
        with self._database.transaction() as db:
            if (stored := self._meta(db)) is not None:
                stored.require(meta, self.where)
                return
            if not db.execute("PRAGMA user_version").fetchone()[0]:
                db.execute(f"PRAGMA user_version = {secrets.randbits(23) << 8 | _LAYOUT}")
            db.execute(
                "CREATE TABLE IF NOT EXISTS esdedup_indices(name TEXT PRIMARY KEY, meta TEXT)"
            )
            row = self.index, json.dumps(meta.to_json())
            db.execute("INSERT INTO esdedup_indices VALUES(?, ?)", row)
            self._tables(db, meta).create()

    def renew(self, stored: IndexMeta, meta: IndexMeta) -> None:
        _require_own_tokens(meta)
        with self._writing() as tables:
            if self._meta(tables.db) != stored:
                raise StoreError(f"{self.where} was changed by another process: try again")
            if not stored.holds(meta):
                if tables.last():
                    stored.require(meta, self.where)
                tables.drop()
                self._tables(tables.db, meta).create()
            row = json.dumps(meta.to_json()), self.index
            tables.db.execute("UPDATE esdedup_indices SET meta = ? WHERE name = ?", row)

    def loading(self, fast: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def has_pipeline(self) -> bool:
        return False

    def write(
        self, documents: Sequence[Document] | EncodedDocuments, *, create: bool = False
    ) -> WriteReport:
        # Before the transaction, because other processes wait for it.
        with self._reading() as tables:
            scheme, rows = tables.rows.scheme, tables.rows.columns(documents)
        with self._writing() as tables:
            if tables.rows.scheme.id != scheme.id:
                rows = tables.rows.columns(documents)
            if create:
                taken = tables.insert(rows)
                # When a run resumes, this is twice as fast as to hold and compare them.
                stored = tables.stored([rows[at].id for at in taken])
                failures = [
                    Failure(rows[at].id, "the id is taken", conflict=True)
                    for at in taken
                    if not isinstance(documents, EncodedDocuments)
                    or stored[rows[at].id][1][1:3] != rows[at][1:3]
                    or rows[at][3:] not in (stored[rows[at].id][1][3:], NO_MARKS)
                ]
                unchanged = len(taken) - len(failures)
                return WriteReport(len(rows) - len(taken), 0, failures, unchanged)
            latest = {row.id: row for row in rows}
            stored = tables.stored(list(latest))
            tables.replace([(old, latest[id]) for id, old in stored.items()])
            fresh = [row for id, row in latest.items() if id not in stored]
            tables.insert(fresh)
        return WriteReport(len(fresh), len(rows) - len(fresh))

    def get(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Document]:
        with self._reading() as tables:
            read = tables.rows.documents([*tables.by_id(COLUMNS, ids)])
        if paths is not None:
            read = [Document(each.id, only(each.source, paths)) for each in read]
        found = {each.id: each for each in read}
        return [found[id] for id in ids if id in found]

    def hold(
        self, ids: Sequence[str], paths: list[str] | None = None, *, to_change: bool = False
    ) -> list[Held]:
        with self._reading() as tables:
            stored = tables.stored(ids)
            rows = [stored[id][1] for id in ids if id in stored]
            documents = tables.rows.chosen(rows, paths)
            if paths is None:
                documents = [*map(with_raw, documents, rows)]
            every = zip(documents, rows, strict=True)
            return [Held(document, row.version) for document, row in every]

    def hold_again(self, held: Sequence[Held], paths: list[str] | None = None) -> list[Held]:
        return self.hold([one.id for one in held], None if paths == KEPT else paths)

    def change(self, changes: Sequence[Change]) -> WriteReport:
        failures: list[Failure] = []
        found: list[tuple[Numbered, Change]] = []
        gone: list[Numbered] = []
        with self._writing() as tables:
            stored = tables.stored([change.held.id for change in changes])
            for change in changes:
                id = change.held.id
                known = stored.pop(id, None)
                if known is None or known[1].version != change.held.version:
                    failures.append(Failure(id, CHANGED, conflict=True))
                elif change.fields is None:
                    gone.append(known)
                else:
                    found.append((known, change))
            stale = [known for known, _ in found]
            latest = tables.rows.changed([row for _, row in stale], [each for _, each in found])
            tables.replace([*zip(stale, latest, strict=True)])
            tables.forget(gone)
        return WriteReport(updated=len(latest) + len(gone), failures=failures)

    def restore(self, held: Sequence[Held]) -> WriteReport:
        return self.write([one.document for one in held], create=True)

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        if any(query.filters for query in queries):
            raise UsageError("filters are queries of a cluster; a local file accepts none")
        with self._searching() as tables:
            return tables.candidates(queries, limit)

    def scan(
        self, paths: list[str], meta: IndexMeta, share: Share = WHOLE, *, marked: bool = False
    ) -> Iterator[list[Document]]:
        with self._opened(self._database.snapshot()) as tables:
            group = tables.value_of(meta.marks_field, "group")
            wanted = f"AND {group} IS NOT NULL" if marked else ""
            scheme = tables.value_of(meta.field, "scheme")
            # A document stays in its stripe of numbers, whatever documents come or go.
            stripe, last = share.number - 1, tables.last() // _PAGE
            while stripe <= last:
                rows = tables.db.execute(
                    f"SELECT {tables.columns_for(paths)} FROM {tables.marked}"
                    f" WHERE {scheme} = ? AND number >= ? AND number < ? {wanted} ORDER BY number",
                    (meta.scheme.id, stripe * _PAGE, (stripe + 1) * _PAGE),
                ).fetchall()
                if rows:
                    yield tables.rows.chosen([Columns(*row) for row in rows], paths)
                # The next stripe of this share that may hold any, past many deleted ones.
                following = max(stripe + 1, tables.next((stripe + 1) * _PAGE) // _PAGE)
                stripe += -(-(following - stripe) // share.of) * share.of

    def analyzed(self, field: str, texts: Sequence[str]) -> list[list[str]]:
        raise NotImplementedError

    def bucket_sizes(self, key: str, tokens: Sequence[str], meta: IndexMeta) -> list[int]:
        with self._searching() as tables:
            at, _ = tables.holders(listed_as(meta.field, key), tokens)
            return [*map(int, np.bincount(at, minlength=len(tokens)))]

    def sample(self, paths: list[str], meta: IndexMeta, count: int, seed: int) -> list[Document]:
        check_sample(count)
        with self._opened(self._database.snapshot()) as tables:
            rows = tables.sample(tables.columns_for(paths), meta, count, seed)
            return tables.rows.chosen(rows, paths)

    def some_ids(self, count: int) -> list[str]:
        if self.meta() is None:
            return []
        with self._reading() as tables:
            order = f"SELECT id FROM {tables.documents} ORDER BY number"
            ends = ((f"{order} LIMIT ?", -(-count // 2)), (f"{order} DESC LIMIT ?", count // 2))
            found = [row for query, most in ends for row in tables.db.execute(query, (most,))]
        return [*dict.fromkeys(id for (id,) in found)]

    def refresh(self) -> None:
        """Do nothing, because committed documents are visible."""

    def statistics(self, meta: IndexMeta) -> Statistics:
        with self._reading() as tables:
            scheme = tables.value_of(meta.field, "scheme")
            documents, sketched, other = tables.db.execute(
                f"SELECT count(*), count(CASE WHEN {scheme} = ? THEN 1 END),"
                f" count(CASE WHEN {scheme} <> ? THEN 1 END)"
                f" FROM {tables.documents}",
                (meta.scheme.id, meta.scheme.id),
            ).fetchone()
            pages = (
                "SELECT (page_count - freelist_count) * page_size"
                " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
            )
            size = tables.one(pages)
        return Statistics(documents, sketched, other, size, f"SQLite {sqlite3.sqlite_version}")

    def names(self) -> list[str]:
        return []

    def indices(self) -> list[str]:
        if not self._database.exists:
            return []
        with self._database.reading() as db:
            if not db.execute("PRAGMA user_version").fetchone()[0]:
                return []
            found = db.execute("SELECT name FROM esdedup_indices ORDER BY name").fetchall()
        return [name for (name,) in found]

    def drop(self) -> None:
        with self._writing() as tables:
            tables.drop()
            tables.db.execute("DELETE FROM esdedup_indices WHERE name = ?", (self.index,))

    def beside(self, index: str) -> LocalStore:
        other = LocalStore(self._database.path, index)
        other._database = self._database
        return other

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _opened(self, opened: AbstractContextManager[sqlite3.Connection]) -> Iterator[Tables]:
        """Yield the tables of the index. Raises IndexNotFound if it does not exist."""
        if not self._database.exists:
            raise IndexNotFound(f"there is no {self.where}")
        with opened as db:
            if (meta := self._meta(db)) is None:
                raise IndexNotFound(f"there is no {self.where}")
            yield self._tables(db, meta)

    def _tables(self, db: sqlite3.Connection, meta: IndexMeta) -> Tables:
        return Tables(db, self.index, meta, self._database.known[self.index])

    def _reading(self) -> AbstractContextManager[Tables]:
        return self._opened(self._database.reading())

    def _writing(self) -> AbstractContextManager[Tables]:
        return self._opened(self._database.transaction())

    @contextmanager
    def _searching(self) -> Iterator[Tables]:
        """Yield the tables after listing new documents, unless reading them takes less time."""
        # Another process may list documents at the same time. Without a snapshot for all reads, a
        # document could be counted twice.
        with self._reading() as tables:
            if not (waiting := tables.waiting()):
                yield tables
                return
        if waiting >= _MANY:
            log.warning("Listing the tokens of %s documents, once, for this search", f"{waiting:,}")
        with suppress(StoreError):
            while waiting:
                # Another process may have made the index anew, with other lists.
                wait = waiting * _SECONDS_TO_READ
                with self._opened(self._database.transaction(wait)) as tables:
                    tables.list_more()
                    waiting = tables.waiting()
        with self._reading() as tables:
            yield tables

    def _meta(self, db: sqlite3.Connection) -> IndexMeta | None:
        # The layout is written together with the first index.
        (layout,) = db.execute("PRAGMA user_version").fetchone()
        if not layout:
            return None
        if layout & 0xFF != _LAYOUT:
            raise StoreError(
                f"{self._database.path}: its tables have layout {layout & 0xFF}, and this esdedup"
                f" needs layout {_LAYOUT}: index the documents again, into another file"
            )
        own = "SELECT meta FROM esdedup_indices WHERE name = ?"
        row = db.execute(own, (self.index,)).fetchone()
        return _parsed(row[0]) if row else None


@functools.lru_cache
def _parsed(text: str) -> IndexMeta:
    return IndexMeta.from_json(json.loads(text))


def _require_own_tokens(meta: IndexMeta) -> None:
    if len(meta.written) < len(meta.all):
        raise UsageError("a server computes these tokens, and a local file has none: use --url")
