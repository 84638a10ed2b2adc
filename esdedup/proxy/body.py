"""A `_bulk` body cut into parts that the upstream takes, with the tokens put in.

The lines of a `_bulk` body as actions. What can't be understood is kept as it was written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from esdedup.proxy.http import Answer, BadEncoding, Headers, unpacked
from esdedup.proxy.metadata import LookupFailed, Schemes
from esdedup.proxy.splice import Source, with_tokens
from esdedup.proxy.upstream import NoAnswer

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


_BLOCK_DOCUMENTS = 1_000
_BLOCK_BYTES = 4 << 20
_PART_BYTES = 8 << 20
_PART_ACTIONS = 50_000
"""Deletes are short, but each has an answer."""


@dataclass(frozen=True, slots=True)
class Item:
    """What the answer to an action starts with."""

    operation: str
    index: str | None
    id: object


@dataclass(frozen=True)
class Part:
    """Lines for one request, and their items. refused: why they can't be sent, if they can't."""

    body: bytes
    items: list[Item]
    refused: Answer | None = None


@dataclass
class _Growing:
    """A part in the making."""

    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    items: list[Item] = field(default_factory=list)

    def add(self, line: bytes) -> None:
        self.lines.append(line)
        self.size += len(line)

    def part(self, refusal: Answer | None) -> Part:
        return Part(b"".join(self.lines), self.items, refusal)

    @property
    def full(self) -> bool:
        return self.size >= _PART_BYTES or len(self.items) >= _PART_ACTIONS


class BulkBody:
    """The body of a `_bulk` request.

    refusal: why nothing further shall be sent. The actions that follow are then only told.
    """

    def __init__(
        self,
        chunks: AsyncIterable[bytes],
        encoding: str,
        index: str | None,
        headers: Headers,
        schemes: Schemes,
    ) -> None:
        """index: the one that the request's path names, if any."""
        self.refusal: Answer | None = None
        self._chunks = chunks
        self._encoding = encoding
        self._default = index
        self._headers = headers
        self._schemes = schemes

    async def parts(self) -> AsyncGenerator[Part, None]:
        """The parts in order; refused ones from where something keeps them from being made."""
        growing = _Growing()
        try:
            async for block in _blocks(actions_of(unpacked(self._chunks, self._encoding))):
                # Noted here: it can be set while the block is at work, which then has its items.
                refused = self.refusal is not None
                try:
                    if not refused:
                        await self._enrich(block, growing)
                except (LookupFailed, NoAnswer) as error:
                    if growing.lines:
                        yield growing.part(self.refusal)
                        growing = _Growing()
                    self.refusal, refused = error.answer, True
                if refused:
                    growing.items += [self._item(action) for action in block if action.operation]
                if growing.full:
                    yield growing.part(self.refusal)
                    growing = _Growing()
        except (BadEncoding, LineTooLong) as error:
            self.refusal = self.refusal or _unreadable(error)
            # One item at least: what can't be read may not look like nothing.
            growing.items = growing.items or [Item("index", self._default, None)]
            yield growing.part(self.refusal)
            return
        if growing.lines or growing.items:
            yield growing.part(self.refusal)

    async def _enrich(self, block: list[Action], growing: _Growing) -> None:
        names = {self._index(action) for action in block if action.source}
        metas = {
            name: await self._schemes.meta(name, self._headers)
            for name in names
            if name is not None
        }
        sources = {
            row: Source(action.source, meta, action.operation == "update")
            for row, action in enumerate(block)
            if action.source and (meta := metas.get(self._index(action) or "")) is not None
        }
        done = {}
        if sources:
            enriched = await asyncio.to_thread(with_tokens, list(sources.values()))
            done = dict(zip(sources, enriched, strict=True))
        for row, action in enumerate(block):
            growing.add(action.line)
            growing.add(done.get(row, action.source))
            if action.operation:
                growing.items.append(self._item(action))

    def _index(self, action: Action) -> str | None:
        return action.index or self._default

    def _item(self, action: Action) -> Item:
        return Item(action.operation, self._index(action), action.id)


async def ahead(parts: AsyncGenerator[Part, None]) -> AsyncGenerator[Part, None]:
    """The parts, each made while the caller still works on the one before."""

    async def following() -> Part | None:
        return await anext(parts, None)

    task = asyncio.create_task(following())
    try:
        while (part := await task) is not None:
            task = asyncio.create_task(following())
            yield part
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # Seen: nobody asks for it any more.
        await parts.aclose()


async def _blocks(actions: AsyncIterator[Action]) -> AsyncIterator[list[Action]]:
    """Actions in lists of bounded size; the last ones before an error too."""
    block: list[Action] = []
    size = 0
    try:
        async for action in actions:
            block.append(action)
            size += action.size
            if len(block) == _BLOCK_DOCUMENTS or size >= _BLOCK_BYTES:
                yield block
                block, size = [], 0
    except (BadEncoding, LineTooLong):
        if block:
            yield block
        raise
    if block:
        yield block


def _unreadable(error: BadEncoding | LineTooLong) -> Answer:
    if isinstance(error, LineTooLong):
        return Answer.error(413, "content_too_long_exception", str(error))
    return Answer.error(400, "parse_exception", str(error))
