"""Memory and shuffled bytes of `esdedup.spark.pairs`, by the number of pairs.

    python -m benchmarks.own.spark_pairs [--corpora boilerplate families] [--shares 0.25 0.5 1]
        [--memory 1g]

boilerplate  as of sharing.py: 30,000 of 62,202 texts are of one template
families     60,000 texts of 300 words in families of 40, of which each pair is similar

Each job is of the first share of the texts, on local[2]. Memory is the proportional set size: of
the JVM, whose heap may have --memory, and of all Python workers together. Shuffled bytes are from
Spark's event log.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow
from pyarrow import parquet

from benchmarks.lib.measuring import Figures
from benchmarks.own import disk, spark
from benchmarks.own.sharing import boilerplate


def families() -> Iterator[str]:
    """Yield texts in families, in any order."""
    draw, vocabulary, texts = random.Random(5), disk.vocabulary(), []
    for _ in range(1_500):
        words = [draw.choice(vocabulary) for _ in range(300)]
        for _ in range(40):
            own = [*words]
            for at in draw.sample(range(300), 3):
                own[at] = f"n{draw.randrange(10**6)}"
            texts.append(" ".join(own))
    draw.shuffle(texts)
    yield from texts


CORPORA = {"boilerplate": boilerplate, "families": families}


def measure(texts: list[str], memory: str, folder: Path) -> Figures:
    """Return the figures of the pairs of texts."""
    source, out = folder / "texts.parquet", folder / "out"
    ids = [str(row) for row in range(len(texts))]
    # Several row groups, which Spark reads as several parts.
    parquet.write_table(pyarrow.table({"id": ids, "text": texts}), source, row_group_size=5_000)
    program = [sys.executable, "-m", spark.PROGRAM, str(source), str(out), "0.8", "pairs"]
    figures = spark.run(program, folder, "local[2]", memory)
    pairs = sum(parquet.read_metadata(file).num_rows for file in out.glob("*.parquet"))
    size = sum(len(text.encode()) for text in texts)
    return {"documents": len(texts), "bytes": size, "pairs": pairs, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--shares", nargs="+", type=float, default=[0.25, 0.5, 1])
    parser.add_argument("--memory", default="1g", help="of the heap")
    options = parser.parse_args()
    for corpus in options.corpora:
        texts = [*CORPORA[corpus]()]
        for share in options.shares:
            with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as folder:
                some = texts[: int(len(texts) * share)]
                figures = measure(some, options.memory, Path(folder))
                print(json.dumps({"corpus": corpus, "memory": options.memory, **figures}))


if __name__ == "__main__":
    main()
