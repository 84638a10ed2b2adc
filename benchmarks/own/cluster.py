"""How an index grows: bytes, ingest rate, queries, recall and memory at 10,000 to 10^6 documents.

    python -m benchmarks.own.cluster [--product elasticsearch|opensearch] [--nodes 1|3]
        [--sizes 10000,30000,100000,300000,1000000] [--url URL] [--json FILE]

Starts the nodes that it needs, or takes a server that runs. Made-up texts of about 400 characters,
every tenth an edited copy of the one before it, go into one index that grows from size to size, a
shard and no replica on one node, a shard a node and one replica on three. The time that making
texts takes is not counted. At each size:

- Ingest: documents a second by `Index.add` since the last size; and, up to 100,000 documents, of
  the same ones written by the same store without tokens into another index.
- Size: the primaries' store, as ingested once merges rest, and merged to one segment.
- Queries: 200 edited copies of indexed documents, none of them in the index, each a whole call of
  `Index.similar` by the client's clock, sketching and verifying included. Beside each, in turn, a
  plain `terms` query of the same tokens, which matches the same documents, with the same number of
  hits and their `_source` without tokens. The time of the recall query of `similar` alone is in the
  JSON as `recall_ms`. All run once before they are timed.
- Recall: 1,000 more such copies; the share whose original is recalled, beside the
  mean of the S-curve at the pairs' exact Jaccard similarities.
- Memory: the most that this process had resident so far.

The raw figures are written after each size. The indices are deleted at the end.
"""

import argparse
import functools
import itertools
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import esdedup
from benchmarks.lib import servers
from benchmarks.lib.texts import CHUNK, Growing
from esdedup.models import CandidateQuery, Document, Query
from esdedup.search.candidates import candidate_queries
from esdedup.sketch.banding import expected_recall
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import shingle_sets, sketch
from esdedup.stores.elastic.queries import candidates_body, unread_paths
from esdedup.stores.elastic.store import ClusterStore
from esdedup.text.jaccard import jaccard

INDEX = "esdedup-benchmark-scale"
PLAIN = "esdedup-benchmark-scale-plain"
PLAIN_LIMIT = 100_000
CHARACTERS = 400
QUERIES = 200
COPIES = 1_000
A_CHUNK = 20
BATCH = 10_000
"""Documents a write, as `Index.add` makes them."""

Figures = dict[str, Any]


class Bench:
    """The two indices, and the texts of queries to them."""

    def __init__(self, url: str, texts: Growing) -> None:
        self.index = esdedup.open(url, INDEX, timeout=1_800.0)
        self.plain = esdedup.open(url, PLAIN, timeout=1_800.0)
        assert isinstance(self.index.store, ClusterStore)
        self.cluster = self.index.store.cluster
        self.texts = texts

    def ask(self, method: str, path: str, body: Any = None, **params: str) -> Any:
        return self.cluster.request(method, path, body, params, frozenset({404}))[1]

    def create(self, nodes: int) -> None:
        settings = {
            "number_of_shards": nodes,
            "number_of_replicas": int(nodes > 1),
            # By default sizes are up to 10 seconds old.
            "store.stats_refresh_interval": "0s",
        }
        for name in (INDEX, PLAIN):
            self.ask("DELETE", f"/{name}")
            self.ask("PUT", f"/{name}", {"settings": settings})
            self.ask("GET", f"/_cluster/health/{name}", wait_for_status="green")
        self.index.create()

    def drop(self) -> None:
        for name in (INDEX, PLAIN):
            self.ask("DELETE", f"/{name}")
        self.plain.close()
        self.index.close()

    def ingest(self, start: int, stop: int, *, tokens: bool = True) -> float:
        """Documents a second, with tokens or without. The time of making texts is not counted."""
        seconds = 0.0
        for first in range(start, stop, BATCH):
            batch = [
                {"id": f"d{first + row}", "text": text}
                for row, text in enumerate(self._texts_of(first, min(first + BATCH, stop)))
            ]
            began = time.perf_counter()
            if tokens:
                self.index.add(batch)
            else:
                report = self.plain.store.write([Document(one["id"], one) for one in batch])
                assert report.created == len(batch), report
            seconds += time.perf_counter() - began
        if not tokens:
            self.plain.store.refresh()
        return (stop - start) / seconds

    def _texts_of(self, start: int, stop: int) -> list[str]:
        chunks = range(start // CHUNK, -(-stop // CHUNK))
        texts = itertools.chain.from_iterable(map(self.texts.chunk, chunks))
        return [*itertools.islice(texts, start % CHUNK, stop - start + start % CHUNK)]

    def store_bytes(self, name: str, *, merge: bool = False) -> int:
        """The size of the primaries' store once segments come and go no more."""
        if merge:
            self.ask("POST", f"/{name}/_forcemerge", max_num_segments="1")
        last = None
        # Files stay as long as the last commit or an open reader holds them.
        self.ask("POST", f"/{name}/_flush")
        while True:
            self.ask("POST", f"/{name}/_refresh")
            stats = self.ask("GET", f"/{name}/_stats/store,segments,merge")["_all"]["primaries"]
            size = int(stats["store"]["size_in_bytes"])
            now = (stats["segments"]["count"], size)
            if now == last and not stats["merges"]["current"]:
                return size
            last = now
            time.sleep(1.0)

    def copies(self, size: int, count: int, seed: int) -> tuple[list[str], list[str], list[str]]:
        """Edited copies of documents below `size`, the originals' ids, and their texts."""
        rng = np.random.default_rng([seed, size])
        copies: list[str] = []
        ids: list[str] = []
        originals: list[str] = []
        while len(ids) < count:
            first = int(rng.integers(0, max(1, size // CHUNK))) * CHUNK
            chunk = self.texts.chunk(first // CHUNK)
            for row in rng.integers(0, min(CHUNK, size - first), A_CHUNK).tolist():
                copies.append(self.texts.copy(chunk[row], rng))
                ids.append(f"d{first + row}")
                originals.append(chunk[row])
        return copies[:count], ids[:count], originals[:count]

    def terms_bodies(self, texts: list[str], hits: list[int]) -> list[Figures]:
        """Plain queries for the documents that hold a text's tokens."""
        meta = self.index.meta
        return [
            {
                "query": {"terms": {f"{meta.field}.minhash": [*itertools.chain(*one.groups)]}},
                "size": max(1, size),
                "_source": {"excludes": unread_paths([])},
            }
            for one, size in zip(self._recalls(texts), hits, strict=True)
        ]

    def queries(self, size: int) -> Figures:
        """Times of `similar` and of plain queries side by side, and the candidates they meet."""
        texts, _, _ = self.copies(size, QUERIES, 2)
        candidates = [self.index.similar(text).candidates for text in texts]
        bodies = self.terms_bodies(texts, candidates)
        for body, hits in zip(bodies, candidates, strict=True):
            # Both queries must match the same documents.
            assert len(self.ask("POST", f"/{INDEX}/_search", body)["hits"]["hits"]) == hits
        times: dict[str, list[float]] = {"similar": [], "terms": [], "recall": []}
        recalls = self._recall_bodies(texts)
        for number, (text, body, recall) in enumerate(zip(texts, bodies, recalls, strict=True)):
            search = functools.partial(self.ask, "POST", f"/{INDEX}/_search")
            work: dict[str, Callable[[], Any]] = {
                "similar": functools.partial(self.index.similar, text),
                "terms": functools.partial(search, body),
                "recall": functools.partial(search, recall),
            }
            for name in sorted(work, reverse=bool(number % 2)):
                began = time.perf_counter()
                work[name]()
                times[name].append(1e3 * (time.perf_counter() - began))
        figures: Figures = {f"{name}_ms": summary(found) for name, found in times.items()}
        figures["ratio"] = figures["similar_ms"]["median"] / figures["terms_ms"]["median"]
        figures["candidates"] = {"mean": statistics.fmean(candidates), "max": max(candidates)}
        return figures

    def _recall_bodies(self, texts: list[str]) -> list[Figures]:
        """The recall query that `similar` sends."""
        return [{**candidates_body(one, Limits().candidates)} for one in self._recalls(texts)]

    def _recalls(self, texts: list[str]) -> list[CandidateQuery]:
        meta = self.index.meta
        sketches = sketch(texts, meta.scheme, limits=Limits())
        return candidate_queries(meta, meta.scheme.banded, sketches, [*map(Query, texts)])

    def recall(self, size: int) -> Figures:
        """The share of originals that are recalled, and the expected one by the S-curve."""
        meta = self.index.meta
        copies, ids, originals = self.copies(size, COPIES, 3)
        sets = shingle_sets(copies + originals, meta.scheme)
        rows = np.arange(COPIES)
        similarities = jaccard(sets, rows, rows + COPIES)
        minhash = meta.scheme.banded
        # Every candidate is a match that shares a shingle, whatever its similarity.
        limits = Limits(threshold=1e-9, k=1_000)
        swaps = minhash.swaps(limits)
        expected = np.array(
            [
                expected_recall(s, minhash.bands, minhash.rows, 1, swaps)
                for s in similarities.tolist()
            ]
        )
        results = self.index.similar_many([Query(text) for text in copies], limits)
        assert not any(result.truncated for result in results)
        found = np.array(
            [
                any(match.id == id for match in result.matches)
                for id, result in zip(ids, results, strict=True)
            ]
        )
        figures: Figures = {}
        for low, high in ((0.0, 0.5), (0.5, 0.7), (0.7, 1.01), (0.0, 1.01)):
            chosen = (similarities >= low) & (similarities < high)
            name = "all" if (low, high) == (0.0, 1.01) else f"{low} to {min(high, 1.0)}"
            figures[name] = {
                "pairs": int(chosen.sum()),
                "found": float(found[chosen].mean()) if chosen.any() else None,
                "expected": float(expected[chosen].mean()) if chosen.any() else None,
            }
        return figures


def summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median": statistics.median(ordered),
        "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
    }


def peak_mb() -> float:
    """The most memory that this process has had resident."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def warm_up(bench: Bench, nodes: int) -> None:
    """Warm the server's compiler up, on indices that are then made again."""
    bench.create(nodes)
    for first in range(0, 20_000, 5_000):
        bench.ingest(first, first + 5_000)
        bench.ingest(first, first + 5_000, tokens=False)
    bench.queries(20_000)
    bench.create(nodes)


def measure(bench: Bench, before: int, size: int) -> Figures:
    figures: Figures = {"documents": size, "added": size - before}
    figures["docs_a_second"] = bench.ingest(before, size)
    figures["peak_mb"] = peak_mb()
    if size <= PLAIN_LIMIT:
        figures["plain_docs_a_second"] = bench.ingest(before, size, tokens=False)
        figures["plain_bytes"] = bench.store_bytes(PLAIN) / size
    figures["bytes"] = bench.store_bytes(INDEX) / size
    figures["queries"] = bench.queries(size)
    figures["recall"] = bench.recall(size)
    began = time.perf_counter()
    figures["merged_bytes"] = bench.store_bytes(INDEX, merge=True) / size
    figures["merge_seconds"] = time.perf_counter() - began
    if size <= PLAIN_LIMIT:
        figures["merged_plain_bytes"] = bench.store_bytes(PLAIN, merge=True) / size
    figures["merged_queries"] = bench.queries(size)
    figures["peak_mb_all"] = peak_mb()
    return figures


HEAD = f"""\
{"":>10}{"documents a second":>20}{"bytes a document":>20}{"similar, ms":>15}{"terms, ms":>15}\
{"":>8}{"candidates":>14}{"recall":>15}{"memory":>9}
{"documents":>10}{"tokens":>10}{"without":>10}{"merged":>10}{"without":>10}{"median":>8}{"p99":>7}\
{"median":>8}{"p99":>7}{"ratio":>8}{"mean":>8}{"max":>6}{"found":>8}{"S":>7}{"MB":>9}"""


def row_of(figures: Figures) -> str:
    queries, recall = figures["queries"], figures["recall"]["all"]
    without = figures.get("plain_docs_a_second")
    plain_bytes = figures.get("merged_plain_bytes")
    return (
        f"{figures['documents']:10,}{figures['docs_a_second']:10,.0f}"
        f"{'' if without is None else format(without, ',.0f'):>10}"
        f"{figures['merged_bytes']:10.0f}"
        f"{'' if plain_bytes is None else format(plain_bytes, '.0f'):>10}"
        f"{queries['similar_ms']['median']:8.2f}{queries['similar_ms']['p99']:7.1f}"
        f"{queries['terms_ms']['median']:8.2f}{queries['terms_ms']['p99']:7.1f}"
        f"{queries['ratio']:8.2f}"
        f"{queries['candidates']['mean']:8.2f}{queries['candidates']['max']:6}"
        f"{recall['found']:8.4f}{recall['expected']:7.4f}{figures['peak_mb_all']:9.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    servers.add_options(parser)
    parser.add_argument("--sizes", default="10000,30000,100000,300000,1000000")
    parser.add_argument("--json", type=Path, help="a file to write the raw figures to")
    options = parser.parse_args()
    sizes = sorted(int(size) for size in options.sizes.split(","))
    raw: Figures = {"start_mb": peak_mb(), "nodes": options.nodes, "sizes": []}
    with servers.served(options) as url:
        bench = Bench(url, Growing(CHARACTERS))
        node = next(iter(bench.ask("GET", "/_nodes/_local")["nodes"].values()))
        raw["product"] = f"{bench.cluster.product.split()[0]} {node['version']}"
        warm_up(bench, options.nodes)
        print(f"{raw['product']}, nodes: {options.nodes}")
        print(HEAD, flush=True)
        before = 0
        for size in sizes:
            figures = measure(bench, before, size)
            before = size
            print(row_of(figures), flush=True)
            raw["sizes"].append(figures)
            if options.json is not None:
                options.json.write_text(json.dumps(raw, indent=1) + "\n", "utf-8")
        bench.drop()
    last = raw["sizes"][-1]
    print(
        f"similar over {last['documents']:,} documents: median"
        f" {last['queries']['ratio']:.2f} times that of a terms query for the same documents"
        f" (merged to one segment: {last['merged_queries']['ratio']:.2f})"
    )


if __name__ == "__main__":
    main()
