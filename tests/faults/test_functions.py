"""`esdedup.clean` and `esdedup.decontaminate` are killed: the same call again loses no record."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import esdedup
from tests.helpers.commands import words, write_lines

SHARDS, RECORDS = 3, 60

KILLED = """
import json, os, signal, sys
import esdedup

name, arguments, settings, step, least = json.loads(sys.argv[1])


def kill(title: str, done: int, total: int) -> None:
    if title == step and done >= least:
        os.kill(os.getpid(), signal.SIGKILL)


getattr(esdedup, name)(*arguments, **settings, progress=kill)
"""
"""A program that kills itself at a step of a call."""

CALLS: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "clean": ("clean", ["in"], {"threshold": 0.7}),
    "units": ("clean", ["in"], {"unit": "line"}),
    "against": ("clean", ["in"], {"against": "kept.sketches", "update": True}),
    "decontaminate": ("decontaminate", ["in", "items.jsonl"], {}),
    "mask": ("decontaminate", ["in", "items.jsonl"], {"mask": True}),
}

STEPS = [
    ("clean", "Sketching", 1),
    ("units", "Writing", 0),
    ("against", "Writing", RECORDS),
    ("decontaminate", "Counting", 1),
    ("decontaminate", "Finding", 1),
    ("mask", "Writing", RECORDS),
]
"""The call, the step at which it is killed, and how much of the step is done at least."""


def texts_and_items() -> None:
    """Write files in which texts repeat and some hold an item, and the items."""
    items = [words(1_000 + number, 20) for number in range(5)]
    write_lines(Path("items.jsonl"), [{"text": item} for item in items])
    Path("in").mkdir()
    for shard in range(SHARDS):
        lines = []
        for number in range(RECORDS):
            text = f"{words(number % 40, 30)}\n{words(shard, 5)}"
            if number % 12 == 0:
                text = f"{text} {items[number % 5]} {words(number, 10)}"
            lines.append({"id": f"{shard}-{number}", "text": text})
        write_lines(Path(f"in/{shard}.jsonl"), lines)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def call(name: str, arguments: list[str], output: str, settings: dict[str, Any]) -> Any:
    """Call one of the functions with an output."""
    return getattr(esdedup, name)(*arguments, output, **settings)


@pytest.mark.parametrize(("case", "step", "least"), STEPS)
def test_the_same_call_resumes_after_a_kill(case: str, step: str, least: int) -> None:
    texts_and_items()
    name, arguments, settings = CALLS[case]
    before, out = contents(Path("in")), Path("out")
    kept = {"against": "whole.sketches"} if "against" in settings else {}
    report = call(name, arguments, "whole", {**settings, **kept})
    whole = contents(Path("whole"))
    assert report.removed > 0 or report.contained["masked"] > 0

    killed = json.dumps([name, [*arguments, "out"], settings, step, least])
    done = subprocess.run([sys.executable, "-P", "-c", KILLED, killed], check=False)
    assert done.returncode == -signal.SIGKILL
    # Each file is as it will be, or not there.
    written = contents(out) if out.exists() else {}
    records = {path: raw for path, raw in written.items() if not path.startswith((".", "_"))}
    assert all(whole[path] == raw for path, raw in records.items())
    assert contents(Path("in")) == before

    assert call(name, arguments, "out", settings) == report
    assert contents(out) == whole
    assert contents(Path("in")) == before
    assert not Path("out.work").exists()
    if kept:
        # Nothing was added twice, and nothing was lost.
        again = call(name, arguments, "again", {"against": "kept.sketches"})
        assert again.against == again.documents


def test_a_call_with_other_items_does_not_resume() -> None:
    texts_and_items()

    def interrupt(step: str, _done: int, _total: int) -> None:
        if step == "Writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        esdedup.decontaminate("in", "items.jsonl", "out", progress=interrupt)
    with pytest.raises(esdedup.UsageError, match="unfinished run with another share"):
        esdedup.decontaminate("in", "items.jsonl", "out", share=0.5)
    write_lines(Path("items.jsonl"), [{"text": words(2_000, 20)}])
    with pytest.raises(esdedup.UsageError, match="unfinished run"):
        esdedup.decontaminate("in", "items.jsonl", "out")
