"""`esdedup dedup FILES` is killed at any time, and on a full disk: no record is lost or cut."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.processes import await_true, start_command

SHARDS, RECORDS = 8, 1_500


def shards() -> int:
    """Write files, a third of whose texts come twice or nearly so; return their bytes."""
    Path("in").mkdir()
    for shard in range(SHARDS):
        first = shard * RECORDS
        numbers = [n - n % 997 if n % 3 == 0 else n for n in range(first, first + RECORDS)]
        write_lines(
            Path(f"in/{shard}.jsonl"),
            [{"n": n, "text": words(n, 40) + f" {n % 5}"} for n in numbers],
        )
    return sum(file.stat().st_size for file in Path("in").iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def size_of(*folders: Path) -> int:
    """Return the bytes of all files that a run has written so far."""
    total = 0
    for file in (each for folder in folders if folder.exists() for each in folder.iterdir()):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue  # It was renamed meanwhile.
    return total


def test_killed_runs_resume(request: pytest.FixtureRequest) -> None:
    size, kills = shards(), 20 if request.config.getoption("--all") else 5
    assert run_command("dedup", "in", "-o", "whole").status == 0
    whole, before, killed = contents(Path("whole")), contents(Path("in")), 0
    out, work = Path("out"), Path("out.work")
    for number in range(kills):
        limit = random.Random(number).uniform(0, 2.2 * size)
        process = start_command("dedup", "in", "-o", "out", stderr=subprocess.DEVNULL)
        await_true(
            "it has written much",
            lambda: process.poll() is not None or size_of(out, work) > limit,  # noqa: B023
            every=0.001,
        )
        process.kill()
        killed += process.wait() != 0
        # Each file is as it will be, or not there.
        made = contents(out) if out.exists() else {}
        assert all(whole[name] == raw for name, raw in made.items() if not name.startswith("."))
        if number % 4 == 3 or process.returncode == 0:
            shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)
    assert run_command("dedup", "in", "-o", "out").status == 0
    assert contents(out) == whole
    assert contents(Path("in")) == before
    assert not work.exists()
    assert killed > kills / 2
