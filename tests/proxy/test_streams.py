"""`esdedup proxy` with long bodies, with servers that fail, and with clients that hang up."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import esdedup
from tests.helpers.processes import await_true
from tests.proxy.conftest import items, metric, post, source
from tests.servers.enriching import Enriching
from tests.servers.node import Node
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
        guard.drop_after(1)
        with pytest.raises(httpx.RemoteProtocolError):
            post(f"{proxy.url}/_bulk", lines(name, count))
        await_true("logged", lambda: "an answer broke off" in proxy.log, 30)
        assert "ASGI" not in proxy.log


def test_an_upstream_that_is_silent_or_not_there(
    killable_elasticsearch: Node, tmp_path: Path
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with Enriching(nowhere, tmp_path) as proxy:
        for answer in (
            httpx.get(f"{proxy.url}/_search"),
            post(f"{proxy.url}/_bulk", lines("x", 10)),
            httpx.put(f"{proxy.url}/x/_doc/1", json={"text": "a b c"}),
        ):
            assert answer.status_code == answer.json()["status"] == 502
            assert nowhere in answer.json()["error"]["reason"]
        assert httpx.get(f"{proxy.url}/-/health/live").status_code == 200
        assert httpx.get(f"{proxy.url}/-/health/ready").status_code == 503
        assert metric(proxy, "upstream_errors_total") > 0
        assert f"the upstream {nowhere} gave no answer" in proxy.log
    node = killable_elasticsearch
    assert node.pid is not None
    with Enriching(node.url, tmp_path, "--timeout", "1") as proxy:
        os.kill(node.pid, signal.SIGSTOP)
        answer = httpx.get(f"{proxy.url}/_search", timeout=30)
        ready = httpx.get(f"{proxy.url}/-/health/ready", timeout=30)
        os.kill(node.pid, signal.SIGCONT)
        assert ready.status_code == 503
        assert answer.status_code == answer.json()["status"] == 504


def sockets(url: str, column: int) -> list[str]:
    """The queues of open sockets, written:unread, that have an address's port in a column."""
    port = f":{httpx.URL(url).port:04X}"
    tables = [Path(f"/proc/net/{table}").read_text("ascii") for table in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()]
    return [row[4] for row in rows if row[column].endswith(port) and row[3] == "01"]


def stopped(pid: int | None) -> bool:
    """Return whether all threads of a process are stopped."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all("State:\tT" in (thread / "status").read_text() for thread in threads)


def unread(url: str) -> bool:
    """Whether a server has not read what was sent to it."""
    return any(int(queues.split(":")[1], 16) for queues in sockets(url, 1))


def connections(url: str) -> int:
    """How many connections to a server are open at the other end."""
    return len(sockets(url, 2))


def test_a_client_that_hangs_up_ends_its_request(
    killable_elasticsearch: Node, tmp_path: Path
) -> None:
    node = killable_elasticsearch
    with esdedup.open(node.url, "left") as index:
        index.create()
    body = b"".join(lines("left", 500))
    more = b" HTTP/1.1\r\nhost: x\r\ncontent-length: 90000000\r\n\r\n" + body
    whole = b" HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    reaching = [b"POST /_bulk" + whole, b"POST /_reindex" + more, b"GET /_search" + whole]
    requests = [b"POST /_bulk" + more, b"PUT /left/_doc/1" + more, *reaching]
    assert node.pid is not None
    with Enriching(node.url, tmp_path) as proxy:
        address = ("127.0.0.1", httpx.URL(proxy.url).port or 0)
        for request in requests:
            os.kill(node.pid, signal.SIGSTOP)
            # Until then a thread of it may read the request.
            await_true("stopped", lambda: stopped(node.pid), 60)
            with socket.create_connection(address) as client:
                client.sendall(request)
                if request in reaching:
                    await_true(str(request[:60]), lambda: unread(node.url), 60)
            if request in reaching:
                await_true(str(request[:60]), lambda: connections(node.url) == 0, 60)
            os.kill(node.pid, signal.SIGCONT)
            assert httpx.get(f"{proxy.url}/_cluster/health", timeout=60).status_code == 200
        log = proxy.log
    assert "Error" not in log
    assert "Exception" not in log
