"""The ten nearest, however unlike: esdedup beside datasketch's LSH Forest, in one run.

    pip install datasketch
    python -m benchmarks.peers.top_k [FILE | --generated english|chinese] [--documents 10000 100000]
        [--url http://localhost:9200] [--json FILE]

FILE: records with a text field, in the formats that `esdedup index` takes; without one, texts are
made up, in families of twenty with ever more words (characters) replaced. 128 permutations of the
same sets, word 3-shingles as esdedup makes them. Queries are documents of the corpus, which
are left out of their own answers. The truth is the exact Jaccard similarity with every document; a
document as near as the true tenth counts, so that ties harm nobody, and documents with nothing in
common do not.

datasketch is given the shingles' hashes, in memory: a query is its MinHash, the forest, and, "10 k
and exact", the exact similarity of 10 k answers by sets kept in memory (100 k are as many as the
most candidates of esdedup). Its trees, `l`, are its
default of 8 and those up to the permutations' number. esdedup is given the raw text: a query is its
sketch, the search in the SQLite file (or the cluster), and the exact similarity from the texts that
it fetches. To build is from hashes to a forest; from raw text to a file (an index).
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import esdedup
from benchmarks.lib import texts as made_up
from benchmarks.lib.truth import similarities
from esdedup.records.files import Record, read_records
from esdedup.sketch.sketch import shingle_sets
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.fields import text_of
from esdedup.text.arrays import Ragged

K, PERMUTATIONS, FAMILY = 10, 128, 20
Ask = Callable[[int], list[int]]


class AskSome(Protocol):
    """Answers a row with a number of documents."""

    def __call__(self, row: int, number: int) -> list[int]: ...


@dataclass(frozen=True)
class Corpus:
    """Texts, their shingle sets, and the rows to ask for."""

    texts: list[str]
    sets: Ragged
    asked: list[int]


def families(language: str, documents: int) -> list[str]:
    """Made-up texts in families of twenty; the n-th has 4 n words or characters replaced."""
    english = language == "english"
    make = made_up.english if english else made_up.chinese
    firsts = make(-(-documents // FAMILY), 400 if english else 150)
    rng = np.random.default_rng(5)
    texts = []
    for first, number in itertools.product(firsts, range(FAMILY)):
        parts = first.split() if english else list(first)
        for at in rng.integers(0, len(parts), 4 * number).tolist():
            parts[at] = f"w{rng.integers(10**6)}" if english else chr(0x5B00 + rng.integers(2_000))
        texts.append((" " if english else "").join(parts))
    return texts[:documents]


def from_file(file: str, field: str) -> list[str]:
    return [
        text_of(record.source, field) for record in read_records(file) if isinstance(record, Record)
    ]


@dataclass(frozen=True)
class Asked:
    """Texts with their shingle sets; rows that are asked for, and how alike all are to each."""

    texts: list[str]
    sets: Ragged
    rows: list[int]
    truth: list[np.ndarray]


def asked(description: str, documents: int, queries: int) -> tuple[Asked, Path | None]:
    """The texts that a command line names, and the file for its results."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--generated", choices=("english", "chinese"), default="english")
    parser.add_argument("--documents", type=int, default=documents)
    parser.add_argument("--queries", type=int, default=queries)
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    if options.file is not None:
        texts = from_file(options.file, options.text_field)[: options.documents]
    else:
        texts = families(options.generated, options.documents)
    sets = shingle_sets(texts, esdedup.Scheme())
    rng = np.random.default_rng(3)
    rows = rng.choice(np.flatnonzero(sets.counts), options.queries, replace=False).tolist()
    of = similarities(sets)
    return Asked(texts, sets, rows, [of(row) for row in rows]), options.json


def forest(corpus: Corpus, trees: int) -> tuple[AskSome, float]:
    """datasketch's forest, as a function of a row and of how many to answer, and its build time."""
    from datasketch import MinHash, MinHashLSHForest

    options: dict[str, Any] = {"num_perm": PERMUTATIONS, "hashfunc": lambda value: value}
    values = (corpus.sets.hashes >> np.uint64(32)).tolist()
    offsets = corpus.sets.offsets.tolist()
    rows = [values[a:b] for a, b in itertools.pairwise(offsets)]
    start = time.perf_counter()
    made = MinHashLSHForest(num_perm=PERMUTATIONS, l=trees)
    for row, minhash in enumerate(MinHash.generator(rows, **options)):
        made.add(row, minhash)
    made.index()
    seconds = time.perf_counter() - start

    def ask(row: int, number: int) -> list[int]:
        minhash = MinHash(**options)
        minhash.update_batch(rows[row])
        return [found for found in made.query(minhash, number + 1) if found != row][:number]

    return ask, seconds


def reranked(ask: AskSome, corpus: Corpus, number: int) -> Ask:
    """The best of the answers, by sets in memory."""
    sets = [frozenset(corpus.sets[row].tolist()) for row in range(len(corpus.sets))]

    def best(row: int) -> list[int]:
        own = sets[row]
        found = ask(row, number)
        likeness = {each: len(own & sets[each]) / len(own | sets[each]) for each in found}
        return sorted(found, key=lambda each: -likeness[each])[:K]

    return best


def with_datasketch(corpus: Corpus) -> Iterator[tuple[str, float, Ask]]:
    for trees in (8, 32, PERMUTATIONS):
        ask, seconds = forest(corpus, trees)
        name = f"datasketch forest, {trees} trees"
        yield name, seconds, functools.partial(ask, number=K)
        for times in (10, 100):
            yield f"{name}, {times} k and exact", seconds, reranked(ask, corpus, times * K)


def with_esdedup(corpus: Corpus, target: str | Path) -> Iterator[tuple[str, float, Ask]]:
    for signature, candidates in ((0, (1_000,)), (PERMUTATIONS, (100, 300, 1_000))):
        scheme = esdedup.Scheme([esdedup.MinHash(PERMUTATIONS), esdedup.Signature(signature)])
        name = f"esdedup-benchmark-{uuid.uuid4().hex[:8]}"
        with esdedup.open(target, name, scheme=scheme) as index:
            start = time.perf_counter()
            index.add({"id": str(row), "text": text} for row, text in enumerate(corpus.texts))
            seconds = time.perf_counter() - start
            for most in candidates:
                limits = esdedup.Limits(threshold=None, k=K, candidates=most)

                def ask(row: int, index: Any = index, limits: Any = limits) -> list[int]:
                    query = esdedup.Query(corpus.texts[row], str(row))
                    (result,) = index.similar_many([query], limits)
                    return [int(match.id) for match in result.matches]

                tokens = f", {signature} values" if signature else ""
                yield f"esdedup, 23 x 3{tokens}, {most} candidates", seconds, ask
            if isinstance(index.store, ClusterStore):
                index.store.cluster.ask("DELETE", f"/{name}")


def measure(
    corpus: Corpus, truth: list[np.ndarray], name: str, seconds: float, ask: Ask
) -> dict[str, Any]:
    shares: list[float] = []
    times: list[float] = []
    for row, values in zip(corpus.asked, truth, strict=True):
        start = time.perf_counter()
        found = ask(row)
        times.append(1e3 * (time.perf_counter() - start))
        nearest = np.sort(values)[::-1][:K]
        nearest = nearest[nearest > 0]
        if nearest.size:
            near = int(np.count_nonzero(values[found] >= nearest[-1]))
            shares.append(min(near, nearest.size) / nearest.size)
    return {
        "documents": len(corpus.texts),
        "method": name,
        "recall_at_10": round(statistics.mean(shares), 4),
        "median_ms": round(statistics.median(times), 2),
        "p99_ms": round(float(np.quantile(times, 0.99)), 2),
        "build_seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--generated", choices=("english", "chinese"), default="english")
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--url", help="measure esdedup in a cluster, in place of a local file")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    for documents in options.documents:
        if options.file is not None:
            texts = from_file(options.file, options.text_field)[:documents]
        else:
            texts = families(options.generated, documents)
        sets = shingle_sets(texts, esdedup.Scheme())
        rng = np.random.default_rng(3)
        filled = np.flatnonzero(sets.counts)
        corpus = Corpus(texts, sets, rng.choice(filled, options.queries, replace=False).tolist())
        of = similarities(sets)
        truth = [of(row) for row in corpus.asked]
        tenth = np.quantile([np.sort(values)[-K] for values in truth], [0.25, 0.5, 0.75])
        results.append({"documents": len(texts), "similarity_of_tenth": tenth.round(3).tolist()})
        print(json.dumps(results[-1]), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            target = options.url or Path(folder) / "top_k.db"
            for method in itertools.chain(with_esdedup(corpus, target), with_datasketch(corpus)):
                results.append(measure(corpus, truth, *method))
                print(json.dumps(results[-1]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
