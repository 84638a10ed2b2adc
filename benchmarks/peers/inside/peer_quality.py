"""Pairs that a peer finds among sets, for quality.py; runs in the peers' own environment.

    python inside/peer_quality.py parameters THRESHOLD...
    python inside/peer_quality.py datasketch|rensa|gaoya SETS OUT THRESHOLD:BANDS:ROWS...

SETS: a file of numpy with `hashes` and `offsets`; a set's members are eight bytes each, or sixteen
hexadecimal digits where a peer takes text. Into the folder OUT goes a file for each threshold, with
`keys`, left * number of sets + right with left > right, ascending; and `estimates`, the similarity
that the peer itself estimates for each.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 128
AT_ONCE = 500
"""Queries of a call, because their answers are many."""

I64 = NDArray[np.int64]
Found = tuple[I64, NDArray[np.float64]]
Setting = tuple[float, int, int]


def parameters(thresholds: Iterable[float]) -> list[Setting]:
    """Bands and rows for thresholds, as datasketch chooses them."""
    from datasketch import MinHashLSH

    made = ((t, MinHashLSH(threshold=t, num_perm=PERMUTATIONS)) for t in thresholds)
    return [(threshold, index.b, index.r) for threshold, index in made]


def sets_of(file: Path) -> list[list[bytes]]:
    """The members of each set."""
    with np.load(file) as stored:
        data, offsets = stored["hashes"].astype(">u8").tobytes(), stored["offsets"].tolist()
    return [
        [data[at : at + 8] for at in range(8 * first, 8 * end, 8)]
        for first, end in itertools.pairwise(offsets)
    ]


def keyed(first: int, found: Sequence[Iterable[int]], count: int) -> I64:
    """The keys of what queries from row `first` on found."""
    lists = [list(each) for each in found]
    left = np.repeat(np.arange(first, first + len(lists)), [len(each) for each in lists])
    right = np.fromiter(itertools.chain.from_iterable(lists), np.int64, left.size)
    kept = right < left
    keys: I64 = left[kept] * count + right[kept]
    return keys


def estimated(signatures: NDArray[np.uint32], keys: I64) -> NDArray[np.float64]:
    """The share of equal values, as `jaccard` of datasketch and of rensa has it, of all pairs."""
    count, length = signatures.shape
    estimates = np.empty(keys.size)
    for first in range(0, keys.size, 1 << 17):
        left, right = np.divmod(keys[first : first + (1 << 17)], count)
        same = np.count_nonzero(signatures[left] == signatures[right], axis=1)
        estimates[first : first + (1 << 17)] = same / length
    return estimates


def blocks(count: int) -> Iterator[range]:
    return (range(first, min(first + AT_ONCE, count)) for first in range(0, count, AT_ONCE))


def with_datasketch(sets: list[list[bytes]]) -> Callable[[Setting], Found]:
    import xxhash
    from datasketch import MinHash, MinHashLSH

    made = MinHash.bulk(sets, num_perm=PERMUTATIONS, hashfunc=xxhash.xxh32_intdigest)
    signatures = np.stack([each.hashvalues for each in made])

    def pairs(setting: Setting) -> Found:
        index = MinHashLSH(num_perm=PERMUTATIONS, params=setting[1:])
        for row, each in enumerate(made):
            index.insert(row, each, check_duplication=False)
        parts = [
            keyed(rows.start, [index.query(made[row]) for row in rows], len(made))
            for rows in blocks(len(made))
        ]
        keys = np.sort(np.concatenate(parts))
        return keys, estimated(signatures, keys)

    return pairs


def with_rensa(sets: list[list[bytes]]) -> Callable[[Setting], Found]:
    from rensa import RMinHash, RMinHashLSH

    def pairs(setting: Setting) -> Found:
        threshold, bands, rows_of_band = setting
        # Its index takes only signatures that are bands of rows, without a rest.
        length = bands * rows_of_band
        made = RMinHash.from_token_sets(sets, length, 42)
        index = RMinHashLSH(threshold, length, bands)
        index.insert_many(made)
        parts = [
            keyed(rows.start, index.query_all(made[rows.start : rows.stop]), len(made))
            for rows in blocks(len(made))
        ]
        keys = np.sort(np.concatenate(parts))
        return keys, estimated(np.array([each.digest() for each in made], np.uint32), keys)

    return pairs


def with_gaoya(sets: list[list[bytes]]) -> Callable[[Setting], Found]:
    from gaoya.minhash import MinHashStringIndex

    def tokens(row: int) -> list[str]:
        return [member.hex() for member in sets[row]]

    def pairs(setting: Setting) -> Found:
        _, bands, rows_of_band = setting
        # Without a threshold it answers with all candidates, and how alike it estimates them.
        index = MinHashStringIndex(
            32, 0.0, bands, rows_of_band, None, tokens, False, None, id_container="vec"
        )
        for rows in blocks(len(sets)):
            index.par_bulk_insert_docs(list(rows), list(rows))
        keys, estimates = [], []
        for rows in blocks(len(sets)):
            found = index.par_bulk_query(list(rows), return_similarity=True)
            part = [
                (row * len(sets) + other, value)
                for row, answer in zip(rows, found, strict=True)
                for other, value in answer
                if other < row
            ]
            keys.append(np.array([key for key, _ in part], np.int64))
            estimates.append(np.array([value for _, value in part]))
        joined = np.concatenate(keys)
        order = np.argsort(joined)
        return joined[order], np.concatenate(estimates)[order]

    return pairs


def report(name: str, began: float, pairs: int) -> None:
    seconds = round(time.perf_counter() - began, 2)
    print(json.dumps({"name": name, "seconds": seconds, "pairs": pairs}), flush=True)


WAYS: dict[str, Callable[[list[list[bytes]]], Callable[[Setting], Found]]] = {
    "datasketch": with_datasketch,
    "rensa": with_rensa,
    "gaoya": with_gaoya,
}


def write(out: Path, name: str, began: float, found: Found) -> None:
    report(name, began, found[0].size)
    np.savez(out / name, keys=found[0], estimates=found[1])


def main(job: str, *arguments: str) -> None:
    if job == "parameters":
        print(json.dumps(parameters(map(float, arguments))))
        return
    source, out, asked = Path(arguments[0]), Path(arguments[1]), arguments[2:]
    sets = sets_of(source)
    began = time.perf_counter()
    pairs = WAYS[job](sets)
    for setting in asked:
        threshold, bands, rows = setting.split(":")
        write(out, f"{job}-{threshold}", began, pairs((float(threshold), int(bands), int(rows))))
        began = time.perf_counter()


if __name__ == "__main__":
    main(*sys.argv[1:])
