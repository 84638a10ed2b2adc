"""A `_bulk` request: its parts sent one after the other, and one answer made of theirs.

One part is on its way at a time, while the next is being made: actions on the same document stay
in order, and after a failure nothing further is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from esdedup.proxy.answers import UNKNOWN, UNSENT, MergedAnswer
from esdedup.proxy.body import BulkBody, Part, ahead
from esdedup.proxy.encoding import packed
from esdedup.proxy.http import Answer, Body, Headers, Request, Send, reply
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.upstream import NoAnswer, Upstream, relay


class Bulk:
    """One `_bulk` request of a client."""

    def __init__(self, upstream: Upstream, request: Request, encoding: str) -> None:
        self._upstream = upstream
        self._request = request
        self._encoding = encoding

    async def run(self, body: Body, index: str | None, schemes: Schemes, send: Send) -> None:
        """Sends the body's actions, and answers. Raises NoAnswer where none was acknowledged."""
        source = BulkBody(body, self._encoding, index, self._request.headers, schemes)
        parts = ahead(source.parts())
        try:
            begun: list[Part] = []
            async for part in parts:
                begun.append(part)
                if len(begun) == 2:
                    break
            if len(begun) == 2:
                await self._several(_chained(begun, parts), source, send)
            else:
                await self._single(begun[0] if begun else Part(b"", []), send)
        finally:
            await parts.aclose()

    async def _single(self, part: Part, send: Send) -> None:
        if part.refused is not None:
            await reply(send, part.refused)
            return
        headers, packed_body = await self._packed(part)
        async with self._upstream.exchange(
            self._request.method, self._request.target, headers, packed_body
        ) as response:
            await relay(send, response)

    async def _several(self, parts: AsyncIterator[Part], source: BulkBody, send: Send) -> None:
        failure: Answer | None = None
        with MergedAnswer() as merged:
            async for part in parts:
                if failure is not None:
                    merged.refuse(part.items, failure, UNSENT)
                    continue
                failure = await self._send(part, merged)
                source.refusal = source.refusal or failure
            if failure is not None and not merged.parts:
                await reply(send, failure)
            else:
                await _answer(merged, send)

    async def _send(self, part: Part, merged: MergedAnswer) -> Answer | None:
        """Sends a part and takes its answer in; where it failed, what failed it."""
        remark, failure = "", part.refused
        if failure is None:
            try:
                answer = await self._post(part)
                if answer.status == 200:
                    merged.add(answer)
                    return None
                failure = answer
            except NoAnswer as error:
                remark, failure = UNKNOWN, error.answer
            except ValueError as error:
                remark, failure = UNKNOWN, Answer.error(502, "bad_gateway", str(error))
        merged.refuse(part.items, failure, remark)
        return failure

    async def _post(self, part: Part) -> Answer:
        headers, packed_body = await self._packed(part)
        # The answer is read here, so it must be JSON, and plain.
        headers = [
            (name, value)
            for name, value in headers
            if name != b"accept-encoding" and (name != b"accept" or b"json" in value)
        ]
        return await self._upstream.ask(
            self._request.method, self._request.target, headers, packed_body
        )

    async def _packed(self, part: Part) -> tuple[Headers, bytes]:
        if self._encoding in ("", "identity"):
            return self._request.headers, part.body
        headers = [pair for pair in self._request.headers if pair[0] != b"content-encoding"]
        headers.append((b"content-encoding", b"gzip"))
        return headers, await asyncio.to_thread(packed, part.body)


async def _chained(begun: list[Part], rest: AsyncIterator[Part]) -> AsyncIterator[Part]:
    while begun:
        yield begun.pop(0)
    async for part in rest:
        yield part


async def _answer(merged: MergedAnswer, send: Send) -> None:
    status, headers = merged.head()
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for piece in merged.body():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
