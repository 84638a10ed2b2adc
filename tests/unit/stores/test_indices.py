"""Indices behind a name, as read from the answers of servers."""

from collections.abc import Collection, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.exceptions import IndexNotFound, StoreError
from esdedup.stores import Cluster
from esdedup.stores.elastic.indices import Named, filters_of, states

ALIAS = "tenant"
OLDEST = (
    ".ds-{}-2026.11.29-000001",
    ".migrated-ds-{}-2026.11.29-000001",
    "{}-000001",
    "copy-of-{}",
)
"""Names of indices, of which only the first shows a data stream."""


class Elasticsearch:
    """Answers about an alias as Elasticsearch does, which has aliases of indices or of streams.

    filters: of each index or data stream behind the alias, None for one without.
    streams: the indices of each of these that is a data stream.
    deleted: indices that are gone when their mappings, or settings, are read.
    """

    is_opensearch = False

    def __init__(
        self,
        filters: Mapping[str, Any],
        streams: Mapping[str, Collection[str]] | None = None,
        deleted: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.filters, self.streams, self.deleted = filters, streams or {}, deleted or {}

    @property
    def named(self) -> Named:
        indices = [index for place in self.filters for index in self.streams.get(place, [place])]
        return Named(ALIAS, "alias", tuple(sorted(indices)))

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        params: object = None,
        allowed: Collection[int] = (),
    ) -> tuple[int, Any]:
        steps = path.strip("/").split("/")
        if "_alias" in steps:
            is_listed = steps[0] == "_alias" or not self.streams
            aliases = self.aliases() if is_listed else {}
            assert aliases or 404 in allowed
            return (200, aliases) if aliases else (404, {})
        if steps == [ALIAS]:
            return 200, {
                index: {"data_stream": stream}
                for stream, indices in self.streams.items()
                for index in indices
            }
        kind = steps[-1].removeprefix("_")
        left = set(self.named.indices).difference(self.deleted.get(kind, ()))
        return 200, {index: {"mappings": {}, "settings": {}} for index in left}

    def aliases(self) -> dict[str, Any]:
        return {
            place: {"aliases": {ALIAS: {} if query is None else {"filter": query}}}
            for place, query in self.filters.items()
        }


def filters_found(server: Elasticsearch, named: Named | None = None) -> dict[str, Any]:
    return filters_of(cast(Cluster, server), named or server.named)


def term(tenant: str) -> dict[str, Any]:
    return {"term": {"tenant": tenant}}


QUERIES = st.none() | st.sampled_from("ab").map(term)


@given(st.dictionaries(st.sampled_from(["logs", "logs-eu", "x"]), QUERIES, min_size=1), st.data())
def test_each_index_has_the_filter_of_its_data_stream_whatever_its_name(
    filters: dict[str, Any], data: st.DataObject
) -> None:
    names = st.lists(st.sampled_from(OLDEST), min_size=1, unique=True)
    streams = {stream: [name.format(stream) for name in data.draw(names)] for stream in filters}
    expected = {
        index: query
        for stream, query in filters.items()
        for index in streams[stream]
        if query is not None
    }
    assert filters_found(Elasticsearch(filters, streams)) == expected


@given(st.dictionaries(st.sampled_from(["logs-1", "logs-2", ".ds-logs-000001"]), QUERIES))
def test_an_index_has_the_filter_that_the_alias_has_for_it(filters: dict[str, Any]) -> None:
    if filters:
        found = filters_found(Elasticsearch(filters))
        assert found == {index: query for index, query in filters.items() if query is not None}


def test_an_index_without_a_known_filter_is_not_read() -> None:
    filtered = Elasticsearch({"logs": term("a")}, {"logs": [".ds-logs-000001"]})
    both = Named(ALIAS, "alias", (".ds-logs-000001", "later"))
    for server, named in ((filtered, both), (Elasticsearch({}), both)):
        with pytest.raises(StoreError, match="is not known"):
            filters_found(server, named)
    assert filters_found(filtered, Named(ALIAS, "data stream", (".ds-logs-000001",))) == {}


@pytest.mark.parametrize("kind", ["mapping", "settings"])
def test_an_index_that_is_deleted_meanwhile_is_left_out(kind: str) -> None:
    filters = {"logs-1": None, "logs-2": None}
    for deleted, left in (("logs-1", "logs-2"), ("logs-2", "logs-1")):
        server = Elasticsearch(filters, deleted={kind: [deleted]})
        assert [state.name for state in states(cast(Cluster, server), server.named)] == [left]
    server = Elasticsearch(filters, deleted={kind: [*filters]})
    with pytest.raises(IndexNotFound, match="deleted meanwhile"):
        states(cast(Cluster, server), server.named)
