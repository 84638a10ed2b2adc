"""Check an index that other programs write to: its mapping, and documents with wrong tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esdedup.admin.preflight import Obstacle, hindrances, obstacles, searchable_text
from esdedup.exceptions import PermissionDenied
from esdedup.ingest.renew import digests
from esdedup.models import tokens_in
from esdedup.sketch.scheme import Scheme
from esdedup.stores import Cluster, Target, reached
from esdedup.stores.elastic.indices import IndexState, Named, path_of, resolve, states
from esdedup.stores.elastic.queries import bare, other_scheme, scan_body, sketched, with_text
from esdedup.stores.elastic.templates import TemplatePlan, plan_template
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta, meta_of

_EXAMPLES = 5
_PAGE = 2_000


@dataclass(frozen=True)
class Tally:
    """A number of documents, and the ids of the first few."""

    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexCheck:
    """The findings on one index.

    meta: None if the index is not attached, and then nothing is counted. bare: documents without
    tokens that may have the text; if they are few, only those that have it. other: with tokens of
    another scheme. stale: with tokens of another text than they have; None if texts were not read.
    """

    index: str
    meta: IndexMeta | None
    obstacles: tuple[Obstacle, ...]
    documents: int = 0
    sketched: int = 0
    bare: Tally = Tally()
    other: Tally = Tally()
    stale: Tally | None = None

    @property
    def good(self) -> bool:
        """True if there is nothing to do."""
        tallies = (self.bare, self.other, self.stale or Tally())
        blocked = any(obstacle.stops != "nothing" for obstacle in self.obstacles)
        return self.meta is not None and not blocked and not any(each.count for each in tallies)


@dataclass(frozen=True)
class Check:
    """The findings on all indices behind a name, and on the template of the next ones.

    template: None unless the name is of a data stream.
    """

    named: Named
    indices: tuple[IndexCheck, ...]
    template: TemplatePlan | None

    @property
    def schemes(self) -> list[str]:
        """The ids of the indices' schemes. Indices of several can't be searched together."""
        return sorted({check.meta.whole.id for check in self.indices if check.meta is not None})

    @property
    def good(self) -> bool:
        """True if there is nothing to do."""
        made_next = self.template is None or self.template.ready
        return made_next and len(self.schemes) == 1 and all(each.good for each in self.indices)


def check(
    target: Target,
    name: str,
    *,
    stale: bool = True,
    on_scan: Callable[[int], None] | None = None,
) -> Check:
    """Check all indices behind a name, without changing anything.

    stale: read every text, to find tokens that no longer fit it. on_scan: called with the number
    of documents read since the last call. Raises IndexNotFound if there is no such name.
    """
    with reached(target) as cluster:
        named = resolve(cluster, name)
        found = states(cluster, named)
        metas = [meta for state in found if (meta := meta_of(state.mapping)) is not None]
        template = None
        if named.kind == "data stream" and metas:
            # A user who may not see templates gets the other findings.
            with contextlib.suppress(PermissionDenied):
                template = plan_template(cluster, named, metas[-1])
        checks = tuple(_check(cluster, state, stale, on_scan) for state in found)
    return Check(named, checks, template)


def _check(
    cluster: Cluster, state: IndexState, stale: bool, on_scan: Callable[[int], None] | None
) -> IndexCheck:
    meta = meta_of(state.mapping)
    if meta is None:
        # The text field is not known yet.
        return IndexCheck(state.name, None, tuple(hindrances(state, IndexMeta(Scheme()))))
    found = tuple(obstacles(state, meta))
    if state.closed:
        return IndexCheck(state.name, meta, found)
    path = path_of(state.name)
    lacking = with_text(bare(meta), meta) if searchable_text(state, meta) else bare(meta)
    readable = not any(each.kind == "source" and "disabled" in each.reason for each in found)
    return IndexCheck(
        state.name,
        meta,
        found,
        cluster.count(path),
        cluster.count(path, sketched(meta)),
        _tally(cluster, path, lacking, meta.text_fields if readable else None),
        _tally(cluster, path, other_scheme(meta)),
        _stale(cluster, path, meta, on_scan) if stale and readable else None,
    )


def _tally(
    cluster: Cluster, path: str, query: Mapping[str, Any], text_fields: Sequence[str] | None = None
) -> Tally:
    """Count the documents that match; with text_fields, if they are few, only those with a text."""
    body = {"query": query, "size": _EXAMPLES, "_source": False, "track_total_hits": True}
    whole = {"allow_partial_search_results": "false"}
    _, answer = cluster.ask("POST", f"{path}/_search", body, whole)
    hits, count = answer["hits"]["hits"], answer["hits"]["total"]["value"]
    if text_fields is not None and 0 < count <= _PAGE:
        body |= {"size": _PAGE, "_source": [*text_fields]}
        _, answer = cluster.ask("POST", f"{path}/_search", body, whole)
        hits = answer["hits"]["hits"]
        hits = [hit for hit in hits if text_at(hit.get("_source", {}), text_fields) is not None]
        count = len(hits)
    return Tally(count, tuple(hit["_id"] for hit in hits[:_EXAMPLES]))


def _stale(
    cluster: Cluster, path: str, meta: IndexMeta, on_scan: Callable[[int], None] | None
) -> Tally:
    count, examples = 0, list[str]()
    paths = [path for part in meta.parts for path in (*part.text_fields, f"{part.field}.digest")]
    with cluster.point_in_time(path) as point:
        for hits in cluster.pages(point, scan_body(sketched(meta), paths, _PAGE)):
            sources = [hit.get("_source", {}) for hit in hits]
            stale: set[int] = set()
            for part in meta.parts:
                texts = [text_at(source, part.text_fields) for source in sources]
                fresh = iter(digests([text for text in texts if text is not None], part))
                wanted = [None if text is None else next(fresh) for text in texts]
                stored = [tokens_in(source, part.field).get("digest") for source in sources]
                stale |= {row for row, digest in enumerate(wanted) if digest != stored[row]}
            count += len(stale)
            examples = (examples + [hits[row]["_id"] for row in sorted(stale)])[:_EXAMPLES]
            if on_scan is not None:
                on_scan(len(hits))
    return Tally(count, tuple(examples))
