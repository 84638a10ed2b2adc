"""Threads that send requests while others lose nodes of the cluster and get them back."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from elasticsearch import Elasticsearch

from esdedup.stores.elastic.client_connection import connection_through
from esdedup.stores.elastic.transport import Link
from tests.servers.proxy import Answer, Proxy

REQUESTS = 300
EMPTY = Answer(200, [("Content-Type", "application/json")], b"{}")


@pytest.fixture
def often_switched() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("often_switched")
def test_requests_are_sent_while_nodes_are_lost() -> None:
    with Proxy("http://127.0.0.1:1") as proxy:
        proxy.answer_next(REQUESTS, EMPTY)
        with Elasticsearch([f"{proxy.url}/{number}" for number in range(40)]) as client:
            link = Link(connection_through(client))
            ended = threading.Event()

            def lose_nodes() -> None:
                pool = client.transport.node_pool
                while not ended.is_set():
                    for node in pool.all():
                        pool.mark_dead(node)
                        pool.mark_live(node)

            with ThreadPoolExecutor(4) as threads:
                losing = threads.submit(lose_nodes)
                try:
                    requests = [threads.submit(link.send, "GET", "/") for _ in range(REQUESTS)]
                    for request in requests:
                        assert request.result().body == {}
                finally:
                    ended.set()
                losing.result()
