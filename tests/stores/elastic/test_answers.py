"""Answers that no cluster gives: pages of load balancers, other services, other shapes."""

from collections.abc import Iterator

import pytest

import esdedup
from esdedup.stores import Cluster
from tests.helpers.commands import Ran, run_command
from tests.servers.proxy import Answer, Proxy

JSON = ("Content-Type", "application/json")
ELASTIC = ("X-Elastic-Product", "Elasticsearch")
PAGE = b"<!doctype html><html><h1>Please log in</h1></html>"


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """A server that answers only what a test says."""
    with Proxy("http://127.0.0.1:1") as made:
        yield made


def stats(proxy: Proxy) -> Ran:
    return run_command("stats", "--url", proxy.url, "--retry-for", "0")


FIRST = {
    "a page": (Answer(200, [("Content-Type", "text/html")], PAGE), 2, "neither"),
    "nothing": (Answer(200, [], b""), 2, "neither"),
    "not JSON": (Answer(200, [JSON], b"{"), 2, "neither"),
    "deep JSON": (Answer(200, [JSON], b"[" * 100_000), 2, "neither"),
    "another shape": (Answer(200, [JSON], b'{"version": 3}'), 2, "neither"),
    "another service": (Answer(404, [("Content-Type", "text/html")], PAGE), 2, "returns 404: <!do"),
    "a redirection": (Answer(302, [("Location", "/login")], PAGE), 2, "returns 302"),
    "not JSON, not ready": (Answer(503, [JSON], PAGE), 1, "not ready (503)"),
    "not ready, empty": (Answer(502, [], b""), 1, "not ready (502)"),
    "not text": (Answer(429, [JSON], b"\xff\x00\x1b"), 1, "not ready (429)"),
}


@pytest.mark.parametrize("case", FIRST)
def test_the_first_answer(proxy: Proxy, case: str) -> None:
    answer, status, said = FIRST[case]
    proxy.answer_next(99, answer)
    ran = stats(proxy)
    assert ran.status == status, ran.err
    assert said in ran.err
    assert proxy.url in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_page_in_place_of_an_index(proxy: Proxy) -> None:
    proxy.answer_next(1, Answer(200, [JSON, ELASTIC], b"{}"))
    cluster = Cluster(esdedup.Connection((proxy.url,), retry_for=0))
    proxy.answer_next(1, Answer(200, [("Content-Type", "text/html")], PAGE))
    with pytest.raises(
        esdedup.exceptions.StoreError, match=r"answer to GET /x is not a JSON object: <!doc"
    ):
        cluster.ask("GET", "/x")
    cluster.close()
