"""Search side by side: recall, precision, query times, ingest and bytes, against exact truth.

    python -m benchmarks.peers.search [--corpora debian chinese] [--documents N] [--queries 500]
        [--only local opensearch elasticsearch] [--url URL --product NAME]
        [--folder FOLDER]

Random documents of a corpus are asked for, one by one, and left out of their own answers. What is
to be found is every document whose exact Jaccard similarity, of esdedup's sets of word 3-shingles,
is at the threshold or above. Recall is the share of all these that was found, precision the share
of all answers that are such, over all queries together. Before its queries are measured, each way
answers others, and a server gets a small index of each kind first.

Servers are started one after the other, unless --url names one that runs.
"""

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.servers import add_options, served
from benchmarks.peers.asking import Row, Task, scored, task
from benchmarks.peers.ways import (
    INDEX,
    THRESHOLDS,
    Way,
    remove,
    with_esdedup,
    with_the_server,
)
from esdedup.stores.elastic.store import ClusterStore

NAMES = {"opensearch": "OpenSearch", "elasticsearch": "Elasticsearch"}
SMALL = 5_000
WARM_SECONDS = 3.0
"""Warms a server up before it is measured: an index of some documents of each kind, and
queries of each kind for so long."""

Versions = dict[str, str]

COLUMNS: dict[str, tuple[str, str, Callable[[list[float]], float] | None]] = {
    "recall": ("recall", ".4f", max),
    "precision": ("precision", ".4f", max),
    "F1": ("f1", ".4f", max),
    "median ms": ("median_ms", ".2f", min),
    "p99 ms": ("p99_ms", ".2f", min),
    "documents/s": ("documents_per_second", ",", max),
    "bytes/document": ("bytes_per_document", ",", min),
    "truncated queries": ("truncated_queries", ",", None),
}
"""Columns of the tables: key of a row, format, and the function that picks the best."""


def measured(way: Way, task: Task) -> Iterator[Row]:
    """Rows of a way of ours, one for each threshold."""
    documents = len(task.texts)
    taken = {
        "documents_per_second": round(documents / way.seconds),
        "bytes_per_document": round(way.bytes / documents),
    }
    if not way.ask:
        corpus = {"corpus": task.corpus.name, "threshold": None}
        yield {**corpus, "method": way.method, "setting": way.setting, **taken}
    # A way that knows no threshold is asked once.
    for ask in dict.fromkeys(way.ask.values()):
        for row in task.warm:
            ask(row)
        answers, times = [], []
        for row in task.asked:
            began = time.perf_counter()
            answers.append(ask(row))
            times.append(1e3 * (time.perf_counter() - began))
        found = [answer.rows for answer in answers]
        cut = sum(answer.truncated for answer in answers)
        for threshold in (each for each in way.ask if way.ask[each] is ask):
            row_of = scored(task, threshold, (way.method, way.setting), found, times)
            yield {**row_of, **taken, "tuned": way.tuned, "truncated_queries": cut}


def warm_up(ways: Iterator[Way], rows: Sequence[int]) -> None:
    """Ask each way for a while, so that a server's code is compiled before it is measured."""
    for way in ways:
        for ask in dict.fromkeys(way.ask.values()):
            until = time.monotonic() + WARM_SECONDS
            for row in itertools.cycle(rows):
                ask(row)
                if time.monotonic() > until:
                    break


def from_local(tasks: Sequence[Task], _: argparse.Namespace, __: Versions) -> Iterator[Row]:
    for each in tasks:
        with tempfile.TemporaryDirectory() as folder:
            for way in with_esdedup(each.texts, Path(folder), "local file"):
                yield from measured(way, each)


def from_server(
    product: str, tasks: Sequence[Task], options: argparse.Namespace, versions: Versions
) -> Iterator[Row]:
    kinds = [with_esdedup, with_the_server] if product == "opensearch" else [with_esdedup]
    with served(argparse.Namespace(**{**vars(options), "product": product})) as url:
        for kind in kinds:
            small = tasks[0].texts[:SMALL]
            warm_up(kind(small, url, NAMES[product]), range(len(small)))
        for each, kind in itertools.product(tasks, kinds):
            for way in kind(each.texts, url, NAMES[product]):
                yield from measured(way, each)
        with esdedup.open(url, INDEX) as index:
            assert isinstance(index.store, ClusterStore)
            _, told = index.store.cluster.ask("GET", "/_nodes/_local")
            (node,) = told["nodes"].values()
            versions[f"{NAMES[product]} server"] = node["version"]
            remove(index.store)


def tables(document: dict[str, Any]) -> str:
    """A table for each corpus and threshold, the best F1 first, the best of each column bold."""
    parts = []
    for of, threshold in itertools.product(document["corpora"], THRESHOLDS):
        rows = [
            row
            for row in document["results"]
            if (row["corpus"], row["threshold"]) == (of["name"], threshold)
        ]
        alone = [
            row
            for row in document["results"]
            if row["corpus"] == of["name"] and row["threshold"] is None
        ]
        parts.append(
            f"**{of['name']}, Jaccard {threshold} and above**: {of['searched']:,} documents"
            f" of {of['text_bytes_per_document']} bytes; {of['queries']} queries, to which"
            f" {of[f'similar_at_{threshold}']:,} documents are to be found.\n"
        )
        parts.append(_table([*_best(rows), *alone]))
    return "\n".join(parts)


def _best(rows: list[Row]) -> list[Row]:
    """The best first; of a method that was tuned only its best setting."""
    ordered = sorted(rows, key=lambda row: (-row["f1"], row["median_ms"]))
    first = {row["method"]: row for row in reversed(ordered) if row["tuned"]}
    return [row for row in ordered if not row["tuned"] or first[row["method"]] is row]


def _table(rows: list[Row]) -> str:
    lines = [f"| method | setting | {' | '.join(COLUMNS)} |", "|---|---|" + "---:|" * len(COLUMNS)]
    best = {}
    for key, _, better in COLUMNS.values():
        known = [row[key] for row in rows if row["threshold"] and row.get(key) is not None]
        best[key] = better(known) if better and known else None
    for row in rows:
        cells = [_cell(row.get(key), form, best[key]) for key, form, _ in COLUMNS.values()]
        lines.append(f"| {row['method']} | {row['setting']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(value: float | None, form: str, best: float | None) -> str:
    if value is None:
        return "–"
    return f"**{value:{form}}**" if value == best else f"{value:{form}}"


PLACES: dict[str, Callable[[Sequence[Task], argparse.Namespace, Versions], Iterator[Row]]] = {
    "local": from_local,
    "opensearch": partial(from_server, "opensearch"),
    "elasticsearch": partial(from_server, "elasticsearch"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", default=["debian", "chinese"])
    parser.add_argument("--documents", type=int, help="of each corpus; all by default")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--only", nargs="+", choices=PLACES, default=list(PLACES))
    parser.add_argument("--folder", type=Path, help="for the results")
    add_options(parser)
    options = parser.parse_args()
    if options.url is not None and set(NAMES) - {options.product} & set(options.only):
        parser.error("--url is one server's: leave the other out by --only")
    tasks = [task(name, options.documents, options.queries) for name in options.corpora]
    corpora = [each.described() for each in tasks]
    results: list[Row] = []
    versions: Versions = {}
    for place in options.only:
        told: Versions = {}
        for row in PLACES[place](tasks, options, told):
            results.append(row)
            print(json.dumps(row), flush=True)
        versions |= told
        # After each place, as the whole takes long.
        measuring.save("search", results, corpora, versions, options.folder)


if __name__ == "__main__":
    main()
