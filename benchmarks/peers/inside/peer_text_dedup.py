"""Pairs and groups of text-dedup, for quality.py and whole_job.py; runs in its own environment.

    python inside/peer_text_dedup.py buckets SETS OUT THRESHOLD:BANDS:ROWS...
    python inside/peer_text_dedup.py groups UF DOCUMENTS OUT

buckets: signatures by its `embed_func`, tables and union as its `main` has them, of sets as in
`peer_quality.py`. Its command puts together all that share a bucket, and what these share others
with: the file of a threshold has `keys` of pairs that share a bucket, and `groups`, the group
of each set. groups: of a number of documents, from the file that its command
leaves with --debug.
"""

from __future__ import annotations

import itertools
import json
import pickle
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from text_dedup.minhash import INDEX_COLUMN, RNG, SIGNATURE_COLUMN, embed_func
from text_dedup.utils import UnionFind, sha1_hash

PERMUTATIONS = 128
LARGEST = np.uint32((1 << 32) - 1)
PRIME = np.uint64((1 << 61) - 1)

I64 = NDArray[np.int64]
Tables = list[dict[bytes, set[int]]]


def texts_of(file: Path) -> list[str]:
    """A text of a set: a word of sixteen digits for each member."""
    with np.load(file) as stored:
        data, offsets = stored["hashes"].astype(">u8").tobytes().hex(), stored["offsets"].tolist()
    return [
        " ".join(data[at : at + 16] for at in range(16 * first, 16 * end, 16))
        for first, end in itertools.pairwise(offsets)
    ]


def tables_of(texts: list[str], bands: int, rows: int) -> Tables:
    """The buckets of each band, as its command makes them by default."""
    permutations = (
        RNG.randint(1, PRIME, size=(PERMUTATIONS,), dtype=np.uint64),
        RNG.randint(0, PRIME, size=(PERMUTATIONS,), dtype=np.uint64),
    )
    tables: Tables = [defaultdict(set) for _ in range(bands)]
    for row, text in enumerate(texts):
        made = embed_func(
            text,
            row,
            num_perm=PERMUTATIONS,
            ngram_size=1,
            min_length=1,
            hashranges=[(band * rows, (band + 1) * rows) for band in range(bands)],
            permutations=permutations,
            hash_func=sha1_hash,
            dtype=np.uint64,
            max_hash=LARGEST,
            modulo_prime=PRIME,
        )
        for table, value in zip(tables, made[SIGNATURE_COLUMN], strict=True):
            table[value].add(made[INDEX_COLUMN])
    return tables


def united(tables: Tables) -> UnionFind:
    found = UnionFind()
    for table in tables:
        for bucket in table.values():
            least = min(bucket)
            for row in bucket if len(bucket) > 1 else ():
                found.union(row, least)
    return found


def keys_of(tables: Tables, count: int) -> I64:
    """The pairs that share a bucket."""
    keys = np.empty(0, np.int64)
    for table in tables:
        parts = [keys]
        for bucket in table.values():
            if len(bucket) > 1:
                rows = np.array(sorted(bucket))
                left, right = np.tril_indices(rows.size, -1)
                parts.append(rows[left] * count + rows[right])
        keys = np.unique(np.concatenate(parts))
    return keys


def groups_of(found: UnionFind, count: int) -> I64:
    """The group of each row: one of its rows."""
    return np.array([found.find(row) for row in range(count)])


def buckets(source: Path, out: Path, settings: list[str]) -> None:
    texts = texts_of(source)
    for setting in settings:
        threshold, bands, rows = setting.split(":")
        began = time.perf_counter()
        tables = tables_of(texts, int(bands), int(rows))
        groups = groups_of(united(tables), len(texts))
        seconds = round(time.perf_counter() - began, 2)
        name = f"text-dedup-{threshold}"
        print(json.dumps({"name": name, "seconds": seconds}), flush=True)
        np.savez(out / name, keys=keys_of(tables, len(texts)), groups=groups)


def main(job: str, *arguments: str) -> None:
    if job == "buckets":
        buckets(Path(arguments[0]), Path(arguments[1]), list(arguments[2:]))
        return
    with Path(arguments[0]).open("rb") as file:
        found = pickle.load(file)
    np.save(arguments[2], groups_of(found, int(arguments[1])))


if __name__ == "__main__":
    main(*sys.argv[1:])
