"""What a step of a job has done, in words, while it works and at its end."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MOST_SECONDS = 120
"""Shorter times are shown in seconds."""
_MOST_MINUTES = 100
"""Shorter times are shown in minutes."""
_UNITS = ("kB", "MB", "GB", "TB", "PB")


@dataclass
class Step:
    """What a step of a job has done.

    title: what it does.
    begun: when it began, in seconds of a clock.
    total_bytes: to read, or None if it is unknown.
    total_documents: to process, or None if it is unknown.
    bytes: that were read.
    documents: that were processed.
    candidates: pairs that were compared, or None of a step that compares none.
    shown: when it was last shown, in seconds of the clock.
    is_shown: a line has shown it.
    is_over: it has ended.
    """

    title: str
    begun: float
    total_bytes: int | None = None
    total_documents: int | None = None
    bytes: int = 0
    documents: int = 0
    candidates: int | None = None
    shown: float = 0.0
    is_shown: bool = False
    is_over: bool = False

    @property
    def fraction(self) -> float | None:
        """The part that is done, or None if it is unknown."""
        if self.total_bytes:
            return min(1.0, self.bytes / self.total_bytes)
        if self.total_documents:
            return min(1.0, self.documents / self.total_documents)
        return None

    def line(self, now: float) -> str:
        """Return what is done, how fast, and how much time is left."""
        passed, fraction = now - self.begun, self.fraction
        amounts = self._amounts()
        if passed > 0:
            amounts.append(f"{self.documents / passed:,.0f}/s")
        # A step may still work on what it has read: only its end is 100%.
        if fraction is not None and fraction < 1:
            amounts.append(f"{fraction:.0%}" if fraction < 0.99 else "99%")
            if fraction:
                amounts.append(f"about {duration(passed * (1 / fraction - 1))} left")
        return f"{self.title}: {', '.join(amounts)}"

    def end_line(self, now: float) -> str:
        """Return what was done, and how long it took."""
        documents = f"{self.documents:,} documents"
        amounts = [documents, *self._details(self.bytes)]
        return f"{self.title}: {', '.join(amounts)} in {duration(now - self.begun)}"

    def _amounts(self) -> list[str]:
        """Return the bytes, documents and candidates so far, of how many."""
        documents = f"{self.documents:,}"
        if self.total_documents is not None:
            documents += f" of {self.total_documents:,}"
        of_bytes: list[str] = []
        if self.total_bytes:
            # Compressed files have more bytes than are counted until their last block.
            read = min(self.bytes, self.total_bytes)
            of_bytes = [f"{amount_of_bytes(read)} of {amount_of_bytes(self.total_bytes)}"]
        return [*of_bytes, f"{documents} documents", *self._details(0)]

    def _details(self, number_of_bytes: int) -> list[str]:
        """Return bytes, unless there are none, and candidates, unless none are compared."""
        details = [amount_of_bytes(number_of_bytes)] if number_of_bytes else []
        if self.candidates is not None:
            details.append(f"{self.candidates:,} candidates")
        return details


def amount_of_bytes(number: int) -> str:
    """Return a number of bytes in a unit of the decimal system."""
    if number < 1000:
        return f"{number} bytes"
    power = min(len(_UNITS), (len(str(number)) - 1) // 3)
    return f"{number / 1000**power:.1f} {_UNITS[power - 1]}"


def duration(seconds: float) -> str:
    """Return a time in seconds, or in minutes or hours if it is long."""
    if seconds < _MOST_SECONDS:
        return f"{math.ceil(seconds)} s"
    if seconds < 60 * _MOST_MINUTES:
        return f"{math.ceil(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
