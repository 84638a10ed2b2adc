"""Runs programs on Spark and measures them: seconds, memory of an executor, shuffled bytes.

Seconds are of the whole program, with the start of its JVM. Bytes come from Spark's event log
(https://spark.apache.org/docs/latest/monitoring.html). Memory comes from /proc, because the log
leaves out most of what Python workers take.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from benchmarks.lib import processes
from benchmarks.lib.measuring import ESDEDUP, RESULTS, Figures
from benchmarks.lib.planted import (
    Pair,
    planted,
    scored_groups,
    scored_removal,
    share,
    true_pairs,
)
from benchmarks.lib.processes import Process
from esdedup.groups.groups import Method

ROOT = RESULTS.parents[1]
EXECUTOR = "CoarseGrainedExecutorBackend"
DRIVER_MEMORY = "4g"
THRESHOLD = 0.8
ROWS = 10_000
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Processes and tasks share the cores already."""
STAGES = 5
"""How many stages are named, those whose tasks ran longest."""
FOLDER = re.compile(r"\S*/")
"""The folders of a file in the name of a stage."""
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
    def planted(documents: int, characters: int, folder: Path) -> Texts:
        texts, groups = planted(documents, characters=characters)
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


Job = Callable[[Texts, Path], Figures]
"""A whole job on texts, in a folder for it alone."""


def best(jobs: Mapping[str, Job], texts: Texts, rounds: int, folder: Path) -> Figures:
    """The best of rounds of each job, which take turns."""
    found: dict[str, Figures] = {}
    for number in range(rounds):
        for name, job in jobs.items():
            with tempfile.TemporaryDirectory(dir=folder) as room:
                figures = job(texts, Path(room))
            print(json.dumps({"round": number, "job": name, **figures}), flush=True)
            known = found.setdefault(name, figures)
            if figures["seconds"] < known["seconds"]:
                found[name] = figures
    return {
        "documents": texts.documents,
        "characters": texts.characters,
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


def table(result: Figures, names: Mapping[str, str]) -> str:
    """A table of the jobs. names: of jobs that are not to be read as they are."""
    title = (
        f"{result['documents']:,} texts of {result['characters']} characters,"
        f" {result['true_pairs']:,} true pairs"
    )
    lines = [_line(names.get(row["job"], row["job"]), row) for row in result["jobs"]]
    return "\n".join(
        [f"| {title} | {' | '.join(HEAD)} |", f"| --- |{' ---: |' * len(HEAD)}", *lines]
    )


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


def from_lines(texts: Texts, folder: Path, more: Sequence[str] = ()) -> Figures:
    """`esdedup pairs FILE`, in one process or in `more`, on the same texts."""
    out = folder / "pairs.jsonl"
    asked = ["pairs", str(texts.lines), "-t", str(THRESHOLD), "--all-equal", "--json", *more]
    figures = processes.run([*ESDEDUP, *asked], out, {**os.environ, **THREADS})
    with out.open(encoding="utf-8") as lines:
        found = {_sorted(json.loads(line)) for line in lines}
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


def _sorted(pair: Mapping[str, str]) -> Pair:
    left, right = int(pair["left"]), int(pair["right"])
    return min(left, right), max(left, right)


def run(program: Sequence[str], folder: Path, master: str) -> Figures:
    """Run a Python program, whose session takes the master, and measure it.

    folder: an empty one, for the log, the event log and what Spark writes.
    """
    events = folder / "events"
    events.mkdir()
    environment = {**os.environ, **_environment(program[0], folder)}
    environment["PYSPARK_SUBMIT_ARGS"] = shlex.join(
        [*_arguments(master, _settings(events, folder)), "pyspark-shell"]
    )
    measured = processes.run(program, folder / "out.log", environment, _parts)
    return {"master": master, **measured, **shuffled(events)}


def _arguments(master: str, settings: Mapping[str, str]) -> Iterator[str]:
    yield from ("--master", master, "--driver-memory", DRIVER_MEMORY)
    for name, value in settings.items():
        yield from ("--conf", f"{name}={value}")


def _environment(python: str, folder: Path) -> dict[str, str]:
    return {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **THREADS,
    }


def _settings(events: Path, folder: Path) -> dict[str, str]:
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }


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
    """The sums over all tasks of an application, from its event log; bytes, milliseconds.

    written_bytes: of output, and of intermediate tables, but not of what Spark keeps by `persist`.

    peak_execution_memory is the largest of a task. longest: the stages whose tasks ran longest.
    """
    sums: Counter[str] = Counter()
    seconds: Counter[int] = Counter()
    written: Counter[int] = Counter()
    names: dict[int, str] = {}
    largest = 0
    for event in _events(events):
        if event["Event"] == "SparkListenerStageCompleted":
            stage = event["Stage Info"]
            names[stage["Stage ID"]] = stage["Stage Name"]
            sums["stages"] += 1
        elif event["Event"] == "SparkListenerTaskEnd":
            sums["tasks"] += 1
            sums["failed_tasks"] += event["Task End Reason"]["Reason"] != "Success"
            metrics = event.get("Task Metrics") or {}
            figures = _of_task(metrics)
            sums.update(figures)
            seconds[event["Stage ID"]] += metrics.get("Executor Run Time", 0)
            written[event["Stage ID"]] += figures["shuffle_write_bytes"]
            largest = max(largest, metrics.get("Peak Execution Memory", 0))
    longest = [
        {
            "stage": FOLDER.sub("", names.get(stage, str(stage))),
            "task_seconds": milliseconds / 1_000,
            "shuffle_write_bytes": written[stage],
        }
        for stage, milliseconds in seconds.most_common(STAGES)
    ]
    return {**sums, "peak_execution_memory": largest, "longest": longest}


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.iterdir()):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _of_task(metrics: Mapping[str, Any]) -> dict[str, int]:
    read = metrics.get("Shuffle Read Metrics", {})
    return {
        "shuffle_write_bytes": metrics.get("Shuffle Write Metrics", {}).get(
            "Shuffle Bytes Written", 0
        ),
        "shuffle_read_bytes": read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0),
        "spilled_bytes": metrics.get("Disk Bytes Spilled", 0),
        "spilled_memory_bytes": metrics.get("Memory Bytes Spilled", 0),
        "written_bytes": metrics.get("Output Metrics", {}).get("Bytes Written", 0),
        "gc_ms": metrics.get("JVM GC Time", 0),
    }
