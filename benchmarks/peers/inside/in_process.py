"""Measures a piece of work within a process: seconds, and peak memory above the start.

For esdedup's jobs and, in their own environments, the peers', so that all are measured alike; it
needs nothing but Python.
"""

import argparse
import gc
import importlib.metadata
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = Callable[[list[str]], Any]

WARMING = 20
"""Texts of a first pass, which loads and makes whatever is made once."""

ENOUGH = 5.0
"""Seconds after which no further round begins."""


def options(description: str) -> argparse.ArgumentParser:
    """The options of every script of jobs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("job")
    parser.add_argument("file", type=Path, help="a text a line")
    parser.add_argument("--language", choices=("english", "chinese"), default="english")
    parser.add_argument("--permutations", type=int, default=128)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=6)
    return parser


def use_one_core() -> None:
    """This process on one core. Before libraries are loaded, as they start as many threads."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in ("OMP", "OPENBLAS", "MKL", "RAYON"):
        os.environ[f"{name}_NUM_THREADS"] = "1"


def report(job: Job, file: Path, rounds: int, package: str) -> None:
    """Print the cost of a job, as a line of JSON."""
    with file.open(encoding="utf-8") as lines:
        texts = [line.rstrip("\n") for line in lines]
    figures = measured(job, texts, rounds)
    print(json.dumps({**figures, "version": importlib.metadata.version(package)}))


def measured(job: Job, texts: list[str], rounds: int) -> dict[str, float]:
    """Seconds of processor time of the best round, and the peak memory of one.

    The peak is the most memory resident while the job ran (VmHWM, set back just before), less what
    was resident when it began, the texts in memory and the libraries warm. It includes the
    result of the job.
    """
    job(texts[:WARMING])
    gc.collect()
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    taken = [_seconds(job, texts)]
    peak = _resident("VmHWM") - before
    while len(taken) < rounds and sum(taken) < ENOUGH:
        taken.append(_seconds(job, texts))
    return {"seconds": round(min(taken), 5), "peak_mb": round(peak / 1024, 1)}


def _seconds(job: Job, texts: list[str]) -> float:
    began = time.process_time()
    job(texts)
    return time.process_time() - began


def _resident(name: str) -> int:
    """A figure of this process's memory, in KiB."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    (found,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(found.split()[1])
