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
from pathlib import Path

from esdedup.exceptions import UsageError
from esdedup.proxy.http import Failed
from esdedup.proxy.splice import WORK

THREADS = min(2, os.cpu_count() or 1)
"""Threads that add tokens. Python runs one at a time, except in numpy and hashing."""
_MB = 1 << 20
_USUAL = 80 * _MB
_LEAST_FOR_BODIES = 6 * _MB
_PARTS = 6
"""Memory of a thread that adds tokens, in parts."""
_LEAST_PART = _SHORT = 1 << 16
_TOKENS = 1000
"""Bytes that the tokens and the answer of a document take, at most."""

log = logging.getLogger(__name__)


class Lane:
    """Bytes that requests share, each in its turn. A request larger than the lane has it alone."""

    def __init__(self, size: int, seconds: float) -> None:
        """seconds: that an impatient request may wait."""
        self.used = self.waiting = 0
        self._size = size
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, size: int, held: ExitStack, *, patient: bool = False) -> None:
        """Take bytes until `held` is closed, when there is room. Raises Failed (503) if late."""
        self.waiting += 1
        try:
            async with asyncio.timeout(None if patient else self._seconds), self._turn:
                while self.used and self.used + size > self._size:
                    self._freed.clear()
                    await self._freed.wait()
                self.used += size
        except TimeoutError:
            reason = f"no memory for a body was free for {self._seconds:g} s (--max-memory)"
            log.warning("refused a request: %s", reason)
            raise Failed.error(503, "circuit_breaking_exception", reason, retry=1) from None
        finally:
            self.waiting -= 1
        held.callback(self._give, size)

    def _give(self, size: int) -> None:
        self.used -= size
        self._freed.set()


class Memory:
    """The memory of a process, and the limits that follow from it, in bytes.

    text: of a text that gets tokens. part: of lines that are sent in one request. line: of a
    document that is held as a whole. size: of all bodies. arrived: of bodies, in no lane yet.
    turns: for those that parse long bodies.
    """

    def __init__(self, size: int = 256 * _MB, seconds: float = 30.0) -> None:
        """size: bytes of the process. seconds: that a request may wait for memory.

        Raises UsageError if the memory does not suffice for one long text.
        """
        self.text = size >> 8
        self.line = size >> 4
        self.part = min(2 * _MB, size >> 7)
        # What 250 clients have sent before they are asked to wait is 16 MB, of 256.
        connections = size >> 4
        others = _resident() + WORK * self.text + THREADS * _PARTS * self.part + connections
        self.size = size - others
        if self.size < _LEAST_FOR_BODIES:
            least = (others + _LEAST_FOR_BODIES) // _MB + 1
            raise UsageError(
                f"--max-memory of {size // _MB} MB for each process is too small: use {least} MB"
            )
        self.arrived = 0
        self.turns = asyncio.Semaphore(THREADS)
        self._short = Lane(self.size // 8, seconds)
        self._parts = Lane(3 * self.size // 8, seconds)
        self._long = Lane(self.size // 4, seconds)

    @property
    def used(self) -> int:
        """Bytes that are held."""
        return self.arrived + self._short.used + self._parts.used + self._long.used

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return self._short.waiting + self._parts.waiting + self._long.waiting

    def full(self, size: int) -> bool:
        """Return whether a body of which so many bytes have arrived may hold no more."""
        tight = self.arrived > self.size // 4
        return size >= self.part or (tight and size >= _LEAST_PART)

    async def take(self, size: int, documents: int, held: ExitStack, *, patient: bool) -> None:
        """Take the memory to send documents.

        size: of their lines. patient: wait as long as it takes. Raises Failed (503).
        """
        needed = 2 * size + _TOKENS * documents
        lane = self._short if needed <= _SHORT else self._parts
        await lane.take(needed, held, patient=patient)

    async def take_long(self, length: int, held: ExitStack, *, patient: bool) -> None:
        """Take the memory for a long document, before it has arrived. Raises Failed (503)."""
        await self._long.take(2 * min(length, self.line), held, patient=patient)


class Arriving:
    """The bytes of one body that have arrived and are not sent yet, in a `with` block."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._size = 0

    def hold(self, size: int) -> bool:
        """Set the bytes that are held. Returns whether the body may hold no more."""
        self._memory.arrived += size - self._size
        self._size = size
        return self._memory.full(size)

    def __enter__(self) -> Arriving:
        return self

    def __exit__(self, *_: object) -> None:
        self.hold(0)


def _resident() -> int:
    """Return the bytes of memory that this process has now, at most those of a proxy."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return _USUAL
    return min(pages * os.sysconf("SC_PAGE_SIZE"), _USUAL)
