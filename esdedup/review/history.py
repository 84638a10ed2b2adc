"""The runs of `dedup` on an index whose logs are in the folder, and what is left of each."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from esdedup.exceptions import EsdedupError
from esdedup.groups.marks import differing
from esdedup.index import Index
from esdedup.models import MARKS
from esdedup.removal.log import LogReader, RunHeader
from esdedup.review.pages import Review
from esdedup.stores.private_files import file_name
from esdedup.text.characters import message_of

_MOST = 20
"""Runs on the page, the last ones."""
_SECONDS = 2.0
"""Time in which a page counts what is left of its runs."""


@dataclass(frozen=True)
class RunLog:
    """The log of a run. fault: the reason for which it can't be undone here, or None.

    changed: documents that it changed, or may have changed if it was interrupted; None if they were
    not counted. left: those of them that are still removed, or marked. whole: it was not
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


def logs_of(review: Review) -> Iterator[RunLog]:
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
            yield RunLog(path, header, message_of(str(error)))
        else:
            yield RunLog(path, header, None)


@dataclass(frozen=True)
class History:
    """Counts what is left of runs. known: what was counted, by path, size and runs since."""

    known: dict[tuple[Path, int, int], RunLog] = field(default_factory=dict)

    def logs(self, review: Review, runs: int, wanted: str | None) -> tuple[list[RunLog], int]:
        """Return the last logs of the index, and the number of others.

        runs: number of runs of this session, after each of which logs are counted again. wanted:
        name of a log that is counted however long that takes.
        """
        found = [*logs_of(review)]
        ends, some = time.monotonic() + _SECONDS, []
        for log in found[:_MOST]:
            key = log.path, log.path.stat().st_size, runs
            chosen = log.path.name == wanted
            if log.fault is None and (key not in self.known or chosen):
                self.known[key] = _counted(review.index, log, None if chosen else ends)
            some.append(self.known.get(key, log))
        return some, len(found[_MOST:])


def _counted(index: Index, log: RunLog, ends: float | None) -> RunLog:
    """Return the log with its numbers, for which documents are looked up until a time."""
    reader = LogReader(log.path)
    header, changed, left = reader.header, 0, 0
    marking = header.action == "mark"
    paths = [f"{header.field}.{name}" for name in MARKS] if marking else []
    for page in reader.pages():
        if ends is not None and time.monotonic() > ends:
            return log
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
