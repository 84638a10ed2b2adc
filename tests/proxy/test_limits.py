"""What the proxy refuses, what it does without, and how much memory bodies take together."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import esdedup
from esdedup.exceptions import UsageError
from esdedup.models import FIELD
from esdedup.proxy.http import Failed
from esdedup.proxy.memory import Budget, Limits
from tests.conftest import delete_index
from tests.helpers.http import HTTP
from tests.servers.enriching import Enriching
from tests.servers.proxy import Proxy

NDJSON = {"content-type": "application/x-ndjson"}
GZIP = {"content-encoding": "gzip"}
JSON = {"content-type": "application/json"}
MB = 1 << 20

pytestmark = pytest.mark.xdist_group("proxy")


@pytest.fixture(scope="module")
def proxy(elasticsearch_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enriching]:
    folder = tmp_path_factory.mktemp("proxy")
    with Enriching(elasticsearch_url, folder, "--body-timeout", "1") as started:
        yield started


@pytest.fixture
def name(elasticsearch_url: str) -> Iterator[str]:
    found = f"esdedup-limits-{uuid.uuid4().hex[:12]}"
    with esdedup.open(elasticsearch_url, found) as index:
        index.create()
    disabled = {"properties": {"x": {"type": "object", "enabled": False}}}
    HTTP.put(f"{elasticsearch_url}/{found}/_mapping", json=disabled).raise_for_status()
    yield found
    delete_index(elasticsearch_url, found)


def post(url: str, body: bytes, **headers: str) -> httpx.Response:
    return httpx.post(url, content=body, headers={**NDJSON, **headers}, timeout=120)


def items(answer: httpx.Response) -> list[dict[str, Any]]:
    return [result for item in answer.json()["items"] for result in item.values()]


def source(url: str, name: str, id: str) -> dict[str, Any]:
    found: dict[str, Any] = HTTP.get(f"{url}/{name}/_doc/{id}").json()["_source"]
    return found


def test_one_bad_name_costs_one_action(proxy: Enriching, name: str) -> None:
    good = b'{"index":{"_id":"%d"}}\n{"text":"a b c d"}\n'
    bad = json.dumps({"index": {"_index": "a\ud800", "_id": "bad"}}).encode() + b'\n{"text":"a"}\n'
    answer = post(f"{proxy.url}/{name}/_bulk", good % 1 + bad + good % 2 + bad)
    assert [(one["_id"], one["status"]) for one in items(answer)] == [
        ("1", 201),
        ("bad", 400),
        ("2", 201),
        ("bad", 400),
    ]
    assert items(answer)[1]["error"]["type"] == "invalid_index_name_exception"
    assert answer.headers["x-elastic-product"] == "Elasticsearch"


@pytest.mark.parametrize("headers", [{}, GZIP])
def test_a_document_that_is_too_long_costs_itself(
    proxy: Enriching, name: str, headers: dict[str, str]
) -> None:
    long = b'{"index":{"_id":"long"}}\n{"text":"a b","x":"' + b"x" * (33 * MB) + b'"}\n'
    good = b'{"index":{"_id":"%d"}}\n{"text":"a b c d"}\n'
    body = good % 1 + long + good % 2
    sent = gzip.compress(body, 1) if headers else body
    answer = post(f"{proxy.url}/{name}/_bulk", sent, **headers)
    assert [one["status"] for one in items(answer)] == [201, 413, 201]
    assert FIELD in source(proxy.url, name, "2")
    assert proxy.peak_mb < 256


def test_an_action_line_that_is_too_long_is_refused(proxy: Enriching, name: str) -> None:
    line = b'{"index":{"_index":"i","x":[' + b",".join([b"1"] * 2_000_000) + b"]}}\n{}\n"
    answer = post(f"{proxy.url}/_bulk", gzip.compress(line), **GZIP)
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "content_too_long_exception"


def test_a_text_that_is_too_long_passes_without_tokens_and_is_told(
    proxy: Enriching, name: str
) -> None:
    """Other fields may be as long as they like."""
    texts = {"words": "ab " * MB, "chinese": "词语" * MB, "field": "a b c"}
    for id, text in texts.items():
        body = {"text": text, "x": "y" * (5 * MB) if id == "field" else ""}
        line = json.dumps({"index": {"_id": id}}) + "\n" + json.dumps(body, ensure_ascii=False)
        assert items(post(f"{proxy.url}/{name}/_bulk", line.encode() + b"\n"))[0]["status"] == 201
        assert (FIELD in source(proxy.url, name, id)) is (id == "field")
    assert "--max-text" in proxy.log
    assert metric(proxy, 'documents_total{tokens="too_long"}') >= 2


def metric(proxy: Enriching, name: str) -> float:
    page = HTTP.get(f"{proxy.url}/-/metrics").text
    found = [
        line.split()[1] for line in page.splitlines() if line.startswith(f"esdedup_proxy_{name}")
    ]
    return sum(map(float, found))


def test_packed_values_take_little_memory_and_hold_nobody_up(proxy: Enriching, name: str) -> None:
    many = b'{"text":"a b c","x":[' + b",".join([b"1"] * 15_000_000) + b"]}"
    bodies = [
        ("_doc/1", gzip.compress(many), JSON),
        ("_bulk", gzip.compress(b'{"index":{}}\n' + many + b"\n"), NDJSON),
        ("_bulk", gzip.compress(b'{"delete":{"_id":"1"}}\n' * 100_000), NDJSON),
        ("_bulk", gzip.compress(b"\n" * 20_000_000 + b'{"delete":{"_id":"1"}}\n'), NDJSON),
    ]
    waits: list[float] = []
    with ThreadPoolExecutor(1) as other:
        for path, body, kind in bodies:
            url, headers = f"{proxy.url}/{name}/{path}", {**kind, **GZIP}
            sent = other.submit(httpx.post, url, content=body, headers=headers, timeout=300)
            while not sent.done():
                begun = time.monotonic()
                assert HTTP.get(f"{proxy.url}/-/health/live").status_code == 200
                waits.append(time.monotonic() - begun)
            assert sent.result().status_code in (200, 201, 400, 413, 429)
    assert proxy.peak_mb < 256
    # The audit saw ten seconds. On an idle machine it is some milliseconds.
    assert max(waits) < 3


def test_many_clients_stay_within_the_memory(proxy: Enriching, name: str) -> None:
    text = "the council met on monday and voted for a new bridge over the river " * 6
    line = b'{"index":{}}\n' + json.dumps({"text": text}).encode() + b"\n"
    body = line * (1 * MB // len(line))
    with ThreadPoolExecutor(60) as clients:
        sent = [clients.submit(post, f"{proxy.url}/{name}/_bulk", body) for _ in range(60)]
        statuses = [each.result().status_code for each in sent]
    assert set(statuses) <= {200, 429, 503}
    assert 200 in statuses
    assert proxy.peak_mb < 256
    assert metric(proxy, "memory_bytes") == 0


def test_packed_documents_of_many_clients_share_the_memory(proxy: Enriching, name: str) -> None:
    body = gzip.compress(b'{"text":"a b c","x":[' + b",".join([b"1"] * 15_000_000) + b"]}")
    lines = gzip.compress(b" \n" * 1_000_000)
    with ThreadPoolExecutor(16) as clients:
        sent = [
            clients.submit(
                httpx.put,
                f"{proxy.url}/{name}/_doc/{number}",
                content=body,
                headers={**JSON, **GZIP},
                timeout=300,
            )
            for number in range(6)
        ]
        sent += [clients.submit(post, f"{proxy.url}/{name}/_bulk", lines, **GZIP) for _ in range(6)]
        statuses = {each.result().status_code for each in sent}
    assert statuses <= {201, 400, 429, 503}
    assert proxy.peak_mb < 256


def test_an_index_that_can_not_be_made_costs_few_requests(proxy: Enriching, name: str) -> None:
    before = metric(proxy, "upstream_seconds_count")
    body = b'{"index":{}}\n{"text":"a b c"}\n' * 400
    answer = post(f"{proxy.url}/Upper-{name}/_bulk", body)
    assert [one["status"] for one in items(answer)] == [400] * 400
    assert metric(proxy, "upstream_seconds_count") < before + 10


def test_a_failure_that_may_pass_counts_before_one_that_stays(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    """Clients send the good document again, and would give up after 413."""
    long = b'{"index":{}}\n{"x":"' + b"x" * (33 * MB) + b'"}\n'
    good = b'{"index":{}}\n{"text":"a b c d"}\n'
    with Proxy(elasticsearch_url) as guard, Enriching(guard.url, tmp_path) as proxy:
        guard.fail_next(1, 429)
        assert post(f"{proxy.url}/{name}/_bulk", long + good).status_code == 429
        assert post(f"{proxy.url}/{name}/_bulk", long + good).status_code == 200


def test_a_body_of_several_parts_is_answered_in_json(proxy: Enriching, name: str) -> None:
    line = b'{"index":{}}\n{"text":"a b c","x":"' + b"x" * MB + b'"}\n'
    answer = post(f"{proxy.url}/{name}/_bulk?format=yaml&refresh=true", line * 5)
    assert [one["status"] for one in items(answer)] == [201] * 5


def test_the_longest_text_is_measured_in_bytes(proxy: Enriching, name: str) -> None:
    text = "größer als früher " * (MB // 21)
    assert MB // 2 < len(text.encode()) < MB
    HTTP.put(f"{proxy.url}/{name}/_doc/1", json={"text": text}).raise_for_status()
    assert FIELD in source(proxy.url, name, "1")


def test_an_upstream_that_is_silent_is_not_ready(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstream = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Enriching(upstream, tmp_path, ready="/-/health/live") as proxy:
            answer = httpx.get(f"{proxy.url}/-/health/ready", timeout=30)
    assert answer.status_code == 503


def test_a_body_that_stops_is_told(proxy: Enriching, name: str) -> None:
    head = b"POST /%s/%s HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n"
    for path in (b"_bulk", b"_doc", b"_search"):
        with socket.create_connection(proxy.address, 30) as client:
            client.sendall(head % (name.encode(), path) + b'\r\n{"')
            answer = b""
            while chunk := client.recv(1 << 16):
                answer += chunk
        # The connection was closed, or its next bytes would be taken for the rest of the body.
        assert answer.startswith(b"HTTP/1.1 408 "), answer


@pytest.mark.parametrize(
    "request_line",
    [
        b"CONNECT 127.0.0.1:1 HTTP/1.1",
        b"GET http://127.0.0.1/_search HTTP/1.1",
        b"POST /_bulk HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked",
        b"POST /_bulk HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 4",
    ],
)
def test_requests_that_can_be_read_in_two_ways(proxy: Enriching, request_line: bytes) -> None:
    with socket.create_connection(proxy.address, 30) as client:
        client.sendall(request_line + b"\r\nhost: x\r\n\r\n")
        answer = client.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b'"status": 400' in answer


def test_paths_do_not_leave_the_path_of_the_upstream(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    with Enriching(f"{elasticsearch_url}/{name}", tmp_path) as proxy:
        for path, status in (
            (b"/_search", b"200"),
            (b"/../_search", b"400"),
            (b"/_search/%2e%2e/%2E./x", b"400"),
            (b"/_search\\..\\..", b"400"),
        ):
            with socket.create_connection(proxy.address, 30) as client:
                client.sendall(b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n\r\n")
                assert client.recv(1 << 16).startswith(b"HTTP/1.1 " + status), path


def test_the_proxy_tells_how_it_is(proxy: Enriching, name: str, tmp_path: Path) -> None:
    for path in ("live", "ready"):
        assert HTTP.get(f"{proxy.url}/-/health/{path}").status_code == 200
    before = metric(proxy, 'documents_total{tokens="added"}')
    HTTP.put(f"{proxy.url}/{name}/_doc/1", json={"text": "a b c d"})
    HTTP.put(f"{proxy.url}/{name}/_doc/2", json={"n": 1})
    assert metric(proxy, 'documents_total{tokens="added"}') == before + 1
    assert metric(proxy, 'documents_total{tokens="no_text"}') >= 1
    assert metric(proxy, "memory_limit_bytes") > 16 * MB
    assert metric(proxy, "upstream_seconds_count") > 0
    assert HTTP.get(f"{proxy.url}/-/other").status_code == 404
    nowhere = "http://127.0.0.1:9"
    with Enriching(nowhere, tmp_path) as lost:
        assert HTTP.get(f"{lost.url}/-/health/live").status_code == 200
        assert HTTP.get(f"{lost.url}/-/health/ready").status_code == 503
        assert metric(lost, "upstream_errors_total") > 0
        assert f"the upstream {nowhere} gave no answer" in lost.log


def test_users_of_other_headers_do_not_share_lookups(proxy: Enriching, name: str) -> None:
    """What one user may not see, another one may."""
    before = metric(proxy, "upstream_seconds_count")
    for user in ("a", "b"):
        headers = {"x-proxy-user": user, "x-request-id": uuid.uuid4().hex}
        HTTP.put(f"{proxy.url}/{name}/_doc/{user}", json={"text": "a b c d"}, headers=headers)
        assert FIELD in source(proxy.url, name, user)
    # Each asked for the mapping, wrote, and was read.
    assert metric(proxy, "upstream_seconds_count") == before + 6


def test_too_little_memory_is_told() -> None:
    with pytest.raises(UsageError, match=r"--max-memory of 32 MB .* need \d+ MB"):
        Limits(memory=32 * MB).bodies()


def test_requests_wait_for_memory_in_turn() -> None:
    async def run() -> None:
        budget = Budget(100, 5)
        order: list[str] = []

        async def work(name: str, size: int, done: asyncio.Event) -> None:
            with budget.hold() as hold:
                await hold.reserve(size)
                order.append(name)
                await done.wait()

        events = {name: asyncio.Event() for name in "abcd"}
        sizes = {"a": 60, "b": 60, "c": 60, "d": 10}
        tasks = []
        for name, size in sizes.items():
            tasks.append(asyncio.create_task(work(name, size, events[name])))
            await asyncio.sleep(0)
        # b is the one that may take more than there is; c waits, and d behind it.
        assert order == ["a", "b"]
        assert budget.waiting == 2
        events["a"].set()
        await tasks[0]
        await tasks_begun(order, 3)
        # c takes more than there is in its turn, and d still waits.
        assert order == ["a", "b", "c"]
        assert budget.waiting == 1
        events["b"].set()
        await tasks[1]
        await tasks_begun(order, 4)
        assert order == ["a", "b", "c", "d"]
        events["c"].set()
        events["d"].set()
        await asyncio.gather(*tasks)
        assert budget.used == 0

    async def tasks_begun(order: list[str], count: int) -> None:
        while len(order) < count:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), 30))


def test_who_may_take_more_than_there_is_may_not_for_ever() -> None:
    async def run() -> None:
        budget = Budget(100, 5)
        with budget.hold() as slow, budget.hold() as second, budget.hold() as third:
            second.patient = third.patient = True
            await second.grow(50)
            await third.grow(49)
            await slow.grow(2)
            slow.shrink(2)
            waiting = asyncio.create_task(second.grow(2))
            await asyncio.sleep(0)
            assert waiting.done()
        assert budget.used == 0

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_request_that_waits_too_long_is_to_come_again() -> None:
    async def run() -> None:
        budget = Budget(100, 0.01)
        with budget.hold() as first, budget.hold() as second, budget.hold() as third:
            await first.reserve(100)
            await second.reserve(100)
            with pytest.raises(Failed) as caught:
                await third.grow(1)
            assert caught.value.answer.status == 503
            assert (b"retry-after", b"1") in caught.value.answer.headers
            assert budget.waiting == 0
        assert budget.used == 0

    asyncio.run(asyncio.wait_for(run(), 30))
