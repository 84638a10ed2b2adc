"""What starts and ends: commands in processes of their own, servers, and conditions to wait for."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseServer
from typing import Any

import esdedup

CLI = Path(__file__).parents[2] / "cli.py"
SMALL_PAGES = Path(__file__).parent / "small_pages.py"


def start_command(*arguments: str, script: Path = CLI, **options: Any) -> subprocess.Popen[str]:
    """Start a command; `options` are those of Popen."""
    command = [sys.executable, "-P", str(script), *arguments]
    return subprocess.Popen(command, text=True, **options)


def kill(process: subprocess.Popen[Any]) -> int:
    """Kill a process, if it runs, and return its exit status: -9 if it ran."""
    process.kill()
    return process.wait()


def end(
    process: subprocess.Popen[Any], by: signal.Signals = signal.SIGTERM, seconds: float = 30
) -> int:
    """Ask a process to end, kill it if it has not ended in time, and return its exit status."""
    process.send_signal(by)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return kill(process)


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Let a server answer requests in a thread, and close it at the end of the block."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def input_without_end(text: str) -> Iterator[int]:
    """Return a standard input that holds a text and do not end, so that its reader does not."""
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(OSError), open(writing, "w", closefd=False) as stream:
            stream.write(text)

    thread = threading.Thread(target=write)
    thread.start()
    yield reading
    os.close(reading)
    thread.join()
    os.close(writing)


def await_true(
    what: str, true: Callable[[], bool], seconds: float = 300, *, every: float = 0.02
) -> None:
    """Wait until a condition holds, and looks again after each interval, in seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not after {seconds} s: {what}"
        time.sleep(every)


def await_documents(process: subprocess.Popen[str], file: Path, least: int = 1) -> None:
    """Wait until a command that still runs has written documents into a local file."""

    def written() -> bool:
        assert process.poll() is None
        if not file.exists():
            return False
        with esdedup.open(file) as index:
            return index.store.meta() is not None and index.statistics().documents >= least

    await_true("documents are written", written)


def at_once(works: Sequence[Callable[[], object]]) -> list[esdedup.EsdedupError | None]:
    """Do all works at the same time, in threads. Return the refusal of each, or None."""
    together = threading.Barrier(len(works))

    def do(work: Callable[[], object]) -> esdedup.EsdedupError | None:
        together.wait()
        try:
            work()
        except esdedup.EsdedupError as error:
            return error
        return None

    with ThreadPoolExecutor(len(works)) as pool:
        return [*pool.map(do, works)]


def processes() -> list[tuple[int, int]]:
    """The numbers and parents of all processes but those that have ended."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rows = [line.split(maxsplit=3) for line in listed.stdout.splitlines()]
    # The watcher over shared memory ends by itself, later.
    return [
        (int(pid), int(parent))
        for pid, parent, state, *args in rows
        if not state.startswith("Z") and "resource_tracker" not in "".join(args)
    ]


def children(process: subprocess.Popen[str]) -> set[int]:
    """The numbers of a process's children that have not ended."""
    return {pid for pid, parent in processes() if parent == process.pid}


def await_ended(pids: set[int]) -> None:
    """Wait until none of these processes is left."""
    await_true("processes ended", lambda: not pids & {pid for pid, _ in processes()}, 60)
