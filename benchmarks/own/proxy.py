"""Measures what the proxy costs: documents a second of official clients, direct and through it.

    python -m benchmarks.own.proxy [--documents 50000] [--rounds 3] [--cores 2] [--pin]
        [--clients python,python-parallel,javascript,go] [--proxy-options "--processes 2"]
        [--folder OUT]
    python -m benchmarks.own.proxy --stages

A node of Elasticsearch, the proxy and the client share the cores. With --pin, the proxy has the
last core for itself, and the node and the client share the others, also when the client works
directly: with two cores, the node and the client have one and the same core in all ways. A node
that runs already (--url) is not pinned. Texts are of about 400 characters, clients send them by
their bulk helpers with the helpers' defaults: Python's `helpers.bulk` (500 documents, one request
at a time) and `helpers.parallel_bulk` (four threads), JavaScript's `helpers.bulk` (5 MB, five at a
time), Go's `esutil.BulkIndexer` (5 MB, as many workers as cores). They do it in four ways:

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

--stages prints instead how long the proxy's own functions take to add tokens to a batch, in one
process and without servers: microseconds a document, the best of 25 times. The rest
of the proxy's time in the table is its work for a request: to read, store and send the body, to
look the index up, and to pass the answer on.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import esdedup
from benchmarks.lib import clients, measuring, servers
from benchmarks.lib.measuring import Figures
from benchmarks.lib.processes import cpu_seconds
from benchmarks.lib.proxies import Proxy
from benchmarks.lib.texts import CHUNK, Growing
from esdedup.proxy import rewriting
from esdedup.proxy.splice import Splicer
from esdedup.sketch.sketch import sketch, token_json
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.json_text import value_of
from esdedup.stores.mapping import IndexMeta

INDEX = "esdedup-benchmark-proxy"
CHARACTERS = 400
BATCH = 1_000
"""Documents that the proxy rewrites together."""


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
        plain = list(itertools.islice(made(), documents))
        self._write(False, plain)
        enriched = esdedup.enrich({"_source": document} for document in plain)
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

    def _write(self, ready: bool, documents: Iterable[Any]) -> None:
        with self._files[ready].open("w", encoding="utf-8") as file:
            for document in documents:
                file.write(json.dumps(document) + "\n")


def made() -> Iterator[dict[str, str]]:
    texts = Growing(CHARACTERS)
    for number in itertools.count():
        for row, text in enumerate(texts.chunk(number)):
            yield {"id": f"d{number * CHUNK + row}", "text": text}


def stages() -> Figures:
    """Microseconds a document of each stage of a batch."""
    documents = list(itertools.islice(made(), BATCH))
    lines = [({"index": {"_index": INDEX, "_id": one["id"]}}, one) for one in documents]
    body = "".join(f"{json.dumps(line)}\n" for pair in lines for line in pair).encode()
    scheme, splicer = esdedup.Scheme(), Splicer(1 << 20)
    actions = [*rewriting.bulk(io.BytesIO(body), None, len(body))]
    texts = [one["text"] for one in documents]
    sketches = sketch(texts, scheme)

    def best(work: Callable[[], Any]) -> float:
        return 1e6 / BATCH * min(timeit.repeat(work, number=1, repeat=25))

    found = {
        "read actions": best(lambda: [*rewriting.bulk(io.BytesIO(body), None, len(body))]),
        "parse documents": best(lambda: [value_of(one.body.decode()) for one in actions]),
        "sketch texts": best(lambda: sketch(texts, scheme)),
        "write tokens as JSON": best(lambda: token_json(sketches, scheme)),
    }
    spliced = best(lambda: splicer.with_tokens(actions, {INDEX: IndexMeta(scheme)}))
    found["put tokens into documents"] = spliced - sum(found.values()) + found["read actions"]
    return {name: round(each, 1) for name, each in found.items()}


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
    parser.add_argument("--pin", action="store_true", help="a core for the proxy alone")
    parser.add_argument("--clients", default=",".join(clients.NAMES))
    parser.add_argument("--proxy-options", default="", help="more options of esdedup proxy")
    parser.add_argument("--folder", type=Path, help="where the results go")
    parser.add_argument("--stages", action="store_true", help="of adding tokens, and end")
    options = parser.parse_args()
    if options.stages:
        print("\n".join(f"| {name} | {each} |" for name, each in stages().items()))
        return
    commands = {name: clients.command_of(name) for name in options.clients.split(",")}
    cores = sorted(os.sched_getaffinity(0))[: options.cores]
    if options.pin and len(cores) == 1:
        parser.error("--pin needs two cores")
    own, others = (cores[-1:], cores[:-1]) if options.pin else (cores, cores)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="esdedup-benchmark-")))
        # The processes that are started inherit the cores.
        os.sched_setaffinity(0, others)
        url = stack.enter_context(servers.served(options))
        proxy = Proxy(url, folder, shlex.split(options.proxy_options))
        os.sched_setaffinity(0, own)
        stack.enter_context(proxy)
        os.sched_setaffinity(0, others)
        bench = Bench(url, proxy, folder, options.documents)
        stack.callback(bench.close)
        rows = measured(bench, commands, options.rounds)
        versions = {"server": bench.server, **clients.versions_of(list(commands))}
    for row in rows:
        print(json.dumps(row))
    texts = {"name": "texts", "source": "benchmarks/lib/texts.py"}
    print(measuring.save("proxy", rows, [texts], versions, options.folder))


if __name__ == "__main__":
    main()
