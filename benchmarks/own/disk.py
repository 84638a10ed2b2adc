"""Files bigger than memory: time, peak memory and disk of `esdedup clean FILES` as they grow.

    python -m benchmarks.own.disk [--sizes 1000000,10000000,30000000] [--max-memory 3GB]
        [--folder FOLDER]

Made-up texts of 12 to 35 words, in files of JSON lines of 1,000,000. One in ten repeats an earlier
one from anywhere: four in five of these with one word replaced. The command is one process:

- CPU seconds: of the whole command, from files to files. Wall-clock time is given too; it includes
  whatever else the machine does.
- Anonymous memory: the peak of what the system can't drop and read again from a file.
- Resident memory: the peak, with the pages of mapped files that are in memory by chance.
- Disk: the peak of the work folder and of temporary files that have no name any more.

Of three sizes or more, a last row continues the line through the last two; it is not measured.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.measuring import ESDEDUP, Figures, last_line, save

_A_FILE, _AT_ONCE, _WORDS = 1_000_000, 50_000, 100_000
_ALPHABET = np.array([*"abcdefghijklmnopqrstuvwxyz"])
_LARGE = 100_000_000


Numbers = NDArray[np.uint64]


def mixed(numbers: NDArray[Any]) -> Numbers:
    """Return pseudo-random numbers, each of one number alone (splitmix64)."""
    with np.errstate(over="ignore"):
        found = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ found >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ found >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return found ^ found >> np.uint64(31)


def vocabulary() -> list[str]:
    numbers = mixed(np.arange(_WORDS))
    letters = np.stack([_ALPHABET[(numbers >> np.uint64(8 * k)) % np.uint64(26)] for k in range(8)])
    lengths = 2 + (numbers % np.uint64(7)).astype(np.int64)
    return ["".join(each[:length]) for each, length in zip(letters.T, lengths, strict=True)]


def texts(start: int, stop: int, words: list[str]) -> list[str]:
    """Return the documents of a range, which depend on their numbers alone."""
    rows = np.arange(start, stop)
    source = np.where(rows % 10 == 9, mixed(rows) % np.maximum(rows, 1).astype(np.uint64), rows)
    source -= source % 10 == 9
    source = source.astype(np.int64)
    length = 12 + (mixed(source + (1 << 40)) % np.uint64(24)).astype(np.int64)
    picked = mixed(source[:, None] * 64 + np.arange(36)) % np.uint64(_WORDS)
    edited = np.flatnonzero((rows % 10 == 9) & (rows % 50 != 49))
    picked[edited, length[edited] // 2] = mixed(rows[edited] + (1 << 41)) % np.uint64(_WORDS)
    return [
        " ".join(words[each] for each in row[:many])
        for row, many in zip(picked.tolist(), length.tolist(), strict=True)
    ]


def write_files(documents: int, folder: Path) -> None:
    """Write the files that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary()
    for first in range(0, documents, _A_FILE):
        file = folder / f"{first // _A_FILE:03d}.jsonl"
        if not file.exists():
            with file.with_suffix(".tmp").open("w", encoding="utf-8") as out:
                for start in range(first, min(first + _A_FILE, documents), _AT_ONCE):
                    every = texts(start, min(start + _AT_ONCE, first + _A_FILE, documents), words)
                    out.writelines(json.dumps({"text": text}) + "\n" for text in every)
            file.with_suffix(".tmp").rename(file)


def measure(size: int, max_memory: str, files: Path, made: Path) -> Figures:
    """Return the figures of one size. files: a folder that has or gets its documents."""
    write_files(size, files)
    shards = [str(files / f"{number:03d}.jsonl") for number in range(-(-size // _A_FILE))]
    out, work, report = made / "out", made / "work", made / "report"
    command = [*ESDEDUP, "clean", *shards, "-o", str(out), "--work", str(work), "--json"]
    peaks: Figures = {"anonymous_mb": 0, "resident_mb": 0, "disk_mb": 0}
    began, before = time.perf_counter(), os.times()
    with report.open("wb") as opened:
        process = subprocess.Popen([*command, "--max-memory", max_memory], stdout=opened)
        while process.poll() is None:
            with contextlib.suppress(OSError):
                for name, value in sampled(process.pid, work).items():
                    peaks[name] = max(peaks[name], value)
            time.sleep(0.2)
    after = os.times()
    if process.returncode:
        sys.exit(f"{command}: status {process.returncode}")
    cpu = after.children_user + after.children_system - before.children_user
    figures = {
        "documents": size,
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(cpu - before.children_system, 1),
        **peaks,
        "removed": last_line(report)["removed"],
    }
    shutil.rmtree(out)
    return figures


def sampled(process: int, work: Path) -> Figures:
    """Return the memory of a process, and the disk that its work uses now."""
    lines = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    kb = {
        name: value.removesuffix("kB") for name, _, value in (each.partition(":") for each in lines)
    }
    every = [each.stat() for each in work.iterdir()] if work.exists() else []
    for each in Path(f"/proc/{process}/fd").iterdir():
        if str(each.readlink()).endswith(" (deleted)"):
            every.append(each.stat())
    blocks = {found.st_ino: found.st_blocks for found in every}
    return {
        "anonymous_mb": int(kb["RssAnon"]) >> 10,
        "resident_mb": int(kb["VmHWM"]) >> 10,
        "disk_mb": sum(blocks.values()) >> 11,
    }


def tables(document: Figures) -> str:
    """A row for each size, and one that is extrapolated."""
    rows = [*document["results"]["sizes"]]
    columns = ["cpu_seconds", "anonymous_mb", "resident_mb", "disk_mb"]
    title = f"`--max-memory {document['results']['max_memory']}`, documents"
    head = [title, "CPU seconds", "seconds", "anonymous MB", "resident MB", "disk MB", "removed"]
    lines = [f"| {' | '.join(head)} |", f"|{' ---: |' * len(head)}"]
    for row in rows:
        cells = [row[name] for name in ("documents", columns[0], "seconds", *columns[1:])]
        cells.append(row["removed"])
        lines.append(f"| {' | '.join(f'{each:,.0f}' for each in cells)} |")
    if len(rows) > 2:
        one, other = rows[-2:]
        steps = (_LARGE - other["documents"]) / (other["documents"] - one["documents"])
        found = [other[name] + steps * (other[name] - one[name]) for name in columns]
        cells = [f"{_LARGE:,}, extrapolated", f"{found[0]:,.0f}", ""]
        cells += [f"{found[1]:,.0f}", "", f"{found[3]:,.0f}", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000000,10000000,30000000")
    parser.add_argument("--max-memory", default="3GB")
    parser.add_argument("--folder", type=Path, help="that has the files of an earlier run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-", dir=options.folder) as made:
        files = options.folder or Path(made, "files")
        sizes = []
        for size in map(int, options.sizes.split(",")):
            sizes.append(measure(size, options.max_memory, files, Path(made)))
            print(json.dumps(sizes[-1]), flush=True)
    save("disk", {"max_memory": options.max_memory, "sizes": sizes})


if __name__ == "__main__":
    main()
