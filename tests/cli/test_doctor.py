"""What `esdedup doctor` and `esdedup examples` write."""

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.helpers.commands import run_command, words, write_lines


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    return folder


def test_the_installation_is_described_without_an_index() -> None:
    ran = run_command("doctor", status=0)
    lines = ran.out.splitlines()
    assert lines[0] == f"esdedup: {version('esdedup')}"
    assert f"numpy: {version('numpy')}" in lines
    assert f"uvicorn [proxy, review]: {version('uvicorn')}" in lines
    assert lines[-1] == "index: none is named: use --db, or --url and --index"


def test_an_index_is_described_without_its_texts() -> None:
    write_lines(Path("documents.jsonl"), [{"id": "a", "text": words(1)}])
    run_command("index", "documents.jsonl", status=0)
    ran = run_command("doctor", status=0)
    lines = set(ran.out.splitlines())
    assert {"index: documents", "documents: 1", "with tokens: 1"} <= lines
    assert {"sketches: minhash, simhash", "obstacles: none"} <= lines
    assert words(1).split()[0] not in ran.out
    (described,) = run_command("doctor", "--json").json
    assert (described["index"]["documents"], described["index"]["problem"]) == (1, None)


def test_a_cluster_that_does_not_answer_is_a_problem_without_secrets() -> None:
    address = "http://mary:terrible-secret@127.0.0.1:1"
    ran = run_command("doctor", "--url", address, "--retry-for", "0", status=1)
    assert "connection: http, user name and password" in ran.out
    assert "problem: (address): can't be reached" in ran.out
    for secret in ("mary", "terrible-secret", "127.0.0.1"):
        assert secret not in ran.out + ran.err


def test_a_file_that_is_named_must_exist() -> None:
    ran = run_command("doctor", "--db", "nope.db")
    assert ran.status != 0
    assert "nope.db" in ran.out + ran.err


def test_samples_are_written_once() -> None:
    run_command("examples", status=0)
    run_command("examples", status=0)
    assert len(run_command("pairs", "examples/articles.jsonl").json) == 19
    changed = Path("examples/more.jsonl")
    changed.write_text("{}\n", "utf-8")
    ran = run_command("examples")
    assert (ran.status, ran.err) == (2, f"Error: {changed} exists: name another folder\n")
    assert changed.read_text("utf-8") == "{}\n"
