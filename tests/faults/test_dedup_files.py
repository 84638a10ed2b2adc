"""`clean FILES` is killed, the disk is full, a shard is damaged: no record is lost or cut."""

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.commands import read_lines, run_command, words, write_lines
from tests.helpers.damage import DAMAGES, ENDINGS, damaged, packed
from tests.helpers.processes import await_true, kill, start_command

SHARDS, RECORDS = 8, 1_500


def shards() -> int:
    """Write files, a third of whose texts come twice or nearly so; return their bytes."""
    Path("in").mkdir()
    for shard in range(SHARDS):
        first = shard * RECORDS
        numbers = [n - n % 997 if n % 3 == 0 else n for n in range(first, first + RECORDS)]
        write_lines(
            Path(f"in/{shard}.jsonl"),
            [{"n": n, "text": words(n, 40) + f" {n % 5}"} for n in numbers],
        )
    return sum(file.stat().st_size for file in Path("in").iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def size_of(*folders: Path) -> int:
    """Return the bytes of all files that a run has written so far."""
    total = 0
    for file in (each for folder in folders if folder.exists() for each in folder.iterdir()):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue  # It was renamed meanwhile.
    return total


def test_killed_runs_resume(request: pytest.FixtureRequest) -> None:
    size, kills = shards(), 20 if request.config.getoption("--all") else 5
    run_command("clean", "in", "-o", "whole", status=0)
    whole, before, killed = contents(Path("whole")), contents(Path("in")), 0
    out, work = Path("out"), Path("out.work")
    for number in range(kills):
        limit = random.Random(number).uniform(0, 2.2 * size)
        process = start_command("clean", "in", "-o", "out", stderr=subprocess.DEVNULL)
        await_true(
            "it has written much",
            lambda: process.poll() is not None or size_of(out, work) > limit,  # noqa: B023
            every=0.001,
        )
        killed += kill(process) != 0
        # Each file is as it will be, or not there.
        made = contents(out) if out.exists() else {}
        assert all(whole[name] == raw for name, raw in made.items() if not name.startswith("."))
        if number % 4 == 3 or process.returncode == 0:
            shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)
    run_command("clean", "in", "-o", "out", status=0)
    assert contents(out) == whole
    assert contents(Path("in")) == before
    assert not work.exists()
    assert killed > kills / 2


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 2 MB, which `grow` enlarges."""
    disk = Path("disk").absolute()
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "esdedup", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system takes root")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_disk_that_runs_full_loses_nothing(small_disk: Path) -> None:
    assert shards() > 3 << 20
    run_command("clean", "in", "-o", "whole", status=0)
    whole, before, out = contents(Path("whole")), contents(Path("in")), small_disk / "out"
    options = ["clean", "in", "-o", str(out), "--work", "work"]
    failed = run_command(*options, status=1)
    assert "No space left on device" in failed.err
    made = contents(out)
    assert 0 < len(made) < len(whole)
    assert all(whole[name] == raw for name, raw in made.items())
    assert contents(Path("in")) == before
    subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True)
    run_command(*options, status=0)
    assert contents(out) == whole
    assert not Path("work").exists()


# Each damage of each kind is read in tests/unit/ingest/test_damaged_files.py.
@pytest.mark.parametrize(("kind", "damage"), [*zip(ENDINGS, DAMAGES, strict=True)])
def test_a_damaged_shard_in_the_middle_is_named_and_can_be_mended(kind: str, damage: str) -> None:
    Path("in").mkdir()
    rng = random.Random(3)
    every = [" ".join(str(rng.randrange(999)) for _ in range(20)) for _ in range(1200)]
    # Each shard repeats ten documents of the one before.
    for number, first in enumerate((0, 390, 780)):
        lines = [json.dumps({"id": f"{number}-{n}", "text": text})
                 for n, text in enumerate(every[first : first + 400])]  # fmt: skip
        Path(f"in/{number}.{kind}").write_bytes(packed(lines, kind))
    run_command("clean", "in", "-o", "whole", status=0)
    whole, shard = contents(Path("whole")), Path(f"in/1.{kind}")
    raw = shard.read_bytes()
    shard.write_bytes(damaged(raw, damage))
    before = contents(Path("in"))
    failed = run_command("clean", "in", "-o", "out")
    assert failed.status in (1, 2)
    assert f"Error: {shard} " in failed.err
    assert not Path("out").exists()
    assert contents(Path("in")) == before
    shard.write_bytes(raw)
    mended = run_command("clean", "in", "-o", "out", "--json")
    assert (mended.status, mended.json[0]["removed"]) == (0, 20)
    assert contents(Path("out")) == whole
    assert not Path("out.work").exists()


def test_shards_of_another_encoding_are_named_and_kept_apart() -> None:
    Path("in").mkdir()
    texts = [f"第{n}期图书馆读书会在周一下午三点开始，欢迎大家{n}次参加" for n in range(40)]
    lines = [json.dumps({"id": str(n), "text": text}, ensure_ascii=False) for n, text in
             enumerate(texts)]  # fmt: skip
    Path("in/a.jsonl").write_bytes(("\n".join([*lines[:20], lines[3]]) + "\n").encode())
    Path("in/b.jsonl").write_bytes(("\n".join(lines[20:]) + "\n").encode("gb18030"))
    done = run_command("clean", "in", "-o", "out", "--exact", "--json", status=1)
    assert "in/b.jsonl:1: " in done.err
    assert "20 records skipped: see clean.dead-letter.jsonl" in done.err
    counts = done.json[0]
    assert (counts["documents"], counts["removed"], counts["failed"]) == (21, 1, 20)
    assert Path("out/a.jsonl").read_bytes() == ("\n".join(lines[:20]) + "\n").encode()
    letters = read_lines("clean.dead-letter.jsonl")
    assert {letter["file"] for letter in letters} == {"in/b.jsonl"}
    # Each encoding in a run of its own.
    Path("of-b").mkdir()
    shutil.move("in/b.jsonl", "of-b/b.jsonl")
    run_command("clean", "of-b", "-o", "out-b", "--exact", "--encoding", "gb18030", status=0)
    assert Path("out-b/b.jsonl").read_bytes() == Path("of-b/b.jsonl").read_bytes()
