"""Sends a request again, after a wait, if it got no answer or the server is not ready.

Not ready are the statuses 429, 502, 503 and 504, of a request or of an item of a bulk request
(`errors.error_of` makes them StoreUnavailable). Every request may be sent twice without harm:
documents have ids, and a change names the version that it is for.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable
from typing import TypeVar

from esdedup.exceptions import StoreError, StoreUnavailable
from esdedup.stores.connection import span

log = logging.getLogger("esdedup")

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 10.0
_TOLD_EVERY = 30.0
"""Seconds between two messages about waiting."""

Answer = TypeVar("Answer")


class Retries:
    """Sends the requests of one connection again, and tells of it now and then.

    total: seconds after the first failure of a request in which it is sent again; 0 for never.
    """

    def __init__(self, total: float) -> None:
        self.total = total
        self._told_at = -math.inf

    def attempts(self) -> Attempts:
        """Return the attempts at one request."""
        return Attempts(self)

    def until_answered(
        self, call: Callable[[], Answer], but_not: tuple[type[StoreError], ...] = ()
    ) -> Answer:
        """Make a call, again while it raises StoreUnavailable, until the time is up.

        but_not: errors to raise at once.
        """
        attempts = self.attempts()
        while True:
            try:
                return call()
            except but_not:
                raise
            except StoreUnavailable as error:
                if not attempts.wait(error):
                    raise attempts.given_up(error) from error

    def tell(self, reason: str, left: float) -> None:
        """Logs that a request is sent again, unless that was logged just before."""
        now = time.monotonic()
        if now >= self._told_at + _TOLD_EVERY:
            self._told_at = now
            log.warning("%s; trying again for up to %s", reason, span(left))


class Attempts:
    """The attempts at one request, from its first failure on."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._failures = 0
        self._until: float | None = None

    def wait(self, error: StoreError) -> bool:
        """Wait before the next attempt. Returns False, and wait not at all, if time is up.

        The wait doubles, and is drawn from its upper half, so that clients do not come all at once.
        It is at least the time that the server asked for (Retry-After).
        """
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._retries.total
        left = self._until - now
        asked = getattr(error, "retry_after", None) or 0.0
        if left <= 0 or asked > left:
            return False
        delay = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**self._failures) * random.uniform(0.5, 1.0)
        self._failures += 1
        self._retries.tell(str(error), left)
        # The last attempt comes when the time is up.
        time.sleep(min(max(delay, asked), left))
        return True

    def given_up(self, error: StoreError) -> StoreUnavailable:
        """Return the error to raise after the last attempt."""
        asked, total = getattr(error, "retry_after", None) or 0.0, self._retries.total
        why = f"Gave up after {span(total)}"
        if asked > total:
            why = f"It asks to wait for {span(asked)}"
        return StoreUnavailable(f"{error}. {why} (--retry-for)" if total else str(error))
