"""A SQLite file: its connection, its transactions, and what its errors mean."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from esdedup.exceptions import StoreError, StoreUnavailable

BUSY_SECONDS = 60.0
"""How long a writer waits for another one to commit."""

_PRAGMAS = (
    "page_size = 8192",
    "journal_mode = WAL",
    # A commit is on the disk when it returns, also where the power fails.
    "synchronous = FULL",
    "cache_size = -131072",
)


class Database:
    """One SQLite file, opened when it is first used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        """Whether there is such a file; to read does not make it."""
        return self._connection is not None or self.path.exists()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection; sqlite3's errors become ours."""
        with self._errors():
            yield self._connect()

    @contextmanager
    def transaction(self, wait: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
        """A connection that alone may write, committed at the end unless an error leaves it.

        wait: seconds to wait for another that writes.
        """
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
                # Where the disk is full, SQLite has done so.
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own that sees the file as it is now, whatever is written later."""
        with self._errors():
            db = self._opened()
            try:
                db.execute("BEGIN")
                yield db
            finally:
                db.close()

    def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._opened()
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
        except sqlite3.OperationalError as error:
            if _is_busy(error):
                raise StoreUnavailable(
                    f"{self.path}: another process has been writing for {BUSY_SECONDS:.0f} s"
                ) from error
            raise StoreError(f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.path}: {error}") from error


def _when_free(db: sqlite3.Connection, statement: str) -> None:
    """Runs a statement, again while another connection is in the way.

    To make a new file's journal a WAL, SQLite does not wait for others that do so too.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute(statement)
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _is_busy(error: sqlite3.Error) -> bool:
    return "locked" in str(error) or "busy" in str(error)


@contextmanager
def held_alone(file: Path, otherwise: str) -> Iterator[None]:
    """Holds a file that no other process, nor anybody else in this one, holds at the same time.

    SQLite's lock: every system has it, and it ends with the process, however that ends.
    otherwise: what to do where it can't be held, for the message.
    Raises StoreUnavailable where another holds it, StoreError where it can't be made.
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
