"""The memory that bodies may take: bytes that arrive, and lanes for what is sent on.

Bytes count as they arrive. A `_bulk` body is sent on in parts, and when memory is tight a part is
cut early, so slow clients hold little. What is made for the upstream takes its turn in a lane;
short bodies have a lane of their own, so that they never wait for long ones.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from esdedup.exceptions import UsageError
from esdedup.proxy.http import Failed
from esdedup.proxy.splice import WORK

THREADS = min(2, os.cpu_count() or 1)
"""Threads that add tokens. Python runs one at a time but for numpy and hashing."""
_MB = 1 << 20
_USUAL = 80 * _MB
_LEAST_FOR_BODIES = 6 * _MB
_PARTS = 6
"""Memory of a thread that adds tokens, in parts."""
_LEAST_PART = 1 << 16
_SHORT = 1 << 16
_TOKENS = 1000
"""Bytes that the tokens and the answer of a document take, at most."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Limits of the process and of each request.

    memory: bytes for the whole process. max_text: bytes up to which a text gets tokens; None for a
    share of the memory. body_seconds: that a client may be silent before the end of a body.
    wait_seconds: that a request may wait for memory.
    """

    memory: int = 256 * _MB
    max_text: int | None = None
    body_seconds: float = 60.0
    wait_seconds: float = 30.0

    @property
    def text(self) -> int:
        """Bytes up to which a text gets tokens."""
        return self.max_text or self.memory >> 8

    @property
    def part(self) -> int:
        """Bytes of lines that are sent in one request. While one is written, the next is made."""
        return min(2 * _MB, self.memory >> 7)

    @property
    def line(self) -> int:
        """Bytes of a document that is held as a whole."""
        return max(self.memory >> 4, 2 * self.text)

    def bodies(self) -> int:
        """Return the bytes for all bodies of this process, beside all else.

        Raises UsageError if the memory does not suffice for one long text.
        """
        # What 250 clients have sent before they are asked to wait is 16 MB, of 256.
        connections = self.memory >> 4
        others = _resident() + WORK * self.text + THREADS * _PARTS * self.part + connections
        if self.memory < others + _LEAST_FOR_BODIES:
            least = (others + _LEAST_FOR_BODIES) // _MB + 1
            raise UsageError(
                f"--max-memory of {self.memory // _MB} MB for each process is too small: texts of"
                f" up to {self.text / _MB:g} MB (--max-text) need {least} MB"
            )
        return self.memory - others


class Lane:
    """Bytes that requests share, each in its turn. A request larger than the lane has it alone."""

    def __init__(self, size: int) -> None:
        self.used = self.waiting = 0
        self._size = size
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, size: int, held: ExitStack, seconds: float | None) -> None:
        """Take bytes until `held` is closed, when there is room. Raises Failed (503) if late."""
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds), self._turn:
                while self.used and self.used + size > self._size:
                    self._freed.clear()
                    await self._freed.wait()
                self.used += size
        except TimeoutError:
            reason = f"no memory for a body was free for {seconds:g} s (--max-memory)"
            log.warning("refused a request: %s", reason)
            raise Failed.error(503, "circuit_breaking_exception", reason, retry=1) from None
        finally:
            self.waiting -= 1
        held.callback(self._give, size)

    def _give(self, size: int) -> None:
        self.used -= size
        self._freed.set()


class Memory:
    """The memory of all bodies. arrived: bytes that no lane counts yet."""

    def __init__(self, limits: Limits) -> None:
        """Raise UsageError if the memory does not suffice."""
        self.limits = limits
        self.size = limits.bodies()
        self.arrived = 0
        self._short = Lane(self.size // 8)
        self._parts = Lane(3 * self.size // 8)
        self._long = Lane(self.size // 4)
        self._lanes = (self._short, self._parts, self._long)

    @property
    def used(self) -> int:
        """Bytes that are held."""
        return self.arrived + sum(lane.used for lane in self._lanes)

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return sum(lane.waiting for lane in self._lanes)

    def full(self, size: int) -> bool:
        """Return whether a body of which so many bytes have arrived may hold no more."""
        tight = self.arrived > self.size // 4
        return size >= self.limits.part or (tight and size >= _LEAST_PART)

    async def take(self, size: int, documents: int, held: ExitStack, *, patient: bool) -> None:
        """Take the memory to send documents.

        size: of their lines. patient: wait as long as it takes. Raises Failed (503).
        """
        needed = 2 * size + _TOKENS * documents
        lane = self._short if needed <= _SHORT else self._parts
        await lane.take(needed, held, None if patient else self.limits.wait_seconds)

    async def take_long(self, length: int, held: ExitStack, *, patient: bool) -> None:
        """Take the memory for a long document, before it has arrived. Raises Failed (503)."""
        size = 2 * min(length, self.limits.line)
        await self._long.take(size, held, None if patient else self.limits.wait_seconds)


class Arriving:
    """The bytes of one body that have arrived and are not sent yet. Use it in a `with` block."""

    def __init__(self, memory: Memory) -> None:
        self.size = 0
        self._memory = memory

    def hold(self, size: int) -> bool:
        """Set the bytes that are held. Returns whether the body may hold no more."""
        self._memory.arrived += size - self.size
        self.size = size
        return self._memory.full(size)

    def __enter__(self) -> Arriving:
        return self

    def __exit__(self, *_: object) -> None:
        self.hold(0)


def _resident() -> int:
    """Return the bytes of memory that this process has now, or a usual figure.

    A proxy has 75 MB. If it runs within a larger program, the rest is not its own.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return _USUAL
    return min(pages * os.sysconf("SC_PAGE_SIZE"), _USUAL)
