"""Options that would write into another file or index than the user thinks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import run_command, write_lines

ESDEDUP = str(Path(sys.executable).parent / "esdedup")
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    text = "some words of ours"
    write_lines(Path("a.jsonl"), [{"id": "a", "text": text}, {"id": "b"}, {"id": "c", "text": "x"}])
    return tmp_path


def test_an_option_counts_before_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESDEDUP_URL", NOWHERE)
    for file in ("mine.db", "esdedup.db"):
        assert run_command("index", "a.jsonl", "--db", file).json[0]["created"] == 2
        assert Path(file).exists()
    assert run_command("stats").status == 1
    both = run_command("stats", "--db", "mine.db", "--url", "http://127.0.0.1:2")
    assert (both.status, "--db and --url name two places" in both.err) == (2, True)
    monkeypatch.setenv("ESDEDUP_DB", "mine.db")
    both = run_command("stats")
    assert "ESDEDUP_DB and ESDEDUP_URL name two places" in both.err
    assert run_command("stats", "--db", "esdedup.db").json[0]["documents"] == 2
    monkeypatch.delenv("ESDEDUP_URL")
    assert run_command("stats").json[0]["documents"] == 2
    assert NOWHERE in run_command("stats", "--url", NOWHERE).err


@pytest.mark.parametrize(
    "command",
    [
        ["report", "-o", "esdedup.db"],
        ["explain", "a", "c", "--html", "esdedup.db"],
        ["scheme", "-o", "esdedup.db"],
        ["scheme", "-o", "a.jsonl"],
        ["index", "a.jsonl", "--dead-letter", "a.jsonl"],
        ["index", "a.jsonl", "--dead-letter", "esdedup.db"],
        ["pairs", "a.jsonl", "--dead-letter", "a.jsonl"],
    ],
)
def test_files_that_hold_something_else_are_left(command: list[str]) -> None:
    run_command("index", "a.jsonl", "--dead-letter", "bad.jsonl")
    before = Path("a.jsonl").read_bytes(), run_command("stats").json
    refused = run_command(*command)
    assert refused.status == 2
    assert "holds something else: name another" in refused.err
    assert (Path("a.jsonl").read_bytes(), run_command("stats").json) == before


def test_own_files_are_written_again() -> None:
    run_command("index", "a.jsonl")
    for _ in range(2):
        assert run_command("scheme", "-o", "scheme.json").status == 0
        assert run_command("report", "-o", "page.html").status == 0
        assert run_command("pairs", "a.jsonl", "--dead-letter", "bad.jsonl").status == 1
    assert len(Path("bad.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "command",
    [
        ["group", "--work", ""],
        ["similar", "--text", ""],
        ["pairs", "a.jsonl", "--id-field", ""],
        ["pairs", "a.jsonl", "--scheme", ""],
        ["report", "--output", ""],
        ["dedup", "--apply", "--log", ""],
    ],
)
def test_empty_values_are_refused(command: list[str]) -> None:
    refused = run_command(*command)
    assert (refused.status, "is empty" in refused.err) == (2, True)


def test_one_of_several_fields_may_be_misspelt() -> None:
    write_lines(Path("b.jsonl"), [{"title": "a title"}, {"title": "another", "body": "text"}])
    run = run_command("index", "b.jsonl", "--text-field", "title", "--text-field", "bodi")
    assert run.json[0]["created"] == 2
    assert "None of the first 2 records has the field 'bodi'. There are: title, body" in run.err
    run = run_command("pairs", "b.jsonl", "--text-field", "title", "--text-field", "body")
    assert run.err == ""


@pytest.mark.parametrize(
    "command",
    [
        "index -",
        "pairs -",
        "similar --file -",
        "similar --batch -",
        "scheme --idf-from -",
        "dedup --apply --action delete",
    ],
)
def test_standard_input_may_be_closed(command: str) -> None:
    run_command("index", "a.jsonl")
    done = subprocess.run(
        f"{ESDEDUP} {command} <&-", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "standard input is closed" in done.stderr or "--yes" in done.stderr


def test_advice_fits_the_error() -> None:
    run_command("index", "a.jsonl")
    Path("log").write_text("something")
    refused = run_command("dedup", "--apply", "--yes", "--log", "log")
    assert refused.status == 2
    assert "Run the same command again" not in refused.err
