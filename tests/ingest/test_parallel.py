"""`esdedup index --workers`: the same as one process."""

import contextlib
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import DuplicatePolicy
from esdedup.cli.files import FileOptions
from esdedup.ingest.ingest import IngestSettings
from esdedup.ingest.policies import PolicyAction
from esdedup.records.files import BadRecord, ReadSizes, chunks_of_files
from tests.helpers.arrivals import family
from tests.helpers.commands import run_command, write_lines
from tests.helpers.indices import open_index
from tests.helpers.places import Place, scanned
from tests.helpers.processes import (
    CLI,
    await_documents,
    await_ended,
    await_true,
    children,
    input_without_end,
    start_command,
)


@pytest.mark.parametrize("action", ["keep", "group", "fail"])
def test_they_write_what_one_process_writes(action: PolicyAction, folder: Path) -> None:
    """Every policy gives the same index, report and dead letters with one process and with two."""
    chance = random.Random(1)
    records: list[Any] = []
    for number in range(300):
        text = family(chance.randrange(12) * 100 + number % 100, chance.randrange(4))
        record = {"id": f"d{chance.randrange(280)}", "text": text}
        if number % 9 == 0:
            del record["id"]
        records.append(record if number % 50 else "no JSON")
    write_lines(folder / "some.jsonl", records)
    outcomes = []
    for workers in (1, 2):
        letters: list[BadRecord] = []
        chunks = chunks_of_files(["some.jsonl"], sizes=ReadSizes(documents=50, bytes=6_000))
        settings = IngestSettings(workers=workers, on_duplicate=DuplicatePolicy(action))
        with open_index(Place(Path("esdedup.db"), f"by-{workers}")) as index:
            report = index.ingest(chunks, letters.append, settings)
            stored = scanned(index.store, "text", "esdedup")
            documents = {document.id: document.source for document in stored}
        assert (report.duplicates > 20) == (action != "keep")
        reasons = sorted((letter.line, letter.raw, letter.reason) for letter in letters)
        is_refused = any("it is a near-duplicate of 'd" in reason for *_, reason in reasons)
        assert is_refused == (action == "fail")
        outcomes.append((report, reasons, documents))
    assert outcomes[0] == outcomes[1]
    if action == "keep":
        # The last of an id stays, wherever its batch went.
        texts = {record["id"]: record["text"] for record in records if "id" in record}
        stored_texts = {id: source["text"] for id, source in documents.items()}
        assert texts.items() <= stored_texts.items()


def test_large_files_are_read_by_several_processes(folder: Path) -> None:
    for name, mebibytes in (("small", 1), ("large", 40), ("huge", 4_000)):
        with (folder / name).open("wb") as file:
            file.truncate(mebibytes << 20)
    for names, processes in (("small", 1), ("small large", 3), ("huge", 4), ("-", 1)):
        assert FileOptions().processes(names.split(), cores=8) == processes
    assert FileOptions().processes(["huge"], cores=3) == 3
    assert FileOptions(workers=6).processes(["small"]) == 6


def test_a_killed_worker_ends_a_run_that_the_same_command_completes(folder: Path) -> None:
    records = [{"id": f"d{n}", "text": f"text {n} of many " * 40} for n in range(28_000)]
    write_lines(folder / "many.jsonl", records)
    lines = (folder / "many.jsonl").read_text("utf-8").splitlines(keepends=True)
    pipes: Any = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = start_command("index", "-", "--workers", "2", **pipes)
    assert process.stdin is not None
    process.stdin.writelines(lines[:20_000])
    await_documents(process, folder / "esdedup.db")
    await_true("the worker", lambda: len(children(process)) > 0)
    workers = children(process)
    os.kill(min(workers), signal.SIGKILL)
    # Batches go to this process and to its worker in turn, so that one of the rest meets its end.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.writelines(lines[20_000:])
    _, shown = process.communicate(timeout=60)
    assert "Traceback" not in shown
    assert process.returncode == 1
    assert "Run the same command again" in shown
    await_ended(workers)
    (report,) = run_command("index", "many.jsonl", "--workers", "2", "--json").json
    assert report["created"] + report["unchanged"] == 28_000
    assert report["unchanged"] > 0
    with esdedup.open(folder / "esdedup.db") as index:
        assert index.statistics().sketched == 28_000


def test_interrupted_at_any_moment_it_says_so(folder: Path) -> None:
    text = "".join(f'{{"text": "text {n} of many"}}\n' for n in range(70_000))
    for least, seconds in ((1, 0.0), (2, 0.0), (2, 0.4)):
        with input_without_end(text) as lines:
            options: Any = {"stdin": lines, "stderr": subprocess.PIPE, "start_new_session": True}
            process = start_command("index", "-", "--workers", "3", **options)
            await_true("workers", lambda: len(children(process)) >= least)  # noqa: B023
            time.sleep(seconds)
            workers = children(process)
            os.killpg(process.pid, signal.SIGINT)
            _, shown = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Traceback" not in shown
        await_ended(workers)


def test_what_is_wrong_is_said_alike(folder: Path) -> None:
    more = ["--workers", "2", "--json"]
    # A file that breaks off: what came before is written.
    lines = [json.dumps({"id": f"d{n}", "text": f"text {n} of many"}) for n in range(60_000)]
    packed = gzip.compress("\n".join(lines).encode(), 1)
    (folder / "broken.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    done = run_command("index", "broken.jsonl.gz", "--db", "broken.db", *more)
    assert (done.status, done.out) == (1, "")
    assert "broken.jsonl.gz can't be read to its end" in done.err
    with esdedup.open(folder / "broken.db") as index:
        assert index.statistics().documents >= 20_000
    # A name that is no text.
    name = os.fsdecode(b"caf\xe9.txt")
    (folder / name).write_text("one text")
    done = run_command("index", name, "--db", "name.db", *more)
    assert (done.status, done.json[0]["created"]) == (0, 1)
    with esdedup.open("name.db") as index:
        assert index.get("caf\\xe9.txt:1").source["text"] == "one text"


@pytest.mark.parametrize(
    ("limit", "command", "said"),
    [
        ("-n 24", "index --workers 12", "of 12 processes can be started"),
        ("-n 24", "pairs", "Too many open files"),
        ("-f 400", "index --workers 2", ""),
    ],
)
def test_a_system_that_refuses(folder: Path, limit: str, command: str, said: str) -> None:
    """Open files, and the size of a file. No temporary folder with texts is left."""
    write_lines(folder / "a.jsonl", [{"text": f"text {n} of many " * 500} for n in range(3_500)])
    (folder / "tmp").mkdir()
    run = f"ulimit {limit}; TMPDIR=tmp exec {sys.executable} {CLI} {command} a.jsonl"
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "cannot rollback" not in done.stderr
    assert not [*(folder / "tmp").iterdir()]
