"""What only clusters have: missing shards, documents with a routing, reasons in many parts."""

import gzip
import time
from collections.abc import Iterator

import pytest

import esdedup
from esdedup.exceptions import PermissionDenied, StoreUnavailable
from esdedup.models import Document
from esdedup.stores import BulkPolicy
from esdedup.stores.changes import delete, update
from esdedup.stores.elastic.store import ClusterStore
from tests.helpers.commands import call, words
from tests.helpers.indices import open_index
from tests.helpers.places import Place
from tests.servers.proxy import Answer, Proxy, Received, point_in, product_of


@pytest.fixture
def index(url: str, name: str) -> Iterator[esdedup.Index]:
    with esdedup.open(url, name, retry_for=0.1) as opened:
        yield opened


REFRESHED_WITHOUT_A_SHARD = Answer(
    200,
    [("Content-Type", "application/json"), ("X-Elastic-Product", "Elasticsearch")],
    b'{"_shards":{"total":4,"successful":1,"failed":0}}',
)


def test_a_missing_shard_is_no_smaller_count(url: str, name: str, index: esdedup.Index) -> None:
    index.add([{"id": "1", "text": "one two three"}])
    assert index.statistics().documents == 1
    alias, nowhere = f"{name}-alias", f"{name}-nowhere"
    mappings = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]
    settings = {"number_of_shards": 1, "index.routing.allocation.require._name": "nobody"}
    body = {"settings": settings, "mappings": mappings, "aliases": {alias: {}}}
    call(url, "PUT", f"/{nowhere}?wait_for_active_shards=0", body)
    call(url, "PUT", f"/{name}/_alias/{alias}")
    with (
        Proxy(url, product_of(url)) as proxy,
        esdedup.open(proxy.url, alias, retry_for=0.4) as both,
    ):
        # What the servers answer after they have waited for the shard for a minute.
        proxy.answer_next(1, REFRESHED_WITHOUT_A_SHARD, "/_refresh")
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"\(503\)"):
            both.statistics()
        # It was asked again.
        assert time.monotonic() - start >= 0.4
        assert proxy.failures_left == 0


ROUTED = [f"d{number}" for number in range(40)]


def route(url: str, name: str, *, required: bool) -> None:
    """Documents of others, each with a routing of its own, on five shards."""
    mappings = {"_routing": {"required": True}} if required else {}
    body = {"settings": {"number_of_shards": 5, "number_of_replicas": 0}, "mappings": mappings}
    call(url, "PUT", f"/{name}", body)
    lines = []
    for number, id in enumerate(ROUTED):
        lines += [{"index": {"_id": id, "routing": f"r{number % 7}"}}, {"text": words(number)}]
    assert not call(url, "POST", f"/{name}/_bulk?refresh=true", lines)["errors"]


@pytest.mark.parametrize("required", [False, True])
def test_documents_with_a_routing(
    url: str, name: str, index: esdedup.Index, required: bool
) -> None:
    route(url, name, required=required)
    index.create()
    assert [found.id for found in index.store.get([*ROUTED, "no", "d3"])] == [*ROUTED, "d3"]
    assert index.get("d7").source["text"] == words(7)
    assert index.similar(id="d7").matches == []
    assert index.update([{"id": id, "text": words(1)} for id in ROUTED]) == len(ROUTED)
    # Each is still the one document that it was.
    assert index.statistics().documents == len(ROUTED)
    for id in ROUTED:
        assert len(index.similar(id=id, k=100).matches) == len(ROUTED) - 1
    with pytest.raises(esdedup.exceptions.RecordError, match="'no': there is no such document"):
        index.update([{"id": "d1", "n": 1}, {"id": "no", "n": 1}, {"id": "d1", "m": 2}])
    assert (index.get("d1").source["n"], index.get("d1").source["m"]) == (1, 2)
    assert delete(index.store, ["d5", "d6"]) == 2
    # Also before searches see it.
    assert [found.id for found in index.store.get(["d4", "d5", "d6"])] == ["d4"]
    assert index.delete(["no", "d0", *ROUTED]) == len(ROUTED) - 2
    assert index.delete(ROUTED) == 0
    assert index.store.get(ROUTED) == []
    assert index.statistics().documents == 0


def test_a_lost_point_in_time_is_opened_again(url: str, name: str) -> None:
    opened = list[str]()

    def note(request: Received, answer: Answer) -> None:
        if (point := point_in(request, answer)) is not None:
            opened.append(point)

    with Proxy(url, product_of(url)) as proxy, esdedup.open(proxy.url, name, retry_for=60) as index:
        proxy.on_answer = note
        index.add([{"id": f"d{n}", "text": "one two three"} for n in range(4_500)])
        assert isinstance(index.store, ClusterStore)
        pages = index.store.scan([], index.meta)
        found = [each.id for each in next(pages)]
        index.store.cluster.close_point(opened[0])
        index.add([{"id": "new", "text": "four five six"}])
        found += [each.id for page in pages for each in page]
    assert sorted(found) == sorted(["new", *(f"d{n}" for n in range(4_500))])
    assert len(opened) == 2


def test_an_alias_that_gets_another_index(url: str, name: str, index: esdedup.Index) -> None:
    index.add([{"id": f"d{n}", "text": words(n // 2)} for n in range(10)])
    alias, second = f"{name}-alias", f"{name}-second"
    mappings = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]
    old = {"index": name, "alias": alias, "is_write_index": True}
    call(url, "POST", "/_aliases", {"actions": [{"add": old}]})
    with esdedup.open(url, alias, retry_for=5) as both:
        assert [match.id for match in both.similar(id="d2").matches] == ["d3"]
        call(url, "PUT", f"/{second}", {"mappings": mappings})
        new = {"index": second, "alias": alias, "is_write_index": True}
        add = [{"add": {**old, "is_write_index": False}}, {"add": new}]
        call(url, "POST", "/_aliases", {"actions": add})
        began = time.monotonic()
        assert both.get("d2").source["text"] == words(1)
        assert [match.id for match in both.similar(id="d2").matches] == ["d3"]
        assert both.update([{"id": "d2", "n": 5}]) == 1
        both.add([{"id": "e1", "text": words(1)}])
        assert both.delete(["d3"]) == 1
        assert [match.id for match in both.similar(id="d2").matches] == ["e1"]
        # Nothing of it passes by waiting.
        assert time.monotonic() - began < 5
    assert call(url, "GET", f"/{second}/_doc/e1")["found"]


def test_a_full_disk_ends_a_run_after_the_time_to_retry(url: str, name: str) -> None:
    records = [{"id": f"d{n}", "text": words(n)} for n in range(60)]
    policy = BulkPolicy(actions=10)
    with open_index(Place(url, name), policy=policy, retry_for=1) as index:
        # The server sets it above the flood stage watermark.
        block = "index.blocks.read_only_allow_delete"
        call(url, "PUT", f"/{name}/_settings", {block: True})
        began = time.monotonic()
        with pytest.raises(esdedup.EsdedupError, match=r"read-only.*Gave up after 1s.*0 of these"):
            index.add(records)
        assert time.monotonic() - began < 5
        call(url, "PUT", f"/{name}/_settings", {block: None})
        assert index.add(records).created == 60


def test_a_block_is_told_as_one(url: str, name: str, index: esdedup.Index) -> None:
    index.add([{"id": "1", "text": "one two three"}])
    call(url, "PUT", f"/{name}/_settings", {"index.blocks.write": True})
    for work in (
        lambda: index.add([{"id": "2", "text": "x"}]),
        lambda: index.update([{"id": "1", "n": 1}]),
        lambda: index.delete(["1"]),
    ):
        with pytest.raises(esdedup.exceptions.StoreError, match="blocked by") as caught:
            work()
        assert not isinstance(caught.value, PermissionDenied)


def test_requests_and_answers_are_compressed(url: str, name: str) -> None:
    requests, answers = list[Received](), list[Answer]()
    with (
        Proxy(url, product_of(url)) as proxy,
        esdedup.open(proxy.url, name, compress=True) as index,
    ):
        proxy.on_request = requests.append
        proxy.on_answer = lambda _, answer: answers.append(answer)
        assert index.add([{"id": str(n), "text": words(n)} for n in range(20)]).created == 20
        sent = packed(requests)
        assert sent > 1
        assert index.similar(words(7)).matches[0].id == "7"
        assert packed(requests) > sent
    encodings = [value for answer in answers for key, value in answer.headers if key == ENCODING]
    assert "gzip" in encodings


ENCODING = "content-encoding"


def packed(requests: list[Received]) -> int:
    """Return the number of requests whose bodies came compressed."""
    return sum(
        request.headers.get(ENCODING) == "gzip" and bool(gzip.decompress(request.body))
        for request in requests
    )


def test_a_change_during_a_refresh_is_seen(url: str, name: str) -> None:
    with Proxy(url, product_of(url)) as proxy, esdedup.open(proxy.url, name) as index:
        store = index.store
        assert isinstance(store, ClusterStore)
        index.add([{"id": "1", "text": "one", "n": 1}])
        updated = list[int]()

        def with_another_call(request: Received, _: Answer) -> None:
            if request.path.endswith("/_refresh") and not updated:
                updated.append(update(store, [Document("1", {"n": 2})]).updated)

        proxy.on_answer = with_another_call
        store.refresh()
        assert updated == [1]
        # Fields of more than 100 documents are read by a search.
        ids = ["1", *map(str, range(100, 300))]
        assert store.get(ids, ["n"])[0].source == {"n": 2}
        assert store.hold(ids, ["n"])[0].document.source == {"n": 2}
        index.add([{"id": "1", "text": "one", "n": 3}])
        assert store.get(ids, ["n"])[0].source == {"n": 3}
