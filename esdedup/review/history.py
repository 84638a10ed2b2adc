"""The runs of `dedup` on an index whose logs are in the folder, and what is left of each."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from esdedup.exceptions import EsdedupError
from esdedup.groups.marks import differing
from esdedup.index import Index
from esdedup.models import MARKS
from esdedup.removal.log import LogReader, RunHeader
from esdedup.review.jobs import Job
from esdedup.review.pages import Review
from esdedup.stores.private_files import file_name
from esdedup.text.characters import message_of

_READING = "Reading logs"
_MOST = 20
"""Runs on the page, the last ones."""
_LARGEST = 100 << 20
"""Bytes of a log that is read for its numbers."""


@dataclass(frozen=True)
class Log:
    """The log of a run. fault: the reason for which it can't be undone here, or None.

    changed: documents that it changed, or may have changed if it was interrupted; None if the log
    was not read. left: those of them that are still removed, or marked. whole: it was not
    interrupted.
    """

    path: Path
    header: RunHeader | None
    fault: str | None
    changed: int | None = None
    left: int = 0
    whole: bool = True


def paths_of(review: Review) -> list[Path]:
    """Return the paths of logs in the folder that have the index's name, the last one first."""
    name = glob.escape(file_name(review.index.place.index))
    # To open a pipe would wait for a writer.
    files = [path for path in review.folder.glob(f"{name}.dedup-*.zst") if path.is_file()]
    return sorted(files, reverse=True)


def logs_of(review: Review) -> Iterator[Log]:
    """Yield the logs of the index, the last one first."""
    for path in paths_of(review):
        header = None
        try:
            reader = LogReader(path)
            header = reader.header
            if header.index != review.index.place.index:
                continue
            review.index.check_log(reader)
        except EsdedupError as error:
            yield Log(path, header, message_of(str(error)))
        else:
            yield Log(path, header, None)


@dataclass(frozen=True)
class History:
    """Reads logs in the background. known: what was read of each, by path, size and changes."""

    known: dict[tuple[Path, int, int], Log] = field(default_factory=dict)

    def logs(self, review: Review, changes: int) -> tuple[list[Log], int]:
        """Return the last logs of the index, and the number of others.

        changes: number of runs of this session, after each of which logs are read again.
        """
        found = [*logs_of(review)]
        some = {(each.path, each.path.stat().st_size, changes): each for each in found[:_MOST]}
        missing = {
            key: each
            for key, each in some.items()
            if key not in self.known and each.fault is None and key[1] <= _LARGEST
        }

        def work(job: Job) -> None:
            with review.open() as index:
                for number, (key, log) in enumerate(missing.items()):
                    job.on_step("Logs", number, len(missing))
                    self.known[key] = _read(index, log)

        last = review.jobs.last(_READING)
        # The page is shown again when the job ends: one that fails must not start again and again.
        failed = last is not None and last.error is not None
        if missing and not failed and review.jobs.current is None:
            review.jobs.start(_READING, work)
        return [self.known.get(key, each) for key, each in some.items()], len(found[_MOST:])


def _read(index: Index, log: Log) -> Log:
    """The log with its numbers, for which the documents are looked up."""
    reader = LogReader(log.path)
    header, changed, left = reader.header, 0, 0
    marking = header.action == "mark"
    paths = [f"{header.field}.{name}" for name in MARKS] if marking else []
    for page in reader.pages():
        changed += len(page)
        held = index.store.hold([entry.id for entry in page], paths)
        now = {each.document.id: each.document.source for each in held}
        left += sum(
            entry.id in now and not differing(now[entry.id], header.field, entry.marks)
            if marking
            else entry.id not in now
            for entry in page
        )
    return replace(log, changed=changed, left=left, whole=reader.damage is None)
