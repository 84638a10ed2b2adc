"""`esdedup pairs FILES`: what an index of the same files gives, without one."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.cli.surroundings import Surroundings
from esdedup.runs.run import ShareSizes
from tests.helpers.commands import read_lines, run_command, write_lines
from tests.helpers.processes import await_true, input_without_end, start_command

SENTENCE = "the council met on monday and voted for a new bridge over the river near town"


def documents(count: int) -> list[dict[str, Any]]:
    """Some equal, some alike, in two languages, with ids that are text or numbers."""
    made: list[dict[str, Any]] = []
    for n in range(count):
        if n % 3 == 2:
            text = f"市图书馆今天下午举行第{n % 7}次读书会，欢迎大家参加。"
        else:
            text = " ".join([*SENTENCE.split()[: 8 + n % 6], *(f"w{n}" for _ in range(n % 4))])
        made.append({"id": n if n % 5 else f"d{n}", "text": text})
    return made


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        (["-t", "0.4"], "1"),
        (["-t", "0.4"], "3"),
        (["--sketch", "simhash", "-d", "9"], "1"),
        (["--sketch", "passages", "--words", "8"], "1"),
        (["--max-per-bucket", "3"], "1"),
    ],
)
def test_they_are_those_of_an_index(options: list[str], workers: str) -> None:
    # The files are read in six shares.
    shares = Surroundings(sizes=ShareSizes(documents=30))
    records: list[Any] = documents(150)
    # A later document of an id takes the place of the earlier one of the same file.
    records.insert(18, {"id": "d15", "text": "something else altogether, by far"})
    records.append({"text": "no id"})
    files = [f"{first}.jsonl" for first in range(0, len(records), 20)]
    # Each file is a chunk of its own, so that several processes read them.
    for number, file in enumerate(files):
        write_lines(Path(file), records[20 * number : 20 * (number + 1)])
    write_lines(Path("empty.jsonl"), [])
    files.append("empty.jsonl")
    run_command("index", *files, "--passages", status=0)
    indexed = run_command("pairs", "--json", *options)
    direct = run_command(
        "pairs", *files, "--json", "--workers", workers, *options, surroundings=shares
    )
    assert direct.out == indexed.out
    assert len(direct.json) > 50
    # Texts are from the right share, though the shares are not in the order of ids.
    tables = [
        run_command("pairs", "--table", *some, *options, surroundings=shares).out
        for some in ([], files)
    ]
    assert tables[0] == tables[1]
    # Nothing was made of them.
    assert {path.name for path in Path().iterdir()} == {*files, "esdedup.db"}


def test_bad_records_are_counted_and_kept() -> None:
    same = "a text of several words that comes twice"
    write_lines(
        Path("a.jsonl"),
        [{"id": "a", "text": same}, "no JSON", {"id": "b"}, {"id": "c", "text": same}],
    )
    done = run_command("pairs", "a.jsonl", "--json", status=1)
    assert done.json == [{"left": "a", "right": "c", "similarity": 1.0, "equal": True}]
    assert "2 of 4 records were skipped: see pairs.dead-letter.jsonl" in done.err
    letters = read_lines("pairs.dead-letter.jsonl")
    assert [letter["line"] for letter in letters] == [2, 3]


def test_files_of_one_name_in_several_folders_keep_all_their_lines() -> None:
    for name in ("p1", "p2"):
        Path(name).mkdir()
        (Path(name) / "x.txt").write_text("the same text of several words\n", "utf-8")
    files = ["p1/x.txt", str(Path("p2", "..", "p2", "x.txt"))]
    (pair,) = run_command("pairs", *files, "--json").json
    assert (pair["left"], pair["right"]) == ("p1/x.txt:1", "p2/../p2/x.txt:1")
    (report,) = run_command("index", *files, "--json").json
    assert (report["created"], report["duplicate_ids"]) == (2, 0)
    # The same line with another text never replaces it.
    Path("p1/x.txt").write_text("another text of this line\n", "utf-8")
    again = run_command("index", *files, "--json")
    (report,) = again.json
    assert (again.status, report["unchanged"], report["failed"]) == (1, 1, 1)
    assert "p1/x.txt:1: another text was indexed from this line" in again.err


def test_ids_that_come_again_are_counted() -> None:
    write_lines(Path("a.jsonl"), [{"id": n, "text": f"text {n} of a"} for n in range(40)])
    write_lines(Path("b.jsonl"), [{"id": n, "text": f"text {n} of b"} for n in (50, 7, 9, 50)])
    said = "3 records have the id of an earlier record, and replaced it: first '7'"
    for workers in ("1", "2"):
        target = ["--db", f"{workers}.db", "--workers", workers, "--json"]
        done = run_command("index", "a.jsonl", "b.jsonl", *target)
        (report,) = done.json
        assert (report["duplicate_ids"], report["created"], report["updated"]) == (3, 41, 3)
        assert said in done.err
    pairs = run_command("pairs", "a.jsonl", "b.jsonl")
    # The same id in another file is of another document.
    said = "1 record has the id of an earlier record, and replaced it: first '50'"
    assert (pairs.status, said in pairs.err) == (0, True)
    assert "4 documents have ids that several files have: shown as FILE/ID" in pairs.err
    twice = run_command("pairs", "a.jsonl", "./a.jsonl")
    assert (twice.status, twice.out) == (2, "")
    assert "./a.jsonl: name the same file" in twice.err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_two_dumps_that_have_the_same_ids_are_compared(workers: str) -> None:
    write_lines(Path("a.jsonl"), [{"id": 1, "text": SENTENCE}, {"id": 2, "text": "a b c d"}])
    later = [{"id": 1, "text": SENTENCE.upper()}, {"id": "", "text": "a b c d"}]
    write_lines(Path("b.jsonl"), later)
    done = run_command("pairs", "a.jsonl", "b.jsonl", "--json", "--workers", workers)
    same_ids, empty_id = done.json
    assert same_ids == {
        "left": "a.jsonl/1",
        "right": "b.jsonl/1",
        "similarity": 1.0,
        "equal": True,
        "left_file": "a.jsonl",
        "right_file": "b.jsonl",
    }
    assert (empty_id["left"], empty_id["right"]) == ("2", "b.jsonl:2")
    assert "left_file" not in empty_id
    assert "2 documents have ids that several files have: shown as FILE/ID" in done.err
    shown = run_command("pairs", "a.jsonl", "b.jsonl", "--table", "--workers", workers)
    assert "b.jsonl/1" in shown.out


def test_a_scheme_of_its_own() -> None:
    write_lines(
        Path("a.jsonl"), [{"id": n, "body": text} for n, text in ((1, "abcdefgh"), (2, "abcdefgx"))]
    )
    scheme = esdedup.Scheme([esdedup.MinHash()], shingling=esdedup.Shingling("char", 3))
    Path("scheme.json").write_text(json.dumps(scheme.to_json()), "utf-8")
    options = ["--scheme", "scheme.json", "--text-field", "body"]
    (pair,) = run_command("pairs", "a.jsonl", "--json", *options).json
    assert pair == {"left": "1", "right": "2", "similarity": 5 / 7, "equal": False}


@pytest.mark.parametrize(("workers", "interrupt"), [("1", "-"), ("2", "-"), ("1", "ignored")])
def test_a_run_that_is_ended_leaves_no_texts(workers: str, interrupt: str, folder: Path) -> None:
    temporary = folder / "temporary"
    temporary.mkdir()
    text = "".join(f'{{"text": "text {n} of many"}}\n' for n in range(300_000))
    with input_without_end(text) as lines:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        options: Any = {"stdin": lines, "stderr": subprocess.PIPE, "env": environment}
        if interrupt == "ignored":
            # As a shell starts what runs in the background.
            options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
        process = start_command("pairs", "-", "--workers", workers, **options)
        await_true("a share of the texts", lambda: any(temporary.rglob("texts-*")))
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate(timeout=60)
    assert (process.returncode, shown) == (-signal.SIGTERM, "")
    assert [*temporary.iterdir()] == []
