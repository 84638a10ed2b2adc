"""Reads an index into a folder, and keeps checkpoints there, so that a killed run can go on.

The folder holds the columns that were read, and a checkpoint: the groups found so far.
"""

from __future__ import annotations

import json
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from esdedup.dedup.columns import (
    Columns,
    Reading,
    read_columns,
    read_share,
    written_whole,
)
from esdedup.dedup.union_find import singletons
from esdedup.exceptions import EsdedupError, StoreError, UsageError
from esdedup.models import Share
from esdedup.stores.base import Store
from esdedup.stores.sqlite.database import held_alone
from esdedup.text.arrays import F64, I64, run_starts

_JOB, _STATE, _LOCK = "job.json", "state.npz", "lock"
_DOCUMENTS_A_SHARE = 100_000
_MOST_SHARES = 1024
_SECONDS_BETWEEN = 10.0
"""Time between checkpoints: a kill loses at most this much work."""

OnStep = Callable[[str, int, int], None]
"""Called with the name of a step, the amount done, and the total."""


@dataclass(frozen=True)
class Checkpoint:
    """The groups found so far.

    partition: the first row of each row's group, as in `union_find`, shape (n,).
    partner: the first row that was found similar to each row, its own row if none, shape (n,).
    value: similarity to the partner, shape (n,).
    rows: number of rows that are done.
    """

    partition: I64
    partner: I64
    value: F64
    rows: int = 0

    def note(self, left: I64, right: I64, value: F64) -> None:
        """Keeps the values of similar pairs, sorted by right and then left, in place."""
        first = np.flatnonzero(run_starts(right))
        fresh = first[left[first] < self.partner[right[first]]]
        self.partner[right[fresh]] = left[fresh]
        self.value[right[fresh]] = value[fresh]


class WorkFolder:
    """A folder that holds the columns and the checkpoint of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept_at = time.monotonic()

    @staticmethod
    @contextmanager
    def at(path: Path) -> Iterator[WorkFolder]:
        """A folder for one run at a time, which stays if an error ends the run.

        Raises UsageError if it can't be used, StoreUnavailable if another run is using it.
        """
        try:
            path.mkdir(exist_ok=True)
            names = {file.name for file in path.iterdir()}
        except OSError as error:
            raise UsageError(
                f"work folder {path}: {error.strerror}: name another one (--work)"
            ) from error
        # A run that was killed early may have left other files of ours, but no job.
        if _JOB not in names and any(not _is_ours(name) for name in names):
            raise UsageError(f"{path}: the folder is not empty, and not a work folder of esdedup")
        with held_alone(path / _LOCK, "wait for it, or name another folder (--work)"):
            try:
                yield WorkFolder(path)
            finally:
                # The folder is removed with its lock, unless work is left in it.
                if not (path / _JOB).exists():
                    with suppress(OSError):
                        (path / _LOCK).unlink()
                        path.rmdir()

    def read(self, store: Store, reading: Reading, job: Mapping[str, Any], step: OnStep) -> Columns:
        """The columns of all documents. Reads the shares that are not in the folder yet.

        job: parameters that tell the run from others: only a run with the same ones goes on.

        Raises UsageError if the folder holds the work of another run.
        """
        meta = reading.meta
        documents = store.statistics(meta).sketched
        index = {"index": store.where, "scheme": meta.scheme.id, "field": meta.field}
        whole = {**index, "stop": list(meta.stop), **job}
        wanted = max(1, min(_MOST_SHARES, -(-documents // _DOCUMENTS_A_SHARE)))
        shares = self._claimed_shares(whole, wanted)
        files = [self.path / f"share-{number:04d}.npz" for number in range(1, shares + 1)]
        done = 0

        def on_read(count: int) -> None:
            nonlocal done
            done += count
            step("Reading tokens", min(done, documents), documents)

        with _naming(self.path):
            for number, file in enumerate(files, 1):
                read_share(store, reading, Share(number, shares), file, on_read)
            return read_columns(files, reading, self.path)

    def _claimed_shares(self, job: Mapping[str, Any], shares: int) -> int:
        """The number of shares of a job, for which it claims the folder: `shares` for a new one."""
        file = self.path / _JOB
        if not file.exists():
            with _naming(self.path), written_whole(file) as out:
                out.write(json.dumps({**job, "shares": shares}).encode())
            return shares
        try:
            held = json.loads(file.read_text("utf-8"))
            shares = int(held["shares"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f"{file} can't be read, or esdedup did not write it: remove the folder, or name"
                " another one (--work)"
            ) from error
        differing = [name for name, value in job.items() if held.get(name) != value]
        if differing:
            raise UsageError(
                f"{self.path} holds unfinished work of another {differing[0]}"
                f" ({held.get(differing[0])}, not {job[differing[0]]}): finish that, remove the"
                " folder, or name another one (--work)"
            )
        return shares

    def checkpoint(self, rows: int) -> Checkpoint:
        """The last checkpoint, or the state before any of `rows` rows is done."""
        file = self.path / _STATE
        if not file.exists():
            return Checkpoint(singletons(rows), singletons(rows), np.zeros(rows))
        with _naming(self.path), file.open("rb") as raw, np.load(raw) as state:
            partition, partner, value = (state[name] for name in ("partition", "partner", "value"))
            found = Checkpoint(partition, partner, value, int(state["rows"]))
        if found.partition.size != rows:
            raise StoreError(f"{self.path}: the files do not belong together: remove the folder")
        return found

    def keep(self, found: Checkpoint, rows: int) -> Checkpoint:
        """The checkpoint with `rows` rows done; writes it from time to time."""
        found = replace(found, rows=rows)
        if time.monotonic() - self._kept_at > _SECONDS_BETWEEN:
            with _naming(self.path), written_whole(self.path / _STATE) as out:
                np.savez(out, **vars(found))
            self._kept_at = time.monotonic()
        return found

    def remove(self) -> None:
        """Removes our files. The folder itself goes at the end, if nothing else is in it."""
        with _naming(self.path):
            for file in [*self.path.iterdir()]:
                if _is_ours(file.name) and not file.name.startswith(_LOCK):
                    file.unlink()


def _is_ours(name: str) -> bool:
    patterns = (_JOB, _STATE, f"{_LOCK}*", "share-*.npz", "values.npy", "*.tmp")
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Names the folder in errors of reading and writing its files."""
    try:
        yield
    except EsdedupError:
        raise
    except (zipfile.BadZipFile, KeyError, EOFError, ValueError) as error:
        raise StoreError(f"{path}: a file is damaged: remove the folder ({error})") from error
    except OSError as error:
        raise StoreError(f"work folder {path}: {error.strerror or error}") from error


@contextmanager
def temporary_folder() -> Iterator[WorkFolder]:
    """A folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="esdedup-") as path:
        yield WorkFolder(Path(path))
