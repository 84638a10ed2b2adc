"""Add tokens to the documents that an index already holds.

Only documents without the scheme's id are read, so that a killed run resumes where it stopped.
Requests, and processes, share the work by slices of a point in time.
"""

import logging
import math
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from esdedup.admin.preflight import Obstacle, hindrances, searchable_text
from esdedup.exceptions import StoreError, UsageError
from esdedup.ingest.parallel import in_pieces
from esdedup.ingest.renew import renew
from esdedup.models import MOST_SLICES, WHOLE
from esdedup.stores import BulkPolicy, Cluster, Target, reached
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.errors import PointInTimeLost
from esdedup.stores.elastic.indices import (
    Named,
    attached,
    mappings_of,
    path_of,
    whole_source,
)
from esdedup.stores.elastic.queries import (
    Slice,
    any_of,
    held_body,
    held_of,
    not_sketched,
    scan_body,
    sketched,
    with_text,
)
from esdedup.stores.elastic.retry import Attempts
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.mapping import IndexMeta


@dataclass(frozen=True)
class Effort:
    """How many processes work, 1 to `MOST_SLICES`, and how fast.

    rate: maximum number of documents a second, of all together. Raises UsageError for others.
    """

    workers: int = 1
    rate: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_SLICES:
            raise UsageError(f"workers {self.workers}: use 1 to {MOST_SLICES}")
        if self.rate is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise UsageError(f"rate {self.rate}: use a number of documents a second above 0")


log = logging.getLogger("esdedup")
_opened = cache(Cluster)
"""Opens a cluster once in each worker process."""
_FIRST_PAGE_DOCUMENTS, _PAGE_DOCUMENTS = 200, 1_000
"""The first page shows how long documents are."""
_PAGE_CHARACTERS = 2_000_000
_Done = ChangeReport | PointInTimeLost
"""The counts of a page, or the error that ended a worker's pages early."""
OnUpdate = Callable[[ChangeReport], None]


@dataclass(frozen=True)
class BackfillPlan:
    """The indices to fill, those that can't be filled, and the query for the documents.

    stale: renew tokens. waiting: number of documents. beside: the tokens that they have already.
    """

    named: Named
    meta: IndexMeta
    indices: tuple[str, ...]
    left_out: tuple[Obstacle, ...]
    query: dict[str, Any]
    stale: bool
    waiting: int
    beside: IndexMeta | None = None


def plan_backfill(
    target: Target, name: str, *, stale: bool = False, following: bool = False
) -> BackfillPlan:
    """Return the documents to fill, without changing anything.

    name: an index, alias or data stream. stale: renew tokens that no longer fit their text
    instead. following: fill the scheme that the index is changing to. Raises IndexNotFound if the
    name does not exist or is not attached.
    """
    with reached(target) as cluster:
        named, found, meta = attached(cluster, name)
        beside = None
        if following:
            if meta.next is None:
                raise StoreError(f"{name!r} is not changing its scheme")
            meta, beside = meta.next, meta
        query = any_of(sketched(part) for part in meta.sketched)
        if not stale:
            query = any_of(
                with_text(not_sketched(part), part)
                if all(searchable_text(state, part) for state in found)
                else not_sketched(part)
                for part in meta.sketched
            )
        for state in found:
            if not state.closed:
                cluster.show(path_of(state.name))
        left_out = tuple(each for state in found for each in hindrances(state, meta))
        hindered = {each.index for each in left_out}
        chosen = tuple(state.name for state in found if state.name not in hindered)
        waiting = sum(cluster.count(path_of(index), query) for index in chosen)
        return BackfillPlan(named, meta, chosen, left_out, query, stale, waiting, beside)


def backfill(
    target: Target,
    what: str | BackfillPlan,
    effort: Effort = Effort(),
    on_update: OnUpdate | None = None,
    *,
    stale: bool = False,
) -> ChangeReport:
    """Add tokens to documents until none is left, or only some that other clients keep writing.

    A document that another client changes at the same time is read again, never overwritten.

    what: the name of an index, alias or data stream, or a plan of `plan_backfill`. on_update:
    called with the counts of each page of documents. stale: renew tokens that no longer fit their
    text instead; ignored with a plan.

    Returns the counts of all documents; the ids of failures are "index/id". Raises the errors of
    `plan_backfill`, and, unless a plan is given, StoreError before any change if an index can't be
    filled. After an error the same call resumes.
    """
    total = ChangeReport()
    with reached(target) as cluster:
        if isinstance(what, str):
            what = plan_backfill(cluster, what, stale=stale)
            if what.left_out:
                raise StoreError("; ".join(map(str, what.left_out)))
        for index in what.indices:
            total += _fill(cluster, what, index, effort, on_update or (lambda _: None))
    return total


def _fill(
    cluster: Cluster, plan: BackfillPlan, index: str, effort: Effort, on_update: OnUpdate
) -> ChangeReport:
    """Read one index pass after pass, because other clients may write during a pass."""
    total, before = ChangeReport(), math.inf
    attempts = Attempts(cluster.retries)
    while True:
        done, lost = ChangeReport(), None
        with cluster.point_in_time(path_of(index)) as point:
            # A change writes the whole document.
            fields = cluster.remembered(("whole", index), partial(_whole, cluster, index))
            body = held_body(
                scan_body(plan.query, fields, min(_FIRST_PAGE_DOCUMENTS, _PAGE_DOCUMENTS))
            )
            whole = _Pages(index, plan, Slice(point, body, raw=True), effort.rate or math.inf)
            with closing(_done(cluster, whole, effort.workers)) as pages:
                for page in pages:
                    if isinstance(page, PointInTimeLost):
                        lost = page
                        continue
                    done += page
                    on_update(page)
        cluster.refresh(path_of(index))
        # A document that can't be written is read again by the next pass, and counted then.
        total = replace(total, read=total.settled, without_text=0, failures=[]) + done
        if lost is not None:
            if done.written:
                attempts = Attempts(cluster.retries)
            if not attempts.wait(lost):
                raise lost
            continue
        if plan.stale or not done.written:
            return total
        if done.written > before / 2:
            # Every pass would find some, and no pass would be the last.
            log.warning(
                "Each pass over %r finds documents without tokens, such as new ones of other"
                " clients: run it again",
                index,
            )
            return total
        before = done.written


def _whole(cluster: Cluster, index: str) -> Any:
    return whole_source(cluster, path_of(index), mappings_of(cluster, index))


@dataclass(frozen=True)
class _Pages:
    """The pages that are left of a slice. rate: maximum documents a second."""

    index: str
    plan: BackfillPlan
    left: Slice
    rate: float


def _done(cluster: Cluster, whole: _Pages, workers: int) -> Generator[_Done]:
    """Yield the counts of each page: the first one, and then those of several slices.

    workers: number of processes that read the slices; with one, this process reads some of them at
    the same time.
    """
    done, rest = _page(cluster, whole)
    yield done
    if rest is None:
        return
    parts = rest.left.parts(WHOLE, cluster.is_opensearch, workers)
    jobs = [replace(rest, left=each, rate=whole.rate / len(parts)) for each in parts]
    if workers > 1:
        work = partial(_page_in_a_process, cluster.connection, cluster.policy)
        yield from in_pieces(workers, work, jobs)
    else:
        yield from cluster.window.in_pieces(partial(_page, cluster), jobs)


def _page_in_a_process(
    connection: Connection, policy: BulkPolicy, job: _Pages
) -> tuple[_Done, _Pages | None]:
    return _page(_opened(connection, policy, known=True), job)


def _page(cluster: Cluster, job: _Pages) -> tuple[_Done, _Pages | None]:
    """Update a page of documents. Return their counts, and the rest of the job."""
    plan, began = job.plan, time.monotonic()
    # At most the documents of one second.
    size = math.ceil(min(job.left.body["size"], job.rate))
    try:
        hits, left = cluster.page(job.left._replace(body={**job.left.body, "size": size}))
        held = list(map(held_of, hits))
        parts, store = plan.meta.sketched, ClusterStore(cluster, job.index)
        again = not plan.stale and any(part.scheme.by_server for part in parts)
        done = renew(store, held, parts, plan.beside, again=again)
    except PointInTimeLost as error:
        # Raised, it would stop the other workers.
        return error, None
    time.sleep(max(0.0, began + len(hits) / job.rate - time.monotonic()))
    named = [replace(each, id=f"{job.index}/{each.id}") for each in done.failures]
    done = replace(done, failures=named)
    if left is None:
        return done, None
    # Fewer documents next if they are long, so that they do not fill the memory.
    characters = sum(len(one.document.raw or "") for one in held)
    size = max(1, min(_PAGE_DOCUMENTS, _PAGE_CHARACTERS * len(hits) // max(1, characters)))
    return done, replace(job, left=left._replace(body={**left.body, "size": size}))
