"""Reads the body of a `_bulk` request as actions, and cuts it into parts with tokens put in.

Lines that can't be understood are kept as they are: the servers report them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from esdedup.proxy.http import Answer, Failed, Request, Unreadable, unpacked
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.splice import Source, with_tokens

_WITH_SOURCE = ("index", "create", "update")
_OPERATIONS = (*_WITH_SOURCE, "delete")
_LONGEST_LINE = 128 << 20
"""More than the servers take in a whole request, unless their limit was raised."""
_BLOCK_DOCUMENTS = 1_000
_BLOCK_BYTES = 4 << 20
_PART_BYTES = 8 << 20
_PART_ACTIONS = 50_000
"""Deletes are short, but each has an answer."""


@dataclass(frozen=True, slots=True)
class Item:
    """The start of the answer to an action. index: of the action, or of the request's path."""

    operation: str
    index: str | None
    id: Any


@dataclass(frozen=True, slots=True)
class Action:
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
            yield replace(waiting, source=line)
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
    return Item(operation, index or default, target.get("_id"))


@dataclass(frozen=True)
class Part:
    """Lines for one request, and their items. refused: the reason not to send them, if any."""

    body: bytes
    items: list[Item]
    refused: Answer | None = None


@dataclass
class _Growing:
    """A part in the making."""

    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    items: list[Item] = field(default_factory=list)

    def add(self, action: Action, source: bytes) -> None:
        self.lines += (action.line, source)
        self.size += len(action.line) + len(source)
        if action.item is not None:
            self.items.append(action.item)

    def part(self, refusal: Answer | None) -> Part:
        return Part(b"".join(self.lines), self.items, refusal)

    @property
    def full(self) -> bool:
        return self.size >= _PART_BYTES or len(self.items) >= _PART_ACTIONS


class BulkBody:
    """The body of a `_bulk` request.

    refusal: the reason to send nothing further. Actions after it are reported, not sent.
    """

    def __init__(
        self, chunks: AsyncIterable[bytes], request: Request, index: str | None, schemes: Schemes
    ) -> None:
        """index: named by the request's path, if any."""
        self.refusal: Answer | None = None
        self._chunks = chunks
        self._request = request
        self._index = index
        self._schemes = schemes

    async def parts(self) -> AsyncGenerator[Part, None]:
        """The parts in order. After a failure to make one, all are refused."""
        growing = _Growing()
        try:
            chunks = unpacked(self._chunks, self._request.encoding)
            async for block in _blocks(actions_of(chunks, self._index)):
                # Read once: it can be set while the block is enriched, which then has its items.
                refused = self.refusal is not None
                try:
                    if not refused:
                        await self._enrich(block, growing)
                except Failed as error:
                    if growing.lines:
                        yield growing.part(self.refusal)
                        growing = _Growing()
                    self.refusal, refused = error.answer, True
                if refused:
                    growing.items += [action.item for action in block if action.item is not None]
                if growing.full:
                    yield growing.part(self.refusal)
                    growing = _Growing()
        except Unreadable as error:
            self.refusal = self.refusal or error.answer
            # At least one item: an unreadable body must not look like an empty one.
            growing.items = growing.items or [Item("index", self._index, None)]
            yield growing.part(self.refusal)
            return
        if growing.lines or growing.items:
            yield growing.part(self.refusal)

    async def _enrich(self, block: list[Action], growing: _Growing) -> None:
        """Adds the actions of a block to a part, with tokens. Raises Failed."""
        names = {action.item.index for action in block if action.item and action.source}
        metas = {
            name: await self._schemes.meta(name, self._request.headers) for name in names if name
        }
        sources = {
            row: Source(action.source, meta, action.item.operation == "update")
            for row, action in enumerate(block)
            if action.item and action.source and (meta := metas.get(action.item.index or ""))
        }
        done: dict[int, bytes] = {}
        if sources:
            enriched = await asyncio.to_thread(with_tokens, list(sources.values()))
            done = dict(zip(sources, enriched, strict=True))
        for row, action in enumerate(block):
            growing.add(action, done.get(row, action.source))


async def _blocks(actions: AsyncIterator[Action]) -> AsyncIterator[list[Action]]:
    """Actions in lists of bounded size. The last ones before an error come too."""
    block: list[Action] = []
    size = 0
    try:
        async for action in actions:
            block.append(action)
            size += len(action.line) + len(action.source)
            if len(block) == _BLOCK_DOCUMENTS or size >= _BLOCK_BYTES:
                yield block
                block, size = [], 0
    except Unreadable:
        if block:
            yield block
        raise
    if block:
        yield block


async def ahead(parts: AsyncGenerator[Part, None]) -> AsyncGenerator[Part, None]:
    """The parts. Each is made while the caller works on the one before."""

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
            task.exception()  # Retrieved, or asyncio logs it as never retrieved.
        await parts.aclose()
