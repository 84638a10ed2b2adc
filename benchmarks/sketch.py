"""Raw text to band tokens: esdedup beside its peers, on one core, in one run.

    pip install datasketch rensa gaoya
    python benchmarks/sketch.py [--documents 10000] [--characters 400] [--json FILE]

Word 5-shingles, 128 permutations, 32 bands of 4 rows, texts folded to lower case. Every peer takes
its own fastest documented way and the cheapest splitting into words (`str.split`); esdedup does its
whole normalisation and Unicode splitting, and digests; "all its fields" adds the fingerprint, the
segment tokens and the dictionary that goes into a document.
datasketch's band keys are made as its MinHashLSH makes them, and in "our keys" cut out of
one array, which is quicker; the others', which have no keys to show, are cut out likewise.
Rounds are interleaved, and the best of each is reported: on a shared machine the best is closest to
what the code costs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import texts as made_up
import xxhash

from esdedup import MinHash, Scheme, Shingling
from esdedup.sketch import sketch, token_fields
from esdedup.tokens import encode

SIZE, PERMUTATIONS, BANDS, ROWS = 5, 128, 32, 4
Job = Callable[[list[str]], Any]
Shingles = Callable[[str], list[str]]


def with_esdedup() -> Job:
    minhash = MinHash(PERMUTATIONS, BANDS, ROWS)
    scheme = Scheme(shingling=Shingling("word", SIZE), minhash=minhash, simhash=None)

    def job(texts: list[str]) -> Any:
        bands = sketch(texts, scheme).bands
        assert bands is not None
        return encode(bands, minhash.token_bits)

    return job


def with_esdedup_fields() -> Job:
    scheme = Scheme(shingling=Shingling("word", SIZE), minhash=MinHash(PERMUTATIONS, BANDS, ROWS))
    return lambda texts: token_fields(sketch(texts, scheme), scheme)


def word_shingles(text: str) -> list[str]:
    words = text.lower().split()
    return [" ".join(words[i : i + SIZE]) for i in range(max(1, len(words) - SIZE + 1))]


def character_shingles(text: str) -> list[str]:
    folded = text.lower()
    return [folded[i : i + SIZE] for i in range(max(1, len(folded) - SIZE + 1))]


def band_keys(signatures: np.ndarray) -> list[list[bytes]]:
    width = ROWS * signatures.dtype.itemsize
    rows = [row.tobytes() for row in np.ascontiguousarray(signatures)]
    return [[row[i : i + width] for i in range(0, BANDS * width, width)] for row in rows]


def with_datasketch(
    shingles: Shingles, hash_name: str, scheme: str | None = None, sliced: bool = False
) -> Job:
    import hashlib
    import struct

    from datasketch import MinHash as DatasketchMinHash
    from datasketch import MinHashLSH

    index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))

    def sha1(data: bytes) -> int:
        return int(struct.unpack("<I", hashlib.sha1(data).digest()[:4])[0])

    hashfunc = xxhash.xxh32_intdigest if hash_name == "xxhash" else sha1
    options = {} if scheme is None else {"scheme": scheme}

    def job(texts: list[str]) -> Any:
        coded = ([s.encode() for s in shingles(text)] for text in texts)
        made = DatasketchMinHash.generator(
            coded, num_perm=PERMUTATIONS, hashfunc=hashfunc, **options
        )
        if sliced:
            return band_keys(np.stack([m.hashvalues for m in made]))
        return [[index._H(m.hashvalues[a:b]) for a, b in index.hashranges] for m in made]

    return job


def with_rensa(shingles: Shingles) -> Job:
    from rensa import RMinHash

    def job(texts: list[str]) -> Any:
        sets = [shingles(text) for text in texts]
        digests = RMinHash.digests_from_token_sets(sets, PERMUTATIONS, 42)
        return band_keys(np.array(digests, np.uint32))

    return job


def with_gaoya(analyzer: str) -> Job:
    from gaoya.minhash import MinHashStringIndex

    def job(texts: list[str]) -> Any:
        # It has no call that only makes signatures; its index with buckets is the nearest.
        index = MinHashStringIndex(
            32, 0.5, BANDS, ROWS, None, analyzer, True, (SIZE, SIZE), id_container="vec"
        )
        index.par_bulk_insert_docs(list(range(len(texts))), texts)
        return index

    return job


def jobs_for(language: str) -> dict[str, Callable[[], Job]]:
    """The jobs by name. Chinese has no spaces: the peers take characters for words."""
    shingles = word_shingles if language == "english" else character_shingles
    analyzer = "word" if language == "english" else "char"
    return {
        "esdedup": with_esdedup,
        "esdedup, all its fields": with_esdedup_fields,
        "datasketch xxhash": lambda: with_datasketch(shingles, "xxhash"),
        "datasketch xxhash affine32": lambda: with_datasketch(shingles, "xxhash", "affine32"),
        "datasketch xxhash, our keys": lambda: with_datasketch(shingles, "xxhash", sliced=True),
        "datasketch sha1": lambda: with_datasketch(shingles, "sha1"),
        "rensa": lambda: with_rensa(shingles),
        "gaoya (with its buckets)": lambda: with_gaoya(analyzer),
    }


def best_times(jobs: dict[str, Job], texts: list[str], rounds: int) -> dict[str, float]:
    """Seconds of the best round of each job; the first round warms up."""
    best = dict.fromkeys(jobs, float("inf"))
    for round_number in range(rounds + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job(texts)
            if round_number:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in ("esdedup", "numpy", "xxhash", "datasketch", "rensa", "gaoya"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--language", choices=("english", "chinese"), default="english")
    parser.add_argument("--json", type=Path, help="append the figures to this file")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    jobs = {}
    for name, make in jobs_for(options.language).items():
        try:
            jobs[name] = make()
        except ImportError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
    texts = getattr(made_up, options.language)(options.documents, options.characters)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    best = best_times(jobs, texts, options.rounds)
    print(f"{len(texts):,} {options.language} documents, {megabytes:.2f} MB, {versions()}")
    print(f"{'':28}{'documents/s':>12}{'MB/s':>8}{'esdedup is':>12}")
    for name, seconds in best.items():
        times = f"x{seconds / best['esdedup']:.2f}"
        print(f"{name:28}{len(texts) / seconds:12,.0f}{megabytes / seconds:8.1f}{times:>12}")
    if options.json:
        record = {
            "options": vars(options) | {"json": None},
            "versions": versions(),
            "seconds": best,
        }
        with options.json.open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
