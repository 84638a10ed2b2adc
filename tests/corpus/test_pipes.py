"""Pipes in and out: standard input, `<(...)` of a shell, and readers that close early."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import esdedup
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.processes import CLI

BASH = shutil.which("bash")


def in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of bash, in which `esdedup` is the program."""
    function = f'esdedup() {{ {sys.executable} -P {CLI} "$@"; }}; set -o pipefail; {command}'
    assert BASH is not None
    return subprocess.run([BASH, "-c", function], capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def rows(folder: Path) -> list[dict[str, Any]]:
    rows = [{"id": str(n), "text": words(n // 2)} for n in range(40)]
    write_lines(Path("a.jsonl"), rows)
    return rows


def test_standard_input_is_cleaned_like_a_file() -> None:
    lines = Path("a.jsonl").read_text()
    run_command("clean", "a.jsonl", "-o", "whole.jsonl", status=0)
    done = run_command("clean", "-", "-o", "out", "--json", input=lines)
    assert (done.status, done.json[0]["removed"]) == (0, 20), done.err
    assert {path.name for path in Path("out").iterdir()} == {
        "stdin.jsonl",
        "_removed.jsonl.zst",
        "_removed.report.json",
    }
    assert Path("out/stdin.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()
    assert done.json[0]["largest"][0]["file"] == "stdin"
    compared = run_command("clean", "a.jsonl", "--against", "-", "--json", input=lines)
    assert compared.json[0]["against"] == 40
    units = run_command("clean", "-", "-o", "units", "--unit", "line", "--json", input=lines)
    assert units.json[0]["removed"] == 20
    assert len(Path("units/stdin.jsonl").read_text().splitlines()) == 20


@pytest.mark.skipif(BASH is None, reason="this system has no bash")
def test_records_go_through_pipes() -> None:
    kept = Path("a.jsonl").read_text().splitlines(keepends=True)[::2]
    for source in ("- < a.jsonl", "<(head -9 a.jsonl) <(tail -n +10 a.jsonl)"):
        done = in_shell(f"esdedup clean {source} -o -")
        assert (done.returncode, done.stdout) == (0, "".join(kept)), done.stderr
        assert "20 duplicates of 40 documents" in done.stderr
    both = in_shell("gzip -c a.jsonl | zcat | esdedup clean - --against <(head -4 a.jsonl) -o -")
    assert (both.returncode, both.stdout) == (0, "".join(kept[2:])), both.stderr


@pytest.mark.skipif(BASH is None, reason="this system has no bash")
def test_a_pipe_that_closes_ends_the_command_quietly() -> None:
    for command in ("clean - -o - < a.jsonl", "pairs a.jsonl"):
        # The reader has gone before the first line is written.
        closed = in_shell(f"esdedup {command} | true")
        assert closed.returncode == 141
        assert "Error" not in closed.stderr
        assert "Traceback" not in closed.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_a_pipe_is_reported() -> None:
    with Path("/dev/full").open("w") as full:
        ran = run_command("clean", "a.jsonl", "-o", "-", out=full)
    assert ran.status == 1
    assert ran.err.splitlines()[-1] == "Error: standard output: No space left on device"


def test_files_have_the_permissions_of_their_inputs() -> None:
    write_lines(Path("private.jsonl"), [{"id": "p", "text": words(3)}])
    Path("private.jsonl").chmod(0o600)
    Path("a.jsonl").chmod(0o664)
    esdedup.clean(["a.jsonl"], "out")
    esdedup.clean(["a.jsonl", "private.jsonl"], "both")
    modes = {
        str(path): stat.S_IMODE(path.stat().st_mode)
        for folder in ("out", "both")
        for path in Path(folder).iterdir()
    }
    assert modes == {
        "out/a.jsonl": 0o664,
        "out/_removed.jsonl.zst": 0o664,
        "out/_removed.report.json": 0o664,
        "both/a.jsonl": 0o664,
        "both/private.jsonl": 0o600,
        "both/_removed.jsonl.zst": 0o600,
        "both/_removed.report.json": 0o600,
    }
