"""Groups on Spark beside `pairs FILE`: seconds, shuffled bytes, memory of an executor.

    python -m benchmarks.own.spark [--documents 100000 1000000] [--characters 400 150] [--fresh 700]
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
import importlib.metadata
import itertools
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from benchmarks.lib import measuring, processes
from benchmarks.lib.measuring import ESDEDUP, RESULTS, Figures
from benchmarks.lib.planted import (
    FRESH,
    Pair,
    planted,
    scored_groups,
    scored_removal,
    share,
    true_pairs,
    with_equal,
)
from benchmarks.lib.processes import Process
from esdedup.groups.groups import Method

METHODS: tuple[Method, ...] = ("components", "leader")
MASTERS = ("local[2]", "local-cluster[2,1,4096]")
EXECUTOR = "CoarseGrainedExecutorBackend"
THRESHOLD = 0.8
ROWS = 10_000
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Processes and tasks share the cores already."""
PROGRAM = "benchmarks.lib.spark_program"
"""esdedup's work on Spark, as a program."""


@dataclass(frozen=True)
class Texts:
    """Planted texts as JSON lines and as Parquet, with their true pairs.

    Columns: id, a string, and row, the same as a number, beside text.
    """

    documents: int
    characters: int
    lines: Path
    parquet: Path
    truth: set[Pair]

    @staticmethod
    def planted(documents: int, characters: int, fresh: int, folder: Path) -> Texts:
        texts, groups = planted(documents, characters=characters, fresh=fresh)
        lines, columns = folder / "texts.jsonl", folder / "texts.parquet"
        truth = true_pairs(texts, groups, THRESHOLD)
        with lines.open("w", encoding="utf-8") as file:
            for row, text in enumerate(texts):
                file.write(json.dumps({"id": str(row), "text": text}) + "\n")
        ids = [str(row) for row in range(documents)]
        table = pyarrow.table({"id": ids, "row": range(documents), "text": texts})
        # Several row groups, which Spark reads as several parts.
        parquet.write_table(table, columns, row_group_size=ROWS)
        return Texts(documents, characters, lines, columns, truth)


def from_lines(texts: Texts, folder: Path, more: Sequence[str] = ()) -> Figures:
    """`esdedup pairs FILE`, in one process or in `more`, on the same texts."""
    out = folder / "pairs.jsonl"
    asked = ["pairs", str(texts.lines), "-t", str(THRESHOLD), "--json", *more]
    figures = processes.run([*ESDEDUP, *asked], out, {**os.environ, **THREADS})
    with out.open(encoding="utf-8") as lines:
        found = with_equal(lines)
    right = len(found & texts.truth)
    return figures | {
        "pairs": len(found),
        "recall": share(right, len(texts.truth)),
        "precision": share(right, len(found)),
    }


def by_esdedup(texts: Texts, folder: Path, master: str, method: Method) -> Figures:
    """`esdedup.spark.groups`, from Parquet to Parquet."""
    out = folder / "out"
    program = [
        sys.executable,
        "-m",
        PROGRAM,
        str(texts.parquet),
        str(out),
        str(THRESHOLD),
        method,
    ]
    figures = run(program, folder, master)
    made = parquet.read_table(out, columns=["id", "group", "original"]).to_pydict()
    groups, removed = list(range(texts.documents)), set()
    for id, group, original in zip(made["id"], made["group"], made["original"], strict=True):
        # A document that is alone has no group.
        if group is not None:
            groups[int(id)] = int(group)
        if original is not None:
            removed.add(int(id))
    kept = [row for row in range(texts.documents) if row not in removed]
    return (
        figures
        | scored_groups(groups, texts.truth)
        | scored_removal(kept, texts.documents, texts.truth)
    )


def run(program: Sequence[str], folder: Path, master: str, memory: str = "4g") -> Figures:
    """Run a Python program, whose session takes the master, and measure it.

    folder: without `events`, for the log, the event log and what Spark writes. memory: of the heap
    of the driver.
    """
    events = folder / "events"
    events.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    arguments = ["--master", master, "--driver-memory", memory]
    for name, value in settings.items():
        arguments += ["--conf", f"{name}={value}"]
    environment = {
        **os.environ,
        **THREADS,
        "PYSPARK_PYTHON": program[0],
        "PYSPARK_DRIVER_PYTHON": program[0],
        "PYTHONPATH": str(RESULTS.parents[1]),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"]),
    }
    measured = processes.run(program, folder / "out.log", environment, _parts)
    return {"master": master, **measured, **shuffled(events)}


def _parts(found: Mapping[int, Process]) -> dict[str, float]:
    """The largest executor, its JVM and its Python workers apart. Of local[N], the driver's JVM."""
    java = {pid: each for pid, each in found.items() if "java" in each.command.split(" ", 1)[0]}
    executors = [pid for pid, each in java.items() if EXECUTOR in each.command] or list(java)
    python: dict[int, float] = defaultdict(float)
    for pid, each in found.items():
        above = each.parent
        while above in found and above not in java:
            above = found[above].parent
        if pid not in java and above in java:
            python[above] += each.mb
    return {
        "executor_mb": max((java[pid].mb + python[pid] for pid in executors), default=0),
        "executor_jvm_mb": max((java[pid].mb for pid in executors), default=0),
        "executor_python_mb": max((python[pid] for pid in executors), default=0),
    }


def shuffled(events: Path) -> Figures:
    """The sums over all tasks of an application, from its event log, in bytes.

    written_bytes: of output, and of intermediate tables, but not of what Spark keeps by `persist`.
    """
    sums = dict.fromkeys((*BYTES, "shuffle_read_bytes", "failed_tasks"), 0)
    for path in events.iterdir():
        for event in map(json.loads, path.read_text("utf-8").splitlines()):
            if event["Event"] == "SparkListenerTaskEnd":
                metrics = event.get("Task Metrics") or {}
                read = metrics.get("Shuffle Read Metrics", {})
                wrote = metrics.get("Shuffle Write Metrics", {})
                sums["shuffle_write_bytes"] += wrote.get("Shuffle Bytes Written", 0)
                for kind in ("Remote", "Local"):
                    sums["shuffle_read_bytes"] += read.get(f"{kind} Bytes Read", 0)
                sums["spilled_bytes"] += metrics.get("Disk Bytes Spilled", 0)
                sums["written_bytes"] += metrics.get("Output Metrics", {}).get("Bytes Written", 0)
                sums["failed_tasks"] += event["Task End Reason"]["Reason"] != "Success"
    return sums


def measure(documents: int, characters: int, options: argparse.Namespace, folder: Path) -> Figures:
    """The best of rounds of each job, which take turns."""
    texts = Texts.planted(documents, characters, options.fresh, folder)
    found: dict[str, Figures] = {}

    def note(name: str, figures: Figures) -> None:
        print(json.dumps({"job": name, **figures}), flush=True)
        if name not in found or figures["seconds"] < found[name]["seconds"]:
            found[name] = figures

    for _ in range(options.rounds):
        of_files = (("files", ()), ("files-2", ("--workers", "2")))
        for name, more in () if options.no_files else of_files:
            note(name, from_lines(texts, folder, more))
        for master in options.masters:
            for method in options.methods:
                with tempfile.TemporaryDirectory(dir=folder) as room:
                    note(f"{master} {method}", by_esdedup(texts, Path(room), master, method))
    return {
        "documents": documents,
        "characters": characters,
        "true_pairs": len(texts.truth),
        "bytes": {"lines": texts.lines.stat().st_size, "parquet": texts.parquet.stat().st_size},
        "jobs": [{"job": name, **figures} for name, figures in found.items()],
    }


def versions() -> dict[str, str]:
    """The versions of PySpark, pyarrow and Java."""
    java = Path(os.environ.get("JAVA_HOME", "/usr")) / "bin" / "java"
    told = subprocess.run([java, "-version"], check=True, capture_output=True, text=True).stderr
    packages = {each: importlib.metadata.version(each) for each in ("pyspark", "pyarrow")}
    return packages | {"java": told.split('"')[1]}


NAMES = {"files": "`esdedup pairs FILE`", "files-2": "`esdedup pairs FILE --workers 2`"}
BYTES = ("shuffle_write_bytes", "spilled_bytes", "written_bytes")
HEAD = (
    "seconds",
    "CPU seconds",
    "peak MB, all",
    "peak MB, an executor",
    "its JVM, its Python",
    "shuffled MB",
    "spilled MB",
    "written MB",
    "recall",
    "precision",
    "removed",
    "lost",
    "left",
)


def tables(document: dict[str, Any]) -> str:
    """A table of each number of documents and length."""
    return "\n\n".join(map(_table, document["results"]))


def _table(result: Figures) -> str:
    title = (
        f"{result['documents']:,} texts of {result['characters']:,} characters,"
        f" {result['bytes']['lines'] / 1e6:,.0f} MB, {result['true_pairs']:,} true pairs"
    )
    lines = [_line(NAMES.get(row["job"], row["job"]), row) for row in result["jobs"]]
    return "\n".join(
        [f"| {title} | {' | '.join(HEAD)} |", f"| --- |{' ---: |' * len(HEAD)}", *lines]
    )


def _line(name: str, row: Figures) -> str:
    cells = [f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}", f"{row['peak_mb']:,}"]
    if "master" in row:
        cells += [f"{row['executor_mb']:,}"]
        cells += [f"{row['executor_jvm_mb']:,}, {row['executor_python_mb']:,}"]
        cells += [f"{row[each] / 1e6:,.1f}" for each in BYTES]
    else:
        cells += [""] * (2 + len(BYTES))
    cells += [f"{row['recall']:.4f}", f"{row['precision']:.4f}"]
    cells += [f"{row[each]:,}" if each in row else "" for each in ("removed", "lost", "left")]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--characters", type=int, nargs="+", default=[400, 150])
    parser.add_argument("--fresh", type=int, default=FRESH, help="as of planted")
    parser.add_argument("--no-files", action="store_true", help="Spark alone")
    parser.add_argument("--masters", nargs="+", default=list(MASTERS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    results = []
    for documents, characters in itertools.product(options.documents, options.characters):
        with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as folder:
            results.append(measure(documents, characters, options, Path(folder)))
    described = [{"name": "planted", "source": "benchmarks/lib/planted.py"}]
    print(measuring.save("spark", results, described, versions(), options.folder))


if __name__ == "__main__":
    main()
