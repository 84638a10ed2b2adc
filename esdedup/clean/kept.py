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

from esdedup.clean.corpus import Removed
from esdedup.clean.shards import digest_of
from esdedup.compare.scan import OnStep, WorkFolder, difference
from esdedup.exceptions import StoreError, UsageError
from esdedup.records.locations import content_of, copy, created, is_address, look_up
from esdedup.stores.sqlite.database import held_alone
from esdedup.text.arrays import offsets_of

SKETCHES = ".sketches"
"""The name of a folder of sketches ends in this."""
_LOCK = "lock"


@dataclass(frozen=True)
class KeptSketches:
    """The documents that stayed in former runs.

    place: the path or address of their folder. here: the same, or a temporary folder for those of
    an address. made: how all were sketched. runs: of each its `job`, its `files` with their
    `counts` of documents, and its `folder` and number of `shares`. job: of this run; if it has
    added its documents already, these are not among the others.
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
            while look_up(file := f"{place}/run-{len(runs):04d}.json", refresh=True):
                runs.append(json.loads(content_of(file)))
            if not runs and not create:
                raise UsageError(f"--against {name}: there is no such folder: --update creates it")
            if runs and (differing := difference(runs[0]["made"], made)):
                raise UsageError(
                    f"--against {name}: it has sketches of {differing}: use the options of the"
                    " earlier runs, or name another folder"
                )
            is_added = bool(runs) and runs[-1]["job"] == digest
            earlier = runs[:-1] if is_added else runs
            try:
                yield KeptSketches(place, here, made, earlier, digest, is_added)
            finally:
                if [*here.iterdir()] == [here / _LOCK]:
                    with suppress(OSError):
                        (here / _LOCK).unlink()
                        here.rmdir()

    def shares(self, step: OnStep) -> dict[Path, str]:
        """Return the files of the shares on this machine, with their paths or addresses."""
        names = [
            f"{run['folder']}/share-{number + 1:04d}.npz"
            for run in self.runs
            for number in range(run["shares"])
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
    def records(self) -> tuple[Iterator[bytes], list[int]]:
        """Return the lines of all documents, of each run as int64, and the numbers by file."""
        lines = (content_of(f"{self.place}/{run['folder']}/records") for run in self.runs)
        return lines, [*chain.from_iterable(each["counts"] for each in self.runs)]

    def add(self, found: Removed, run: WorkFolder) -> int:
        """Add the documents of a run that stay, unless it has done so, and return their number.

        run: the folder of the run. Raises StoreError if another run has added documents meanwhile.
        """
        corpus, stay = found.corpus, ~found.removed
        stay[: corpus.first] = False
        kept = corpus.rows[stay]
        if self.is_added:
            return kept.size
        # Runs that overlap have different folders.
        own = WorkFolder(self.here / f"{len(self.runs):04d}-{self.job}")
        own.path.mkdir(mode=0o700, exist_ok=True)
        numbers, start = count(1), int(corpus.counts[: len(self.names)].sum())
        for share in run.shares()[len(run.before) :]:
            part = run.part(share)
            rows = np.flatnonzero(stay[start : start + len(part.ids)])
            start += len(part.ids)
            if rows.size:
                own.write_share(next(numbers), [part.picked(rows)])
        with own.writing("records") as out:
            out.write(corpus.lines[kept].tobytes())
        for each in own.path.iterdir() if is_address(self.place) else ():
            copy(str(each), f"{self.place}/{own.path.name}/{each.name}")
        ends = offsets_of(corpus.counts)[corpus.earlier :]
        about: dict[str, Any] = {"made": self.made, "job": self.job, "folder": own.path.name}
        about |= {"files": corpus.names[corpus.earlier :], "shares": next(numbers) - 1}
        about |= {"counts": np.diff(np.searchsorted(kept, ends)).tolist()}
        file = f"{self.place}/run-{len(self.runs):04d}.json"
        is_new = created(file, json.dumps(about).encode())
        # A request that is retried finds its own file.
        if not is_new and json.loads(content_of(file))["job"] != self.job:
            raise StoreError(
                f"{self.place}: another run has added documents since this one began: remove the"
                " output and the work folder, and run this again"
            )
        return kept.size
