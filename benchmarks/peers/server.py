"""Tokens that the server computes beside its other ways to search: found, bytes, time and CPU.

    python -m benchmarks.peers.server [--documents 100000] [--queries 500] [--without-min-hash]
        [--product opensearch] [--version VERSION] [--heap 1g] [--name NAME] [--folder FOLDER]

Made-up texts with planted groups, as `benchmarks.own.groups` has them, but copies have up to
sixteen words replaced, so that they are at all similarities. Random documents are asked for, one by
one, and left out of their own answers; the ten first answers count. To be found are the documents
at an exact Jaccard similarity of 0.5 and above, of word 3-shingles.

- more_like_this: the query of Elastic's documentation, at most 12 terms that a text has once at
  least, and the server's other defaults.
- min_hash: the analyzer of Elastic's documentation of the filter, which is 512 buckets of
  5-shingles with rotation, and a match query, as it has no other.
- esdedup: the default bands of MinHash, and the kind `server`.

The methods of the server know no threshold, so ten answers have what is similar and others.
*First*: the share of what is to be found among as many first answers as there are to be found.
CPU seconds are those of the server's process and of this one, its client, with the merge to one
segment.
"""

import argparse
import functools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.measuring import Figures
from benchmarks.lib.planted import planted, triples
from benchmarks.lib.processes import cpu_seconds
from benchmarks.lib.scoring import scores
from benchmarks.lib.servers import add_options, started
from benchmarks.peers.ways import INDEX, SETTINGS, filled, merge, remove
from esdedup.stores.elastic.store import ClusterStore

THRESHOLD = 0.5
TOP = 10
WARM = 200
EDITS = 16
DOCUMENTED = {
    "filter": {
        "five": {
            "type": "shingle",
            "min_shingle_size": 5,
            "max_shingle_size": 5,
            "output_unigrams": False,
        },
        "smallest": {
            "type": "min_hash",
            "hash_count": 1,
            "bucket_count": 512,
            "hash_set_size": 1,
            "with_rotation": True,
        },
    },
    "analyzer": {"signature": {"tokenizer": "standard", "filter": ["five", "smallest"]}},
}

Ask = Callable[[str, int], list[int]]
"""The rows that are found for a text, which is that of a row; the best first."""
Fill = Callable[[], tuple[float, int]]
"""Seconds until all documents can be found, and bytes on disk after a merge to one segment."""


@dataclass(frozen=True)
class Task:
    """Texts, and the rows to ask for, with the rows to be found for each."""

    texts: list[str]
    asked: list[int]
    near: list[set[int]]


def task(documents: int, queries: int) -> Task:
    texts, groups = planted(documents, edits=EDITS)
    members = defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    asked = np.random.default_rng(5).permutation(documents)[: queries + WARM].tolist()
    near = []
    for row in asked:
        own = triples(texts[row])
        others = {other: triples(texts[other]) for other in members[groups[row]] if other != row}
        near.append({o for o, s in others.items() if len(own & s) >= THRESHOLD * len(own | s)})
    return Task(texts, asked, near)


def of_server(store: ClusterStore, query: Callable[[str], Figures]) -> Ask:
    def ask(text: str, row: int) -> list[int]:
        body: Figures = {"size": TOP + 1, "_source": False, "query": query(text)}
        _, answer = store.cluster.request("POST", f"/{INDEX}/_search", body)
        rows = [int(hit["_id"]) for hit in answer["hits"]["hits"]]
        return [each for each in rows if each != row][:TOP]

    return ask


def of_esdedup(index: esdedup.Index) -> Ask:
    limits = esdedup.Limits(threshold=THRESHOLD, k=TOP)

    def ask(text: str, row: int) -> list[int]:
        (result,) = index.similar_many([esdedup.Query(text, str(row))], limits)
        return [int(match.id) for match in result.matches]

    return ask


def measure(task: Task, url: str, pid: int, documented: bool) -> Iterator[Figures]:
    """A row for the texts alone, and one for each method. documented: min_hash too."""

    def measured(method: str, ask: Ask | None, fill: Fill) -> Figures:
        server, client = cpu_seconds(pid), time.process_time()
        seconds, size = fill()
        row = {
            "method": method,
            "bytes_per_document": round(size / len(task.texts)),
            "documents_per_second": round(len(task.texts) / seconds),
            "server_cpu_seconds": round(cpu_seconds(pid) - server, 1),
            "client_cpu_seconds": round(time.process_time() - client, 1),
        }
        return row | (asked(task, ask, pid) if ask else {})

    def own(index: esdedup.Index) -> tuple[float, int]:
        began = time.perf_counter()
        index.add({"id": str(row), "text": text} for row, text in enumerate(task.texts))
        seconds = time.perf_counter() - began
        merge(cast(ClusterStore, index.store))
        return seconds, index.statistics().bytes

    with esdedup.open(url, INDEX, timeout=900.0) as index:
        store = cast(ClusterStore, index.store)
        template = {"index_patterns": [INDEX], "template": {"settings": SETTINGS}}
        store.cluster.ask("PUT", f"/_index_template/{INDEX}", template)

        def plain(field: Figures, analysis: Figures) -> Fill:
            return lambda: filled(store, task.texts, {"type": "text"} | field, analysis)

        yield measured("the texts alone", None, plain({"index": False}, {}))
        like: Figures = {"fields": ["text"], "min_term_freq": 1, "max_query_terms": 12}
        more = of_server(store, lambda text: {"more_like_this": {**like, "like": text}})
        yield measured("more_like_this", more, plain({}, {}))
        if documented:
            match = of_server(store, lambda text: {"match": {"text": text}})
            yield measured("min_hash, match", match, plain({"analyzer": "signature"}, DOCUMENTED))
        remove(store)
    for method, sketch in (("MinHash", esdedup.MinHash()), ("Server", esdedup.Server())):
        with esdedup.open(url, INDEX, scheme=esdedup.Scheme([sketch])) as index:
            yield measured(f"esdedup, {method}", of_esdedup(index), functools.partial(own, index))
            remove(cast(ClusterStore, index.store))


def asked(task: Task, ask: Ask, pid: int) -> Figures:
    right = found = true = first = 0
    times: list[float] = []
    for number, (row, near) in enumerate(zip(task.asked, task.near, strict=True)):
        if number == WARM:
            server, client = cpu_seconds(pid), time.process_time()
        began = time.perf_counter()
        rows = ask(task.texts[row], row)
        if number >= WARM:
            times.append(1e3 * (time.perf_counter() - began))
            right, found, true = right + len(near & {*rows}), found + len(rows), true + len(near)
            first += len(near & {*rows[: len(near)]})
    figures = {name: round(value, 4) for name, value in scores(right, found, true).items()}
    return {
        **figures,
        "first": round(first / true, 4),
        "median_ms": round(float(np.median(times)), 2),
        "p99_ms": round(float(np.quantile(times, 0.99)), 2),
        "server_cpu_ms": round(1e3 * (cpu_seconds(pid) - server) / len(times), 2),
        "client_cpu_ms": round(1e3 * (time.process_time() - client) / len(times), 2),
    }


COLUMNS = {
    "recall": ("recall", ".4f"),
    "precision": ("precision", ".4f"),
    "F1": ("f1", ".4f"),
    "first": ("first", ".4f"),
    "bytes/document": ("bytes_per_document", ",d"),
    "documents/s": ("documents_per_second", ",d"),
    "indexing, CPU s of server": ("server_cpu_seconds", ",.1f"),
    "of client": ("client_cpu_seconds", ",.1f"),
    "query, median ms": ("median_ms", ".2f"),
    "p99 ms": ("p99_ms", ".2f"),
    "CPU ms of server": ("server_cpu_ms", ".2f"),
    "of client ": ("client_cpu_ms", ".2f"),
}


def tables(document: dict[str, Any]) -> str:
    """A row for each method."""
    results = document["results"]
    lines = [
        f"{results['documents']:,} documents, {results['queries']} queries on {results['product']},"
        f" to which {results['near']:,} documents are to be found.\n",
        f"| method | {' | '.join(name.strip() for name in COLUMNS)} |",
        f"|---|{'---:|' * len(COLUMNS)}",
    ]
    for row in results["methods"]:
        cells = [f"{row[key]:{form}}" if key in row else "–" for key, form in COLUMNS.values()]
        lines.append(f"| {row['method']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="for the results")
    parser.add_argument("--name", default="server", help="of the file of results")
    parser.add_argument("--without-min-hash", action="store_true", help="it takes the longest")
    add_options(parser)
    parser.set_defaults(product="opensearch")
    options = parser.parse_args()
    made = task(options.documents, options.queries)
    results: Figures = {
        "documents": options.documents,
        "queries": options.queries,
        "product": options.product,
        "near": sum(map(len, made.near[WARM:])),
        "methods": [],
    }
    with started(options.product, options.version, 1, options.heap) as cluster:
        pid = cluster.nodes[0].pid
        assert pid is not None
        for row in measure(made, cluster.urls[0], pid, not options.without_min_hash):
            results["methods"].append(row)
            print(json.dumps(row), flush=True)
    measuring.save(options.name, results, folder=options.folder)


if __name__ == "__main__":
    main()
