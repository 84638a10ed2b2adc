"""Indices that appear, change or are made anew while documents pass: each gets its own tokens."""

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

import esdedup
from esdedup.models import FIELD
from esdedup.stores.mapping import IndexMeta, index_mapping
from tests.conftest import delete_index
from tests.helpers.http import HTTP
from tests.proxy.conftest import Setup, post

TEXT = "one two three four five six seven"
MAPPING = index_mapping(IndexMeta(esdedup.Scheme()))

pytestmark = [pytest.mark.xdist_group("proxy"), pytest.mark.on_every_server]


@pytest.fixture
def base(setup: Setup) -> Iterator[str]:
    """The start of index names. Templates and indices of such names are deleted afterwards."""
    name = f"esdedup-new-{uuid.uuid4().hex[:12]}"
    yield name
    HTTP.delete(f"{setup.direct}/_data_stream/{name}-*")
    for kind in ("_index_template", "_template"):
        HTTP.delete(f"{setup.direct}/{kind}/{name}")
    for number in range(4):
        delete_index(setup.direct, f"{name}-{number}")


def template(url: str, base: str, kind: str = "_index_template", **more: Any) -> None:
    inside = {"mappings": MAPPING}
    body = {"template": inside, "priority": 950} if kind == "_index_template" else inside
    put = {"index_patterns": [f"{base}-*"], **body, **more}
    HTTP.put(f"{url}/{kind}/{base}", json=put).raise_for_status()


def bulk(url: str, name: str, count: int, verb: str = "create", first: int = 0) -> list[int]:
    """Send new documents in one body, again if a busy server rejects it. Return the statuses."""
    body = b"".join(
        b'{"%s":{"_index":"%s"}}\n' % (verb.encode(), name.encode())
        + json.dumps({"@timestamp": "2026-11-22", "text": f"{TEXT} {number}"}).encode()
        + b"\n"
        for number in range(first, first + count)
    )
    for _ in range(5):
        answer = post(f"{url}/_bulk", body)
        if answer.status_code not in (429, 503):
            break
    assert answer.is_success, (answer.status_code, answer.text)
    return [item[verb]["status"] for item in answer.json()["items"]]


def counts(url: str, name: str) -> tuple[int, int]:
    """The documents of an index, and those with tokens."""
    HTTP.post(f"{url}/{name}/_refresh").raise_for_status()
    with_tokens = {"query": {"exists": {"field": f"{FIELD}.scheme"}}}
    found = [HTTP.post(f"{url}/{name}/_count", json=query).json() for query in ({}, with_tokens)]
    return found[0]["count"], found[1]["count"]


def test_new_daily_indices_have_all_tokens_under_load(setup: Setup, base: str) -> None:
    direct, proxy = setup.direct, setup.proxy.url
    template(direct, base)
    with ThreadPoolExecutor(8) as clients:
        for number in range(1, 4):
            sent = [
                clients.submit(bulk, proxy, f"{base}-{number}", 20, first=20 * part)
                for part in range(26)
            ]
            assert {status for each in sent for status in each.result()} == {201}
            assert counts(direct, f"{base}-{number}") == (520, 520)


def test_a_new_data_stream_has_all_tokens(setup: Setup, base: str) -> None:
    """OpenSearch simulates no template for a stream that was created since it was looked up."""
    direct, proxy = setup.direct, setup.proxy.url
    if not HTTP.get(f"{direct}/_data_stream").is_success:
        return  # Elasticsearch's jars have no data streams.
    template(direct, base, data_stream={})
    for _ in range(5):
        with ThreadPoolExecutor(8) as clients:
            sent = [clients.submit(bulk, proxy, f"{base}-stream", 100) for _ in range(8)]
            assert {status for each in sent for status in each.result()} == {201}
        assert counts(direct, f"{base}-stream") == (800, 800)
        HTTP.delete(f"{direct}/_data_stream/{base}-stream").raise_for_status()
    # The next index of a stream may have no fields.
    bulk(proxy, f"{base}-stream", 10)
    strict = {"mappings": {"dynamic": "strict", "properties": {"text": {"type": "text"}}}}
    template(direct, base, data_stream={}, template=strict)
    HTTP.post(f"{proxy}/{base}-stream/_rollover").raise_for_status()
    assert {*bulk(proxy, f"{base}-stream", 20)} == {201}
    assert counts(direct, f"{base}-stream") == (30, 10)


def test_a_data_stream_has_all_tokens_beside_an_index_of_any_name(setup: Setup, base: str) -> None:
    """As after an upgrade that indexes it again (`.migrated-ds-NAME-000001`)."""
    direct, proxy = setup.direct, setup.proxy.url
    if setup.product == "opensearch" or not HTTP.get(f"{direct}/_data_stream").is_success:
        return  # No request gives a data stream another index.
    stream, moved = f"{base}-stream", f"moved-{base}"
    template(direct, base, data_stream={})
    assert {*bulk(proxy, stream, 5)} == {201}
    times = {"properties": {"@timestamp": {"type": "date"}}}
    HTTP.put(f"{direct}/{moved}", json={"mappings": times}).raise_for_status()
    actions = [{"add_backing_index": {"data_stream": stream, "index": moved}}]
    HTTP.post(f"{proxy}/_data_stream/_modify", json={"actions": actions}).raise_for_status()
    assert {*bulk(proxy, stream, 5)} == {201}
    assert counts(direct, stream) == (10, 10)


def test_an_alias_of_data_streams_has_the_tokens_of_the_stream_that_it_writes_to(
    setup: Setup, base: str
) -> None:
    direct, proxy = setup.direct, setup.proxy.url
    if setup.product == "opensearch":
        return  # It has no aliases of data streams.
    template(direct, base, data_stream={}, template={"settings": {"number_of_replicas": 0}})
    alias, older, younger = (f"{base}-{name}" for name in ("alias", "older", "younger"))

    def write_to(stream: str | None) -> None:
        actions: list[dict[str, Any]] = [
            {"add": {"index": name, "alias": alias, "is_write_index": name == stream}}
            for name in (older, younger)
        ]
        # Through the proxy, which looks up its names again then.
        HTTP.post(f"{proxy}/_aliases", json={"actions": actions}).raise_for_status()

    for stream in (older, younger):
        # Elasticsearch's jars have data streams, but no request that makes or deletes one.
        assert bulk(direct, stream, 1) == [201]
    for _ in range(2):
        HTTP.post(f"{direct}/{older}/_rollover").raise_for_status()
    with esdedup.open(direct, younger) as index:
        index.create()
    write_to(younger)
    assert {*bulk(proxy, alias, 5)} == {201}
    assert counts(direct, younger) == (6, 5)
    write_to(older)
    assert {*bulk(proxy, alias, 5)} == {201}
    assert counts(direct, older) == (6, 0)
    write_to(None)
    assert {*bulk(proxy, alias, 5)} == {400}


def test_an_attached_index_has_tokens_from_its_next_document_on(setup: Setup, base: str) -> None:
    for total, having in ((5, 0), (10, 5)):
        bulk(setup.proxy.url, f"{base}-1", 5)
        assert counts(setup.direct, f"{base}-1") == (total, having)
        with esdedup.open(setup.direct, f"{base}-1") as index:
            index.create()


def test_single_documents_make_an_index_too(setup: Setup, base: str) -> None:
    direct, proxy = setup.direct, setup.proxy.url
    template(direct, base)
    for number, path in enumerate(("_doc/1", "_create/2", "_doc")):
        sent = HTTP.request("POST", f"{proxy}/{base}-{number}/{path}", json={"text": TEXT})
        assert sent.status_code == 201
        assert counts(direct, f"{base}-{number}") == (1, 1)


@pytest.mark.parametrize("old", [True, False])
def test_where_no_template_can_be_simulated_the_first_request_has_no_tokens(
    setup: Setup, base: str, old: bool
) -> None:
    """A template of the older kind, and a name with a date."""
    direct, proxy = setup.direct, setup.proxy.url
    template(direct, base, "_template" if old else "_index_template")
    sent = f"{base}-1" if old else f"<{base}-{{now/d}}>"
    made = f"{base}-1" if old else f"{base}-{datetime.now(UTC):%Y.%m.%d}"
    for total, having in ((20, 0), (40, 20)):
        assert set(bulk(proxy, sent, 20)) == {201}
        assert counts(direct, made) == (total, having)
    delete_index(direct, made)


@pytest.mark.parametrize("dynamic", ["strict", True])
def test_an_index_made_anew_does_not_get_the_fields_of_the_old_one(
    setup: Setup, base: str, dynamic: Any
) -> None:
    direct, proxy = setup.direct, setup.proxy.url
    name = f"{base}-1"
    for mapping in (MAPPING, {"dynamic": dynamic, "properties": {"text": {"type": "text"}}}):
        HTTP.delete(f"{direct}/{name}")
        HTTP.put(f"{direct}/{name}", json={"mappings": mapping}).raise_for_status()
        path = f"{proxy}/{name}/_doc?refresh=true"
        assert HTTP.post(path, json={"text": TEXT}).status_code == 201
        mapped = HTTP.get(f"{direct}/{name}/_mapping").json()[name]["mappings"]
        assert (FIELD in mapped["properties"]) is (mapping is MAPPING)
    assert counts(direct, name) == (1, 0)
