"""Tokens for the documents that an index holds already.

Only documents without the scheme's id are read, so that a run that was killed goes on where it
was. Slices of a point in time share the work among processes, slices by sequence number among
machines: those stay the same whoever asks, while slices of a point in time are its own.

How hard to work: processes, machines, and documents a second.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

from esdedup.admin.preflight import Obstacle, hindrances, searchable_text
from esdedup.exceptions import StoreError, UsageError
from esdedup.ingest.parallel import in_pieces
from esdedup.ingest.refresh import fields_to_read, forget, renew
from esdedup.models import MOST_SLICES, WHOLE, Held, Share
from esdedup.stores import BulkPolicy
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.documents import held_of
from esdedup.stores.elastic.errors import PointInTimeLost
from esdedup.stores.elastic.indices import IndexState, Named, attached, path_of
from esdedup.stores.elastic.queries import not_sketched, scan_body, sketched, with_text
from esdedup.stores.elastic.retry import retrying, wait
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.mapping import TOKEN_PATHS, IndexMeta

_LANES = 8
"""Slices of a machine's share, whatever its workers."""


@dataclass(frozen=True)
class Effort:
    """How hard to work.

    workers: processes. share: this machine's. rate: most documents a second, or None; of all
    workers of this machine together.
    """

    workers: int = 1
    share: Share = WHOLE
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"workers {self.workers}: use at least 1")
        if self.rate is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise UsageError(f"rate {self.rate}: use a number of documents a second above 0")

    def page(self, most: int) -> int:
        """Returns how many documents a worker reads at once: at most those of one second."""
        return most if self.rate is None else max(1, min(most, math.ceil(self.rate / self.workers)))

    def wait(self, read: int, began: float) -> None:
        """Sleeps if a worker read documents faster than its part of the rate.

        began: when it began to read them, by `time.monotonic`.
        """
        if self.rate is not None:
            until = began + read / (self.rate / self.workers)
            time.sleep(max(0.0, until - time.monotonic()))


def slices(effort: Effort) -> list[list[dict[str, Any] | None]]:
    """The slices of a search that each worker reads, one after the other; None for all of it.

    A machine's share is the same whatever the number of its workers, and of the others'.
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


log = logging.getLogger("esdedup")
_PAGE_DOCUMENTS = 1_000
_PAGE_CHARACTERS = 8_000_000
Work = Literal["fill", "renew", "forget"]
"""Tokens for documents without; for those whose text changed; or none any more."""
_Done = ChangeReport | PointInTimeLost
"""What became of a page, or why there are no more."""
OnUpdate = Callable[[ChangeReport], None]


@dataclass(frozen=True)
class BackfillPlan:
    """The indices to fill, those that can't be, and the documents that wait for it.

    waiting: an estimate; documents of this share that lack the scheme's id, or that have it where
    stale ones are looked for. work: what is done with them. marks_in: the field whose groups and
    marks are taken over.
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
    cluster: Cluster,
    name: str,
    *,
    stale: bool = False,
    following: bool = False,
    effort: Effort | None = None,
) -> BackfillPlan:
    """What there is to fill. stale: renew tokens that no longer fit their text, instead.

    following: fill the scheme that the index is changing to. Raises IndexNotFound where there is no
    such name, StoreError where it is not attached.
    """
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
    """What there is to empty after a change of the scheme. Raises StoreError where nothing is."""
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
    """Documents without the scheme's id; without the text neither, where a query can tell that."""
    if all(searchable_text(state, meta) for state in found):
        return with_text(not_sketched(meta), meta)
    return not_sketched(meta)


def backfill(
    connection: Connection,
    cluster: Cluster,
    plan: BackfillPlan,
    effort: Effort,
    on_update: OnUpdate | None = None,
) -> ChangeReport:
    """Fills until no document waits, or only some that others wrote meanwhile and keep writing.

    A document is counted once it is written. A point in time that is lost with a node is opened
    anew, and what was counted of it stays.

    on_update: called with what became of a page of documents. Raises the errors of the store;
    what was written stays, and the same again goes on from there.
    """
    total = ChangeReport()
    for index in plan.indices:
        total += _fill(connection, cluster, plan, index, effort, on_update)
    return total


def _fill(
    connection: Connection,
    cluster: Cluster,
    plan: BackfillPlan,
    index: str,
    effort: Effort,
    on_update: OnUpdate | None,
) -> ChangeReport:
    """Pass after pass over one index, as others may have written since the last one began."""
    total, fruitless, before = ChangeReport(), 0, math.inf
    while True:
        done, lost = _pass(connection, cluster, plan, index, effort, on_update)
        cluster.ask("POST", f"{path_of(index)}/_refresh")
        # What can't be written is read again by the next pass, and counted then.
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
            # Pass after pass would find some, and none would be the last.
            log.warning("Others keep writing documents to %r that need this: run it again", index)
            return total
        before = done.written


def _pass(
    connection: Connection,
    cluster: Cluster,
    plan: BackfillPlan,
    index: str,
    effort: Effort,
    on_update: OnUpdate | None,
) -> tuple[ChangeReport, PointInTimeLost | None]:
    """Everything that waits in one index at this moment; why it ended early, if it did."""
    total, lost = ChangeReport(), None
    with cluster.point_in_time(path_of(index)) as point:
        jobs = [_Job(index, point, plan, some, effort) for some in slices(effort)]
        with closing(_done(connection, cluster, jobs)) as pages:
            for done in pages:
                if isinstance(done, PointInTimeLost):
                    lost = done
                    continue
                total += done
                if on_update is not None:
                    on_update(done)
    return total, lost


@dataclass(frozen=True)
class _Job:
    """The pages that one worker has yet to read.

    slices: the one to read now, and those after it. after: the sort values of the last document
    that was read of the first slice. size: documents of the next page.
    """

    index: str
    point: str
    plan: BackfillPlan
    slices: Sequence[dict[str, Any] | None]
    effort: Effort
    after: list[Any] | None = None
    size: int = _PAGE_DOCUMENTS

    def body(self) -> dict[str, Any]:
        """Returns the search for the next page, without the lists of tokens."""
        plan = self.plan
        names = fields_to_read(plan.meta, plan.marks_in)
        if plan.work == "forget":
            names = [str(plan.meta.former)]
        size = min(self.size, self.effort.page(_PAGE_DOCUMENTS))
        body = scan_body(plan.query, {"includes": names, "excludes": TOKEN_PATHS}, size)
        body["seq_no_primary_term"] = True
        if self.slices[0] is not None:
            body["slice"] = self.slices[0]
        if self.after is not None:
            body["search_after"] = self.after
        return body


def _done(connection: Connection, cluster: Cluster, jobs: Sequence[_Job]) -> Generator[_Done]:
    """Yields what became of each page. Several jobs are done by a process each."""
    if len(jobs) > 1:
        work = partial(_page_in_a_process, connection, cluster.policy)
        yield from in_pieces(len(jobs), work, jobs)
        return
    job: _Job | None = jobs[0]
    while job is not None:
        done, job = _page(cluster, job)
        yield done


def _page_in_a_process(
    connection: Connection, policy: BulkPolicy, job: _Job
) -> tuple[_Done, _Job | None]:
    return _page(_cluster(connection, policy), job)


@cache
def _cluster(connection: Connection, policy: BulkPolicy) -> Cluster:
    """Opens the cluster, once in each worker process."""
    from esdedup.stores import connect

    return retrying(lambda: connect(connection, policy), policy)


def _page(cluster: Cluster, job: _Job) -> tuple[_Done, _Job | None]:
    """Updates a page of documents. Returns what became of them, and what is left of the job.

    A lost point in time is returned, not raised: it must not stop the other workers.
    """
    began = time.monotonic()
    try:
        hits, point = cluster.page(job.point, job.body())
        if not hits:
            left = replace(job, slices=job.slices[1:], after=None)
            return ChangeReport(), left if left.slices else None
        store = ClusterStore(cluster, job.index)
        done = _update(store, list(map(held_of, hits)), job.plan)
    except PointInTimeLost as error:
        return error, None
    job.effort.wait(len(hits), began)
    named = [replace(each, id=f"{job.index}/{each.id}") for each in done.failures]
    left = replace(job, point=point, after=hits[-1]["sort"], size=_page_of(hits))
    return replace(done, failures=named), left


def _update(store: ClusterStore, held: Sequence[Held], plan: BackfillPlan) -> ChangeReport:
    if plan.work == "forget":
        assert plan.meta.former is not None
        return forget(store, held, plan.meta.former)
    return renew(store, held, plan.meta, plan.marks_in)


def _page_of(hits: Sequence[Mapping[str, Any]]) -> int:
    """Returns how many documents to read next, so that long ones do not fill the memory."""
    characters = sum(len(str(hit.get("_source", ""))) for hit in hits)
    return max(1, min(_PAGE_DOCUMENTS, _PAGE_CHARACTERS * len(hits) // max(1, characters)))
