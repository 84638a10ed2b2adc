"""Groups on Spark beside `pairs FILE`: seconds, shuffled bytes, memory of an executor.

    python -m benchmarks.own.spark [--documents 100000 1000000] [--characters 400 150]
        [--masters 'local[2]' 'local-cluster[2,1,4096]'] [--methods components leader]
        [--rounds 1] [--folder OUT]

Made-up texts with planted groups (planted.py), as Parquet for Spark and as JSON lines; pairs at a
Jaccard similarity of 0.8 and above. Jobs take turns.

    files, files-2  `esdedup pairs FILE` with one and with two processes
    MASTER METHOD   `esdedup.spark.groups`, from Parquet to Parquet, as a program of its own:
                    local[2] is one JVM with two tasks at a time, local-cluster[2,1,4096] two
                    executors of one core and 4 GB each, which shuffle over sockets

Seconds are of the whole program, with the start of Python and of the JVM. Memory is the most that
all processes together had, and that one executor had: its JVM and its Python workers, also apart
(benchmarks/lib/processes.py). Shuffled and spilled bytes are from Spark's event log. Recall and
precision are of pairs for `files`, and of groups for Spark: the share of the true pairs that are in
one group, and of the pairs within groups those that a chain of true pairs connects. The method
`leader` puts fewer pairs into one group by its rule.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.lib import measuring, spark
from benchmarks.lib.measuring import Figures
from benchmarks.lib.spark import Job, Texts
from esdedup.groups.groups import Method

METHODS: tuple[Method, ...] = ("components", "leader")
MASTERS = ("local[2]", "local-cluster[2,1,4096]")


def jobs(masters: list[str], methods: list[Method]) -> dict[str, Job]:
    found: dict[str, Job] = {
        "files": spark.from_lines,
        "files-2": functools.partial(spark.from_lines, more=("--workers", "2")),
    }
    for master, method in itertools.product(masters, methods):
        job = functools.partial(spark.by_esdedup, master=master, method=method)
        found[f"{master} {method}"] = job
    return found


def measure(documents: int, characters: int, options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        texts = Texts.planted(documents, characters, Path(made))
        return spark.best(jobs(options.masters, options.methods), texts, options.rounds, Path(made))


NAMES = {"files": "`esdedup pairs FILE`", "files-2": "`esdedup pairs FILE --workers 2`"}


def tables(document: dict[str, Any]) -> str:
    """A table of each number of documents and length."""
    return "\n\n".join(spark.table(result, NAMES) for result in document["results"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--characters", type=int, nargs="+", default=[400, 150])
    parser.add_argument("--masters", nargs="+", default=list(MASTERS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    results = [
        measure(documents, characters, options)
        for documents in options.documents
        for characters in options.characters
    ]
    described = [{"name": "planted", "source": "benchmarks/lib/planted.py"}]
    print(measuring.save("spark", results, described, spark.versions(), options.folder))


if __name__ == "__main__":
    main()
