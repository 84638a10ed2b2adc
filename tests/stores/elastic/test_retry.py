"""When requests are sent again, and for how long. Of items of bulk requests: test_commands.py."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from esdedup.exceptions import StoreUnavailable
from esdedup.stores.elastic.retry import Retries
from tests.helpers.commands import esdedup_command, words
from tests.helpers.indices import open_index
from tests.helpers.places import Place
from tests.helpers.processes import start_command
from tests.servers.node import Node
from tests.servers.ports import free_port
from tests.servers.proxy import Answer, Proxy

HTML = [("Content-Type", "text/html")]


def unavailable(status: int, *headers: tuple[str, str]) -> Answer:
    """The answer of a load balancer, which names no product."""
    return Answer(status, [*HTML, *headers], b"<html>Service Unavailable</html>")


@pytest.fixture
def proxy(elasticsearch_url: str) -> Iterator[Proxy]:
    with Proxy(elasticsearch_url) as made:
        yield made


@pytest.fixture
def url(elasticsearch_url: str) -> str:
    return elasticsearch_url


def failing(times: int, calls: list[float]) -> Callable[[], str]:
    def call() -> str:
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise StoreUnavailable("not ready")
        return "answer"

    return call


def test_a_call_is_made_until_it_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[float] = []
    assert Retries(60).until_answered(failing(2, calls)) == "answer"
    waits = [b - a for a, b in itertools.pairwise(calls)]
    # The upper half of 0.5 s, then of 1 s.
    assert [0.25 <= waits[0] <= 0.8, 0.5 <= waits[1] <= 1.3] == [True, True]
    # Once, and not for each attempt.
    assert caplog.messages == ["not ready; trying again for up to 60s"]


def test_the_time_runs_out() -> None:
    calls: list[float] = []
    with pytest.raises(StoreUnavailable, match=r"not ready. Gave up after 1s \(`retry_for`\)"):
        Retries(0.6).until_answered(failing(99, calls))
    assert len(calls) >= 2
    assert 0.6 <= calls[-1] - calls[0] <= 1
    calls.clear()
    with pytest.raises(StoreUnavailable, match=r"not ready$"):
        Retries(0).until_answered(failing(99, calls))
    assert len(calls) == 1


def test_the_first_request_is_sent_again(proxy: Proxy, name: str) -> None:
    for status in (429, 502, 503):
        proxy.answer_next(1, unavailable(status))
        ran = esdedup_command(proxy.url, "stats", "-i", name, status=1)
        # The answer of the cluster itself: there is no such index.
        assert name in ran.err
        assert f"not ready ({status})" in ran.err
        assert "; trying again for up to 300s" in ran.err


def test_every_request_is_sent_again(proxy: Proxy, name: str) -> None:
    with open_index(
        Place(proxy.url, name), [{"id": "1", "text": words(1)}, {"id": "2", "text": words(1)}]
    ) as index:
        works: dict[str, Callable[[], bool]] = {
            "/_stats/store": lambda: index.statistics().documents == 2,
            "/_mget": lambda: index.get("1").id == "1",
            "/_msearch": lambda: index.similar(words(1)).matches[0].id in ("1", "2"),
            "/_search": lambda: len(list(index.pairs())) == 1,
        }
        for path, work in works.items():
            proxy.answer_next(1, unavailable(502), path)
            assert work()
            assert proxy.failures_left == 0


def test_the_server_says_how_long_to_wait(proxy: Proxy) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    for asked, said in ((at, ""), ("1", ""), ("3600", "asks to wait for 3600s")):
        proxy.answer_next(1, unavailable(503, ("Retry-After", asked)))
        start = time.monotonic()
        assert said in esdedup_command(proxy.url, "stats", "--retry-for", "1m").err
        assert (0 if said else 1) <= time.monotonic() - start <= 10


def test_permanent_errors_are_not_tried_again(proxy: Proxy, name: str) -> None:
    start = time.monotonic()
    for address in (f"http://127.0.0.1:{free_port()}", "http://nowhere.invalid:9200"):
        ran = esdedup_command(address, "stats")
        assert (ran.status, "trying again" in ran.err) == (1, False)
        assert f"{address}: can't be reached" in ran.err
    for status in (400, 401, 403, 404):
        proxy.answer_next(1, unavailable(status), f"/{name}/_mapping")
        ran = esdedup_command(proxy.url, "stats", "-i", name)
        assert (ran.status, "trying again" in ran.err) == (1, False)
    assert time.monotonic() - start < 10


def test_a_request_without_an_answer_in_time(killable: Node) -> None:
    node = killable
    assert node.pid is not None
    os.kill(node.pid, signal.SIGSTOP)
    arguments = ("stats", "--url", node.url, "--timeout", "1", "-i", "late")
    process = start_command(*arguments, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert "no answer in time" in process.stderr.readline()
    os.kill(node.pid, signal.SIGCONT)
    assert "'late' at" in process.communicate(timeout=60)[1]
