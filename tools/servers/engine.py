"""A Docker engine for the tests of containers: the one that answers, or a daemon of their own.

Other tests do not know of our daemon, and take their servers from jars while it runs.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.servers.containers import engine_answers
from tools.servers.jars import cache_root
from tools.servers.jdk import Unavailable

DEFAULT_HOST = "unix:///var/run/docker.sock"
ON_DISK = "/var/tmp"
"""The folder for large files. The usual one of temporary files may be in memory."""

START_SECONDS = 60.0
STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Engine:
    """An engine that answers, by its address in the form of DOCKER_HOST."""

    host: str

    def docker(self, *arguments: str, **variables: str) -> str:
        """Return what `docker ARGUMENTS` prints. Raises AssertionError if it fails."""
        done = subprocess.run(
            ["docker", *arguments],
            env={**os.environ, "DOCKER_HOST": self.host, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"docker {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout


@contextlib.contextmanager
def running_engine() -> Iterator[Engine]:
    """The engine that answers, or one of our own, which ends with the block or with this process.

    Raises Unavailable if there is none and none can be started.
    """
    if shutil.which("docker") is None:
        raise Unavailable("docker is not installed")
    if engine_answers():
        yield Engine(os.environ.get("DOCKER_HOST", DEFAULT_HOST))
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        raise Unavailable(
            "no Docker engine answers, and only root can start one, where dockerd is installed"
        )
    import fcntl  # Not on Windows.

    cache_root().mkdir(parents=True, exist_ok=True)
    with (
        (cache_root() / "engine.lock").open("w") as lock,
        tempfile.TemporaryDirectory(
            prefix="esdedup-engine-", dir=ON_DISK, ignore_cleanup_errors=True
        ) as home,
    ):
        # Two daemons would share a network, as both call it docker0.
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _daemon(Path(home)) as engine:
            yield engine


@contextlib.contextmanager
def _daemon(home: Path) -> Iterator[Engine]:
    engine = Engine(f"unix://{home / 'docker.sock'}")
    # No daemon may outlive its tests, however they end.
    command = ["setpriv", "--pdeathsig", "TERM", "dockerd", "--host", engine.host]
    command += ["--data-root", str(home / "data"), "--exec-root", str(home / "exec")]
    command += ["--pidfile", str(home / "pid"), "--shutdown-timeout", "1"]
    log_file = home / "log"
    with log_file.open("wb") as log:
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(engine):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"dockerd did not start:\n{log_file.read_text()[-2000:]}")
            time.sleep(0.1)
        yield engine
    finally:
        daemon.terminate()
        try:
            daemon.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _answers(engine: Engine) -> bool:
    try:
        engine.docker("version")
    except AssertionError:
        return False
    return True
