"""Handles a `_bulk` request: cuts it into parts, sends them in turn, and merges their answers.

One part is on its way at a time, while the next one is made. So actions on the same document stay
in order, and nothing further is sent after a failure. Lines that can't be parsed are kept
unchanged: the servers report them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

from esdedup.proxy import http
from esdedup.proxy.actions import Action, Actions, Item
from esdedup.proxy.memory import Arriving, Memory
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.metrics import Metrics
from esdedup.proxy.splice import Source, Splicer
from esdedup.proxy.upstream import Upstream

_PART_ACTIONS = 5_000
"""Tokens make a short document several times as long, and a short delete has an answer too."""
_IN_MEMORY = 1 << 16
_PIECE = 1 << 16
_SHORT = 1 << 16
_ALWAYS = contextlib.nullcontext()
_KEPT = (b"content-type", b"x-elastic-product")
_FORMAT = re.compile(rb"([?&])format=[^&]*")
_UNSENT = "not sent, because an earlier part of the same request failed: "
_UNKNOWN = "may be written or not: "
_TRY_AGAIN = 429
"""Clients retry such an item; many of them do so for no other status."""


@dataclass
class Part:
    """Lines for one request, and their items.

    refused: the answer to these items, which are not sent. status: of theirs, in place of its own.
    whole: the body has no other part. outcomes: of the documents. held: the memory of the part.
    """

    body: bytes
    items: list[Item]
    refused: http.Answer | None = None
    status: int | None = None
    whole: bool = False
    outcomes: Mapping[str, int] = field(default_factory=dict)
    held: ExitStack = field(default_factory=ExitStack)


@dataclass
class Bulk:
    """One `_bulk` request of a client. index: named by the request's path, if any."""

    _upstream: Upstream
    _schemes: Schemes
    _splicer: Splicer
    _metrics: Metrics
    _memory: Memory
    _request: http.Request
    _index: str | None
    _held: ExitStack = field(default_factory=ExitStack)
    """The memory of all parts."""
    _long: ExitStack | None = None
    """The memory for a long document, which has not arrived as a whole yet."""
    _begun: bool = False
    """A part may have been sent."""
    _refused: http.Answer | None = None
    """The answer to the first actions that were refused."""
    _failure: http.Answer | None = None
    """The reason to send no further part. Clients may retry its actions."""

    async def run(self) -> None:
        """Send the body's actions, and answer. Raises Failed if none was acknowledged."""
        try:
            with self._held, tempfile.SpooledTemporaryFile(_IN_MEMORY) as items:
                merged = MergedAnswer(items)
                async with contextlib.aclosing(_ahead(self._parts())) as parts:
                    async for part in parts:
                        if part.whole:
                            await self._only(part)
                            return
                        await self._add(part, merged)
                        part.held.close()
                if not merged.parts and (answer := self._failure or self._refused) is not None:
                    await self._request.reply(answer)
                else:
                    await self._request.answer(200, merged.headers(), merged.body())
        except OSError as error:
            reason = f"documents may be written: no room to keep the answer: {error.strerror}"
            raise http.Failed.error(503, "io_exception", reason, retry=1) from error

    async def _only(self, part: Part) -> None:
        """Send all actions in one request, and pass its answer on."""
        if part.refused is not None:
            await self._request.reply(part.refused)
            return
        headers, body = await http.packed(self._request, part.body)
        await self._upstream.forward(self._request, headers, body)
        if self._request.accepted:
            self._count(part)

    async def _add(self, part: Part, merged: MergedAnswer) -> None:
        """Send a part, unless it is refused or one before failed, and add its answer."""
        if part.refused is not None:
            remark = _UNSENT if part.status and merged.parts else ""
            merged.refuse(part.items, part.refused, remark, part.status)
            self._refused = self._refused or part.refused
            return
        if self._failure is not None:
            merged.refuse(part.items, self._failure, _UNSENT, _TRY_AGAIN)
            return
        request, remark = self._request, ""
        headers, body = await http.packed(request, part.body)
        # The proxy reads the answer itself, so it must be JSON, and not compressed.
        headers = [
            (name, value)
            for name, value in headers
            if name != b"accept-encoding" and (name != b"accept" or b"json" in value)
        ]
        try:
            target = _FORMAT.sub(rb"\1", request.target)
            answer = await self._upstream.ask(request.method, target, headers, body)
            if answer.status == 200:
                await asyncio.to_thread(merged.add, answer)
                self._count(part)
                return
        except http.Failed as error:
            answer, remark = error.answer, _UNKNOWN
        merged.refuse(part.items, answer, remark)
        self._failure = answer

    def _count(self, part: Part) -> None:
        for outcome, count in part.outcomes.items():
            self._metrics.documents.labels(outcome).inc(count)

    async def _parts(self) -> AsyncGenerator[Part, None]:
        """Yield the parts in order. If the body can't be read to its end, the last is refused."""
        actions: list[Action] = []
        size, first = 0, True
        body = Actions(self._request.encoding, self._index, self._memory.line)
        try:
            with Arriving(self._memory) as arriving:
                async for more in self._read(body):
                    for action in more:
                        if actions and (action.refused or len(actions) == _PART_ACTIONS):
                            yield await self._made(actions)
                            actions, size, first = [], 0, False
                        if action.refused is not None:
                            yield Part(b"", _items([action]), action.refused)
                            first = False
                        else:
                            actions.append(action)
                            size += action.size
                    full = arriving.hold(size + body.pending)
                    if full and actions:
                        yield await self._made(actions)
                        actions, size, first = [], 0, False
                        full = arriving.hold(body.pending)
                    if full and self._long is None:
                        self._long = self._held.enter_context(ExitStack())
                        length = self._request.length
                        await self._memory.take_long(length, self._long, patient=self._begun)
            if actions or first:
                yield await self._made(actions, whole=first)
        except http.Failed as error:
            # At least one item: an unreadable body must not look like an empty one.
            items = _items(actions) or [Item("index", self._index, None)]
            yield Part(b"", items, self._failure or error.answer)

    async def _read(self, body: Actions) -> AsyncIterator[list[Action]]:
        """Yield the actions as they arrive."""
        async for chunk in self._request:
            body.feed(chunk)
            while body.more:
                # Long bodies take turns, or short ones would wait for a turn of each.
                async with self._memory.turns if self._request.received > _SHORT else _ALWAYS:
                    more = body.read()
                    await asyncio.sleep(0)
                yield more
        yield body.end()

    async def _made(self, actions: Sequence[Action], *, whole: bool = False) -> Part:
        """Return the part of some actions, with tokens and the memory for it."""
        held, self._long = self._long, None
        names = {one.item.index for one in actions if one.item and one.source}
        try:
            if self._failure is not None:
                raise http.Failed("a part before failed", self._failure)
            found = {name: await self._schemes.find(name, self._request.headers) for name in names}
            if held is None:
                held = self._held.enter_context(ExitStack())
                size = sum(len(one.line) + len(one.source) for one in actions)
                await self._memory.take(size, len(actions), held, patient=self._begun)
        except http.Failed as error:
            self._failure = error.answer
            return Part(b"", _items(actions), error.answer, _TRY_AGAIN, whole)
        # From here on it waits as long as need be, because a part may have been written.
        self._begun = True
        sources = [
            Source(one.source, found[one.item.index].meta, one.item.operation == "update")
            if one.item and one.source
            else Source(one.source, None)
            for one in actions
        ]
        done, outcomes = await self._splicer.added(sources)
        counts = Counter(
            str(outcome or found[one.item.index].reason)
            for one, outcome in zip(actions, outcomes, strict=True)
            if one.item and one.source
        )
        lines = zip((one.line for one in actions), done, strict=True)
        body = b"".join(itertools.chain.from_iterable(lines))
        return Part(body, _items(actions), whole=whole, outcomes=counts, held=held)


def _items(actions: Sequence[Action]) -> list[Item]:
    return [action.item for action in actions if action.item]


async def _ahead(parts: AsyncGenerator[Part, None]) -> AsyncGenerator[Part, None]:
    """Yield the parts. Each is made while the caller works on the one before."""

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
    """Several answers to `_bulk`, merged. file: for their items, empty."""

    def __init__(self, file: IO[bytes]) -> None:
        self._items = file
        self._fields: dict[str, Any] = {}
        self._headers: http.Headers = []
        self.parts = 0

    def add(self, answer: http.Answer) -> None:
        """Add an answer of the upstream. Raises Failed if it can't be parsed."""
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
        self, items: Sequence[Item], failure: http.Answer, remark: str, status: int | None = None
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
        """Return the headers of the merged answer."""
        length = len(self._opening()) + self._items.tell() + len(b"]}")
        return [(b"content-length", str(length).encode()), *self._headers]

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body of the merged answer, in pieces."""
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
