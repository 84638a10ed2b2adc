"""Add tokens to the documents that an index already holds.

Only documents without the scheme's id are read, so that a killed run resumes where it stopped.
Requests, and processes, share the work by slices of a point in time.
"""

import logging
import math
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, partial

from esdedup.admin.obstacles import Obstacle, hindrances, searchable_text
from esdedup.exceptions import StoreError, UsageError
from esdedup.ingest.parallel import in_pieces
from esdedup.ingest.renew import renew
from esdedup.models import MOST_SLICES, WHOLE
from esdedup.stores import BulkPolicy, Cluster, Target, connected
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.bodies import Query, SourceFilter
from esdedup.stores.elastic.errors import PointInTimeLost
from esdedup.stores.elastic.indices import (
    Named,
    attached,
    filters_of,
    mappings_of,
    path_of,
    whole_source,
)
from esdedup.stores.elastic.queries import (
    Slice,
    any_of,
    bounded,
    not_sketched,
    scan_body,
    sketched,
    stored_of,
    versioned_body,
    with_text,
)
from esdedup.stores.elastic.retry import Attempts
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.mapping import IndexMeta


@dataclass(frozen=True)
class Effort:
    """How many processes work, and how fast.

    workers: number of processes, 1 to `MOST_SLICES`.
    rate: maximum number of documents per second, of all together.

    Raises UsageError for other values.
    """

    workers: int = 1
    rate: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_SLICES:
            raise UsageError(f"workers {self.workers}: use 1 to {MOST_SLICES}")
        if self.rate is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise UsageError(f"rate {self.rate}: use a number of documents per second above 0")


log = logging.getLogger("esdedup")
_opened = cache(Cluster)
"""Opens a cluster once in each worker process."""
FIRST_PAGE_DOCUMENTS, PAGE_DOCUMENTS = 200, 1_000
"""The first page shows how long documents are."""
_PAGE_CHARACTERS = 2_000_000
_Outcome = ChangeReport | PointInTimeLost
"""The counts of a page, or the error that ended a worker's pages early."""
OnUpdate = Callable[[ChangeReport], None]


@dataclass(frozen=True)
class BackfillPlan:
    """What is to be filled.

    named: the name, and what it stands for.
    meta: describes the tokens to add.
    indices: names of those to fill.
    left_out: obstacles of those that can't be filled.
    query: for the documents.
    stale: renew tokens too.
    waiting: number of documents.
    beside: describes the tokens that they have already.
    filters: of an alias, by index: no document outside of them is filled.
    """

    named: Named
    meta: IndexMeta
    indices: tuple[str, ...]
    left_out: tuple[Obstacle, ...]
    query: Query
    stale: bool
    waiting: int
    beside: IndexMeta | None = None
    filters: Mapping[str, Query] = field(default_factory=dict)

    def query_in(self, index: str) -> Query:
        """Return the query for the documents of an index."""
        return bounded(self.query, self.filters.get(index))


def plan_backfill(
    target: Target, name: str, *, stale: bool = False, following: bool = False
) -> BackfillPlan:
    """Return the documents to fill, without changing anything.

    name: an index, alias or data stream.
    stale: renew tokens that no longer fit their text too, for which all texts are read.
    following: fill the scheme that the index is changing to.

    Raises IndexNotFound if the name does not exist or is not attached.
    """
    with connected(target) as cluster:
        named, indices, meta = attached(cluster, name)
        beside = None
        if following:
            if meta.next is None:
                raise StoreError(f"{name!r} is not changing its scheme")
            meta, beside = meta.next, meta
        queries = [
            with_text(not_sketched(part), part)
            if all(searchable_text(state, part) for state in indices)
            else not_sketched(part)
            for part in meta.sketched
        ]
        # Tokens that an index computes are never stale.
        computed_here = [part for part in meta.sketched if part.in_documents]
        stale = stale and bool(computed_here)
        if stale:
            queries += map(sketched, computed_here)
        query = any_of(queries)
        for state in indices:
            if not state.closed:
                cluster.show(path_of(state.name))
        left_out = tuple(obstacle for state in indices for obstacle in hindrances(state, meta))
        hindered = {obstacle.index for obstacle in left_out}
        names = tuple(state.name for state in indices if state.name not in hindered)
        filters = filters_of(cluster, named)
        plan = BackfillPlan(named, meta, names, left_out, query, stale, 0, beside, filters)
        waiting = sum(cluster.count(path_of(index), plan.query_in(index)) for index in names)
        return replace(plan, waiting=waiting)


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

    what: the name of an index, alias or data stream, or a plan of `plan_backfill`.
    on_update: called with the counts of each page of documents.
    stale: renew tokens that no longer fit their text too; ignored with a plan.

    Returns the counts of all documents; the ids of failures are "index/id". Raises the errors of
    `plan_backfill`, and, unless a plan is given, StoreError before any change if an index can't be
    filled. After an error the same call resumes.
    """
    total = ChangeReport()
    with connected(target) as cluster:
        plan = what
        if isinstance(plan, str):
            plan = plan_backfill(cluster, plan, stale=stale)
            if plan.left_out:
                raise StoreError("; ".join(map(str, plan.left_out)))
        for index in plan.indices:
            total += _fill(cluster, plan, index, effort, on_update or (lambda _: None))
    return total


def _fill(
    cluster: Cluster, plan: BackfillPlan, index: str, effort: Effort, on_update: OnUpdate
) -> ChangeReport:
    """Read one index pass after pass, because other clients may write during a pass."""
    total, written_before = ChangeReport(), math.inf
    attempts = Attempts(cluster.retries)
    while True:
        report, lost = ChangeReport(), None
        with cluster.point_in_time(path_of(index)) as point:
            # A change writes the whole document.
            fields = cluster.remembered(("whole", index), partial(_whole_source, cluster, index))
            body = versioned_body(
                scan_body(plan.query_in(index), fields, min(FIRST_PAGE_DOCUMENTS, PAGE_DOCUMENTS))
            )
            pages = _ReadPages(index, plan, Slice(point, body, raw=True), effort.rate or math.inf)
            with closing(_update(cluster, pages, effort.workers)) as outcomes:
                for outcome in outcomes:
                    if isinstance(outcome, PointInTimeLost):
                        lost = outcome
                        continue
                    report += outcome
                    on_update(outcome)
        cluster.refresh(path_of(index))
        # Counts are of all passes, but a document that stays without tokens is read by each one:
        # of those, only the last pass counts.
        total = replace(total, read=total.settled, without_text=0, failures=[]) + report
        if lost is not None:
            if report.written:
                attempts = Attempts(cluster.retries)
            if not attempts.wait(lost):
                raise lost
            continue
        if plan.stale or not report.written:
            return total
        if report.written > written_before / 2:
            # Every pass would find some, and no pass would be the last.
            log.warning(
                "Each pass over %r finds documents without tokens, such as new ones of other"
                " clients: run it again",
                index,
            )
            return total
        written_before = report.written


def _whole_source(cluster: Cluster, index: str) -> SourceFilter:
    return whole_source(cluster, path_of(index), mappings_of(cluster, index))


@dataclass(frozen=True)
class _ReadPages:
    """The pages that are still to be updated.

    index: its name.
    plan: what to add to the documents.
    slice: whose documents they are.
    rate: maximum documents per second.
    """

    index: str
    plan: BackfillPlan
    slice: Slice
    rate: float


def _update(cluster: Cluster, pages: _ReadPages, workers: int) -> Generator[_Outcome]:
    """Yield the counts of each page: the first one, and then those of several slices.

    workers: number of processes that read the slices; with one, this process reads some of them at
    the same time.
    """
    outcome, following = _update_page(cluster, pages)
    yield outcome
    if following is None:
        return
    slices = following.slice.slices_of(WHOLE, cluster.is_opensearch, workers)
    jobs = [replace(following, slice=slice, rate=pages.rate / len(slices)) for slice in slices]
    if workers > 1:
        work = partial(_update_page_in_a_process, cluster.connection, cluster.policy)
        yield from in_pieces(workers, work, jobs)
    else:
        yield from cluster.window.in_pieces(partial(_update_page, cluster), jobs)


def _update_page_in_a_process(
    connection: Connection, policy: BulkPolicy, job: _ReadPages
) -> tuple[_Outcome, _ReadPages | None]:
    return _update_page(_opened(connection, policy, retries_connecting=True), job)


def _update_page(cluster: Cluster, pages: _ReadPages) -> tuple[_Outcome, _ReadPages | None]:
    """Update a page of documents. Return their counts, and the pages that follow."""
    plan, began = pages.plan, time.monotonic()
    # At most the documents of one second.
    size = math.ceil(min(pages.slice.body["size"], pages.rate))
    try:
        hits, following = cluster.page(pages.slice.with_size(size))
        documents = list(map(stored_of, hits))
        # A document that conflicts is read again, and may be outside of the filter by then.
        name = plan.named.name if plan.filters else pages.index
        fields, store = plan.meta.sketched, ClusterStore(cluster, name)
        again = not plan.stale and any(part.scheme.by_server for part in fields)
        report = renew(store, documents, fields, plan.beside, again=again)
    except PointInTimeLost as error:
        # Raised, it would stop the other workers.
        return error, None
    time.sleep(max(0.0, began + len(hits) / pages.rate - time.monotonic()))
    failures = [replace(failure, id=f"{pages.index}/{failure.id}") for failure in report.failures]
    report = replace(report, failures=failures)
    if following is None:
        return report, None
    # Fewer documents next if they are long, so that they do not fill the memory.
    characters = sum(len(document.raw or "") for document in documents)
    size = max(1, min(PAGE_DOCUMENTS, _PAGE_CHARACTERS * len(hits) // max(1, characters)))
    return report, replace(pages, slice=following.with_size(size))
