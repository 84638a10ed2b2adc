"""Without a terminal a job reports how far it is in lines, unless --quiet is set."""

import re
from pathlib import Path

import pytest

import esdedup.cli.output
from tests.helpers.commands import run_command, words, write_lines


@pytest.fixture(autouse=True)
def folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    records = [{"id": str(n), "text": words(n // 3)} for n in range(300)]
    write_lines(folder / "articles.jsonl", records)
    monkeypatch.setattr(esdedup.cli.output, "SECONDS_A_LINE", 0.0)
    return folder


def test_lines_hold_the_number_of_documents_the_rate_and_the_time_left() -> None:
    shown = run_command("index", "articles.jsonl").err
    assert re.search(r"^Indexing: 300 documents, [\d,]+/s, 100%, about 0 min left$", shown, re.M)
    shown = run_command("group").err
    assert re.search(r": 300 of 300 documents, [\d,]+/s, 100%, about 0 min left$", shown, re.M)


@pytest.mark.parametrize("command", ["index articles.jsonl", "pairs articles.jsonl", "group"])
def test_quiet_shows_none(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_command("index", "articles.jsonl")
    assert "/s" in run_command(*command.split()).err
    assert "/s" not in run_command(*command.split(), "--quiet").err
    monkeypatch.setattr(esdedup.cli.output, "SECONDS_A_LINE", 30.0)
    assert "/s" not in run_command(*command.split()).err
