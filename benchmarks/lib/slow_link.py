"""A TCP proxy that delays all bytes, and counts the requests.

    python -m benchmarks.lib.slow_link PORT SERVER_PORT MILLISECONDS MBIT

Every byte arrives MILLISECONDS later, in each direction, and at most MBIT a second in each; 0 for
no limit. The number of requests so far is in the answer to a connection that sends an empty line.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

_AT_ONCE = 1 << 20
_METHODS = (b"GET ", b"PUT ", b"POST ", b"HEAD ", b"DELETE ")


class Link:
    """A running link. url: its address."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def requests(self) -> int:
        """Return the number of requests so far."""
        with socket.create_connection(("127.0.0.1", self.port), 5.0) as told:
            told.sendall(b"\n")
            return int(told.recv(64))


@contextlib.contextmanager
def slow_link(server_port: int, milliseconds: float, mbit: float = 0.0) -> Iterator[Link]:
    """A link in a process of its own, which ends with the block."""
    from tests.servers.ports import free_port

    link = Link(free_port())
    given = map(str, (link.port, server_port, milliseconds, mbit))
    with subprocess.Popen([sys.executable, "-m", "benchmarks.lib.slow_link", *given]) as process:
        try:
            deadline = time.monotonic() + 30.0
            while True:
                with contextlib.suppress(OSError):
                    link.requests()
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("the slow link did not start")
                time.sleep(0.05)
            yield link
        finally:
            process.terminate()


class _Line:
    """One direction of the link, which all connections share."""

    def __init__(self, delay: float, mbit: float) -> None:
        self._delay, self._seconds = delay, 8e-6 / mbit if mbit else 0.0
        self._free = 0.0

    def arrival(self, size: int, now: float) -> float:
        """Return the time at which bytes that are sent now arrive."""
        self._free = max(now, self._free) + size * self._seconds
        return self._free + self._delay


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line) -> None:
    """Pass bytes on, each when it arrives, also while others wait."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def write() -> None:
        while True:
            at, data = await waiting.get()
            await asyncio.sleep(at - loop.time())
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    writing = asyncio.create_task(write())
    with contextlib.suppress(OSError):
        while data := await reader.read(_AT_ONCE):
            waiting.put_nowait((line.arrival(len(data), loop.time()), data))
    waiting.put_nowait((line.arrival(0, loop.time()), b""))
    with contextlib.suppress(OSError):
        await writing


async def _serve(port: int, server_port: int, delay: float, mbit: float) -> None:
    requests = 0
    there, back = _Line(delay, mbit), _Line(delay, mbit)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        first = await reader.read(_AT_ONCE)
        if first == b"\n":
            writer.write(str(requests).encode())
            await writer.drain()
            writer.close()
            return
        answers, server = await asyncio.open_connection("127.0.0.1", server_port, limit=_AT_ONCE)
        counted = asyncio.StreamReader(_AT_ONCE)

        async def count() -> None:
            nonlocal requests
            data = first
            while data:
                # A request begins a packet, because no client sends one before the last answer.
                requests += data.startswith(_METHODS)
                counted.feed_data(data)
                data = await reader.read(_AT_ONCE)
            counted.feed_eof()

        await asyncio.gather(count(), _pass(counted, server, there), _pass(answers, writer, back))

    async with await asyncio.start_server(serve, "127.0.0.1", port, limit=_AT_ONCE) as server:
        await server.serve_forever()


if __name__ == "__main__":
    given = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1_000, float(sys.argv[4])
    asyncio.run(_serve(*given))
