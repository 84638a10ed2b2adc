"""The groups that were found, kept in arrays, so that a page of them needs no search."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

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
    """Groups of two documents or more, the largest first.

    heads: row of each representative, shape (g,). sizes: documents of each group, shape (g,).
    likeness: of each document to its representative, greater if more similar, shape (n,).
    """

    groups: Groups
    heads: I64
    sizes: I64
    likeness: F64

    @staticmethod
    def of(groups: Groups) -> Listed:
        """Return the groups, listed."""
        counts = np.bincount(groups.representative, minlength=len(groups.ids))
        heads = np.flatnonzero(counts > 1)
        heads = heads[np.argsort(-counts[heads], kind="stable")]
        likeness = -groups.value if groups.grouping.by_distance else groups.value
        return Listed(groups, heads, counts[heads], likeness)

    def __len__(self) -> int:
        return self.heads.size

    def head(self, at: int) -> str:
        """Return the id of a group's representative."""
        return self.groups.ids[int(self.heads[at])]

    def members(self, at: int) -> list[int]:
        """Return the rows of the duplicates of a group, the least similar first."""
        rows = np.flatnonzero(self.groups.representative == self.heads[at])
        rows = rows[rows != self.heads[at]]
        found: list[int] = rows[np.argsort(self.likeness[rows], kind="stable")].tolist()
        return found

    def group_of(self, id: str) -> int | None:
        """Return the position of the group that holds a document; None if it is in none."""
        rows = rows_of(self.groups.ids, [id])
        at = np.flatnonzero(np.isin(self.heads, self.groups.representative[rows]))
        return int(at[0]) if at.size else None

    @functools.cached_property
    def by_likeness(self) -> I64:
        """Positions of the groups, those with the least similar duplicate first."""
        least, rows = np.full(len(self.groups.ids), np.inf), self.groups.duplicate_rows
        np.minimum.at(least, self.groups.representative[rows], self.likeness[rows])
        return np.argsort(least[self.heads], kind="stable")


@dataclass(eq=False)
class FoundGroups:
    """Find groups in the background, and form those again that decisions touch.

    open: opens the index once more, for a job. state: a number that changes with the groups.
    statistics: of the index when they were found. templates: warnings of groups that look like
    templates.
    """

    index: Index
    open: Callable[[], Index]
    grouping: Grouping
    jobs: Jobs
    state: int = 0
    statistics: Statistics | None = None
    templates: list[str] = field(default_factory=list)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _found: Groups | None = None
    _listed: Listed | None = None
    _since: list[Sequence[str]] = field(default_factory=list)
    _applied: int = 0
    _reasons: list[str] = field(default_factory=list)

    @property
    def finding(self) -> bool:
        """Return whether groups are being found now."""
        return (job := self.jobs.last(FINDING)) is not None and not job.ended

    @property
    def decided(self) -> int:
        """The number of decisions since groups were last searched for."""
        return len(self._since)

    @property
    def outdated(self) -> str | None:
        """The reason for which the groups do not show some decision, or None."""
        return self._reasons[-1] if self._reasons else None

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
        return self.jobs.start(FINDING, self._find)

    def ready(self) -> str | None:
        """Start to find groups, unless that failed before; return the reason for that, or None."""
        if (job := self.jobs.last(FINDING)) is not None and job.error is not None:
            return job.error
        self.find()
        return None

    def listed(self) -> Listed | None:
        """Return the groups by the decisions so far; None if they were not found yet."""
        with self._turn:
            while self._listed is not None and self._applied < len(self._since):
                area = self._area(self._listed.groups, self._since[self._applied])
                try:
                    self._listed = Listed.of(self.index.regroup(self._listed.groups, area))
                except UsageError as error:
                    self._reasons.append(str(error))
                self._applied += 1
            return self._listed

    def _area(self, groups: Groups, ids: Sequence[str]) -> list[str]:
        """Return the documents of all groups, now or as found, that share some with these."""
        assert self._found is not None
        rows, before = rows_of(groups.ids, ids), 0
        while rows.size > before:
            before = rows.size
            heads = groups.representative, self._found.representative
            rows = np.flatnonzero(np.any([np.isin(each, each[rows]) for each in heads], axis=0))
        return [groups.ids[row] for row in rows.tolist()]

    def note(self, *ids: str) -> None:
        """Note a decision about documents."""
        with self._turn:
            self._since.append(ids)
            self.state += 1

    def note_unchosen(self, id: str) -> None:
        """Note that a document does not represent its group any more."""
        self.note(id)
        if self._found is not None and id in self._found.judgements.representatives:
            # Where the rule puts it is only known if all documents are put in order.
            self.outdate("the rule chooses another representative when all groups are found again")

    def outdate(self, reason: str) -> None:
        """Note that some groups can only be formed again with all others."""
        with self._turn:
            self._reasons.append(reason)

    def forget(self) -> None:
        """Drop the groups, because the documents have changed."""
        with self._turn:
            self._found, self._listed, self.statistics = None, None, None
            self._since, self._applied, self._reasons = [], 0, []
            self.state += 1

    def _find(self, job: Job) -> None:
        with self._turn:
            began, reasons, grouping = len(self._since), len(self._reasons), self.grouping
        with self.open() as index:
            groups = index.groups(on_step=job.on_step, grouping=grouping)
            statistics = index.statistics()
            templates = [*template_warnings(index.store, index.meta, groups)]
        with self._turn:
            self._found, self._listed = groups, Listed.of(groups)
            self.statistics, self.templates = statistics, templates
            # Decisions since it began may have come too late for it.
            del self._since[:began], self._reasons[:reasons]
            self._applied = 0
            self.state += 1
