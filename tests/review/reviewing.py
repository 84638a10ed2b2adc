"""`esdedup review` in a process of its own."""

from __future__ import annotations

import re
import signal
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from playwright.sync_api import Page

from tests.helpers.processes import await_true, end, start_command

_START_SECONDS = 60.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+")


class Reviewing:
    """Listens once constructed; the end of the `with` block ends it and asserts a clean log."""

    def __init__(self, folder: Path, *options: str) -> None:
        """folder: where it runs. options: the place, and others of `esdedup review`."""
        self._log_file = folder / f"review-{uuid.uuid4().hex}.log"
        arguments = ["review", *options, "--port", "0"]
        with self._log_file.open("wb") as log:
            self._process = start_command(*arguments, stdout=log, stderr=log, cwd=folder)
        try:
            await_true("esdedup review prints its address", self._printed, _START_SECONDS)
        except AssertionError:
            self._process.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """Everything that it has printed so far."""
        return self._log_file.read_text("utf-8")

    @property
    def url(self) -> str:
        """The address that it printed, with the token."""
        found = _ADDRESS.search(self.log)
        assert found is not None, self.log
        return found[0]

    def at(self, page: Page, path: str) -> str:
        """The address of a path, below the root of the pages, which a browser has open."""
        return f"{self.url.partition('/?')[0]}/{page.url.split('/')[3]}{path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        running = self._process.poll() is None
        end(self._process, by=signal.SIGINT)
        if kind is None:
            assert (running, self._process.returncode) == (True, 0), self.log
            assert self.log.count(self.url.partition("?token=")[2]) == 1
            assert "Traceback" not in self.log, self.log

    def _printed(self) -> bool:
        assert self._process.poll() is None, self.log
        return _ADDRESS.search(self.log) is not None
