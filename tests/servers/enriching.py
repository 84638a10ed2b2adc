"""`esdedup proxy` in a process of its own."""

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.helpers.processes import await_true, end, kill
from tests.servers.ports import free_port

_START_SECONDS = 60.0


class Enriching:
    """Listens once constructed; the end of the `with` block ends it and asserts a clean log."""

    def __init__(self, upstream: str, folder: Path, *options: str) -> None:
        port = free_port()
        self.address = ("127.0.0.1", port)
        self.url = f"http{'s' if '--certificate' in options else ''}://127.0.0.1:{port}"
        self._log_file = folder / f"proxy-{port}.log"
        program = str(Path(sys.executable).parent / "esdedup")
        arguments = ["proxy", "--upstream", upstream, "--port", str(port), *options]
        command = [program, *arguments]
        with self._log_file.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
        try:
            await_true("esdedup proxy listens", self._listens, _START_SECONDS, every=0.05)
        except AssertionError:
            kill(self.process)
            raise

    @property
    def log(self) -> str:
        """The log of the proxy so far."""
        return self._log_file.read_text("utf-8")

    @property
    def peak_mb(self) -> float:
        """The most memory that it has had resident, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        ended = self.process.poll()
        end(self.process)
        if kind is None:
            assert ended in (None, 0), self.log
            assert "Traceback" not in self.log, self.log

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.log
        try:
            with socket.create_connection(self.address, 5) as connection:
                # Of no TLS, but it closes the connection then, too.
                connection.sendall(b"GET /-/health/live HTTP/1.0\r\nhost: x\r\n\r\n")
                while connection.recv(1 << 16):
                    pass
        except OSError as error:
            return isinstance(error, ConnectionResetError)
        return True
