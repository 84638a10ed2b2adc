"""Search for groups in the background, and keep them: a page of them needs no search."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from esdedup.analysis.templates import template_warnings
from esdedup.compare.keep_rule import KeepRule, rows_of
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups
from esdedup.index import Index
from esdedup.models import Statistics
from esdedup.review.group_list import GroupList
from esdedup.review.jobs import Job, Jobs
from esdedup.text.arrays import F64, I64, Mask

FINDING = "Finding groups"


def members_of(groups: Groups, head: int) -> list[int]:
    """Return the rows of the duplicates of a representative, the least similar first."""
    rows = groups.duplicate_rows
    members: list[int] = least_similar(groups, rows[groups.representative[rows] == head]).tolist()
    return members


def head_of(groups: Groups, id: str) -> int | None:
    """Return the row of the representative of a document's group; None if it is in none."""
    rows = rows_of(groups.ids, [id])
    heads = groups.heads[np.isin(groups.heads, groups.representative[rows])]
    return int(heads[0]) if heads.size else None


def by_likeness(groups: Groups) -> I64:
    """Return `groups.heads`, those with the least similar duplicate first."""
    least, rows = np.full(len(groups.ids), np.inf), groups.duplicate_rows
    np.minimum.at(least, groups.representative[rows], _likeness(groups)[rows])
    return groups.heads[np.argsort(least[groups.heads], kind="stable")]


def least_similar(groups: Groups, rows: I64) -> I64:
    """Return rows of duplicates, those least similar to their representative first."""
    return rows[np.argsort(_likeness(groups)[rows], kind="stable")]


def judged_below(groups: Groups) -> Mask:
    """Mark the duplicates below the threshold that a judgement alone joined, shape (n,).

    In a chain of similar documents it is not known what joined one of them.
    """
    if groups.grouping.method != "leader" and not groups.grouping.exact:
        return np.zeros(len(groups.ids), bool)
    return groups.unlike


def without_judged(groups: Groups) -> Groups:
    """Return groups without the documents of `judged_below`, which then stay."""
    left_out = judged_below(groups)
    return replace(
        groups,
        representative=np.where(left_out, np.arange(len(groups.ids)), groups.representative),
        value=np.where(left_out, np.nan, groups.value),
    )


def _likeness(groups: Groups) -> F64:
    return groups.measure.nearnesses(groups.value)


@dataclass(eq=False)
class GroupSearch:
    """Find groups in the background, and form those again that decisions touch.

    index: the index of the pages, whose requests are retried for seconds only.
    open: opens the index once more, for a job.
    grouping: how documents are grouped.
    jobs: the jobs of the process.
    group_list: reads what the list of groups shows.
    state: a number that changes with the groups.
    statistics: of the index when groups were found.
    templates: warnings of groups that look like templates.
    """

    index: Index
    open: Callable[[], Index]
    grouping: Grouping
    jobs: Jobs
    group_list: GroupList
    state: int = 0
    statistics: Statistics | None = None
    templates: list[str] = field(default_factory=list)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _searched: Groups | None = None
    _formed: Groups | None = None
    _touched: list[Sequence[str]] = field(default_factory=list)
    _applied: int = 0
    _reasons: list[str] = field(default_factory=list)

    @property
    def finding(self) -> bool:
        """Return whether groups are being found now."""
        return (job := self.latest) is not None and not job.ended

    @property
    def latest(self) -> Job | None:
        """Return the last search for groups, under way or ended; None if there was none."""
        return self.jobs.last(FINDING)

    @property
    def decided(self) -> int:
        """The number of decisions since groups were last searched for."""
        return len(self._touched)

    @property
    def outdated(self) -> str | None:
        """The reason for which the groups do not show some decision, or None."""
        return self._reasons[-1] if self._reasons else None

    def use(self, threshold: float) -> None:
        """Find groups by another threshold from now on. Raises UsageError while they are found."""
        limits = self.grouping.limits
        measure = self.index.scheme.chosen(limits).measure
        self._use(replace(self.grouping, limits=measure.limited(limits, threshold)))

    def use_rule(self, rule: KeepRule) -> None:
        """Find groups by another keep rule from now on. Raises UsageError while they are found."""
        self._use(replace(self.grouping, keep=rule))

    def _use(self, grouping: Grouping) -> None:
        if self.finding:
            raise UsageError("groups are being found: wait for them")
        self.grouping = grouping
        self.forget()
        self.find()

    def find(self) -> Job:
        """Start to find groups, unless that is under way."""
        return self.jobs.start(FINDING, self._find)

    def ready(self) -> str | None:
        """Start to find groups, unless that failed before; return the reason for that, or None."""
        if (job := self.latest) is not None and job.error is not None:
            return job.error
        self.find()
        return None

    def groups(self) -> Groups | None:
        """Return the groups by the decisions so far; None if they were not found yet."""
        with self._turn:
            while self._formed is not None and self._applied < len(self._touched):
                area = self._area(self._formed, self._touched[self._applied])
                try:
                    self._formed = self.index.regroup(self._formed, area)
                except UsageError as error:
                    self._reasons.append(str(error))
                self._applied += 1
            return self._formed

    def _area(self, groups: Groups, ids: Sequence[str]) -> list[str]:
        """Return the documents of all groups, now or as found, that share some with these."""
        assert self._searched is not None
        rows, before = rows_of(groups.ids, ids), 0
        while rows.size > before:
            before = rows.size
            in_groups = [
                np.isin(representative, representative[rows])
                for representative in (groups.representative, self._searched.representative)
            ]
            rows = np.flatnonzero(np.any(in_groups, axis=0))
        return [groups.ids[row] for row in rows.tolist()]

    def note(self, *ids: str) -> None:
        """Note a decision about documents."""
        with self._turn:
            self._touched.append(ids)
            self.state += 1

    def note_unchosen(self, id: str) -> None:
        """Note that a document does not represent its group any more."""
        self.note(id)
        if self._searched is not None and id in self._searched.judgements.representatives:
            # Where the rule puts it is only known if all documents are put in order.
            self.outdate("the rule chooses another representative when all groups are found again")

    def outdate(self, reason: str) -> None:
        """Note that some groups can only be formed again with all others."""
        with self._turn:
            self._reasons.append(reason)

    def forget(self) -> None:
        """Drop the groups, because the documents have changed."""
        with self._turn:
            self._searched, self._formed, self.statistics = None, None, None
            self._touched, self._applied, self._reasons = [], 0, []
            self.state += 1

    def _find(self, job: Job) -> None:
        with self._turn:
            began, reasons, grouping = len(self._touched), len(self._reasons), self.grouping
        with self.open() as index:
            groups = index.groups(on_step=job.on_step, grouping=grouping)
            statistics = index.statistics()
            templates = [*template_warnings(index.store, index.meta, groups)]
            self.group_list.read(index, groups, job.on_step)
        with self._turn:
            self._searched = self._formed = groups
            self.statistics, self.templates = statistics, templates
            # Decisions since it began may have come too late for it.
            del self._touched[:began], self._reasons[:reasons]
            self._applied = 0
            self.state += 1
