"""No command writes into another place than was meant: empty options, and reports of the place."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.conftest import delete_index
from tests.helpers.commands import call, fill, run_command, write_lines

VARIABLES = [
    "url", "index", "db", "username", "password", "api_key", "bearer_token", "ca_certs",
    "cert_fingerprint", "cloud_id",
]  # fmt: skip
SAME = [{"id": str(n), "text": "one two three four five"} for n in range(3)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "same.jsonl", SAME)
    return tmp_path


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_value_is_refused(folder: Path, name: str, value: str) -> None:
    """As a failed expansion in a script gives it."""
    variable, option = f"ESDEDUP_{name.upper()}", f"--{name.replace('_', '-')}"
    for command in (["index", "same.jsonl"], ["stats"], ["dedup"]):
        ran = run_command(*command, environment={variable: value})
        assert (ran.status, variable in ran.err, "empty" in ran.err) == (2, True, True), ran
        ran = run_command(*command, option, value)
        said = "empty" in ran.err or (name == "db" and "is a directory" in ran.err)
        assert (ran.status, option in ran.err, said) == (2, True, True), ran
        assert [path.name for path in folder.iterdir()] == ["same.jsonl"]


def test_reports_name_the_file(folder: Path) -> None:
    place = {"index": "news", "address": str(folder / "sub" / "a.db")}
    (folder / "sub").mkdir()
    target = ["--index", "news", "--db", "sub/a.db"]
    commands = [
        ["index", "same.jsonl"],
        ["group"],
        ["dedup", "--apply", "--action", "mark", "--yes", "--log", "log"],
        # The log names the index.
        ["undo", "log", "--yes"],
    ]
    for command in commands:
        named = target if command[0] != "undo" else target[2:]
        (report,) = run_command(*command, *named).json
        assert place.items() <= report.items()
    shown = run_command("index", "same.jsonl", *target, "--table")
    assert "Index 'news' in sub/a.db" in shown.out
    stopped = run_command("stop", "--over", "1", "--yes", *target)
    assert "The stop list of index 'news' in sub/a.db has" in stopped.err


def test_reports_name_the_cluster(folder: Path, url: str) -> None:
    name = f"esdedup-places-{uuid.uuid4().hex[:12]}"
    with_password = url.replace("http://", "http://user:s3cret@")
    place = {"index": name, "address": url}
    target = ["--index", name, "--url", with_password]
    try:
        call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
        fill(url, name, {each["id"]: {"text": each["text"]} for each in SAME})
        bare = run_command("group", *target)
        assert (bare.status, f"run `esdedup attach -i {name}`" in bare.err) == (1, True)
        attached = run_command("attach", *target)
        assert f"got the field 'esdedup' at {url}" in attached.err
        for acting in ("pairs", "group", "dedup"):
            bare = run_command(acting, *target)
            assert (bare.status, bare.out) == (1, "")
            assert f"has tokens: run `esdedup backfill -i {name}`" in bare.err
        commands = [
            ["backfill"],
            ["index", "same.jsonl"],
            ["group"],
            ["dedup", "--apply", "--action", "delete", "--yes", "--log", "log"],
            ["undo", "log", "--yes"],
        ]
        for command in commands:
            ran = run_command(*command, *target)
            assert ran.json, ran
            assert all(place.items() <= report.items() for report in ran.json), ran
            assert "s3cret" not in ran.out + ran.err
    finally:
        delete_index(url, name)
