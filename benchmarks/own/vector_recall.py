"""Compare what searches and pairs of vectors find with the recall that they state.

    python -m benchmarks.own.vector_recall planted [--pairs 5000] [--folder OUT]
    python -m benchmarks.own.vector_recall scan [--vectors 20000] [--queries 400]
        [--elasticsearch URL] [--opensearch URL] [--folder OUT]

`planted`: pairs of random directions at exactly a cosine, in local files made for this cosine and
for others, by the default recall and by a lower one. Found: the share of the pairs that a search
for one of the two finds, and that all pairs have, with the interval of 95% of such a share (Wilson
1927).

`scan`: all pairs, and searches for stored documents, at three cosines in each store, beside a scan
of all vectors in float64. Vectors are of two kinds: random directions with neighbours at cosines of
about 0.9, 0.95 and 0.98; and descriptions of Debian's packages by wordllama, whose weights are in
its package. Servers without an address are started. Pairs nearer to the cosine than `ROUNDING` are
not counted: Elasticsearch scales the vectors of a `dense_vector`.
"""

import argparse
import contextlib
import functools
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.corpora import corpus
from benchmarks.lib.directions import at_cosines, random_directions
from benchmarks.lib.measuring import Figures
from benchmarks.lib.servers import drop, started
from benchmarks.lib.value_indices import SETTINGS, call
from esdedup import Limits, Scheme, Vectors

DIMENSIONS = 256
INDEX = "benchmark-vector-recall"
PLANTED_COSINES = (0.8, 0.85, 0.9, 0.95, 0.98)
MADE_FOR = (0.8, 0.95)
"""Cosines that indices are made for, beside the cosine that is searched."""
RECALLS = (0.999, 0.9)
SCAN_COSINES = (0.9, 0.95, 0.98)
SPREAD = 0.01
"""Deviation of the cosines of planted neighbours from those of `SCAN_COSINES`."""
ABOVE = 1e-6
"""A planted pair is as near as the cosine after it is rounded to float32."""
ROUNDING = 1e-7
NORMAL_QUANTILE = 1.96
QUERIES_AT_ONCE = 100

Matrix = NDArray[np.float32]
PairCodes = NDArray[np.int64]
"""Pairs of rows, each as one number: the smaller row times the number of rows, and the larger."""


@dataclass(frozen=True)
class Store:
    """A place in which the vectors of a scan are indexed.

    product: of the server, None for a local file.
    field: the mapping of the field of vectors.
    """

    name: str
    product: str | None = None
    field: tuple[tuple[str, Any], ...] = ()


PLAIN_LIST = (("type", "float"), ("index", False), ("doc_values", False))
STORES = (
    Store("local file"),
    Store("Elasticsearch, `dense_vector`", "elasticsearch",
          (("type", "dense_vector"), ("dims", DIMENSIONS))),
    Store("Elasticsearch, plain list", "elasticsearch", PLAIN_LIST),
    Store("OpenSearch, plain list", "opensearch", PLAIN_LIST),
)  # fmt: skip


@dataclass(frozen=True)
class Share:
    """How much of something was found.

    found: number of pairs or matches that were found. whole: number of all of them.
    """

    found: int
    whole: int

    def __str__(self) -> str:
        return f"{self.found / self.whole:.2%}" if self.whole else "-"

    def interval(self) -> tuple[float, float]:
        """Return the ends of Wilson's interval of 95%."""
        share, square = self.found / self.whole, NORMAL_QUANTILE**2
        centre = (share + square / (2 * self.whole)) / (1 + square / self.whole)
        deviation = math.sqrt(share * (1 - share) / self.whole + square / (4 * self.whole**2))
        half = NORMAL_QUANTILE * deviation / (1 + square / self.whole)
        return max(0.0, centre - half), min(1.0, centre + half)


def planted_neighbours(count: int, rng: np.random.Generator) -> Matrix:
    """Return vectors of any length: random directions, and three neighbours of every fourth."""
    originals = random_directions(count // 4, DIMENSIONS, rng)
    copies = [
        at_cosines(originals, np.clip(rng.normal(cosine, SPREAD, len(originals)), 0.0, 1.0), rng)
        for cosine in SCAN_COSINES
    ]
    vectors = np.concatenate([originals, *copies])
    vectors *= rng.uniform(0.1, 10.0, len(vectors))[:, None]
    return vectors[rng.permutation(len(vectors))].astype(np.float32)


def described_packages(count: int, rng: np.random.Generator) -> Matrix:
    """Return the vectors of some descriptions of packages. count: number of them."""
    import wordllama

    # Its own loader looks for the tokenizer elsewhere, and downloads it then.
    weights = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(dim=DIMENSIONS, cache_dir=weights, disable_download=True)
    texts = corpus("debian").texts()
    rows = rng.choice(len(texts), count, replace=False)
    vectors: Matrix = model.embed([texts[row] for row in rows.tolist()], norm=True)
    return vectors[vectors.any(axis=1)].astype(np.float32)


def cosines_of(vectors: Matrix) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the cosines of rows with all vectors, and the number of the first of these rows."""
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for first in range(0, len(unit), 500):
        yield first, unit[first : first + 500] @ unit.T


@dataclass(frozen=True)
class Scanned:
    """The pairs of a scan of all vectors.

    rows: of the pairs, the smaller one first, shape (2, pairs).
    cosines: of the pairs, shape (pairs,).
    is_listed: whether all pairs of an index have it, shape (pairs,): of equal vectors, only the
    first one is paired with others.
    count: number of vectors.
    """

    rows: NDArray[np.int64]
    cosines: NDArray[np.float64]
    is_listed: NDArray[np.bool_]
    count: int

    @staticmethod
    def of(vectors: Matrix) -> "Scanned":
        """Return the pairs at or over the lowest of `SCAN_COSINES`."""
        rows, values = [], []
        for first, cosines in cosines_of(vectors):
            left, right = np.nonzero(cosines >= min(SCAN_COSINES) - ROUNDING)
            is_ordered = left + first < right
            left, right = left[is_ordered], right[is_ordered]
            rows.append(np.stack([left + first, right]))
            values.append(cosines[left, right])
        pairs = np.concatenate(rows, axis=1)
        _, firsts, inverse = np.unique(vectors, axis=0, return_index=True, return_inverse=True)
        first_equal = firsts[inverse.ravel()]
        left, right = pairs
        first_of_right = first_equal[right]
        is_listed = first_equal[left] == left
        is_listed &= (first_of_right == right) | (first_of_right == left)
        return Scanned(pairs, np.concatenate(values), is_listed, len(vectors))

    def codes(self, least: float) -> PairCodes:
        """Return the pairs at a cosine or over it."""
        return self._codes(self.cosines >= least)

    def listed_codes(self, least: float) -> PairCodes:
        """Return the pairs at a cosine or over it that all pairs of an index have."""
        return self._codes(self.is_listed & (self.cosines >= least))

    def _codes(self, is_chosen: NDArray[np.bool_]) -> PairCodes:
        left, right = self.rows[:, is_chosen]
        codes: PairCodes = left * self.count + right
        return codes

    def neighbours(self, row: int, least: float) -> set[int]:
        """Return the rows at a cosine of one or over it."""
        near = self.rows[:, self.cosines >= least]
        left, right = near
        return {*right[left == row].tolist(), *left[right == row].tolist()}


def documents_of(vectors: Matrix) -> Iterator[dict[str, Any]]:
    for row, vector in enumerate(vectors):
        yield {"id": str(row), "embedding": vector.tolist()}


def filled(target: str | Path, vectors: Matrix, cosine: float) -> esdedup.Index:
    scheme = Scheme([Vectors(DIMENSIONS, cosine)])
    index = esdedup.open(target, INDEX, scheme=scheme, text_field="embedding")
    index.add(documents_of(vectors))
    return index


def planted(cosine: float, made_for: float, count: int) -> Iterator[Figures]:
    """Yield the share of pairs at exactly a cosine that an index for another finds, by recall."""
    rng = np.random.default_rng([round(100 * cosine), 1])
    left = random_directions(count, DIMENSIONS, rng)
    right = at_cosines(left, np.full(count, cosine + ABOVE), rng)
    vectors = np.concatenate([left, right]).astype(np.float32)
    planted_codes = np.arange(count) * len(vectors) + np.arange(count) + count
    sketch = Vectors(DIMENSIONS, made_for)
    with (
        tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made,
        filled(Path(made) / "vectors.db", vectors, made_for) as index,
    ):
        for recall in RECALLS:
            limits = Limits(cosine=cosine, recall=recall)
            neighbours, stated = searched(index, range(count), limits)
            matches = sum(row + count in rows for row, rows in neighbours.items())
            pairs = index.pairs(limits=limits)
            codes = pair_codes(pairs, len(vectors))
            yield {
                "cosine": cosine,
                "made_for": made_for,
                "recall": recall,
                "bands": sketch.bands,
                "rows": sketch.rows,
                "flips": sketch.swaps(limits),
                "least": sketch.least(limits, sketch.bands),
                "stated_of_queries": stated,
                "queries": asdict(Share(matches, count)),
                "basis_of_pairs": str(pairs.basis),
                "stated_of_pairs": pairs.recall,
                "pairs": asdict(Share(int(np.isin(planted_codes, codes).sum()), count)),
            }


def searched(
    index: esdedup.Index, rows: Sequence[int], limits: Limits
) -> tuple[dict[int, set[int]], float]:
    """Return the rows that a search for each row finds, and the lowest recall that is stated."""
    neighbours: dict[int, set[int]] = {}
    stated = 1.0
    for first in range(0, len(rows), QUERIES_AT_ONCE):
        batch = rows[first : first + QUERIES_AT_ONCE]
        results = index.similar_many([index.query(id=str(row)) for row in batch], limits)
        for row, result in zip(batch, results, strict=True):
            assert result.recall is not None
            stated = min(stated, result.recall)
            neighbours[row] = {int(match.id) for match in result.matches}
    return neighbours, stated


def pair_codes(pairs: esdedup.results.SimilarPairs, count: int) -> PairCodes:
    """Return the pairs of an index whose ids are rows."""
    row_of_position = np.array([int(id) for id in pairs.ids], np.int64)
    left, right = row_of_position[pairs.left], row_of_position[pairs.right]
    codes: PairCodes = np.minimum(left, right) * count + np.maximum(left, right)
    return codes


def scanned(index: esdedup.Index, scan: Scanned, queries: Sequence[int], cosine: float) -> Figures:
    """Return the shares of the pairs and matches of a scan that an index finds at a cosine."""
    begun, cpu = time.perf_counter(), time.process_time()
    pairs = index.pairs(cosine=cosine)
    seconds, cpu_of_pairs = time.perf_counter() - begun, time.process_time() - cpu
    codes = pair_codes(pairs, scan.count)
    required, allowed = scan.listed_codes(cosine + ROUNDING), scan.codes(cosine - ROUNDING)
    neighbours, stated = searched(index, queries, Limits(cosine=cosine, k=1_000))
    near = found = wrong = 0
    for row, rows in neighbours.items():
        required_rows = scan.neighbours(row, cosine + ROUNDING)
        near, found = near + len(required_rows), found + len(required_rows & rows)
        wrong += len(rows - scan.neighbours(row, cosine - ROUNDING))
    return {
        "cosine": cosine,
        "stated_of_pairs": pairs.recall,
        "pairs": asdict(Share(int(np.isin(required, codes).sum()), len(required))),
        "wrong_pairs": int((~np.isin(codes, allowed)).sum()),
        "stated_of_queries": stated,
        "queries": asdict(Share(found, near)),
        "wrong_matches": wrong,
        "pairs_seconds": seconds,
        "pairs_cpu": cpu_of_pairs,
    }


def scanned_in_stores(
    vectors: Matrix, queries: int, address_of: Callable[[str], str]
) -> Iterator[Figures]:
    """Yield the figures of each store at each cosine, of an index made for 0.95."""
    scan = Scanned.of(vectors)
    rows = np.random.default_rng(5).choice(len(vectors), queries, replace=False).tolist()
    for store in STORES:
        with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
            target: str | Path = Path(made) / "vectors.db"
            if store.product is not None:
                target = address_of(store.product)
                properties = {"id": {"type": "keyword"}, "embedding": dict(store.field)}
                body = {"settings": SETTINGS, "mappings": {"properties": properties}}
                call(target, "PUT", f"/{INDEX}", body)
            try:
                with filled(target, vectors, 0.95) as index:
                    for cosine in SCAN_COSINES:
                        yield {"store": store.name, **scanned(index, scan, rows, cosine)}
            finally:
                if store.product is not None:
                    drop(str(target), INDEX)


def share_of(figures: Figures) -> Share:
    return Share(figures["found"], figures["whole"])


def tables(document: Figures) -> str:
    """Return the table of a run: of planted pairs, or beside a scan."""
    results: list[Figures] = document["results"]
    return _of_scans(results) if "store" in results[0] else _of_planted(results)


def _of_planted(results: Sequence[Figures]) -> str:
    """Return a table for each recall."""
    blocks = []
    for recall in RECALLS:
        head = ["searched cosine", "bands", "flips", "required"]
        head += ["stated", "a search finds", "interval of 95%"]
        head += ["stated of all pairs", "all pairs have", "interval of 95%"]
        lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
        lines += [_planted_row(row) for row in results if row["recall"] == recall]
        caption = f"{results[0]['queries']['whole']:,} pairs at each cosine, recall of {recall:g}:"
        blocks += [caption, "\n".join(lines)]
    return "\n\n".join(blocks)


def _planted_row(row: Figures) -> str:
    cells = [f"{row['cosine']:g} in an index for {row['made_for']:g}"]
    cells += [f"{row['bands']} of {row['rows']}", str(row["flips"]), str(row["least"])]
    for kind in ("queries", "pairs"):
        share = share_of(row[kind])
        lowest, highest = share.interval()
        cells += [f"{row[f'stated_of_{kind}']:.2%}", str(share)]
        cells.append(f"{lowest:.2%} to {highest:.2%}")
    return f"| {' | '.join(cells)} |"


def _of_scans(results: Sequence[Figures]) -> str:
    head = ["vectors", "store", "cosine", "pairs", "wrong", "found", "stated"]
    head += ["matches", "wrong", "found", "stated"]
    lines = [f"| {' | '.join(head)} |", f"|---|---|{'---:|' * (len(head) - 2)}"]
    for row in results:
        pairs, matches = share_of(row["pairs"]), share_of(row["queries"])
        cells = [row["kind"], row["store"], f"{row['cosine']:g}"]
        cells += [f"{pairs.whole:,}", f"{row['wrong_pairs']:,}", str(pairs)]
        cells.append(_recall(row["stated_of_pairs"]))
        cells += [f"{matches.whole:,}", f"{row['wrong_matches']:,}", str(matches)]
        cells.append(_recall(row["stated_of_queries"]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _recall(recall: float | None) -> str:
    return "-" if recall is None else f"{recall:.2%}"


def run_planted(options: argparse.Namespace) -> None:
    results = []
    for cosine in PLANTED_COSINES:
        for made_for in sorted({*MADE_FOR, cosine}):
            for figures in planted(cosine, made_for, options.pairs):
                print(figures, file=sys.stderr, flush=True)
                results.append(figures)
    corpora = [{"pairs": options.pairs, "dimensions": DIMENSIONS}]
    print(measuring.save("vector_recall", results, corpora, folder=options.folder))


def run_scan(options: argparse.Namespace) -> None:
    kinds = {"random": planted_neighbours, "wordllama": described_packages}
    results, corpora = [], []
    with contextlib.ExitStack() as stack:

        @functools.cache
        def address_of(product: str) -> str:
            url = getattr(options, product)
            if url is not None:
                return str(url)
            return stack.enter_context(started(product, None, 1, "1g")).urls[0]

        for kind, make in kinds.items():
            vectors = make(options.vectors, np.random.default_rng(3))
            corpora.append({"kind": kind, "vectors": len(vectors), "dimensions": DIMENSIONS})
            for figures in scanned_in_stores(vectors, options.queries, address_of):
                print(kind, figures, file=sys.stderr, flush=True)
                results.append({"kind": kind, **figures})
    versions = {"wordllama": version("wordllama")}
    print(measuring.save("vector_recall-scan", results, corpora, versions, options.folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("planted", "scan"))
    parser.add_argument("--pairs", type=int, default=5_000, help="planted ones at each cosine")
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--elasticsearch", help="the address of a server that runs")
    parser.add_argument("--opensearch", help="the address of a server that runs")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    run_planted(options) if options.part == "planted" else run_scan(options)


if __name__ == "__main__":
    main()
