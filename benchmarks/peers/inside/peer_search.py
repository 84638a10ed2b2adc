"""datasketch's ways to search, in the peers' environment; `search.py` starts this.

    python -m benchmarks.peers.inside.peer_search FOLDER KIND --threshold T
        [--bands B --rows R] [--port P]

FOLDER holds `hashes.npy` (the upper 32 bits of all shingle hashes), `offsets.npy` (where each
document's begin), `asked.npy` and `warm.npy` (rows to ask for, measured and before), and
`texts.jsonl`. KIND is memory, redis (on a port of this machine) or forest. Prints one JSON line:
what the index took, and for the candidates as they come and for those whose estimated similarity
is at the threshold each, the answers and the milliseconds of all queries.

The index gets ready hashes, so that its sets are those of everybody else. What it takes to make
hashes of raw text is measured beside it, with the cheapest splitting and xxHash.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from datasketch import LeanMinHash, MinHash, MinHashLSH, MinHashLSHForest

PERMUTATIONS, SIZE, MOST = 128, 3, 2_000
AT_ONCE = 1_000
HASHES: dict[str, Any] = {"num_perm": PERMUTATIONS, "hashfunc": lambda value: value}
"""The given values are hashes already."""

Find = Callable[[MinHash], list[int]]


@dataclass(frozen=True)
class Index:
    """An index that is built: how to ask it, how many bytes it takes, and its bands."""

    find: Find
    bytes: int
    setting: str


def resident() -> int:
    """Bytes of memory that this process has now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def of_hashes(rows: list[list[int]]) -> Iterator[tuple[int, MinHash]]:
    return enumerate(MinHash.generator(rows, **HASHES))


def in_memory(rows: list[list[int]], options: argparse.Namespace) -> Index:
    before = resident()
    lsh = MinHashLSH(options.threshold, PERMUTATIONS, params=options.params)
    for row, minhash in of_hashes(rows):
        lsh.insert(row, minhash, check_duplication=False)
    return Index(lsh.query, resident() - before, f"{lsh.b} x {lsh.r}")


def in_redis(rows: list[list[int]], options: argparse.Namespace) -> Index:
    import redis

    where = {"host": "127.0.0.1", "port": options.port}
    server = redis.Redis(**where)
    server.flushall()
    before = server.info("memory")["used_memory"]
    storage = {"type": "redis", "basename": b"search", "redis": where}
    lsh = MinHashLSH(options.threshold, PERMUTATIONS, params=options.params, storage_config=storage)
    with lsh.insertion_session() as session:
        for row, minhash in of_hashes(rows):
            session.insert(row, minhash, check_duplication=False)
    grown = server.info("memory")["used_memory"] - before
    return Index(lsh.query, grown, f"{lsh.b} x {lsh.r}")


def in_forest(rows: list[list[int]], options: argparse.Namespace) -> Index:
    before = resident()
    forest = MinHashLSHForest(PERMUTATIONS, l=options.trees)
    for row, minhash in of_hashes(rows):
        forest.add(row, minhash)
    forest.index()
    # One more, because a document of the index answers to itself.
    find = functools.partial(forest.query, k=MOST + 1)
    return Index(find, resident() - before, f"{options.trees} trees")


KINDS = {"memory": in_memory, "redis": in_redis, "forest": in_forest}


def signatures(rows: list[list[int]]) -> tuple[list[LeanMinHash], float, int]:
    """All signatures, to estimate similarities by; seconds and bytes that keeping them takes.

    The index was built of the same ones: to make them again is not counted.
    """
    before, seconds = resident(), 0.0
    kept: list[LeanMinHash] = []
    made = MinHash.generator(rows, **HASHES)
    while some := list(itertools.islice(made, AT_ONCE)):
        began = time.perf_counter()
        kept += [LeanMinHash(minhash) for minhash in some]
        seconds += time.perf_counter() - began
    return kept, seconds, resident() - before


def estimated(find: Find, kept: list[LeanMinHash], threshold: float) -> Find:
    """Only the documents that are similar by the estimate of the signatures."""

    def near(minhash: MinHash) -> list[int]:
        return [key for key in find(minhash) if minhash.jaccard(kept[key]) >= threshold]

    return near


def answers(find: Find, rows: list[list[int]], asked: list[int]) -> dict[str, Any]:
    """The rows that each query finds, and its milliseconds, from hashes to answer."""
    found, times = [], []
    for row in asked:
        began = time.perf_counter()
        minhash = MinHash(**HASHES)
        minhash.update_batch(rows[row])
        keys = find(minhash)
        times.append(1e3 * (time.perf_counter() - began))
        found.append([key for key in keys if key != row])
    return {"found": found, "times": times}


def splitting(folder: Path, han: bool) -> float:
    """Seconds to split all raw texts and hash their shingles, in the cheapest way."""
    with (folder / "texts.jsonl").open(encoding="utf-8") as file:
        texts = [json.loads(line) for line in file]
    began = time.perf_counter()
    for text in texts:
        parts = list(text.lower()) if han else text.lower().split()
        glue = "" if han else " "
        shingles = {glue.join(parts[i : i + SIZE]) for i in range(max(1, len(parts) - SIZE + 1))}
        [xxhash.xxh32_intdigest(shingle.encode()) for shingle in shingles]
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--bands", type=int, help="in place of those that it chooses")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--trees", type=int, default=8)
    parser.add_argument("--port", type=int, help="of Redis")
    parser.add_argument("--han", action="store_true", help="characters are words")
    options = parser.parse_args()
    options.params = (options.bands, options.rows) if options.bands else None
    loaded = {
        n: np.load(options.folder / f"{n}.npy") for n in ("hashes", "offsets", "asked", "warm")
    }
    hashes, offsets = loaded["hashes"].tolist(), loaded["offsets"].tolist()
    rows = [hashes[a:b] for a, b in itertools.pairwise(offsets)]
    asked, warm = loaded["asked"].tolist(), loaded["warm"].tolist()
    raw = splitting(options.folder, options.han)
    began = time.perf_counter()
    index = KINDS[options.kind](rows, options)
    seconds = time.perf_counter() - began
    answers(index.find, rows, warm)
    plain = answers(index.find, rows, asked)
    kept, keeping, grown = signatures(rows)
    near = estimated(index.find, kept, options.threshold)
    answers(near, rows, warm)
    filtered = answers(near, rows, asked)
    ways = [
        {"estimated": False, "seconds": seconds, "bytes": index.bytes, **plain},
        {"estimated": True, "seconds": seconds + keeping, "bytes": index.bytes + grown, **filtered},
    ]
    print(json.dumps({"setting": index.setting, "splitting_seconds": raw, "ways": ways}))


if __name__ == "__main__":
    main()
