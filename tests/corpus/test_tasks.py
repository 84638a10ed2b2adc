"""`clean FILES --task`: many processes share one run, and write what one process writes."""

import json
import random
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import esdedup
from esdedup.cleaning.tasks import Task, Waiting
from esdedup.cli.surroundings import Surroundings
from esdedup.runs.run import Run
from tests.faults.test_dedup_files import contents
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.full_disk import largest_file
from tests.helpers.processes import at_once, await_true, kill, start_command

TASKS = 8


@pytest.fixture
def whole() -> dict[str, bytes]:
    """Write files of different sizes, and return what one process makes of them."""
    Path("in").mkdir()
    for shard in range(11):
        first, size = shard * 300, 20 * shard
        numbers = [n - n % 97 if n % 3 == 0 else n for n in range(first, first + size)]
        lines = [{"n": n, "text": words(n, 40) + f" {n % 5}"} for n in numbers]
        write_lines(Path(f"in/{shard:02}.jsonl"), lines)
    with Path("in/03.jsonl").open("a") as file:
        file.write("no record\n")
    write_lines(Path("items.jsonl"), [{"text": words(n, 40)} for n in (97, 310, 311)])
    ran = run_command("clean", "in", "-o", "whole", "--against", "items.jsonl", status=1)
    assert "1 record skipped" in ran.err
    return contents(Path("whole"))


def command(task: int, *options: str, out: str = "out") -> list[str]:
    number = ["--task", f"{task}/{TASKS}"]
    return ["clean", "in", "-o", out, "--against", "items.jsonl", *number, *options]


def test_tasks_that_are_killed_and_repeated_write_what_one_process_writes(
    whole: dict[str, bytes], request: pytest.FixtureRequest
) -> None:
    draw = random.Random(5)
    running = {task: start_command(*command(task)) for task in range(1, TASKS + 1)}
    killed, statuses = 0, dict[int, int]()
    kills = 30 if request.config.getoption("--all") else 6
    while running:
        if killed < kills:
            # At any moment of its work.
            sizes = draw.randrange(2_000, 150_000)
            victim = draw.choice([*running])
            await_true(
                "a task has worked",
                lambda: running[victim].poll() is not None or _written() > sizes,  # noqa: B023
                every=0.001,
            )
            killed += kill(running[victim]) != 0
            running[victim] = start_command(*command(victim))
            continue
        for task, process in [*running.items()]:
            if process.poll() is not None:
                statuses[task] = running.pop(task).returncode
    # The last one reports the record that was skipped.
    assert sorted(statuses.values()) in ([0] * TASKS, [0] * (TASKS - 1) + [1])
    assert contents(Path("out")) == whole
    assert sorted(file.name for file in Path("out.work").iterdir()) == ["done.json", "job.json"]
    again = run_command(*command(3), status=0)
    assert "complete already" in again.err
    shutil.rmtree("out")
    again = run_command(*command(3), status=2)
    assert "remove out.work" in again.err


def _written() -> int:
    """Return the bytes in the work folder and the output."""
    total = 0
    for folder in ("out.work", "out"):
        for file in Path(folder).rglob("*"):
            try:
                total += file.stat().st_size
            except FileNotFoundError:
                continue  # It was renamed meanwhile.
    return total


def test_stages_name_the_tasks_that_are_missing(whole: dict[str, bytes]) -> None:
    for task in (1, 2, 4, 5, 6, 8):
        run_command(*command(task, "--stage", "sketch"), status=0)
    early = run_command(*command(1, "--stage", "group"), status=1)
    assert "2 of 8 tasks: 3, 7" in early.err
    early = run_command(*command(1, "--stage", "write"), status=1)
    assert "1 of 8 tasks: 1" in early.err
    assert not Path("out").exists()
    other = run_command(*command(3, "-t", "0.5"), status=2)
    assert "a run with another threshold" in other.err
    for task in (3, 7):
        run_command(*command(task, "--stage", "sketch"), status=0)
    run_command(*command(1, "--stage", "group"), status=0)
    # Order does not matter, and a stage that is repeated changes nothing.
    for task in (5, 5, 1, 2, 3, 8, 7, 6):
        run_command(*command(task, "--stage", "write"), status=0)
    run_command(*command(2, "--stage", "sketch"), status=0)
    last = run_command(*command(4, "--stage", "write", "--json"))
    assert (last.status, last.json[0]["failed"]) == (1, 1)
    assert "dead-letter files of the tasks" in last.err
    assert len([*Path().glob("clean-?.dead-letter.jsonl")]) == 1
    assert contents(Path("out")) == whole


def test_tasks_do_not_wait_for_one_that_failed(whole: dict[str, bytes]) -> None:
    hasty = Surroundings(waiting=Waiting(longest=0.1))
    for task in range(1, TASKS):
        run_command(*command(task, "--stage", "sketch"), status=0)
    # The disk is full.
    with largest_file(8_000):
        run_command(*command(TASKS, "--stage", "sketch"), status=1)
    # Task 1 waits for the last one, and all others for task 1.
    for task, failed in ((1, TASKS), (2, 1)):
        ended = run_command(*command(task), surroundings=hasty, status=1)
        assert f"task {failed} failed (" in ended.err
        of_last = rf"task {TASKS} failed \(.*: File too large\): repeat it, then this"
        assert re.search(of_last, ended.err)
    run_command(*command(TASKS, "--stage", "sketch"), status=0)
    small = run_command(*command(1, "--max-memory", "1MB"), status=2)
    assert "documents require" in small.err
    ended = run_command(*command(2), surroundings=hasty)
    assert "task 1 failed (--max-memory" in ended.err
    assert "repeat it, then this" in ended.err
    # One that waits while it is repeated is not misled by the earlier failure.
    waiting = start_command(*command(2))
    statuses = [run_command(*command(task)).status for task in (1, *range(3, TASKS + 1))]
    assert sorted([waiting.wait(), *statuses]) == [0] * (TASKS - 1) + [1]
    assert contents(Path("out")) == whole


def test_a_change_of_the_files_is_refused(whole: dict[str, bytes]) -> None:
    run_command(*command(1, "--stage", "sketch"), status=0)
    write_lines(Path("in/05.jsonl"), [{"text": "another"}])
    changed = run_command(*command(2, "--stage", "sketch"), status=2)
    assert "another state of in/05.jsonl" in changed.err


def test_tasks_that_begin_at_once_claim_the_same_run() -> None:
    def claim(number: int) -> None:
        task = Task(number, TASKS, Run("out.work"))
        with task.lock():
            task.claim({"files": [f"{n}.jsonl" for n in range(2_000)]})

    works = [partial(claim, number) for number in range(1, TASKS + 1)]
    for _ in range(3):
        assert at_once(works) == [None] * TASKS
        shutil.rmtree("out.work")


def test_a_task_does_not_run_twice_at_once(whole: dict[str, bytes]) -> None:
    with Task(2, TASKS, Run("out.work")).lock_task():
        twice = run_command(*command(2, "--stage", "sketch"))
    assert (twice.status, "another run is using" in twice.err) == (1, True)
    run_command(*command(2, "--stage", "sketch"), status=0)


def test_fields_are_checked_as_one_process_does() -> None:
    """A file without texts is skipped, also by a task that has no other."""
    Path("in").mkdir()
    write_lines(Path("in/0.jsonl"), [{"text": words(n)} for n in range(20)])
    write_lines(Path("in/1.jsonl"), [{"body": words(n)} for n in range(20)])
    for number in (2, 1):
        task = ["--task", f"{number}/2", "--stage", "sketch"]
        run_command("clean", "in", "-o", "out", *task, status=0)
        missing = run_command(
            "clean", "in", "-o", "other", *task, "--text-field", "title", status=2
        )
        assert "none of the first" in missing.err.lower()


def test_tasks_mask_what_one_process_masks() -> None:
    Path("in").mkdir()
    write_lines(Path("items.jsonl"), [{"text": words(n, 30)} for n in range(3)])
    for file in range(3):
        texts = [
            f"{words(n, 50)} {words(n % 5, 30)} é {words(n + 99, 9)}" for n in range(file, 20, 3)
        ]
        write_lines(Path(f"in/{file}.jsonl"), [{"text": each} for each in texts])
    mask = ["decontaminate", "in", "--against", "items.jsonl", "--mask"]
    run_command(*mask, "-o", "whole", status=0)
    for stage, tasks in (("sketch", (1, 2)), ("group", (1,)), ("write", (1, 2))):
        for task in tasks:
            staged = ["--task", f"{task}/2", "--stage", stage]
            run_command(*mask, "-o", "out", *staged, status=0)
    assert contents(Path("out")) == contents(Path("whole"))
    assert contents(Path("out"))["0.jsonl"] != contents(Path("in"))["0.jsonl"]


@settings(max_examples=4, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=40),
    st.integers(1, 4),
    st.sampled_from([{}, {"method": "components"}, {"keep": "longest"}, {"exact": True}]),
)
def test_files_frames_and_tasks_find_the_same_groups(
    made: list[tuple[int, int]], tasks: int, options: dict[str, Any]
) -> None:
    """Texts of few topics, of which several differ by some words, in several files."""
    shutil.rmtree("same", ignore_errors=True)
    Path("same/in").mkdir(parents=True)
    texts = [" ".join(words(topic, 24).split()[edits:]) for topic, edits in made]
    rows = [{"id": f"{number:02}", "text": text} for number, text in enumerate(texts)]
    for at in range(3):
        some = rows[at * len(rows) // 3 : (at + 1) * len(rows) // 3]
        write_lines(Path(f"same/in/{at}.jsonl"), some)
    found = esdedup.dedup(rows, **options).groups
    place = [rows[int(number)]["id"] for number in found.ids]
    heads = found.representative.tolist()
    expected = {place[row]: place[heads[row]] for row in found.duplicate_rows.tolist()}
    typed = ["--exact"] if "exact" in options else [f"--{k}={v}" for k, v in options.items()]
    command = ["clean", "same/in", *typed, "--removed"]
    for number in range(tasks, 0, -1):
        stages = ["--task", f"{number}/{tasks}", "--stage", "sketch"]
        run_command(*command, "same/t.jsonl", "-o", "same/t", *stages, status=0)
    for number, stage in ((1, "group"), *((number + 1, "write") for number in range(tasks))):
        stages = ["--task", f"{number}/{tasks}", "--stage", stage]
        run_command(*command, "same/t.jsonl", "-o", "same/t", *stages, status=0)
    run_command(*command, "same/w.jsonl", "-o", "same/w", status=0)
    for way in ("w", "t"):
        lines = Path(f"same/{way}.jsonl").read_text("utf-8").splitlines()
        listed = {each["id"]: each["original_id"] for each in map(json.loads, lines)}
        assert listed == expected
