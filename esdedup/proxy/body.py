"""A `_bulk` body cut into parts that the upstream takes, with the tokens put in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from dataclasses import dataclass, field

from esdedup.proxy.actions import Action, LineTooLong, actions_of
from esdedup.proxy.encoding import BadEncoding, unpacked
from esdedup.proxy.http import Answer, Headers
from esdedup.proxy.metadata import LookupFailed, Schemes
from esdedup.proxy.splice import Source, with_tokens
from esdedup.proxy.upstream import NoAnswer

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
