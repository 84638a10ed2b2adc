"""Handles a `_bulk` request: cuts it into parts, sends them in turn, and merges their answers.

One part is on its way at a time, while the next one is made. So actions on the same document stay
in order, and nothing further is sent after a failure. Lines that can't be understood are kept as
they are: the servers report them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence, Set
from dataclasses import dataclass, field
from typing import IO, Any

from esdedup.proxy import http
from esdedup.proxy.actions import Action, Actions, Item
from esdedup.proxy.memory import Hold, Limits
from esdedup.proxy.metadata import Found, Schemes
from esdedup.proxy.metrics import Metrics
from esdedup.proxy.splice import Source, Splicer
from esdedup.proxy.upstream import Upstream

_PART_ACTIONS = 10_000
"""Tokens make a short document several times as long, and a short delete has an answer too."""
_IN_MEMORY = 1 << 18
_PIECE = 1 << 16
_KEPT = (b"content-type", b"x-elastic-product")
_FORMAT = re.compile(rb"([?&])format=[^&]*")
_UNSENT = "not sent, because an earlier part of the same request failed: "
_UNKNOWN = "may be written or not: "
_TRY_AGAIN = 429
"""Clients send such an item again; many of them do so for no other status."""


@dataclass(frozen=True, slots=True)
class Part:
    """Lines for one request, and their items.

    refused: the answer to these items, which are not sent. status: of theirs, in place of its own.
    unsure: the next part is made when this one is answered, which sets `answered`.
    """

    body: bytes
    items: list[Item]
    refused: http.Answer | None = None
    status: int | None = None
    unsure: bool = False
    answered: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Bulk:
    """One `_bulk` request of a client. index: named by the request's path, if any."""

    _upstream: Upstream
    _schemes: Schemes
    _splicer: Splicer
    _metrics: Metrics
    _limits: Limits
    _hold: Hold
    _request: http.Request
    _index: str | None
    _refusal: http.Answer | None = None
    """The reason to make no further part. Its actions are reported, not sent."""
    _read: int = 0
    """Bytes that are held for actions which are in no part yet."""
    _tried: set[str | None] = field(default_factory=set)
    """Indices that did not exist before a document for them was sent."""

    async def run(self) -> None:
        """Send the body's actions, and answers. Raises Failed if none was acknowledged."""
        await self._hold.reserve(self._limits.need(self._request.length))
        parts = _ahead(self._parts())
        try:
            first = await anext(parts, Part(b"", []))
            second = None if first.unsure else await anext(parts, None)
            if second is not None or first.unsure:
                await self._several(http.chained([first, *([second] if second else [])], parts))
            elif first.refused is not None:
                await self._request.reply(first.refused)
            else:
                headers, body = await http.packed(self._request, first.body)
                await self._upstream.forward(self._request, headers, body)
        except OSError as error:
            reason = f"documents may be written: no room to keep the answer: {error.strerror}"
            raise http.Failed.error(503, "io_exception", reason, retry=1) from error
        finally:
            await parts.aclose()

    async def _parts(self) -> AsyncGenerator[Part, None]:
        """The parts in order. If the body can't be read to its end, the last one is refused."""
        actions: list[Action] = []
        size = 0
        body = Actions(self._request.encoding, self._index, self._limits.line)
        try:
            async for more in self._actions(body):
                for action in more:
                    full = len(actions) == _PART_ACTIONS or size + action.size > self._limits.part
                    if actions and (full or action.refused is not None):
                        async for part in self._made(actions):
                            yield part
                        actions, size = [], 0
                    if action.refused is None:
                        actions.append(action)
                        size += action.size
                    elif action.item is not None:
                        yield Part(b"", [action.item], action.refused)
                await self._hold_read(size + body.pending)
            if actions:
                async for part in self._made(actions):
                    yield part
            await self._hold_read(0)
        except http.Unreadable as error:
            self._refusal = self._refusal or error.answer
            # At least one item: an unreadable body must not look like an empty one.
            actions = actions or [Action(b"", Item("index", self._index, None))]
            yield Part(b"", [one.item for one in actions if one.item], self._refusal)

    async def _hold_read(self, size: int) -> None:
        """Set the bytes that are held for actions."""
        before, self._read = self._read, size
        if size > before:
            await self._hold.grow(size - before)
        else:
            self._hold.shrink(before - size)

    async def _actions(self, body: Actions) -> AsyncIterator[list[Action]]:
        """The actions, as they come. They are read in other threads."""
        async for chunk in self._gathered():
            body.feed(chunk)
            while body.more:
                yield await asyncio.to_thread(body.read)
            self._hold.shrink(len(chunk))
        yield body.end()

    async def _gathered(self) -> AsyncIterator[bytes]:
        """The chunks of the body, joined to pieces that are worth a turn of a thread."""
        chunks: list[bytes] = []
        size = 0
        async for chunk in self._request:
            await self._hold.grow(len(chunk))
            chunks.append(chunk)
            size += len(chunk)
            if size >= http.PIECE:
                yield b"".join(chunks)
                chunks, size = [], 0
        if chunks:
            yield b"".join(chunks)

    async def _made(self, actions: list[Action]) -> AsyncIterator[Part]:
        """The parts of some actions: one, unless they make an index of which nobody knows."""
        while actions and self._refusal is None:
            try:
                found = await self._found(actions)
            except http.Failed as error:
                self._refusal = error.answer
                break
            count = _sure(actions, found, self._tried)
            taken, actions = actions[:count], actions[count:]
            body = await asyncio.to_thread(self._enriched, taken, found)
            await self._hold.grow(len(body))
            # From here on it waits as long as need be, because a part may have been written.
            self._hold.patient = True
            items = [one.item for one in taken if one.item]
            yield (part := Part(body, items, unsure=bool(actions)))
            if part.unsure:
                await part.answered.wait()
                # If it does not exist now, no document makes it.
                self._tried.update(one.item.index for one in taken[-1:] if one.item)
        if actions:
            items = [one.item for one in actions if one.item]
            yield Part(b"", items, self._refusal, _TRY_AGAIN)

    async def _found(self, actions: Sequence[Action]) -> dict[str | None, Found]:
        """The metas of the indices that get documents. Raises Failed."""
        names = {action.item.index for action in actions if action.item and action.source}
        return {name: await self._schemes.find(name, self._request.headers) for name in names}

    def _enriched(self, actions: Sequence[Action], found: dict[str | None, Found]) -> bytes:
        """The lines of actions, with tokens."""
        sources = []
        for action in actions:
            if action.item and action.source:
                meta = found[action.item.index].meta
                sources.append(Source(action.source, meta, action.item.operation == "update"))
            else:
                sources.append(Source(action.source, None))
        done, outcomes = self._splicer.with_tokens(sources)
        counts = Counter(
            outcome or found[action.item.index].reason
            for action, outcome in zip(actions, outcomes, strict=True)
            if action.item and action.source
        )
        for reason, count in counts.items():
            self._metrics.documents(reason, count)
        lines = zip((action.line for action in actions), done, strict=True)
        return b"".join(itertools.chain.from_iterable(lines))

    async def _several(self, parts: AsyncIterator[Part]) -> None:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as items:
            merged = MergedAnswer(items)
            refused: http.Answer | None = None
            failure: http.Answer | None = None
            async for part in parts:
                if part.refused is not None:
                    remark = _UNSENT if part.status and merged.parts else ""
                    merged.refuse(part.items, part.refused, remark, part.status)
                    refused = refused or part.refused
                    # The other actions of the request may come again.
                    failure = failure or (part.refused if part.status else None)
                elif failure is not None:
                    merged.refuse(part.items, failure, _UNSENT, _TRY_AGAIN)
                else:
                    failure = await self._send(part, merged)
                    self._refusal = self._refusal or failure
                self._hold.shrink(len(part.body))
                part.answered.set()
            if not merged.parts and (answer := failure or refused) is not None:
                await self._request.reply(answer)
            else:
                await self._request.answer(200, merged.headers(), merged.body())

    async def _send(self, part: Part, merged: MergedAnswer) -> http.Answer | None:
        """Send a part and add its answer. Returns the failure, if any."""
        request = self._request
        headers, body = await http.packed(request, part.body)
        # The proxy reads the answer itself, so it must be JSON, and not compressed.
        headers = [
            (name, value)
            for name, value in headers
            if name != b"accept-encoding" and (name != b"accept" or b"json" in value)
        ]
        remark = ""
        try:
            target = _FORMAT.sub(rb"\1", request.target)
            answer = await self._upstream.ask(request.method, target, headers, body)
            if answer.status == 200:
                await asyncio.to_thread(merged.add, answer)
                return None
        except http.Failed as error:
            answer, remark = error.answer, _UNKNOWN
        merged.refuse(part.items, answer, remark)
        return answer


def _sure(actions: Sequence[Action], found: dict[str | None, Found], tried: Set[str | None]) -> int:
    """The number of actions up to the first one that makes an index of which nobody knows.

    When that one is answered, the index is there and can be asked. tried: names that are not asked
    again.
    """
    unknown = {name for name, each in found.items() if each.reason == "no_index"} - tried
    for count, action in enumerate(actions if unknown else (), 1):
        if action.item and action.source and action.item.index in unknown:
            return count
    return len(actions)


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
        """Add an answer of the upstream. Raises Failed if it can't be read."""
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

    def refuse(
        self,
        items: Sequence[Item],
        failure: http.Answer,
        remark: str = "",
        status: int | None = None,
    ) -> None:
        """Add items that failed for the reason of an answer. status: in place of its own."""
        try:
            error = json.loads(failure.body)["error"]
            kind, reason = str(error["type"]), error["reason"]
        except (ValueError, KeyError, TypeError):
            # An error in another form than the servers'.
            text = failure.body[:500].decode("utf-8", "replace").strip()
            kind, reason = "upstream_error", text or f"status {failure.status}"
        cause = {"type": kind, "reason": f"{remark}{reason}"}
        why = {"status": status or failure.status, "error": cause}
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
