"""`esdedup proxy` in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.ports import free_port

_START_SECONDS = 60.0


class Enriching:
    """Listens once constructed; the end of the `with` block ends it and asserts a clean log."""

    def __init__(self, upstream: str, folder: Path, *options: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log_file = folder / f"proxy-{port}.log"
        program = str(Path(sys.executable).parent / "esdedup")
        arguments = ["proxy", "--upstream", upstream, "--port", str(port), *options]
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen([program, *arguments], stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"esdedup proxy did not start: {self.log}")
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """The log of the proxy so far."""
        return self._log_file.read_text("utf-8")

    @property
    def peak_mb(self) -> float:
        """The most memory that it has had resident, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        running = self._process.poll() is None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if kind is None:
            assert running, self.log
            assert "Traceback" not in self.log, self.log

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.url, timeout=5).close()
        except urllib.error.HTTPError as error:
            error.close()  # The upstream's answer, or that there is none: it listens.
        except OSError:
            return False
        return True
