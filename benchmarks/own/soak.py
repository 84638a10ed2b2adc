"""Writes at full rate through the proxy while nodes and proxies are killed; checks every document.

    python -m benchmarks.own.soak [--minutes 30] [--writers 4] [--days 10] [--heap 1g]
        [--proxy-options "--processes 2"] [--folder OUT]

Three nodes of Elasticsearch in three processes, and two proxies. A proxy has one upstream, so both
have the node that is not killed. Each writer has a Python client that knows both proxies, and sends
500 documents of about 400 characters at a time, with ids of its own, into the index of the day. A
day is a part of the run: its index is made by its first bulk, after an index template, with one
replica. What is refused by 429 or 503, or not answered, is sent again until it is acknowledged.

Meanwhile two nodes, one after the other, are killed by SIGKILL and started again, and so are
proxies: two by SIGTERM, one by SIGKILL. When a day is over, each acknowledged document must be in
its index, and have tokens, 500 of them those that `enrich` makes; then the index is deleted, so
that disk and heap stay bounded. The program ends with status 1 if anything is missing.

Memory is what all processes of a proxy have resident, read every few seconds. A pause is a time in
which no document was acknowledged. The clock begins at the first acknowledgement.

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
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
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
LOOKS = 120
"""Looks at memory and progress in a run."""
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
        self._numbers: dict[str, array.array[int]] = {}
        self._last = time.monotonic()
        self._pause = 0.0
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
            self._numbers.setdefault(index, array.array("q")).extend(numbers)

    def pause(self) -> float:
        """The longest pause since this was last asked, in seconds."""
        with self._lock:
            found, self._pause = max(self._pause, time.monotonic() - self._last), 0.0
            return found

    def count(self, kind: Counter[str], what: str, number: int = 1) -> None:
        with self._lock:
            kind[what] += number

    def acknowledged(self, index: str) -> I64:
        """The numbers of its documents, which are forgotten."""
        with self._lock:
            return np.unique(np.array(self._numbers.pop(index, ()), np.int64))


class Days:
    """The index of the day, and the last day of which each writer still sends documents."""

    def __init__(self, writers: int) -> None:
        self.number = 0
        self._of_writers = [0] * writers

    def index(self, writer: int) -> str:
        """The index for a writer's next documents; it sends none to earlier ones any more."""
        self._of_writers[writer] = self.number
        return self.name(self.number)

    def leave(self, writer: int) -> None:
        """Tells that a writer sends nothing any more."""
        self._of_writers[writer] = sys.maxsize

    def over(self, number: int) -> bool:
        return min(self._of_writers) > number

    @staticmethod
    def name(number: int) -> str:
        return f"{NAME}-day-{number}"


@dataclass(frozen=True)
class Writing:
    """What writers share. ended: no document is begun after it is set."""

    urls: list[str]
    texts: list[str]
    numbers: Iterator[int]
    ledger: Ledger
    days: Days
    ended: threading.Event

    def document(self, number: int) -> dict[str, str]:
        return {"text": f"{self.texts[number % len(self.texts)]} Number {number}."}

    def write(self, writer: int) -> None:
        """Send documents until the end. What is begun is sent until it is acknowledged."""
        try:
            # Its own retries would not be counted.
            with Elasticsearch(self.urls, request_timeout=120, max_retries=0) as client:
                while not self.ended.is_set():
                    index = self.days.index(writer)
                    self._send(client, index, list(itertools.islice(self.numbers, BULK)))
        finally:
            self.days.leave(writer)

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


@dataclass(frozen=True)
class Checking:
    """Checks the index of a day, by the node that is not killed."""

    url: str
    writing: Writing

    def check(self, number: int) -> Figures:
        """Wait for the end of a day, checks its documents and delete the index."""
        while not self.writing.days.over(number):
            time.sleep(0.1)
        index = Days.name(number)
        acknowledged = self.writing.ledger.acknowledged(index)
        if not acknowledged.size:
            return {"index": index, "acknowledged": 0, **dict.fromkeys(CHECKED, 0)}
        with Elasticsearch(self.url, request_timeout=300) as client:
            found = patiently(lambda: self._checked(client, index, acknowledged))
            patiently(lambda: client.indices.delete(index=index, ignore_unavailable=True))
        return {"index": index, "acknowledged": int(acknowledged.size), **found}

    def _checked(self, client: Elasticsearch, index: str, acknowledged: I64) -> Figures:
        client.indices.refresh(index=index)
        having = {"exists": {"field": "esdedup.minhash"}}
        missing = np.setdiff1d(acknowledged, self._numbers(client, index, having))
        everything: dict[str, Any] = {"match_all": {}}
        there = self._numbers(client, index, everything) if missing.size else acknowledged
        lost = np.setdiff1d(missing, there)
        return {
            "there": int(acknowledged.size - lost.size),
            "lost": int(lost.size),
            "without_tokens": int(missing.size - lost.size),
            "wrong_tokens": self._wrong(client, index, acknowledged),
            "examples": missing[:EXAMPLES].tolist(),
        }

    def _numbers(self, client: Elasticsearch, index: str, query: dict[str, Any]) -> I64:
        hits = elasticsearch.helpers.scan(
            client, index=index, query={"query": query}, size=10_000, _source=False
        )
        return np.fromiter((int(hit["_id"]) for hit in hits), np.int64)

    def _wrong(self, client: Elasticsearch, index: str, acknowledged: I64) -> int:
        """The number of documents, of some, that are not those that `enrich` makes."""
        some = acknowledged[:: max(1, acknowledged.size // BULK)].tolist()
        made = esdedup.enrich({"_source": self.writing.document(number)} for number in some)
        got = client.mget(index=index, ids=list(map(str, some)))["docs"]
        pairs = zip(got, made, strict=True)
        return sum(one.get("_source") not in (None, other["_source"]) for one, other in pairs)


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
    """The clock of a run: its days, its faults, and looks at its progress."""

    def __init__(
        self, cluster: Cluster, proxies: dict[str, Proxy], writing: Writing, seconds: float
    ) -> None:
        self._nodes = {node.name: node for node in cluster.nodes}
        self._proxies = proxies
        self._writing = writing
        self._seconds = seconds
        self._begun = time.monotonic()
        self.faults: list[Figures] = []
        self.looks: list[Figures] = []

    @property
    def _at(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def go(self, checking: Checking, days: int, writers: list[Future[None]]) -> list[Figures]:
        """Run to the end. Returns what was found of each day."""
        with ThreadPoolExecutor(1) as faults, ThreadPoolExecutor(1) as checks:
            planned = [faults.submit(self._fault, *fault) for fault in FAULTS]
            checked: list[Future[Figures]] = []
            try:
                while self._at < self._seconds or not all(each.done() for each in planned):
                    for writer in writers:
                        if writer.done():
                            writer.result()
                    day = self._writing.days.number
                    if day + 1 < days and self._at * days > self._seconds * (day + 1):
                        self._writing.days.number += 1
                        checked.append(checks.submit(checking.check, day))
                    if self._at * LOOKS > self._seconds * len(self.looks):
                        self.looks.append(self._look())
                    time.sleep(0.05)
            finally:
                self._writing.ended.set()
            checked.append(checks.submit(checking.check, self._writing.days.number))
            for each in planned:
                each.result()
            return [each.result() for each in checked]

    def _fault(self, share: float, name: str, how: str) -> None:
        """Wait for its time, then ends a node or a proxy, and start it again."""
        if self._writing.ended.wait(max(0.0, share * self._seconds - self._at)):
            return
        if name in self._nodes:
            patiently(self._green)
        before = self._writing.ledger.pause()
        at = self._at
        figures: Figures = {"what": name, "how": how, "at_seconds": round(at, 1)}
        if name in self._nodes:
            self._nodes[name].kill()
            time.sleep(DOWN * self._seconds)
            self._nodes[name].launch()
            self._nodes[name].await_ready(len(self._nodes))
        else:
            proxy = self._proxies[name]
            figures["status"] = proxy.stop() if how == "SIGTERM" else proxy.kill()
            figures["ended_after_seconds"] = round(self._at - at, 2)
            proxy.start()
        figures["back_after_seconds"] = round(self._at - at, 1)
        figures["longest_pause_seconds"] = round(self._writing.ledger.pause(), 2)
        figures["longest_pause_before_seconds"] = round(before, 2)
        self.faults.append(figures)
        print(json.dumps(figures), file=sys.stderr)

    def _green(self) -> None:
        """Return when each shard has its replica, as only then may a node be lost."""
        with Elasticsearch(self._nodes["node-1"].url, request_timeout=120) as client:
            client.cluster.health(wait_for_status="green", timeout="60s")

    def _look(self) -> Figures:
        pids = {name: each.pid for name, each in self._proxies.items()}
        sizes = {name: round(resident_mb(pid), 1) for name, pid in pids.items()}
        total = self._writing.ledger.total
        return {"seconds": round(self._at, 1), "acknowledged": total, "mb": sizes, "pids": pids}


def memory(looks: list[Figures]) -> list[Figures]:
    """The memory of each proxy between two of its starts, in MB.

    early_mb, late_mb: medians of the second and the last quarter of the looks at it. The first
    quarter is left out: a process grows until it has seen its largest bodies.
    """
    lives: dict[tuple[str, int], list[Figures]] = {}
    for look in looks:
        for name, pid in look["pids"].items():
            if look["mb"][name]:
                lives.setdefault((name, pid), []).append(look)
    found = []
    for (name, _), life in lives.items():
        sizes = [look["mb"][name] for look in life]
        if quarter := len(sizes) // 4:
            found.append(
                {"proxy": name, "from_seconds": life[0]["seconds"]}
                | {"to_seconds": life[-1]["seconds"]}
                | {"early_mb": round(statistics.median(sizes[quarter : 2 * quarter]), 1)}
                | {"late_mb": round(statistics.median(sizes[-quarter:]), 1)}
                | {"highest_mb": max(sizes)}
            )
    return found


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
    urls = [proxy.url for proxy in proxies.values()]
    ledger, days = Ledger(), Days(options.writers)
    writing = Writing(urls, texts, itertools.count(), ledger, days, threading.Event())
    with ThreadPoolExecutor(options.writers) as pool:
        writers = [pool.submit(writing.write, number) for number in range(options.writers)]
        # The first index takes nodes that have just started seconds.
        while not ledger.total and not any(writer.done() for writer in writers):
            time.sleep(0.1)
        run = Run(cluster, proxies, writing, seconds)
        found = run.go(Checking(url, writing), options.days, writers)
    last = run.looks[-1]
    return {
        "seconds": last["seconds"],
        "writers": options.writers,
        "acknowledged": ledger.total,
        "documents_a_second": round(last["acknowledged"] / last["seconds"]),
        "longest_pause_seconds": round(ledger.longest_pause, 2),
        **{name: sum(day[name] for day in found) for name in CHECKED},
        "refused": dict(ledger.refused),
        "sent_again": dict(ledger.sent_again),
        "tracebacks": sum(proxy.log.count("Traceback") for proxy in proxies.values()),
        "faults": run.faults,
        "memory": memory(run.looks),
        "days": found,
        "looks": [{k: v for k, v in look.items() if k != "pids"} for look in run.looks],
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
    lines += ["", "| memory | from, s | to, s | early, MB | late, MB | highest, MB |"]
    lines.append("| --- |" + " ---: |" * 5)
    for life in results["memory"]:
        cells = [life["proxy"], f"{life['from_seconds']:.0f}", f"{life['to_seconds']:.0f}"]
        cells += [f"{life[name]:.0f}" for name in ("early_mb", "late_mb", "highest_mb")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--days", type=int, default=10, help="indices, one after the other")
    parser.add_argument("--heap", default="1g", help="of each node")
    parser.add_argument("--version", help="of Elasticsearch, by default that of the tests")
    parser.add_argument("--proxy-options", default="", help="more options of esdedup proxy")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
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
    shown = {name: value for name, value in results.items() if name != "looks"}
    print(json.dumps(shown, indent=1))
    texts = {"name": "texts", "source": "benchmarks/lib/texts.py"}
    print(measuring.save("soak", results, [texts], folder=options.folder))
    if bad(results):
        sys.exit("acknowledged documents are not as they should be: see the results")


if __name__ == "__main__":
    main()
