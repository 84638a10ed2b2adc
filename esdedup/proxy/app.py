"""The ASGI application: routes each request, and puts tokens into documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable
from typing import Literal
from urllib.parse import unquote

from esdedup.proxy import http
from esdedup.proxy.bulk import Bulk
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.splice import Source, with_tokens
from esdedup.proxy.upstream import Upstream

_Kind = Literal["pass", "bulk", "document", "update"]
_LARGEST_DOCUMENT = 128 << 20
"""A larger one passes without tokens. The servers refuse it, unless their limit was raised."""

log = logging.getLogger(__name__)


class Service:
    """Passes requests to the upstream, documents with their tokens."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._schemes = Schemes(upstream)

    async def __call__(self, scope: http.Message, receive: http.Receive, send: http.Send) -> None:
        """Serves one ASGI scope."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._upstream.close()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self._http(http.Request(scope, receive, send))

    async def _http(self, request: http.Request) -> None:
        try:
            await request.while_connected(self._answer(request))
        except http.ClientGone:
            log.info("the client hung up: %s %s", request.method, request.path)
        except http.Failed as error:
            if request.answered:
                log.warning("an answer broke off: %s", error)
            else:
                await request.reply(error.answer)

    async def _answer(self, request: http.Request) -> None:
        kind, index = _route(request)
        try:
            if kind == "bulk":
                await Bulk(self._upstream, self._schemes, request, index).run()
            elif kind == "pass":
                await self._pass(request)
            else:
                await self._document(request, index, kind == "update")
        except http.Failed:
            await request.drain()
            raise

    async def _pass(self, request: http.Request) -> None:
        # A request may have an empty body, or none.
        has_body = {b"content-length", b"transfer-encoding"} & {name for name, _ in request.headers}
        if not has_body:
            await request.drain()
        await self._upstream.forward(request, request.headers, request if has_body else None)
        if _may_change_mappings(request):
            self._schemes.forget()

    async def _document(self, request: http.Request, index: str | None, update: bool) -> None:
        raw, complete = await _read(request)
        headers = request.headers
        if not complete:
            await self._upstream.forward(request, headers, http.chained(raw, request))
            return
        whole = b"".join(raw)
        if (meta := await self._schemes.meta(index, headers)) is not None:
            try:
                pieces, complete = await _read(
                    http.unpacked(http.chained([whole]), request.encoding)
                )
            except http.Unreadable:
                complete = False  # The server reports it.
            if complete:
                document = b"".join(pieces)
                (done,) = await asyncio.to_thread(with_tokens, [Source(document, meta, update)])
                if done is not document:
                    headers, whole = await http.packed(request, done)
        await self._upstream.forward(request, headers, whole)


def _route(request: http.Request) -> tuple[_Kind, str | None]:
    """The kind of a request, and the index that its path names; "pass" for an unchanged body."""
    kind = request.header(b"content-type")
    # The servers take other forms than JSON too, and other encodings.
    is_json = request.encoding in http.READABLE and ("json" in kind or not kind)
    if request.method in ("POST", "PUT") and is_json:
        parts = [unquote(part) for part in request.path.decode("latin-1").split("/") if part]
        match parts:
            case ["_bulk"]:
                return "bulk", None
            case [index, "_bulk"]:
                return "bulk", index
            case [index, "_doc"] | [index, "_doc", _] | [index, "_create", _]:
                return "document", index
            case [index, "_update", _]:
                return "update", index
    return "pass", None


async def _read(chunks: AsyncIterable[bytes]) -> tuple[list[bytes], bool]:
    """The chunks until they exceed the largest document, and True if these are all."""
    read: list[bytes] = []
    size = 0
    async for chunk in chunks:
        read.append(chunk)
        size += len(chunk)
        if size > _LARGEST_DOCUMENT:
            return read, False
    return read, True


def _may_change_mappings(request: http.Request) -> bool:
    path = request.path.rstrip(b"/")
    if request.method in ("PUT", "DELETE"):
        return b"/_doc/" not in path
    named = path.endswith((b"/_aliases", b"/_mapping")) or b"/_rollover" in path
    return request.method == "POST" and named
