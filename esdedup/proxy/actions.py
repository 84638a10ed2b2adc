"""Reads the body of a `_bulk` request as actions.

Lines that can't be understood are kept as they are: the servers report them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from esdedup.proxy.http import Unreadable

_WITH_SOURCE = ("index", "create", "update")
_OPERATIONS = (*_WITH_SOURCE, "delete")
_LONGEST_LINE = 128 << 20
"""More than the servers take in a whole request, unless their limit was raised."""


@dataclass(frozen=True, slots=True)
class Item:
    """The start of the answer to an action. index: of the action, or of the request's path."""

    operation: str
    index: str | None
    id: Any


class Action(NamedTuple):
    """The lines of one action as they came, ends of line included.

    line: the action line. item: None if the line is not an action. source: the line after it, or
    nothing.
    """

    line: bytes
    item: Item | None = None
    source: bytes = b""


async def actions_of(chunks: AsyncIterable[bytes], index: str | None) -> AsyncIterator[Action]:
    """The actions of a body, in order. index: of actions that name none. Raises Unreadable."""
    waiting: Action | None = None
    lost = False
    async for line in _lines(chunks):
        if waiting is not None:
            yield waiting._replace(source=line)
            waiting = None
        elif not line.strip():
            yield Action(line)
        elif (item := _item(line, index)) is None:
            # The next lines may be sources or actions, until one looks like an action.
            yield Action(line, None if lost else Item("index", index, None))
            lost = True
        else:
            lost = False
            if item.operation in _WITH_SOURCE:
                waiting = Action(line, item)
            else:
                yield Action(line, item)
    if waiting is not None:
        yield waiting


async def _lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    tail: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*tail, line, b"\n"])
            tail, size = [], 0
        tail.append(last)
        size += len(last)
        if size > _LONGEST_LINE:
            reason = f"a line of more than {_LONGEST_LINE >> 20} MiB"
            raise Unreadable.error(413, "content_too_long_exception", reason)
    if size:
        yield b"".join(tail)


def _item(line: bytes, default: str | None) -> Item | None:
    """The item that an action line asks for, None if it is not an action."""
    try:
        ((operation, target),) = json.loads(line).items()
        index, id = target.get("_index"), target.get("_id")
    except (ValueError, RecursionError, AttributeError):
        return None
    if operation not in _OPERATIONS or not isinstance(index, str | None):
        return None
    return Item(operation, index or default, id)
