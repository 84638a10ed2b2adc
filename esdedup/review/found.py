"""The groups that were found, kept in arrays, so that a page of them needs no search."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from esdedup.analysis.templates import template_warnings
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups
from esdedup.index import Index
from esdedup.models import Statistics
from esdedup.pairing.keep_rule import rows_of
from esdedup.review.jobs import Job, Jobs
from esdedup.text.arrays import F64, I64

FINDING = "Finding groups"


@dataclass(frozen=True, eq=False)
class Listed:
    """Groups of two documents or more.

    heads: row of each representative, the largest group first, shape (g,). sizes: documents of each
    group, shape (g,). farthest: similarity, or distance, of the duplicate that is least similar to
    the representative, shape (g,).
    """

    groups: Groups
    heads: I64
    sizes: I64
    farthest: F64

    @staticmethod
    def of(groups: Groups) -> Listed:
        """Return the groups, listed."""
        counts = np.bincount(groups.representative, minlength=len(groups.ids))
        heads = np.flatnonzero(counts > 1)
        heads = heads[np.argsort(-counts[heads], kind="stable")]
        rows, by_distance = groups.duplicate_rows, groups.grouping.by_distance
        farthest = np.full(len(groups.ids), -np.inf if by_distance else np.inf)
        worst = np.maximum if by_distance else np.minimum
        worst.at(farthest, groups.representative[rows], groups.value[rows])
        return Listed(groups, heads, counts[heads], farthest[heads])

    def __len__(self) -> int:
        return self.heads.size

    def members_of(self, at: int) -> list[int]:
        """Return the rows of the duplicates of a group, the least similar first."""
        rows = np.flatnonzero(self.groups.representative == self.heads[at])
        rows = rows[rows != self.heads[at]]
        value = self.groups.value[rows]
        order = np.argsort(-value if self.groups.grouping.by_distance else value, kind="stable")
        found: list[int] = rows[order].tolist()
        return found

    def id(self, row: int) -> str:
        """Return the id of a row."""
        return self.groups.ids[row]

    def group_of(self, id: str) -> int | None:
        """Return the position of the group that holds a document; None if it is in none."""
        if (row := row_of(self.groups.ids, id)) is None:
            return None
        at = np.flatnonzero(self.heads == self.groups.representative[row])
        return int(at[0]) if at.size else None

    @functools.cached_property
    def by_likeness(self) -> I64:
        """Positions of the groups, those with the least similar duplicate first."""
        far = -self.farthest if self.groups.grouping.by_distance else self.farthest
        return np.argsort(far, kind="stable")


def row_of(ids: Sequence[str], id: str) -> int | None:
    """Return the row of an id; None if it is not there."""
    found = rows_of(ids, [id])
    return int(found[0]) if found.size else None


class Found:
    """Find groups in the background, and keep them until they are found again.

    grouping: how. run: number of times that they were found. statistics: of the index then.
    templates: warnings of groups that look like templates. Groups that decisions touch are formed
    again when the groups are next asked for.
    """

    def __init__(
        self,
        index: Index,
        open: Callable[[], Index],
        grouping: Grouping,
        jobs: Jobs,
        work: Path | None = None,
    ) -> None:
        self.grouping = grouping
        self.run = 0
        self.templates: list[str] = []
        self.statistics: Statistics | None = None
        self._index = index
        self._open = open
        self._jobs = jobs
        self._work = work
        self._turn = threading.Lock()
        self._listed: Listed | None = None
        self._made: list[tuple[str, ...]] = []
        self._shown = 0
        self._reasons: list[str] = []
        self._touched: list[set[str]] = []
        self._chosen: frozenset[str] = frozenset()

    @property
    def job(self) -> Job | None:
        """The last job that found groups; None if there was none."""
        return self._jobs.last(FINDING)

    @property
    def finding(self) -> bool:
        """Return whether groups are being found now."""
        return (job := self.job) is not None and not job.ended

    @property
    def decided(self) -> int:
        """Number of decisions since the groups were found."""
        return len(self._made)

    @property
    def outdated(self) -> str | None:
        """The reason for which the groups do not show some decision, or None."""
        return self._reasons[-1] if self._reasons else None

    @property
    def state(self) -> str:
        """A text that changes with the groups."""
        return f"{self.run}.{self.decided}"

    def use(self, threshold: float) -> None:
        """Find groups by another threshold from now on. Raises UsageError while they are found."""
        if self.finding:
            raise UsageError("groups are being found: wait for them")
        limits = replace(self.grouping.limits, threshold=threshold)
        self.grouping = replace(self.grouping, limits=limits)
        self.forget()
        self.find()

    def find(self) -> Job:
        """Start to find groups, unless that is under way."""
        return self._jobs.start(FINDING, self._find)

    def ready(self) -> str | None:
        """Start to find groups, unless that failed before; return the reason for that, or None."""
        if (job := self.job) is not None and job.error is not None:
            return job.error
        self.find()
        return None

    def listed(self) -> Listed | None:
        """Return the groups by the decisions so far; None if they were not found yet.

        Those of a decision that touches too many documents stay as they are, see `outdated`.
        """
        with self._turn:
            if self._listed is None or self._shown == len(self._made):
                return self._listed
            groups = self._listed.groups
            try:
                for ids in self._made[self._shown :]:
                    try:
                        groups = self._index.regroup(groups, self._with_touched(groups, ids))
                    except UsageError as error:
                        self._reasons.append(str(error))
                    self._shown += 1
            finally:
                if groups is not self._listed.groups:
                    self._listed = Listed.of(groups)
            return self._listed

    def _with_touched(self, groups: Groups, ids: Sequence[str]) -> list[str]:
        """The documents of the groups of some documents, also of the groups that these once had.

        A decision that is taken back may give a group back to documents that lost theirs by it.
        """
        heads = np.unique(groups.representative[rows_of(groups.ids, ids)])
        members = np.flatnonzero(np.isin(groups.representative, heads)).tolist()
        area = {*ids, *(groups.ids[row] for row in members)}
        apart = []
        for each in self._touched:
            if area.isdisjoint(each):
                apart.append(each)
            else:
                area |= each
        self._touched = [*apart, area]
        return sorted(area)

    def was_chosen(self, id: str) -> bool:
        """Return whether a document was chosen as a representative when all groups were found."""
        return id in self._chosen

    def note(self, *ids: str) -> None:
        """Note a decision about documents."""
        with self._turn:
            self._made.append(ids)

    def outdate(self, reason: str) -> None:
        """Note that some groups can only be formed again with all others."""
        with self._turn:
            self._reasons.append(reason)

    def forget(self) -> None:
        """Drop the groups, because the documents have changed."""
        with self._turn:
            self._listed, self.statistics = None, None
            self._made, self._shown, self._reasons, self._touched = [], 0, [], []

    def _find(self, job: Job) -> None:
        # Decisions while it works may come too late for it.
        with self._turn:
            decisions, reasons = len(self._made), len(self._reasons)
            grouping = self.grouping
        with self._open() as index:
            groups = index.groups(work=self._work, on_step=job.on_step, grouping=grouping)
            statistics = index.statistics()
            templates = [*template_warnings(index.store, index.meta, groups)]
        listed = Listed.of(groups)
        with self._turn:
            self._listed, self.statistics, self.templates = listed, statistics, templates
            self.run += 1
            del self._made[:decisions], self._reasons[:reasons]
            self._shown, self._touched = 0, []
            self._chosen = frozenset(groups.judgements.representatives)
