"""When to send a request again, and how long to wait before."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from esdedup.exceptions import StoreUnavailable

log = logging.getLogger("esdedup")

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class BulkPolicy:
    """Sizes of bulk requests, and how often and how soon requests are sent again.

    actions, bytes: of one bulk request, at most (one larger document goes alone). retries: after
    the first try. base, cap: seconds; the wait before retry n is drawn from the upper half of
    min(cap, base * 2**n).
    """

    actions: int = 1_000
    bytes: int = 5_000_000
    retries: int = 6
    base: float = 0.5
    cap: float = 30.0

    def delay(self, retry: int) -> float:
        """Seconds to wait before a retry, counted from 0."""
        longest = min(self.cap, self.base * 2.0**retry)
        return longest * random.uniform(0.5, 1.0)


def wait(policy: BulkPolicy, retry: int, reason: str) -> None:
    """Waits before a retry, and says why."""
    delay = policy.delay(retry)
    log.warning("%s; trying again in %.1f s", reason, delay)
    time.sleep(delay)


def retrying(call: Callable[[], Answer], policy: BulkPolicy) -> Answer:
    """The answer of a call that may be made again while it raises StoreUnavailable.

    Raises the last StoreUnavailable when the retries have run out.
    """
    for retry in range(policy.retries):
        try:
            return call()
        except StoreUnavailable as error:
            wait(policy, retry, str(error))
    return call()
