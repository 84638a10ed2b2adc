"""The first hour of a new user: what four jobs take to write, and the time to the result.

    python -m benchmarks.peers.first_use [--documents 1000] [--only PROJECT,...] [--folder OUT]

Each job runs once, as `recipes` has it: a command or a program in the folder of the inputs. Texts
are made up, with planted groups (planted.py); duplicates are at a Jaccard similarity of 0.8 and
above. All settings but the threshold are the project's own, so that results differ.

    jsonl       one file of JSON lines without its near-duplicates
    parquet     the same documents in a folder of four Parquet files
    against     the last fifth of them, without what the first four fifths have
    benchmark   the documents, of which 100 hold one of 50 items, without these

Lines: of the recipe, without blank ones. Seconds: of the whole process, imports included. Stay:
documents in the output. Left: documents in the output that have a near-duplicate before them, or
hold an item. Lost: documents that are not, without a reason.
"""

import argparse
import contextlib
import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.lib import measuring
from benchmarks.lib.measuring import ESDEDUP, Figures, run
from benchmarks.lib.planted import planted
from benchmarks.peers import environments
from benchmarks.peers.corpus import neighbours
from benchmarks.peers.whole_job import OFFLINE

RECIPES = Path(__file__).parent / "recipes"
JOBS = {
    "jsonl": "one JSONL file",
    "parquet": "a folder of Parquet",
    "against": "new shards against old ones",
    "benchmark": "a benchmark removed",
}
PROJECTS = {
    "semhash": "SemHash",
    "datatrove": "datatrove",
    "text_dedup": "text-dedup",
    "esdedup": "esdedup",
}
ITEMS = 50


@dataclass(frozen=True)
class Inputs:
    """The texts of a folder, and what is right.

    folder: has the files that the recipes read.
    near: the documents that each one resembles.
    holding: documents that hold an item.
    first_new: the first document of the new shards.
    """

    folder: Path
    near: dict[int, set[int]]
    holding: set[int]
    documents: int
    first_new: int

    @classmethod
    def make(cls, folder: Path, documents: int) -> "Inputs":
        """Write the inputs."""
        texts, groups = planted(documents)
        items, _ = planted(ITEMS, seed=7, characters=200, fresh=800)
        holding = {number * documents // (2 * ITEMS) for number in range(2 * ITEMS)}
        for number, row in enumerate(sorted(holding)):
            texts[row] = f"{texts[row][:150]} {items[number % ITEMS]} {texts[row][150:]}"
        records = [{"id": str(row), "text": text} for row, text in enumerate(texts)]
        first_new = documents * 4 // 5
        write_lines(folder / "documents.jsonl", records)
        write_lines(
            folder / "items.jsonl", [{"id": f"i{n}", "text": t} for n, t in enumerate(items)]
        )
        for name in ("parquet", "old", "new"):
            (folder / name).mkdir()
        for shard in range(4):
            rows = slice(shard * documents // 4, (shard + 1) * documents // 4)
            pq.write_table(pa.Table.from_pylist(records[rows]), folder / f"parquet/{shard}.parquet")
            rows = slice(shard * first_new // 4, (shard + 1) * first_new // 4)
            write_lines(folder / f"old/{shard}.jsonl", records[rows])
        write_lines(folder / "new/4.jsonl", records[first_new:])
        return cls(folder, neighbours(texts, groups), holding, documents, first_new)

    def score(self, job: str, kept: set[int]) -> Figures:
        """Return how many documents stay, and how many of them are wrong."""
        first = self.first_new if job == "against" else 0
        removed = {*range(first, self.documents)} - kept
        if job == "benchmark":
            left, lost = kept & self.holding, removed - self.holding
        else:
            stay = kept | {*range(first)}
            left = {row for row in kept if any(other < row for other in self.near[row] & stay)}
            lost = {row for row in removed if not self.near[row] & stay}
        return {"stay": len(kept), "left": len(left), "lost": len(lost)}


def write_lines(file: Path, records: list[dict[str, str]]) -> None:
    """Write records as JSON lines."""
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def recipe_of(project: str, job: str) -> Path | None:
    """Return the recipe, or None if the project has no way to do the job."""
    recipes = [RECIPES / f"{project}_{job}{ending}" for ending in (".sh", ".py")]
    return next((recipe for recipe in recipes if recipe.exists()), None)


def lines_of(recipe: Path) -> int:
    """Return the number of lines that are not blank."""
    return sum(bool(line.strip()) for line in recipe.read_text("utf-8").splitlines())


def kept_in(folder: Path) -> Iterator[int]:
    """Yield the ids of the documents in the output of a recipe."""
    for path in [*folder.glob("out*"), *folder.glob("out/*")]:
        if path.name.startswith("_") or path.is_dir():
            continue
        if path.suffix == ".parquet":
            yield from map(int, pq.read_table(path, columns=["id"])["id"].to_pylist())
        elif path.suffix == ".jsonl" or path.name.endswith(".jsonl.gz"):
            opener = gzip.open if path.suffix == ".gz" else open
            with opener(path, "rt", encoding="utf-8") as lines:
                yield from (int(json.loads(line)["id"]) for line in lines)


def measure(inputs: Inputs, project: str, job: str, recipe: Path, room: Path) -> Figures:
    """Run a recipe in a copy of the inputs."""
    shutil.copytree(inputs.folder, room)
    for helper in (recipe, RECIPES / "offline_model.py"):
        shutil.copy(helper, room)
    variables = {**OFFLINE, "HF_HOME": str(room / "home")}
    interpreter = "bash"
    if project == "esdedup":
        command = room / "bin" / "esdedup"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {" ".join(ESDEDUP)} "$@"\n', "utf-8")
        command.chmod(0o755)
        variables["PATH"] = f"{command.parent}:{os.environ['PATH']}"
    else:
        python = environments.python_of(project.replace("_", "-"))
        variables["PATH"] = f"{Path(python).parent}:{os.environ['PATH']}"
        interpreter = python if recipe.suffix == ".py" else interpreter
    # Recipes name files of their folder, as a user does.
    with contextlib.chdir(room):
        figures = run([interpreter, recipe.name], room / "said", variables)
    return figures | {"lines": lines_of(recipe)} | inputs.score(job, {*kept_in(room)})


def tables(document: Figures) -> str:
    """Return a table with a row for each job and project."""
    (corpus,) = document["corpora"]
    head = ["lines", "seconds", "CPU seconds", "peak MB", "stay", "left", "lost"]
    lines = [f"| {corpus['documents']:,} documents | | {' | '.join(head)} |"]
    lines.append(f"|---|---|{'---:|' * len(head)}")
    for job, title in JOBS.items():
        rows = [row for row in document["results"] if row["job"] == job]
        for row in sorted(rows, key=lambda row: row.get("cpu_seconds", float("inf"))):
            cells = ["–"] * len(head)
            if "seconds" in row:
                cells = [str(row["lines"]), f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}"]
                cells.append(f"{row['peak_mb']:,.0f}")
                cells += [f"{row[key]:,}" for key in ("stay", "left", "lost")]
            lines.append(f"| {title} | {PROJECTS[row['project']]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--only", default=",".join(PROJECTS), help="projects, with commas between")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        (folder := Path(made) / "inputs").mkdir()
        inputs = Inputs.make(folder, options.documents)
        for project in options.only.split(","):
            for job in JOBS:
                row: Figures = {"project": project, "job": job}
                if recipe := recipe_of(project, job):
                    row |= measure(inputs, project, job, recipe, Path(made) / f"{project}-{job}")
                print(json.dumps(row), flush=True)
                results.append(row)
    versions = environments.versions_of("text-dedup") | environments.versions_of("semhash")
    versions["datatrove"] = environments.versions_of("datatrove")["datatrove"]
    described = [{"documents": options.documents}]
    print(measuring.save("first_use", results, described, versions, options.folder))


if __name__ == "__main__":
    main()
