"""How hard to work: processes, machines, and documents a second."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from esdedup.exceptions import UsageError
from esdedup.models import MOST_SLICES, WHOLE, Share

_LANES = 8
"""Slices of a machine's share, whatever its workers."""


@dataclass(frozen=True)
class Effort:
    """How hard to work.

    workers: processes. share: this machine's. rate: most documents a second, or None; of all
    workers of this machine together.
    """

    workers: int = 1
    share: Share = WHOLE
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"workers {self.workers}: use at least 1")
        if self.rate is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise UsageError(f"rate {self.rate}: use a number of documents a second above 0")


def slices(effort: Effort) -> list[list[dict[str, Any] | None]]:
    """The slices of a search that each worker reads, one after the other; None for all of it.

    A machine's share is the same whatever the number of its workers, and of the others'.
    """
    workers, share = effort.workers, effort.share
    if share.of > 1:
        lanes = max(1, min(_LANES, MOST_SLICES // share.of))
        first, most = (share.number - 1) * lanes, share.of * lanes
        mine: list[dict[str, Any] | None] = [
            {"field": "_seq_no", "id": first + lane, "max": most} for lane in range(lanes)
        ]
        return [mine[worker::workers] for worker in range(min(workers, lanes))]
    if workers > 1:
        return [[{"id": worker, "max": workers}] for worker in range(workers)]
    return [[None]]


class Pace:
    """Holds one worker to its part of the rate."""

    def __init__(self, effort: Effort) -> None:
        self._rate = None if effort.rate is None else effort.rate / effort.workers
        self._began = time.monotonic()
        self._read = 0

    def page(self, most: int) -> int:
        """How many documents to read at once: the cluster is not hit by more than a second's."""
        return most if self._rate is None else max(1, min(most, math.ceil(self._rate)))

    def keep(self, read: int) -> None:
        """Sleeps where these documents came too soon."""
        self._read += read
        if self._rate is not None:
            time.sleep(max(0.0, self._began + self._read / self._rate - time.monotonic()))
