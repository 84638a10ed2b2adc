"""Commands in this process, plain requests to servers, and made-up texts."""

import contextlib
import gc
import io
import json
import logging
import os
import sys
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

import numpy as np

from esdedup.cli import main
from esdedup.cli.surroundings import Surroundings


def call(url: str, method: str, path: str, body: Any = None) -> Any:
    """Send a request; `body` is an object, or a list, sent as lines."""
    data = None
    if isinstance(body, list):
        data = "".join(json.dumps(line) + "\n" for line in body).encode()
    elif body is not None:
        data = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None


def fill(url: str, index: str, documents: dict[str, dict[str, Any]], verb: str = "index") -> None:
    """Write documents without tokens, by id, and refreshes."""
    lines = [line for id, source in documents.items() for line in ({verb: {"_id": id}}, source)]
    for first in range(0, len(lines), 4_000):
        answer = call(url, "POST", f"/{index}/_bulk", lines[first : first + 4_000])
        assert not answer["errors"], answer
    call(url, "POST", f"/{index}/_refresh")


def all_documents(url: str, index: str) -> dict[str, dict[str, Any]]:
    """Return the sources of all documents at one moment, at most 10,000, by id."""
    call(url, "POST", f"/{index}/_refresh")
    answer = call(url, "POST", f"/{index}/_search", {"size": 10_000, "track_total_hits": True})
    assert answer["_shards"]["successful"] == answer["_shards"]["total"]
    found = {hit["_id"]: hit["_source"] for hit in answer["hits"]["hits"]}
    assert len(found) == answer["hits"]["total"]["value"]
    return found


def words(seed: int, count: int = 40) -> str:
    """Return a text that is unlike that of any other seed."""
    rng = np.random.default_rng(seed)
    return " ".join(f"w{number}" for number in rng.integers(0, 10**9, count).tolist())


@dataclass(frozen=True)
class Ran:
    """The output and exit status of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def esdedup_command(url: str, *arguments: str, status: int | None = None) -> Ran:
    """Run a command on a cluster in this process. status: that it must end with; None for any."""
    return run_command(*arguments, "--url", url, status=status)


def run_command(
    *arguments: str,
    status: int | None = None,
    input: str | io.RawIOBase = "",
    environment: Mapping[str, str] | None = None,
    terminal: bool = False,
    out: TextIO | None = None,
    err: io.StringIO | None = None,
    surroundings: Surroundings | None = None,
) -> Ran:
    """Run a command in this process, as if its input and output were pipes, or a terminal.

    status: that it must end with, without a traceback; None for any.
    out: a file for its output, which is not read then. err: what its messages are written to.
    Settings of the process that the program changes are restored.
    """
    exit_status: Any = 0
    raw = io.BytesIO(input.encode()) if isinstance(input, str) else io.BufferedReader(input)
    kept, err, given = io.StringIO(), err or io.StringIO(), io.TextIOWrapper(raw)
    kept.isatty = err.isatty = given.isatty = lambda: terminal  # type: ignore[method-assign]
    with (
        _process_settings_kept(),
        mock.patch.dict(os.environ, environment or {}),
        # contextlib redirects the other two streams of a process, and not this one.
        mock.patch.object(sys, "stdin", given),
        contextlib.redirect_stdout(out or kept),
        contextlib.redirect_stderr(err),
    ):
        try:
            main(arguments, surroundings)
        except SystemExit as exit:
            exit_status = exit.code
    ran = Ran(int(exit_status or 0), kept.getvalue(), err.getvalue())
    if status is not None:
        assert ran.status == status, f"{' '.join(arguments)}: {ran.status}\n{ran.err}{ran.out}"
        assert "Traceback" not in ran.err, ran.err
    return ran


@contextlib.contextmanager
def _process_settings_kept() -> Iterator[None]:
    """Return the program a process without handlers of logs, and restore its settings."""
    loggers = [logging.getLogger(name) for name in (None, "elastic_transport")]
    levels = [logger.level for logger in loggers]
    handlers, thresholds = loggers[0].handlers, gc.get_threshold()
    hooks = warnings.showwarning, sys.excepthook
    loggers[0].handlers = []
    try:
        yield
    finally:
        loggers[0].handlers = handlers
        warnings.showwarning, sys.excepthook = hooks
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        gc.set_threshold(*thresholds)


def read_lines(path: str | Path) -> list[dict[str, Any]]:
    """Return the records of a file of JSON lines."""
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def write_lines(path: Path, records: list[Any]) -> None:
    """Write a file of JSON lines. Strings are written as they are."""
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
    path.write_text("".join(line + "\n" for line in lines), "utf-8", "surrogateescape")
