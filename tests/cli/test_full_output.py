"""A standard output that can't be written to: one line, and exit status 1."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.processes import CLI

FULL = Path("/dev/full")
COMMANDS = [
    "pairs",
    "pairs --table",
    "explain 1 2 --table",
    "dedup --apply --action delete --yes",
    "--help",
    "--version",
]

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.fixture(autouse=True)
def folder(folder: Path) -> None:
    write_lines(folder / "same.jsonl", [{"id": str(n), "text": words(n // 3)} for n in range(30)])
    run_command("index", "same.jsonl", status=0)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_output_is_reported(command: str) -> None:
    with FULL.open("w") as full:
        ran = run_command(*command.split(), out=full)
    assert ran.status == 1, ran
    assert "Traceback" not in ran.err
    assert ran.err.splitlines()[-1] == "Error: standard output: No space left on device"


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ("> /dev/full", "standard output: No space left on device"),
        (">&-", "standard output is closed"),
    ],
)
def test_a_process_reports_it(to: str, reason: str) -> None:
    command = f"{sys.executable} {CLI} stats {to}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"Error: {reason}\n")
