"""Rows of numbers on disk, in partitions that fit into memory each."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from esdedup.compare.resources import Resources
from esdedup.exceptions import StoreError
from esdedup.text.arrays import I64, U64

_BYTES_A_ROW = 112
"""Memory to sort a row of 16 bytes of a partition, while the next one is read."""
_MOST_PARTITIONS = 200
"""Each has an open file."""
_LOWER = np.uint64((1 << 32) - 1)


class Partitions:
    """Rows of a key and a number on disk, in partitions that fit into memory each."""

    def __init__(self, folder: Path, files: list[IO[bytes]], rows: int) -> None:
        self.rows = rows
        self._folder, self._files = folder, files

    @staticmethod
    def of(rows: int, resources: Resources, opened: ExitStack) -> Partitions:
        """Open partitions for about as many rows, whose files `opened` closes."""
        count = -(-rows * _BYTES_A_ROW // max(1, resources.memory))
        count = min(max(1, count), _MOST_PARTITIONS)
        files = list[IO[bytes]]()
        with _reporting(resources.folder):
            while len(files) < count:
                file = tempfile.TemporaryFile(dir=resources.folder)  # noqa: SIM115
                files.append(opened.enter_context(file))
        return Partitions(resources.folder, files, 0)

    def __len__(self) -> int:
        return len(self._files)

    def add_by_hash(self, hashes: U64, numbers: I64) -> None:
        """Add rows to the partitions of their hashes, as keys.

        The lower bits choose the partition: anchors have the smallest upper bits of a window.
        """
        partitions = (hashes & _LOWER) * np.uint64(len(self)) >> np.uint64(32)
        self.add(partitions.view(np.int64), hashes, numbers)

    def add(self, partitions: I64, keys: U64, numbers: I64) -> None:
        """Add rows, shape (n,). partitions: the number of each."""
        self.rows += keys.size
        rows = np.stack([keys, numbers.view(np.uint64)], axis=1)
        order = np.argsort(partitions.astype(np.uint8), kind="stable")
        ends = np.cumsum(np.bincount(partitions, minlength=len(self))).tolist()
        with _reporting(self._folder):
            for file, start, end in zip(self._files, [0, *ends], ends, strict=False):
                if start < end:
                    file.write(rows[order[start:end]].data)

    def all(self) -> Iterator[tuple[U64, I64]]:
        """Yield the keys and the numbers of each partition."""
        for file in self._files:
            with _reporting(self._folder):
                file.flush()
                file.seek(0)
                rows = np.frombuffer(file.read(), np.uint64).reshape(-1, 2)
            yield rows[:, 0].copy(), rows[:, 1].view(np.int64)


@contextmanager
def _reporting(folder: Path) -> Iterator[None]:
    """Raise errors of files as StoreError."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"work folder {folder}: {error.strerror or error}") from error
