"""A job shows how far it is: in lines without a terminal, unless --quiet is set."""

import itertools
import re
from pathlib import Path

import pytest

from esdedup.cli.steps import Step, amount_of_bytes, duration
from esdedup.cli.surroundings import Surroundings
from tests.helpers.commands import run_command, words, write_lines

CHATTY = Surroundings(seconds_a_line=0.0)


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    records = [{"id": str(n), "text": f"{words(n // 3, 60)} {n}"} for n in range(300)]
    write_lines(folder / "articles.jsonl", records)
    return folder


def test_lines_hold_the_number_of_documents_and_the_rate() -> None:
    shown = run_command("index", "articles.jsonl", surroundings=CHATTY).err
    assert re.search(r"^Indexing: [\d.]+ kB of [\d.]+ kB, 300 documents, [\d,]+/s$", shown, re.M)
    assert re.search(r"^Indexing: 300 documents, [\d.]+ kB in 1 s$", shown, re.M)
    shown = run_command("group", surroundings=CHATTY).err
    assert re.search(r"^Comparing: 0 of 300 documents, [\d,]+/s, 0%$", shown, re.M)
    assert re.search(r"^Comparing: 300 documents in 1 s$", shown, re.M)


def test_each_step_of_files_has_lines_of_its_own() -> None:
    shown = run_command("clean", "articles.jsonl", "-o", "out", surroundings=CHATTY).err
    ends = re.findall(r"^(\w+): 300 documents(.*) in \d+ s$", shown, re.M)
    assert [title for title, _ in ends] == ["Sketching", "Comparing", "Writing"]
    assert re.fullmatch(r", [\d.]+ kB", ends[0][1])
    assert re.fullmatch(r", [\d,]+ candidates", ends[1][1])
    assert "100%" not in shown
    shown = run_command("pairs", "articles.jsonl", surroundings=CHATTY).err
    assert re.search(r"^Comparing: 300 documents, [\d,]+ candidates in \d+ s$", shown, re.M)


@pytest.mark.parametrize(("seconds_a_look", "shows"), [(1.0, False), (31.0, True)])
def test_a_line_is_written_every_30_seconds(seconds_a_look: float, shows: bool) -> None:
    ticks = itertools.count()
    clock = Surroundings(clock=lambda: next(ticks) * seconds_a_look)
    shown = run_command("clean", "articles.jsonl", "-o", "out", surroundings=clock).err
    assert ("Sketching: " in shown, "Writing: " in shown) == (shows, shows)


def test_the_time_left_is_that_of_the_bytes_or_documents_left() -> None:
    step = Step("Sketching", 100.0, total_bytes=4_000_000, bytes=1_000_000, documents=500)
    assert step.line(110.0) == (
        "Sketching: 1.0 MB of 4.0 MB, 500 documents, 50/s, 25%, about 30 s left"
    )
    step = Step("Comparing", 0.0, total_documents=2_000, documents=1_990, candidates=12_345)
    assert step.line(1000.0) == (
        "Comparing: 1,990 of 2,000 documents, 12,345 candidates, 2/s, 99%, about 6 s left"
    )
    # All is read, but not all is done.
    step.documents = 2_000
    assert step.line(1000.0) == "Comparing: 2,000 of 2,000 documents, 12,345 candidates, 2/s"
    assert step.end_line(1000.0) == "Comparing: 2,000 documents, 12,345 candidates in 17 min"


def test_amounts_have_units_of_their_size() -> None:
    assert [amount_of_bytes(number) for number in (0, 999, 1_000, 1_234_567, 5 * 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "1.2 MB",
        "5.0 TB",
    ]
    assert [duration(seconds) for seconds in (0.2, 119, 121, 5_999, 9_000)] == [
        "1 s",
        "119 s",
        "3 min",
        "100 min",
        "2.5 h",
    ]


@pytest.mark.parametrize("command", ["index articles.jsonl", "pairs articles.jsonl", "group"])
def test_quiet_shows_none(command: str) -> None:
    run_command("index", "articles.jsonl")
    assert "/s" in run_command(*command.split(), surroundings=CHATTY).err
    assert "/s" not in run_command(*command.split(), "--quiet", surroundings=CHATTY).err
    assert "/s" not in run_command(*command.split()).err
