"""Without a terminal a job reports how far it is in lines, unless --quiet is set."""

import re
from pathlib import Path

import pytest

from esdedup.cli.surroundings import Surroundings
from tests.helpers.commands import run_command, words, write_lines

CHATTY = Surroundings(seconds_a_line=0.0)


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    records = [{"id": str(n), "text": words(n // 3)} for n in range(300)]
    write_lines(folder / "articles.jsonl", records)
    return folder


def test_lines_hold_the_number_of_documents_the_rate_and_the_time_left() -> None:
    shown = run_command("index", "articles.jsonl", surroundings=CHATTY).err
    assert re.search(r"^Indexing: 300 documents, [\d,]+/s, 100%, about 0 min left$", shown, re.M)
    shown = run_command("group", surroundings=CHATTY).err
    assert re.search(r": 300 of 300 documents, [\d,]+/s, 100%, about 0 min left$", shown, re.M)


@pytest.mark.parametrize("command", ["index articles.jsonl", "pairs articles.jsonl", "group"])
def test_quiet_shows_none(command: str) -> None:
    run_command("index", "articles.jsonl")
    assert "/s" in run_command(*command.split(), surroundings=CHATTY).err
    assert "/s" not in run_command(*command.split(), "--quiet", surroundings=CHATTY).err
    assert "/s" not in run_command(*command.split()).err
