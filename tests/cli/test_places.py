"""No command writes into another file or index than was meant, and reports name the place."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import call, fill, run_command, write_lines

ESDEDUP = str(Path(sys.executable).parent / "esdedup")
NOWHERE = "http://127.0.0.1:1"
VARIABLES = [
    "url", "index", "db", "username", "password", "api_key", "bearer_token", "ca_certs",
    "cert_fingerprint", "cloud_id",
]  # fmt: skip
SAME = [{"id": str(n), "text": "one two three four five"} for n in range(3)]


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    write_lines(folder / "same.jsonl", SAME)
    text = "some words of ours"
    write_lines(Path("a.jsonl"), [{"id": "a", "text": text}, {"id": "b"}, {"id": "c", "text": "x"}])
    return folder


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_value_is_refused(folder: Path, name: str, value: str) -> None:
    """As a failed expansion in a script gives it."""
    variable, option = f"ESDEDUP_{name.upper()}", f"--{name.replace('_', '-')}"
    for command in (["index", "same.jsonl"], ["stats"]):
        ran = run_command(*command, environment={variable: value}, status=2)
        assert variable in ran.err
        assert "empty" in ran.err
        ran = run_command(*command, option, value)
        said = "empty" in ran.err or (name == "db" and "is a directory" in ran.err)
        assert (ran.status, option in ran.err, said) == (2, True, True), ran
        assert {path.name for path in folder.iterdir()} == {"a.jsonl", "same.jsonl"}


def test_reports_name_the_cluster(url: str, name: str) -> None:
    with_password = url.replace("http://", "http://user:s3cret@")
    place = {"index": name, "address": url}
    target = ["--index", name, "--url", with_password]
    call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
    fill(url, name, {each["id"]: {"text": each["text"]} for each in SAME})
    bare = run_command("group", *target, status=1)
    assert f"run `esdedup attach -i {name}`" in bare.err
    attached = run_command("attach", *target)
    assert f"got the field 'esdedup' at {url}" in attached.err
    for acting in ("pairs", "group", "dedup"):
        bare = run_command(acting, *target)
        assert (bare.status, bare.out) == (1, "")
        assert f"has tokens of its scheme: run `esdedup backfill -i {name}`" in bare.err
    commands = [
        ["backfill"],
        ["index", "same.jsonl"],
        ["group"],
        ["dedup", "--apply", "--action", "delete", "--yes", "--log", "log"],
        ["undo", "log", "--yes"],
    ]
    for command in commands:
        # The log names the index.
        ran = run_command(*command, *(target[2:] if command[0] == "undo" else target))
        assert ran.json, ran
        assert all(place.items() <= report.items() for report in ran.json), ran
        assert "s3cret" not in ran.out + ran.err
    assert "s3cret" not in Path("log").read_text()


def test_an_option_counts_before_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESDEDUP_URL", NOWHERE)
    for file in ("mine.db", "esdedup.db"):
        assert run_command("index", "a.jsonl", "--db", file).json[0]["created"] == 2
        assert Path(file).exists()
    run_command("stats", status=1)
    both = run_command("stats", "--db", "mine.db", "--url", "http://127.0.0.1:2", status=2)
    assert "--db and --url name two places" in both.err
    monkeypatch.setenv("ESDEDUP_DB", "mine.db")
    both = run_command("stats")
    assert "ESDEDUP_DB and ESDEDUP_URL name two places" in both.err
    assert run_command("stats", "--db", "esdedup.db").json[0]["documents"] == 2
    monkeypatch.delenv("ESDEDUP_URL")
    assert run_command("stats").json[0]["documents"] == 2
    assert NOWHERE in run_command("stats", "--url", NOWHERE).err


@pytest.mark.parametrize(
    "command",
    [
        ["report", "-o", "esdedup.db"],
        ["scheme", "-o", "a.jsonl"],
        ["index", "a.jsonl", "--dead-letter", "esdedup.db"],
        ["pairs", "b.jsonl", "--dead-letter", "a.jsonl"],
    ],
)
def test_files_that_hold_something_else_are_left(command: list[str]) -> None:
    run_command("index", "a.jsonl", "--dead-letter", "bad.jsonl")
    shutil.copy("a.jsonl", "b.jsonl")
    before = Path("a.jsonl").read_bytes(), run_command("stats").json
    refused = run_command(*command, status=2)
    assert "holds something else: " in refused.err
    assert (Path("a.jsonl").read_bytes(), run_command("stats").json) == before


def test_own_files_are_written_again() -> None:
    run_command("index", "a.jsonl")
    for _ in range(2):
        run_command("scheme", "-o", "scheme.json", status=0)
        run_command("report", "-o", "page.html", status=0)
        run_command("pairs", "a.jsonl", "--dead-letter", "bad.jsonl", status=1)
    assert len(Path("bad.jsonl").read_text().splitlines()) == 2


def test_one_of_several_fields_may_be_misspelt() -> None:
    write_lines(Path("b.jsonl"), [{"title": "a title"}, {"title": "another", "body": "text"}])
    run = run_command("index", "b.jsonl", "--text-field", "title", "--text-field", "bodi")
    assert run.json[0]["created"] == 2
    assert "none of the first 2 records has the field 'bodi'. There are: title, body" in run.err
    run = run_command("pairs", "b.jsonl", "--text-field", "title", "--text-field", "body")
    assert run.err == ""


@pytest.mark.parametrize(
    "command", ["index -", "similar --file -", "similar --batch -", "dedup --apply --action delete"]
)
def test_standard_input_may_be_closed(command: str) -> None:
    run_command("index", "a.jsonl")
    done = subprocess.run(
        f"{ESDEDUP} {command} <&-", shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "standard input is closed" in done.stderr or "--yes" in done.stderr
