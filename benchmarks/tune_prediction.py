"""What `esdedup tune` predicts from a sample, beside what is measured on the whole corpus.

    python benchmarks/tune_prediction.py FILE.jsonl [--texts 20000] [--sample 2000] [--seeds 1]

FILE has an id and a text on each line, as corpora.py makes it. The corpus is indexed in a local
file with the default scheme; neighbours are predicted from a random sample of it. The truth is
the exact similarity of all pairs, by an inverted index of their shingles that shares no code with
the prediction. For each threshold, with the bands and rows that `choose_banding` takes for it and
with the default ones: candidates a query (pairs of equal band tokens), and the share of the pairs
at or over the threshold that are among them. Samples of other seeds differ, and so do schemes of
other seeds, because pairs that share a paragraph meet together or not at all: both are given as
the mean, the least and the most.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from truth import all_pairs

import esdedup
from esdedup.analysis.sampling import sample_neighbours
from esdedup.analysis.tuning import expectation
from esdedup.search.buckets import band_pairs
from esdedup.sketch.banding import choose_banding
from esdedup.sketch.minhash import MinHash
from esdedup.sketch.sketch import shingle_sets, sketch

THRESHOLDS = (0.5, 0.7, 0.8, 0.9)
RECALL = 0.95
LEAST = 0.3
"""Similarity of the pairs that the truth holds."""


@dataclass(frozen=True)
class Truth:
    """All pairs of at least LEAST: rows, left < right, as left * n + right; and similarities."""

    keys: NDArray[np.int64]
    similarity: NDArray[np.float64]


def truth(texts: list[str], scheme: esdedup.Scheme) -> Truth:
    pairs = all_pairs(shingle_sets(texts, scheme), LEAST)
    keys = pairs.right * len(texts) + pairs.left
    order = np.argsort(keys)
    return Truth(keys[order], pairs.similarity[order])


def measure(
    texts: list[str], scheme: esdedup.Scheme, known: Truth, threshold: float
) -> tuple[float, float]:
    """(candidates a query, recall of pairs at or over the threshold)."""
    bands = sketch(texts, replace(scheme, simhash=None))
    assert bands.bands is not None
    filled = np.flatnonzero(bands.filled)
    wanted = known.keys[known.similarity >= threshold]
    pairs = found = 0
    for left, right in band_pairs(bands.bands[filled]):
        pairs += left.size
        found += int(np.isin(filled[left] * len(texts) + filled[right], wanted).sum())
    return 2 * pairs / len(texts), found / wanted.size if wanted.size else float("nan")


def schemes(base: esdedup.Scheme) -> list[tuple[float, esdedup.Scheme]]:
    made = []
    for threshold in THRESHOLDS:
        bands, rows = choose_banding(threshold, RECALL, 128)
        made.append((threshold, replace(base, minhash=MinHash(128, bands, rows))))
        if (bands, rows) != (23, 3):
            made.append((threshold, base))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--texts", type=int, default=20_000, help="at most so many, at random")
    parser.add_argument("--sample", type=int, default=2_000)
    parser.add_argument("--seeds", type=int, default=3, help="samples to predict from")
    parser.add_argument("--draws", type=int, default=5, help="schemes to measure, of other seeds")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.file.read_text("utf-8").splitlines()]
    lines = random.Random(1).sample(lines, min(options.texts, len(lines)))
    documents = [{"id": str(at), "text": line["text"]} for at, line in enumerate(lines)]
    texts = [document["text"] for document in documents]
    base = esdedup.Scheme()
    began = time.perf_counter()
    known = truth(texts, base)
    print(f"{len(texts):,} texts, {known.keys.size:,} pairs of {LEAST} and more", end=" ")
    print(f"({time.perf_counter() - began:.0f} s)")
    with tempfile.TemporaryDirectory() as folder, esdedup.open(Path(folder) / "c.db") as index:
        index.add(documents)
        began = time.perf_counter()
        predicted = [
            sample_neighbours(index.store, index.meta, options.sample, seed)
            for seed in range(1, options.seeds + 1)
        ]
    each = (time.perf_counter() - began) / options.seeds
    truncated = sum(one.truncated for one in predicted)
    print(f"a sample of {options.sample:,}: {each:.1f} s; {truncated} queries cut off")
    print("| threshold | bands x rows | similar a document: predicted | measured", end="")
    print(" | candidates a query: predicted | measured | recall: predicted | measured |")
    print("|---|---|---|---|---|---|---|---|")
    for threshold, scheme in schemes(base):
        assert scheme.minhash is not None
        measured = [
            measure(texts, replace(scheme, seed=seed), known, threshold)
            for seed in range(1, options.draws + 1)
        ]
        similar = 2 * int((known.similarity >= threshold).sum()) / len(texts)
        outcomes = [expectation(one.neighbours, threshold, scheme.minhash) for one in predicted]
        columns = [
            ([one.similar for one in outcomes], [similar], ".3g"),
            ([one.candidates for one in outcomes], [found for found, _ in measured], ".3g"),
            ([one.recall or 0.0 for one in outcomes], [found for _, found in measured], ".3f"),
        ]
        cells = [f"{_span(values, form)} | {_span(true, form)}" for values, true, form in columns]
        banding = f"{scheme.minhash.bands} x {scheme.minhash.rows}"
        print(f"| {threshold} | {banding} | {' | '.join(cells)} |")


def _span(values: list[float], form: str) -> str:
    """The mean, and the least and the most where they differ."""
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    mean = f"{sum(values) / len(values):{form}}"
    return mean if low == high else f"{mean} ({low} to {high})"


if __name__ == "__main__":
    main()
