"""Recall of queries by similarity, for bands with and without swaps, on real texts.

    python -m benchmarks.own.recall [--corpora debian chinese] [--documents 20000] [--seeds 8]

Queries are documents with five shingles and more, drawn at random; to be found are the documents at
a Jaccard similarity within 0.05 of each level, at most ten of them a query, so that one large
family does not count for all. A document is found if any of its bands is among the query's probes.
Each seed is an index of its own. Shown is the mean over the seeds, with its standard error.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lib import corpora, measuring
from benchmarks.lib.truth import similarities
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import shingle_sets, sketch
from esdedup.text.arrays import F64, I64

SETTINGS = ((23, 0), (12, 0), (12, 1), (12, 2), (11, 2), (10, 2))
"""Bands of three rows, and swaps."""
LEVELS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
WITHIN, A_QUERY, SHORTEST = 0.05, 10, 5

Pairs = tuple[I64, I64, F64]


def pairs_of(texts: list[str], queries: int) -> tuple[I64, Pairs]:
    """The rows of queries, and pairs of (place among the queries, row, level)."""
    rng = np.random.default_rng(1)
    sets = shingle_sets(texts, Scheme())
    long = np.flatnonzero(sets.counts >= SHORTEST)
    rows = rng.choice(long, min(queries, long.size), replace=False)
    of = similarities(sets)
    places, found, levels = [], [], []
    for place, row in enumerate(rows.tolist()):
        alike = of(row)
        for level in LEVELS:
            near = np.flatnonzero((np.abs(alike - level) <= WITHIN) & (alike < 1))
            near = rng.permutation(near)[:A_QUERY]
            places.append(np.full(near.size, place))
            found.append(near)
            levels.append(np.full(near.size, level))
    return rows, (np.concatenate(places), np.concatenate(found), np.concatenate(levels))


def measured(texts: list[str], queries: int, seeds: int) -> list[dict[str, Any]]:
    """A row for each setting and level."""
    asked, (places, found, levels) = pairs_of(texts, queries)
    rows: dict[tuple[int, int], list[list[float]]] = {setting: [] for setting in SETTINGS}
    for seed in range(1, seeds + 1):
        for bands, swaps in SETTINGS:
            scheme = Scheme([MinHash(bands=bands)], seed=seed)
            stored = sketch(texts, scheme).values["minhash"]
            limits = Limits(swaps=swaps)
            made = sketch([texts[row] for row in asked.tolist()], scheme, limits=limits)
            probes = made.probes["minhash"].values
            hit = (probes[places] == stored[found][:, :, None]).any(axis=(1, 2))
            rows[bands, swaps].append([float(hit[levels == level].mean()) for level in LEVELS])
    return [
        {
            "bands": bands,
            "swaps": swaps,
            "level": level,
            "pairs": int(np.count_nonzero(levels == level)),
            "recall": float(np.mean(values)),
            "error": float(np.std(values) / np.sqrt(seeds)),
        }
        for (bands, swaps), by_seed in rows.items()
        for level, values in zip(LEVELS, np.transpose(by_seed).tolist(), strict=True)
    ]


def tables(document: dict[str, Any]) -> str:
    """The results as Markdown: a table for each corpus."""
    parts = []
    for corpus, rows in document["results"].items():
        heads = " | ".join(f"{level} ({_pairs(rows, level)})" for level in LEVELS)
        lines = [f"| **{corpus}** | {heads} |", "|---" + "|---:" * len(LEVELS) + "|"]
        for bands, swaps in SETTINGS:
            cells = " | ".join(
                f"{100 * row['recall']:.1f} ± {100 * row['error']:.1f}"
                for row in rows
                if (row["bands"], row["swaps"]) == (bands, swaps)
            )
            lines.append(f"| {bands} bands, {swaps} swap{'' if swaps == 1 else 's'} | {cells} |")
        parts.append("\n".join(lines))
    return "Percent found, at a similarity (number of documents).\n\n" + "\n\n".join(parts)


def _pairs(rows: list[dict[str, Any]], level: float) -> str:
    return next(f"{row['pairs']:,}" for row in rows if row["level"] == level)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", default=["debian", "chinese"])
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--folder", type=Path, help="for the results")
    options = parser.parse_args()
    results, described = {}, []
    for name in options.corpora:
        corpus = corpora.corpus(name)
        texts = corpus.texts()[: options.documents]
        described.append(corpus.described() | {"documents": len(texts)})
        results[name] = measured(texts, options.queries, options.seeds)
    measuring.save("recall", results, described, folder=options.folder)


if __name__ == "__main__":
    main()
