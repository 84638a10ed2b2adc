"""Lock a file, so that one process at a time works on a folder.

The lock is SQLite's, on every operating system, and ends with the process, also if it is killed.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from esdedup.exceptions import StoreError, StoreUnavailable
from esdedup.stores.private_files import create_private
from esdedup.stores.sqlite.database import is_busy


@contextmanager
def exclusive_lock(file: Path, advice: str, seconds: float = 0) -> Iterator[None]:
    """Hold a lock file exclusively, among all processes.

    advice: what the user can do if another run holds it.
    seconds: to wait for it.

    Raises StoreUnavailable if another run holds it for longer, and StoreError if it can't be
    created.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            # SQLite itself would create a file that other users can read.
            create_private(file).close()
        try:
            lock = sqlite3.connect(file, timeout=seconds, isolation_level=None)
            stack.callback(lock.close)
            lock.execute("PRAGMA journal_mode = OFF")
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if is_busy(error):
                raise StoreUnavailable(f"another run is using {file}; {advice}") from error
            raise StoreError(f"{file} can't be locked: {error}; {advice}") from error
        yield
