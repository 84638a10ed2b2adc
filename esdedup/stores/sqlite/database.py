"""A SQLite file: its connection and transactions, with its errors turned into ours."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from esdedup.exceptions import StoreError, StoreUnavailable

BUSY_SECONDS = 60.0
"""Seconds that a writer waits for another one to commit."""

_PRAGMAS = (
    "page_size = 8192",
    "journal_mode = WAL",
    # A commit is on the disk when it returns, even if the power fails.
    "synchronous = FULL",
    "cache_size = -131072",
)


class Database:
    """One SQLite file, opened at its first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        """Tells whether there is such a file; reading does not make it."""
        return self._connection is not None or self.path.exists()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Gives a connection; sqlite3's errors become ours."""
        with self._errors():
            yield self._connect()

    @contextmanager
    def transaction(self, wait: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
        """Waits for other writers, then gives the only connection that may write, and commits."""
        with self._errors():
            db = self._connect()
            db.execute(f"PRAGMA busy_timeout = {min(wait, BUSY_SECONDS) * 1e3:.0f}")
            try:
                db.execute("BEGIN IMMEDIATE")
            finally:
                db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1e3:.0f}")
            try:
                yield db
            except BaseException:
                # If the disk is full, SQLite has rolled back already.
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Gives a connection of its own that sees the file as it is now, without later changes."""
        with self._errors():
            db = self._opened()
            try:
                db.execute("BEGIN")
                yield db
            finally:
                db.close()

    def close(self) -> None:
        """Closes the connection, if any."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        self._connection = self._connection or self._opened()
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.path}: there is no folder {self.path.parent}")
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            for pragma in _PRAGMAS:
                _when_free(db, f"PRAGMA {pragma}")
        except sqlite3.Error:
            db.close()
            raise
        return db

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and _is_busy(error):
                raise StoreUnavailable(
                    f"{self.path}: another process has been writing for {BUSY_SECONDS:.0f} s"
                ) from error
            raise StoreError(f"{self.path}: {error}") from error


def _when_free(db: sqlite3.Connection, statement: str) -> None:
    """Runs a statement, again while another connection is in the way.

    SQLite does not wait by itself when several connections make a new file's journal a WAL.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _is_busy(error: sqlite3.Error) -> bool:
    return "locked" in str(error) or "busy" in str(error)


@contextmanager
def held_alone(file: Path, otherwise: str) -> Iterator[None]:
    """Holds a lock file that nobody else, in any process, holds at the same time.

    It is SQLite's lock, which every system has, and which ends with the process in any case.
    otherwise: advice for the message. Raises StoreUnavailable if another run holds it, StoreError
    if it can't be made.
    """
    with ExitStack() as stack:
        try:
            lock = sqlite3.connect(file, timeout=0, isolation_level=None)
            stack.callback(lock.close)
            lock.execute("PRAGMA journal_mode = OFF")
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise StoreUnavailable(f"another run is using {file}; {otherwise}") from error
            raise StoreError(f"{file} can't be locked: {error}; {otherwise}") from error
        yield
