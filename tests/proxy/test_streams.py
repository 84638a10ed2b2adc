"""`esdedup proxy` with long bodies, with servers that fail, and with clients that hang up."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import esdedup
from tests.conftest import delete_index
from tests.helpers.processes import await_true
from tests.servers.enriching import Enriching
from tests.servers.node import Node
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy

PEAK_MB = 200
PAD = "x" * 3_000
"""Makes documents long, so that few of them fill a part, which is of 2 MB."""
LONG = 27_000
"""Documents of a stream of 80 MB."""
MANY, MIDDLE = 9_000, 6_000
"""Documents of several parts. When those up to the second number are read, parts have been sent."""
NDJSON = {"content-type": "application/x-ndjson"}
WORDS = ["the", "council", "met", "on", "monday", "and", "voted", "for", "a", "new", "bridge"]


@pytest.fixture
def name(elasticsearch_url: str) -> Iterator[str]:
    found = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    create(elasticsearch_url, found)
    yield found
    delete_index(elasticsearch_url, found)


def create(url: str, name: str) -> None:
    """Make an index with tokens, in which the pad costs little."""
    with esdedup.open(url, name) as index:
        index.create()
    stored = {"properties": {"pad": {"type": "keyword", "index": False, "doc_values": False}}}
    httpx.put(f"{url}/{name}/_mapping", json=stored).raise_for_status()


def text(number: int) -> str:
    return f"{WORDS[number % 11]} {WORDS[number % 7]} {number} {WORDS[number % 5]} {number // 3}"


def lines(name: str, count: int, before: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """A bulk body of documents. before: called with the number of each thousandth one."""
    for start in range(0, count, 1000):
        before(start)
        yield b"".join(
            b'{"index":{"_index":"%s","_id":"%d"}}\n{"text":"%s","pad":"%s"}\n'
            % (name.encode(), number, text(number).encode(), PAD.encode())
            for number in range(start, min(start + 1000, count))
        )


def post(url: str, body: Iterator[bytes]) -> httpx.Response:
    return httpx.post(f"{url}/_bulk", content=body, headers=NDJSON, timeout=600)


def statuses(answer: httpx.Response, count: int) -> list[int]:
    """The status of each item; the items must be those of `lines`, in order."""
    items = [item["index"] for item in answer.json()["items"]]
    assert [item["_id"] for item in items] == [str(number) for number in range(count)]
    return [item["status"] for item in items]


def test_a_long_stream_takes_little_memory(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    count = LONG
    with Enriching(elasticsearch_url, tmp_path) as proxy:
        answer = post(proxy.url, lines(name, count))
        assert proxy.peak_mb < PEAK_MB
    assert answer.headers["x-elastic-product"] == "Elasticsearch"
    assert set(statuses(answer, count)) == {201}
    assert answer.json()["errors"] is False
    assert answer.json()["took"] > 0
    httpx.post(f"{elasticsearch_url}/{name}/_refresh", timeout=60)
    assert httpx.get(f"{elasticsearch_url}/{name}/_count").json()["count"] == count
    for number in (0, count // 2, count - 1):
        document = httpx.get(f"{elasticsearch_url}/{name}/_doc/{number}").json()["_source"]
        (expected,) = esdedup.enrich([{"_source": {"text": text(number), "pad": PAD}}])
        assert document == expected["_source"]


def test_what_is_acknowledged_survives_the_death_of_the_upstream(
    killable_elasticsearch: Node, tmp_path: Path
) -> None:
    node, count = killable_elasticsearch, MANY
    create(node.url, "dying")

    def kill(number: int) -> None:
        if number == MIDDLE:
            wait_for_second_part(node.url, "dying")
            node.kill()

    with Enriching(node.url, tmp_path) as proxy:
        answer = post(proxy.url, lines("dying", count, kill))
        got = statuses(answer, count)
        refused = httpx.get(f"{proxy.url}/_search")
    assert refused.status_code == 502
    assert node.url in refused.json()["error"]["reason"]
    assert answer.json()["errors"] is True
    acknowledged = got.count(201)
    assert 0 < acknowledged < count
    unknown = got.count(502)
    assert got == [201] * acknowledged + [502] * unknown + [429] * (count - acknowledged - unknown)
    reasons = {item["index"]["error"]["reason"] for item in answer.json()["items"][acknowledged:]}
    assert all(node.url in reason for reason in reasons)
    node.restart()
    httpx.post(f"{node.url}/dying/_refresh", timeout=60).raise_for_status()
    for start in range(0, acknowledged, 10_000):
        ids = [str(number) for number in range(start, min(start + 10_000, acknowledged))]
        asked = {"ids": ids}
        found = httpx.post(f"{node.url}/dying/_mget?_source=false", json=asked, timeout=60).json()
        assert all(document["found"] for document in found["docs"])


@pytest.mark.parametrize("fault", [429, 413, "drop"])
def test_a_part_that_fails_ends_the_writing(
    elasticsearch_url: str, name: str, tmp_path: Path, fault: Any
) -> None:
    count = MANY
    with (
        Proxy(elasticsearch_url) as guard,
        Enriching(guard.url, tmp_path) as proxy,
    ):

        def fail(number: int) -> None:
            if number == MIDDLE:
                wait_for_second_part(elasticsearch_url, name)
                guard.drop_after(1) if fault == "drop" else guard.fail_next(1, fault)

        got = statuses(answer := post(proxy.url, lines(name, count, fail)), count)
    status = 502 if fault == "drop" else fault
    acknowledged = got.count(201)
    assert 0 < acknowledged < count
    refused = got.count(status) if status != 429 else count - acknowledged
    # Clients send parts again that were never sent.
    never_sent = count - acknowledged - refused
    assert got == [201] * acknowledged + [status] * refused + [429] * never_sent
    assert answer.json()["errors"] is True
    httpx.post(f"{elasticsearch_url}/{name}/_refresh", timeout=60)
    written = httpx.get(f"{elasticsearch_url}/{name}/_count").json()["count"]
    if fault == "drop":
        unsure = [i for i in answer.json()["items"] if "or not" in str(i["index"].get("error"))]
        assert acknowledged < written <= acknowledged + len(unsure) < count
    else:
        assert written == acknowledged


def test_where_nothing_was_acknowledged_the_upstreams_error_is_the_answer(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    with Proxy(elasticsearch_url) as guard, Enriching(guard.url, tmp_path) as proxy:
        guard.fail_next(2, 429)
        direct = httpx.post(f"{guard.url}/_bulk", content=next(lines(name, 1)), headers=NDJSON)
        answer = post(proxy.url, lines(name, 5_000))
        assert guard.bulk_requests == 2
    assert answer.status_code == direct.status_code == 429
    assert answer.content == direct.content
    assert answer.headers["x-elastic-product"] == "Elasticsearch"


def test_an_answer_that_breaks_off_is_logged_once(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    with Proxy(elasticsearch_url) as guard, Enriching(guard.url, tmp_path) as proxy:
        guard.drop_after(1)
        with pytest.raises(httpx.RemoteProtocolError):
            post(proxy.url, lines(name, 1))
        await_true("told", lambda: "an answer broke off" in proxy.log, 30)
        assert "ASGI" not in proxy.log


def test_packed_bodies_that_break_off_are_refused(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    whole = gzip.compress(b"".join(lines(name, 5_000)))
    headers = {**NDJSON, "content-encoding": "gzip"}
    with Enriching(elasticsearch_url, tmp_path) as proxy:
        url = f"{proxy.url}/_bulk"
        small = httpx.post(url, content=whole[:1000], headers=headers)
        assert small.status_code == 400
        assert small.json()["error"]["type"] == "parse_exception"
        large = httpx.post(url, content=whole[: len(whole) * 9 // 10], headers=headers, timeout=60)
        items = [item["index"]["status"] for item in large.json()["items"]]
        assert large.json()["errors"] is True
        assert items == [201] * items.count(201) + [400] * items.count(400)
        assert items.count(400) > 0
        complete = httpx.post(url, content=whole, headers=headers, timeout=60)
        assert not complete.json()["errors"]
        assert proxy.peak_mb < PEAK_MB


def test_an_upstream_that_is_silent_or_not_there(
    killable_elasticsearch: Node, tmp_path: Path
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with Enriching(nowhere, tmp_path) as proxy:
        for answer in (
            httpx.get(f"{proxy.url}/_search"),
            post(proxy.url, lines("x", 10)),
            httpx.put(f"{proxy.url}/x/_doc/1", json={"text": "a b c"}),
        ):
            assert answer.status_code == answer.json()["status"] == 502
            assert nowhere in answer.json()["error"]["reason"]
    node = killable_elasticsearch
    assert node.pid is not None
    with Enriching(node.url, tmp_path, "--timeout", "1") as proxy:
        os.kill(node.pid, signal.SIGSTOP)
        answer = httpx.get(f"{proxy.url}/_search", timeout=30)
        os.kill(node.pid, signal.SIGCONT)
        assert answer.status_code == answer.json()["status"] == 504


def sockets(url: str, column: int) -> list[str]:
    """The queues of open sockets, written:unread, that have an address's port in a column."""
    port = f":{httpx.URL(url).port:04X}"
    tables = [Path(f"/proc/net/{table}").read_text("ascii") for table in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()]
    return [row[4] for row in rows if row[column].endswith(port) and row[3] == "01"]


def stopped(pid: int | None) -> bool:
    """Tells if all threads of a process are stopped."""
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
    # Short enough for one part: the rest of a longer one stays unread while the upstream is silent.
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


def wait_for_second_part(url: str, name: str) -> None:
    """Until the server has a document of the second part, so that it has all of the first."""
    wanted = f"{url}/{name}/_doc/4000"
    await_true(wanted, lambda: httpx.get(wanted, timeout=60).status_code == 200, 60)
