"""Keep the sketches and texts of a corpus in a folder, so that the next files are compared with it.

A run adds shares of the documents that stay, and then the list of all runs, with which they count:
a run that is killed has added all of its documents or none.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from esdedup.corpus.corpus import Removed
from esdedup.corpus.shards import digest_of
from esdedup.exceptions import UsageError
from esdedup.pairing.scan import WorkFolder, difference
from esdedup.records.locations import is_address
from esdedup.stores.sqlite.database import held_alone
from esdedup.text.arrays import offsets_of

SKETCHES = ".sketches"
"""The name of a folder of sketches ends in this."""
_RUNS, _LOCK = "runs.json", "lock"


@dataclass(frozen=True)
class KeptSketches:
    """The documents that stayed in former runs.

    folder: holds their shares. made: how they were sketched. runs: of each its `job`, its `files`
    with their `counts` of documents, and its number of `shares`. job: of this run; if it has added
    its documents already, these are not among the others.
    """

    folder: WorkFolder
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

        Raises UsageError for another folder, and for one of other options; StoreUnavailable if
        another run is using it.
        """
        folder, digest = WorkFolder(Path(name)), digest_of(job)
        file = folder.path / _RUNS
        is_new = not folder.path.exists()
        if is_address(name) or not (is_new or (folder.path / _LOCK).exists()):
            raise UsageError(f"--against {name}: it is no folder of sketches on this machine")
        if not file.exists() and not create:
            raise UsageError(f"--against {name}: there is no such folder: --update creates it")
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held_alone(folder.path / _LOCK, "wait for it"):
            held = folder.state(_RUNS) or {"made": made, "runs": []}
            if differing := difference(held["made"], made):
                raise UsageError(
                    f"--against {name}: it has sketches of {differing}: use the options of the"
                    " earlier runs, or name another folder"
                )
            runs, is_added = held["runs"], bool(held["runs"]) and held["runs"][-1]["job"] == digest
            try:
                yield KeptSketches(folder, made, runs[:-1] if is_added else runs, digest, is_added)
            finally:
                if not file.exists():
                    with suppress(OSError):
                        (folder.path / _LOCK).unlink()
                        folder.path.rmdir()

    @property
    def state(self) -> str:
        """Return text that changes with the documents."""
        return digest_of(self.runs)

    @property
    def shares(self) -> list[Path]:
        """Return the files of the shares, without those of a run that was killed."""
        return self.folder.shares()[: sum(each["shares"] for each in self.runs)]

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
        return ((self.folder.path / f"records-{n:04d}").read_bytes() for n in range(len(self.runs)))

    def add(self, found: Removed, run: WorkFolder) -> int:
        """Add the documents of a run that stay, unless it has done so, and return their number.

        run: the folder of the run.
        """
        corpus, stay = found.corpus, ~found.removed
        stay[: corpus.first] = False
        kept = corpus.rows[stay]
        if self.is_added:
            return kept.size
        number = before = len(self.shares)
        start = sum(self.counts)
        for share in run.shares()[before:]:
            part = run.part(share)
            rows = np.flatnonzero(stay[start : start + len(part.ids)])
            start += len(part.ids)
            if rows.size:
                number += 1
                self.folder.write_share(number, [part.picked(rows)])
        with self.folder.writing(f"records-{len(self.runs):04d}") as out:
            out.write(corpus.lines[kept].tobytes())
        ends = offsets_of(corpus.counts)[corpus.earlier :]
        own: dict[str, Any] = {"job": self.job, "files": [*corpus.names[corpus.earlier :]]}
        own |= {"counts": np.diff(np.searchsorted(kept, ends)).tolist(), "shares": number - before}
        self.folder.save_state({"made": dict(self.made), "runs": [*self.runs, own]}, _RUNS)
        return kept.size
