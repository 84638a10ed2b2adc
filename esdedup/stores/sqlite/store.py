"""The local store: one SQLite file, no server.

Documents are written immediately. Their tokens are listed by the first search (`listing`).

Tokens are in pages of our own (`postings`), and not in FTS5, which answers queries fourteen times
as slowly as rows of tokens did (`benchmarks/local_store.py` at commit 4d72008).
"""

from __future__ import annotations

import functools
import json
import logging
import secrets
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from esdedup.exceptions import IndexNotFound, StoreError, UsageError
from esdedup.models import (
    WHOLE,
    CandidateQuery,
    Candidates,
    Change,
    Document,
    Failure,
    Share,
    Statistics,
    StoredDocument,
    Unattached,
    WriteReport,
    check_sample,
)
from esdedup.stores.base import ALL_PATHS
from esdedup.stores.changes import CHANGED
from esdedup.stores.concurrency import Window
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.fields import only
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.database import Database
from esdedup.stores.sqlite.documents import COLUMNS, DocumentTable
from esdedup.stores.sqlite.full_text import FullText
from esdedup.stores.sqlite.listing import Listing, listed_as
from esdedup.stores.sqlite.ranked import RankedCandidates
from esdedup.stores.sqlite.rows import NO_MARKS, NumberedRow, Row, with_raw
from esdedup.stores.sqlite.sizes import StoreSizes
from esdedup.stores.sqlite.table_names import TableNames
from esdedup.text.characters import is_unicode

log = logging.getLogger("esdedup")

_LAYOUT, _LAYOUT_OF_VECTORS = 3, 4
"""The numbers of the tables' layout: the lowest byte of the file's `user_version`.

The others are random, and tell one file from another (`database`). A file gets the second number
when documents are first written into an index of vectors, which packs them (`sources`): versions
that can't read these refuse the file. Vectors of before stay text until they are written again.
"""

_STRIPE = 1_000
"""How many successive numbers of documents are a stripe, of which a scan reads one at a time."""

_MANY = 100_000
"""Number of documents from which listing takes seconds and is logged."""

_SECONDS_TO_READ = 1e-5
"""About the time of looking for tokens in a document that is not listed."""


class _Tables(NamedTuple):
    """The index within a transaction.

    db: the connection.
    documents: by id, by number, or at random.
    listing: which documents hold each token.
    """

    db: sqlite3.Connection
    documents: DocumentTable
    listing: Listing


class LocalStore:
    """A store in one SQLite file, which may hold several indices.

    One process writes at a time, others wait. Readers never wait, and see whole commits only.
    """

    has_routings = False

    def __init__(self, path: str | Path, index: str, sizes: StoreSizes = StoreSizes()) -> None:  # noqa: B008
        if not index or "\0" in index or not is_unicode(index):
            raise UsageError(f"index name {index!r}: use any other text")
        self._database = Database(Path(path))
        self.index = index
        self.window = Window()
        self._sizes = sizes
        self._full_text: FullText | None = None
        self._reading_texts = threading.Lock()

    @property
    def where(self) -> str:
        return f"index {self.index!r} in {self._database.path}"

    @property
    def address(self) -> str:
        return str(self._database.path.resolve())

    @property
    def missing_file(self) -> Path | None:
        """The file of the store, if it does not exist."""
        path = self._database.path
        return None if path.exists() else path

    def meta(self) -> IndexMeta | None:
        if not self._database.exists:
            return None
        with self._database.reading() as db:
            return self._meta(db)

    def create(self, meta: IndexMeta, *, mapped: bool = True) -> int:
        _require_own_tokens(meta)
        with self._database.transaction() as db:
            if (stored := self._meta(db)) is not None:
                stored.require(meta, self.where)
                return 0
            if not _user_version(db):
                db.execute(f"PRAGMA user_version = {secrets.randbits(23) << 8 | _LAYOUT}")
            db.execute(
                "CREATE TABLE IF NOT EXISTS esdedup_indices(name TEXT PRIMARY KEY, meta TEXT)"
            )
            row = self.index, json.dumps(meta.to_json())
            db.execute("INSERT INTO esdedup_indices VALUES(?, ?)", row)
            self._tables(db, meta).documents.create_tables()
        return 0

    def renew(self, stored: IndexMeta, meta: IndexMeta) -> None:
        _require_own_tokens(meta)
        with self._writing() as tables:
            if self._meta(tables.db) != stored:
                raise StoreError(f"{self.where} was changed by another process: try again")
            if not stored.holds(meta):
                if tables.listing.last_document():
                    stored.require(meta, self.where)
                tables.documents.drop_tables()
                self._tables(tables.db, meta).documents.create_tables()
            row = json.dumps(meta.to_json()), self.index
            tables.db.execute("UPDATE esdedup_indices SET meta = ? WHERE name = ?", row)

    def why_not_new(self) -> str | None:
        meta = self.meta()
        if meta is None or not self.statistics(meta).documents:
            return None
        return f"{self.index!r} has documents"

    def loading(self, fast: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def write_index(self) -> str | None:
        return None

    def requires_routing(self) -> bool:
        return False

    def has_pipeline(self) -> bool:
        return False

    def why_refused(self, fields: Collection[str], reasons: Collection[str]) -> str | None:
        return None

    def write(
        self, documents: Sequence[Document] | EncodedDocuments, *, create: bool = False
    ) -> WriteReport:
        # Before the transaction, because other processes wait for it.
        with self._reading() as tables:
            scheme, rows = tables.documents.format.scheme, tables.documents.format.rows(documents)
        with self._writing() as tables:
            if tables.documents.format.scheme.id != scheme.id:
                # Another process has replaced the scheme since.
                rows = tables.documents.format.rows(documents)
            if create:
                is_encoded = isinstance(documents, EncodedDocuments)
                return _insert(tables.documents, rows, is_encoded=is_encoded)
            latest = {row.id: row for row in rows}
            stored = tables.documents.stored(list(latest))
            tables.documents.replace([(old, latest[id]) for id, old in stored.items()])
            new_rows = [row for id, row in latest.items() if id not in stored]
            tables.documents.insert(new_rows)
        return WriteReport(len(new_rows), len(rows) - len(new_rows))

    def get(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Document]:
        with self._reading() as tables:
            rows = [*tables.documents.by_id(COLUMNS, ids)]
            documents = {
                document.id: document for document in tables.documents.format.documents(rows)
            }
        in_order = [documents[id] for id in ids if id in documents]
        if paths is None:
            return in_order
        return [Document(document.id, only(document.source, paths)) for document in in_order]

    def hold(
        self, ids: Sequence[str], paths: list[str] | None = None, *, to_change: bool = False
    ) -> list[StoredDocument]:
        with self._reading() as tables:
            stored = tables.documents.stored(ids)
            rows = [stored[id].row for id in ids if id in stored]
            documents = tables.documents.format.with_tokens(rows, paths)
            if paths is None:
                documents = [*map(with_raw, documents, rows)]
            pairs = zip(documents, rows, strict=True)
            return [StoredDocument(document, row.version) for document, row in pairs]

    def hold_now(self, ids: Sequence[str], paths: list[str]) -> list[StoredDocument]:
        return self.hold(ids, paths)

    def hold_again(
        self, documents: Sequence[StoredDocument], paths: list[str] | None = None
    ) -> list[StoredDocument]:
        ids = [document.id for document in documents]
        return self.hold(ids, None if paths == ALL_PATHS else paths)

    def change(self, changes: Sequence[Change]) -> WriteReport:
        failures: list[Failure] = []
        deleted: list[NumberedRow] = []
        old_rows: list[NumberedRow] = []
        changes_of_rows: list[Change] = []
        with self._writing() as tables:
            stored = tables.documents.stored([change.stored.id for change in changes])
            for change in changes:
                id = change.stored.id
                numbered = stored.pop(id, None)
                if numbered is None or numbered.row.version != change.stored.version:
                    failures.append(Failure(id, CHANGED, conflict=True))
                elif change.fields is None:
                    deleted.append(numbered)
                else:
                    old_rows.append(numbered)
                    changes_of_rows.append(change)
            new_rows = tables.documents.format.changed(
                [numbered.row for numbered in old_rows], changes_of_rows
            )
            tables.documents.replace([*zip(old_rows, new_rows, strict=True)])
            tables.documents.delete(deleted)
        return WriteReport(updated=len(new_rows) + len(deleted), failures=failures)

    def restore(self, documents: Sequence[StoredDocument]) -> WriteReport:
        return self.write([document.document for document in documents], create=True)

    def outside(self, indices: Collection[str]) -> list[str]:
        return []

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        if any(query.filters for query in queries):
            raise UsageError("filters are queries of a cluster; a local file accepts none")
        with self._searching() as tables:
            ranked = RankedCandidates(tables.documents, tables.listing, self._sizes)
            return ranked.of(queries, limit)

    def scan(
        self, paths: list[str], meta: IndexMeta, share: Share = WHOLE, *, marked: bool = False
    ) -> Iterator[list[Document]]:
        with self._opened(self._database.snapshot()) as tables:
            documents, listing = tables.documents, tables.listing
            group_sql = documents.value_of(meta.marks_field, "group")
            and_marked = f"AND {group_sql} IS NOT NULL" if marked else ""
            scheme_sql = documents.value_of(meta.field, "scheme")
            query = (
                f"SELECT {documents.columns_for(paths)} FROM {documents.tables.marked}"
                f" WHERE {scheme_sql} = ? AND number >= ? AND number < ? {and_marked}"
                " ORDER BY number"
            )
            # Shares take stripes in turns. A document stays in its stripe of numbers, whatever
            # documents come or go.
            stripe, last_stripe = share.number - 1, listing.last_document() // _STRIPE
            while stripe <= last_stripe:
                first, end = stripe * _STRIPE, (stripe + 1) * _STRIPE
                rows = tables.db.execute(query, (meta.scheme.id, first, end)).fetchall()
                if rows:
                    yield documents.format.with_tokens([Row(*row) for row in rows], paths)
                # Many documents may have been deleted: skip stripes, but only whole turns of them.
                next_stripe = max(stripe + 1, listing.next_document(end) // _STRIPE)
                turns = -(-(next_stripe - stripe) // share.of)
                stripe += turns * share.of

    def analyzed(self, field: str, texts: Sequence[str]) -> list[list[str]]:
        raise NotImplementedError

    def bucket_sizes(self, key: str, tokens: Sequence[str], meta: IndexMeta) -> list[int]:
        with self._searching() as tables:
            # A position among the tokens comes once for each document that holds the token.
            positions, _ = tables.listing.holders(listed_as(meta.field, key), tokens)
            return [*map(int, np.bincount(positions, minlength=len(tokens)))]

    def sample(self, paths: list[str], meta: IndexMeta, count: int, seed: int) -> list[Document]:
        check_sample(count)
        with self._opened(self._database.snapshot()) as tables:
            columns = tables.documents.columns_for(paths)
            rows = tables.documents.sample(columns, meta, count, seed)
            return tables.documents.format.with_tokens(rows, paths)

    def has_places(self) -> bool:
        return False

    def ids_with_indices(self, ids: Sequence[str]) -> list[str]:
        return []

    def full_text(self, words: str, meta: IndexMeta, limit: int) -> tuple[list[str], int]:
        self.read_texts(meta, lambda documents: None)
        assert self._full_text is not None
        return self._full_text.find(words, limit)

    def has_read_texts(self) -> bool:
        return self._full_text is not None and self._full_text.is_of(self._version())

    def read_texts(self, meta: IndexMeta, on_read: Callable[[int], None]) -> None:
        with self._reading_texts:
            if self._full_text is None:
                self._full_text = FullText()
            version = self._version()
            if not self._full_text.is_of(version):
                batches = self.scan([*meta.text_fields], meta)
                self._full_text.read(batches, meta.text_fields, version, on_read)

    def _version(self) -> int:
        """Return another number after each write that may have changed the texts."""
        with self._reading():
            return self._database.texts[self.index].version

    def some_ids(self, count: int) -> list[str]:
        if self.meta() is None:
            return []
        with self._reading() as tables:
            query = f"SELECT id FROM {tables.documents.tables.documents} ORDER BY number"
            first = tables.db.execute(f"{query} LIMIT ?", (-(-count // 2),)).fetchall()
            last = tables.db.execute(f"{query} DESC LIMIT ?", (count // 2,)).fetchall()
        return [*dict.fromkeys(id for (id,) in first + last)]

    def unattached(self) -> Unattached:
        return Unattached()

    def require_attached(self) -> None:
        """Do nothing, because a name is that of one index."""

    def refresh(self) -> None:
        """Do nothing, because committed documents are visible."""

    def statistics(self, meta: IndexMeta) -> Statistics:
        with self._reading() as tables:
            scheme_sql = tables.documents.value_of(meta.field, "scheme")
            documents, sketched, of_other_scheme = tables.db.execute(
                f"SELECT count(*), count(CASE WHEN {scheme_sql} = ? THEN 1 END),"
                f" count(CASE WHEN {scheme_sql} <> ? THEN 1 END)"
                f" FROM {tables.documents.tables.documents}",
                (meta.scheme.id, meta.scheme.id),
            ).fetchone()
            (size,) = tables.db.execute(
                "SELECT (page_count - freelist_count) * page_size"
                " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
            ).fetchone()
        return Statistics(
            documents, sketched, of_other_scheme, size, f"SQLite {sqlite3.sqlite_version}"
        )

    def names(self) -> list[str]:
        return []

    def indices(self) -> list[str]:
        if not self._database.exists:
            return []
        with self._database.reading() as db:
            if not _user_version(db):
                return []
            rows = db.execute("SELECT name FROM esdedup_indices ORDER BY name").fetchall()
        return [name for (name,) in rows]

    def drop(self) -> None:
        with self._writing() as tables:
            tables.documents.drop_tables()
            tables.db.execute("DELETE FROM esdedup_indices WHERE name = ?", (self.index,))

    def beside(self, index: str) -> LocalStore:
        store = LocalStore(self._database.path, index, self._sizes)
        store._database = self._database
        return store

    def close(self) -> None:
        if self._full_text is not None:
            self._full_text.close()
            self._full_text = None
        self._database.close()

    @contextmanager
    def _opened(self, connection: AbstractContextManager[sqlite3.Connection]) -> Iterator[_Tables]:
        """Yield the tables of the index. Raises IndexNotFound if it does not exist."""
        if not self._database.exists:
            raise IndexNotFound(f"there is no {self.where}")
        with connection as db:
            if (meta := self._meta(db)) is None:
                raise IndexNotFound(f"there is no {self.where}")
            yield self._tables(db, meta)

    def _tables(self, db: sqlite3.Connection, meta: IndexMeta) -> _Tables:
        names = TableNames(self.index)
        listing = Listing(db, names, meta, self._sizes)
        texts = self._database.texts[self.index]
        return _Tables(db, DocumentTable(db, names, meta, listing, texts), listing)

    def _reading(self) -> AbstractContextManager[_Tables]:
        return self._opened(self._database.reading())

    @contextmanager
    def _writing(self) -> Iterator[_Tables]:
        with self._opened(self._database.transaction()) as tables:
            version = _user_version(tables.db)
            if version & 0xFF == _LAYOUT and tables.documents.format.vector_fields:
                layout = version & ~0xFF | _LAYOUT_OF_VECTORS
                tables.db.execute(f"PRAGMA user_version = {layout}")
            yield tables

    @contextmanager
    def _searching(self) -> Iterator[_Tables]:
        """Yield the tables after listing new documents, unless reading them takes less time."""
        # Another process may list documents at the same time. Without a snapshot for all reads, a
        # document could be counted twice.
        with self._reading() as tables:
            if not (unlisted := tables.listing.unlisted()):
                yield tables
                return
        if unlisted >= _MANY:
            log.warning(
                "Listing the tokens of %s documents, once, for this search", f"{unlisted:,}"
            )
        # Without a turn to write, the search reads the documents that are not listed.
        with suppress(StoreError):
            while unlisted:
                # Another process may have made the index anew, with other lists.
                wait = unlisted * _SECONDS_TO_READ
                with self._opened(self._database.transaction(wait)) as tables:
                    tables.listing.list_more()
                    unlisted = tables.listing.unlisted()
        with self._reading() as tables:
            yield tables

    def _meta(self, db: sqlite3.Connection) -> IndexMeta | None:
        # The layout is written together with the first index.
        version = _user_version(db)
        if not version:
            return None
        layout = version & 0xFF
        if layout not in (_LAYOUT, _LAYOUT_OF_VECTORS):
            raise StoreError(
                f"{self._database.path}: its tables have layout {layout}, and this esdedup"
                f" reads layouts {_LAYOUT} and {_LAYOUT_OF_VECTORS}: index the documents again,"
                " into another file"
            )
        query = "SELECT meta FROM esdedup_indices WHERE name = ?"
        row = db.execute(query, (self.index,)).fetchone()
        return _meta_of(row[0]) if row else None


def _user_version(db: sqlite3.Connection) -> int:
    """Return the random bits and the layout of a file's tables, or 0 if it has none."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _insert(documents: DocumentTable, rows: Sequence[Row], *, is_encoded: bool) -> WriteReport:
    """Write new documents; an id that exists is a failure.

    is_encoded: a document that is stored in the same bytes counts as unchanged. When a run
    resumes, this is twice as fast as to hold and compare documents.
    """
    conflicts = [rows[position] for position in documents.insert(rows)]
    stored = documents.stored([row.id for row in conflicts])

    def is_stored(row: Row) -> bool:
        old = stored[row.id].row
        has_same_bytes = (old.json, old.tokens) == (row.json, row.tokens)
        return is_encoded and has_same_bytes and row.marks in (old.marks, NO_MARKS)

    failures = [
        Failure(row.id, "the id is taken", conflict=True) for row in conflicts if not is_stored(row)
    ]
    unchanged = len(conflicts) - len(failures)
    return WriteReport(len(rows) - len(conflicts), 0, failures, unchanged)


@functools.lru_cache
def _meta_of(text: str) -> IndexMeta:
    return IndexMeta.from_json(json.loads(text))


def _require_own_tokens(meta: IndexMeta) -> None:
    if not all(fields.in_documents for fields in meta.sketched_with_next):
        raise UsageError("a server computes these tokens, and a local file has none: use `url`")
