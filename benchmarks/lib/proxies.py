"""`esdedup proxy` for the benchmarks, in processes of its own."""

import http.client
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.lib.measuring import ESDEDUP

START_SECONDS = 60.0


class Proxy:
    """Runs after `start`. The end of the `with` block ends it. More options come after its own."""

    def __init__(self, upstream: str, folder: Path, options: Sequence[str] = ()) -> None:
        from tests.servers.ports import free_port

        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        # It ends with the thread that starts it, however that ends.
        self._command = ["setpriv", "--pdeathsig", "TERM", *ESDEDUP, "proxy"]
        self._command += ["--upstream", upstream, "--port", str(self.port)]
        self._command += options
        self._log_file = folder / f"proxy-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The leader of a session that has all its processes."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has logged so far, since its first start."""
        return self._log_file.read_text("utf-8", "replace")

    def start(self) -> None:
        """Start it and wait until it listens. Ends the program if it does not."""
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                sys.exit(f"{shlex.join(self._command)} did not start:\n{self.log[-5_000:]}")
            time.sleep(0.05)

    def stop(self) -> int:
        """End it by SIGTERM. Returns its status, once it has ended."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait()

    def kill(self) -> int:
        """End it by SIGKILL. Returns its status."""
        assert self._process is not None
        self._process.kill()
        return self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _listens(self) -> bool:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            link.request("GET", "/-/health/live")
            return link.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()
