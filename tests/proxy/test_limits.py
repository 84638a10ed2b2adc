"""What the proxy refuses, what it does without, and how much memory bodies take together."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

from esdedup.exceptions import UsageError
from esdedup.models import FIELD
from esdedup.proxy.app import Service
from esdedup.proxy.settings import ProxySettings
from tests.helpers.http import HTTP
from tests.proxy.conftest import GZIP, JSON, MB, NDJSON, connect, items, metric, post, source
from tests.servers.enriching import Enriching
from tests.servers.proxy import Proxy, credentials

SHORT = b'{"index":{}}\n{"text":"one two three four five six seven eight nine ten"}\n'
LONG = SHORT.replace(b"text", b'x":"' + b"y" * 5_000 + b'","text')
LINE = b'{"index":{"_id":"%d"}}\n{"text":"a b c d"}\n'

pytestmark = pytest.mark.xdist_group("proxy")


@pytest.fixture(scope="module")
def proxy(elasticsearch_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enriching]:
    folder = tmp_path_factory.mktemp("proxy")
    with Enriching(elasticsearch_url, folder, "--body-timeout", "1") as started:
        yield started


def test_long_texts_and_documents_pass_without_tokens(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    documents = {
        "1": {"text": "a b c d"},
        "words": {"text": "ab " * MB},
        "chinese": {"text": "词语" * MB},
        "long": {"text": "a b", "x": "x" * (7 * MB)},
        "field": {"text": "a b", "x": "y" * (4 * MB)},
    }
    lines = [part for id, each in documents.items() for part in ({"index": {"_id": id}}, each)]
    body = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    with Enriching(elasticsearch_url, tmp_path, "--max-memory", "128MB") as proxy:
        url = f"{proxy.url}/{name}"
        for sent, headers in ((body, {}), (gzip.compress(body, 1), GZIP)):
            answer = post(f"{url}/_bulk", sent, **headers)
            assert [one["status"] // 100 for one in items(answer)] == [2] * 5, answer.text
        single = json.dumps(documents["long"]).encode()
        assert post(f"{url}/_doc/single", single, **JSON).status_code == 201
        for id in (*documents, "single"):
            assert (FIELD in source(proxy.url, name, id)) is (id in ("1", "field"))
        assert metric(proxy, 'documents_total{tokens="too_long"}') == 7
        assert "documents are too long" in proxy.log
        assert proxy.peak_mb < 128


def test_bodies_that_cannot_be_read(proxy: Enriching, name: str) -> None:
    url = f"{proxy.url}/{name}/_bulk"
    line = b'{"index":{"_index":"i","x":[' + b",".join([b"1"] * 2_000_000) + b"]}}\n{}\n"
    whole = gzip.compress(LINE * 5_000 % tuple(range(5_000)))
    for body, status, kind in (
        (gzip.compress(line), 413, "content_too_long_exception"),
        (whole[: len(whole) // 2], 400, "parse_exception"),
        (b"no gzip", 400, "parse_exception"),
        (gzip.compress(b'{"index":{"_index":"a\\ud800"}}\n{}\n'), 400, "invalid_index_name"),
        (gzip.compress(b'{"delete":{"_index":"a\\ud800","_id":"1"}}\n'), 400, "invalid_index_name"),
    ):
        answer = post(url, body, **GZIP)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert answer.json()["error"]["type"].startswith(kind)
    # Nothing of them was written, and a body may be packed in several pieces.
    pieces = gzip.compress(LINE % 1) + gzip.compress(LINE % 2)
    assert [one["result"] for one in items(post(url, pieces, **GZIP))] == ["created"] * 2
    assert items(post(url, whole, **GZIP))[3]["result"] == "created"


@pytest.mark.parametrize("millions", [5, pytest.param(20, marks=pytest.mark.nightly)])
def test_packed_values_take_little_memory_and_delay_no_other_client(
    proxy: Enriching, name: str, millions: int
) -> None:
    numbers = millions * 1_000_000
    many = b'{"text":"a b c","x":[' + b",".join([b"1"] * numbers) + b"]}"
    marks = json.dumps({"text": "a" + "\u0301\u0316" * 30_000}, ensure_ascii=False).encode()
    bodies = [
        ("_doc/1", many, JSON),
        ("_doc/2", marks, JSON),
        ("_bulk", b'{"index":{}}\n' + many + b"\n", NDJSON),
        ("_bulk", b'{"delete":{"_id":"1"}}\n' * 100_000, NDJSON),
        ("_bulk", b"\n" * numbers + b'{"delete":{"_id":"1"}}\n', NDJSON),
    ]
    waits: list[float] = []
    with ThreadPoolExecutor(1) as other:
        for path, body, kind in bodies:
            url = f"{proxy.url}/{name}/{path}"
            sent = other.submit(post, url, gzip.compress(body, 1), **kind, **GZIP)
            # Requests without a pause would take the processor from the proxy.
            while not wait([sent], timeout=0.02).done:
                begun = time.monotonic()
                assert HTTP.get(f"{proxy.url}/-/health/live").status_code == 200
                waits.append(time.monotonic() - begun)
            assert sent.result().status_code in (200, 201, 400, 413, 429)
    assert proxy.peak_mb < 256
    # The audit saw ten seconds. On an idle machine it is some milliseconds.
    assert max(waits) < 3


@pytest.mark.parametrize("path", ["_bulk", "_doc", "_search"])
def test_a_body_that_stops_is_refused(proxy: Enriching, name: str, path: str) -> None:
    head = f"POST /{name}/{path} HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{{"
    with connect(proxy, head.encode()) as client:
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
            with connect(proxy, b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n\r\n") as client:
                assert client.recv(1 << 16).startswith(b"HTTP/1.1 " + status), path


def test_health_and_metrics(proxy: Enriching, name: str) -> None:
    for path in ("live", "ready"):
        assert HTTP.get(f"{proxy.url}/-/health/{path}").status_code == 200
    before = {
        outcome: metric(proxy, f'documents_total{{tokens="{outcome}"}}')
        for outcome in ("added", "no_text")
    }
    HTTP.put(f"{proxy.url}/{name}/_doc/1", json={"text": "a b c d"})
    HTTP.put(f"{proxy.url}/{name}/_doc/2", json={"n": 1})
    for outcome, count in before.items():
        assert metric(proxy, f'documents_total{{tokens="{outcome}"}}') == count + 1
    assert metric(proxy, "upstream_seconds_count") > 0
    assert HTTP.get(f"{proxy.url}/-/other").status_code == 404


def test_too_little_memory_is_rejected() -> None:
    little = ProxySettings(upstream="http://127.0.0.1:9", max_memory=64 * MB)
    with pytest.raises(UsageError, match=r"`max_memory` of 64 MB .* use \d+ MB") as caught:
        Service(little)
    Service(replace(little, max_memory=int(str(caught.value).split()[-2]) * MB))


def upload_slowly(proxy: Enriching, name: str, ended: threading.Event) -> int:
    """Send 5 MB of documents at 200 kB/s. Return the bytes that were sent before the end."""
    head = b"POST /%s/_bulk HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-ndjson\r\n"
    head = head % name.encode() + b"content-length: 5000000\r\n\r\n"
    with connect(proxy, head) as client:
        lines, sent = LONG * (50_000 // len(LONG)), 0
        while not ended.wait(0.25) and sent + len(lines) < 5_000_000:
            client.sendall(lines)
            sent += len(lines)
    return sent


def test_slow_uploaders_shut_no_client_out(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    """24 were enough to fill the memory that they had reserved."""
    ended = threading.Event()
    with (
        Enriching(elasticsearch_url, tmp_path, "--max-memory", "128MB") as proxy,
        ThreadPoolExecutor(60) as clients,
    ):
        slow = [clients.submit(upload_slowly, proxy, name, ended) for _ in range(60)]
        try:
            waits: list[float] = []
            while len(waits) < 8:
                begun = time.monotonic()
                assert post(f"{proxy.url}/{name}/_bulk", SHORT).status_code == 200
                waits.append(time.monotonic() - begun)
                time.sleep(0.3)
        finally:
            ended.set()
        assert min(each.result() for each in slow) > 400_000
        assert max(waits) < 10
        assert proxy.peak_mb < 128


def test_a_slow_cluster_takes_no_more_memory_and_leaves_short_bodies_their_turn(
    name: str, tmp_path: Path, elasticsearch_url: str
) -> None:
    body = LONG * (3 * MB // len(LONG))
    with (
        Proxy(elasticsearch_url) as guard,
        Enriching(guard.url, tmp_path, "--max-memory", "128MB") as proxy,
        ThreadPoolExecutor(40) as clients,
    ):
        guard.bulk_seconds = 3.0
        sent = [clients.submit(post, f"{proxy.url}/{name}/_bulk", body) for _ in range(30)]
        begun = time.monotonic()
        assert post(f"{proxy.url}/{name}/_bulk", SHORT).status_code == 200
        assert time.monotonic() - begun < 15
        guard.bulk_seconds = 0
        for answer in [upload.result() for upload in sent]:
            assert answer.status_code in (200, 429), answer.text
        assert proxy.peak_mb < 128


def test_long_texts_stay_within_the_memory(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    with Enriching(elasticsearch_url, tmp_path) as proxy, ThreadPoolExecutor(4) as clients:
        url = f"{proxy.url}/{name}/_doc"
        for unit in ("\u0301\u0316", "a ", "\U0001f600 "):
            text = ("a" + unit * MB).encode()[: MB - 9].decode(errors="ignore")
            body = json.dumps({"text": text}, ensure_ascii=False).encode()
            sent = [clients.submit(post, url, body, **JSON) for _ in range(8)]
            assert {each.result().status_code for each in sent} == {201}
        assert metric(proxy, 'documents_total{tokens="added"}') == 24
        assert proxy.peak_mb < 256


def test_a_wrong_password_is_tried_once_and_is_the_clients(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    body = b"".join(b'{"index":{"_index":"i%d"}}\n{"text":"a b c"}\n' % n for n in range(20))
    with (
        Proxy(elasticsearch_url, accepted=[credentials("u", "p")]) as guard,
        Enriching(guard.url, tmp_path) as proxy,
    ):
        for path, sent in (("_bulk", body), (f"{name}/_doc/1", b'{"text":"a b c"}')):
            before = guard.requests
            answer = HTTP.post(f"{proxy.url}/{path}", content=sent, headers=JSON, auth=("u", "x"))
            assert answer.status_code == 401
            assert "basic" in answer.headers["www-authenticate"].lower()
            assert guard.requests == before + 1
        assert metric(proxy, "documents_total") == 0
        assert metric(proxy, 'requests_total{kind="bulk",status="401"}') == 1
