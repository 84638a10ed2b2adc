"""The groups that a person has looked at and accepted, in a file beside the logs.

A group is known by a digest of its documents and their texts: one that changes is to be looked at
again. The file has a line for each group that was accepted, and for each that was withdrawn.
"""

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from esdedup.exceptions import StoreError
from esdedup.stores.private_files import open_private
from esdedup.text.arrays import Mask


@dataclass(eq=False)
class LookedAt:
    """Groups that were accepted.

    path: of the file; None to keep them in memory only.
    """

    path: Path | None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.path is None or not self.path.is_file():
            return
        for line in self.path.read_text("utf-8", "replace").splitlines():
            try:
                entry = json.loads(line)
                self._note([entry["group"]], entry["accepted"] is True)
            except (ValueError, TypeError, KeyError):
                # The last line of a program that was killed, or one of a later version.
                continue

    def among(self, keys: Sequence[str]) -> Mask:
        """Mark the groups that were accepted, shape (n,)."""
        with self._turn:
            return np.array([key in self._keys for key in keys], bool)

    def accept(self, keys: Sequence[str], *, accepted: bool = True) -> None:
        """Note that groups were looked at and are right, or withdraw that.

        Raises StoreError if the file can't be written.
        """
        time = datetime.now(UTC).isoformat(timespec="seconds")
        entries = [{"group": key, "accepted": accepted, "time": time} for key in keys]
        with self._turn:
            if self.path is not None:
                try:
                    end = "" if _ends_a_line(self.path) else "\n"
                    with open_private(self.path, "a", "strict") as file:
                        file.write(end)
                        file.writelines(json.dumps(entry) + "\n" for entry in entries)
                except OSError as error:
                    raise StoreError(f"{self.path}: {error.strerror or error}") from error
            self._note(keys, accepted)

    def _note(self, keys: Sequence[str], accepted: bool) -> None:
        if accepted:
            self._keys.update(keys)
        else:
            self._keys.difference_update(keys)


def _ends_a_line(path: Path) -> bool:
    """Return whether the next line can follow: a program that was killed may leave half of one."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
