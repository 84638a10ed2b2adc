"""Share one run between many processes, over a folder that all of them reach.

Each task reads a range of the files and puts their sketches into the folder; the first one finds
the duplicates among all; then each task writes its files again. What a task puts into the folder
counts once its `state.json` is there, so that a task can be killed and repeated.
"""

import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from esdedup.compare.scan import WorkFolder, difference
from esdedup.exceptions import EsdedupError, StoreError, UsageError
from esdedup.records.locations import (
    content_of,
    copy,
    folder_of,
    is_address,
    listed,
    look_up,
    remove,
    written,
)
from esdedup.stores.sqlite.database import held_alone

Stage = Literal["sketch", "group", "write"]
_TASK = re.compile(r"(\d{1,6})/(\d{1,6})")
_STATE, _JOB, _DONE, _FAILED = "state.json", "job.json", "done.json", "failed"
_LOCK = "lock"
_LONGEST_WAIT = 15.0


@dataclass(frozen=True)
class Task:
    """A share of a run. number: from 1. of: the number of tasks. place: the folder of all tasks."""

    number: int
    of: int
    place: str

    @staticmethod
    def named(text: str, place: str) -> "Task":
        """Return the task that a text such as "3/1000" names. Raises UsageError."""
        found = _TASK.fullmatch(text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise UsageError(f"--task {text}: use a number of a task and of all, such as 3/1000")
        return Task(int(found[1]), int(found[2]), place.rstrip("/"))

    @contextmanager
    def alone(self, name: str = _LOCK, seconds: float = 60) -> Iterator[None]:
        """Keep other processes waiting, on this machine or a shared path, before StoreUnavailable.

        Stores of objects have no locks, and need none: each upload is whole.
        """
        if is_address(self.place):
            yield
            return
        with held_alone(Path(self._at(name)), "run this task again after that", seconds):
            yield

    def claim(self, job: Mapping[str, Any]) -> None:
        """Claim the folder for a run. Raises UsageError if it belongs to one that differs."""
        job = json.loads(json.dumps({**job, "tasks": self.of}))
        if look_up(f"{self.place}/{_JOB}", refresh=True) is None:
            self._put(_JOB, json.dumps(job).encode())
        if differing := difference(json.loads(self._got(_JOB)), job):
            raise UsageError(
                f"{self.place} belongs to a run with {differing}: finish that, remove the folder,"
                " or name another one (--work)"
            )

    def ranges(self, files: Sequence[str]) -> list[slice]:
        """Return the range of the files of each task. All have about as many bytes."""
        found = map(look_up, files)
        ends = np.cumsum([1 + (each.size or 0 if each else 0) for each in found])
        bounds = [each * int(ends[-1]) // self.of for each in range(self.of + 1)]
        at = np.searchsorted(ends, bounds, "right").tolist()
        return [slice(*each) for each in itertools.pairwise(at)]

    def lacks(self, stage: Stage) -> list[int]:
        """Return the tasks that have not finished a stage."""
        tasks, found = [1] if stage == "group" else range(1, self.of + 1), self._names()
        return [each for each in tasks if f"{stage}-{each}/{_STATE}" not in found]

    def wait(self, stage: Stage, say: Callable[[str], None] | None) -> None:
        """Wait until all tasks have finished a stage. Raises StoreError if one fails.

        say: called with a sentence about those that have not; None to raise StoreError instead.
        """
        pause = 0.1
        if lacking := self.lacks(stage):
            some = ", ".join(map(str, lacking[:20])) + ", ..." * (len(lacking) > 20)
            if say is None:
                raise StoreError(
                    f"the stage {stage!r} is not finished: run it, then this, for {len(lacking):,}"
                    f" of {self.of:,} tasks: {some}"
                )
            say(f"Task {self.number} of {self.of} waits for the stage {stage!r} of {some}")
        while lacking:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)
            # One that failed before, and is repeated at the same time as this, has begun by then.
            failed = self._names() if pause == _LONGEST_WAIT else ()
            for each in lacking:
                if (name := f"{stage}-{each}/{_FAILED}") in failed:
                    why = self._got(name).decode()
                    raise StoreError(f"task {each} failed ({why}): repeat it, then this")
            lacking = self.lacks(stage)

    @contextmanager
    def reporting(self, stage: Stage) -> Iterator[None]:
        """Report to the tasks that wait for a stage if it fails here, until it is repeated."""
        mark = f"{stage}-{self.number}/{_FAILED}"
        remove(self._at(mark), missing_ok=True)
        try:
            yield
        except BaseException as error:
            with suppress(EsdedupError):
                self._put(mark, (str(error) or "it was interrupted").encode())
            raise

    def put(self, stage: Stage, files: Iterable[Path], state: Mapping[str, Any] | None) -> None:
        """Put files into the folder of all tasks, then the state, with which the stage is done."""
        for file in files:
            copy(str(file), self._at(f"{stage}-{self.number}/{file.name}"))
        self._put(f"{stage}-{self.number}/{_STATE}", json.dumps(state).encode())

    def gather(self, folder: WorkFolder) -> None:
        """Get the sketches of all tasks into one folder, as if one process had made them."""
        names, shares, counts = self._names(), 0, list[int]()
        with folder.writing("records") as out:
            for task in range(1, self.of + 1):
                read = f"sketch-{task}"
                counts += json.loads(self._got(f"{read}/{_STATE}"))["counts"]
                out.write(self._got(f"{read}/records"))
                before = shares
                while f"{read}/share-{shares - before + 1:04d}.npz" in names:
                    shares += 1
                    for name in ("share-{:04d}.npz", "texts-{:04d}"):
                        own = f"{read}/{name.format(shares - before)}"
                        self._get(own, folder.path / name.format(shares))
        folder.save_state({"counts": counts})

    def fetch(self, names: Iterable[str], folder: Path) -> None:
        """Get some files of the first task, and its state."""
        for name in (*names, _STATE):
            self._get(f"group-1/{name}", folder / name)

    def is_done(self) -> bool:
        """Return whether all tasks have finished all stages."""
        return look_up(f"{self.place}/{_DONE}", refresh=True) is not None

    def finish(self) -> None:
        """Mark the run as complete, so that a repeated task knows it, and remove all else."""
        self._put(_DONE, b"{}")
        for name in sorted({name.partition("/")[0] for name in self._names()} - {_JOB, _DONE}):
            remove(f"{self.place}/{name}", missing_ok=True)

    def _names(self) -> set[str]:
        """Return the files in the folder."""
        if not is_address(self.place):
            # Another task may remove a folder at the same time.
            every = ((folder, each) for folder, _, files in os.walk(self.place) for each in files)
            return {Path(*each).relative_to(self.place).as_posix() for each in every}
        return {each.removeprefix(f"{self.place}/") for each in listed(self.place, True)}

    def _at(self, name: str) -> str:
        """Return the path of a file, in a folder that is there."""
        path = f"{self.place}/{name}"
        if not is_address(path):
            Path(folder_of(path)).mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def _put(self, name: str, content: bytes) -> None:
        with written(self._at(name)) as out:
            out.write(content)

    def _got(self, name: str) -> bytes:
        return content_of(f"{self.place}/{name}")

    def _get(self, name: str, to: Path) -> None:
        """Copy a file; one on this machine is linked."""
        path = f"{self.place}/{name}"
        if is_address(path):
            copy(path, str(to))
        else:
            to.symlink_to(Path(path).absolute())
