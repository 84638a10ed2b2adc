"""Logs of the proxy: plain text or JSON lines, and few lines of the same kind."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from esdedup.text.characters import message_of

SECONDS = 10.0
"""Lines of the same kind come at most once in this time."""
_KINDS = 256

Show = Callable[[str], str]
"""Returns a message as its reader sees it, such as with options in place of settings."""


class Repeats(logging.Filter):
    """Passes a warning if none of its logger and template passed in the last SECONDS.

    A line that passes ends with the number of those held back before it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: returns seconds since any moment."""
        super().__init__()
        self._clock = clock
        self._passed: dict[tuple[str, str], tuple[float, int]] = {}
        # Worker threads log too.
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the line is to be written."""
        if record.exc_info and record.exc_info[0] is asyncio.CancelledError:
            return False  # Requests that the end of the program cancels. Uvicorn counts them.
        if "without completing response" in str(record.msg):
            return False  # Uvicorn's line on an answer that broke off. The proxy logs why.
        if record.levelno < logging.WARNING:
            return True
        kind, now = (record.name, str(record.msg)), self._clock()
        with self._lock:
            since, suppressed = self._passed.pop(kind, (-SECONDS, 0))
            if now - since < SECONDS:
                self._passed[kind] = since, suppressed + 1
                return False
            self._passed[kind] = now, 0
            if len(self._passed) > _KINDS:
                del self._passed[next(iter(self._passed))]
        if suppressed:
            record.msg = f"{record.msg} (and {suppressed:,} more before it)"
        return True


class _Lines(logging.Formatter):
    """Time, level and message in one line of text, or with the logger as a JSON object."""

    def __init__(self, form: Literal["text", "json"], show: Show) -> None:
        super().__init__()
        self._form = form
        self._show = show

    def format(self, record: logging.LogRecord) -> str:
        created = datetime.fromtimestamp(record.created, UTC)
        time = created.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message = self._show(super().format(record))
        if self._form == "text":
            return message_of(f"{time} {record.levelname} {message}")
        level = record.levelname.lower()
        return json.dumps({"time": time, "level": level, "logger": record.name, "message": message})


def configure(form: Literal["text", "json"], show: Show = str) -> None:
    """Send the logs of this process to standard error in this form, from warnings on.

    show: applied to each message.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(form, show))
    handler.addFilter(Repeats())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("esdedup.proxy.server").setLevel(logging.INFO)
