"""What the proxy refuses, what it does without, and how much memory bodies take together."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import esdedup
from esdedup.exceptions import UsageError
from esdedup.models import FIELD
from esdedup.proxy.http import Failed
from esdedup.proxy.memory import Lane, Memory
from tests.conftest import delete_index
from tests.helpers.http import HTTP
from tests.servers.credentials import Credentials
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
    assert "documents are too long" in proxy.log
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


def test_too_little_memory_is_rejected() -> None:
    with pytest.raises(UsageError, match=r"--max-memory of 32 MB .* use \d+ MB"):
        Memory(32 * MB)


def test_a_lane_is_taken_in_turn_and_a_request_larger_than_it_has_it_alone() -> None:
    async def run() -> None:
        lane, order = Lane(100, 30), list[str]()
        ends = {name: asyncio.Event() for name in "abcd"}

        async def work(name: str, size: int) -> None:
            with ExitStack() as held:
                await lane.take(size, held)
                order.append(name)
                await ends[name].wait()

        sizes = {"a": 60, "b": 200, "c": 60, "d": 10}
        tasks = [asyncio.create_task(work(*each)) for each in sizes.items()]
        for done, expected in (("", "a"), ("a", "ab"), ("b", "abcd")):
            if done:
                ends[done].set()
            while order != list(expected):
                await asyncio.sleep(0)
            assert lane.waiting == 4 - len(expected)
        ends["c"].set()
        ends["d"].set()
        await asyncio.gather(*tasks)
        assert lane.used == 0

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_request_that_waits_too_long_is_to_come_again() -> None:
    async def run() -> None:
        lane = Lane(100, 0.01)
        with ExitStack() as held:
            await lane.take(100, held)
            with pytest.raises(Failed) as caught:
                await lane.take(1, held)
            assert caught.value.answer.status == 503
            assert (b"retry-after", b"1") in caught.value.answer.headers
        assert lane.used == lane.waiting == 0

    asyncio.run(run())


SHORT = b'{"index":{}}\n{"text":"one two three four five six seven eight nine ten"}\n'
LONG = SHORT.replace(b"text", b'x":"' + b"y" * 5_000 + b'","text')


@pytest.fixture
def other(tmp_path: Path, elasticsearch_url: str) -> Iterator[Enriching]:
    """A proxy with little memory."""
    with Enriching(elasticsearch_url, tmp_path, "--max-memory", "128MB") as started:
        yield started


def upload_slowly(address: tuple[str, int], name: str, ended: threading.Event) -> int:
    """Send 5 MB of documents at 200 kB/s. Return the bytes that were sent before the end."""
    head = b"POST /%s/_bulk HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-ndjson\r\n"
    with socket.create_connection(address, 60) as client:
        client.sendall(head % name.encode() + b"content-length: 5000000\r\n\r\n")
        lines, sent = LONG * (50_000 // len(LONG)), 0
        while not ended.wait(0.25) and sent + len(lines) < 5_000_000:
            client.sendall(lines)
            sent += len(lines)
    return sent


def test_slow_uploaders_shut_nobody_out(other: Enriching, name: str) -> None:
    """24 were enough to fill the memory that they had reserved."""
    ended = threading.Event()
    with ThreadPoolExecutor(60) as clients:
        slow = [clients.submit(upload_slowly, other.address, name, ended) for _ in range(60)]
        try:
            waits: list[float] = []
            while len(waits) < 8:
                begun = time.monotonic()
                assert post(f"{other.url}/{name}/_bulk", SHORT).status_code == 200
                waits.append(time.monotonic() - begun)
                time.sleep(0.3)
        finally:
            ended.set()
        assert min(each.result() for each in slow) > 400_000
    assert max(waits) < 10
    assert other.peak_mb < 128


def test_a_slow_cluster_takes_no_more_memory_and_leaves_short_bodies_their_turn(
    name: str, tmp_path: Path, elasticsearch_url: str
) -> None:
    body = LONG * (3 * MB // len(LONG))
    with (
        Proxy(elasticsearch_url) as guard,
        Enriching(guard.url, tmp_path, "--max-memory", "128MB") as proxy,
        ThreadPoolExecutor(40) as clients,
    ):
        guard.delay_bulks(1.0)
        sent = [clients.submit(post, f"{proxy.url}/{name}/_bulk", body) for _ in range(15)]
        begun = time.monotonic()
        for _ in range(3):
            assert post(f"{proxy.url}/{name}/_bulk", SHORT).status_code == 200
        assert time.monotonic() - begun < 15
        assert not all(each.done() for each in sent)
        guard.delay_bulks(0)
        assert {each.result().status_code for each in sent} <= {200, 429, 503}
        assert proxy.peak_mb < 128


@pytest.mark.parametrize(
    "text",
    ["a" + "\u0301\u0316" * (MB // 4), "a " * (MB // 2), "\U0001f600 " * (MB // 5)],
    ids=["combining", "short words", "emoji"],
)
def test_long_texts_stay_within_the_memory(
    elasticsearch_url: str, name: str, tmp_path: Path, text: str
) -> None:
    text = text.encode()[: MB - 9].decode(errors="ignore")
    body = json.dumps({"text": text}, ensure_ascii=False).encode()
    with Enriching(elasticsearch_url, tmp_path) as proxy, ThreadPoolExecutor(4) as clients:
        url = f"{proxy.url}/{name}/_doc"
        sent = [clients.submit(post, url, body, **JSON) for _ in range(8)]
        assert {each.result().status_code for each in sent} == {201}
        assert metric(proxy, 'documents_total{tokens="added"}') == 8
        assert proxy.peak_mb < 256


def test_a_wrong_password_is_tried_once_and_is_the_clients(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    body = b"".join(b'{"index":{"_index":"i%d"}}\n{"text":"a b c"}\n' % n for n in range(20))
    with (
        Proxy(elasticsearch_url, credentials=Credentials(basic=("u", "p"))) as guard,
        Enriching(guard.url, tmp_path) as proxy,
    ):
        for path, sent in (("_bulk", body), (f"{name}/_doc/1", b'{"text":"a b c"}')):
            before = guard.requests
            answer = httpx.post(f"{proxy.url}/{path}", content=sent, headers=JSON, auth=("u", "x"))
            assert answer.status_code == 401
            assert "basic" in answer.headers["www-authenticate"].lower()
            assert guard.requests == before + 1
        assert metric(proxy, "documents_total") == 0
        assert metric(proxy, 'requests_total{kind="bulk",status="401"}') == 1


def test_documents_of_refused_requests_are_not_counted_as_having_tokens(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    with Proxy(elasticsearch_url) as guard, Enriching(guard.url, tmp_path) as proxy:
        guard.fail_next(1, 429)
        assert post(f"{proxy.url}/{name}/_bulk", SHORT).status_code == 429
        assert metric(proxy, 'documents_total{tokens="added"}') == 0
        assert post(f"{proxy.url}/{name}/_bulk", SHORT).status_code == 200
        assert metric(proxy, 'documents_total{tokens="added"}') == 1


def test_documents_that_are_not_json_are_counted_and_logged(proxy: Enriching, name: str) -> None:
    before = metric(proxy, 'documents_total{tokens="not_json"}')
    yaml = {"content-type": "application/yaml"}
    assert post(f"{proxy.url}/{name}/_doc/1", b"text: a b c d\n", **yaml).status_code == 201
    assert metric(proxy, 'documents_total{tokens="not_json"}') == before + 1
    assert "documents of type application/yaml" in proxy.log


def test_an_attached_index_has_tokens_from_its_next_document_on(
    proxy: Enriching, elasticsearch_url: str
) -> None:
    name = f"esdedup-limits-{uuid.uuid4().hex[:12]}"
    for id, expected in (("1", False), ("2", True)):
        HTTP.put(f"{proxy.url}/{name}/_doc/{id}", json={"text": "a b c"}).raise_for_status()
        assert (FIELD in source(elasticsearch_url, name, id)) is expected
        with esdedup.open(elasticsearch_url, name) as index:
            index.create()
    delete_index(elasticsearch_url, name)
