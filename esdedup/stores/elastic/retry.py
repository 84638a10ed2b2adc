"""Retry a request, with backoff, that got no answer or that the server was not ready for.

Not ready are the statuses 429, 502, 503 and 504, of a request or of an item of a bulk request
(`errors.error_of` makes them StoreUnavailable). Every request may be sent twice without harm:
documents have ids, and a change names the version that it is for.
"""

import logging
import math
import random
import time
from collections.abc import Callable
from typing import TypeVar

from esdedup.exceptions import StoreError, StoreUnavailable

log = logging.getLogger("esdedup")

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 10.0
_LOG_EVERY = 30.0
"""Seconds between two messages about waiting."""

Answer = TypeVar("Answer")


class Retries:
    """The retries of one connection.

    total: seconds from the first failure of a request in which it is retried; 0 for never.
    """

    def __init__(self, total: float) -> None:
        self.total = total
        self.logged_at = -math.inf

    def until_answered(
        self, call: Callable[[], Answer], but_not: tuple[type[StoreError], ...] = ()
    ) -> Answer:
        """Retry a call while it raises StoreUnavailable, until the time is up.

        but_not: errors to raise immediately.
        """
        attempts = Attempts(self)
        while True:
            try:
                return call()
            except but_not:
                raise
            except StoreUnavailable as error:
                if not attempts.wait(error):
                    raise attempts.given_up(error) from error


class Attempts:
    """The attempts at one request, from its first failure on."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._failures = 0
        self._until = math.inf

    def wait(self, error: StoreError) -> bool:
        """Sleep before the next attempt. Return False without sleeping if the time is up."""
        now, retries = time.monotonic(), self._retries
        if not self._failures:
            self._until = now + retries.total
        left, pause = self._until - now, _requested_pause(error)
        if left <= 0 or pause > left:
            return False
        if now >= retries.logged_at + _LOG_EVERY:
            retries.logged_at = now
            log.warning("%s; trying again for up to %.0fs", error, left)
        # Drawn from its upper half, so that clients do not retry together.
        delay = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**self._failures) * random.uniform(0.5, 1.0)
        self._failures += 1
        # The last attempt comes when the time is up.
        time.sleep(min(max(delay, pause), left))
        return True

    def given_up(self, error: StoreError) -> StoreUnavailable:
        """Return the error to raise after the last attempt."""
        total, pause = self._retries.total, _requested_pause(error)
        if not total:
            return StoreUnavailable(str(error))
        why = "It asks to wait for" if pause > total else "Gave up after"
        return StoreUnavailable(f"{error}. {why} {max(1, pause, total):.0f}s (`retry_for`)")


def _requested_pause(error: StoreError) -> float:
    """Return the seconds that the server asks to wait, or 0."""
    return getattr(error, "retry_after", None) or 0.0
