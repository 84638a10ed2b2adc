"""Sends a request again, after a wait, if the server is not ready (429, 502, 503, 504).

`errors.error_of` makes such answers StoreUnavailable. Whole requests are sent again by `retrying`.
Of a bulk request, `bulk` sends only the refused documents again. `BulkPolicy` governs all of them.
"""

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
    """Sizes of bulk requests, number of retries, and waits before them.

    actions, bytes: maximum of one bulk request; a larger document goes alone. retries: after the
    first try. base, cap: seconds; the wait before retry n is drawn from the upper half of
    min(cap, base * 2**n).
    """

    actions: int = 1_000
    bytes: int = 5_000_000
    retries: int = 6
    base: float = 0.5
    cap: float = 30.0

    def delay(self, retry: int) -> float:
        """Returns the seconds to wait before a retry, which counts from 0."""
        longest = min(self.cap, self.base * 2.0**retry)
        return longest * random.uniform(0.5, 1.0)


def wait(policy: BulkPolicy, retry: int, reason: str) -> None:
    """Waits before a retry, and logs the reason."""
    delay = policy.delay(retry)
    log.warning("%s; trying again in %.1f s", reason, delay)
    time.sleep(delay)


def retrying(call: Callable[[], Answer], policy: BulkPolicy) -> Answer:
    """Makes a call, again while it raises StoreUnavailable, until the retries run out."""
    for retry in range(policy.retries):
        try:
            return call()
        except StoreUnavailable as error:
            wait(policy, retry, str(error))
    return call()
