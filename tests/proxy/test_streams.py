"""`esdedup proxy` with long bodies, with servers that fail, and with clients that hang up."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import esdedup
from tests.helpers.http import HTTP
from tests.helpers.processes import await_true
from tests.proxy.conftest import connect, items, metric, post, source
from tests.servers.enriching import Enriching
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy

PAD = "x" * 3_000
WORDS = ["the", "council", "met", "on", "monday", "and", "voted", "for", "a", "new", "bridge"]

# One process starts the proxies.
pytestmark = pytest.mark.xdist_group("proxy")


def text(number: int) -> str:
    return f"{WORDS[number % 11]} {WORDS[number % 7]} {number} {WORDS[number % 5]} {number // 3}"


def lines(name: str, count: int) -> Iterator[bytes]:
    """Yield the documents of a bulk body, about 3 KB each."""
    for number in range(count):
        yield b'{"index":{"_index":"%s","_id":"%d"}}\n{"text":"%s","x":"%s"}\n' % (
            name.encode(),
            number,
            text(number).encode(),
            PAD.encode(),
        )


def test_a_long_stream_takes_little_memory(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    count = 20_000
    with Enriching(elasticsearch_url, tmp_path) as proxy:
        answer = post(f"{proxy.url}/_bulk", lines(name, count))
        assert proxy.peak_mb < 200
    assert answer.headers["x-elastic-product"] == "Elasticsearch"
    assert [(one["_id"], one["status"]) for one in items(answer)] == [
        (str(number), 201) for number in range(count)
    ]
    for number in (0, count // 2, count - 1):
        (expected,) = esdedup.enrich([{"_source": {"text": text(number), "x": PAD}}])
        assert source(elasticsearch_url, name, str(number)) == expected["_source"]


@pytest.mark.parametrize("count", [1, 3_000])
def test_failures_of_the_upstream_are_the_answer(
    elasticsearch_url: str, name: str, tmp_path: Path, count: int
) -> None:
    with Proxy(elasticsearch_url) as guard, Enriching(guard.url, tmp_path) as proxy:
        for status in (429, 413):
            guard.fail_next(2, status)
            body = b"".join(lines(name, count))
            direct, answer = (post(f"{url}/_bulk", body) for url in (guard.url, proxy.url))
            assert answer.status_code == direct.status_code == status
            assert answer.content == direct.content
            assert answer.headers["x-elastic-product"] == "Elasticsearch"
        assert metric(proxy, "documents_total") == 0
        guard.drop_after = 1
        with pytest.raises(httpx.RemoteProtocolError):
            post(f"{proxy.url}/_bulk", lines(name, count))
        await_true("logged", lambda: "an answer broke off" in proxy.log, 30)
        assert "ASGI" not in proxy.log


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


def url_of(server: socket.socket) -> str:
    return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_an_upstream_that_is_silent_or_not_there(silent: socket.socket, tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with Enriching(nowhere, tmp_path) as proxy:
        for answer in (
            HTTP.get(f"{proxy.url}/_search"),
            post(f"{proxy.url}/_bulk", lines("x", 10)),
            HTTP.put(f"{proxy.url}/x/_doc/1", json={"text": "a b c"}),
        ):
            assert answer.status_code == answer.json()["status"] == 502
            assert nowhere in answer.json()["error"]["reason"]
        assert HTTP.get(f"{proxy.url}/-/health/live").status_code == 200
        assert HTTP.get(f"{proxy.url}/-/health/ready").status_code == 503
        assert metric(proxy, "upstream_errors_total") > 0
        assert f"the upstream {nowhere} gave no answer" in proxy.log
    with Enriching(url_of(silent), tmp_path, "--timeout", "1") as proxy:
        answer = HTTP.get(f"{proxy.url}/_search", timeout=30)
        assert answer.status_code == answer.json()["status"] == 504
        assert HTTP.get(f"{proxy.url}/-/health/ready", timeout=30).status_code == 503


def test_a_client_that_hangs_up_ends_its_request(silent: socket.socket, tmp_path: Path) -> None:
    body = b"".join(lines("left", 100))
    more = b" HTTP/1.1\r\nhost: x\r\ncontent-length: 90000000\r\n\r\n" + body
    whole = b" HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    with Enriching(url_of(silent), tmp_path) as proxy:
        for request in (b"POST /_bulk" + more, b"PUT /left/_doc/1" + more):
            connect(proxy, request).close()
        for request in (b"POST /_bulk" + whole, b"POST /_reindex" + more, b"GET /_search" + whole):
            with connect(proxy, request):
                upstream, _ = silent.accept()
                assert upstream.recv(1)
            with upstream, contextlib.suppress(ConnectionResetError):
                upstream.settimeout(60)
                while upstream.recv(1 << 16):
                    pass
        assert HTTP.get(f"{proxy.url}/-/health/live").status_code == 200
        log = proxy.log
    assert "Error" not in log
    assert "Exception" not in log
