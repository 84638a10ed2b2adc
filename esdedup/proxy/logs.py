"""Logs of the proxy: plain text or JSON lines, and few lines of the same kind."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from esdedup.text.characters import message_of

Format = Literal["text", "json"]
SECONDS = 10.0
"""Lines of the same kind come at most once in this time."""
_KINDS = 256
_USUAL = {*vars(logging.makeLogRecord({})), "asctime", "message", "taskName"}
_Kind = tuple[str, int, str | None]


@dataclass
class _Told:
    """A kind of line: since when lines are suppressed, in seconds, how many, and the last one."""

    since: float
    suppressed: int = 0
    last: logging.LogRecord | None = None


class Repeats(logging.Filter):
    """Passes a warning if none of its kind passed in the last `seconds`, and counts the others.

    Lines are of the same kind if their logger, level and message are equal before arguments are
    put in. A line that passes has the number of those held back before it as `suppressed`. Beyond
    256 kinds, all further lines of a logger and level are one kind.
    """

    def __init__(
        self, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """clock: seconds since any moment."""
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._told: dict[_Kind, _Told] = {}
        # Worker threads log too.
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the line is to be written."""
        if record.exc_info and record.exc_info[0] is asyncio.CancelledError:
            return False  # Requests that the end of the program cuts off. Uvicorn counts them.
        if record.levelno < logging.WARNING:
            return True
        with self._lock:
            kind: _Kind = (record.name, record.levelno, str(record.msg))
            if kind not in self._told and len(self._told) >= _KINDS:
                kind = (record.name, record.levelno, None)
            told, now = self._told.get(kind), self._clock()
            if told is not None and now - told.since < self._seconds:
                told.suppressed += 1
                told.last = record
                return False
            if told is not None and told.suppressed:
                record.suppressed = told.suppressed
            self._told[kind] = _Told(now)
            return True

    def due(self, *, all: bool = False) -> Iterator[logging.LogRecord]:
        """The last line of each kind that was held back, if its time is over. all: if not, too."""
        with self._lock:
            now = self._clock()
            for kind, told in list(self._told.items()):
                if not all and now - told.since < self._seconds:
                    continue
                del self._told[kind]
                if told.last is not None:
                    if told.suppressed > 1:
                        told.last.suppressed = told.suppressed - 1
                    self._told[kind] = _Told(now)
                    yield told.last


class Handler(logging.StreamHandler[Any]):
    """Writes to standard error, and holds repeated lines back."""

    def __init__(self, format: Format) -> None:
        super().__init__()
        self.setFormatter(_Json() if format == "json" else _Text())
        self._repeats = Repeats()
        self.addFilter(self._repeats)

    def write_due(self, *, all: bool = False) -> None:
        """Write the lines of `Repeats.due`, so that no count is lost when silence follows."""
        for record in list(self._repeats.due(all=all)):
            with self.lock or threading.RLock():
                self.emit(record)


def configure(format: Format) -> Handler:
    """Send the logs of this process to standard error in this form, from warnings on."""
    handler = Handler(format)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("esdedup.proxy.server").setLevel(logging.INFO)
    return handler


def _time(record: logging.LogRecord) -> str:
    written = datetime.fromtimestamp(record.created, UTC)
    return written.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Text(logging.Formatter):
    """One line: time, level, message. An exception follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if suppressed := getattr(record, "suppressed", 0):
            text += f" (and {suppressed:,} more like it in {SECONDS:g} s)"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return f"{_time(record)} {record.levelname} {message_of(text)}"


class _Json(logging.Formatter):
    """One JSON object: time, level, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
