"""Measures time and memory of commands, and writes results with versions and machine to files."""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
OURS = ("esdedup", "numpy", "xxhash", "elasticsearch")
ESDEDUP = (sys.executable, str(Path(__file__).parents[2] / "cli.py"))
"""The command `esdedup`."""

RESULTS = Path(__file__).parents[1] / "results"


def run(command: Sequence[str], out: Path, environment: Mapping[str, str] | None = None) -> Figures:
    """A command's seconds and peak memory (of the largest of its processes); `out`: its output.

    Ends the program where the command fails.
    """
    ours, theirs = os.pipe()
    # What pip installed is compiled; so shall be what lies in a clone.
    inherited = {name: each for name, each in os.environ.items() if name != _UNCOMPILED}
    with out.open("wb") as file, os.fdopen(ours, "r") as told:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SMALL, str(theirs), *command],
            stdout=file,
            env={**inherited, **(environment or {})},
            pass_fds=[theirs],
        )
        os.close(theirs)
        answer = told.read()
        process.wait()
    if not answer:
        sys.exit(f"{shlex.join(command)}: could not be started")
    status, seconds, cpu_seconds, peak_kb = json.loads(answer)
    if status:
        sys.exit(f"{shlex.join(command)}: status {os.waitstatus_to_exitcode(status)}")
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_mb": round(peak_kb / 1024, 1),
    }


_UNCOMPILED = "PYTHONDONTWRITEBYTECODE"
_SMALL = """
import ctypes, json, os, resource, sys, time
told = int(sys.argv[1])
os.set_inheritable(told, False)
if hasattr(libc := ctypes.CDLL(None), "prctl"):
    libc.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: adopt processes that outlive the command
began = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status = os.waitpid(child, 0)
seconds = time.perf_counter() - began
try:
    while True:
        os.wait()
except ChildProcessError:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = usage.ru_utime + usage.ru_stime
os.write(told, json.dumps([status, seconds, cpu, usage.ru_maxrss]).encode())
"""
"""A program that starts a command. Linux counts the memory of the process that starts another as
the peak of that other. So this small program of about 10 MB starts it, and not the process that
holds texts and truth."""


def last_line(out: Path) -> Any:
    """The JSON document in the last line that a command printed."""
    return json.loads(out.read_text("utf-8").splitlines()[-1])


def save(
    name: str,
    results: Any,
    corpora: Sequence[Mapping[str, Any]] = (),
    versions: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Path:
    """Write results as JSON, with all that is needed to get them again; the file.

    versions: of packages that are measured outside our own environment.
    """
    own = {}
    for package in OURS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            own[package] = importlib.metadata.version(package)
    document = {
        "command": shlex.join(["python", "-m", _program(), *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **own, **(versions or {})},
        "corpora": list(corpora),
        "results": results,
    }
    file = (folder or RESULTS) / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return file


def _program() -> str:
    """The module that runs, such as benchmarks.own.workers."""
    program, root = Path(sys.argv[0]), RESULTS.parents[1]
    if not program.is_relative_to(root):
        # A test process runs the benchmark.
        return program.name
    return ".".join(program.relative_to(root).with_suffix("").parts)


def machine() -> dict[str, Any]:
    """The processor, its cores and the memory."""
    model = platform.processor() or platform.machine()
    memory = None
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
        model = names[0] if names else model
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": model, "cores": cores, "memory_gib": memory, "system": platform.system()}
