"""The lines of a `_bulk` body as actions. What can't be understood is kept as it was written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any

_WITH_SOURCE = ("index", "create", "update")
_OPERATIONS = (*_WITH_SOURCE, "delete")
_LONGEST_LINE = 128 << 20
"""More than the servers take in a whole request, unless someone has raised their limit."""


class LineTooLong(Exception):
    """A line is longer than can be held here."""


@dataclass(frozen=True, slots=True)
class Action:
    """Lines of one action as they came, ends of line included.

    operation: empty for lines that are no action. index, id: as the action line has them.
    source: the line after the action line, or nothing.
    """

    operation: str
    line: bytes
    index: str | None = None
    id: Any = None
    source: bytes = b""

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.line) + len(self.source)


async def actions_of(chunks: AsyncIterable[bytes]) -> AsyncIterator[Action]:
    """The actions of a body, in order. Raises LineTooLong."""
    reader = _Reader()
    async for chunk in chunks:
        for line in reader.lines(chunk):
            if action := reader.action(line):
                yield action
    for action in reader.rest():
        yield action


class _Reader:
    """Cuts chunks into lines and puts the lines of an action together."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._waiting: Action | None = None
        self._lost = False

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """Whole lines; the last part stays for the next chunk."""
        *whole, last = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*self._tail, line, b"\n"])
            self._tail, self._tail_size = [], 0
        self._tail.append(last)
        self._tail_size += len(last)
        if self._tail_size > _LONGEST_LINE:
            raise LineTooLong(f"a line of more than {_LONGEST_LINE >> 20} MiB")

    def action(self, line: bytes) -> Action | None:
        """The action that this line completes, if it does."""
        if self._waiting is not None:
            done, self._waiting = replace(self._waiting, source=line), None
            return done
        if not line.strip():
            return Action("", line)
        action = _parsed(line)
        if action is None:
            # Sources can't be told from actions until the next line that looks like one.
            known, self._lost = self._lost, True
            return Action("" if known else "index", line)
        self._lost = False
        if action.operation in _WITH_SOURCE:
            self._waiting = action
            return None
        return action

    def rest(self) -> Iterator[Action]:
        """What the body ends with, where it does not end with a whole action."""
        line = b"".join(self._tail)
        if line and (action := self.action(line)):
            yield action
        if self._waiting is not None:
            yield self._waiting


def _parsed(line: bytes) -> Action | None:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or len(parsed) != 1:
        return None
    ((operation, target),) = parsed.items()
    if operation not in _OPERATIONS or not isinstance(target, dict):
        return None
    index = target.get("_index")
    if index is not None and not isinstance(index, str):
        return None
    return Action(operation, line, index, target.get("_id"))
