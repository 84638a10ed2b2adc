"""Any threshold from one index: bands that must be shared, candidates, and recall.

    python benchmarks/thresholds.py [FILE | --generated english|chinese] [--documents 60000]
        [--json FILE]

FILE: as for `top_k.py`; without one, texts are made up as there. A local file with the default
scheme of 23 bands of 3 rows is asked for documents of its own at thresholds 0.3 to 0.9. Candidates
are the documents that a query fetches and verifies, on average; with one shared band they are the
same at every threshold. Recall is of all documents at the threshold or above, by exact similarity
with every document, so that it is more than the one expected of those just at the threshold.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from top_k import families, from_file, similarities

import esdedup
from esdedup.banding import expected_recall, least_bands
from esdedup.sketch import shingle_sets

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def measure(
    index: esdedup.Index, queries: list[esdedup.Query], truth: list[np.ndarray], threshold: float
) -> dict[str, Any]:
    minhash = index.scheme.minhash
    assert minhash is not None
    least = least_bands(threshold, 0.999, minhash.bands, minhash.rows)
    limits = esdedup.Limits(threshold=threshold, matches=10_000, candidates=10_000)
    results = index.similar_many(queries, limits)
    near = sum(int((values >= threshold).sum()) for values in truth)
    return {
        "threshold": threshold,
        "least": least,
        "expected_recall": expected_recall(threshold, minhash.bands, minhash.rows, least),
        "recall": sum(len(result.matches) for result in results) / near,
        "near": near / len(queries),
        "candidates": float(np.mean([result.candidates for result in results])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--generated", choices=("english", "chinese"), default="english")
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    if options.file is not None:
        texts = from_file(options.file, options.text_field)[: options.documents]
    else:
        texts = families(options.generated, options.documents)
    sets = shingle_sets(texts, esdedup.Scheme())
    rng = np.random.default_rng(3)
    asked = rng.choice(np.flatnonzero(sets.counts), options.queries, replace=False).tolist()
    of = similarities(sets)
    truth = [of(row) for row in asked]
    queries = [esdedup.Query(texts[row], str(row)) for row in asked]
    with tempfile.TemporaryDirectory() as folder, esdedup.open(Path(folder) / "x.db") as index:
        index.add({"id": str(row), "text": text} for row, text in enumerate(texts))
        results = []
        for threshold in THRESHOLDS:
            results.append(measure(index, queries, truth, threshold))
            print(json.dumps(results[-1]), flush=True)
    if options.json is not None:
        document = {"documents": len(texts), "queries": len(queries), "thresholds": results}
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
