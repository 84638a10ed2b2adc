"""A `_bulk` request: its parts sent one after the other, and one answer made of theirs.

One part is on its way at a time, while the next is being made: actions on the same document stay
in order, and after a failure nothing further is sent.

Several answers to `_bulk` made one.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import IO, Any, Self

from esdedup.proxy.body import BulkBody, Item, Part, ahead
from esdedup.proxy.http import Answer, Body, Headers, Request, Send, packed, reply
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.upstream import NoAnswer, Upstream, relay

_IN_MEMORY = 4 << 20
_PIECE = 1 << 16
_KEPT = (b"content-type", b"x-elastic-product")
UNSENT = "not sent, because an earlier part of the same request failed: "
UNKNOWN = "may be written or not: "


class MergedAnswer:
    """Items in order, past some megabytes in a temporary file, and what stands before them."""

    def __init__(self) -> None:
        self._items: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        self._fields: dict[str, Any] = {}
        self._headers: Headers = []
        self.parts = 0

    def add(self, answer: Answer) -> None:
        """Takes an answer of the upstream in. Raises ValueError where it can't be read."""
        parsed = json.loads(answer.body)
        items = parsed.pop("items", []) if isinstance(parsed, dict) else None
        if not isinstance(items, list):
            raise ValueError("the upstream's answer to _bulk has no items")
        self._write(items)
        for name, value in parsed.items():
            self._fields[name] = _merged(self._fields.get(name), value)
        if not self.parts:
            self._headers = [pair for pair in answer.headers if pair[0].lower() in _KEPT]
        self.parts += 1

    def refuse(self, items: Iterable[Item], failure: Answer, remark: str) -> None:
        """Reports items as failed by what the upstream answered."""
        error = _cause(failure)
        error["reason"] = f"{remark}{error['reason']}"
        refused = [
            {
                item.operation: {
                    "_index": item.index,
                    "_id": item.id,
                    "status": failure.status,
                    "error": error,
                }
            }
            for item in items
        ]
        self._write(refused)
        self._fields["errors"] = True

    def head(self) -> tuple[int, Headers]:
        """The status and the headers of the answer."""
        length = len(self._opening()) + self._items.tell() + len(b"]}")
        return 200, [
            (b"content-length", str(length).encode()),
            *self._headers,
        ]

    def body(self) -> Iterator[bytes]:
        """The body, in pieces."""
        yield self._opening()
        self._items.seek(0)
        while piece := self._items.read(_PIECE):
            yield piece
        yield b"]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._items.close()

    def _opening(self) -> bytes:
        fields = json.dumps(self._fields, separators=(",", ":"))[1:-1].encode()
        return b"{" + fields + (b"," if fields else b"") + b'"items":['

    def _write(self, items: list[Any]) -> None:
        if items:
            written = json.dumps(items, separators=(",", ":"))[1:-1].encode()
            self._items.write((b"," if self._items.tell() else b"") + written)


def _merged(before: Any, value: Any) -> Any:
    """`errors` is true where any part's is; `took` and `ingest_took` are sums."""
    if isinstance(value, bool):
        return bool(before) or value
    if isinstance(value, int) and isinstance(before, int):
        return before + value
    return value


def _cause(failure: Answer) -> dict[str, str]:
    """The type and the reason of an error as the servers answer it, or as anything else does."""
    try:
        error = json.loads(failure.body)["error"]
        return {"type": str(error["type"]), "reason": str(error["reason"])}
    except (ValueError, KeyError, TypeError):
        text = failure.body[:500].decode("utf-8", "replace").strip()
        return {"type": "upstream_error", "reason": text or f"status {failure.status}"}


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
