"""Threads that send requests while others lose nodes of the cluster and get them back."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from elasticsearch import Elasticsearch

from esdedup.stores.elastic.client_connection import connection_through
from esdedup.stores.elastic.transport import Link


class Answer(BaseHTTPRequestHandler):
    """Answers each request with an empty object."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def often_switched() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("often_switched")
def test_requests_are_sent_while_nodes_are_lost(port: int) -> None:
    hosts = [f"http://127.0.0.1:{port}/{number}" for number in range(40)]
    with Elasticsearch(hosts) as client:
        link = Link(connection_through(client))
        ended = threading.Event()

        def lose_nodes() -> None:
            pool = client.transport.node_pool
            nodes = pool.all()
            while not ended.is_set():
                for node in nodes:
                    pool.mark_dead(node)
                    pool.mark_live(node)

        with ThreadPoolExecutor(4) as threads:
            losing = threads.submit(lose_nodes)
            try:
                sent = [threads.submit(link.send, "GET", "/") for _ in range(300)]
                assert {one.result().body == {} for one in sent} == {True}
            finally:
                ended.set()
            losing.result()
