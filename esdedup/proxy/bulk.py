"""Handles a `_bulk` request: sends its parts one after the other, and merges their answers.

One part is on its way at a time, while the next one is made. So actions on the same document stay
in order, and nothing further is sent after a failure.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import IO, Any, Self

from esdedup.proxy.body import BulkBody, Item, Part, ahead
from esdedup.proxy.http import (
    Answer,
    Body,
    Failed,
    Headers,
    Request,
    Send,
    chained,
    packed,
    reply,
    stream,
)
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.upstream import Upstream

_IN_MEMORY = 4 << 20
_PIECE = 1 << 16
_KEPT = (b"content-type", b"x-elastic-product")
UNSENT = "not sent, because an earlier part of the same request failed: "
UNKNOWN = "may be written or not: "


@dataclass(frozen=True)
class Bulk:
    """One `_bulk` request of a client. index: named by the request's path, if any."""

    upstream: Upstream
    schemes: Schemes
    request: Request
    index: str | None

    async def run(self, body: Body, send: Send) -> None:
        """Sends the body's actions, and answers. Raises Failed if none was acknowledged."""
        source = BulkBody(body, self.request, self.index, self.schemes)
        parts = ahead(source.parts())
        try:
            first = await anext(parts, Part(b"", []))
            second = await anext(parts, None)
            if second is None:
                await self._single(first, body, send)
            else:
                await self._several(chained([first, second], parts), source, send)
        finally:
            await parts.aclose()

    async def _single(self, part: Part, body: Body, send: Send) -> None:
        if part.refused is not None:
            await reply(send, part.refused)
        else:
            await self.upstream.forward(self.request, *await self._encoded(part), body, send)

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
                await stream(send, 200, merged.headers(), merged.body())

    async def _send(self, part: Part, merged: MergedAnswer) -> Answer | None:
        """Sends a part and adds its answer. Returns the failure, if any."""
        remark, failure = "", part.refused
        if failure is None:
            try:
                answer = await self._post(part)
                if answer.status == 200:
                    merged.add(answer)
                    return None
                failure = answer
            except Failed as error:
                remark, failure = UNKNOWN, error.answer
            except ValueError as error:
                remark, failure = UNKNOWN, Answer.error(502, "bad_gateway", str(error))
        merged.refuse(part.items, failure, remark)
        return failure

    async def _post(self, part: Part) -> Answer:
        headers, body = await self._encoded(part)
        # The proxy reads the answer itself, so it must be JSON, and not compressed.
        headers = [
            (name, value)
            for name, value in headers
            if name != b"accept-encoding" and (name != b"accept" or b"json" in value)
        ]
        return await self.upstream.ask(self.request.method, self.request.target, headers, body)

    async def _encoded(self, part: Part) -> tuple[Headers, bytes]:
        if self.request.encoding in ("", "identity"):
            return self.request.headers, part.body
        return await packed(self.request.headers, part.body)


class MergedAnswer:
    """Several answers to `_bulk` made one. Items beyond some megabytes are in a temporary file."""

    def __init__(self) -> None:
        self._items: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        self._fields: dict[str, Any] = {}
        self._headers: Headers = []
        self.parts = 0

    def add(self, answer: Answer) -> None:
        """Adds an answer of the upstream. Raises ValueError if it can't be read."""
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
        """Adds items that failed because the upstream answered `failure`."""
        error = _cause(failure)
        error["reason"] = f"{remark}{error['reason']}"
        outcome = {"status": failure.status, "error": error}
        self._write(
            [{item.operation: {"_index": item.index, "_id": item.id} | outcome} for item in items]
        )
        self._fields["errors"] = True

    def headers(self) -> Headers:
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
    """Merges a field: `errors` is true if any is; `took` and `ingest_took` are added up."""
    if isinstance(value, bool):
        return bool(before) or value
    if isinstance(value, int) and isinstance(before, int):
        return before + value
    return value


def _cause(failure: Answer) -> dict[str, str]:
    """The type and the reason of an error, in the servers' form or any other."""
    try:
        error = json.loads(failure.body)["error"]
        return {"type": str(error["type"]), "reason": str(error["reason"])}
    except (ValueError, KeyError, TypeError):
        text = failure.body[:500].decode("utf-8", "replace").strip()
        return {"type": "upstream_error", "reason": text or f"status {failure.status}"}
