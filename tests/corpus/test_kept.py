"""`clean FILES --against NAME.sketches --update`: files are compared with those of former runs."""

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from esdedup.cli.surroundings import Surroundings
from esdedup.runs.run import Run, ShareSizes
from tests.corpus.test_dedup_files import removed_in
from tests.faults.test_dedup_files import contents
from tests.helpers.commands import Ran, run_command, words, write_lines
from tests.helpers.processes import await_true, kill, start_command
from tests.helpers.surroundings import Listener, interrupt, killed_at

KEPT = Path("all.sketches")
FEW_IN_A_SHARE = Surroundings(sizes=ShareSizes(documents=40))


def months(count: int, records: int = 150) -> None:
    """Write the files of some months, of which each repeats some of the earlier ones."""
    rng = random.Random(3)
    for month in range(count):
        texts = [f"{words(rng.randrange(2 * records), 30)} {n % 4}" for n in range(records)]
        lines: list[Any] = [
            {"id": f"{month}-{n}", "text": each, "quality": n % 7} for n, each in enumerate(texts)
        ]
        half = records // 2
        Path(f"{month}").mkdir()
        write_lines(Path(f"{month}/a.jsonl"), [*lines[:half], "no record"])
        write_lines(Path(f"{month}/b.jsonl"), lines[half:])


def dedup(
    month: int, *options: str, out: str = "out", surroundings: Surroundings | None = None
) -> Ran:
    command = ["clean", f"{month}", "-o", f"{out}{month}", "--json", *options]
    return run_command(*command, surroundings=surroundings)


@pytest.mark.parametrize("options", [[], ["--keep", "highest:quality"], ["--exact"]])
def test_each_month_is_compared_with_all_before(options: list[str]) -> None:
    months(4)
    before: list[str] = []
    for month in range(4):
        against = [option for out in before for option in ("--against", out)]
        whole = dedup(month, *against, *options, out="whole", surroundings=FEW_IN_A_SHARE)
        update = ["--against", str(KEPT), "--update"]
        found = dedup(month, *update, *options, surroundings=FEW_IN_A_SHARE)
        assert (whole.status, found.status) == (1, 1)
        # Only the places of former documents are those in the files that were read.
        same = ("documents", "kept", "removed", "against", "failed", "groups", "bytes_removed")
        assert [found.json[0][key] for key in same] == [whole.json[0][key] for key in same]
        lists = [removed_in(Path(f"{out}{month}/_removed.jsonl.zst")) for out in ("whole", "out")]
        keys = ("file", "line", "id", "original_id", "similarity")
        rows = [[[row[key] for key in keys] for row in each] for each in lists]
        assert rows[0] == rows[1]
        for name in ("a.jsonl", "b.jsonl"):
            made, expected = (Path(f"{out}{month}", name).read_bytes() for out in ("out", "whole"))
            assert made == expected
        before.append(f"whole{month}")
    assert found.json[0]["against"] > 30
    # An original is named by the file and the line where it was.
    row = next(row for row in lists[1] if row["original_file"] == "0/a.jsonl")
    with Path("0/a.jsonl").open() as file:
        assert json.loads(file.readlines()[row["original_line"] - 1])["id"] == row["original_id"]
    # Former files are not read, and without --update nothing is added.
    for month in range(3):
        shutil.rmtree(f"{month}")
    held = every(KEPT)
    again = run_command("clean", "out1", "-o", "x", "--against", str(KEPT), *options, "--json")
    assert (again.json[0]["kept"], again.status) == (0, 0)
    assert every(KEPT) == held


def runs_in(folder: Path) -> list[dict[str, Any]]:
    """Return what describes the runs that have added their documents."""
    return [json.loads(file.read_bytes()) for file in sorted(folder.glob("run-*.json"))]


def test_a_run_that_is_killed_adds_all_or_nothing(request: pytest.FixtureRequest) -> None:
    months(2, 600)
    assert dedup(0, "--against", str(KEPT), "--update").status == 1
    before = every(KEPT)
    shutil.copytree(KEPT, "kept")
    command = ["clean", "1", "-o", "out1", "--against", str(KEPT), "--update"]
    run_command(*command, status=1)
    whole, after, killed = contents(Path("out1")), every(KEPT), 0
    rng, kills = random.Random(5), 20 if request.config.getoption("--all") else 4
    for _ in range(kills):
        shutil.rmtree(KEPT)
        shutil.copytree("kept", KEPT)
        shutil.rmtree("out1")
        limit = rng.randrange(1, 14)
        process = start_command(*command, stderr=subprocess.DEVNULL)
        await_true(
            "files are written",
            lambda: process.poll() is not None or _files() > limit,  # noqa: B023
            every=0.0005,
        )
        killed += kill(process) < 0
        held = every(KEPT)
        assert before.items() <= held.items()
        assert "run-0001.json" not in held or held == after
        if process.returncode < 0:
            run_command(*command)
        assert contents(Path("out1")) == whole
        assert every(KEPT) == after
        assert not Path("out1.work").exists()
    assert killed


def every(folder: Path) -> dict[str, bytes]:
    """Return all files by their paths in a folder."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def _files() -> int:
    folders = Path("out1"), Path("out1.work"), KEPT
    return sum(1 for folder in folders for _ in folder.rglob("*")) - 6


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_killed_run_resumes_at_each_side_of_the_list(step: str) -> None:
    months(2)
    command = ["clean", "1", "-o", "out1", "--against", str(KEPT), "--update"]
    assert dedup(0, "--against", str(KEPT), "--update").status == 1
    # Both files are written by then.
    surroundings = killed_at("Writing", call=2) if step == "before" else None
    err = Listener(f"added to {KEPT}", interrupt) if step == "after" else None
    run_command(*command, surroundings=surroundings, err=err, status=130)
    runs = runs_in(KEPT)
    assert len(runs) == (1 if step == "before" else 2)
    kept = int(Path("out1/a.jsonl").read_text().count("\n"))
    done = run_command(*command, "--json", status=1)
    runs = runs_in(KEPT)
    assert [each["files"] for each in runs] == [
        ["0/a.jsonl", "0/b.jsonl"],
        ["1/a.jsonl", "1/b.jsonl"],
    ]
    assert (runs[1]["counts"][0], sum(runs[1]["counts"])) == (kept, done.json[0]["kept"])
    # Another run came between: the decisions are out of date.
    write_lines(Path("2.jsonl"), [{"text": words(9_000)}])
    late = ["clean", "2.jsonl", "-o", "out2", "--against", str(KEPT), "--update"]
    run_command(*late, surroundings=killed_at("Writing", call=1), status=130)
    write_lines(Path("3.jsonl"), [{"text": words(9_000)}])
    run_command("clean", "3.jsonl", "-o", "o3", "--against", str(KEPT), "--update", status=0)
    changed = run_command(*late, status=2)
    assert f"another state of {KEPT}" in changed.err


def test_other_sketches_are_refused() -> None:
    months(1)
    update = ["--against", str(KEPT), "--update"]
    absent = dedup(0, "--against", str(KEPT))
    assert (absent.status, "there is no such folder: --update creates it" in absent.err) == (
        2,
        True,
    )
    assert not KEPT.exists()
    assert dedup(0, *update, out="out").status == 1
    held = every(KEPT)
    for options, said in (
        (["-t", "0.5", *update], "it has sketches of another scheme"),
        (["--keep", "last", *update], "sketches of another keep (first, not last)"),
        (["--exact", *update], "sketches of another exact (False, not True)"),
        (["--text-field", "id", *update], "sketches of another text field"),
        ([*update, "--against", "b.sketches"], "--update requires one index, or one folder"),
        (["--task", "1/2", *update], "--update can't be combined with --task"),
        (["--engine", "spark", "--against", str(KEPT)], "--engine spark compares with files only"),
        (["--against", "file.sketches", "--update"], "it is no folder of sketches"),
        (["--against", "full.sketches", "--update"], "it is no folder of sketches"),
    ):
        Path("file.sketches").touch()
        Path("full.sketches").mkdir(exist_ok=True)
        Path("full.sketches/mine.txt").touch()
        done = dedup(0, *options, out="other")
        assert (done.status, said in done.err) == (2, True), done.err
    with Run(KEPT).lock("wait for it"):
        busy = dedup(0, *update, out="other")
    assert (busy.status, "another run is using" in busy.err) == (1, True)
    dry = run_command("clean", "0", "--dry-run", "--json", "--against", "b.sketches", "--update")
    assert (dry.status, Path("b.sketches").exists()) == (1, False)
    assert every(KEPT) == held
    assert not [*Path().glob("other*")]


@pytest.mark.parametrize("tasks", [2, 5])
def test_tasks_compare_with_the_sketches_of_earlier_runs(tasks: int) -> None:
    months(3)
    for month in range(2):
        update = ["--against", str(KEPT), "--update"]
        assert dedup(month, *update, surroundings=FEW_IN_A_SHARE).status == 1
    before = every(KEPT)
    whole = dedup(2, "--against", str(KEPT), out="whole")
    # With more tasks than files, the first one may read none.
    numbers = range(1, tasks + 1)
    stages = [*(("sketch", n) for n in numbers), ("group", 1), *(("write", n) for n in numbers)]
    for stage, number in stages:
        task = ["--task", f"{number}/{tasks}", "--stage", stage]
        ran = dedup(2, "--against", str(KEPT), *task, surroundings=FEW_IN_A_SHARE)
    same = ("documents", "kept", "removed", "against", "groups", "samples")
    assert [ran.json[0][key] for key in same] == [whole.json[0][key] for key in same]
    assert ran.json[0]["against"] > 30
    assert contents(Path("out2")) == contents(Path("whole2"))
    assert every(KEPT) == before


def test_a_task_is_refused_if_documents_were_added_since_the_others_began() -> None:
    months(2)
    assert dedup(0, "--against", str(KEPT), "--update").status == 1
    write_lines(Path("new.jsonl"), [{"text": words(9_000)}])
    command = ["clean", "1", "-o", "out1", "--against", str(KEPT), "--stage", "sketch", "--task"]
    run_command(*command, "1/2")
    update = ["clean", "new.jsonl", "-o", "new", "--against", str(KEPT), "--update"]
    run_command(*update, status=0)
    late = run_command(*command, "2/2", status=2)
    assert f"another state of {KEPT}" in late.err


@pytest.mark.parametrize("name", ["share-0001.npz", "texts-0001"])
def test_a_damaged_share_is_named(name: str) -> None:
    months(2)
    assert dedup(0, "--against", str(KEPT), "--update").status == 1
    (file,) = KEPT.rglob(name)
    file.write_bytes(file.read_bytes()[:-2_000])
    done = dedup(1, "--against", str(KEPT))
    assert (done.status, f"{file.parent}/" in done.err, name in done.err) == (1, True, True)
    assert "restore a copy" in done.err
    assert "Traceback" not in done.err
