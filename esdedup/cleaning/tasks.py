"""Share one run between many processes, over a folder that all of them reach.

Each task reads a range of the files and puts their sketches into the folder; the first one finds
the duplicates among all; then each task writes its files again. What a task puts into the folder
counts once its `state.json` is there, so that a task can be killed and repeated.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np

from esdedup.cleaning.document_search import REPORT
from esdedup.cleaning.job import Assignment, CleanJob
from esdedup.cleaning.outputs import is_one_file, load_retained, save_retained
from esdedup.cleaning.report import CleanReport, report_from_json
from esdedup.cleaning.sketching import RECORDS, SKETCHED
from esdedup.exceptions import EsdedupError, StoreError, UsageError
from esdedup.records.locations import copy, look_up
from esdedup.records.table_files import write_table
from esdedup.runs.run import Run, ShareSizes
from esdedup.runs.shares import Shares, share_name, texts_name

Stage = Literal["sketch", "group", "write"]
_TASK = re.compile(r"(\d{1,6})/(\d{1,6})")
_STATE, _DONE, _FAILED = "state.json", "done.json", "failed"


@dataclass(frozen=True)
class Waiting:
    """How often a task looks for the others.

    first: seconds before it looks again.
    longest: seconds between two looks later on.
    """

    first: float = 0.1
    longest: float = 15.0


@dataclass(frozen=True)
class Task:
    """A share of a run.

    number: from 1.
    count: the number of tasks.
    run: the folder of all tasks.
    waiting: how often it looks for the others.
    """

    number: int
    count: int
    run: Run
    waiting: Waiting = Waiting()

    @staticmethod
    def named(text: str, place: str, waiting: Waiting = Waiting()) -> Task:
        """Return the task that a text such as "3/1000" names. Raises UsageError."""
        match = _TASK.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"`task` {text}: use a number of a task and of all, such as 3/1000")
        return Task(int(match[1]), int(match[2]), Run(place), waiting)

    @staticmethod
    def of_output(
        text: str, output: str | None, work: str | None, waiting: Waiting = Waiting()
    ) -> Task:
        """Return the task of a job. work: the folder of all, None for one beside the output."""
        if output is None or is_one_file(output):
            raise UsageError("`task` requires a folder to write to")
        return Task.named(text, work or f"{output.rstrip('/')}.work", waiting)

    def lock(self) -> AbstractContextManager[None]:
        """Lock the folder of all tasks, waiting up to a minute."""
        return self.run.lock("run this task again after that", seconds=60)

    def lock_task(self) -> AbstractContextManager[None]:
        """Lock this task, so that no other process does it."""
        return self.run.lock("run this task again after that", f"lock-{self.number}")

    def claim(self, job: Mapping[str, Any]) -> None:
        """Claim the folder for a run. Raises UsageError if it belongs to one that differs."""
        self.run.claim({**job, "tasks": self.count})

    def ranges(self, files: Sequence[str]) -> list[slice]:
        """Return the range of the files of each task. All have about as many bytes."""
        located = map(look_up, files)
        ends = np.cumsum([1 + (file.size or 0 if file else 0) for file in located])
        total = int(ends[-1])
        bounds = [task * total // self.count for task in range(self.count + 1)]
        positions = np.searchsorted(ends, bounds, "right").tolist()
        return [slice(start, end) for start, end in itertools.pairwise(positions)]

    def missing(self, stage: Stage) -> list[int]:
        """Return the tasks that have not finished a stage."""
        tasks = [1] if stage == "group" else range(1, self.count + 1)
        names = self.run.names()
        return [task for task in tasks if f"{stage}-{task}/{_STATE}" not in names]

    def wait(self, stage: Stage, say: Callable[[str], None] | None) -> None:
        """Wait until all tasks have finished a stage. Raises StoreError if one fails.

        say: called with a sentence about those that have not; None to raise StoreError instead.
        """
        pause = self.waiting.first
        if missing := self.missing(stage):
            numbers = ", ".join(map(str, missing[:20])) + ", ..." * (len(missing) > 20)
            if say is None:
                raise StoreError(
                    f"the stage {stage!r} is not finished: run it, then this, for {len(missing):,}"
                    f" of {self.count:,} tasks: {numbers}"
                )
            say(f"Task {self.number} of {self.count} waits for the stage {stage!r} of {numbers}")
        while missing:
            time.sleep(pause)
            pause = min(2 * pause, self.waiting.longest)
            # One that failed before, and is repeated at the same time as this, has begun by then.
            if pause == self.waiting.longest:
                self._raise_if_failed(stage, missing)
            missing = self.missing(stage)

    def _raise_if_failed(self, stage: Stage, tasks: Sequence[int]) -> None:
        names = self.run.names()
        for task in tasks:
            if (name := f"{stage}-{task}/{_FAILED}") in names:
                reason = self.run.read(name).decode()
                raise StoreError(f"task {task} failed ({reason}): repeat it, then this")

    @contextmanager
    def reporting(self, stage: Stage) -> Iterator[None]:
        """Report to the tasks that wait for a stage if it fails here, until it is repeated."""
        mark = f"{stage}-{self.number}/{_FAILED}"
        self.run.remove(mark)
        try:
            yield
        except BaseException as error:
            with suppress(EsdedupError):
                self.run.write(mark, (str(error) or "it was interrupted").encode())
            raise

    def put(self, stage: Stage, files: Iterable[Path], state: object) -> None:
        """Put files into the folder of all tasks, then the state, with which the stage is done."""
        for file in files:
            self.run.put(file, f"{stage}-{self.number}/{file.name}")
        self.run.save_value(f"{stage}-{self.number}/{_STATE}", state)

    def gather(self, run: Run) -> None:
        """Fetch the sketches of all tasks into one run, as if one process had computed them."""
        names, shares, counts = self.run.names(), 0, list[int]()
        with run.writing(RECORDS) as records:
            for task in range(1, self.count + 1):
                folder = f"sketch-{task}"
                counts += self.run.value_of(f"{folder}/{_STATE}")["counts"]
                records.write(self.run.read(f"{folder}/{RECORDS}"))
                for number in itertools.count(1):
                    if f"{folder}/{share_name(number)}" not in names:
                        break
                    shares += 1
                    for name_of in (share_name, texts_name):
                        target = run.folder / name_of(shares)
                        self.run.fetch(f"{folder}/{name_of(number)}", target)
        run.save_value(SKETCHED, {"counts": counts})

    def fetch(self, name: str, to: Path) -> None:
        """Fetch a file of the first task, which has grouped all documents."""
        self.run.fetch(f"group-1/{name}", to)

    def state_of_groups(self) -> Any:
        """Return the state of the stage "group"."""
        return self.run.value_of(f"group-1/{_STATE}")

    def is_done(self) -> bool:
        """Return whether all tasks have finished all stages."""
        return self.run.has(_DONE)

    def finish(self) -> None:
        """Mark the run as complete, so that a repeated task knows it, and remove all else."""
        self.run.save_value(_DONE, {})
        self.run.remove_others({_DONE})


def run_task(
    job: CleanJob, task: Task, stage: Stage | None, sizes: ShareSizes
) -> CleanReport | None:
    """Do one task of many, or one stage of it; the last of all returns the report.

    sizes: of the shares of a run.
    """
    output = str(job.files.output)
    if stage == "group" and task.number > 1:
        raise UsageError("`stage` group is for one task, the first one")
    try:
        job.files.check_absent()
        job.files.check_removed(is_new=True)
    except UsageError:
        # Others may write already, or have done so.
        if task.missing("group") and not task.is_done():
            raise
    # Another process may do the same task.
    with task.lock_task():
        with task.lock():
            task.claim(job.parameters)
            is_done, is_left = task.is_done(), task.number in task.missing("write")
        if is_done and look_up(output) is None:
            raise UsageError(f"the run is complete, but {output} is gone: remove {task.run.place}")
        # Once all tasks have written, another one may remove what this one needs.
        if is_left and not is_done:
            _do_stages(job, task, stage, sizes)
            if stage in ("sketch", "group"):
                return None
        with task.lock():
            is_complete = task.is_done() or not task.missing("write")
            return _complete(job, task) if is_complete else None


def _do_stages(job: CleanJob, task: Task, stage: Stage | None, sizes: ShareSizes) -> None:
    """Do one stage of a task, or all, waiting for those of the other tasks."""
    ranges = task.ranges(job.files.inputs)
    inputs = ranges[task.number - 1]
    say = job.reporter.say if stage is None else None
    if stage in (None, "sketch") and task.number in task.missing("sketch"):
        with task.reporting("sketch"), Run.temporary(sizes) as run:
            job.sketch(Assignment(run, inputs, is_first=task.number == 1))
            files = [*Shares(run).files(), run.folder / RECORDS]
            task.put("sketch", files, run.value_of(SKETCHED))
    if stage == "group" or (stage is None and task.number == 1):
        with task.reporting("group"), Run.temporary(sizes) as run:
            task.wait("sketch", say)
            if task.missing("group"):
                task.gather(run)
                _decide(job, task, run, ranges)
    if stage in (None, "write"):
        task.wait("group", say)
        with Run.temporary() as run:
            file = run.folder / "write"
            task.fetch(f"write-{task.number}", file)
            retained = load_retained(file)
        records = sum(of_file.lines.size for of_file in retained)
        job.write(Assignment(task.run, inputs), retained, records)
        task.put("write", [], {})


def _decide(job: CleanJob, task: Task, run: Run, ranges: list[slice]) -> None:
    """Put what stays of each task's files into the folder of all tasks. ranges: of the tasks."""
    decisions = job.decide(run)
    table = decisions.table()
    assert table is not None
    files = [run.folder / _name_of(job.files.listed)]
    write_table(str(files[0]), table)
    if decisions.left_whole is not None:
        files.append(run.folder / _name_of(job.files.left_whole))
        write_table(str(files[-1]), decisions.left_whole)
    # Files that are only compared with are not written.
    retained = itertools.chain([None] * len(job.files.against), decisions.retained_records())
    for number, inputs in enumerate(ranges, 1):
        files.append(run.folder / f"write-{number}")
        of_inputs = itertools.islice(retained, inputs.stop - inputs.start)
        save_retained(files[-1], filter(None, of_inputs))
    task.put("group", files, run.value_of(REPORT))


def _complete(job: CleanJob, task: Task) -> CleanReport | None:
    """Write the list and the report once all tasks have written, and return the report."""
    report, name = None, _name_of(job.files.listed)
    try:
        with Run.temporary() as run:
            task.fetch(name, run.folder / name)
            job.files.copy_about()
            copy(str(run.folder / name), str(job.files.listed), job.files.most_private)
            report = report_from_json(task.state_of_groups())
            if report.conflicts is not None:
                name_of_list = _name_of(job.files.left_whole)
                task.fetch(name_of_list, run.folder / name_of_list)
                listed = str(job.files.left_whole)
                copy(str(run.folder / name_of_list), listed, job.files.most_private)
            report.save(str(job.files.report), job.files.most_private)
    except EsdedupError:
        # At an address, two tasks may be the last one.
        if not task.is_done():
            raise
        job.reporter.say("The run is complete already")
    task.finish()
    return report


def _name_of(file: str | None) -> str:
    return PurePath(str(file)).name
