"""Open a SQLite file, run transactions, and turn its errors into ours."""

import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from esdedup.exceptions import EsdedupError, StoreError, StoreUnavailable
from esdedup.sketch.sketch import KeptSets
from esdedup.stores.private_files import create_private
from esdedup.stores.sqlite.sources import json_of

BUSY_SECONDS = 60.0
"""Seconds that a writer waits for another one to commit."""

_APPLICATION = int.from_bytes(b"esdd")
"""Identifies our files. It is the first thing that is written."""

_PRAGMAS = (
    "journal_mode = WAL",
    # A commit is on the disk when it returns, even if the power fails.
    "synchronous = FULL",
    "cache_size = -131072",
)
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors of parsing rows that this program did not write so."""
_NEW = ("page_size = 8192", f"application_id = {_APPLICATION}")
"""For a new file, before the other pragmas."""


class KnownTexts:
    """The knowledge of a connection about the texts of one index.

    shingle_sets: of documents, by number, which searches keep.
    version: another number after each write that may have changed the texts.
    """

    def __init__(self) -> None:
        self.shingle_sets = KeptSets[int]()
        self.version = 0

    def forget(self, numbers: Iterable[int] = ()) -> None:
        """Note that documents are written or deleted. numbers: of those that were there."""
        self.version += 1
        self.shingle_sets.forget(numbers)

    def forget_all(self) -> None:
        """Note that any document may be another one."""
        self.version += 1
        self.shingle_sets.clear()


class Database:
    """One SQLite file, opened at its first use. Threads take turns."""

    def __init__(self, path: Path) -> None:
        self.path, self._wal = path, Path(f"{path}-wal")
        self._connection: sqlite3.Connection | None = None
        self._files: list[tuple[int, int] | None] = []
        self._turn = threading.RLock()
        self._version = 0
        self.texts = defaultdict[str, KnownTexts](KnownTexts)
        """By index. `reading` notes what other connections wrote."""

    @property
    def exists(self) -> bool:
        """Whether there is such a file; reading does not create it."""
        return self._connection is not None or _size(self.path) > 0

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees the file as it is now; errors of sqlite3 become ours."""
        with self._turn, self._errors():
            db = self._connect()
            db.execute("BEGIN")
            try:
                # It differs after another connection changed the file.
                (version,) = db.execute("PRAGMA data_version").fetchone()
                if version != self._version:
                    self._version = version
                    self._forget_texts()
                yield db
            finally:
                if db.in_transaction:
                    db.execute("COMMIT")

    @contextmanager
    def transaction(self, wait: float = BUSY_SECONDS) -> Iterator[sqlite3.Connection]:
        """Wait for other writers, yield the only connection that may write, and commit."""
        with self._turn, self._errors():
            db = self._connect()
            db.execute(f"PRAGMA busy_timeout = {min(wait, BUSY_SECONDS) * 1e3:.0f}")
            try:
                db.execute("BEGIN IMMEDIATE")
            finally:
                db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1e3:.0f}")
            try:
                yield db
                self._require_same()
            except BaseException:
                # If the disk is full, SQLite has rolled back already.
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of its own that sees the file as it is now, without later changes."""
        with self._errors():
            self._require_same()
            db = self._opened()
            try:
                db.execute("BEGIN")
                yield db
            finally:
                db.close()

    def close(self) -> None:
        """Close the connection, if any."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection, self._files = None, []
                self._forget_texts()

    def _forget_texts(self) -> None:
        for texts in [*self.texts.values()]:
            texts.forget_all()

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._opened()
            self._connection.execute("SELECT 1 FROM sqlite_master").fetchall()
            self._files = [_identity(self.path), _identity(self._wal)]
        self._require_same()
        return self._connection

    def _require_same(self) -> None:
        """Raise StoreError if a file is not at its path any more: what we wrote would be lost."""
        for path, opened in zip((self.path, self._wal), self._files, strict=False):
            if opened is not None and _identity(path) != opened:
                raise StoreError(
                    f"{path}: it was moved, removed or replaced while it was open: nothing was"
                    " written since. Put it back, or open the index again"
                )

    def _opened(self) -> sqlite3.Connection:
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.path}: there is no folder {self.path.parent}")
        if _size(self.path) == 0:
            try:
                with suppress(FileExistsError):
                    create_private(self.path).close()
            except OSError as error:
                raise StoreError(f"{self.path}: it can't be made: {error.strerror}") from error
            return self._connected("mode=rw", (*_NEW, *_PRAGMAS))
        self._require_ours()
        return self._connected("mode=rw", _PRAGMAS)

    def _require_ours(self) -> None:
        # Opened so, SQLite locks and changes nothing. Without locks, a file that another process
        # writes at the same time may look damaged. Opened by another way, it would lose the locks
        # of all connections of this process when it is closed.
        version = 0
        try:
            application, version = self._header("mode=ro&immutable=1")
        except sqlite3.DatabaseError:
            application, _ = self._header("mode=rw")
        if application != _APPLICATION:
            raise StoreError(
                f"{self.path}: it is a SQLite file of another program and was not changed: name"
                " another file"
            )
        self._require_wal_of_file(version >> 8)

    def _require_wal_of_file(self, file_id: int) -> None:
        """Raise StoreError if the write-ahead log is of a file that was here before.

        file_id: the random part of `user_version`, or 0.

        https://www.sqlite.org/fileformat2.html: 1.3 and 4.1.
        """
        with suppress(FileNotFoundError), self._wal.open("rb") as wal:
            head = wal.read(32)
            size = int.from_bytes(head[8:12])
            while len(frame := wal.read(24 + size)) == 24 + size and frame[8:16] == head[16:24]:
                version = int.from_bytes(frame[84:87])
                if frame[:4] != b"\0\0\0\1" or not version or not file_id:
                    continue  # Another page than the first, or of a new file.
                if version != file_id:
                    raise StoreError(
                        f"{self._wal}: it holds changes of another file than {self.path}, such as"
                        " of one that a copy was put in place of: move it away"
                    )
                return

    def _header(self, mode: str) -> tuple[int, int]:
        with closing(self._connected(mode, ())) as db:
            names = ("application_id", "user_version")
            application, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
            return application, version

    def _connected(self, mode: str, pragmas: Sequence[str]) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{mode}",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        try:
            # SQLite would take a packed document for JSON of its own binary form.
            db.create_function("json_of", 1, json_of, deterministic=True)
            for pragma in pragmas:
                _when_free(db, f"PRAGMA {pragma}")
        except sqlite3.Error:
            db.close()
            raise
        return db

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except EsdedupError:
            raise
        except (sqlite3.DatabaseError, *_UNREADABLE) as error:
            if is_busy(error):
                raise StoreUnavailable(
                    f"{self.path}: another process has been writing for {BUSY_SECONDS:.0f} s"
                ) from error
            code, why = _code(error), str(error)
            if code == sqlite3.SQLITE_NOTADB:
                why = (
                    "it is not a SQLite file, so it holds no index. If it holds documents, run"
                    f" `esdedup index {self.path}`; if it was an index, restore a copy"
                )
            elif code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                # Even to read, SQLite makes the files that a WAL needs.
                why = (
                    "it can't be written to: copy it, and FILE-wal if there is one, to a folder"
                    " where you may write"
                )
            elif code in (None, sqlite3.SQLITE_CORRUPT) or "malformed" in why:
                why = (
                    f"it is damaged ({why}): restore a copy of it, after you have moved"
                    f" {self._wal} away if there is one, or save what sqlite3 {self.path} .recover"
                    " can read"
                )
            raise StoreError(f"{self.path}: {why}") from error


def _size(path: Path) -> int:
    """Return the size of a file in bytes, or 0 if there is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and number of a file, or None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _code(error: Exception) -> int | None:
    """Return SQLite's primary code of an error, or None for an error of Python's."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code if code is None else code & 0xFF


def _when_free(db: sqlite3.Connection, statement: str) -> None:
    """Run a statement, and retry it while another connection holds a lock."""
    # SQLite itself does not wait when several connections turn a new file's journal into a WAL.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def is_busy(error: Exception) -> bool:
    """Return whether another connection holds a lock."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
