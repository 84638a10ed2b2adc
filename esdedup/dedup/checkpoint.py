"""The folder that a long run works in, from which it goes on where it was killed."""

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

from esdedup.dedup.columns import Columns, Reading, read_columns, read_share, shares_of
from esdedup.dedup.union_find import singletons
from esdedup.exceptions import EsdedupError, StoreError, UsageError
from esdedup.models import Share
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.database import held_alone
from esdedup.text.arrays import F64, I64

_JOB, _STATE, _LOCK = "job.json", "state.npz", "lock"
_SECONDS_BETWEEN = 10.0
"""How much work a kill may cost, at most."""


@dataclass(frozen=True)
class Partial:
    """Groups found so far.

    partition: see `partition`. partner: the row that a row was compared with, and value: their
    similarity; its own row where none. rows: so many are done.
    """

    partition: I64
    partner: I64
    value: F64
    rows: int = 0

    def note(self, left: I64, right: I64, value: F64) -> None:
        """Keeps what similar pairs, by right and left, were found to be."""
        _, first = np.unique(right, return_index=True)
        fresh = first[left[first] < self.partner[right[first]]]
        self.partner[right[fresh]] = left[fresh]
        self.value[right[fresh]] = value[fresh]


class WorkFolder:
    """A folder of files of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept_at = time.monotonic()
        self._shares = 1

    @staticmethod
    @contextmanager
    def at(path: Path) -> Iterator[WorkFolder]:
        """A folder that stays when an error ends the run, for one run at a time.

        Raises UsageError where it can't be used, or another run is using it.
        """
        try:
            path.mkdir(exist_ok=True)
            names = {file.name for file in path.iterdir()}
        except OSError as error:
            raise UsageError(
                f"work folder {path}: {error.strerror}: name another one (--work)"
            ) from error
        # A run that was killed may have come no further than to begin.
        if _JOB not in names and any(not _is_ours(name) for name in names):
            raise UsageError(f"{path}: the folder is not empty, and holds no work of ours")
        with _locked(path):
            yield WorkFolder(path)

    def claim(self, store: Store, meta: IndexMeta, parameters: Mapping[str, Any]) -> None:
        """Begins the work, or goes on with it.

        Raises UsageError where the folder holds the work of other parameters.
        """
        job = {
            "index": store.where,
            "scheme": meta.scheme.id,
            "field": meta.field,
            "stop": list(meta.stop),
            **parameters,
        }
        held = self._held_job()
        if held is None:
            self._shares = shares_of(store.statistics(meta).sketched)
            unfinished = self.path / f"{_JOB}.tmp"
            with _telling(self.path):
                unfinished.write_text(json.dumps({**job, "shares": self._shares}), "utf-8")
                unfinished.replace(self.path / _JOB)
            return
        differing = [name for name, value in job.items() if held.get(name) != value]
        if differing:
            raise UsageError(
                f"{self.path} holds unfinished work of another {differing[0]}"
                f" ({held.get(differing[0])}, not {job[differing[0]]}): finish that, remove the"
                " folder, or name another one (--work)"
            )
        self._shares = held["shares"]

    def _held_job(self) -> dict[str, Any] | None:
        file = self.path / _JOB
        try:
            held = json.loads(file.read_text("utf-8")) if file.exists() else None
        except (OSError, ValueError):
            held = {}
        if held is None or (isinstance(held, dict) and isinstance(held.get("shares"), int)):
            return held
        raise UsageError(
            f"{file} can't be read, or is not of ours: remove the folder, or name another one"
            " (--work)"
        )

    def read(
        self, store: Store, reading: Reading, step: Callable[[str, int, int], None]
    ) -> Columns:
        """The columns of all documents, of which those shares are read that are not here yet."""
        documents = store.statistics(reading.meta).sketched
        files = [self.path / f"share-{number:04d}.npz" for number in range(1, self._shares + 1)]
        done = 0

        def on_read(count: int) -> None:
            nonlocal done
            done += count
            step("Reading tokens", min(done, documents), documents)

        with _telling(self.path):
            for number, file in enumerate(files, 1):
                read_share(store, reading, Share(number, self._shares), file, on_read)
            return read_columns(files, reading, self.path)

    def partial(self, rows: int) -> Partial:
        """What was found before, or the beginning."""
        file = self.path / _STATE
        if not file.exists():
            return Partial(singletons(rows), singletons(rows), np.zeros(rows))
        with _telling(self.path), file.open("rb") as raw, np.load(raw) as state:
            found = Partial(
                state["partition"], state["partner"], state["value"], int(state["rows"])
            )
        if found.partition.size != rows:
            raise StoreError(f"{self.path}: the files do not belong together: remove the folder")
        return found

    def keep(self, work: Partial, rows: int) -> Partial:
        """Says that so many rows are done; writes it down from time to time."""
        work = replace(work, rows=rows)
        if time.monotonic() - self._kept_at > _SECONDS_BETWEEN:
            with _telling(self.path):
                self._write(work)
            self._kept_at = time.monotonic()
        return work

    def _write(self, work: Partial) -> None:
        unfinished = self.path / "state.tmp"
        with unfinished.open("wb") as out:
            np.savez(
                out,
                partition=work.partition,
                partner=work.partner,
                value=work.value,
                rows=np.int64(work.rows),
            )
        unfinished.replace(self.path / _STATE)

    def remove(self) -> None:
        """Takes our files away; the folder goes with its lock if nothing else is in it."""
        with _telling(self.path):
            for file in [*self.path.iterdir()]:
                if _is_ours(file.name) and not file.name.startswith(_LOCK):
                    file.unlink()


def _is_ours(name: str) -> bool:
    patterns = (_JOB, _STATE, f"{_LOCK}*", "share-*.npz", "values.npy", "*.tmp")
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other runs out of a folder, which goes when no work is left in it."""
    with held_alone(path / _LOCK, "wait for it, or name another folder (--work)"):
        try:
            yield
        finally:
            if not (path / _JOB).exists():
                with suppress(OSError):
                    (path / _LOCK).unlink()
                    path.rmdir()


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Says in which folder a file could not be read or written."""
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
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="esdedup-") as path:
        yield WorkFolder(Path(path))
