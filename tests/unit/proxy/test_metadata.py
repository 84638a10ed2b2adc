"""Which index the documents of a name go to, as the proxy reads it from the servers' answers."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.proxy.http import Headers, ProxyAnswer
from esdedup.proxy.metadata import LookUp, Schemes
from esdedup.proxy.upstream import Upstream
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import IndexMeta, index_mapping

NAMES = ("a", "a-b", "b", "logs")
OF_STREAM = ".ds-{}-2026.11.29-{:06}"
OF_ANY = (OF_STREAM, ".migrated-ds-{}-2026.11.29-{:06}", "{}-{:06}", "copy-of-{}-{}")
"""Names of indices that a data stream can have: those that it made, and those it was given."""
Rollovers = Mapping[str, int]
"""The number of indices of each data stream."""


def meta_of_index(stream: str, generation: int) -> IndexMeta:
    """Return a meta that no other index has."""
    return IndexMeta(Scheme(seed=NAMES.index(stream) * 1_000 + generation))


class Elasticsearch:
    """Answers about an alias of data streams as Elasticsearch does.

    streams: behind the alias. write_stream: the one that it writes to, or None.
    names: of the indices of each, in turn.
    status: of the answer about a data stream.
    """

    def __init__(
        self,
        streams: Rollovers,
        write_stream: str | None,
        names: Sequence[str] = (OF_STREAM,),
        status: int = 200,
    ) -> None:
        self.streams, self.write_stream = streams, write_stream
        self.names, self.status = names, status

    async def ask(self, method: str, target: bytes, headers: Headers) -> ProxyAnswer:
        path, _, _ = target.partition(b"?")
        if path == b"/alias":
            return answer(200, self.indices())
        if path == b"/_alias/alias":
            return answer(200, self.aliases())
        if path.startswith(b"/_data_stream/"):
            assert path.endswith(f"/{self.write_stream}".encode())
            last = self.streams[str(self.write_stream)]
            behind = [self.index(str(self.write_stream), each) for each in range(1, last + 1)]
            described = {"indices": [{"index_name": index} for index in behind]}
            return answer(self.status, {"data_streams": [described]} if self.status == 200 else {})
        return answer(404, {"error": "alias [alias] missing", "status": 404})

    def index(self, stream: str, generation: int) -> str:
        return self.names[generation % len(self.names)].format(stream, generation)

    def indices(self) -> dict[str, Any]:
        return {
            self.index(stream, generation): {
                "mappings": index_mapping(meta_of_index(stream, generation)),
                "settings": {"index": {"uuid": f"{stream}-{generation}"}},
                "data_stream": stream,
            }
            for stream, last in self.streams.items()
            for generation in range(1, last + 1)
        }

    def aliases(self) -> dict[str, Any]:
        written = {"aliases": {"alias": {"is_write_index": True}}}
        return {self.write_stream: written} if self.write_stream is not None else {}


def answer(status: int, body: object) -> ProxyAnswer:
    return ProxyAnswer.of(status, b"application/json", json.dumps(body).encode())


def found(server: Elasticsearch) -> LookUp:
    return asyncio.run(Schemes(cast(Upstream, server)).find("alias", []))


@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 12), min_size=1),
    st.lists(st.sampled_from(OF_ANY), min_size=1),
    st.data(),
)
def test_of_data_streams_the_last_index_of_the_write_stream_counts(
    streams: Rollovers, names: list[str], data: st.DataObject
) -> None:
    stream = data.draw(st.sampled_from(sorted(streams)))
    look_up = found(Elasticsearch(streams, stream, names))
    assert look_up.meta == meta_of_index(stream, streams[stream])


@pytest.mark.parametrize(("status", "reason"), [(403, "no_right"), (404, "failed")])
def test_without_an_answer_about_the_stream_it_is_said(
    status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert found(Elasticsearch({"a": 2}, "a", OF_ANY, status)).reason == reason
    assert f"answer {status} does not say which index of the data stream 'a'" in caplog.text


def test_without_a_write_stream_there_is_no_scheme() -> None:
    assert found(Elasticsearch({"a": 2, "b": 1}, None)) == LookUp(None, "no_scheme")
