"""A standard output that takes nothing: said in one line, with exit status 1."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.processes import CLI, start_command

FULL = Path("/dev/full")
COMMANDS = [
    "index same.jsonl --json", "index same.jsonl --table", "similar --id 1",
    "similar --id 1 --table", "pairs", "pairs --table", "pairs same.jsonl", "group",
    "group --table", "explain 1 2", "explain 1 2 --table", "report", "report --table", "dedup",
    "dedup --table", "stats", "stats --hot 2 --table", "stop --over 1 --yes",
    "dedup --apply --action delete --yes", "undo log --yes", "scheme", "scheme --table",
    "scheme --sample 20", "scheme --sample 20 --table", "--help", "index --help", "--version",
]  # fmt: skip

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local index with a log to undo."""
    made = tmp_path_factory.mktemp("full")
    write_lines(made / "same.jsonl", [{"id": str(n), "text": words(n // 3)} for n in range(30)])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        assert run_command("index", "same.jsonl").status == 0
        options = ["--apply", "--action", "mark", "--yes", "--log", "log"]
        assert run_command("dedup", *options).status == 0
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_output_is_told(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with FULL.open("w") as full:
        ran = run_command(*command.split(), out=full)
    assert ran.status == 1, ran
    assert "Traceback" not in ran.err
    assert ran.err.splitlines()[-1] == "Error: standard output: No space left on device"


def test_a_process_says_it_too(folder: Path) -> None:
    with FULL.open("w") as full:
        process = start_command("stats", cwd=folder, stdout=full, stderr=subprocess.PIPE)
        err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (1, "Error: standard output: No space left on device\n")
    closed = subprocess.run(
        ["sh", "-c", f"{sys.executable} {CLI} stats >&-"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (closed.returncode, closed.stderr) == (1, "Error: standard output is closed\n")
