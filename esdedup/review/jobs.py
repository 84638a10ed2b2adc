"""Work in the background, one job after the other, with its progress."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from esdedup.exceptions import EsdedupError
from esdedup.text.characters import message_of

log = logging.getLogger("esdedup")


class _Stopped(Exception):
    """The program ends, so that a job must not go on."""


@dataclass(eq=False)
class Job:
    """One piece of work.

    name: in words, such as "Finding groups". step: its current step. done, total: documents of the
    step. error: the reason for which it failed, or None. over: is set when it ends.
    """

    name: str
    step: str = ""
    done: int = 0
    total: int = 0
    error: str | None = None
    over: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event | None = None

    def __str__(self) -> str:
        """Its name and its progress, in words."""
        if not self.step:
            return self.name
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.name} ({self.step.lower()}: {self.done:,}{of})"

    @property
    def failure(self) -> str | None:
        """The reason for which the ended work failed; None if it works, or did not fail."""
        return self.error if self.ended else None

    @property
    def ended(self) -> bool:
        """True if the work is done, or failed."""
        return self.over.is_set()

    def on_step(self, step: str, done: int, total: int) -> None:
        """Note the progress; the work calls it often, because it ends here if it is stopped."""
        if self.stopping is not None and self.stopping.is_set():
            raise _Stopped
        self.step, self.done, self.total = step, done, total


class Jobs:
    """The jobs of one process. A thread of its own takes them in the order they are asked for."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._jobs: dict[str, tuple[Job, Callable[[Job], None]]] = {}
        self._waiting: list[str] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, name: str, work: Callable[[Job], None]) -> Job:
        """Start a job, or return the one of this name that has not ended.

        work: gets the job, and calls its `on_step`.
        """
        with self._turn:
            if (last := self._jobs.get(name)) is not None and not last[0].ended:
                return last[0]
            job = Job(name, stopping=self._stopping)
            self._jobs[name] = job, work
            self._waiting.append(name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
                self._thread.start()
            return job

    def last(self, name: str) -> Job | None:
        """The last job of this name, ended or not; None if there was none."""
        found = self._jobs.get(name)
        return None if found is None else found[0]

    @property
    def current(self) -> Job | None:
        """The job that works now; None if none does."""
        with self._turn:
            return self._jobs[self._waiting[0]][0] if self._waiting else None

    def stop(self, seconds: float) -> Job | None:
        """End the jobs at their next step, and wait for that.

        Returns the one that was at work and was stopped, or goes on after this time.
        """
        self._stopping.set()
        job, thread = self.current, self._thread
        if thread is not None:
            thread.join(seconds)
        return None if job is None or (job.ended and job.error is None) else job

    def _work(self) -> None:
        while True:
            with self._turn:
                if not self._waiting:
                    self._thread = None
                    return
                job, work = self._jobs[self._waiting[0]]
            try:
                job.on_step("", 0, 0)
                work(job)
            except _Stopped:
                job.error = "it was stopped"
            except EsdedupError as error:
                job.error = message_of(str(error))
            except Exception as error:
                log.exception("%s failed", job.name)
                job.error = f"it failed: {type(error).__name__}, see the terminal"
            finally:
                with self._turn:
                    self._waiting.pop(0)
                    job.over.set()
