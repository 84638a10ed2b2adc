"""Keep the sketches and texts of a corpus in a folder, so that the next files are compared with it.

A run adds shares of the documents that stay, and then a file that describes it, with which they
count: a run that is killed has added all of its documents or none.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from esdedup.corpus.corpus import Removed
from esdedup.corpus.shards import digest_of
from esdedup.exceptions import StoreError, UsageError
from esdedup.pairing.scan import OnStep, WorkFolder, difference
from esdedup.records.locations import content_of, copy, created, is_address, look_up
from esdedup.stores.sqlite.database import held_alone
from esdedup.text.arrays import offsets_of

SKETCHES = ".sketches"
"""The name of a folder of sketches ends in this."""
_LOCK = "lock"


@dataclass(frozen=True)
class KeptSketches:
    """The documents that stayed in former runs.

    place: the path or address of the folder. here: the folder on this machine, a temporary one for
    an address. made: how all were sketched. runs: of each its `job`, its `files` with their
    `counts` of documents, and its number of `shares`. job: of this run; if it has added its
    documents already, these are not among the others.
    """

    place: str
    here: Path
    made: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]
    job: str
    is_added: bool

    @staticmethod
    @contextmanager
    def at(
        name: str, made: Mapping[str, Any], job: Mapping[str, Any], create: bool
    ) -> Iterator["KeptSketches"]:
        """Open a folder for one run at a time. made: how this run sketches. job: its parameters.

        Stores of objects have no locks: of two runs that overlap, one fails when it adds documents.
        Raises UsageError for another folder, and for one of other options; StoreUnavailable if
        another run is using it.
        """
        place, digest = name.rstrip("/"), digest_of(job)
        runs = list[Mapping[str, Any]]()
        with ExitStack() as opened:
            if is_address(place):
                here = opened.enter_context(WorkFolder.temporary()).path
            else:
                here = Path(place)
                if here.exists() and not (here / _LOCK).exists():
                    raise UsageError(f"--against {name}: it is no folder of sketches")
                if here.exists() or create:
                    here.mkdir(mode=0o700, parents=True, exist_ok=True)
                    opened.enter_context(held_alone(here / _LOCK, "wait for it"))
                    opened.callback(_remove_unused, here)
            while look_up(file := _file_of(place, len(runs)), refresh=True):
                runs.append(json.loads(content_of(file)))
            if not runs and not create:
                raise UsageError(f"--against {name}: there is no such folder: --update creates it")
            if runs and (differing := difference(runs[0]["made"], made)):
                raise UsageError(
                    f"--against {name}: it has sketches of {differing}: use the options of the"
                    " earlier runs, or name another folder"
                )
            is_added = bool(runs) and runs[-1]["job"] == digest
            runs = runs[:-1] if is_added else runs
            yield KeptSketches(place, here, made, runs, digest, is_added)

    @property
    def state(self) -> str:
        """Return text that changes with the documents."""
        return digest_of(self.runs)

    def shares(self, step: OnStep) -> dict[Path, str]:
        """Return the files of the shares on this machine, with their paths or addresses."""
        names = [
            f"{_folder_of(number, run['job'])}/share-{share:04d}.npz"
            for number, run in enumerate(self.runs)
            for share in range(1, run["shares"] + 1)
        ]
        files = {self.here / name: f"{self.place}/{name}" for name in names}
        for done, (file, kept) in enumerate(files.items(), 1):
            if is_address(kept):
                file.parent.mkdir(exist_ok=True)
                copy(kept, str(file))
                step("Fetching sketches", done, len(files))
        return files

    @property
    def names(self) -> list[str]:
        """Return the names of all files, as they were read."""
        return [*chain.from_iterable(each["files"] for each in self.runs)]

    @property
    def counts(self) -> list[int]:
        """Return the number of documents of each file."""
        return [*chain.from_iterable(each["counts"] for each in self.runs)]

    @property
    def lines(self) -> Iterator[bytes]:
        """Yield the lines of all documents, of each run as bytes of int64."""
        for number, run in enumerate(self.runs):
            yield content_of(f"{self.place}/{_folder_of(number, run['job'])}/records")

    def add(self, found: Removed, run: WorkFolder) -> int:
        """Add the documents of a run that stay, unless it has done so, and return their number.

        run: the folder of the run. Raises StoreError if another run has added documents meanwhile.
        """
        corpus, stay = found.corpus, ~found.removed
        stay[: corpus.first] = False
        kept = corpus.rows[stay]
        if self.is_added:
            return kept.size
        # The shares of runs that overlap are in different folders.
        own = WorkFolder(self.here / _folder_of(len(self.runs), self.job))
        own.path.mkdir(mode=0o700, exist_ok=True)
        numbers, start = count(1), sum(self.counts)
        for share in run.shares()[len(run.before) :]:
            part = run.part(share)
            rows = np.flatnonzero(stay[start : start + len(part.ids)])
            start += len(part.ids)
            if rows.size:
                own.write_share(next(numbers), [part.picked(rows)])
                self._put(own)
        with own.writing("records") as out:
            out.write(corpus.lines[kept].tobytes())
        self._put(own)
        ends = offsets_of(corpus.counts)[corpus.earlier :]
        counts = np.diff(np.searchsorted(kept, ends)).tolist()
        about: dict[str, Any] = {"made": self.made, "job": self.job, "counts": counts}
        about |= {"files": [*corpus.names[corpus.earlier :]], "shares": next(numbers) - 1}
        file = _file_of(self.place, len(self.runs))
        is_new = created(file, json.dumps(about).encode())
        # A request that is retried finds its own file.
        if not is_new and json.loads(content_of(file))["job"] != self.job:
            raise StoreError(
                f"{self.place}: another run has added documents since this one began: remove the"
                " output and the work folder, and run this again"
            )
        return kept.size

    def _put(self, own: WorkFolder) -> None:
        """Move files from this machine to an address."""
        for file in own.path.iterdir() if is_address(self.place) else ():
            copy(str(file), f"{self.place}/{own.path.name}/{file.name}")
            file.unlink()


def _file_of(place: str, run: int) -> str:
    """Return the path of the file that describes a run."""
    return f"{place}/run-{run:04d}.json"


def _folder_of(run: int, job: str) -> str:
    return f"{run:04d}-{job}"


def _remove_unused(folder: Path) -> None:
    """Remove a folder to which no run has added anything."""
    if [each.name for each in folder.iterdir()] == [_LOCK]:
        with suppress(OSError):
            (folder / _LOCK).unlink()
            folder.rmdir()
