"""Control characters of documents are shown on a terminal, which does not obey them."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.text.characters import JSON_ESCAPES, visible
from tests.helpers.commands import Ran, run_command, words, write_lines
from tests.helpers.fuzz import fuzz
from tests.helpers.indices import fill_index
from tests.servers.proxy import Answer, Proxy

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\x08\r\x7f\u202e\u2066红"
"""A title, a cleared screen, colours by an escape of one character, and reversed characters."""

DOCUMENTS = [
    {"id": f"{name}\x1b[2J", "text": f"{EVIL} {words(1)} {number}"}
    for number, name in enumerate(("a", "b"))
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "documents.db"
    fill_index(path, DOCUMENTS)
    return path


def ran(file: Path, *arguments: str) -> Ran:
    return run_command(*arguments, "--db", str(file))


COMMANDS = [
    ("similar", "--id", DOCUMENTS[0]["id"]),
    ("pairs",),
    ("group", "--dry-run"),
    ("explain", *(document["id"] for document in DOCUMENTS)),
    ("stats", "--hot", "3"),
    ("stop", "--over", "1", "--yes"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_control_characters_of_documents_are_shown(file: Path, command: tuple[str, ...]) -> None:
    for form, found in (("--table", "\ufffd[2J"), ("--json", "{")):
        shown = ran(file, *command, form)
        assert (shown.status, found in shown.out) == (0, True), shown
        assert_plain(shown)
        run_command("stop", "--clear", "--db", str(file))


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A server that answers only what a test says."""
    with Proxy("http://127.0.0.1:1") as made:
        yield made


FORGED = f"busy{EVIL}\nError: all is well"


@pytest.mark.parametrize(("status", "retry_for"), [(503, "0.1s"), (500, "0"), (401, "0")])
def test_reasons_of_a_server_are_shown(proxy: Proxy, status: int, retry_for: str) -> None:
    error = {"type": "x", "reason": FORGED}
    headers = [("Content-Type", "application/json"), ("Warning", '299 - "\x1b[2J\x9b"')]
    proxy.answer_next(99, Answer(status, headers, json.dumps({"error": error}).encode()))
    failed = run_command("stats", "--url", proxy.url, "--retry-for", retry_for)
    assert failed.status in (1, 2)
    assert_plain(failed)
    # No line of the server begins like one of ours.
    assert [line for line in failed.err.splitlines() if line.startswith("Error")][1:] == []


def test_names_and_arguments_are_shown(proxy: Proxy) -> None:
    write_lines(Path("bad.jsonl"), [{"id": "x\x1b[2J", "text": ["\x9b"]}, "{\x1b"])
    for arguments in (
        ("stats", "--db", "absent/\x1b[2J"),
        ("stats", "--url", f"http://{EVIL}:9200"),
        ("stats", "--url", proxy.url, "-i", f"a*{EVIL}", "--retry-for", "0"),
        ("stats", f"--wrong{EVIL}"),
        (f"wrong{EVIL}",),
        ("pairs", "--recall", EVIL),
        ("explain", "a", EVIL),
        ("index", f"absent{EVIL}"),
        ("index", "bad.jsonl"),
    ):
        failed = run_command(*arguments)
        assert failed.status in (1, 2), arguments
        assert "Traceback" not in failed.err
        assert_plain(failed)


class Noisy(io.RawIOBase):
    """An input of one document. What reads it logs a message, and raises a warning."""

    def __init__(self) -> None:
        self._text = io.BytesIO(b'{"id": "c", "text": "one more text"}\n')

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._text.tell() == 0:
            logging.getLogger("some.client").warning("%s", FORGED)
            warnings.warn(FORGED, stacklevel=1)
        return self._text.readinto(buffer)


def test_warnings_and_logs_are_shown(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = run_command("index", "-", "--db", str(file), input=Noisy())
    assert done.status == 0
    assert "UserWarning: busy\ufffd]0;title" in done.err
    assert done.err.count("busy") == 2
    assert_plain(done)
    assert "\nError" not in done.err


@fuzz
@given(st.text(st.characters()))
def test_nothing_that_a_terminal_obeys_is_visible(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert not any(character in CONTROLS for character in shown)
    if not any(character in CONTROLS for character in text):
        assert shown == text
    # JSON means the same text.
    line = json.dumps(text, ensure_ascii=False).translate(JSON_ESCAPES)
    assert json.loads(line) == text
    assert not any(character in CONTROLS or character == "\n" for character in line)
    line.encode()


CONTROLS = {chr(point) for point in (*range(32), *range(127, 160), *range(0xD800, 0xE000))}
CONTROLS |= {*"\u061c\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}
CONTROLS -= {"\t", "\n"}


def assert_plain(ran: Ran) -> None:
    """Nothing that a terminal obeys."""
    for text in (ran.out, ran.err):
        assert not {*text} & CONTROLS
