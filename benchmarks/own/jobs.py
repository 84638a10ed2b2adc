"""Whole jobs on a cluster: how long they take, the client's CPU, and the number of requests.

    python -m benchmarks.own.jobs [--documents 100000] [--rounds 3] [--delays 0,5] [--mbit 0]
        [--jobs index,pairs,...] [--product elasticsearch|opensearch] [--nodes 1|3]
        [--esdedup COMMAND ...] [--json FILE]

Made-up texts with planted groups, as `benchmarks.own.groups` has them. Each command is a process of
its own; with several --esdedup, of one version each, they take turns in each round:

- `index`: the documents from a file into a new index.
- `pairs`: `pairs --threshold 0.8`, its output to a file.
- `group`: `group --threshold 0.8`.
- `backfill`: of the same documents, written without tokens before.
- `parallel_bulk`: the official client's helper with two threads writes the same documents with the
  same tokens, read from a file of the lines of bulk requests.
- `similar`: `similar --batch` of 2,000 of the texts.

Every request passes a link that counts it, and delays it and its answer by each of --delays, in
milliseconds, with at most --mbit a second each way. Figures are medians of the rounds.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.lib import servers
from benchmarks.lib.measuring import ESDEDUP, Figures, run, save
from benchmarks.lib.planted import planted
from benchmarks.lib.slow_link import Link, slow_link
from esdedup import Scheme
from esdedup.records.documents import tokens_of
from esdedup.stores.mapping import IndexMeta

INDEX = "esdedup-benchmark-jobs"
ASKED = 2_000
JOBS = ("index", "pairs", "group", "similar", "backfill", "parallel_bulk")
_BULK = """
import importlib, sys
name = sys.argv[4]
library, helpers = importlib.import_module(name), importlib.import_module(name + '.helpers')
Client = library.OpenSearch if name == 'opensearchpy' else library.Elasticsearch
client = Client(sys.argv[1])
with open(sys.argv[3], encoding='utf-8') as lines:
    pairs = (line.rstrip('\\n').split('\\t', 1) for line in lines)
    actions = ({'_index': sys.argv[2], '_id': id, '_source': source} for id, source in pairs)
    written = helpers.parallel_bulk(client, actions, thread_count=2, chunk_size=1000)
    assert all(ok for ok, _ in written)
client.indices.refresh(index=sys.argv[2])
"""


class Bench:
    """Run jobs on a server, with files made for them. library: the official client."""

    def __init__(self, texts: list[str], folder: Path, url: str, nodes: int, library: str) -> None:
        self.folder, self.url, self.nodes, self.library = folder, url, nodes, library
        self.documents = folder / "documents.jsonl"
        self.queries = folder / "queries.jsonl"
        self.lines = folder / "lines"
        meta = IndexMeta(Scheme(), ("text",))
        with self.documents.open("w", encoding="utf-8") as plain, self.lines.open("w") as full:
            for first in range(0, len(texts), 1_000):
                rows = range(first, min(first + 1_000, len(texts)))
                found = tokens_of([texts[row] for row in rows], meta.scheme)
                for row, tokens in zip(rows, found, strict=True):
                    document: dict[str, Any] = {"id": str(row), "text": texts[row]}
                    plain.write(json.dumps(document) + "\n")
                    document |= {meta.field: tokens}
                    full.write(f"{row}\t{json.dumps(document)}\n")
        with self.queries.open("w", encoding="utf-8") as asked:
            asked.writelines(json.dumps({"text": text}) + "\n" for text in texts[:ASKED])

    def ask(self, method: str, path: str, body: Any = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(request).close()

    def drop(self) -> None:
        """Delete the index. The next one gets a shard a node, and a replica on three."""
        self.ask("DELETE", f"/{INDEX}")
        settings = {"number_of_shards": self.nodes, "number_of_replicas": int(self.nodes > 1)}
        template = {"index_patterns": [INDEX], "template": {"settings": settings}}
        self.ask("PUT", f"/_index_template/{INDEX}", template)

    def measure(self, link: Link, command: list[str], name: str) -> Figures:
        before = link.requests()
        figures = run(command, self.folder / name)
        return {**figures, "requests": link.requests() - before}

    def round(self, cli: list[str], link: Link, jobs: set[str]) -> Mapping[str, Figures]:
        """Return the figures of each job of one version, through the link."""
        target = ["--url", link.url, "--index", INDEX]
        found: dict[str, Figures] = {}

        def job(name: str, *options: str) -> None:
            if name in jobs:
                found[name] = self.measure(link, [*cli, *options, *target], name)

        self.drop()
        job("index", "index", str(self.documents))
        job("pairs", "pairs", "--threshold", "0.8", "--json")
        work = str(self.folder / "work")
        job("group", "group", "--threshold", "0.8", "--json", "--work", work)
        job("similar", "similar", "--batch", str(self.queries), "--json")
        if "backfill" in jobs:
            self.drop()
            self.bulk(self.url, self.documents_as_lines())
            run([*cli, "attach", *target, "--text-field", "text"], self.folder / "attach")
            job("backfill", "backfill")
        if "parallel_bulk" in jobs:
            self.drop()
            self.ask("PUT", f"/{INDEX}")
            run([*cli, "attach", *target, "--text-field", "text"], self.folder / "attach")
            before = link.requests()
            figures = self.bulk(link.url, self.lines)
            found["parallel_bulk"] = {**figures, "requests": link.requests() - before}
        return found

    def documents_as_lines(self) -> Path:
        file = self.folder / "plain"
        if not file.exists():
            with self.documents.open() as given, file.open("w") as out:
                out.writelines(f"{json.loads(line)['id']}\t{line}" for line in given)
        return file

    def bulk(self, url: str, lines: Path) -> Figures:
        command = [sys.executable, "-c", _BULK, url, INDEX, str(lines), self.library]
        return run(command, self.folder / "bulk")


def tables(document: Mapping[str, Any]) -> str:
    """Return the figures of each job and version, a table for each delay."""
    found = {
        (one["delay_ms"], one["job"], one["version"]): one for one in document["results"]["jobs"]
    }
    delays, jobs, versions = (list(dict.fromkeys(each)) for each in zip(*found, strict=True))
    lines = []
    for delay in delays:
        lines += [
            f"| {delay} ms each way | {' | '.join(versions)} |",
            f"|---|{'---|' * len(versions)}",
        ]
        for job in jobs:
            some = (found[delay, job, version] for version in versions)
            cells = (
                f"{one['seconds']:.1f} s, {one['cpu_seconds']:.1f}, {one['requests']:.0f},"
                f" {one['peak_mb']:.0f} MB"
                for one in some
            )
            lines.append(f"| `{job}` | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delays", default="0,5", help="of the link, in milliseconds")
    parser.add_argument("--mbit", type=float, default=0.0, help="of the link; 0 for no limit")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument(
        "--esdedup", action="append", help="the command of a version; may be repeated"
    )
    parser.add_argument("--json", type=Path, help="file for the raw figures")
    servers.add_options(parser)
    options = parser.parse_args()
    versions = {file: file.split() for file in options.esdedup or ()}
    versions = versions or {"this": [*ESDEDUP]}
    jobs = set(options.jobs.split(","))
    every: dict[Any, list[Figures]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made, servers.served(options) as url:
        texts, _ = planted(options.documents)
        library = "opensearchpy" if options.product == "opensearch" else "elasticsearch"
        bench = Bench(texts, Path(made), url, options.nodes, library)
        port = int(url.rpartition(":")[2])
        for number in range(options.rounds):
            for delay in options.delays.split(","):
                for name, cli in [*versions.items()][:: 1 - 2 * (number % 2)]:
                    with slow_link(port, float(delay), options.mbit) as link:
                        for job, figures in bench.round(cli, link, jobs).items():
                            every[delay, job, name].append(figures)
                            print(delay, job, name, figures, flush=True)
    results = [
        {
            "delay_ms": delay, "job": job, "version": name,
            **{key: statistics.median(one[key] for one in some) for key in some[0]},
        }
        for (delay, job, name), some in every.items()
    ]  # fmt: skip
    print(tables({"results": {"jobs": results}}))
    if options.json is not None:
        save(
            options.json.stem,
            {"documents": options.documents, "jobs": results},
            folder=options.json.parent,
        )


if __name__ == "__main__":
    main()
