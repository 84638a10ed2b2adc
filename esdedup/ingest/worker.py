"""What runs in a worker process: it asks for items, and says what comes of them."""

from __future__ import annotations

import pickle
import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from typing import Any

from esdedup.exceptions import EsdedupError, StoreError
from esdedup.ingest.program import be_a_program
from esdedup.ingest.turns import TURN, Claim


class _Left(Exception):
    """The process that we work for has gone; what is written stays."""


def run(pipe: Pipe, begin: Any) -> None:
    """Works until nothing comes any more. begin: gives what is done with an item."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    be_a_program()
    try:
        with begin() as work:
            _say(pipe, "ready")
            while (message := _asked(pipe))[0] == "item":
                number, item = message[1]
                for done in work(item):
                    _report(pipe, number, done)
                _say(pipe, "ready", number)
        _say(pipe, "end")
    except _Left:
        return
    except Exception as error:
        with suppress(_Left):
            _say(pipe, "error", _portable(error))


def _report(pipe: Pipe, number: int, done: Any) -> None:
    if isinstance(done, Claim):
        _say(pipe, "claim", (number, done.keys))
    elif done is TURN:
        _say(pipe, "wait", number)
        _asked(pipe)
    else:
        _say(pipe, "done", done)


def _say(pipe: Pipe, kind: str, value: Any = None) -> None:
    try:
        pipe.send((kind, value))
    except (BrokenPipeError, ConnectionResetError):
        raise _Left from None


def _asked(pipe: Pipe) -> tuple[str, Any]:
    try:
        message: tuple[str, Any] = pipe.recv()
    except (EOFError, ConnectionResetError):
        raise _Left from None
    return message


def _portable(error: Exception) -> Exception:
    """An error as it can be sent, with where it came from if it is none of ours."""
    if isinstance(error, EsdedupError):
        return error
    error.add_note("In a worker process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return StoreError(f"a worker process failed: {type(error).__name__}: {error}")
    return error
