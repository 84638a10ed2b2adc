"""The memory that bodies may take together, and the limits that follow from it."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from esdedup.exceptions import UsageError
from esdedup.proxy.http import Failed
from esdedup.proxy.splice import WORK

_MB = 1 << 20
_USUAL = 80 * _MB
_LEAST_FOR_BODIES = 6 * _MB
_PARTS = 16
"""Parts of memory beside bodies: some for the one request that may take more than is free, and some
for each thread that makes tokens."""
_SLOW_SECONDS = 5.0
_SLOW_BYTES = 1 << 18
"""A client that sends less in this time is slow."""


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

    def need(self, length: int) -> int:
        """Bytes for a `_bulk` body of a length: two parts, as they come and with tokens."""
        return min(3 * length, 6 * self.part)

    @property
    def line(self) -> int:
        """Bytes of a document that is held as a whole."""
        return max(self.memory >> 4, 2 * self.text)

    def bodies(self) -> int:
        """Bytes for all bodies that this process holds at a time, beside all else.

        Raises UsageError if the memory does not suffice for one long text.
        """
        # What 250 clients have sent before they are asked to wait is 16 MB, of 256.
        connections = self.memory >> 4
        others = _resident() + WORK * self.text + _PARTS * self.part + connections
        if self.memory < others + _LEAST_FOR_BODIES:
            least = (others + _LEAST_FOR_BODIES) // _MB + 1
            raise UsageError(
                f"--max-memory of {self.memory // _MB} MB for each process is too small: texts of"
                f" up to {self.text / _MB:g} MB (--max-text) need {least} MB"
            )
        return self.memory - others


class Budget:
    """Bytes that all requests share. A request that does not fit waits for its turn.

    If all is taken, the first request that needs more gets it nevertheless, until it ends. So one
    request always goes on, and frees its share.
    """

    def __init__(self, size: int, wait_seconds: float) -> None:
        self.size = size
        self.used = 0
        self._seconds = wait_seconds
        self._first: Hold | None = None
        self._waiting: deque[tuple[Hold, int, asyncio.Future[None]]] = deque()

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Yield the share of one request, which begins with nothing, and frees it at the end."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            if self._first is hold:
                self._first = None
            hold.end()
            self.free(hold, hold.taken)

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    async def take(self, hold: Hold, size: int) -> None:
        """Take bytes for a share, when there is room. Raises Failed (503) if there is none."""
        if hold is self._first or (not self._waiting and self._fits(hold, size)):
            self.used += size
            hold.taken += size
            return
        turn = (hold, size, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(None if hold.patient else self._seconds):
                await turn[2]
        except TimeoutError:
            reason = f"no memory for a body was free for {self._seconds:g} s (--max-memory)"
            raise Failed.error(503, "circuit_breaking_exception", reason, retry=1) from None
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)
                self._go_on()

    def free(self, hold: Hold, size: int) -> None:
        """Return bytes of a share back, and let others go on."""
        self.used -= size
        hold.taken -= size
        if self.used <= self.size:
            self._first = None
        self._go_on()

    def _fits(self, hold: Hold, size: int) -> bool:
        if self.used + size > self.size and self._first is None:
            self._first = hold
        return hold is self._first or self.used + size <= self.size

    def _go_on(self) -> None:
        while self._waiting:
            hold, size, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(hold, size):
                    return
                self.used += size
                hold.taken += size
                turn.set_result(None)
            self._waiting.popleft()


class Hold:
    """The bytes that one request holds.

    A request reserves memory for its body before it reads it. So requests wait before they hold
    anything, and those that have begun can end. If a client sends little for seconds, the bytes
    that it does not use yet become free. taken: bytes of the budget. patient: it waits as long as
    need be.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._used = 0
        self._reserved = 0
        self._grown = 0
        self._timer: asyncio.TimerHandle | None = None
        self.taken = 0
        self.patient = False

    async def reserve(self, size: int) -> None:
        """Take bytes ahead of use. Raises Failed (503)."""
        await self._budget.take(self, size)
        self._reserved = size
        self._watch()

    async def grow(self, size: int) -> None:
        """Use more bytes, and wait for them if need be. Raises Failed (503)."""
        self._used += size
        self._grown += size
        if self._used > self.taken:
            await self._budget.take(self, self._used - self.taken)

    def shrink(self, size: int) -> None:
        """Return bytes back."""
        self._used -= size
        self._free()

    def end(self) -> None:
        """End the watch over a slow client."""
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        self._grown = 0
        self._timer = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._judge)

    def _judge(self) -> None:
        if self._grown < _SLOW_BYTES:
            self._reserved = 0
            self._free()
        else:
            self._watch()

    def _free(self) -> None:
        if (unused := self.taken - max(self._used, self._reserved)) > 0:
            self._budget.free(self, unused)


def _resident() -> int:
    """Bytes of memory that this process has now; a usual figure if the system does not tell.

    A proxy has 75 MB. If it runs within a larger program, the rest is not its own.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return _USUAL
    return min(pages * os.sysconf("SC_PAGE_SIZE"), _USUAL)
