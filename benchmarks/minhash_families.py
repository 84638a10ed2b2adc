"""Which MinHash: k permutations, or one permutation with densification.

    python benchmarks/minhash_families.py

Accuracy: root mean square error of the estimated Jaccard similarity, as a multiple of the binomial
bound sqrt(J (1 - J) / k), over 3,000 random pairs of sets at each size; 1.00 is what k independent
permutations give. Speed: signatures of made-up texts of short and long documents, best of 5.

One-permutation hashing: Li, Owen, Zhang, NIPS 2012; its empty bins filled by optimal densification:
Shrivastava, ICML 2017.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import texts as made_up
from numpy.typing import NDArray

from esdedup.sketch.minhash import EMPTY, estimate_jaccard, signatures
from esdedup.text.arrays import Ragged, offsets_of
from esdedup.text.hashing import avalanche
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import tokenise

K = 128
PAIRS = 3_000
Sign = Callable[[Ragged], NDArray[np.uint32]]


def permutations(shingles: Ragged) -> NDArray[np.uint32]:
    return signatures(shingles, K, 1)


def one_permutation(shingles: Ragged) -> NDArray[np.uint32]:
    """The least value in each of K bins; an empty bin copies a filled one of a hashed choice."""
    row = np.repeat(np.arange(len(shingles)), shingles.counts)
    bins = (shingles.hashes >> np.uint64(57)).astype(np.int64)  # 7 bits: 128 bins
    values = ((shingles.hashes >> np.uint64(25)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    signature = np.full((len(shingles), K), EMPTY, np.uint32)
    np.minimum.at(signature, (row, bins), values)
    filled = signature != EMPTY
    filled[~filled.any(axis=1)] = True  # An empty set stays empty.
    todo = np.argwhere(~filled)
    for attempt in range(1, 10_000):
        if not len(todo):
            break
        # All sets choose alike for a bin and an attempt, so that equal bins stay equal.
        choice = avalanche(todo[:, 1].astype(np.uint64) + np.uint64(attempt << 16))
        source = (choice % np.uint64(K)).astype(np.int64)
        found = filled[todo[:, 0], source]
        signature[tuple(todo[found].T)] = signature[todo[found, 0], source[found]]
        todo = todo[~found]
    return signature


def error(sign: Sign, union: int, similarity: float) -> float:
    """RMSE over random pairs of sets with so many elements together, over the binomial bound."""
    rng = np.random.default_rng(union)
    shared = round(union * similarity)
    exact = shared / union
    left_only = (union - shared) // 2
    hashes = rng.integers(0, 2**64, (PAIRS, union), dtype=np.uint64)
    left = hashes[:, : shared + left_only]
    right = np.concatenate([hashes[:, :shared], hashes[:, shared + left_only :]], axis=1)
    estimates = estimate_jaccard(sign(as_rows(left)), sign(as_rows(right)))
    rmse = float(np.sqrt(np.mean((estimates - exact) ** 2)))
    return rmse / float(np.sqrt(exact * (1 - exact) / K))


def as_rows(sets: NDArray[np.uint64]) -> Ragged:
    return Ragged(sets.ravel(), offsets_of(np.full(len(sets), sets.shape[1])))


def seconds(sign: Sign, shingles: Ragged) -> float:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        sign(shingles)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    families: dict[str, Sign] = {
        "permutations": permutations,
        "one permutation": one_permutation,
    }
    print("RMSE / binomial bound, k = 128")
    print(f"{'elements of both sets':24}{'J':>6}" + "".join(f"{name:>18}" for name in families))
    for union in (5, 10, 20, 50, 200, 1000):
        for similarity in (0.4, 0.8):
            errors = [error(sign, union, similarity) for sign in families.values()]
            print(f"{union:<24}{similarity:>6}" + "".join(f"{value:18.2f}" for value in errors))
    print("\ndocuments signed a second")
    print(f"{'characters a document':30}" + "".join(f"{name:>18}" for name in families))
    for characters, documents in ((200, 20_000), (400, 10_000), (4_000, 1_000), (40_000, 100)):
        texts = [text.lower() for text in made_up.english(documents, characters)]
        shingles = shingle(tokenise(texts, Shingling(), 1), 5)
        rates = [documents / seconds(sign, shingles) for sign in families.values()]
        print(f"{characters:<30}" + "".join(f"{rate:18,.0f}" for rate in rates))


if __name__ == "__main__":
    main()
