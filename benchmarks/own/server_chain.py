"""What an index costs and finds whose server computes the tokens, for several analysis chains.

    python -m benchmarks.own.server_chain [--corpora debian chinese] [--documents N] [--copies 100]
        [--long 3000] [--url URL]

Each chain ends in tokens of one-permutation hashing by the filter `min_hash`:

- values: each bucket's value is a token, and a document must share some of them. Without rotation
  an empty bucket has no value, and how many must be shared depends on the values of the query.
- bands: the values of neighbouring buckets are a token, and a document must share one.

A value is the hash's first character, its first two, or its second. Every corpus gets texts of
twelve of its texts joined, so that long ones are there too. Queries are copies with some words
replaced, drawn for each of three lengths (below 30 shingles, up to 500, and more) and each level
of exact Jaccard similarity, of esdedup's word 3-shingles, +-0.02. Recall: the share of the copies
of a level whose original is a candidate. Candidates: mean and median of a query.
"""

import argparse
import json
import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import numpy as np

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.corpora import corpus
from benchmarks.lib.measuring import Figures
from benchmarks.lib.servers import add_options, served
from benchmarks.peers.ways import INDEX, filled, remove
from esdedup.sketch.sketch import shingle_sets
from esdedup.stores.elastic.store import ClusterStore

LEVELS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
LENGTHS = {"short": (1, 30), "middle": (30, 500), "long": (500, 1 << 30)}
WORDS = re.compile(r"([\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+)")
THRESHOLD, RECALL = 0.5, 0.97
"""What the number of values to share is chosen for."""
Query = tuple[str, float, int, str, int]
"""Length, level, row of the original, text, number of its shingles."""


def chain(buckets: int, rows: int, length: int, rotation: bool) -> dict[str, Any]:
    """Return the analysis of the kind `server` with other filters.

    rows: of a band; 1 for values that are tokens by themselves. length: of a value, in characters
    from the first on; 0 for the second alone.
    """
    analysis = esdedup.Server(buckets).analysis(3)
    filters, (analyzer,) = analysis["filter"], analysis["analyzer"].values()
    hashes, value, places, values = list(filters)[-4:]
    filters[hashes]["with_rotation"] = rotation
    if length:
        filters[value] = {"type": "truncate", "length": length}
        filters[values]["max"] = length
    if rows > 1:
        sizes = {"min_shingle_size": rows, "max_shingle_size": rows}
        filters[places] |= {**sizes, "output_unigrams": False}
        analyzer["filter"].remove(values)
    return analysis


def by_values(buckets: int) -> str:
    """A minimum_should_match that reaches the recall, whatever number of values a query has.

    Equal ones are hypergeometric, which is at least as likely to reach a number below the mean as
    the binomial distribution.
    """
    each = [0]
    for values in range(1, buckets + 1):
        chances = [
            math.comb(values, k) * THRESHOLD**k * (1 - THRESHOLD) ** (values - k)
            for k in range(values + 1)
        ]
        each.append(max([1, *(k for k in range(values) if math.fsum(chances[k:]) >= RECALL)]))
    steps = [at for at in range(1, buckets + 1) if each[at] != each[at - 1]]
    return " ".join(f"{at - 1}<{each[at]}" for at in steps)


VALUES = {0: "second character", 1: "first", 2: "first two"}
CHAINS: list[tuple[int, int, int, bool]] = [
    *((buckets, 1, 0, False) for buckets in (16, 32, 64, 128)),
    (64, 1, 1, False),
    (64, 1, 0, True),
    (32, 1, 2, True),
    *((*shape, 0, True) for shape in ((18, 2), (32, 3), (40, 3), (64, 4))),
    (32, 3, 1, True),
    (32, 3, 2, True),
]
"""Buckets, rows, length of a value, rotation."""


def texts_of(name: str, documents: int | None, long: int) -> tuple[Figures, list[str]]:
    whole = corpus(name)
    texts = whole.texts()[:documents]
    joined = [" ".join(texts[at : at + 12]) for at in range(0, len(texts) - 12, 12)][:long]
    return {**whole.described(), "joined": len(joined)}, [*texts, *joined]


def queries(texts: list[str], copies: int) -> list[Query]:
    """Copies of rows in any order, until each level of each length has enough."""
    rng, scheme = np.random.default_rng(3), esdedup.Scheme()
    sets = shingle_sets(texts, scheme)
    words = [word for text in texts[:2_000] for word in WORDS.findall(text)]
    found: dict[tuple[str, float], list[Query]] = defaultdict(list)
    for name, (low, high) in LENGTHS.items():
        rows = rng.permutation(np.flatnonzero((sets.counts >= low) & (sets.counts < high)))
        for row in rows[: 8 * copies].tolist():
            edited = [_edited(texts[row], words, share, rng) for share in rng.uniform(0, 0.4, 12)]
            for text, shingles in zip(edited, shingle_sets(edited, scheme), strict=True):
                same = np.intersect1d(sets[row], shingles, assume_unique=True).size
                similarity = same / max(1, sets[row].size + shingles.size - same)
                level = round(similarity, 1)
                if abs(similarity - level) <= 0.02 and level in LEVELS:
                    found[name, level].append((name, level, row, text, shingles.size))
    return [query for every in found.values() for query in every[:copies]]


def _edited(text: str, words: list[str], share: float, rng: np.random.Generator) -> str:
    parts = WORDS.split(text)
    for at in range(1, len(parts), 2):
        if rng.random() < share:
            parts[at] = words[int(rng.integers(len(words)))]
    return "".join(parts)


def measure(store: ClusterStore, texts: list[str], asked: list[Query]) -> list[Figures]:
    bare = filled(store, texts, {"type": "text", "index": False}, {})[1]
    rows = []
    for buckets, size, length, rotation in CHAINS:
        analysis = chain(buckets, size, length, rotation)
        field = {"type": "text", "norms": False, "index_options": "docs"}
        field["analyzer"] = next(iter(analysis["analyzer"]))
        _, taken = filled(store, texts, field, analysis)
        found, candidates = defaultdict[Any, list[Any]](list), defaultdict(list)
        server, limits = esdedup.Server(buckets), esdedup.Limits(threshold=THRESHOLD, recall=RECALL)
        steps = by_values(buckets)
        for name, level, row, text, shingles in asked:
            least: int | str = 1
            if size == 1:
                least = server.least(limits, shingles) if rotation else steps
            match = {"text": {"query": text, "minimum_should_match": least}}
            body: Figures = {"size": 50, "_source": False, "track_total_hits": True}
            body |= {"query": {"match": match}}
            body["aggs"] = {"original": {"filter": {"ids": {"values": [str(row)]}}}}
            _, answer = store.cluster.request("POST", f"/{INDEX}/_search", body)
            found[name, level].append(answer["aggregations"]["original"]["doc_count"])
            candidates[name].append(answer["hits"]["total"]["value"])
        result = {
            "tokens": "values" if size == 1 else f"bands of {size}",
            "buckets": buckets,
            "value": VALUES[length],
            "rotation": rotation,
            "bytes": round((taken - bare) / len(texts)),
            "recall": {
                name: [round(float(np.mean(found[name, level])), 3) for level in LEVELS]
                for name in LENGTHS
            },
            "candidates": {
                name: [round(float(np.mean(each)), 1), float(np.median(each))]
                for name, each in candidates.items()
            },
        }
        rows.append(result)
        print(json.dumps(result), flush=True)
    return rows


def tables(document: dict[str, Any]) -> str:
    """A table for each corpus."""
    parts = []
    columns = ["tokens", "buckets", "value", "rotation", "bytes/document"]
    heads = [
        f"{name}: recall at {', '.join(map(str, LEVELS[:4]))} | candidates" for name in LENGTHS
    ]
    for of, rows in zip(document["corpora"], document["results"], strict=True):
        parts.append(f"**{of['name']}**: {of['searched']:,} documents, {of['queries']:,} queries\n")
        parts.append(f"| {' | '.join([*columns, *heads])} |")
        parts.append("|---|---:|---|---|" + "---:|" * (len(columns) - 4 + 2 * len(heads)))
        for row in rows:
            cells = [
                row["tokens"],
                row["buckets"],
                row["value"],
                "yes" if row["rotation"] else "no",
            ]
            cells.append(row["bytes"])
            for name in LENGTHS:
                mean, median = row["candidates"][name]
                cells.append(" ".join(f"{each:.3f}" for each in row["recall"][name][:4]))
                cells.append(f"{mean:,.1f} ({median:,.0f})")
            parts.append(f"| {' | '.join(map(str, cells))} |")
        parts.append("")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", default=["debian", "chinese"])
    parser.add_argument("--documents", type=int, help="of each corpus; all by default")
    parser.add_argument("--copies", type=int, default=100, help="of each level and length")
    parser.add_argument("--long", type=int, default=3_000, help="texts of twelve joined, at most")
    parser.add_argument("--folder", type=Path, help="for the results")
    add_options(parser)
    parser.set_defaults(product="opensearch")
    options = parser.parse_args()
    corpora, results = [], []
    with served(options) as url, esdedup.open(url, INDEX, timeout=900.0) as index:
        store = cast(ClusterStore, index.store)
        for name in options.corpora:
            of, texts = texts_of(name, options.documents, options.long)
            asked = queries(texts, options.copies)
            corpora.append({**of, "searched": len(texts), "queries": len(asked)})
            results.append(measure(store, texts, asked))
        remove(store)
    measuring.save("server_chain", results, corpora, folder=options.folder)


if __name__ == "__main__":
    main()
