"""Reads the actions of a `_bulk` body, which comes in chunks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from esdedup.proxy.http import Answer, Unpacker, Unreadable
from esdedup.text.characters import is_unicode

_LONGEST_ACTION = 1 << 16
"""Bytes of a line that names an operation, an index and an id."""
_WITH_SOURCE = ("index", "create", "update")
_OVERHEAD = 400
_LINES = 2_000
"""Lines that are read at a time."""


@dataclass(frozen=True, slots=True)
class Item:
    """The start of the answer to an action. index: of the action, or of the request's path."""

    operation: str
    index: str | None
    id: Any


class Action(NamedTuple):
    """The lines of one action as they came, ends of line included.

    line: the action line. item: None if the line is not an action. source: the line after it, or
    empty. refused: the answer to this action, which must not be sent.
    """

    line: bytes
    item: Item | None = None
    source: bytes = b""
    refused: Answer | None = None

    @property
    def size(self) -> int:
        """Bytes of memory that it takes."""
        return len(self.line) + len(self.source) + _OVERHEAD


class Actions:
    """The actions of one body, in order. Lines that are no actions are kept unchanged."""

    def __init__(self, encoding: str, index: str | None, longest: int) -> None:
        """index: of actions that name none. longest: bytes of a document that may be held."""
        self._body = Unpacker(encoding)
        self._index = index
        self._longest = longest
        self._rest = b""
        self._tail: list[bytes] = []
        self._size = 0
        self._waiting: Action | None = None
        self._lost = False
        self._last: tuple[bytes, Item | None] = (b"", None)

    def feed(self, chunk: bytes) -> None:
        """Accept the next chunk, after all before were read."""
        self._body.feed(chunk)

    @property
    def pending(self) -> int:
        """Bytes that are held of an action which is not complete."""
        line = 0 if self._waiting is None else self._waiting.size
        return line + (self._size if self._tail else 0)

    @property
    def more(self) -> bool:
        """True if something that was fed is not read yet."""
        return bool(self._rest) or self._body.more

    def read(self) -> list[Action]:
        """Return the next actions, not too many at a time. Raises Unreadable."""
        found: list[Action] = []
        piece = self._rest or self._body.read()
        if piece.isspace() and piece.endswith(b"\n") and not self._size and not self._waiting:
            # Empty lines pack well: there may be millions.
            self._rest = b""
            return [Action(piece)]
        *whole, last = piece.split(b"\n", _LINES)
        self._rest = last if len(whole) == _LINES else b""
        for end in whole:
            self._keep(end)
            if (action := self._completed(b"\n")) is not None:
                found.append(action)
        if not self._rest:
            self._keep(last)
        return found

    def end(self) -> list[Action]:
        """Return the last actions. Raises Unreadable if the body is truncated."""
        self._body.end()
        last = (self._completed(b"") if self._size else None), self._waiting
        return [action for action in last if action is not None]

    def _keep(self, part: bytes) -> None:
        """Add to the line that is being read. Of one that is too long, only the size is kept."""
        self._size += len(part)
        if self._size <= _LONGEST_ACTION:
            self._tail.append(part)
        elif self._waiting is None and not self._lost:
            raise _too_long("an action line", _LONGEST_ACTION)
        elif self._size <= self._longest:
            self._tail.append(part)
        elif self._waiting is None:
            raise _too_long("a line", self._longest)
        else:
            self._tail.clear()

    def _completed(self, end: bytes) -> Action | None:
        """Return the action that the line completes, if any."""
        line = b"".join((*self._tail, end))
        size, self._size = self._size, 0
        self._tail.clear()
        if (waiting := self._waiting) is not None:
            self._waiting = None
            if size > self._longest:
                return waiting._replace(refused=_too_long("a document", self._longest).answer)
            return waiting._replace(source=line)
        if not line.strip():
            return Action(line)
        # Many clients send the same line for each document.
        if line != self._last[0]:
            self._last = line, _item(line, self._index)
        if (item := self._last[1]) is None:
            # The next lines may be sources or actions, until one looks like an action.
            action = Action(line, None if self._lost else Item("index", self._index, None))
            self._lost = True
            return action
        self._lost = False
        action = Action(line, item, refused=_bad_name(item.index))
        if item.operation not in _WITH_SOURCE:
            return action
        self._waiting = action
        return None


def _item(line: bytes, default: str | None) -> Item | None:
    """Return the item that an action line requests, None if it is not an action."""
    try:
        ((operation, target),) = json.loads(line).items()
        index, id = target.get("_index"), target.get("_id")
    except (ValueError, RecursionError, AttributeError):
        return None
    if operation not in (*_WITH_SOURCE, "delete") or not isinstance(index, str | None):
        return None
    return Item(operation, index or default, id)


def _bad_name(index: str | None) -> Answer | None:
    """Return the answer to a name with half a surrogate pair, None to others.

    Elasticsearch 9.5 tries to make such an index, fails to store it, and elects masters for a
    minute.
    """
    if index is None or is_unicode(index):
        return None
    reason = f"the index name {index!r} is not Unicode"
    return Unreadable.error(400, "invalid_index_name_exception", reason).answer


def _too_long(what: str, most: int) -> Unreadable:
    reason = f"{what} of more than {most} bytes"
    return Unreadable.error(413, "content_too_long_exception", reason)
