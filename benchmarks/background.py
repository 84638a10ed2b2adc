"""How many unlike documents a query meets in a large index, from the likeness of a small corpus.

    python benchmarks/background.py FILE [--threshold 0.8] [--recall 0.99] [--words 60]

FILE has a text a line. The exact Jaccard similarities of all pairs, but for those over 0.3, which
a person would call alike, are put into the S-curve: its mean is the chance that a query meets an
unlike document. Times N, that is the expected background of an index of N documents of this kind,
for each number of rows, with as many bands as the recall at the threshold takes.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import esdedup
from esdedup.sketch.sketch import shingle_sets
from esdedup.text.jaccard import jaccard

SIZES = (10**6, 10**8, 8 * 10**9)
ALIKE = 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--threshold", type=float, default=0.8)
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--words", type=int, help="only so many words of each text")
    options = parser.parse_args()
    texts = [line for line in options.file.read_text("utf-8").splitlines() if line.strip()]
    if options.words:
        texts = [" ".join(text.split()[: options.words]) for text in texts]
    sets = shingle_sets(texts, esdedup.Scheme())
    left, right = np.triu_indices(len(texts), 1)
    similarity = jaccard(sets, left, right)
    unlike = similarity[similarity < ALIKE]
    print(
        f"{len(texts):,} texts of {np.mean([len(text) for text in texts]):.0f} characters:"
        f" Jaccard similarity of unlike pairs: mean {unlike.mean():.5f},"
        f" 99% below {np.quantile(unlike, 0.99):.4f}"
    )
    print(f"bands for recall {options.recall} at Jaccard {options.threshold}")
    print(f"{'rows':>4} {'bands':>6} {'chance':>9} " + " ".join(f"{size:>14,}" for size in SIZES))
    for rows in range(3, 11):
        met = options.threshold**rows
        bands = math.ceil(math.log(1 - options.recall) / math.log(1 - met))
        chance = float(np.mean(1 - (1 - unlike**rows) ** bands))
        counts = " ".join(f"{chance * size:>14,.2f}" for size in SIZES)
        print(f"{rows:>4} {bands:>6} {chance:>9.1e} {counts}")


if __name__ == "__main__":
    main()
