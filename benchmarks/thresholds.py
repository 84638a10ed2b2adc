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

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from top_k import asked

import esdedup
from esdedup.sketch.banding import expected_recall, least_bands

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
        # Made-up texts may have none that are so near.
        "recall": sum(len(result.matches) for result in results) / near if near else None,
        "near": near / len(queries),
        "candidates": float(np.mean([result.candidates for result in results])),
    }


def main() -> None:
    corpus, file = asked(__doc__.splitlines()[0], 60_000, 1_000)
    queries = [esdedup.Query(corpus.texts[row], str(row)) for row in corpus.rows]
    with tempfile.TemporaryDirectory() as folder, esdedup.open(Path(folder) / "x.db") as index:
        index.add({"id": str(row), "text": text} for row, text in enumerate(corpus.texts))
        results = []
        for threshold in THRESHOLDS:
            results.append(measure(index, queries, corpus.truth, threshold))
            print(json.dumps(results[-1]), flush=True)
    if file is not None:
        document = {"documents": len(corpus.texts), "queries": len(queries), "thresholds": results}
        file.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
