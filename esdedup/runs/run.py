"""A folder that a job owns, on this machine or at an address.

Each step of a job writes one file, whole or not at all, so that a job that is killed resumes with
the first step that is missing.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import EsdedupError, StoreError, UsageError
from esdedup.records.locations import (
    content_of,
    copy,
    created,
    folder_of,
    is_address,
    listed,
    look_up,
    remove,
    written,
)
from esdedup.stores.sqlite.lock_file import exclusive_lock

T = TypeVar("T")
Arrays = dict[str, NDArray[Any]]
OnStep = Callable[[str, int, int], None]
"""Called with the name of a step, the amount done, and the total."""
LISTED_FILES = "list of files"
"""The parameter of a job on files that holds the digest of their list."""

_JOB, _LOCK = "job.json", "lock"
_VERSION_KEY, _VERSION = "version of files", 2
"""The version of the files of a run. Runs of other versions are not resumed."""
_WRITTEN_NAMES = re.compile(
    r"\.?((job|shares|sketched|report|state)\.json|values|records|decisions|conflicts"
    r"|share-\d{4,}\.npz|texts-\d{4,})(\.tmp)?|lock(-journal)?"
)
"""Names of the files that a run writes, also those of earlier versions."""


@dataclass(frozen=True)
class ShareSizes:
    """How much is in memory, or in one file.

    documents: of a share.
    bytes: of the texts of a share, which is in memory until it is written.
    shares: most shares of an index.
    ahead: bytes of texts at an address that one request fetches.
    """

    documents: int = 100_000
    bytes: int = 64 << 20
    shares: int = 1024
    ahead: int = 1 << 20


class Run:
    """A folder that a job owns, on this machine or at an address.

    place: its path or address.
    is_exclusive: no other process uses the folder, which holds nothing but the files of the run.
    sizes: of its shares.
    claimed: the folder holds the work of this job, and not of another.
    """

    def __init__(
        self,
        place: str | Path,
        *,
        is_exclusive: bool = False,
        sizes: ShareSizes = ShareSizes(),
    ) -> None:
        self.place = str(place).rstrip("/")
        self.is_exclusive = is_exclusive
        self.sizes = sizes
        self.claimed = False

    @staticmethod
    @contextmanager
    def at(path: Path, sizes: ShareSizes = ShareSizes()) -> Iterator[Run]:
        """Open a folder for one process at a time; it stays if an error ends the job.

        Raises UsageError if the folder can't be used, StoreUnavailable if another run is using it.
        """
        try:
            with suppress(FileExistsError):
                path.mkdir(0o700)
            if path.is_symlink():
                raise UsageError(
                    f"work folder {path}: it is a symbolic link: name a folder (`work`)"
                )
            for entry in path.iterdir():
                is_ours = _WRITTEN_NAMES.fullmatch(entry.name)
                if not is_ours or entry.is_symlink() or not entry.is_file():
                    raise UsageError(
                        f"work folder {path}: it holds {entry.name}, which esdedup did not write:"
                        " remove that, or name another folder (`work`)"
                    )
        except OSError as error:
            raise UsageError(
                f"work folder {path}: {error.strerror}: name another one (`work`)"
            ) from error
        run = Run(path, is_exclusive=True, sizes=sizes)
        with run.lock("wait for it, or name another folder (`work`)"):
            try:
                yield run
            finally:
                # The folder is removed with its lock, unless work is left in it.
                if not (path / _JOB).exists():
                    run.remove_empty()

    @staticmethod
    @contextmanager
    def temporary(sizes: ShareSizes = ShareSizes()) -> Iterator[Run]:
        """Open a folder that is removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="esdedup-") as path:
            yield Run(path, is_exclusive=True, sizes=sizes)

    @property
    def folder(self) -> Path:
        """The folder, of a run on this machine."""
        return Path(self.place)

    @contextmanager
    def lock(self, advice: str, name: str = _LOCK, seconds: float = 0) -> Iterator[None]:
        """Lock the folder, which is created if it is missing, among all processes.

        Stores of objects have no locks, and need none: each upload is whole. advice: for the
        message. Raises StoreUnavailable if another process holds the lock for longer.
        """
        if is_address(self.place):
            yield
            return
        if not self.folder.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with exclusive_lock(self.folder / name, advice, seconds):
            yield

    def has_lock(self) -> bool:
        """Return whether the folder has a file that processes lock."""
        return (self.folder / _LOCK).exists()

    def claim(self, job: Mapping[str, object], *, replace: bool = False) -> None:
        """Claim the folder for a job, which is described by its parameters.

        replace: replace another job on files, of which no results exist. Raises UsageError if the
        folder belongs to a job with other parameters, or of another version of esdedup.
        """
        job = json.loads(json.dumps({**job, _VERSION_KEY: _VERSION}))
        if not self.has(_JOB):
            if self.is_exclusive:
                self.clear()  # A kill in `clear` leaves files of a job that is done.
            self.write(_JOB, json.dumps(job).encode())
        claimed = self._described()
        if claimed.get(_VERSION_KEY) != _VERSION:
            raise UsageError(
                f"{self.place} belongs to a run of another version of esdedup: finish it with that"
                " version, remove the folder, or name another one (`work`)"
            )
        if differing := difference(claimed, job):
            if replace and LISTED_FILES in claimed:
                self.remove(_JOB)
                self.claim(job)
                return
            # Tasks leave the folder when they are done.
            kind = "an unfinished run" if self.is_exclusive else "a run"
            raise UsageError(
                f"{self.place} belongs to {kind} with {differing}: finish that, remove the folder,"
                " or name another one (`work`)"
            )
        self.claimed = True

    def _described(self) -> dict[str, object]:
        """Return the parameters of the job that the folder belongs to."""
        try:
            job = json.loads(self.read(_JOB))
            if not isinstance(job, dict):
                raise TypeError
        except (EsdedupError, ValueError, TypeError, RecursionError) as error:
            raise UsageError(
                f"{self.path_of(_JOB)} can't be read, or esdedup did not write it: remove the"
                " folder, or name another one (`work`)"
            ) from error
        return job

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return what a step computes, a value of JSON, which is computed and saved only once."""
        if not self.has(name):
            self.save_value(name, compute())
        value: T = self.value_of(name)
        return value

    def save_value(self, name: str, value: object) -> None:
        """Save a value of JSON, with which a step is done."""
        self.write(name, json.dumps(value).encode())

    def value_of(self, name: str) -> Any:
        """Return a value that `save_value` saved. Raises StoreError if the file is damaged."""
        with self.reporting_errors():
            return json.loads(self.read(name))

    def save(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Save arrays in one file."""
        with self.writing(name) as out:
            np.savez(out, **arrays)

    def load(self, name: str) -> Arrays:
        """Return the arrays that `save` saved. Raises StoreError if the file is damaged."""
        with self.reporting_errors(), self.folder.joinpath(name).open("rb") as file:
            return load_arrays(file)

    def has(self, name: str) -> bool:
        """Return whether a file is there, and thus whole."""
        return look_up(self.path_of(name), refresh=True) is not None

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.reporting_errors():
            return content_of(self.path_of(name))

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which is there when it is whole."""
        with self.writing(name) as out:
            out.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file to write, which is there when it is whole."""
        with self.reporting_errors(), written(self._writable(name)) as out:
            yield out

    def create(self, name: str, content: bytes) -> bool:
        """Write a new file, and return True; False if there is one, as `locations.created`."""
        return created(self._writable(name), content)

    def put(self, file: Path, name: str) -> None:
        """Copy a file of this machine into the folder."""
        copy(str(file), self._writable(name))

    def fetch(self, name: str, to: Path) -> None:
        """Copy a file of the folder to this machine; one that is there already is linked."""
        path = self.path_of(name)
        if is_address(path):
            copy(path, str(to))
        else:
            to.symlink_to(Path(path).absolute())

    def names(self) -> set[str]:
        """Return the names of all files, with their folders below this one."""
        if is_address(self.place):
            return {path.removeprefix(f"{self.place}/") for path in listed(self.place, True)}
        # Another task may remove a folder at the same time.
        paths = (Path(folder, file) for folder, _, files in os.walk(self.place) for file in files)
        return {path.relative_to(self.place).as_posix() for path in paths}

    def path_of(self, name: str) -> str:
        """Return the path or address of a file."""
        return f"{self.place}/{name}"

    def _writable(self, name: str) -> str:
        """Return the path or address of a file, whose folder below this one exists."""
        path = self.path_of(name)
        if "/" in name and not is_address(path):
            Path(folder_of(path)).mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there."""
        remove(self.path_of(name), missing_ok=True)

    def remove_others(self, names: Collection[str]) -> None:
        """Remove all files and folders but some, and the description of the job."""
        for name in sorted({name.partition("/")[0] for name in self.names()} - {*names, _JOB}):
            self.remove(name)

    def clear(self) -> None:
        """Remove the files of a run on this machine. `at` removes the folder at the end."""
        with self.reporting_errors():
            # First: the others count only with it.
            (self.folder / _JOB).unlink(missing_ok=True)
            for file in [*self.folder.iterdir()]:
                if _WRITTEN_NAMES.fullmatch(file.name) and not file.name.startswith(_LOCK):
                    file.unlink()
        self.claimed = False

    def remove_empty(self) -> None:
        """Remove the lock and the folder, if nothing else is in it."""
        with suppress(OSError):
            if [*self.folder.iterdir()] == [self.folder / _LOCK]:
                (self.folder / _LOCK).unlink()
                self.folder.rmdir()

    @contextmanager
    def reporting_errors(self) -> Iterator[None]:
        """Raise errors of reading and writing as StoreError that names the folder."""
        advice = "a file is damaged: remove the folder"
        with reported(f"work folder {self.place}", advice):
            yield


@contextmanager
def reported(name: str, advice: str) -> Iterator[None]:
    """Raise errors of reading and writing files as StoreError.

    name: of the file or folder. advice: what to do if the content is damaged.
    """
    try:
        yield
    except EsdedupError:
        raise
    except (zipfile.BadZipFile, KeyError, EOFError, ValueError, RuntimeError) as error:
        raise StoreError(f"{name}: {advice} ({error})") from error
    except OSError as error:
        raise StoreError(f"{name}: {error.strerror or error}") from error


def load_arrays(file: IO[bytes], *names: str) -> Arrays:
    """Return arrays of a file of `Run.save`, by default all."""
    with np.load(file) as arrays:
        return {name: arrays[name] for name in names or arrays.files}


def array_names(file: IO[bytes]) -> list[str]:
    """Return the names of the arrays of a file of `Run.save`."""
    with np.load(file) as arrays:
        return [*arrays.files]


def difference(earlier: Mapping[str, object], parameters: Mapping[str, object]) -> str | None:
    """Return the first parameter that only one of two jobs has, or with other values, as words."""
    # A file that only one of them reads has a name; the list of all is a digest.
    names = sorted({**parameters, **earlier}, key=lambda name: name == LISTED_FILES)
    for name in names:
        before, now = earlier.get(name), parameters.get(name)
        if before != now:
            return f"another {name} ({before}, not {now})"
    return None
