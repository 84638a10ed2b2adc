"""Measures a command with all its processes: seconds, and the memory of each part of it over time.

Memory is the proportional set size (PSS), which counts a page that several processes share once. It
is read from /proc, and processes are found by their session: Linux only.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lib.measuring import Figures

INTERVAL = 0.5
"""Seconds between two looks. A look at a JVM and its Python workers takes 20 ms."""
TICKS = os.sysconf("SC_CLK_TCK")
STATE, PARENT, SESSION, USER, SYSTEM, RESIDENT = 0, 1, 3, 11, 12, 21
"""Fields of /proc/PID/stat after the name: proc(5)."""


@dataclass(frozen=True)
class Process:
    """A process at one moment; mb: its memory."""

    pid: int
    parent: int
    command: str
    cpu_seconds: float
    mb: float


Parts = Callable[[Mapping[int, Process]], Mapping[str, float]]
"""The MB of each part of a command, by name, from its processes at one moment."""


def no_parts(_: Mapping[int, Process]) -> Mapping[str, float]:
    return {}


def run(
    command: Sequence[str],
    out: Path,
    environment: Mapping[str, str],
    parts: Parts = no_parts,
) -> Figures:
    """A command's seconds, processor seconds, and peaks: of all its processes, and of each part.

    out: its output. Errors go into a file beside it. Ends the program if the command fails.
    """
    log = out.with_suffix(".err")
    peaks: Counter[str] = Counter()
    cpu_seconds: dict[int, float] = {}
    began = time.perf_counter()
    with out.open("wb") as file, log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=file, stderr=errors, env=dict(environment), start_new_session=True
        )
        try:
            while process.poll() is None:
                found = _of_session(process.pid)
                cpu_seconds |= {each.pid: each.cpu_seconds for each in found.values()}
                total = sum(each.mb for each in found.values())
                for name, mb in {"peak_mb": total, **parts(found)}.items():
                    peaks[name] = max(peaks[name], round(mb))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(INTERVAL)
        finally:
            # If this program is interrupted, its command is not: it is in a session of its own.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
    seconds = time.perf_counter() - began
    if process.returncode:
        sys.stderr.write(log.read_text("utf-8", "replace")[-5_000:])
        sys.exit(f"{shlex.join(command)}: status {process.returncode}")
    total_cpu = round(sum(cpu_seconds.values()), 2)
    return {"seconds": round(seconds, 2), "cpu_seconds": total_cpu, **peaks}


def cpu_seconds(pid: int) -> float:
    """Processor seconds so far of a process, and of all others of the session that it leads."""
    return sum(
        (int(fields[USER]) + int(fields[SYSTEM])) / TICKS
        for found, fields in _stats()
        if pid in (found, int(fields[SESSION]))
    )


def resident_mb(pid: int) -> float:
    """MB that a process, and all others of the session that it leads, have resident."""
    pages = sum(
        int(fields[RESIDENT]) for found, fields in _stats() if pid in (found, int(fields[SESSION]))
    )
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _stats() -> Iterator[tuple[int, list[str]]]:
    """The number of each process, and its fields of /proc/PID/stat after the name."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal():
                stat = (folder / "stat").read_text("utf-8")
                yield int(folder.name), stat.rpartition(")")[2].split()


def _of_session(session: int) -> dict[int, Process]:
    found = {}
    for folder in Path("/proc").iterdir():
        # A process may end between two looks at its files.
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and (process := _read(folder, session)) is not None:
                found[process.pid] = process
    return found


def _read(folder: Path, session: int) -> Process | None:
    fields = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
    if int(fields[SESSION]) != session or fields[STATE] == "Z":
        return None
    rollup = (folder / "smaps_rollup").read_text("utf-8").splitlines()
    kilobytes = next((int(line.split()[1]) for line in rollup if line.startswith("Pss:")), 0)
    return Process(
        int(folder.name),
        int(fields[PARENT]),
        (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"),
        (int(fields[USER]) + int(fields[SYSTEM])) / TICKS,
        kilobytes / 1024,
    )
