"""`esdedup clean FILES -o OUT` in one process, in eight tasks, and on Spark, with the same result.

    python -m benchmarks.own.sharing [--corpora boilerplate planted short] [--short 2000000]

boilerplate  62,202 texts of 60 words: 25,000 equal ones, 30,000 of one template with other numbers,
             and others
planted      100,000 texts of 400 characters with planted near-duplicates (planted.py)
short        texts of 12 to 35 words, one in ten of which repeats another one (disk.py)

Each corpus is in eight files of JSON lines.

one process  `dedup`
tasks        `clean --task K/8 --stage STAGE`, two at a time
spark        `clean --engine spark`, local[2]: one JVM with two tasks at a time

CPU seconds are of all processes. Memory is the peak of all that run at a time, in which a page that
several share counts once. Shuffled bytes are from Spark's event log. The program ends with an error
if two ways write different files.
"""

import argparse
import filecmp
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.lib import processes
from benchmarks.lib.measuring import ESDEDUP, Figures, save
from benchmarks.lib.planted import planted
from benchmarks.own import disk, spark

FILES = TASKS = 8
CORPORA = ("boilerplate", "planted", "short")


def boilerplate() -> Iterator[str]:
    """Yield texts, most of which resemble each other, in any order."""
    draw = random.Random(7)
    vocabulary = disk.vocabulary()

    def words(count: int) -> list[str]:
        return [draw.choice(vocabulary) for _ in range(count)]

    equal, before, after = " ".join(words(60)), *(" ".join(words(29)) for _ in range(2))
    kinds = ["equal"] * 25_000 + ["template"] * 30_000 + ["other"] * 7_202
    draw.shuffle(kinds)
    for kind in kinds:
        if kind == "equal":
            yield equal
        elif kind == "template":
            yield f"{before} {draw.randrange(10**6)} {after} {draw.randrange(10**6)}"
        else:
            yield " ".join(words(60))


def texts_of(corpus: str, short: int) -> Iterable[str]:
    if corpus == "boilerplate":
        return boilerplate()
    if corpus == "planted":
        return planted(100_000)[0]
    vocabulary, step = disk.vocabulary(), 50_000
    starts = range(0, short, step)
    return chain.from_iterable(disk.texts(at, min(at + step, short), vocabulary) for at in starts)


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the command of each way. folder: with the files, in `in`."""
    dedup = [*ESDEDUP, "clean", str(folder / "in"), "-o"]
    shared = f"{' '.join(dedup)} {folder}/tasks --task {{}}/{TASKS} --stage"
    every = f"seq {TASKS} | xargs -P 2 -I {{}} {shared}"
    staged = f"{every} sketch && {shared.format(1)} group && {every} write"
    return {
        "one process": [*dedup, str(folder / "one")],
        f"{TASKS} tasks, 2 at a time": ["sh", "-c", staged],
        "Spark, local[2]": [*dedup, str(folder / "spark"), "--engine", "spark"],
    }


def measure(corpus: str, short: int, folder: Path) -> Figures:
    """Return the figures of each way on a corpus."""
    (folder / "in").mkdir()
    files = [(folder / f"in/{at}.jsonl").open("w", encoding="utf-8") for at in range(FILES)]
    for number, text in enumerate(texts_of(corpus, short)):
        files[number % FILES].write(json.dumps({"text": text}) + "\n")
    for file in files:
        file.close()
    jobs: list[Figures] = []
    for name, command in commands(folder).items():
        room = folder / f"room-{len(jobs)}"
        room.mkdir()
        before = os.times()
        if "Spark" in name:
            figures = spark.run(command, room, "local[2]")
        else:
            figures = processes.run(command, room / "out", os.environ | spark.THREADS)
            after = os.times()
            # A look at the processes misses the end of short ones.
            figures["cpu_seconds"] = after.children_user - before.children_user
            figures["cpu_seconds"] += after.children_system - before.children_system
        jobs.append({"job": name, **figures})
        print(json.dumps({"corpus": corpus, **jobs[-1]}), flush=True)
    names = [f"{at}.jsonl" for at in range(FILES)]
    for other in ("tasks", "spark"):
        _, differ, missing = filecmp.cmpfiles(folder / "one", folder / other, names, shallow=False)
        if differ or missing:
            sys.exit(f"{corpus}: {other} writes other files: {differ + missing}")
    size = sum(file.stat().st_size for file in (folder / "in").iterdir())
    return {"corpus": corpus, "documents": number + 1, "bytes": size, "jobs": jobs}


def tables(document: dict[str, Any]) -> str:
    """A row for each way, by corpus."""
    lines = [
        "| corpus | documents | | seconds | CPU seconds | peak MB | shuffled MB |",
        "| --- | ---: | --- |" + " ---: |" * 4,
    ]
    for result in document["results"]:
        for row in result["jobs"]:
            moved = f"{row['shuffle_write_bytes'] / 1e6:,.0f}" if "master" in row else ""
            figures = f"{row['seconds']:,.0f} | {row['cpu_seconds']:,.0f} | {row['peak_mb']:,}"
            named = f"{result['corpus']}, {result['bytes'] / 1e6:,.0f} MB"
            lines.append(
                f"| {named} | {result['documents']:,} | {row['job']} | {figures} | {moved} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--short", type=int, default=2_000_000, help="documents of `short`")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    results = []
    for corpus in options.corpora:
        with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as folder:
            results.append(measure(corpus, options.short, Path(folder)))
    print(save("sharing", results, versions=spark.versions(), folder=options.folder))


if __name__ == "__main__":
    main()
