"""Raw text to band tokens, on one core: esdedup beside every peer.

    python -m benchmarks.peers.sketching [--documents 10000] [--processes 3]

Texts are made up, short and long, English and Chinese. Word 5-shingles, bands of 4 rows, folded to
lower case. A job runs in a process of its own, several times there; processes of all jobs take
turns, and the best counts: on a shared machine the best is closest to the cost of the code. Peers
run in environments of their own (environments.py, inside/peer_sketches.py).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.lib import measuring
from benchmarks.lib import texts as made_up
from benchmarks.peers import environments

LENGTHS = {"short": 400, "long": 4_000}
LANGUAGES = ("english", "chinese")
PERMUTATIONS, ROWS = (128, 256), 4

OURS = ("esdedup", "esdedup, all its fields")
SKETCHES = (
    "gaoya, with its buckets",
    "rensa R-MinHash",
    "rensa R-MinHash, with its buckets",
    "datasketch xxhash, keys cut by us",
)
TEXT_DEDUP = ("text-dedup xxh3",)
Rows = list[dict[str, Any]]


def speed(options: argparse.Namespace, folder: Path) -> tuple[Rows, Rows]:
    """Seconds and memory of every job on every kind of texts; the texts, described."""
    rows: Rows = []
    described: Rows = []
    for language in LANGUAGES:
        for length, characters in LENGTHS.items():
            documents = max(1, options.documents * LENGTHS["short"] // characters)
            texts = getattr(made_up, language)(documents, characters)
            file = folder / f"{language}-{length}.txt"
            file.write_text("".join(f"{text}\n" for text in texts), "utf-8")
            size = file.stat().st_size - documents
            kind = {"language": language, "length": length, "characters": characters}
            described.append(
                {
                    "name": f"{length} {language}",
                    "source": "benchmarks/lib/texts.py",
                    "documents": documents,
                    "bytes": size,
                }
            )
            kind |= {"documents": documents, "megabytes": round(size / 1e6, 3)}
            for permutations in PERMUTATIONS:
                jobs = (*OURS, *SKETCHES, *TEXT_DEDUP)
                rows += _beside(jobs, file, {**kind, "permutations": permutations}, options)
    return rows, described


def _beside(
    jobs: tuple[str, ...], file: Path, kind: dict[str, Any], options: argparse.Namespace
) -> Rows:
    """A row for each job, the best of its processes; the first job is what others are held to."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(options.processes):
        for job in jobs:
            found = json.loads(_run(_command(job, file, kind)))
            if job not in best or found["seconds"] < best[job]["seconds"]:
                best[job] = found
    first = best[jobs[0]]["seconds"]
    rows = []
    for job, found in best.items():
        rates = {
            "documents_per_second": round(kind["documents"] / found["seconds"]),
            "megabytes_per_second": round(kind["megabytes"] / found["seconds"], 2),
            "esdedup_is_times_faster": round(found["seconds"] / first, 3),
        }
        rows.append({"job": job, **kind, **found, **rates})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def _command(job: str, file: Path, kind: dict[str, Any]) -> list[str]:
    if job.startswith("esdedup"):
        program = [sys.executable, "-m", "benchmarks.peers.inside.own_sketches"]
    else:
        environment = "text-dedup" if job in TEXT_DEDUP else "sketches"
        program = [
            environments.python_of(environment),
            "-m",
            "benchmarks.peers.inside.peer_sketches",
        ]
    settings = ["--language", kind["language"], "--permutations", str(kind["permutations"])]
    settings += ["--rows", str(ROWS)]
    return [*program, job, str(file), *settings]


def _run(command: list[str]) -> str:
    """The last line that a command prints."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return done.stdout.splitlines()[-1]


def tables(document: dict[str, Any]) -> str:
    """The results as Markdown."""
    rows, parts = document["results"], []
    for permutations in PERMUTATIONS:
        some = [row for row in rows if row["permutations"] == permutations]
        title = f"{permutations} permutations, {permutations // ROWS} bands"
        units = "documents per second · MB per second · how many times as fast esdedup is"
        lead = f"**{title}**: {units}"
        parts += [lead, _table(some, _rate)]
    parts.append(f"**Peak memory, {permutations} permutations**: MB beside the texts")
    parts.append(_table(some, lambda row: f"{row['peak_mb']:,.0f}"))
    return "\n\n".join(parts)


def _rate(row: dict[str, Any]) -> str:
    times = row["esdedup_is_times_faster"]
    shown = f"{times:.2f}x" if times >= 1 else f"**{times:.2f}x**"
    rates = f"{row['documents_per_second']:,} · {row['megabytes_per_second']:.1f}"
    return f"{rates} · {shown}"


def _table(rows: Rows, cell: Any) -> str:
    """A line for each job, a column for each kind of texts."""
    kinds = list(dict.fromkeys((row["language"], row["length"]) for row in rows))
    jobs = list(dict.fromkeys(row["job"] for row in rows))
    cells = {(row["job"], row["language"], row["length"]): cell(row) for row in rows}
    heads = " | ".join(f"{length} {language.capitalize()}" for language, length in kinds)
    lines = [f"| | {heads} |", "|---" * (len(kinds) + 1) + "|"]
    for job in jobs:
        found = " | ".join(cells.get((job, *kind), "") for kind in kinds)
        lines.append(f"| {job} | {found} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=10_000, help="short ones; long: a tenth")
    parser.add_argument("--processes", type=int, default=3, help="of each job; the best counts")
    parser.add_argument("--folder", type=Path, help="for the results")
    options = parser.parse_args()
    versions = environments.versions_of("sketches") | environments.versions_of("text-dedup")
    with tempfile.TemporaryDirectory() as name:
        rows, described = speed(options, Path(name))
    measuring.save("sketching", rows, described, versions, options.folder)


if __name__ == "__main__":
    main()
