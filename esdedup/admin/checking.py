"""Check an index that other programs write to: its mapping, and documents with wrong tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from esdedup.admin.obstacles import Obstacle, obstacles, searchable_text
from esdedup.exceptions import PermissionDenied
from esdedup.ingest.renew import fields_to_read, renewals
from esdedup.models import WHOLE, Change, StoredDocument, value_in
from esdedup.records.documents import RepeatedIds
from esdedup.sketch.scheme import Scheme
from esdedup.stores import Cluster, Target, connected
from esdedup.stores.elastic.bodies import Query
from esdedup.stores.elastic.component_templates import advice_on_next, next_has_fields
from esdedup.stores.elastic.errors import PageTooLarge
from esdedup.stores.elastic.indices import (
    IndexState,
    Named,
    filters_of,
    path_of,
    resolve,
    source_limits,
    states,
)
from esdedup.stores.elastic.queries import (
    bare,
    bounded,
    other_scheme,
    scan_body,
    sketched,
    stored_of,
    versioned_body,
    with_text,
)
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta, SketchedFields, meta_of, uncomputed

_EXAMPLES = 5

OnScan = Callable[[int], None]
"""Receives the number of documents that were read since the last call."""


@dataclass(frozen=True)
class Tally:
    """A number of documents.

    count: the number.
    examples: ids of the first few.
    """

    count: int = 0
    examples: tuple[str, ...] = ()

    @staticmethod
    def of(ids: Iterator[str]) -> Tally:
        first = tuple(islice(ids, _EXAMPLES))
        return Tally(len(first) + sum(1 for _ in ids), first)


@dataclass(frozen=True)
class IndexCheck:
    """The findings on one index.

    index: its name.
    meta: None if the index is not attached, and then only its documents are counted.
    obstacles: in its mapping and settings.
    documents: number of all; None for a closed index.
    sketched: number of documents with tokens.
    bare: documents that have the text, and no tokens.
    other: with tokens of another scheme.
    stale: with tokens of another text than they have; None if texts were not read.
    bereft: marked as duplicates of documents that are in no index behind the name, nor behind an
    alias of the index.
    """

    index: str
    meta: IndexMeta | None
    obstacles: tuple[Obstacle, ...]
    documents: int | None = None
    sketched: int | None = None
    bare: Tally = Tally()
    other: Tally = Tally()
    stale: Tally | None = None
    bereft: Tally = Tally()

    @property
    def good(self) -> bool:
        """True if there is nothing to do."""
        tallies = (self.bare, self.other, self.stale or Tally(), self.bereft)
        blocked = any(obstacle.stops != "nothing" for obstacle in self.obstacles)
        return self.meta is not None and not blocked and not any(tally.count for tally in tallies)


@dataclass(frozen=True)
class Check:
    """Findings on all indices behind a name.

    named: the name, and what it stands for.
    indices: the findings on each.
    next: whether the next index will have the fields; None if unknown.
    advice_on_next: what remains to do, so that it has them.
    repeated: documents whose id another of the indices has too; none if texts were not read.
    """

    named: Named
    indices: tuple[IndexCheck, ...]
    next: bool | None = None
    advice_on_next: str | None = None
    repeated: RepeatedIds = field(default_factory=RepeatedIds)

    @property
    def schemes(self) -> list[str]:
        """The ids of the indices' schemes. Indices of several can't be searched together."""
        return sorted(
            {check.meta.full_scheme.id for check in self.indices if check.meta is not None}
        )

    @property
    def good(self) -> bool:
        """True if there is nothing to do, as of an index."""
        is_searchable = self.next is not False and len(self.schemes) == 1
        return is_searchable and all(check.good for check in self.indices)


def check(
    target: Target,
    name: str,
    *,
    stale: bool = True,
    on_scan: OnScan = lambda _: None,
    page_size: int = 2_000,
) -> Check:
    """Check all indices behind a name, without changing anything.

    stale: read every text, to find tokens that no longer fit it.
    on_scan: called with the number of documents read since the last call.
    page_size: documents to read at once.

    Raises IndexNotFound if there is no such name.
    """
    with connected(target) as cluster:
        named = resolve(cluster, name)
        indices = states(cluster, named)
        named = replace(named, indices=tuple(state.name for state in indices))
        metas = [meta for state in indices if (meta := meta_of(state.mapping)) is not None]
        following, advice = None, None
        if named.kind == "data stream" and metas:
            following = next_has_fields(cluster, named, metas[-1])
            if following is False:
                advice = advice_on_next(cluster, named, metas[-1])
        scan = _Scan(cluster, on_scan, page_size, filters_of(cluster, named))
        checks = tuple(_check(scan, named, state, stale) for state in indices)
        repeated = _repeated(scan, indices) if stale else RepeatedIds()
    return Check(named, checks, following, advice, repeated)


@dataclass(frozen=True)
class _Scan:
    """Reads documents of indices.

    cluster: their servers.
    on_scan: called with the number of documents of each page.
    page_size: documents to read at once.
    filters: of an alias, by index: no document outside of them is read.
    """

    cluster: Cluster
    on_scan: OnScan
    page_size: int
    filters: Mapping[str, Query]

    def query_in(self, index: str, query: Query) -> Query:
        """Return a query for the documents of an index that are behind the name."""
        return bounded(query, self.filters.get(index))

    def pages(
        self, index: str, query: Query, fields: Sequence[SketchedFields]
    ) -> Iterator[list[StoredDocument]]:
        """Yield documents with the fields that their tokens are computed from."""
        query = self.query_in(index, query)
        body = scan_body(query, fields_to_read(fields), self.page_size)
        for hits in self.cluster.hits(path_of(index), versioned_body(body), WHOLE):
            self.on_scan(len(hits))
            yield [*map(stored_of, hits)]

    def ids(self, index: str) -> Iterator[list[str]]:
        """Yield the ids of the documents of each page."""
        body = scan_body(self.query_in(index, {"match_all": {}}), [], self.page_size)
        for hits in self.cluster.hits(path_of(index), body, WHOLE):
            yield [hit["_id"] for hit in hits]

    def originals(self, index: str, field: str) -> Iterator[dict[str, object]]:
        """Yield the originals, by id, of the duplicates of each page. field: with the marks."""
        path = f"{field}.original"
        query = self.query_in(index, {"exists": {"field": path}})
        body = scan_body(query, [path], self.page_size)
        for hits in self.cluster.hits(path_of(index), body, WHOLE):
            yield {hit["_id"]: value_in(hit.get("_source", {}), path) for hit in hits}


def _repeated(scan: _Scan, states_of_indices: Sequence[IndexState]) -> RepeatedIds:
    """Return the ids that several of the indices have. None of them has an id twice."""
    repeated = RepeatedIds()
    if len(states_of_indices) > 1:
        for state in states_of_indices:
            if not state.closed:
                for ids in scan.ids(state.name):
                    repeated.add(ids)
    return repeated


def _check(scan: _Scan, named: Named, state: IndexState, stale: bool) -> IndexCheck:
    cluster, meta = scan.cluster, meta_of(state.mapping)
    if meta is None or uncomputed(meta, state.mapping):
        without_text = obstacles(state, IndexMeta(Scheme()), text_known=False)
        return IndexCheck(state.name, None, tuple(without_text), _documents(scan, state))
    all_obstacles = tuple(obstacles(state, meta))
    if state.closed:
        return IndexCheck(state.name, meta, all_obstacles)
    path, fields, documents = path_of(state.name), meta.sketched, _documents(scan, state)
    readable = not source_limits(state.mapping, state.setting("mapping.source.mode"))[0]

    bare_query = with_text(bare(meta), meta) if searchable_text(state, meta) else bare(meta)
    without_tokens = _tally(cluster, path, scan.query_in(state.name, bare_query))
    if readable and without_tokens.count:
        without_tokens = Tally.of(
            document.id
            for page in scan.pages(state.name, bare_query, fields)
            for document in page
            if text_at(document.source, meta.text_fields) is not None
        )
    outdated = None
    if all(sketched_fields.scheme.by_server for sketched_fields in fields):
        outdated = Tally()
    elif stale and readable:
        outdated = Tally.of(
            document.id
            for page in scan.pages(state.name, sketched(meta), fields)
            for document, decision in zip(page, renewals(page, fields), strict=True)
            if isinstance(decision, Change)
        )
    return IndexCheck(
        state.name,
        meta,
        all_obstacles,
        documents,
        cluster.count(path, scan.query_in(state.name, sketched(meta))),
        without_tokens,
        _tally(cluster, path, scan.query_in(state.name, other_scheme(meta))),
        outdated,
        Tally.of(_without_original(scan, named, state.name, meta.marks_field)),
    )


def _without_original(scan: _Scan, named: Named, index: str, field: str) -> Iterator[str]:
    """Yield the ids of documents that are marked as duplicates of documents that do not exist."""
    for originals in scan.originals(index, field):
        gone = {id for id in originals.values() if isinstance(id, str) and id}
        # An original can be outside of the filter of an alias.
        names = named.indices if scan.filters else (named.name, *named.aliases)
        for name in names:
            if gone:
                gone -= _existing(scan.cluster, name, gone)
        yield from (id for id, original in originals.items() if original in gone)


def _existing(cluster: Cluster, name: str, ids: Collection[str]) -> set[str]:
    """Return which documents exist behind a name that the user may read.

    ids: may begin with the name, if it is that of an index.
    """
    plain_ids = [id.removeprefix(f"{name}/") for id in sorted(ids)]
    with suppress(PermissionDenied):
        documents = ClusterStore(cluster, name).get([*ids, *plain_ids], [])
        existing = {document.id for document in documents}
        return {id for id in ids if not existing.isdisjoint((id, id.removeprefix(f"{name}/")))}
    return set()


def _documents(scan: _Scan, state: IndexState) -> int | None:
    """Return the number of the documents behind the name; None for a closed index."""
    if state.closed:
        return None
    scan.cluster.show(path_of(state.name))
    return scan.cluster.count(path_of(state.name), scan.query_in(state.name, {"match_all": {}}))


def _tally(cluster: Cluster, path: str, query: Query, examples: int = _EXAMPLES) -> Tally:
    try:
        hits, total = cluster.search(path, {"query": query, "size": examples, "_source": False})
    except PageTooLarge as error:
        return _tally(cluster, path, query, error.most)
    return Tally(total, tuple(hit["_id"] for hit in hits))
