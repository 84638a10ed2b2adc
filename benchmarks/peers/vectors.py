"""Vectors of 256 numbers: esdedup beside FAISS, hnswlib, SemHash, and Elasticsearch's kNN.

    python -m benchmarks.peers.vectors [--vectors 100000] [--queries 1000] [--only TOOL,...]
        [--all-pairs TOOL,...] [--url URL | --version V] [--folder OUT]

The vectors are made up, with the cosines of static vectors of texts: two unrelated ones have a mean
cosine of 0.2, and one pair in a thousand is over 0.7. One vector in five is a copy of an earlier
one at a cosine of 0.9 to 1. A query is at exactly the searched cosine of 0.95 of one of them, or,
every second one, at 0.98.

Found: the share of the vectors at the cosine or over it that a search returns, known from a scan of
all. Each peer searches with the least effort, of several, that finds 99.9% of those of the queries,
which esdedup promises; or with the greatest effort. All pairs: with the same effort; the share
found is of the pairs of 10,000 vectors with any other, known from a scan. Each tool is a process of
its own and uses one thread. Bytes: of the local file, of the index of Elasticsearch in one segment,
of the index of FAISS or hnswlib as it is written to a file.

Peers, from PyPI: faiss-cpu, hnswlib, semhash. SemHash compares all records of a call and has no
index on disk. hnswlib and Elasticsearch return the nearest k: 100 are requested.
"""

import argparse
import base64
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import measuring
from benchmarks.lib.directions import at_cosines
from benchmarks.lib.measuring import Figures, run
from benchmarks.lib.servers import add_options, drop, served
from benchmarks.lib.value_indices import SETTINGS, call, merged, stored_bytes, value_index
from esdedup import Limits, Vectors

DIMENSIONS, COSINE = 256, 0.95
QUERY_COSINES = (COSINE, 0.98)
RECALL = 0.999
NEAREST = 100
SCANNED = 10_000
"""Vectors whose pairs with all others are known."""
_AT_ONCE = 200
"""Vectors that are compared with all others at once: 800 MB for a million."""
INDEX = "benchmark-vectors"
TOOLS = {
    "esdedup": "esdedup, local file",
    "esdedup-cluster": "esdedup, Elasticsearch",
    "vectors-hnsw": "Elasticsearch `dense_vector`, `int8_hnsw`",
    "faiss-flat": "FAISS `IndexFlatIP`, a scan",
    "faiss-ivf": "FAISS `IndexIVFFlat`",
    "faiss-hnsw": "FAISS `IndexHNSWFlat`",
    "hnswlib": "hnswlib",
    "semhash": "SemHash",
}
EFFORTS: dict[str, tuple[int, ...]] = {
    "vectors-hnsw": (100, 400, 1600),
    "faiss-ivf": (4, 8, 16, 32, 64, 128, 256, 512),
    "faiss-hnsw": (16, 64, 256, 1024),
    "hnswlib": (100, 200, 400, 1000),
}
"""Values of `num_candidates`, `nprobe` and `ef` to choose from."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

Matrix = NDArray[np.float32]
Pairs = set[tuple[int, int]]
Search = Callable[[Matrix, int], list[int]]
"""Return the rows that are near a vector, with an effort."""


@dataclass(frozen=True)
class Tool:
    """A tool that holds the vectors.

    search: returns what is near one vector; None if it only compares all.
    all_pairs: returns all pairs, with an effort; None if it has no such call.
    bytes: of a vector on disk, None if it has no index there.
    candidates: returns the candidates of a query that were compared, if they are known.
    """

    search: Search | None
    all_pairs: Callable[[int], Pairs] | None
    bytes: float | None
    candidates: Callable[[Matrix], int] | None = None


def made_up(count: int, rng: np.random.Generator) -> Matrix:
    """Return vectors of length 1: some directions are common to all, and some are frequent."""
    spread = (1.0 + np.arange(DIMENSIONS) / 2.0) ** -0.7
    mean = rng.standard_normal(DIMENSIONS)
    mean *= 0.5 * np.linalg.norm(spread) / np.linalg.norm(mean)
    vectors = np.empty((count, DIMENSIONS), np.float32)
    for first in range(0, count, 50_000):
        size = min(50_000, count - first)
        rows = rng.standard_normal((size, DIMENSIONS)) * spread + mean
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        copies = rng.choice(size, size // 5, replace=False)
        originals = rng.integers(0, size, copies.size)
        rows[copies] = at_cosines(rows[originals], rng.uniform(0.9, 1.0, copies.size), rng)
        vectors[first : first + size] = rows
    return vectors


def near_each(vectors: Matrix, queries: Matrix) -> Iterator[list[int]]:
    """Yield the rows of the vectors that are near each query."""
    for first in range(0, len(queries), _AT_ONCE):
        cosines = queries[first : first + _AT_ONCE] @ vectors.T
        for row in cosines >= COSINE:
            yield np.flatnonzero(row).tolist()


def prepare(count: int, queries: int, folder: Path) -> None:
    """Write vectors, queries, which vectors are near each, and the pairs of some vectors."""
    rng = np.random.default_rng(7)
    vectors = made_up(count, rng)
    np.save(folder / "vectors.npy", vectors)
    rows = rng.integers(0, count, queries)
    # A query is as far as the threshold after it is rounded to float32.
    cosines = np.array([QUERY_COSINES[number % 2] for number in range(queries)]) + 1e-6
    wide = vectors[rows].astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    asked = at_cosines(wide, cosines, rng).astype(np.float32)
    np.save(folder / "asked.npy", asked)
    near = near_each(vectors, asked)
    truth = [[int(row), rows_near] for row, rows_near in zip(rows, near, strict=True)]
    (folder / "truth.json").write_text(json.dumps(truth), "utf-8")
    scanned = np.sort(rng.choice(count, min(count, SCANNED), replace=False))
    pairs = {
        ordered(row, other)
        for row, rows_near in zip(
            scanned.tolist(), near_each(vectors, vectors[scanned]), strict=True
        )
        for other in rows_near
        if row != other
    }
    np.save(folder / "pairs.npy", np.array(sorted(pairs), np.int64).reshape(-1, 2))


def of_esdedup(vectors: Matrix, target: str | Path) -> Tool:
    sketch = Vectors(DIMENSIONS, COSINE, encoding="base64-little")
    index = value_index(target, INDEX, sketch, "vector", map(written, vectors))
    limits = Limits(k=1_000)

    def result_of(vector: Matrix) -> Any:
        (result,) = index.similar_many([index.query(written(vector))], limits)
        return result

    def search(vector: Matrix, _: int) -> list[int]:
        return [int(match.id) for match in result_of(vector).matches]

    def all_pairs(_: int) -> Pairs:
        return {ordered(int(pair.left), int(pair.right)) for pair in index.pairs(cosine=COSINE)}

    search(vectors[0], 0)
    size = stored_bytes(target, INDEX)
    return Tool(search, all_pairs, size / len(vectors), lambda vector: result_of(vector).candidates)


def written(vector: Matrix) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def ordered(left: int, right: int) -> tuple[int, int]:
    return min(left, right), max(left, right)


def of_elasticsearch(vectors: Matrix, url: str) -> Tool:
    options = {"similarity": "cosine", "index_options": {"type": "int8_hnsw"}}
    mapping = {"vector": {"type": "dense_vector", "dims": DIMENSIONS, **options}}
    call(url, "PUT", f"/{INDEX}", {"settings": SETTINGS, "mappings": {"properties": mapping}})
    for first in range(0, len(vectors), 2_000):
        lines: list[Any] = []
        for row, vector in enumerate(vectors[first : first + 2_000], first):
            lines += [{"index": {"_id": str(row)}}, {"vector": vector.tolist()}]
        assert not call(url, "POST", f"/{INDEX}/_bulk", lines)["errors"]
    size = merged(url, INDEX)

    def search(vector: Matrix, effort: int) -> list[int]:
        knn = {"field": "vector", "k": NEAREST, "num_candidates": effort, "similarity": COSINE}
        body = {"knn": {**knn, "query_vector": vector.tolist()}, "_source": False, "size": NEAREST}
        hits = call(url, "POST", f"/{INDEX}/_search", body)["hits"]["hits"]
        return [int(hit["_id"]) for hit in hits]

    return Tool(search, None, size / len(vectors))


def of_faiss(vectors: Matrix, kind: str) -> Tool:
    import faiss

    faiss.omp_set_num_threads(1)
    index: Any
    if kind == "flat":
        index = faiss.IndexFlatIP(DIMENSIONS)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(DIMENSIONS, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 80
    else:
        lists = round(4 * len(vectors) ** 0.5)
        index = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(DIMENSIONS), DIMENSIONS, lists, faiss.METRIC_INNER_PRODUCT
        )
        index.train(vectors[: 50 * lists])
    index.add(vectors)

    def set_effort(effort: int) -> None:
        if kind == "hnsw":
            index.hnsw.efSearch = effort
        elif kind == "ivf":
            index.nprobe = effort

    def search(vector: Matrix, effort: int) -> list[int]:
        set_effort(effort)
        _, _, rows = index.range_search(vector[None], COSINE)
        return [int(row) for row in rows]

    def all_pairs(effort: int) -> Pairs:
        set_effort(effort)
        pairs: Pairs = set()
        # FAISS 1.15.1 aborts if a graph is searched for many vectors in one call: for 10,000 of
        # 20,000, and for 200 of a million.
        at_once = 1 if kind == "hnsw" else 10_000
        for first in range(0, len(vectors), at_once):
            ends, _, rows = index.range_search(vectors[first : first + at_once], COSINE)
            left = np.repeat(np.arange(len(ends) - 1), np.diff(ends).astype(np.int64)) + first
            pairs |= {
                ordered(one, other)
                for one, other in zip(left.tolist(), rows.tolist(), strict=True)
                if one != other
            }
        return pairs

    with tempfile.NamedTemporaryFile() as file:
        faiss.write_index(index, file.name)
        size = Path(file.name).stat().st_size
    return Tool(search, all_pairs, size / len(vectors))


def of_hnswlib(vectors: Matrix) -> Tool:
    import hnswlib  # type: ignore[import-untyped]

    index = hnswlib.Index("ip", DIMENSIONS)
    index.init_index(len(vectors), ef_construction=80, M=32)
    index.add_items(vectors, num_threads=1)

    def search(vector: Matrix, effort: int) -> list[int]:
        index.set_ef(effort)
        (rows,), (distances,) = index.knn_query(vector[None], NEAREST, num_threads=1)
        return [int(row) for row in rows[distances <= 1.0 - COSINE]]

    def all_pairs(effort: int) -> Pairs:
        index.set_ef(effort)
        rows, distances = index.knn_query(vectors, NEAREST, num_threads=1)
        left, position = np.nonzero(distances <= 1.0 - COSINE)
        right = rows[left, position]
        return {
            ordered(one, other)
            for one, other in zip(left.tolist(), right.astype(int).tolist(), strict=True)
            if one != other
        }

    with tempfile.NamedTemporaryFile() as file:
        index.save_index(file.name)
        size = Path(file.name).stat().st_size
    return Tool(search, all_pairs, size / len(vectors))


def of_semhash(vectors: Matrix) -> Tool:
    from semhash import SemHash

    class Encoder:
        """The model of the records, whose vectors are known."""

        def encode(self, inputs: Sequence[str], **_: Any) -> Matrix:
            return vectors[[int(record) for record in inputs]]

    records = [str(row) for row in range(len(vectors))]
    deduplicator = SemHash.from_records(records, model=Encoder())

    def all_pairs(_: int) -> Pairs:
        # Each duplicate is listed with one record that stays, not with all.
        result = deduplicator.self_deduplicate(threshold=COSINE)
        return {
            ordered(int(duplicate.record), int(duplicate.duplicate_of))
            for duplicate in result.filtered
        }

    return Tool(None, all_pairs, None)


def built(tool: str, vectors: Matrix, folder: Path, url: str | None) -> Tool:
    kind, _, way = tool.partition("-")
    if kind == "esdedup":
        return of_esdedup(vectors, str(url) if way else folder / "vectors.db")
    if kind == "vectors":
        return of_elasticsearch(vectors, str(url))
    if kind == "faiss":
        return of_faiss(vectors, way)
    return of_hnswlib(vectors) if kind == "hnswlib" else of_semhash(vectors)


def inside(tool: str, folder: Path, url: str | None, *, with_pairs: bool) -> Figures:
    """Return the figures of one tool in this process."""
    vectors, asked = np.load(folder / "vectors.npy"), np.load(folder / "asked.npy")
    truth = json.loads((folder / "truth.json").read_text("utf-8"))
    cpu = time.process_time()
    ready = built(tool, vectors, folder, url)
    figures: Figures = {"build_cpu": time.process_time() - cpu, "bytes": ready.bytes}
    effort = 0
    if ready.search is not None:
        for effort in EFFORTS.get(tool, (0,)):
            searched = _searched(ready.search, asked, truth, effort)
            if searched["found"] >= RECALL:
                break
        figures |= {"effort": effort, **searched}
    if ready.candidates is not None:
        figures["candidates"] = statistics.mean(map(ready.candidates, asked[:200]))
    if with_pairs and ready.all_pairs is not None:
        begun, cpu = time.perf_counter(), time.process_time()
        pairs = ready.all_pairs(effort)
        figures["pairs_seconds"] = time.perf_counter() - begun
        figures["pairs_cpu"] = time.process_time() - cpu
        figures["pairs"] = len(pairs)
        figures["pairs_found"] = share_found(pairs, folder)
    return figures


def _searched(search: Search, asked: Matrix, truth: Any, effort: int) -> Figures:
    """Return how much a search finds of what is near each query, and its times."""
    cpu_ms, wall_ms, found, wanted = [], [], 0, 0
    at_cosine = dict.fromkeys(QUERY_COSINES, 0)
    for number, query in enumerate(asked):
        begun, cpu = time.perf_counter(), time.process_time()
        rows = {*search(query, effort)}
        cpu_ms.append(1e3 * (time.process_time() - cpu))
        wall_ms.append(1e3 * (time.perf_counter() - begun))
        original, near = truth[number]
        found += len(rows & {*near})
        wanted += len(near)
        at_cosine[QUERY_COSINES[number % 2]] += original in rows
    of_each = len(asked) / len(QUERY_COSINES)
    return {
        "found": found / wanted,
        "found_at": {f"{cosine:g}": count / of_each for cosine, count in at_cosine.items()},
        "query_cpu_ms": statistics.median(cpu_ms),
        "query_ms": statistics.median(wall_ms),
        "near": wanted / len(asked),
    }


def measured(options: argparse.Namespace, folder: Path) -> Iterator[Figures]:
    """Yield the figures of each tool."""
    chosen = options.only.split(",") if options.only else [*TOOLS]
    pairing = chosen if options.all_pairs is None else options.all_pairs.split(",")
    prepare(options.vectors, options.queries, folder)
    with ExitStack() as stack:
        url = None
        if {"esdedup-cluster", "vectors-hnsw"} & {*chosen}:
            url = stack.enter_context(served(options))
        for tool in chosen:
            program = [sys.executable, "-m", "benchmarks.peers.vectors", "--inside", tool]
            program += ["--data", str(folder), *(["--pairs"] if tool in pairing else [])]
            output = folder / "said"
            whole = run([*program, *(["--url", url] if url else [])], output, ONE_THREAD)
            figures = measuring.last_line(output)
            print(f"{tool}: {figures}", file=sys.stderr)
            yield {"tool": tool, "peak_mb": whole["peak_mb"], **figures}
            (folder / "vectors.db").unlink(missing_ok=True)
            if url and tool in ("esdedup-cluster", "vectors-hnsw"):
                drop(url, INDEX)


def share_found(pairs: Pairs, folder: Path) -> float:
    """Return the share of the pairs of the scanned vectors that are among the pairs."""
    true_pairs = {*map(tuple, np.load(folder / "pairs.npy").tolist())}
    return len(pairs & true_pairs) / max(1, len(true_pairs))


def tables(document: Figures) -> str:
    """Return the table of a run."""
    (corpus,) = document["corpora"]
    title = f"{corpus['vectors']:,} vectors of {DIMENSIONS} numbers, cosine of {COSINE} or more"
    head = [title, "effort", f"found at {COSINE}", "found of all", "CPU ms per query", "bytes"]
    head += ["built in CPU s", "all pairs in CPU s", "pairs found", "peak MB"]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for row in document["results"]:
        found_at = row.get("found_at", {}).get(f"{COSINE:g}")
        values = [
            row.get("effort") or None,
            found_at and f"{found_at:.1%}",
            row.get("found") and f"{row['found']:.2%}",
            # The process of a server does the work.
            _of_client(row) or (row.get("query_cpu_ms") and f"{row['query_cpu_ms']:,.2f}"),
            row["bytes"] and f"{row['bytes']:,.0f}",
            None if _of_client(row) else f"{row['build_cpu']:,.0f}",
            row.get("pairs_cpu") and f"{row['pairs_cpu']:,.0f}",
            row.get("pairs_found") and f"{row['pairs_found']:.2%}",
            None if _of_client(row) else row["peak_mb"] and f"{row['peak_mb']:,.0f}",
        ]
        cells = ["-" if value is None else str(value) for value in values]
        lines.append(f"| {TOOLS[row['tool']]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _of_client(row: Figures) -> str | None:
    """Return the milliseconds of a request if a server does the work."""
    is_of_server = row["tool"] in ("esdedup-cluster", "vectors-hnsw")
    return f"{row['query_ms']:,.1f} (all)" if is_of_server else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--only", help="some tools, with commas")
    parser.add_argument("--all-pairs", help="tools that find all pairs too; all by default")
    parser.add_argument("--folder", type=Path, help="where the results go")
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--pairs", action="store_true", help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args()
    if options.inside:
        folder = Path(options.data)
        figures = inside(options.inside, folder, options.url, with_pairs=options.pairs)
        print(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        results = [*measured(options, Path(made))]
    corpora = [{"vectors": options.vectors, "queries": options.queries}]
    versions = {name: version(name) for name in ("faiss-cpu", "hnswlib", "semhash")}
    name = "vectors" if options.vectors <= 100_000 else "vectors-million"
    print(measuring.save(name, results, corpora, versions, options.folder))


if __name__ == "__main__":
    main()
