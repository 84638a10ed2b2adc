"""The service of the page on web services, on both products, and threads that share an index."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

import esdedup
from tests.helpers.places import STORES, Place
from tests.servers.proxy import Proxy, product_of
from tools.docs import ROOT, blocks_of

PAGE = ROOT / "docs" / "how-to" / "web-services.md"
TICKETS = {
    "a": "The printer on the second floor prints blank pages since the update on Monday morning",
    "b": "The printer on the second floor prints blank pages since the update on Monday evening",
    "c": "The door of the server room does not open any more with the cards of the night shift",
}
THREADS = 8


def application(product: str) -> Any:
    """Return the service of the page, with the client of a product."""
    (source,) = (block.body for block in blocks_of(PAGE.read_text("utf-8")) if block.title)
    # A request that a busy machine does not answer in time would be repeated.
    source = source.replace("timeout=5, retry_for=2", "timeout=60, retry_for=0.2")
    assert "retry_for=0.2" in source
    if product == "opensearch":
        source = source.replace("from elasticsearch", "from opensearchpy")
        source = source.replace("Elasticsearch", "OpenSearch")
    names: dict[str, Any] = {}
    exec(compile(source, str(PAGE), "exec"), names)
    return names["app"]


@asynccontextmanager
async def visiting(application: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Start a service, and yield a client of it."""
    transport = httpx.ASGITransport(application)
    async with (
        application.router.lifespan_context(application),
        httpx.AsyncClient(transport=transport, base_url="http://service") as visitor,
    ):
        yield visitor


# The application's own client is that of its server: Elasticsearch 8 rejects version 9.
@pytest.mark.on_every_server
@pytest.mark.parametrize("place", ["elasticsearch", "opensearch"], indirect=True)
def test_the_service_searches_and_reports_a_cluster_that_is_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = product_of(str(place.target))

    def hang_up(_: object) -> None:
        raise ConnectionError("the cluster is gone")

    async def visit(cluster: Proxy) -> None:
        async with visiting(application(product)) as visitor:
            for id, text in TICKETS.items():
                written = await visitor.post("/tickets", json={"id": id, "text": text})
                assert (written.status_code, written.json()) == (201, {"created": 1})
            params = {"text": TICKETS["a"]}
            similar = await visitor.get("/similar", params=params)
            assert [match["id"] for match in similar.json()] == ["a", "b"]
            nearest = await visitor.get("/nearest", params=params)
            assert nearest.json()[:2] == similar.json()
            assert (await visitor.get("/health")).json() == {"documents": 3}
            out_of_bounds = {**params, "threshold": "2"}
            assert (await visitor.get("/similar", params=out_of_bounds)).status_code == 422

            intact, cluster.on_request = cluster.on_request, hang_up
            for path in ("/similar", "/nearest", "/health"):
                gone = await visitor.get(path, params=params)
                assert (gone.status_code, gone.headers["retry-after"]) == (503, "5"), path
            # Nothing is opened again.
            cluster.on_request = intact
            assert (await visitor.get("/similar", params=params)).json() == similar.json()

    with Proxy(str(place.target), product) as cluster:
        monkeypatch.setenv("ESDEDUP_URL", cluster.url)
        monkeypatch.setenv("ESDEDUP_INDEX", place.index)
        asyncio.run(visit(cluster))


@pytest.mark.on_every_server
@pytest.mark.parametrize("place", STORES, indirect=True)
def test_eight_threads_share_an_index(place: Place) -> None:
    def text_of(thread: int, number: int) -> str:
        """Return a text that shares some words with those of the other threads."""
        return f"ticket {thread} of {number} " + " ".join(
            f"word{thread}x{number}x{at}" for at in range(20)
        )

    with esdedup.open(place.target, place.index) as index:

        def work(thread: int) -> list[list[str]]:
            matches = []
            for number in range(3):
                texts = {f"{thread}-{number}-{copy}": text_of(thread, number) for copy in "ab"}
                index.add([{"id": id, "text": text} for id, text in texts.items()])
                result = index.similar(text_of(thread, number), threshold=0.9)
                matches.append(sorted(match.id for match in result))
            return matches

        with ThreadPoolExecutor(THREADS) as pool:
            matches = [*pool.map(work, range(THREADS))]
        assert matches == [
            [[f"{thread}-{number}-{copy}" for copy in "ab"] for number in range(3)]
            for thread in range(THREADS)
        ]
        assert index.statistics().documents == THREADS * 6
        searches: list[Callable[[], object]] = [
            lambda: index.similar(text_of(0, 0)).matches[0].similarity,
            lambda: index.get("1-1-a").source["text"],
            lambda: len(index.pairs(threshold=0.9)),
        ]
        with ThreadPoolExecutor(THREADS) as pool:
            answers = [*pool.map(lambda search: search(), searches * THREADS)]
        assert answers == [1.0, text_of(1, 1), THREADS * 3] * THREADS
