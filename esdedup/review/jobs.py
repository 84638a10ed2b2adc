"""Run work in the background, one job after the other, with its progress."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from esdedup.exceptions import EsdedupError
from esdedup.text.characters import message_of

log = logging.getLogger("esdedup")


class _Stopped(Exception):
    """The program ends, so that a job must not go on."""


@dataclass(eq=False)
class Job:
    """One piece of work, which calls `on_step`.

    name: in words, such as "Finding groups".
    work: does it; it gets the job.
    stopping: is set when the program ends.
    step: the step that is under way, in words.
    settled: documents of the step that were processed.
    total: documents of the step; 0 if unknown.
    error: the reason for which it failed, or None.
    over: is set when it ends.
    """

    name: str
    work: Callable[[Job], None]
    stopping: threading.Event
    step: str = ""
    settled: int = 0
    total: int = 0
    error: str | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def __str__(self) -> str:
        """Return its name and its progress, in words."""
        if not self.step:
            return self.name
        total = f" of {self.total:,}" if self.total else ""
        return f"{self.name} ({self.step.lower()}: {self.settled:,}{total})"

    @property
    def ended(self) -> bool:
        """Return whether the work is done, or failed."""
        return self.over.is_set()

    def on_step(self, step: str, settled: int, total: int) -> None:
        """Note the progress; the work calls it often, because it ends here if it is stopped."""
        if self.stopping.is_set():
            raise _Stopped
        self.step, self.settled, self.total = step, settled, total

    def run(self) -> None:
        """Do the work, and note its error."""
        try:
            self.on_step("", 0, 0)
            self.work(self)
        except _Stopped:
            self.error = "it was stopped"
        except EsdedupError as error:
            self.error = message_of(str(error))
        except Exception as error:
            log.exception("%s failed", self.name)
            self.error = f"it failed: {type(error).__name__}, see the terminal"
        finally:
            self.over.set()


class Jobs:
    """The jobs of one process, which run in the order in which they were started."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._stopping = threading.Event()
        self._waiting: SimpleQueue[Job] = SimpleQueue()
        # A daemon: the program must be able to end while a job works.
        threading.Thread(target=self._run, name="jobs", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._waiting.get().run()

    def start(self, name: str, work: Callable[[Job], None]) -> Job:
        """Start a job, or return the one of this name that has not ended."""
        with self._turn:
            if (job := self._jobs.get(name)) is not None and not job.ended:
                return job
            self._jobs.pop(name, None)
            job = self._jobs[name] = Job(name, work, self._stopping)
            self._waiting.put(job)
        return job

    def last(self, name: str) -> Job | None:
        """Return the last job of this name, ended or not; None if there was none."""
        return self._jobs.get(name)

    @property
    def current(self) -> Job | None:
        """The job that works now; None if none does."""
        with self._turn:
            return next((job for job in self._jobs.values() if not job.ended), None)

    def stop(self, seconds: float) -> Job | None:
        """End the jobs at their next step; return the one that was stopped, or still works."""
        self._stopping.set()
        current = self.current
        for job in [*self._jobs.values()]:
            job.over.wait(seconds)
        if current is None or (current.ended and current.error is None):
            return None
        return current
