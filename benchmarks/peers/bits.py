"""Codes of 64 and 256 bits: esdedup beside FAISS, a BK-tree, and Elasticsearch's `bit` vectors.

    python -m benchmarks.peers.bits [--codes 1000000] [--queries 300] [--only TOOL,...]
        [--url URL | --version V] [--folder OUT]

Random codes. A query is one of them with bits flipped, a quarter of the queries at each of four
distances up to the one that is searched, 8 of 64 bits or 31 of 256. Found: the share of all codes
within the distance, known from a scan of all, that a search returns. Each tool is a process of its
own, whose peak memory is shown (for Elasticsearch that of the client), and is searched by one query
at a time. Bytes: of the local file, of the index of Elasticsearch in one segment, each with the
code itself as text, or of FAISS's index as it is written to a file.

Peers, from PyPI: faiss-cpu, pybktree. `faiss-multihash` has the segments and the flipped bits of
esdedup. The bit vectors are searched by `knn` with a least similarity, by a graph (`int8_hnsw` has
no bits, so plain `hnsw`) and by a scan (`flat`). The jars of the tests' OpenSearch have no k-NN.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.measuring import Figures, run
from benchmarks.lib.servers import add_options, drop, served
from benchmarks.lib.value_indices import SETTINGS, call, merged, stored_bytes, value_index
from esdedup import Bits, Limits
from esdedup.text.arrays import U64

DISTANCES = {64: (0, 3, 6, 8), 256: (0, 10, 20, 31)}
SLOW = {"bktree": 20}
"""Tools that get fewer queries: one takes seconds."""
TOOLS = {
    "esdedup": "esdedup, local file",
    "esdedup-cluster": "esdedup, Elasticsearch",
    "vectors-hnsw": "Elasticsearch `bit` vectors, `hnsw`, 100 candidates",
    "vectors-flat": "Elasticsearch `bit` vectors, `flat`",
    "faiss-flat": "FAISS `IndexBinaryFlat`",
    "faiss-hash": "FAISS `IndexBinaryHash`, 20 bits, 2 flipped",
    "faiss-multihash": "FAISS `IndexBinaryMultiHash`",
    "bktree": "pybktree",
}
INDEX = "benchmark-bits"
Search = Callable[[U64], list[int]]
"""Return the codes within the distance of a query, shape (words,)."""
Built = tuple[Search, float | None]
"""A search, and the bytes a code; None if they are not known."""


def hexadecimal(code: U64) -> str:
    return "".join(f"{word:016x}" for word in code.tolist())


def octets(codes: U64) -> Any:
    """Return codes as rows of bytes, the highest first."""
    return codes.astype(">u8").view(np.uint8).reshape(len(codes), -1)


def of_esdedup(codes: U64, bits: int, target: str | Path) -> Built:
    values = map(hexadecimal, codes)
    index = value_index(target, INDEX, Bits(bits, DISTANCES[bits][-1]), "code", values)
    limits = Limits(k=10)

    def search(code: U64) -> list[int]:
        (found,) = index.similar_many([esdedup.Query(hexadecimal(code))], limits)
        return [int(match.id) for match in found.matches]

    search(codes[0])
    return search, stored_bytes(target, INDEX) / len(codes)


def of_vectors(codes: U64, bits: int, url: str, kind: str) -> Built:
    vector = {"type": "dense_vector", "element_type": "bit", "dims": bits}
    mapping = {"code": vector | {"similarity": "l2_norm", "index_options": {"type": kind}}}
    call(url, "PUT", f"/{INDEX}", {"settings": SETTINGS, "mappings": {"properties": mapping}})
    for first in range(0, len(codes), 5_000):
        lines = []
        for row, code in enumerate(codes[first : first + 5_000], first):
            lines += [{"index": {"_id": str(row)}}, {"code": hexadecimal(code)}]
        answer = call(url, "POST", f"/{INDEX}/_bulk", lines)
        assert not answer["errors"]
    size = merged(url, INDEX) / len(codes)
    knn = {"field": "code", "k": 10, "num_candidates": 100, "similarity": DISTANCES[bits][-1]}

    def search(code: U64) -> list[int]:
        body = {"knn": {**knn, "query_vector": hexadecimal(code)}, "_source": False}
        return [
            int(hit["_id"]) for hit in call(url, "POST", f"/{INDEX}/_search", body)["hits"]["hits"]
        ]

    return search, size


def of_faiss(codes: U64, bits: int, kind: str) -> Built:
    import faiss

    index: Any
    if kind == "flat":
        index = faiss.IndexBinaryFlat(bits)
    elif kind == "hash":
        index = faiss.IndexBinaryHash(bits, 20)
    else:
        segments = Bits(bits, DISTANCES[bits][-1]).segments
        index = faiss.IndexBinaryMultiHash(bits, segments, bits // segments)
    if kind != "flat":
        index.nflip = 2
    index.add(octets(codes))
    most = DISTANCES[bits][-1] + 1

    def search(code: U64) -> list[int]:
        _, _, found = index.range_search(octets(code[None]), most)
        return [int(row) for row in found]

    with tempfile.NamedTemporaryFile() as file:
        faiss.write_index_binary(index, file.name)
        return search, Path(file.name).stat().st_size / len(codes)


def of_bktree(codes: U64, bits: int) -> Built:
    import pybktree

    numbers = {int(hexadecimal(code), 16): row for row, code in enumerate(codes)}
    tree = pybktree.BKTree(lambda one, other: (one ^ other).bit_count(), numbers)
    most = DISTANCES[bits][-1]

    def search(code: U64) -> list[int]:
        return [numbers[found] for _, found in tree.find(int(hexadecimal(code), 16), most)]

    return search, None


def inside(tool: str, bits: int, folder: Path, url: str | None) -> Figures:
    """Return the figures of one tool in this process."""
    codes, asked = np.load(folder / f"codes{bits}.npy"), np.load(folder / f"asked{bits}.npy")
    truth = json.loads((folder / f"truth{bits}.json").read_text("utf-8"))
    kind, _, way = tool.partition("-")
    begun, cpu = time.perf_counter(), time.process_time()
    if tool == "esdedup":
        search, size = of_esdedup(codes, bits, folder / "bits.db")
    elif kind == "esdedup":
        search, size = of_esdedup(codes, bits, str(url))
    elif kind == "vectors":
        search, size = of_vectors(codes, bits, str(url), way)
    elif kind == "faiss":
        search, size = of_faiss(codes, bits, way)
    else:
        search, size = of_bktree(codes, bits)
    figures = {"build": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
    for code in asked[:5]:
        search(code)
    seconds, found, wanted = [], dict[int, int](), dict[int, int]()
    wrong = 0
    for at in range(min(len(asked), SLOW.get(tool, len(asked)))):
        begun = time.perf_counter()
        rows = search(asked[at])
        seconds.append(time.perf_counter() - begun)
        near = dict(truth[at])
        wrong += len({*rows} - near.keys())
        for row, distance in near.items():
            wanted[distance] = wanted.get(distance, 0) + 1
            found[distance] = found.get(distance, 0) + (row in rows)
    each = {str(distance): found[distance] / wanted[distance] for distance in sorted(wanted)}
    return {
        **figures,
        "bytes": size,
        "found": each,
        "wrong": wrong,
        **latency(seconds),
    }


def latency(seconds: list[float]) -> Figures:
    """Return the median and the 99th percentile, in milliseconds."""
    p99 = float(np.percentile(seconds, 99))
    return {"median_ms": statistics.median(seconds) * 1e3, "p99_ms": p99 * 1e3}


def prepare(bits: int, count: int, queries: int, folder: Path) -> None:
    """Write codes, queries, and which codes are near each."""
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 2**64, (count, bits // 64), dtype=np.uint64)
    asked = codes[rng.integers(count, size=queries)].copy()
    truth = []
    for at, code in enumerate(asked):
        for bit in rng.choice(bits, DISTANCES[bits][at % 4], replace=False).tolist():
            code[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
        apart = np.bitwise_count(codes ^ code).sum(axis=1)
        rows = np.flatnonzero(apart <= DISTANCES[bits][-1])
        truth.append([*zip(rows.tolist(), apart[rows].tolist(), strict=True)])
    np.save(folder / f"codes{bits}.npy", codes)
    np.save(folder / f"asked{bits}.npy", asked)
    (folder / f"truth{bits}.json").write_text(json.dumps(truth), "utf-8")


def measured(options: argparse.Namespace, folder: Path) -> Iterator[Figures]:
    """Yield the figures of each tool and size."""
    chosen = options.only.split(",") if options.only else [*TOOLS]
    with ExitStack() as stack:
        url = None
        if {"esdedup-cluster", "vectors-hnsw", "vectors-flat"} & {*chosen}:
            url = stack.enter_context(served(options))
        for bits in DISTANCES:
            prepare(bits, options.codes, options.queries, folder)
            for tool in chosen:
                program = [sys.executable, "-m", "benchmarks.peers.bits", "--inside", tool]
                program += ["--bits", str(bits), "--data", str(folder)]
                whole = run([*program, *(["--url", url] if url else [])], folder / "said")
                figures = measuring.last_line(folder / "said")
                yield {"tool": tool, "bits": bits, "peak_mb": whole["peak_mb"], **figures}
                print(f"{bits} {tool}: {figures}", file=sys.stderr)
                (folder / "bits.db").unlink(missing_ok=True)
                if url and tool in ("esdedup-cluster", "vectors-hnsw", "vectors-flat"):
                    drop(url, INDEX)


def tables(document: Figures) -> str:
    """Return a table for each size."""
    (corpus,), made = document["corpora"], []
    for bits, distances in DISTANCES.items():
        title = f"{corpus['codes']:,} codes of {bits} bits, distance up to {distances[-1]}"
        head = [*(f"found at {each}" for each in distances), "median ms", "p99 ms"]
        head += ["bytes per code", "built in s", "peak MB"]
        lines = [f"| {title} | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
        for row in document["results"]:
            if row["bits"] == bits:
                cells = [f"{row['found'][str(each)]:.2f}" for each in distances]
                cells += [f"{row['median_ms']:,.1f}", f"{row['p99_ms']:,.1f}"]
                cells += ["-" if row["bytes"] is None else f"{row['bytes']:,.0f}"]
                cells += [f"{row['build']:,.0f}", f"{row['peak_mb']:,.0f}"]
                lines.append(f"| {TOOLS[row['tool']]} | {' | '.join(cells)} |")
        made.append("\n".join(lines))
    return "\n\n".join(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--codes", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--only", help="some tools, with commas")
    parser.add_argument("--folder", type=Path, help="where the results go")
    for hidden in ("--inside", "--bits", "--data"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args()
    if options.inside:
        folder = Path(options.data)
        print(json.dumps(inside(options.inside, int(options.bits), folder, options.url)))
        return
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        results = [*measured(options, Path(made))]
    corpora = [{"codes": options.codes, "queries": options.queries}]
    versions = {name: version(name) for name in ("faiss-cpu", "pybktree")}
    print(measuring.save("bits", results, corpora, versions, options.folder))


if __name__ == "__main__":
    main()
