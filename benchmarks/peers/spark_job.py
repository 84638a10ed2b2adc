"""Parquet to groups of near-duplicates on Spark: esdedup beside text-dedup's job.

    python -m benchmarks.peers.spark_job [--documents 100000] [--characters 400]
        [--master 'local[2]'] [--only JOB,...] [--rounds 1] [--folder OUT]

Made-up texts with planted groups (planted.py), sets of three words in a row, threshold 0.8. Whole
programs on the same Spark and master, with the start of Python and of the JVM.

    esdedup           `esdedup.spark.groups`, from Parquet to Parquet, verified; groups are whatever
                      a chain of pairs connects, as those of text-dedup
    files, files-2    `esdedup pairs FILE` with one and with two processes, without Spark: pairs
    text-dedup        its `minhash_spark.py` with 250 permutations, its default, and the bands that
                      it chooses for the threshold
    text-dedup-equal  the same, with the most rows that find as many pairs as esdedup promises
                      (0.99 and more at the threshold, of 250 permutations)
    text-dedup-as-is, text-dedup-equal-as-is
                      as it comes: 4,096 to 8,192 partitions, which is for large clusters; the other
                      jobs take as few as this machine needs

text-dedup removes duplicates: it writes the documents that stay, and with `--debug` the groups. It
verifies none. How it runs here is in `inside/peer_spark.py`. Recall: the share of the true pairs
that are in one group. Precision: of the pairs within groups, those that a chain of true pairs
connects. lost: groups of similar documents, or single ones, of which none stays. left: duplicates
that stay.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from pathlib import Path
from typing import Any

from pyarrow import parquet

from benchmarks.lib import measuring, spark
from benchmarks.lib.measuring import Figures
from benchmarks.lib.planted import scored_groups, scored_removal
from benchmarks.lib.spark import THRESHOLD, Job, Texts
from benchmarks.peers import environments
from esdedup.sketch.banding import expected_recall

INSIDE = Path(__file__).parent / "inside"
PERMUTATIONS = 250
RECALL = 0.99
PARTITIONS = 8


def equal_shape() -> tuple[int, int]:
    """Bands and rows: the most rows whose bands reach the recall at the threshold."""
    shapes = ((PERMUTATIONS // rows, rows) for rows in range(PERMUTATIONS, 0, -1))
    return next(
        (bands, rows) for bands, rows in shapes if expected_recall(THRESHOLD, bands, rows) >= RECALL
    )


def by_text_dedup(
    texts: Texts,
    folder: Path,
    master: str,
    shape: tuple[int, int] | None = None,
    partitions: int = PARTITIONS,
) -> Figures:
    """shape: bands and rows; None: its choice. partitions: 0 for its own."""
    python, out = environments.python_of("text-dedup"), folder / "out"
    program = [python, str(INSIDE / "peer_spark.py"), str(partitions)]
    # Its own least length would leave out short texts.
    asked = ["--column", "text", "--index", "row", "--ngram_size", "3", "--min_length", "1"]
    asked += ["--threshold", str(THRESHOLD), "--num_perm", str(PERMUTATIONS), "--debug"]
    asked += ["--checkpoint_dir", str(folder / "checkpoints")]
    if shape is not None:
        asked += ["--b", str(shape[0]), "--r", str(shape[1])]
    asked += ["--input", str(texts.parquet), "--output", str(out)]
    figures = spark.run([*program, *asked], folder, master)
    # Its folders are named for a column `__pid__`.
    written = parquet.read_table(out, columns=["row"], ignore_prefixes=["_SUCCESS", "."])
    kept = written["row"].to_pylist()
    made = parquet.read_table(f"{out}-assignment/assignment.parquet").to_pydict()
    groups = list(range(texts.documents))
    for row, group in zip(made["id"], made["component"], strict=True):
        groups[row] = group
    return {
        **figures,
        "shape": "x".join(map(str, shape)) if shape else None,
        **scored_groups(groups, texts.truth),
        **scored_removal(kept, texts.documents, texts.truth),
    }


def jobs(master: str) -> dict[str, Job]:
    text_dedup = functools.partial(by_text_dedup, master=master)
    equal = functools.partial(text_dedup, shape=equal_shape())
    return {
        "esdedup": functools.partial(spark.by_esdedup, master=master, method="components"),
        "files": spark.from_lines,
        "files-2": functools.partial(spark.from_lines, more=("--workers", "2")),
        "text-dedup": text_dedup,
        "text-dedup-equal": equal,
        "text-dedup-as-is": functools.partial(text_dedup, partitions=0),
        "text-dedup-equal-as-is": functools.partial(equal, partitions=0),
    }


def measure(options: argparse.Namespace) -> Figures:
    only = set(options.only.split(",")) if options.only else None
    chosen = {
        name: job for name, job in jobs(options.master).items() if only is None or name in only
    }
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        texts = Texts.planted(options.documents, options.characters, Path(made))
        return spark.best(chosen, texts, options.rounds, Path(made))


NAMES = {
    "esdedup": "esdedup on Spark",
    "files": "esdedup, `pairs FILE`",
    "files-2": "esdedup, `pairs FILE --workers 2`",
    "text-dedup": "text-dedup",
    "text-dedup-equal": "text-dedup, at equal recall ({} x {})".format(*equal_shape()),
    "text-dedup-as-is": "text-dedup, its number of partitions",
    "text-dedup-equal-as-is": "text-dedup, its number of partitions, at equal recall",
}


def tables(document: dict[str, Any]) -> str:
    """One table, of all jobs."""
    return spark.table(document["results"], NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--characters", type=int, default=400)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--only", help="jobs, with commas between")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    results = measure(options)
    described = [{"name": "planted", "source": "benchmarks/lib/planted.py"}]
    theirs = environments.versions_of("text-dedup", "pyspark")
    theirs["pyspark of text-dedup"] = theirs.pop("pyspark")
    versions = spark.versions() | theirs
    print(measuring.save("spark_job", results, described, versions, options.folder))


if __name__ == "__main__":
    main()
