"""Which tokens of 128 permutations find the ten nearest: bands of rows, or single values.

    python benchmarks/top_k_tokens.py FILE [--documents 61486] [--json FILE]

Candidates are ranked by the tokens they share with the query, and the first of them verified; what
that finds of the true ten nearest is counted as in `top_k.py`. No store: signatures in memory.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from top_k import PERMUTATIONS, K, asked

from esdedup.sketch.minhash import band_hashes, signatures

TOKENS = ((23, 3, 30), (42, 3, 30), (64, 2, 30), (64, 1, 18), (128, 1, 12), (128, 1, 18),
          (128, 1, 30))  # fmt: skip
VERIFIED = (100, 300, 1_000)


def measure(
    hashes: np.ndarray, asked: list[int], truth: list[np.ndarray]
) -> tuple[dict[int, float], float]:
    """Recall by the number of documents verified, and candidates on average."""
    shares: dict[int, list[float]] = {most: [] for most in VERIFIED}
    candidates = []
    for row, values in zip(asked, truth, strict=True):
        shared = np.count_nonzero(hashes == hashes[row], axis=1)
        shared[row] = 0
        candidates.append(np.count_nonzero(shared))
        ranked = np.argsort(-shared, kind="stable")[: candidates[-1]]
        nearest = np.sort(values)[::-1][:K]
        nearest = nearest[nearest > 0]
        for most in VERIFIED if nearest.size else ():
            near = int(np.count_nonzero(values[ranked[:most]] >= nearest[-1]))
            shares[most].append(min(near, nearest.size) / nearest.size)
    recall = {most: round(float(np.mean(each)), 4) for most, each in shares.items()}
    return recall, round(float(np.mean(candidates)), 1)


def main() -> None:
    corpus, file = asked(__doc__.splitlines()[0], 61_486, 300)
    signature = signatures(corpus.sets, PERMUTATIONS, 1)
    results: list[dict[str, Any]] = []
    for bands, rows, bits in TOKENS:
        recall, candidates = measure(
            band_hashes(signature, bands, rows, bits), corpus.rows, corpus.truth
        )
        line = {"bands": bands, "rows": rows, "bits": bits, "recall_by_verified": recall}
        results.append({"documents": len(corpus.texts), **line, "candidates": candidates})
        print(json.dumps(results[-1]), flush=True)
    if file is not None:
        file.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
