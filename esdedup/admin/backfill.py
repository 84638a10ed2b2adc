"""Gives the documents that an index holds already their tokens.

Only documents without the scheme's id are read, so that a run that was killed goes on where it
was. Processes share the work by slices of a point in time. Machines share it by slices of sequence
numbers, which are the same for every machine that asks.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from esdedup.admin.preflight import Obstacle, hindrances, searchable_text
from esdedup.exceptions import StoreError, UsageError
from esdedup.ingest.processes import OnItem, in_processes
from esdedup.ingest.refresh import fields_to_read, forget, renew
from esdedup.models import MOST_SLICES, WHOLE, Failure, Held, Share
from esdedup.stores import BulkPolicy, Cluster, Target, connect, reached
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.documents import held_of
from esdedup.stores.elastic.errors import PointInTimeLost
from esdedup.stores.elastic.indices import IndexState, Named, attached, path_of
from esdedup.stores.elastic.queries import not_sketched, scan_body, sketched, with_text
from esdedup.stores.elastic.retry import retrying, wait
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.mapping import TOKEN_PATHS, IndexMeta

_LANES = 8
"""Slices of a machine's share, for any number of workers."""


@dataclass(frozen=True)
class Effort:
    """How hard to work: processes, machines, and documents a second.

    workers: number of processes. share: this machine's part of the work. rate: maximum number of
    documents a second, of all workers of this machine together; None for no limit. Raises
    UsageError for values out of range.
    """

    workers: int = 1
    share: Share = WHOLE
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"workers {self.workers}: use at least 1")
        if self.rate is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise UsageError(f"rate {self.rate}: use a number of documents a second above 0")


def slices(effort: Effort) -> list[list[dict[str, Any] | None]]:
    """The slices of a search that each worker reads, one after the other; None for all of it.

    A machine's share does not depend on the number of workers, here or on other machines.
    """
    workers, share = effort.workers, effort.share
    if share.of > 1:
        lanes = max(1, min(_LANES, MOST_SLICES // share.of))
        first, most = (share.number - 1) * lanes, share.of * lanes
        mine: list[dict[str, Any] | None] = [
            {"field": "_seq_no", "id": first + lane, "max": most} for lane in range(lanes)
        ]
        return [mine[worker::workers] for worker in range(min(workers, lanes))]
    if workers > 1:
        return [[{"id": worker, "max": workers}] for worker in range(workers)]
    return [[None]]


class Pace:
    """Holds one worker to its part of the rate."""

    def __init__(self, effort: Effort) -> None:
        self._rate = None if effort.rate is None else effort.rate / effort.workers
        self._began = time.monotonic()
        self._read = 0

    def page(self, most: int) -> int:
        """The number of documents to read at once: at most those of a second, and `most`."""
        return most if self._rate is None else max(1, min(most, math.ceil(self._rate)))

    def keep(self, read: int) -> None:
        """Sleeps if these documents came too soon. read: their number."""
        self._read += read
        if self._rate is not None:
            time.sleep(max(0.0, self._began + self._read / self._rate - time.monotonic()))


log = logging.getLogger("esdedup")
_PAGE_DOCUMENTS = 1_000
_PAGE_CHARACTERS = 8_000_000
Work = Literal["fill", "renew", "forget"]
"""Give tokens to documents without; renew them if the text changed; or remove them."""
_Done = ChangeReport | PointInTimeLost
"""The counts of a page, or the error that ended the pages early."""
OnUpdate = Callable[[ChangeReport], None]


@dataclass(frozen=True)
class BackfillPlan:
    """The indices to fill, those that can't be filled, and the documents to read.

    query: finds the documents. work: what is done with them. waiting: about how many of them this
    share has. marks_in: the field whose groups and marks are taken over, or None.
    """

    named: Named
    meta: IndexMeta
    indices: tuple[str, ...]
    left_out: tuple[Obstacle, ...]
    query: dict[str, Any]
    work: Work
    waiting: int
    marks_in: str | None = None


def plan_backfill(
    target: Target,
    name: str,
    *,
    stale: bool = False,
    following: bool = False,
    effort: Effort | None = None,
) -> BackfillPlan:
    """Returns what there is to fill; nothing is changed yet.

    name: an index, alias or data stream. stale: renew tokens that no longer fit their text,
    instead. following: fill the scheme that the index is changing to. effort: says this machine's
    share. Raises IndexNotFound if there is no such name or it is not attached, and StoreError if it
    is not changing its scheme and `following` asks for that.
    """
    with reached(target) as cluster:
        named, found, meta = attached(cluster, name)
        marks_in = None
        if following:
            if meta.next is None:
                raise StoreError(f"{name!r} is not changing its scheme")
            meta, marks_in = meta.next, meta.field
        chosen, left_out = _fillable(found, meta)
        query = sketched(meta) if stale else _lacking(found, meta)
        work: Work = "renew" if stale else "fill"
        waiting = _count(cluster, chosen, query, effort)
    return BackfillPlan(named, meta, chosen, left_out, query, work, waiting, marks_in)


def plan_forgetting(cluster: Cluster, name: str, effort: Effort | None = None) -> BackfillPlan:
    """Returns what there is to empty after a change of the scheme. Raises StoreError if nothing."""
    named, found, meta = attached(cluster, name)
    if meta.former is None:
        raise StoreError(f"{name!r} has no field of a former scheme")
    chosen, left_out = _fillable(found, meta)
    query: dict[str, Any] = {"exists": {"field": f"{meta.former}.scheme"}}
    waiting = _count(cluster, chosen, query, effort)
    return BackfillPlan(named, meta, chosen, left_out, query, "forget", waiting)


def _count(
    cluster: Cluster, indices: Sequence[str], query: dict[str, Any], effort: Effort | None
) -> int:
    count = sum(cluster.count(path_of(index), query) for index in indices)
    return math.ceil(count / (effort or Effort()).share.of)


def _fillable(
    found: list[IndexState], meta: IndexMeta
) -> tuple[tuple[str, ...], tuple[Obstacle, ...]]:
    chosen, left_out = [], []
    for state in found:
        found_here = hindrances(state, meta)
        left_out += found_here
        if not found_here:
            chosen.append(state.name)
    return tuple(chosen), tuple(left_out)


def _lacking(found: list[IndexState], meta: IndexMeta) -> dict[str, Any]:
    """The query for documents without the scheme's id; with the text, if a query can tell that."""
    if all(searchable_text(state, meta) for state in found):
        return with_text(not_sketched(meta), meta)
    return not_sketched(meta)


def backfill(
    target: Target,
    what: str | BackfillPlan,
    effort: Effort = Effort(),
    on_update: OnUpdate | None = None,
    *,
    stale: bool = False,
) -> ChangeReport:
    """Gives documents their tokens until none waits, or only some that others keep writing.

    A document that somebody changes at the same time is read again, never overwritten. If a point
    in time is lost with a node, another one is opened.

    what: the name of an index, alias or data stream, or a plan of `plan_backfill`. on_update:
    called with the counts of each page of documents. stale: renew tokens that no longer fit their
    text, instead; a plan says that itself.

    Returns the counts of all documents; the ids of failures are "index/id". Raises the errors of
    the store and of `plan_backfill`, and StoreError if an index can't be filled, before anything is
    changed, unless a plan was given. After an error the same call goes on from there.
    """
    total = ChangeReport()
    with reached(target) as cluster:
        if isinstance(what, str):
            what = plan_backfill(cluster, what, stale=stale, effort=effort)
            if what.left_out:
                raise StoreError("; ".join(map(str, what.left_out)))
        for index in what.indices:
            total += _fill(cluster, what, index, effort, on_update)
    return total


def _fill(
    cluster: Cluster,
    plan: BackfillPlan,
    index: str,
    effort: Effort,
    on_update: OnUpdate | None,
) -> ChangeReport:
    """Reads one index pass after pass, because others may write during a pass."""
    total, fruitless, before = ChangeReport(), 0, math.inf
    while True:
        done, lost = _pass(cluster, plan, index, effort, on_update)
        cluster.ask("POST", f"{path_of(index)}/_refresh")
        # A document that can't be written is read again by the next pass, and counted then.
        total = replace(total, read=total.settled, without_text=0, failures=[]) + done
        if lost is not None:
            fruitless = 0 if done.written else fruitless + 1
            if fruitless > cluster.policy.retries:
                raise lost
            wait(cluster.policy, fruitless, str(lost))
            continue
        if plan.work == "renew" or not done.written:
            return total
        if done.written > before / 2:
            # Every pass would find some, and no pass would be the last.
            log.warning("Others keep writing documents to %r that need this: run it again", index)
            return total
        before = done.written


def _pass(
    cluster: Cluster,
    plan: BackfillPlan,
    index: str,
    effort: Effort,
    on_update: OnUpdate | None,
) -> tuple[ChangeReport, PointInTimeLost | None]:
    """Reads all that waits in one index at this moment.

    Returns the counts, and the error if a point in time was lost.
    """
    total, lost = ChangeReport(), None
    with cluster.point_in_time(path_of(index)) as point:
        jobs = [_Job(index, point, plan, some, effort) for some in slices(effort)]
        for done in _done(cluster, jobs):
            if isinstance(done, PointInTimeLost):
                lost = done
                continue
            total += done
            if on_update is not None:
                on_update(done)
    return total, lost


@dataclass(frozen=True)
class _Job:
    """The part of a pass that one worker does."""

    index: str
    point: str
    plan: BackfillPlan
    slices: Sequence[dict[str, Any] | None]
    effort: Effort

    def body(self, slice: dict[str, Any] | None, size: int) -> dict[str, Any]:
        """The search for a page of documents, without the lists of tokens in them."""
        plan = self.plan
        names = fields_to_read(plan.meta, plan.marks_in)
        if plan.work == "forget":
            names = [str(plan.meta.former)]
        body = scan_body(plan.query, {"includes": names, "excludes": TOKEN_PATHS}, size)
        body["seq_no_primary_term"] = True
        return body if slice is None else {**body, "slice": slice}


def _done(cluster: Cluster, jobs: Sequence[_Job]) -> Iterator[_Done]:
    """Gives the counts of each page, from one process a job; a single job is done in this one."""
    if len(jobs) == 1:
        yield from _work(cluster, jobs[0])
    else:
        begin = functools.partial(_work_alone, cluster.connection, cluster.policy)
        results: Iterator[_Done] = in_processes(len(jobs), begin, jobs)
        yield from results


@contextmanager
def _work_alone(connection: Connection, policy: BulkPolicy) -> Iterator[OnItem[_Job, _Done]]:
    cluster = retrying(lambda: connect(connection, policy), policy)
    try:
        yield functools.partial(_work, cluster)
    finally:
        cluster.client.close()


def _work(cluster: Cluster, job: _Job) -> Iterator[_Done]:
    """Changes documents page by page.

    A lost point in time is given as a result, and not raised, because other workers go on.
    """
    pace = Pace(job.effort)
    most = pace.page(_PAGE_DOCUMENTS)
    store = ClusterStore(cluster, job.index)
    try:
        for slice in job.slices:
            body = job.body(slice, most)
            for hits in cluster.pages(job.point, body):
                body["size"] = _page_of(hits, most)
                done = _update(store, list(map(held_of, hits)), job.plan)
                yield replace(done, failures=[_named(each, job.index) for each in done.failures])
                pace.keep(len(hits))
    except PointInTimeLost as error:
        yield error


def _update(store: ClusterStore, held: Sequence[Held], plan: BackfillPlan) -> ChangeReport:
    if plan.work == "forget":
        assert plan.meta.former is not None
        return forget(store, held, plan.meta.former)
    return renew(store, held, plan.meta, plan.marks_in)


def _named(failure: Failure, index: str) -> Failure:
    """A failure whose id names the index too."""
    return replace(failure, id=f"{index}/{failure.id}")


def _page_of(hits: Sequence[Mapping[str, Any]], most: int) -> int:
    """The number of documents to read next, so that long ones do not fill the memory."""
    characters = sum(len(str(hit.get("_source", ""))) for hit in hits)
    return max(1, min(most, _PAGE_CHARACTERS * len(hits) // max(1, characters)))
