"""A peer's estimates of the Jaccard similarity of pairs of sets, in the peer's own environment.

    python -m benchmarks.peers.inside.peer_estimates NAME PAIRS PERMUTATIONS

PAIRS: JSON, a list of pairs of sets, each a list of words. Prints the estimates, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Sets = list[list[str]]
SEED = 42


def datasketch(left: Sets, right: Sets, permutations: int) -> list[float]:
    import xxhash
    from datasketch import MinHash

    def sketched(sets: Sets) -> Any:
        return MinHash.bulk(
            ([word.encode() for word in words] for words in sets),
            num_perm=permutations,
            hashfunc=xxhash.xxh32_intdigest,
        )

    pairs = zip(sketched(left), sketched(right), strict=True)
    return [float(one.jaccard(other)) for one, other in pairs]


def rensa_r(left: Sets, right: Sets, permutations: int) -> list[float]:
    from rensa import RMinHash

    made = [RMinHash.from_token_sets(sets, permutations, SEED) for sets in (left, right)]
    return [float(one.jaccard(other)) for one, other in zip(*made, strict=True)]


def rensa_c(left: Sets, right: Sets, permutations: int) -> list[float]:
    from rensa import CMinHash

    made = [CMinHash.from_token_sets(sets, permutations, SEED) for sets in (left, right)]
    return [float(one.jaccard(other)) for one, other in zip(*made, strict=True)]


def rensa_rho(left: Sets, right: Sets, permutations: int) -> list[float]:
    from rensa import RMinHash

    sketch = RMinHash.digest_matrix_from_token_sets_rho
    made = [sketch(sets, permutations, SEED).to_rows() for sets in (left, right)]
    return [_alike(one, other) for one, other in zip(*made, strict=True)]


def gaoya(left: Sets, right: Sets, permutations: int) -> list[float]:
    from gaoya.minhash import MinHashStringIndex

    # It shows estimates only of what shares a band: with one row a band, of all that is not 0.
    index = MinHashStringIndex(
        32, 0.0, permutations, 1, None, "word", False, (1, 1), id_container="vec"
    )
    for number, words in enumerate(left):
        index.insert_document(number, " ".join(words))
    found = index.par_bulk_query([" ".join(words) for words in right], return_similarity=True)
    return [dict(matches).get(number, 0.0) for number, matches in enumerate(found)]


def text_dedup(left: Sets, right: Sets, permutations: int) -> list[float]:
    from text_dedup.minhash import SIGNATURE_COLUMN, embed_func

    settings = text_dedup_options(permutations, 1, 1, "xxh3")
    settings["min_length"] = 1
    made = [
        [embed_func(" ".join(words), 0, **settings)[SIGNATURE_COLUMN] for words in sets]
        for sets in (left, right)
    ]
    return [_alike(one, other) for one, other in zip(*made, strict=True)]


def text_dedup_options(permutations: int, rows: int, ngram: int, hash_name: str) -> dict[str, Any]:
    """The arguments of its command to its embedding, by default (64 bits, 5 words at least)."""
    import numpy as np
    from text_dedup.minhash import RNG
    from text_dedup.utils import sha1_hash, xxh3_32hash

    prime = np.uint64((1 << 61) - 1)
    return {
        "num_perm": permutations,
        "hashranges": [(i, i + rows) for i in range(0, permutations, rows)],
        "ngram_size": ngram,
        "min_length": 5,
        "permutations": (
            RNG.randint(1, prime, size=(permutations,), dtype=np.uint64),
            RNG.randint(0, prime, size=(permutations,), dtype=np.uint64),
        ),
        "hash_func": xxh3_32hash if hash_name == "xxh3" else sha1_hash,
        "dtype": np.uint64,
        "max_hash": np.uint32((1 << 32) - 1),
        "modulo_prime": prime,
    }


def _alike(one: list[Any], other: list[Any]) -> float:
    return float(sum(a == b for a, b in zip(one, other, strict=True)) / len(one))


def main() -> None:
    name, file, permutations = sys.argv[1:]
    pairs = json.loads(Path(file).read_text("ascii"))
    left, right = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    peers = {
        "datasketch": datasketch,
        "gaoya": gaoya,
        "rensa R-MinHash": rensa_r,
        "rensa C-MinHash": rensa_c,
        "rensa rho (samples)": rensa_rho,
        "text-dedup": text_dedup,
    }
    print(json.dumps(peers[name](left, right, int(permutations))))


if __name__ == "__main__":
    main()
