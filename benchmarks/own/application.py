"""Milliseconds of a search in an application, by `Index.similar` and through its own client.

    python -m benchmarks.own.application --urls ELASTICSEARCH_URL OPENSEARCH_URL [--documents 20000]

Made-up texts with planted groups of near-duplicates, see benchmarks/lib/planted.py. Each search is
for one of the texts, at Jaccard 0.7, on one connection; the client is on the same machine.

similar   `index.similar(text)`
own       `request_body`, the client's `search`, `verify`, each alone and together
threads   searches by `similar` on one shared index, by one thread and by eight
"""

import argparse
import itertools
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import elasticsearch
import opensearchpy

import esdedup
from benchmarks.lib.measuring import Figures, save
from benchmarks.lib.planted import planted
from benchmarks.lib.servers import drop
from tests.servers.proxy import product_of

THRESHOLD = 0.7
WARM = 50
"""Searches before those that are timed."""
CLIENTS: dict[str, Callable[[str], Any]] = {
    "elasticsearch": elasticsearch.Elasticsearch,
    "opensearch": opensearchpy.OpenSearch,
}


def spread(seconds: Sequence[float]) -> Figures:
    """Return the median and the 95th percentile in milliseconds."""
    return {
        "median": round(statistics.median(seconds) * 1e3, 2),
        "p95": round(statistics.quantiles(seconds, n=20)[-1] * 1e3, 2),
    }


def latencies(index: esdedup.Index, client: Any, name: str, texts: Sequence[str]) -> Figures:
    """Return the milliseconds of both ways to search, which take turns."""
    seconds: dict[str, list[float]] = {
        step: [] for step in ("similar", "request_body", "search", "verify")
    }
    for text in texts:
        times = [time.perf_counter()]
        expected = index.similar(text, threshold=THRESHOLD)
        times.append(time.perf_counter())
        body = index.request_body(text, threshold=THRESHOLD)
        times.append(time.perf_counter())
        answer = client.search(index=name, body=body)
        times.append(time.perf_counter())
        result = index.verify(text, answer, threshold=THRESHOLD)
        times.append(time.perf_counter())
        assert result.matches == expected.matches
        for step, (began, ended) in zip(seconds, itertools.pairwise(times), strict=True):
            seconds[step].append(ended - began)
    steps = zip(seconds["request_body"], seconds["search"], seconds["verify"], strict=True)
    seconds["own"] = [sum(parts) for parts in steps]
    return {step: spread(measured[WARM:]) for step, measured in seconds.items()}


def in_threads(index: esdedup.Index, texts: Sequence[str], rounds: int) -> Figures:
    """Return the searches per second, and the CPU milliseconds of one, the best of some rounds."""
    figures: dict[str, Figures] = {}
    for _ in range(rounds):
        for threads in (1, 8):
            began, cpu = time.perf_counter(), time.process_time()
            with ThreadPoolExecutor(threads) as pool:
                for _ in pool.map(lambda text: index.similar(text, threshold=THRESHOLD), texts):
                    pass
            rate = len(texts) / (time.perf_counter() - began)
            cpu_each = (time.process_time() - cpu) / len(texts) * 1e3
            best = figures.setdefault(str(threads), {"rate": 0.0, "cpu_ms": cpu_each})
            best["rate"] = round(max(best["rate"], rate), 1)
            best["cpu_ms"] = round(min(best["cpu_ms"], cpu_each), 2)
    return figures


@contextmanager
def filled(target: Any, name: str, texts: Sequence[str]) -> Iterator[esdedup.Index]:
    """Yield an index of the texts."""
    with esdedup.open(target, name) as index:
        index.add({"id": str(number), "text": text} for number, text in enumerate(texts))
        yield index


def tables(document: dict[str, Any]) -> str:
    """A row for each place."""
    lines = [
        "| milliseconds: median (95th percentile) | `similar` | own client | `request_body` |"
        " `search` | `verify` |",
        "| --- |" + " ---: |" * 5,
    ]
    places = document["results"]["places"]
    steps = ("similar", "own", "request_body", "search", "verify")
    for place, figures in places.items():
        if "latencies" in figures:
            cells = [figures["latencies"][step] for step in steps]
            shown = (f"{cell['median']:.1f} ({cell['p95']:.1f})" for cell in cells)
            lines.append(f"| {place} | {' | '.join(shown)} |")
    lines += [
        "",
        "| searches per second (CPU milliseconds of one) | 1 thread | 8 threads |",
        "| --- | ---: | ---: |",
    ]
    for place, figures in places.items():
        cells = [figures["threads"][threads] for threads in ("1", "8")]
        shown = (f"{cell['rate']:.0f} ({cell['cpu_ms']:.1f})" for cell in cells)
        lines.append(f"| {place} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--urls", nargs="*", default=[], help="of servers that run")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--searches", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3, help="of the searches in threads")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    texts, _ = planted(options.documents)
    searched = texts[: options.searches + WARM]
    places: dict[str, Figures] = {}
    for url in options.urls:
        product, name = product_of(url), f"benchmark-{uuid.uuid4().hex[:12]}"
        with CLIENTS[product](url) as client:
            with filled(client, name, texts) as index:
                places[product] = {
                    "latencies": latencies(index, client, name, searched),
                    "threads": in_threads(index, searched, options.rounds),
                }
            drop(url, name)
    with (
        tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as folder,
        filled(Path(folder) / "texts.db", "texts", texts) as index,
    ):
        places["local file"] = {"threads": in_threads(index, searched, options.rounds)}
    results = {"documents": options.documents, "searches": options.searches, "places": places}
    corpora = [{"name": "texts", "source": "benchmarks/lib/planted.py"}]
    print(save("application", results, corpora, folder=options.folder))


if __name__ == "__main__":
    main()
