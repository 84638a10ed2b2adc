"""Measures what the proxy costs: documents a second of official clients, direct and through it.

    python -m benchmarks.own.proxy [--documents 50000] [--rounds 3] [--cores 2]
        [--clients python,python-parallel,javascript,go] [--proxy-options "--processes 2"]
        [--folder OUT] [--profile]

A node of Elasticsearch, the proxy and the client share the cores. Texts are of about 400
characters, clients send them by their bulk helpers with the helpers' defaults: Python's
`helpers.bulk` (500 documents, one request at a time) and `helpers.parallel_bulk` (four threads),
JavaScript's `helpers.bulk` (5 MB, five at a time), Go's `esutil.BulkIndexer` (5 MB, as many
workers as cores). They do it in four ways:

    plain      direct, into an index without token fields
    passed     the same through the proxy, which passes it on
    tokens     direct, into an index with a scheme; documents bring tokens that were made before
    added      through the proxy, which adds them

So the index does the same work in `plain` and `passed`, and in `tokens` and `added`. Clients and
ways take turns, each run goes into a new index, and medians of the rounds count. One round of all
ways by one client warms the node up, and is not counted. Processor time is that from the first
request to the last answer, of the client, of the proxy with all its processes, and of the node;
merges that go on later are in nobody's figures. After each run all documents, and tokens in each of
them, are counted.

--profile: samples the proxy with py-spy (pip install py-spy) while each client sends in the way
`added`, and prints where its processor time goes, in microseconds a document. It measures nothing
else, and saves nothing.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import esdedup
from benchmarks.lib import clients, measuring, servers
from benchmarks.lib.measuring import Figures
from benchmarks.lib.processes import cpu_seconds
from benchmarks.lib.proxies import Proxy
from benchmarks.lib.texts import CHUNK, Growing
from esdedup.stores.elastic.store import ClusterStore

INDEX = "esdedup-benchmark-proxy"
CHARACTERS = 400
SAMPLES = 200
"""Samples of the proxy's stacks a second."""


@dataclass(frozen=True)
class Way:
    """scheme: the index has one. ready: documents bring their tokens. proxied: through the proxy.

    beside: the way in which the index does the same work.
    """

    scheme: bool
    ready: bool
    proxied: bool
    beside: str


WAYS = {
    "plain": Way(scheme=False, ready=False, proxied=False, beside="plain"),
    "passed": Way(scheme=False, ready=False, proxied=True, beside="plain"),
    "tokens": Way(scheme=True, ready=True, proxied=False, beside="tokens"),
    "added": Way(scheme=True, ready=False, proxied=True, beside="tokens"),
}


class Bench:
    """A node, the proxy before it, and two files of documents: as they are, and with tokens."""

    def __init__(self, url: str, proxy: Proxy, folder: Path, documents: int) -> None:
        self.url = url
        self.proxy = proxy
        self.documents = documents
        self.index = esdedup.open(url, INDEX, timeout=300)
        assert isinstance(self.index.store, ClusterStore)
        self._client = self.index.store.cluster
        (node,) = self.ask("GET", "/_nodes/process")["nodes"].values()
        self.node = int(node["process"]["id"])
        self.server = f"{self._client.product.split()[0]} {node['version']}"
        self._files = {True: folder / "tokens.jsonl", False: folder / "plain.jsonl"}
        made = list(itertools.islice(self._made(), documents))
        self._write(False, made)
        enriched = esdedup.enrich({"_source": document} for document in made)
        self._write(True, (action["_source"] for action in enriched))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return self._client.request(method, path, body, {}, frozenset({404}))[1]

    def run(self, command: list[str], way: Way) -> Figures:
        """One run into a new index; ends the program unless all that was sent is there."""
        self.ask("DELETE", f"/{INDEX}")
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        self.ask("PUT", f"/{INDEX}", {"settings": settings})
        if way.scheme:
            self.index.create()
        target = self.proxy.url if way.proxied else self.url
        figures = self._sent([*command, target, INDEX, str(self._files[way.ready])])
        self.ask("POST", f"/{INDEX}/_refresh")
        having = {"query": {"exists": {"field": "esdedup.minhash"}}}
        counts = (
            self.ask("GET", f"/{INDEX}/_count")["count"],
            self.ask("POST", f"/{INDEX}/_count", having)["count"],
        )
        if counts != (self.documents, self.documents * way.scheme):
            sys.exit(f"{command}: {counts[0]} documents, {counts[1]} with tokens; {figures}")
        return figures

    def close(self) -> None:
        self.ask("DELETE", f"/{INDEX}")
        self.index.close()

    def _sent(self, command: list[str]) -> Figures:
        """Documents a second of a client, and microseconds of each process for a document."""
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            pids = {"client": process.pid, "proxy": self.proxy.pid, "node": self.node}
            if not process.stdout.readline():
                sys.exit(f"{shlex.join(command)} did not start")
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            began = time.perf_counter()
            process.stdin.write("\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            seconds = time.perf_counter() - began
            after = {name: cpu_seconds(pid) for name, pid in pids.items()}
        if not answer or json.loads(answer)["written"] != self.documents:
            sys.exit(f"{shlex.join(command)}: {answer}")
        spent = {f"{name}_us": 1e6 * (after[name] - before[name]) / self.documents for name in pids}
        return {"docs_a_second": self.documents / seconds, **spent}

    def _made(self) -> Iterator[dict[str, str]]:
        texts = Growing(CHARACTERS)
        for number in itertools.count():
            for row, text in enumerate(texts.chunk(number)):
                yield {"id": f"d{number * CHUNK + row}", "text": text}

    def _write(self, ready: bool, documents: Iterable[Any]) -> None:
        with self._files[ready].open("w", encoding="utf-8") as file:
            for document in documents:
                file.write(json.dumps(document) + "\n")


def measured(bench: Bench, commands: dict[str, list[str]], rounds: int) -> list[Figures]:
    """The median figures of each client and way, and the lowest and highest rate."""
    for way in WAYS.values():
        bench.run(next(iter(commands.values())), way)
    found: dict[tuple[str, str], list[Figures]] = {(c, w): [] for c in commands for w in WAYS}
    for number in range(rounds):
        for client, command in commands.items():
            # Each way is the first of its client as often as the others.
            for name in turned(list(WAYS), number):
                figures = bench.run(command, WAYS[name])
                found[client, name].append(figures)
                print(json.dumps({"client": client, "way": name, **figures}), file=sys.stderr)
    return [
        {"client": client, "way": name, "documents": bench.documents, "rounds": rounds}
        | summary(each, found[client, WAYS[name].beside])
        for (client, name), each in found.items()
    ]


def summary(each: list[Figures], beside: list[Figures]) -> Figures:
    """Medians of rounds. share: of the rate of the same round in the way beside."""
    middle = {name: round(statistics.median(one[name] for one in each), 1) for name in each[0]}
    rates = [one["docs_a_second"] for one in each]
    others = [one["docs_a_second"] for one in beside]
    shares = [rate / other for rate, other in zip(rates, others, strict=True)]
    return {
        **middle,
        "lowest": round(min(rates), 1),
        "highest": round(max(rates), 1),
        "share": round(statistics.median(shares), 3),
    }


def turned(names: list[str], by: int) -> list[str]:
    by %= len(names)
    return names[by:] + names[:by]


PARTS = (
    ("upstream side of HTTP", ("httpx/", "httpcore/")),
    ("clients' side of HTTP", ("uvicorn/protocols/", "esdedup/proxy/http.py")),
    ("JSON", ("json/",)),
    ("sketch", ("esdedup/sketch/", "esdedup/text/", "esdedup/ingest/", "numpy/")),
    ("splice", ("esdedup/proxy/splice.py",)),
    ("lines of _bulk", ("esdedup/proxy/actions.py",)),
    ("the rest of the proxy", ("esdedup/proxy/",)),
)
"""Parts of the proxy's work by the files of its code. A sample counts for the innermost frame that
is in one of them; what is in none is the event loop and the threads."""
OTHER = "event loop, threads"
WAITS = ("_worker (concurrent/futures/thread.py", ".select (selectors.py")
"""Innermost frames of threads that wait, which py-spy does not always know."""


def parts_of(stacks: Iterable[str]) -> dict[str, float]:
    """The share of each part in samples. stacks: lines of py-spy's format `raw`."""
    counts: collections.Counter[str] = collections.Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if not any(wait in frames[-1] for wait in WAITS):
            found = filter(None, map(part_of, reversed(frames)))
            counts[next(found, OTHER)] += int(count)
    total = counts.total() or 1
    return {name: counts[name] / total for name in (*(name for name, _ in PARTS), OTHER)}


def part_of(frame: str) -> str | None:
    return next((name for name, files in PARTS if any(file in frame for file in files)), None)


def profile(bench: Bench, commands: dict[str, list[str]], folder: Path) -> None:
    """Print where the proxy's processor time goes, by client."""
    spy = shutil.which("py-spy")
    if spy is None:
        sys.exit("--profile needs py-spy: pip install py-spy")
    bench.run(next(iter(commands.values())), WAYS["added"])
    for client, command in commands.items():
        out = folder / f"{client}.stacks"
        recording = [spy, "record", "--pid", str(bench.proxy.pid), "--subprocesses"]
        recording += ["--rate", str(SAMPLES), "--format", "raw", "--output", str(out)]
        with subprocess.Popen(
            [*recording, "--duration", "unlimited"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as sampling:
            figures = bench.run(command, WAYS["added"])
            sampling.send_signal(signal.SIGINT)
            sampling.wait()
        print(f"{client}: {figures['proxy_us']:.1f} us a document in the proxy")
        for part, share in parts_of(out.read_text("utf-8").splitlines()).items():
            print(f"  {part:25}{figures['proxy_us'] * share:8.1f} us{100 * share:6.0f}%")


def tables(document: dict[str, Any]) -> str:
    """Documents a second by client and way, and processor time of a document."""
    lines = [
        "| client | way | documents/s | lowest to highest | of direct | client, µs | proxy, µs"
        " | node, µs |",
        "| --- | --- |" + " ---: |" * 6,
    ]
    for row in document["results"]:
        proxied = WAYS[row["way"]].proxied
        cells = [row["client"], row["way"], f"{row['docs_a_second']:,.0f}"]
        cells += [f"{row['lowest']:,.0f} to {row['highest']:,.0f}"]
        cells += [f"{100 * row['share']:.0f}%" if proxied else ""]
        cells += [f"{row['client_us']:.0f}", f"{row['proxy_us']:.0f}" if proxied else ""]
        cells += [f"{row['node_us']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    servers.add_options(parser)
    parser.add_argument("--documents", type=int, default=50_000, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2, help="for all processes together")
    parser.add_argument("--clients", default=",".join(clients.NAMES))
    parser.add_argument("--proxy-options", default="", help="more options of esdedup proxy")
    parser.add_argument("--profile", action="store_true", help="profile the proxy, and no more")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    commands = {name: clients.command_of(name) for name in options.clients.split(",")}
    # The processes that are started inherit it.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="esdedup-benchmark-")))
        url = stack.enter_context(servers.served(options))
        proxy = Proxy(url, folder, shlex.split(options.proxy_options))
        stack.enter_context(proxy)
        bench = Bench(url, proxy, folder, options.documents)
        stack.callback(bench.close)
        if options.profile:
            profile(bench, commands, folder)
            return
        rows = measured(bench, commands, options.rounds)
        versions = {"server": bench.server, **clients.versions_of(list(commands))}
    for row in rows:
        print(json.dumps(row))
    texts = {"name": "texts", "source": "benchmarks/lib/texts.py"}
    print(measuring.save("proxy", rows, [texts], versions, options.folder))


if __name__ == "__main__":
    main()
