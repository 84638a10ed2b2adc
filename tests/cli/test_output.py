"""Control characters of documents are shown on a terminal, which does not obey them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import esdedup
from tests.helpers.commands import Ran, run_command, words

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\x08\r\x7f红"
"""A title, a cleared screen, and colours by an escape of one character."""

DOCUMENTS = [
    {"id": f"{name}\x1b[2J", "text": f"{EVIL} {words(1)} {number}"}
    for number, name in enumerate(("a", "b"))
]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "documents.db"
    with esdedup.open(path) as index:
        index.add(DOCUMENTS)
    return path


def ran(file: Path, *arguments: str) -> Ran:
    return run_command(*arguments, "--db", str(file))


COMMANDS = [
    ("similar", "--id", DOCUMENTS[0]["id"]),
    ("pairs",),
    ("group", "--dry-run"),
    ("explain", *(document["id"] for document in DOCUMENTS)),
    ("stats", "--hot", "3"),
    ("stop", "--over", "1"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_control_characters_of_documents_are_shown(file: Path, command: tuple[str, ...]) -> None:
    shown = ran(file, *command, "--table")
    assert shown.status == 0, shown.err
    assert "\ufffd[2J" in shown.out
    assert_plain(shown)


def test_control_characters_in_messages_are_shown(file: Path) -> None:
    failed = ran(file, "similar", "--id", "nobody\x1b[2J\x9b")
    assert failed.status == 1
    assert "nobody" in failed.err
    assert_plain(failed)
    bad = Path("bad.jsonl")
    bad.write_text(json.dumps({"id": "x\x1b[2J", "text": ["\x9b"]}) + "\n{\x1b\n")
    assert_plain(ran(file, "index", str(bad)))


def test_json_holds_what_documents_hold(file: Path) -> None:
    done = ran(file, "similar", "--id", DOCUMENTS[0]["id"], "--source")
    assert done.status == 0, done.err
    assert_plain(done)
    assert "红" in done.out
    (line,) = done.json
    (match,) = line["matches"]
    assert match["id"] == DOCUMENTS[1]["id"]
    assert match["source"]["text"] == DOCUMENTS[1]["text"]


def assert_plain(ran: Ran) -> None:
    """Nothing that a terminal obeys."""
    for text in (ran.out, ran.err):
        assert not {*text} & {"\x1b", "\x9b", "\x07", "\x08", "\r", "\x7f"}
