"""Real nodes in processes of their own that tests can stop, kill and start again."""

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urldefrag

import httpx

from tests.helpers.http import HTTP
from tests.helpers.processes import end
from tests.servers.ports import free_port
from tools.servers.jars import Installation, install
from tools.servers.settings import (
    COMMON_SETTINGS,
    ELASTICSEARCH_FLAGS,
    LOG_CONFIGURATION,
    QUICK_START,
)

REQUIRE_VARIABLE = "ESDEDUP_REQUIRE_SERVERS"
"""Set in CI: a test whose server is missing fails."""

START_SECONDS = 300.0
STOP_SECONDS = 60.0


class NodeFailed(RuntimeError):
    """A node died or did not become ready; the message ends with the tail of its log."""


class Node:
    """One node and its home folder, which keeps the data across kill() and restart()."""

    secured = False
    _headers: Mapping[str, str] = {}

    def __init__(
        self,
        installation: Installation,
        home: Path,
        *,
        heap: str = "512m",
        name: str = "node-1",
        ports: tuple[int, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        jvm_flags: Sequence[str] = QUICK_START,
    ) -> None:
        """Prepare the home folder; launch() and await_ready() start the process."""
        self.installation = installation
        self.home = home.absolute()
        self.heap = heap
        self.name = name
        self.jvm_flags = tuple(jvm_flags)
        self._extra_settings = dict(settings or {})
        # A name of its own: a poll that reaches somebody else's node by accident must notice.
        own_name = f"esdedup-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]}"
        self._cluster_name = self._extra_settings.get("cluster.name", own_name)
        self._process: subprocess.Popen[bytes] | None = None
        self.http_port, self.transport_port = ports or (free_port(), free_port())

    @classmethod
    def start(
        cls,
        product: str,
        version: str,
        home: Path,
        heap: str = "512m",
        settings: Mapping[str, Any] | None = None,
        jvm_flags: Sequence[str] = QUICK_START,
    ) -> Self:
        """A running node of a cluster of one."""
        single = {"discovery.type": "single-node", **(settings or {})}
        installation = install(product, version, cls.secured)
        node = cls(installation, home, heap=heap, settings=single, jvm_flags=jvm_flags)
        node.launch()
        node.await_ready()
        return node

    @property
    def product(self) -> str:
        return self.installation.product

    @property
    def version(self) -> str:
        return self.installation.version

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def log_file(self) -> Path:
        return self.home / "node.log"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process and return at once."""
        if self.running:
            raise RuntimeError(f"{self.name} is running already")
        self._write_home()
        with self.log_file.open("ab") as log:
            # No node may outlive its tests. The launcher ends when its standard input closes,
            # which works on every system, from every thread, and even when we are SIGKILLed.
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.home
            )
        atexit.register(self.kill)

    def await_ready(self, nodes: int = 1) -> None:
        """Wait until the cluster is yellow or green with at least `nodes` nodes."""
        deadline = time.monotonic() + START_SECONDS
        while not self._ready(nodes):
            if not self.running:
                raise NodeFailed(f"{self._title()} died while starting:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise NodeFailed(
                    f"{self._title()} not ready after {START_SECONDS:.0f} s:\n{self._log_tail()}"
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """End the node as an administrator would; kills it if it does not end."""
        if self._process is not None:
            end(self._process, seconds=STOP_SECONDS)
        self._forget_process()

    def ask_to_stop(self) -> None:
        """Begin what stop() ends, so that several nodes can end at the same time."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """SIGKILL: the node gets no chance to write anything down."""
        if self._process is not None:
            self._process.kill()
        self._forget_process()

    def restart(self) -> None:
        """Start the node again on the same data and ports, stopping it first if it runs."""
        self.stop()
        self.launch()
        self.await_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _forget_process(self) -> None:
        if self._process is not None:
            self._process.wait()
            if self._process.stdin is not None:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()
            self._process = None
        atexit.unregister(self.kill)

    def _title(self) -> str:
        return f"{self.product} {self.version} ({self.name})"

    def _settings(self) -> dict[str, Any]:
        return {
            **COMMON_SETTINGS,
            "cluster.name": self._cluster_name,
            "node.name": self.name,
            "http.port": self.http_port,
            "transport.port": self.transport_port,
            **self._extra_settings,
        }

    def _write_home(self) -> None:
        config = self.home / "config"
        config.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(LOG_CONFIGURATION, config / "log4j2.properties")
        # JSON is YAML, so every value reads back as it is.
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in self._settings().items()]
        (config / f"{self.product}.yml").write_text("".join(lines), encoding="utf-8")
        modules = self.home / "modules"
        if self.installation.modules is not None:
            modules.unlink(missing_ok=True)
            modules.symlink_to(self.installation.modules)

    def _command(self) -> list[str]:
        elasticsearch = self.product == "elasticsearch"
        prefix = "es" if elasticsearch else "opensearch"
        native = self.installation.native_libraries
        return [
            self.installation.jdk.tool("java"),
            f"-Xms{self.heap}",
            f"-Xmx{self.heap}",
            *self.jvm_flags,
            *(ELASTICSEARCH_FLAGS if elasticsearch else ()),
            f"-D{prefix}.path.home={self.home}",
            *((f"-Des.nativelibs.path={native}",) if native is not None else ()),
            "-cp",
            self.installation.class_path,
            self.installation.launcher,
            str(self.home),
        ]

    def _ready(self, nodes: int) -> bool:
        address = f"{urldefrag(self.url).url}/_cluster/health"
        try:
            health = HTTP.get(address, headers=self._headers, timeout=5).json()
        except (httpx.TransportError, ValueError):
            return False
        return (
            health.get("cluster_name") == self._cluster_name
            and health.get("status") in ("yellow", "green")
            and health.get("number_of_nodes", 0) >= nodes
        )

    def _log_tail(self, size: int = 4000) -> str:
        with contextlib.suppress(OSError):
            return self.log_file.read_bytes()[-size:].decode("utf-8", "replace")
        return "(no log)"
