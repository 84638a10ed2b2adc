"""Writes at full rate through the proxy while nodes and proxies are killed; checks every document.

    python -m benchmarks.own.soak [--minutes 10] [--writers 4] [--days 10] [--heap 1g]
        [--proxy-options "--processes 2"] [--folder OUT]

Three nodes of Elasticsearch in three processes, and two proxies. A proxy has one upstream, so both
have the node that is not killed. Each writer has a Python client that knows both proxies, and sends
500 documents of about 400 characters at a time, with ids of its own, into the index of the day. A
day is a part of the run: its index is made by its first bulk, after an index template, with one
replica. What is refused by 429 or 503, or not answered, is sent again until it is acknowledged.

Meanwhile two nodes, one after the other, are killed by SIGKILL and started again, and so are
proxies: two by SIGTERM, one by SIGKILL. At the end, each acknowledged document must be in its
index, and have tokens, 500 of each day those that `enrich` makes. The program ends with status 1 if
anything is missing. Memory is the most that all processes of a proxy have had resident. A pause is
a time in which no document was acknowledged.

A request that is answered by another error, such as 500, is not sent again by the usual clients, so
its documents count as refused, and the run as failed.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import itertools
import json
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import elasticsearch.helpers
import numpy as np
from elasticsearch import ApiError, Elasticsearch, TransportError

import esdedup
from benchmarks.lib import measuring, servers
from benchmarks.lib.measuring import Figures
from benchmarks.lib.processes import resident_mb
from benchmarks.lib.proxies import Proxy
from benchmarks.lib.texts import Growing
from esdedup.text.arrays import I64

if TYPE_CHECKING:
    from tests.servers.cluster import Cluster

NAME = "esdedup-soak"
CHARACTERS = 400
TEXTS = 20
"""Chunks of texts. Each is used many times, with a number of its own at its end."""
BULK = 500
EXAMPLES = 10
SENT_AGAIN = (None, 429, 502, 503, 504)
"""Statuses after which documents are sent again; None if there was no answer."""
PATIENCE = 600.0
"""Seconds after which something that does not succeed ends the run."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before something is sent again, doubled each time."""
FAULTS = (
    (0.12, "proxy-1", "SIGTERM"),
    (0.22, "node-2", "SIGKILL"),
    (0.42, "proxy-2", "SIGTERM"),
    (0.52, "node-3", "SIGKILL"),
    (0.72, "proxy-1", "SIGKILL"),
)
"""When, as a share of the run; what; and how it ends."""
DOWN = 0.06
"""Share of the run that a node is down for."""


CHECKED = ("there", "lost", "without_tokens", "wrong_tokens")
"""Numbers of documents that a check counts."""


class Ledger:
    """What was acknowledged, by index, and when. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._pause = 0.0
        self.numbers: dict[str, array.array[int]] = {}
        self.longest_pause = 0.0
        self.total = 0
        self.refused: Counter[str] = Counter()
        self.sent_again: Counter[str] = Counter()

    def acknowledge(self, index: str, numbers: Sequence[int]) -> None:
        with self._lock:
            now = time.monotonic()
            if self.total:
                self._pause = max(self._pause, now - self._last)
            self.longest_pause = max(self.longest_pause, self._pause)
            self._last = now
            self.total += len(numbers)
            self.numbers.setdefault(index, array.array("q")).extend(numbers)

    def pause(self) -> float:
        """The longest pause since this was last asked, in seconds."""
        with self._lock:
            found, self._pause = max(self._pause, time.monotonic() - self._last), 0.0
            return found

    def count(self, kind: Counter[str], what: str, number: int = 1) -> None:
        with self._lock:
            kind[what] += number


@dataclass(frozen=True)
class Writing:
    """What writers share. ended: no document is begun after it is set."""

    urls: list[str]
    texts: list[str]
    numbers: Iterator[int]
    ledger: Ledger
    day: Callable[[], int] = lambda: 0
    ended: threading.Event = field(default_factory=threading.Event)

    def document(self, number: int) -> dict[str, str]:
        return {"text": f"{self.texts[number % len(self.texts)]} Number {number}."}

    def write(self) -> None:
        """Send documents until the end. What is begun is sent until it is acknowledged."""
        # Its own retries would not be counted.
        with Elasticsearch(self.urls, request_timeout=120, max_retries=0) as client:
            while not self.ended.is_set():
                self._send(client, index_of(self.day()), list(islice(self.numbers, BULK)))

    def _send(self, client: Elasticsearch, index: str, numbers: list[int]) -> None:
        pause, deadline = FIRST_PAUSE, time.monotonic() + PATIENCE
        while True:
            statuses = self._statuses(client, index, numbers)
            each = list(zip(numbers, statuses, strict=True))
            if done := [number for number, status in each if status in (200, 201)]:
                self.ledger.acknowledge(index, done)
            numbers = [number for number, status in each if status in SENT_AGAIN]
            for status in statuses:
                if status not in (200, 201, *SENT_AGAIN):
                    self.ledger.count(self.ledger.refused, str(status))
            if not numbers:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(numbers)} documents not acknowledged in {PATIENCE} s")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _statuses(self, client: Elasticsearch, index: str, numbers: list[int]) -> list[int | None]:
        """The status of each document, None if there was no answer."""
        operations: list[dict[str, Any]] = []
        for number in numbers:
            operations += [{"index": {"_id": str(number)}}, self.document(number)]
        try:
            items = client.bulk(index=index, operations=operations)["items"]
        except ApiError as error:
            found: list[int | None] = [error.meta.status] * len(numbers)
            self.ledger.count(self.ledger.sent_again, f"requests: {error.meta.status}")
        except TransportError as error:
            found = [None] * len(numbers)
            self.ledger.count(self.ledger.sent_again, f"requests: {type(error).__name__}")
        else:
            found = [item["index"]["status"] for item in items]
            for status, count in Counter(found).items():
                if status in SENT_AGAIN:
                    self.ledger.count(self.ledger.sent_again, f"documents: {status}", count)
        return found


def check(url: str, writing: Writing, index: str) -> Figures:
    """Look for the acknowledged documents of an index, and for their tokens."""
    acknowledged = np.unique(np.array(writing.ledger.numbers[index], np.int64))
    with Elasticsearch(url, request_timeout=300) as client:
        client.indices.refresh(index=index)
        having = {"exists": {"field": "esdedup.minhash"}}
        missing = np.setdiff1d(acknowledged, numbers_in(client, index, having))
        everything: dict[str, Any] = {"match_all": {}}
        there = numbers_in(client, index, everything) if missing.size else acknowledged
        lost = np.setdiff1d(missing, there)
        some = acknowledged[:: max(1, acknowledged.size // BULK)].tolist()
        made = esdedup.enrich({"_source": writing.document(number)} for number in some)
        got = client.mget(index=index, ids=list(map(str, some)))["docs"]
        pairs = zip(got, made, strict=True)
        return {
            "index": index,
            "acknowledged": int(acknowledged.size),
            "there": int(acknowledged.size - lost.size),
            "lost": int(lost.size),
            "without_tokens": int(missing.size - lost.size),
            "wrong_tokens": sum(
                one.get("_source") not in (None, other["_source"]) for one, other in pairs
            ),
            "examples": missing[:EXAMPLES].tolist(),
        }


def numbers_in(client: Elasticsearch, index: str, query: dict[str, Any]) -> I64:
    hits = elasticsearch.helpers.scan(
        client, index=index, query={"query": query}, size=10_000, _source=False
    )
    return np.fromiter((int(hit["_id"]) for hit in hits), np.int64)


def patiently(work: Callable[[], Any]) -> Any:
    """Do work again until it succeeds: nodes are killed meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return work()
        except (ApiError, TransportError, elasticsearch.helpers.ScanError) as error:
            final = isinstance(error, ApiError) and error.meta.status in (400, 404)
            if final or time.monotonic() > deadline:
                raise
            time.sleep(1)


class Run:
    """The clock of a run: its days, its faults, and the most memory of each proxy."""

    def __init__(self, cluster: Cluster, proxies: dict[str, Proxy], seconds: float) -> None:
        self._nodes = {node.name: node for node in cluster.nodes}
        self._proxies = proxies
        self._seconds = seconds
        self._begun = time.monotonic()
        self.faults: list[Figures] = []
        self.highest_mb = dict.fromkeys(proxies, 0.0)

    @property
    def at(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def go(self, writing: Writing, writers: list[Future[None]]) -> None:
        """Run to the end."""
        with ThreadPoolExecutor(1) as faults:
            planned = [faults.submit(self._fault, writing, *fault) for fault in FAULTS]
            try:
                while self.at < self._seconds or not all(each.done() for each in planned):
                    for writer in writers:
                        if writer.done():
                            writer.result()
                    for name, proxy in self._proxies.items():
                        self.highest_mb[name] = max(self.highest_mb[name], resident_mb(proxy.pid))
                    time.sleep(1)
            finally:
                writing.ended.set()
            for done in (*planned, *writers):
                done.result()

    def _fault(self, writing: Writing, share: float, name: str, how: str) -> None:
        """Wait for its time, then end a node or a proxy, and start it again."""
        if writing.ended.wait(max(0.0, share * self._seconds - self.at)):
            return
        if name in self._nodes:
            patiently(self._green)
        before = writing.ledger.pause()
        at = self.at
        figures: Figures = {"what": name, "how": how, "at_seconds": round(at, 1)}
        if name in self._nodes:
            self._nodes[name].kill()
            time.sleep(DOWN * self._seconds)
            self._nodes[name].launch()
            self._nodes[name].await_ready(len(self._nodes))
        else:
            proxy = self._proxies[name]
            figures["status"] = proxy.stop() if how == "SIGTERM" else proxy.kill()
            figures["ended_after_seconds"] = round(self.at - at, 2)
            proxy.start()
        figures["back_after_seconds"] = round(self.at - at, 1)
        figures["longest_pause_seconds"] = round(writing.ledger.pause(), 2)
        figures["longest_pause_before_seconds"] = round(before, 2)
        self.faults.append(figures)
        print(json.dumps(figures), file=sys.stderr)

    def _green(self) -> None:
        """Return when each shard has its replica, as only then may a node be lost."""
        with Elasticsearch(self._nodes["node-1"].url, request_timeout=120) as client:
            client.cluster.health(wait_for_status="green", timeout="60s")


def index_of(day: int) -> str:
    return f"{NAME}-day-{day}"


def prepare(url: str) -> None:
    """Install the templates of the days."""
    command = [*measuring.ESDEDUP, "template", "--url", url, "--index", NAME, "--install"]
    command += ["--text-field", "text"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with Elasticsearch(url) as client:
        client.indices.put_index_template(
            name=NAME,
            index_patterns=[f"{NAME}-day-*"],
            composed_of=[f"esdedup-{NAME}"],
            template={"settings": {"number_of_shards": 1, "number_of_replicas": 1}},
            priority=500,
        )


def soak(cluster: Cluster, proxies: dict[str, Proxy], options: argparse.Namespace) -> Figures:
    """The figures of a run."""
    source = Growing(CHARACTERS)
    texts = [text for number in range(TEXTS) for text in source.chunk(number)]
    url, seconds = cluster.urls[0], 60 * options.minutes
    prepare(url)
    run = Run(cluster, proxies, seconds)
    urls = [proxy.url for proxy in proxies.values()]

    def day() -> int:
        return min(int(options.days) - 1, int(run.at * options.days / seconds))

    ledger = Ledger()
    writing = Writing(urls, texts, itertools.count(), ledger, day)
    with ThreadPoolExecutor(options.writers) as pool:
        run.go(writing, [pool.submit(writing.write) for _ in range(options.writers)])
    spent = run.at
    found = [patiently(partial(check, url, writing, name)) for name in ledger.numbers]
    return {
        "seconds": round(spent, 1),
        "writers": options.writers,
        "acknowledged": ledger.total,
        "documents_a_second": round(ledger.total / spent),
        "longest_pause_seconds": round(ledger.longest_pause, 2),
        **{name: sum(day[name] for day in found) for name in CHECKED},
        "refused": dict(ledger.refused),
        "sent_again": dict(ledger.sent_again),
        "tracebacks": sum(proxy.log.count("Traceback") for proxy in proxies.values()),
        "faults": run.faults,
        "memory": [{"proxy": name, "highest_mb": mb} for name, mb in run.highest_mb.items()],
        "days": found,
    }


def bad(results: Figures) -> bool:
    """Tells if anything that was acknowledged is not as it should be, or was refused for good."""
    wrong = sum(results[name] for name in (*CHECKED[1:], "tracebacks"))
    return bool(wrong or results["refused"] or results["there"] != results["acknowledged"])


def tables(document: dict[str, Any]) -> str:
    """What was acknowledged and is there; the faults; and the memory of each proxy."""
    results = document["results"]
    lines = [
        "| minutes | acknowledged | there | lost | without tokens | wrong tokens | documents/s"
        " | longest pause, s |",
        "|" + " ---: |" * 8,
        f"| {results['seconds'] / 60:.0f} | {results['acknowledged']:,} | {results['there']:,}"
        f" | {results['lost']} | {results['without_tokens']} | {results['wrong_tokens']}"
        f" | {results['documents_a_second']:,} | {results['longest_pause_seconds']} |",
        "",
        "| fault | at, s | back after, s | longest pause, s |",
        "| --- |" + " ---: |" * 3,
    ]
    for fault in results["faults"]:
        cells = [f"{fault['what']} by {fault['how']}", f"{fault['at_seconds']:.0f}"]
        cells += [f"{fault['back_after_seconds']:.1f}", f"{fault['longest_pause_seconds']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    highest = {each["proxy"]: 0.0 for each in results["memory"]}
    for each in results["memory"]:
        highest[each["proxy"]] = max(highest[each["proxy"]], each["highest_mb"])
    lines += ["", "| memory | highest, MB |", "| --- | ---: |"]
    lines += [f"| {name} | {mb:.0f} |" for name, mb in sorted(highest.items())]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. arguments: by default those of the process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--days", type=int, default=10, help="indices, one after the other")
    parser.add_argument("--heap", default="1g", help="of each node")
    parser.add_argument("--version", help="of Elasticsearch, by default that of the tests")
    parser.add_argument("--proxy-options", default="", help="more options of esdedup proxy")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="esdedup-soak-")))
        cluster = stack.enter_context(
            servers.started("elasticsearch", options.version, 3, options.heap)
        )
        more = shlex.split(options.proxy_options)
        names = sorted({name for _, name, _ in FAULTS if name.startswith("proxy")})
        proxies = {name: Proxy(cluster.urls[0], folder, more) for name in names}
        for proxy in proxies.values():
            stack.enter_context(proxy)
        results = soak(cluster, proxies, options)
    print(json.dumps(results, indent=1))
    texts = {"name": "texts", "source": "benchmarks/lib/texts.py"}
    print(measuring.save("soak", results, [texts], folder=options.folder))
    if bad(results):
        sys.exit("acknowledged documents are not as they should be: see the results")


if __name__ == "__main__":
    main()
