"""No command writes into another file or index than was meant, and reports name the place."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from esdedup import Connection
from esdedup.cli.app import app
from esdedup.cli.command import CONTEXT
from esdedup.cli.options import Target, typed_place
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
        if command[0] == "dedup":
            assert f"To restore them: esdedup undo log --url {url}\n" in ran.err
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


def restoring(*options: str, log: str) -> str:
    """Remove duplicates of the index that the options name, and return the command to restore."""
    apply = ["--apply", "--action", "delete", "--yes", "--log", log]
    ran = run_command("dedup", *options, *apply, status=0)
    (command,) = re.findall("^To restore them: (.*)$", ran.err, re.MULTILINE)
    return str(command)


def restored(command: str) -> int:
    """Run a command that restores, as it is shown, and return how many documents it restored."""
    program, *arguments = shlex.split(command)
    assert program == "esdedup"
    number: int = run_command(*arguments, "--yes", status=0).json[0]["restored"]
    return number


@pytest.mark.parametrize("log", ["log.jsonl", "a log's.jsonl"])
@pytest.mark.parametrize("db", ["mine.db", "it's $mine.db", "我的.db"])
def test_the_command_that_restores_names_the_file(db: str, log: str) -> None:
    run_command("index", "same.jsonl", "--db", db, status=0)
    command = restoring("--db", db, log=log)
    assert shlex.split(command) == ["esdedup", "undo", log, "--db", db]
    assert restored(command) == 2


def test_the_command_that_restores_leaves_out_what_it_finds_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for db in ("esdedup.db", "mine.db", "shared.db"):
        run_command("index", "same.jsonl", "--db", db, status=0)
    assert restoring(log="default") == "esdedup undo default"
    Path("esdedup.toml").write_text("db = 'shared.db'\n", "utf-8")
    command = restoring(log="shared")
    assert command == "esdedup undo shared"
    assert restored(command) == 2
    Path("esdedup.toml").rename("named.toml")
    command = restoring("--settings", "named.toml", log="named")
    assert command == "esdedup undo named --db shared.db"
    assert restored(command) == 2
    Path("esdedup.toml").write_text("[dedup]\ndb = 'shared.db'\n", "utf-8")
    assert restoring(log="table") == "esdedup undo table --db shared.db"
    Path("esdedup.toml").unlink()
    monkeypatch.setenv("ESDEDUP_DB", "mine.db")
    command = restoring(log="variable")
    assert command == "esdedup undo variable"
    assert restored(command) == 2
    assert restoring("--db", "mine.db", log="option") == "esdedup undo option --db mine.db"


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.from_regex(r"https://[a-z]{1,9}(:[1-9][0-9]{0,3})?(/[a-z]{1,5})?", fullmatch=True),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_an_address_names_the_same_cluster_again_without_a_password(
    addresses: list[str], has_password: bool
) -> None:
    with_password = [
        address.replace("://", "://user:s3cret@") if has_password else address
        for address in addresses
    ]
    where = target_of("--url", ",".join(with_password)).where
    assert isinstance(where, Connection)
    option, url = typed_place(where)
    assert option == "--url"
    assert "s3cret" not in url
    again = target_of(option, url).where
    assert isinstance(again, Connection)
    assert again.addresses == where.addresses == tuple(addresses)


def test_a_cloud_deployment_and_a_variable_name_their_place() -> None:
    assert typed_place(target_of("--cloud-id", "ours:abc").where) == ["--cloud-id", "ours:abc"]
    with mock.patch.dict(os.environ, {"ESDEDUP_URL": NOWHERE}):
        assert typed_place(target_of().where) == []
        assert typed_place(target_of("--db", "mine.db").where) == ["--db", "mine.db"]


def target_of(*options: str) -> Target:
    """Return what options of a command name, which is then the command that runs."""
    stats = app.get_command(typer.Context(app), "stats")
    context = stats.make_context("stats", [*options])
    CONTEXT.set(context)
    names = ("url", "cloud_id", "db")
    return Target(**{name: context.params[name] for name in names})


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
