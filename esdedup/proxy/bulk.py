"""Handles a `_bulk` request: cuts it into parts, sends them in turn, and merges their answers.

One part is on its way at a time, while the next one is made. So actions on the same document stay
in order, and nothing further is sent after a failure. Lines that can't be understood are kept as
they are: the servers report them.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from esdedup.proxy import http
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.splice import Source, with_tokens
from esdedup.proxy.upstream import Upstream
from esdedup.text.characters import is_unicode

_PART_BYTES = 8 << 20
_PART_ACTIONS = 10_000
"""Tokens make a short document several times as long, and a short delete has an answer too."""
_IN_MEMORY = 4 << 20
_PIECE = 1 << 16
_KEPT = (b"content-type", b"x-elastic-product")
_UNSENT = "not sent, because an earlier part of the same request failed: "
_UNKNOWN = "may be written or not: "
_WITH_SOURCE = ("index", "create", "update")
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


@dataclass(frozen=True, slots=True)
class Part:
    """Lines for one request, and their items. refused: the reason not to send them, if any."""

    body: bytes
    items: list[Item]
    refused: http.Answer | None = None


@dataclass
class Bulk:
    """One `_bulk` request of a client. index: named by the request's path, if any."""

    _upstream: Upstream
    _schemes: Schemes
    _request: http.Request
    _index: str | None
    _refusal: http.Answer | None = None
    """The reason to make no further part. Its actions are reported, not sent."""

    async def run(self) -> None:
        """Sends the body's actions, and answers. Raises Failed if none was acknowledged."""
        parts = _ahead(self._parts())
        try:
            first = await anext(parts, Part(b"", []))
            second = await anext(parts, None)
            if second is not None:
                await self._several(http.chained([first, second], parts))
            elif first.refused is not None:
                await self._request.reply(first.refused)
            else:
                headers, body = await http.packed(self._request, first.body)
                await self._upstream.forward(self._request, headers, body)
        finally:
            await parts.aclose()

    async def _parts(self) -> AsyncGenerator[Part, None]:
        """The parts in order. After a failure to make one, all are refused."""
        actions: list[Action] = []
        size = 0
        try:
            chunks = http.unpacked(self._request, self._request.encoding)
            async for action in _actions_of(chunks, self._index):
                actions.append(action)
                size += len(action.line) + len(action.source)
                if len(actions) == _PART_ACTIONS or size >= _PART_BYTES:
                    yield await self._part(actions)
                    actions, size = [], 0
        except http.Unreadable as error:
            self._refusal = self._refusal or error.answer
            # At least one item: an unreadable body must not look like an empty one.
            actions = actions or [Action(b"", Item("index", self._index, None))]
        if actions:
            yield await self._part(actions)

    async def _part(self, actions: Sequence[Action]) -> Part:
        items = [action.item for action in actions if action.item is not None]
        if self._refusal is None:
            try:
                return Part(await self._enriched(actions), items)
            except http.Failed as error:
                self._refusal = error.answer
        return Part(b"", items, self._refusal)

    async def _enriched(self, actions: Sequence[Action]) -> bytes:
        """The lines of actions, with tokens. Raises Failed if a scheme can't be looked up.

        Raises it too for an index name with half a surrogate pair: Elasticsearch 9.5 tries to make
        the index, fails to store that, and elects masters for a minute.
        """
        headers = self._request.headers
        for action in actions:
            name = action.item.index if action.item else None
            if name is not None and not is_unicode(name):
                reason = f"the index name {name!r} is not Unicode"
                raise http.Failed.error(400, "invalid_index_name_exception", reason)
        names = {action.item.index for action in actions if action.item and action.source}
        metas = {name: await self._schemes.meta(name, headers) for name in names}
        sources = [
            Source(action.source, metas.get(item.index), item.operation == "update")
            if (item := action.item)
            else Source(action.source, None)
            for action in actions
        ]
        enriched = await asyncio.to_thread(with_tokens, sources)
        return b"".join(one.line + source for one, source in zip(actions, enriched, strict=True))

    async def _several(self, parts: AsyncIterator[Part]) -> None:
        failure: http.Answer | None = None
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as items:
            merged = MergedAnswer(items)
            async for part in parts:
                remark = _UNSENT
                if failure is None:
                    remark, failure = await self._send(part, merged)
                    self._refusal = self._refusal or failure
                if failure is not None:
                    merged.refuse(part.items, failure, remark)
            if failure is not None and not merged.parts:
                await self._request.reply(failure)
            else:
                await self._request.answer(200, merged.headers(), merged.body())

    async def _send(self, part: Part, merged: MergedAnswer) -> tuple[str, http.Answer | None]:
        """Sends a part and adds its answer. Returns a remark and the failure, if any."""
        request = self._request
        if part.refused is not None:
            return "", part.refused
        headers, body = await http.packed(request, part.body)
        # The proxy reads the answer itself, so it must be JSON, and not compressed.
        headers = [
            (name, value)
            for name, value in headers
            if name != b"accept-encoding" and (name != b"accept" or b"json" in value)
        ]
        try:
            answer = await self._upstream.ask(request.method, request.target, headers, body)
            if answer.status != 200:
                return "", answer
            merged.add(answer)
        except http.Failed as error:
            return _UNKNOWN, error.answer
        return "", None


async def _actions_of(chunks: AsyncIterable[bytes], index: str | None) -> AsyncIterator[Action]:
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
            raise http.Unreadable.error(413, "content_too_long_exception", reason)
    if size:
        yield b"".join(tail)


def _item(line: bytes, default: str | None) -> Item | None:
    """The item that an action line asks for, None if it is not an action."""
    try:
        ((operation, target),) = json.loads(line).items()
        index, id = target.get("_index"), target.get("_id")
    except (ValueError, RecursionError, AttributeError):
        return None
    if operation not in (*_WITH_SOURCE, "delete") or not isinstance(index, str | None):
        return None
    return Item(operation, index or default, id)


async def _ahead(parts: AsyncGenerator[Part, None]) -> AsyncGenerator[Part, None]:
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
        await asyncio.gather(task, return_exceptions=True)
        await parts.aclose()


class MergedAnswer:
    """Several answers to `_bulk` made one. file: for their items, empty."""

    def __init__(self, file: IO[bytes]) -> None:
        self._items = file
        self._fields: dict[str, Any] = {}
        self._headers: http.Headers = []
        self.parts = 0

    def add(self, answer: http.Answer) -> None:
        """Adds an answer of the upstream. Raises Failed if it can't be read."""
        try:
            fields = json.loads(answer.body)
            self._write(fields.pop("items", []))
        except (ValueError, TypeError, AttributeError) as error:
            reason = f"the upstream's answer to _bulk can't be read: {error}"
            raise http.Failed.error(502, "bad_gateway", reason) from error
        for name, value in fields.items():
            before = self._fields.get(name)
            # `errors` is true if any is; `took` and `ingest_took` are added up.
            if isinstance(value, bool):
                value = bool(before) or value
            elif isinstance(value, int) and isinstance(before, int):
                value += before
            self._fields[name] = value
        if not self.parts:
            self._headers = [pair for pair in answer.headers if pair[0].lower() in _KEPT]
        self.parts += 1

    def refuse(self, items: Sequence[Item], failure: http.Answer, remark: str) -> None:
        """Adds items that failed because the upstream answered `failure`."""
        try:
            error = json.loads(failure.body)["error"]
            kind, reason = str(error["type"]), error["reason"]
        except (ValueError, KeyError, TypeError):
            # An error in another form than the servers'.
            text = failure.body[:500].decode("utf-8", "replace").strip()
            kind, reason = "upstream_error", text or f"status {failure.status}"
        cause = {"type": kind, "reason": f"{remark}{reason}"}
        why = {"status": failure.status, "error": cause}
        self._write([{one.operation: {"_index": one.index, "_id": one.id, **why}} for one in items])
        self._fields["errors"] = True

    def headers(self) -> http.Headers:
        """The headers of the merged answer."""
        length = len(self._opening()) + self._items.tell() + len(b"]}")
        return [(b"content-length", str(length).encode()), *self._headers]

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the merged answer, in pieces."""
        yield self._opening()
        self._items.seek(0)
        while piece := self._items.read(_PIECE):
            yield piece
        yield b"]}"

    def _opening(self) -> bytes:
        fields = json.dumps(self._fields, separators=(",", ":"))[1:-1].encode()
        return b"{" + fields + (b"," if fields else b"") + b'"items":['

    def _write(self, items: list[Any]) -> None:
        if items:
            written = json.dumps(items, separators=(",", ":"))[1:-1].encode()
            self._items.write((b"," if self._items.tell() else b"") + written)
