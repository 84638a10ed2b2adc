"""How `--workers` uses the cores: seconds of whole commands, by the number of processes.

    python -m benchmarks.own.workers [--documents 400000] [--workers 1 2] [--rounds 2]
        [--folder OUT] [--only files,local,elasticsearch]

Made-up English texts of about 400 characters, and of about 4,000 (a tenth as many), as JSON lines.

    files          `esdedup pairs FILE -t 0.8`
    local          `esdedup index FILE` into a local file
    elasticsearch  `esdedup index FILE` into a node that has the same cores; a fifth as many

One process reads, sketches and writes. With more, worker processes read and sketch chunks of the
file, and the first process writes their results in order; starting them is counted too. `apart` is
the best that the machine gives: as many commands at once, each of one process, with a part of the
file and an index of its own. Rounds are interleaved, and the best of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.lib import measuring, servers
from benchmarks.lib import texts as made_up
from benchmarks.lib.measuring import ESDEDUP, Figures, run

INDEX = "esdedup-benchmark-workers"
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
Job = Callable[[Path, list[str], Path], Figures]


def from_files(file: Path, workers: list[str], folder: Path) -> Figures:
    command = [*ESDEDUP, "pairs", str(file), "-t", "0.8", "--all-equal", "--json", *workers]
    return run(command, _out(folder), THREADS)


def locally(file: Path, workers: list[str], folder: Path) -> Figures:
    with tempfile.TemporaryDirectory(dir=folder) as room:
        db = Path(room) / "documents.db"
        command = [*ESDEDUP, "index", str(file), "--db", str(db), *workers]
        return run(command, _out(folder), THREADS)


def on_a_node(url: str) -> Job:
    def job(file: Path, workers: list[str], folder: Path) -> Figures:
        index = f"{INDEX}-{uuid.uuid4().hex}"
        target = ["--url", url, "--index", index]
        figures = run([*ESDEDUP, "index", str(file), *target, *workers], _out(folder), THREADS)
        servers.drop(url, index)
        return figures

    return job


def _out(folder: Path) -> Path:
    return folder / f"out-{uuid.uuid4().hex}"


def parts_of(file: Path, parts: int) -> list[Path]:
    """The lines of a file in several others, dealt out in turn."""
    made = [file.with_name(f"{file.stem}-{part + 1}-of-{parts}.jsonl") for part in range(parts)]
    with ExitStack() as stack, file.open("rb") as lines:
        outs = [stack.enter_context(each.open("wb")) for each in made]
        for number, line in enumerate(lines):
            outs[number % parts].write(line)
    return made


def apart(job: Job, files: Sequence[Path], folder: Path) -> Figures:
    """One command for each file, all at once."""
    with ThreadPoolExecutor(len(files)) as pool:
        all_at_once = list(pool.map(lambda file: job(file, [], folder), files))
    return {
        "seconds": max(each["seconds"] for each in all_at_once),
        "cpu_seconds": round(sum(each["cpu_seconds"] for each in all_at_once), 2),
        "peak_mb": max(each["peak_mb"] for each in all_at_once),
    }


def write(file: Path, documents: int, characters: int) -> None:
    """Texts made a few at a time, so that they need not be in memory."""
    with file.open("w", encoding="utf-8") as out:
        for first in range(0, documents, 10_000):
            some = min(10_000, documents - first)
            for row, text in enumerate(made_up.english(some, characters, seed=1 + first), first):
                out.write(json.dumps({"id": str(row), "text": text}) + "\n")


def measure(
    name: str, job: Job, file: Path, documents: int, options: argparse.Namespace, folder: Path
) -> list[Figures]:
    parts = {workers: parts_of(file, workers) for workers in options.workers if workers > 1}
    best: dict[tuple[int, bool], Figures] = {}
    for _ in range(options.rounds):
        for workers in options.workers:
            ways = {False: job(file, ["--workers", str(workers)], folder)}
            if workers > 1:
                ways[True] = apart(job, parts[workers], folder)
            for way, figures in ways.items():
                known = best.setdefault((workers, way), figures)
                if figures["seconds"] < known["seconds"]:
                    best[workers, way] = figures
    rows = []
    for (workers, way), figures in best.items():
        rate = documents / figures["seconds"]
        rows.append(
            {"job": name, "documents": documents, "workers": workers, "apart": way, **figures}
            | {"bytes": file.stat().st_size, "documents_per_second": round(rate)}
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def tables(document: dict[str, Any]) -> str:
    """Documents a second by the number of processes, and times as many as with one."""
    lines = [
        "| | documents | bytes each | processes | seconds | CPU seconds | documents/s"
        " | times one process |",
        "| --- |" + " ---: |" * 7,
    ]
    one: dict[tuple[str, int], float] = {}
    for row in document["results"]:
        key = (row["job"], row["documents"])
        if row["workers"] == 1:
            one[key] = row["seconds"]
        cells = [row["job"], f"{row['documents']:,}", f"{row['bytes'] / row['documents']:,.0f}"]
        cells.append(f"{row['workers']}{', apart' if row['apart'] else ''}")
        cells += [f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}"]
        cells += [f"{row['documents_per_second']:,}"]
        cells.append(f"{one[key] / row['seconds']:.2f}" if key in one else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=400_000)
    cores = os.cpu_count() or 1
    default = [1, *(2**power for power in range(1, 7) if 2**power <= cores)]
    parser.add_argument("--workers", type=int, nargs="+", default=default)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="files,local,elasticsearch")
    parser.add_argument("--folder", type=Path, help="where the results go")
    servers.add_options(parser)
    options = parser.parse_args()
    chosen = options.only.split(",")
    jobs: dict[str, Job] = {"files": from_files, "local": locally}
    results: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        folder = Path(made)
        for part, characters in ((1, 400), (10, 4_000)):
            file = folder / f"{characters}.jsonl"
            documents = options.documents // part
            write(file, documents, characters)
            for name in (name for name in jobs if name in chosen):
                results += measure(name, jobs[name], file, documents, options, folder)
        if "elasticsearch" in chosen:
            file, documents = folder / "some.jsonl", options.documents // 5
            write(file, documents, 400)
            with servers.served(options) as url:
                job = on_a_node(url)
                results += measure("elasticsearch", job, file, documents, options, folder)
    described = [{"name": "texts", "source": "benchmarks/lib/texts.py"}]
    print(measuring.save("workers", results, described, folder=options.folder))


if __name__ == "__main__":
    main()
