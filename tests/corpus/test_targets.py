"""No file of the user's is overwritten: each option that names a file to write checks it first."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import run_command, write_lines
from tests.helpers.surroundings import Listener

TEXT = "the council met on monday and voted for a new bridge over the river"


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    Path("in").mkdir()
    for name in ("in/a.jsonl", "in/b.jsonl", "items.jsonl"):
        rows: list[Any] = [{"id": f"{name}{n}", "text": f"{TEXT} {n % 3}"} for n in range(9)]
        write_lines(Path(name), [*rows, {"id": "bad", "text": 1}])
    Path("link.jsonl").symlink_to("in/a.jsonl")
    os.link("in/b.jsonl", "hard.jsonl")
    Path("mine.jsonl").write_text('{"my": "data"}\n')
    for name in ("new.jsonl.removed.jsonl.zst", "old.jsonl.removed.report.json"):
        Path(name).write_text("mine")
    for name in (
        "late.jsonl.removed.jsonl.zst",
        "_removed.jsonl.zst",
        "_removed.report.json",
        "_conflicts.jsonl.zst",
    ):
        Path(name).write_bytes(Path("in/a.jsonl").read_bytes())
    Path("mine.html").write_text('<!doctype html>\n<html lang="en">\n<title>mine</title>\n')
    run_command("index", "in/a.jsonl", "--dead-letter", "of-index.jsonl")


def contents() -> dict[str, bytes]:
    """Return the content of every file but for the index."""
    files = (each for each in Path().rglob("*") if each.is_file() and each.suffix != ".db")
    return {str(each): each.read_bytes() for each in files}


ALL = ["in/*.jsonl", "--against", "items.jsonl", "-o", "out"]
JSONL = ["--format", "jsonl"]
READ = "the command reads this file: name another"
NAMES = ["in/a.jsonl", "./in/../in/a.jsonl", "link.jsonl", "hard.jsonl", "items.jsonl"]
COMMANDS: list[tuple[list[str], str]] = []
for name in NAMES:
    COMMANDS.append((["clean", *ALL, "--removed", name], READ))
    COMMANDS.append((["clean", *ALL, "--dead-letter", name], "name another"))
    COMMANDS.append((["pairs", *ALL[:1], "items.jsonl", "--dead-letter", name], READ))
    COMMANDS.append((["index", *ALL[:1], "items.jsonl", "--dead-letter", name], READ))
    COMMANDS.append((["pairs", *ALL[:1], "items.jsonl", "-o", name], READ))
    COMMANDS.append((["group", "-o", name], "the file exists: remove it"))
COMMANDS += [
    (["clean", *ALL, "--removed", "mine.jsonl"], "the file exists: remove it, or name another"),
    (["clean", *ALL, "--removed", "out/a.jsonl"], "--output names this file too"),
    (["clean", *ALL, "--removed", "new.csv"], "end the name in .parquet, .arrow, .jsonl"),
    (["clean", *ALL, "--removed", "in/new.jsonl"], "the next run would read it"),
    (["clean", *ALL, "--removed", "r.jsonl", "--dead-letter", "./r.jsonl"], "names this file too"),
    (["clean", "in", "-o", "t.jsonl", "--removed", "t.jsonl"], "--removed names this file too"),
    (["clean", "in", "-o", "t.jsonl", "--dead-letter", "t.jsonl"], "names this file too"),
    (["clean", "in", "-o", "mine.jsonl"], "mine.jsonl exists"),
    # The list and the report have names of their own if none is chosen.
    (["clean", "in", "-o", "new.jsonl"], "--removed new.jsonl.removed.jsonl.zst: the file exists"),
    (
        ["clean", "in", "-o", "old.jsonl"],
        "old.jsonl.removed.report.json: the file exists and holds something else",
    ),
    (["clean", "late.jsonl.removed.jsonl.zst", "-o", "late.jsonl"], READ),
    (["clean", "_removed.jsonl.zst", "-o", "out"], "--output names this file too"),
    (["clean", "_removed.report.json", *JSONL, "-o", "out"], "--output names this file too"),
    (["clean", "_conflicts.jsonl.zst", "-o", "out"], "--output names this file too"),
    (["clean", "in", "-o", "in/clean"], "the next run would read it"),
    (["clean", "in", "-o", "./in/../in/clean.jsonl"], "the next run would read it"),
    (["clean", "in/*.jsonl", "-o", "in/clean.jsonl"], "the next run would read it"),
    (["clean", "in/**/*.jsonl", "-o", "in/clean"], "the next run would read it"),
    (["clean", "i?/**", "-o", "in/clean"], "the next run would read it"),
    (["clean", "in", "-o", "in/clean", "--unit", "line"], "the next run would read it"),
    (["clean", "in", "-o", "in/clean", "--task", "1/2"], "the next run would read it"),
    (["clean", *ALL, "--task", "1/1", "--removed", "mine.jsonl"], "the file exists: remove it"),
    (["pairs", "in", "-o", "mine.jsonl"], "the file exists: remove it, or name another"),
    (["pairs", "in", "-o", "new.csv"], "end the name in .parquet"),
    (["pairs", "in", "-o", "r.jsonl", "--dead-letter", "r.jsonl"], "--output names this file too"),
    (["group", "-o", "r.jsonl", "--dead-letter", "r.jsonl"], "--output names this file too"),
    (["report", "-o", "mine.html"], "holds something else: remove it, or name another"),
    (["scheme", "-o", "mine.jsonl"], "holds something else: remove it, or name another"),
]


@pytest.mark.parametrize(
    ("command", "reason"), COMMANDS, ids=[" ".join(each) for each, _ in COMMANDS]
)
def test_a_file_of_the_user_is_never_written(command: list[str], reason: str) -> None:
    before = contents()
    done = run_command(*command, status=2)
    assert reason in done.err
    assert contents() == before


def test_files_of_a_run_itself_are_written() -> None:
    """Empty ones too, such as of mktemp, and what a killed run has written."""
    Path("empty.jsonl").touch()
    done = run_command("clean", "in", "-o", "out", "--removed", "empty.jsonl", "--json")
    removed = done.json[0]["removed"]
    assert (done.status, len(Path("empty.jsonl").read_text().splitlines())) == (1, removed)
    # Files below names that hold no data are not read by the next run.
    run_command("clean", "in", "-o", "in/_clean", status=1)
    assert run_command("clean", "in", "-o", "again", "--json").json[0]["removed"] == removed
    for _ in range(2):
        run_command("report", "-o", "page.html", status=0)
        run_command("scheme", "-o", "scheme.json", status=0)
    scheme = json.loads(Path("scheme.json").read_text())
    Path("scheme.json").write_text(json.dumps({**scheme, "seed": 7}))
    run_command("scheme", "-o", "scheme.json", status=2)
    assert json.loads(Path("scheme.json").read_text())["seed"] == 7


def test_a_killed_run_resumes_with_its_own_list() -> None:
    class Killed(BaseException):
        """Ends the process."""

    def kill() -> None:
        raise Killed

    command = ["clean", "in", "-o", "out", "--against", "all.sketches", "--update", "--removed"]
    # Documents are added when the list is written.
    with pytest.raises(Killed):
        run_command(*command, "list.jsonl", err=Listener("added to all.sketches", kill))
    listed = Path("list.jsonl").read_bytes()
    other = run_command(*command, "mine.jsonl", status=2)
    assert "with another removed" in other.err
    run_command(*command, "list.jsonl", status=1)
    assert Path("list.jsonl").read_bytes() == listed
    assert Path("mine.jsonl").read_text() == '{"my": "data"}\n'


def test_addresses_are_files_too() -> None:
    pytest.importorskip("fsspec")
    here = Path().resolve().as_posix()
    for name in (f"file://{here}/in/a.jsonl", f"local://{here}/link.jsonl"):
        done = run_command("clean", "in", "-o", "out", "--removed", name, status=2)
        assert READ in done.err
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe({f"/in/{name}.jsonl": Path(f"in/{name}.jsonl").read_bytes() for name in "ab"})
    refusals = {
        "memory://in/a.jsonl": READ,
        "memory:///in/b.jsonl": READ,
        "memory://in/new.jsonl": "the next run would read it",
    }
    for name, reason in refusals.items():
        done = run_command(
            "clean", "memory://in", "-o", "memory://out", "--removed", name, status=2
        )
        assert reason in done.err
    inside = run_command("clean", "memory://in", "-o", "memory://in/clean", status=2)
    assert "the next run would read it" in inside.err
    run_command("clean", "memory://in", "-o", "memory://out", status=1)
    again = run_command(
        "clean", "memory://in", "-o", "x", "--removed", "memory://out/a.jsonl", status=2
    )
    assert "the file exists" in again.err
