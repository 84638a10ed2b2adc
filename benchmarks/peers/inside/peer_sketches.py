"""A peer's way from raw texts to band keys, in the peer's own environment.

Shingles are made the cheapest way that Python has: `str.split`, and a join of what `zip` gives.
Chinese has no spaces: characters are taken for words.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.peers.inside import in_process

SIZE = 5
SEED = 42
Shingles = Callable[[str], list[str]]


def shingles_of(language: str, size: int) -> Shingles:
    """How texts of a language become shingles of `size` words or, in Chinese, characters."""

    def words(text: str) -> list[str]:
        found = text.lower().split()
        return list(map(" ".join, zip(*(found[i:] for i in range(size)), strict=False)))

    def characters(text: str) -> list[str]:
        folded = text.lower()
        return [folded[i : i + size] for i in range(len(folded) - size + 1)]

    return words if language == "english" else characters


def sliced(signatures: Any, rows: int) -> list[list[bytes]]:
    """Band keys cut out of one array of signatures, shape (documents, permutations)."""
    import numpy as np

    width = rows * signatures.dtype.itemsize
    lines = [line.tobytes() for line in np.ascontiguousarray(signatures)]
    return [[line[i : i + width] for i in range(0, len(line), width)] for line in lines]


def with_datasketch(options: Any) -> in_process.Job:
    import numpy as np
    import xxhash
    from datasketch import MinHash

    shingles = shingles_of(options.language, SIZE)
    hashed = {"num_perm": options.permutations, "hashfunc": xxhash.xxh32_intdigest}

    def job(texts: list[str]) -> Any:
        coded = ([s.encode() for s in shingles(text)] for text in texts)
        made = MinHash.generator(coded, **hashed)
        return sliced(np.stack([m.hashvalues for m in made]), options.rows)

    return job


def with_rensa(options: Any) -> in_process.Job:
    import numpy as np
    from rensa import RMinHash

    shingles = shingles_of(options.language, SIZE)

    def job(texts: list[str]) -> Any:
        tokens = [shingles(text) for text in texts]
        digests = RMinHash.digests_from_token_sets(tokens, options.permutations, SEED)
        return sliced(np.array(digests, np.uint32), options.rows)

    return job


def with_rensa_index(options: Any) -> in_process.Job:
    from rensa import RMinHash, RMinHashLSH

    shingles = shingles_of(options.language, SIZE)
    permutations = options.permutations

    def job(texts: list[str]) -> Any:
        tokens = [shingles(text) for text in texts]
        index = RMinHashLSH(0.5, permutations, permutations // options.rows)
        index.insert_matrix(RMinHash.digest_matrix_from_token_sets(tokens, permutations, SEED))
        return index

    return job


def with_gaoya(options: Any) -> in_process.Job:
    from gaoya.minhash import MinHashStringIndex

    analyzer = "word" if options.language == "english" else "char"
    bands = options.permutations // options.rows

    def job(texts: list[str]) -> Any:
        # It has no call that only makes signatures; its index with buckets is the nearest.
        index = MinHashStringIndex(
            32, 0.5, bands, options.rows, None, analyzer, True, (SIZE, SIZE), id_container="vec"
        )
        index.par_bulk_insert_docs(list(range(len(texts))), texts)
        return index

    return job


def with_text_dedup(options: Any) -> in_process.Job:
    """The arguments of its command to its embedding, by default (64 bits, 5 words at least)."""
    import numpy as np
    from text_dedup.minhash import RNG, embed_func
    from text_dedup.utils import xxh3_32hash

    permutations, rows = options.permutations, options.rows
    prime = np.uint64((1 << 61) - 1)
    settings = {
        "num_perm": permutations,
        "hashranges": [(i, i + rows) for i in range(0, permutations, rows)],
        "ngram_size": SIZE,
        "min_length": 5,
        "permutations": (
            RNG.randint(1, prime, size=(permutations,), dtype=np.uint64),
            RNG.randint(0, prime, size=(permutations,), dtype=np.uint64),
        ),
        "hash_func": xxh3_32hash,
        "dtype": np.uint64,
        "max_hash": np.uint32((1 << 32) - 1),
        "modulo_prime": prime,
    }

    def job(texts: list[str]) -> Any:
        if options.language == "chinese":
            # It splits at everything but letters: a Chinese sentence would be one word.
            texts = [" ".join(text) for text in texts]
        return [embed_func(text, row, **settings) for row, text in enumerate(texts)]

    return job


def main() -> None:
    options = in_process.options(__doc__.splitlines()[0]).parse_args()
    in_process.use_one_core()
    jobs: dict[str, tuple[str, Callable[[Any], in_process.Job]]] = {
        "datasketch xxhash, keys cut by us": ("datasketch", with_datasketch),
        "rensa R-MinHash": ("rensa", with_rensa),
        "rensa R-MinHash, with its buckets": ("rensa", with_rensa_index),
        "gaoya, with its buckets": ("gaoya", with_gaoya),
        "text-dedup xxh3": ("text-dedup", with_text_dedup),
    }
    package, make = jobs[options.job]
    in_process.report(make(options), options.file, options.rounds, package)


if __name__ == "__main__":
    main()
