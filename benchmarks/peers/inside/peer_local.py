"""An index on one machine, by esdedup or a peer: built, searched and changed; `local.py` runs this.

    python inside/peer_local.py build|once|ask TOOL SHAPE WORK FILE PLACE

TOOL runs in its own environment, esdedup in that of each version. SHAPE: BANDSxHASHES, and for
Lance its tokenizer, such as 23x69-icu. FILE is indexed at PLACE; the peers that index in memory
index FILE in each process.

`build` indexes FILE; `once` searches the first of the queries; `ask` searches them all, appends
documents, searches those and deletes some, by the files of WORK that `local.py` writes. Prints a
JSON line of figures and answers.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

MOST, THRESHOLD = 10, 0.5
"""The number of matches that a query returns, and the threshold of tools that have one."""

PERMUTATIONS = 128
Found = list[tuple[str, float]]


def lines(file: Path) -> Iterator[dict[str, str]]:
    with file.open(encoding="utf-8") as given:
        yield from map(json.loads, given)


class Esdedup:
    def __init__(self, options: argparse.Namespace) -> None:
        import esdedup

        self.index = esdedup.open(options.place)

    def ask(self, text: str) -> Found:
        matches = self.index.similar(text, threshold=THRESHOLD, k=MOST).matches
        return [(match.id, match.similarity or 0.0) for match in matches]

    def append(self, file: Path) -> None:
        self.index.add(lines(file))

    def delete(self, ids: Sequence[str]) -> None:
        self.index.delete(ids)


class Lance:
    """A dataset with an index on its texts. Similarities are estimates of its signatures."""

    def __init__(self, options: argparse.Namespace) -> None:
        os.environ["LANCE_LOG"] = "error"
        import lance
        from lance.indices import IndexConfig

        place = str(options.place)
        if options.action != "build":
            self.dataset = lance.dataset(place)
            return
        self.dataset = lance.write_dataset(self.read(options.file), place)
        shape, _, tokenizer = options.shape.partition("-")
        bands, hashes = map(int, shape.split("x"))
        shaped = {"num_hashes": hashes, "num_bands": bands}
        split = {"tokenizer": {"base_tokenizer": tokenizer}} if tokenizer else {}
        config = IndexConfig(index_type="minhashlsh", parameters={**shaped, **split})
        self.dataset.create_scalar_index("text", config)

    def read(self, file: Path) -> Any:
        from pyarrow.dataset import dataset

        return dataset(file, format=file.suffix[1:].removesuffix("l"))

    def ask(self, text: str) -> Found:
        from lance.query import MinHashQuery

        nearest = MinHashQuery(text, "text")
        table = self.dataset.to_table(["id", "_distance"], nearest=nearest, limit=MOST)
        ids, distances = (table[name].to_pylist() for name in ("id", "_distance"))
        return [(id, 1 - distance) for id, distance in zip(ids, distances, strict=True)]

    def append(self, file: Path) -> None:
        self.dataset.insert(self.read(file))
        self.dataset.optimize.optimize_indices()

    def delete(self, ids: Sequence[str]) -> None:
        self.dataset.delete("id in ({})".format(", ".join(f"'{id}'" for id in ids)))


class Datasketch:
    """Buckets in memory, and the signatures, to estimate similarities by."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.bands, hashes = map(int, options.shape.split("x"))
        self.rows = hashes // self.bands
        self.kept: dict[int, Any] = {}
        self.make()
        # The first query loads modules and tables.
        self.ask("some words of a text")
        before = resident()
        self.append(options.file)
        self.bytes = resident() - before

    def make(self) -> None:
        from datasketch import MinHashLSH

        self.buckets = MinHashLSH(num_perm=PERMUTATIONS, params=(self.bands, self.rows))

    def sketched(self, texts: Iterable[str]) -> Iterable[Any]:
        import xxhash
        from datasketch import MinHash

        from benchmarks.peers.inside.peer_whole_job import shingles

        coded = ([shingle.encode() for shingle in shingles(text)] for text in texts)
        hashed = {"num_perm": PERMUTATIONS, "hashfunc": xxhash.xxh32_intdigest}
        made: Iterable[Any] = MinHash.generator(coded, **hashed)
        return made

    def append(self, file: Path) -> None:
        sketched = self.sketched(each["text"] for each in lines(file))
        for each, sketch in zip(lines(file), sketched, strict=True):
            self.buckets.insert(int(each["id"]), sketch)
            self.kept[int(each["id"])] = sketch

    def ask(self, text: str) -> Found:
        (sketch,) = self.sketched([text])
        near = ((str(id), sketch.jaccard(self.kept[id])) for id in self.buckets.query(sketch))
        return sorted(near, key=lambda match: -match[1])[:MOST]

    def delete(self, ids: Sequence[str]) -> None:
        for id in map(int, ids):
            self.buckets.remove(id)


class Rensa(Datasketch):
    def make(self) -> None:
        from rensa import RMinHashLSH

        self.buckets = RMinHashLSH(0.0, self.bands * self.rows, self.bands)

    def sketched(self, texts: Iterable[str]) -> Iterable[Any]:
        from rensa import RMinHash

        from benchmarks.peers.inside.peer_whole_job import shingles

        tokens = [list(shingles(text)) for text in texts]
        made: list[Any] = RMinHash.from_token_sets(tokens, self.bands * self.rows, 42)
        return made


class Gaoya(Datasketch):
    """It splits texts and keeps signatures itself."""

    def make(self) -> None:
        from gaoya.minhash import MinHashStringIndex

        shape = (self.bands, self.rows, None, "word", True, (3, 3))
        self.buckets = MinHashStringIndex(32, 0.0, *shape, id_container="set")

    def append(self, file: Path) -> None:
        documents = [*lines(file)]
        ids, texts = ([each[name] for each in documents] for name in ("id", "text"))
        self.buckets.par_bulk_insert_docs([*map(int, ids)], texts)

    def ask(self, text: str) -> Found:
        found = self.buckets.query(text, return_similarity=True)
        return [(str(id), similarity) for id, similarity in found[:MOST]]


TOOLS = {each.__name__.lower(): each for each in (Esdedup, Lance, Datasketch, Gaoya, Rensa)}


def resident() -> int:
    """Bytes of memory that this process has now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measured(index: Any, work: Path) -> dict[str, Any]:
    """Return the answer and milliseconds of each query, and the seconds until it sees changes."""
    found, times = [], []
    queries, added, gone = (
        [*lines(work / f"{name}.jsonl")] for name in ("queries", "more-queries", "removed")
    )
    for query in (queries[0], *queries):
        began = time.perf_counter()
        found.append(index.ask(query["text"]))
        times.append(1e3 * (time.perf_counter() - began))
    began = time.perf_counter()
    index.append(work / "more.jsonl")
    index.ask(added[0]["text"])
    appended = time.perf_counter() - began
    found += [index.ask(query["text"]) for query in added]
    began = time.perf_counter()
    index.delete([each["id"] for each in gone])
    index.ask(gone[0]["text"])
    deleted = time.perf_counter() - began
    if any(each["id"] in dict(index.ask(each["text"])) for each in gone):
        sys.exit("a deleted document is found")
    return {
        "first_ms": times[0],
        "times": times[1:],
        "found": found[1:],
        "append_seconds": appended,
        "delete_seconds": deleted,
        **({"index_bytes": index.bytes} if isinstance(index, Datasketch) else {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("build", "once", "ask"))
    parser.add_argument("tool", choices=sorted(TOOLS))
    parser.add_argument("shape")
    for name in ("work", "file", "place"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    index = TOOLS[options.tool](options)
    if options.action == "once":
        print(json.dumps(index.ask(next(lines(options.work / "queries.jsonl"))["text"])))
    elif options.action == "ask":
        print(json.dumps(measured(index, options.work)))


if __name__ == "__main__":
    main()
