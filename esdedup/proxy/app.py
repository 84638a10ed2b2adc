"""The ASGI application: routes each request, and puts tokens into documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from esdedup.proxy.bulk import Bulk
from esdedup.proxy.http import (
    READABLE,
    Body,
    ClientGone,
    Failed,
    Message,
    Receive,
    Request,
    Send,
    Unreadable,
    chained,
    packed,
    reply,
    unpacked,
)
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.splice import Source, with_tokens
from esdedup.proxy.upstream import Upstream

_LARGEST_DOCUMENT = 128 << 20
"""A larger one passes without tokens. The servers refuse it, unless their limit was raised."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Route:
    """A request with documents in its body. index: None if a bulk request names none."""

    kind: Literal["bulk", "document", "update"]
    index: str | None

    @staticmethod
    def of(request: Request) -> Route | None:
        """The route of a request, or None if its body passes unchanged."""
        parts = [unquote(part) for part in request.path.decode("latin-1").split("/") if part]
        if request.method not in ("POST", "PUT") or not _is_json(request):
            return None
        match parts:
            case ["_bulk"]:
                return Route("bulk", None)
            case [index, "_bulk"]:
                return Route("bulk", index)
            case [index, "_doc"] | [index, "_doc", _] | [index, "_create", _]:
                return Route("document", index)
            case [index, "_update", _]:
                return Route("update", index)
        return None


class Service:
    """Passes requests to the upstream, documents with their tokens."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._schemes = Schemes(upstream)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(Request.of(scope), Body(receive), _Started(send))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._upstream.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _http(self, request: Request, body: Body, send: _Started) -> None:
        try:
            await body.while_connected(self._answer(request, body, send))
        except ClientGone:
            log.info("the client hung up: %s %s", request.method, request.path)
        except Failed as error:
            if send.started:
                log.warning("an answer broke off: %s", error)
                return
            await reply(send, error.answer)

    async def _answer(self, request: Request, body: Body, send: Send) -> None:
        route = Route.of(request)
        try:
            if route is None:
                await self._pass(request, body, send)
            elif route.kind == "bulk":
                await Bulk(self._upstream, self._schemes, request, route.index).run(body, send)
            else:
                await self._document(route, request, body, send)
        except Failed:
            await body.drain()
            raise

    async def _pass(self, request: Request, body: Body, send: Send) -> None:
        if not request.has_body:
            await body.drain()
        content = body if request.has_body else None
        await self._upstream.forward(request, request.headers, content, body, send)
        if _may_change_mappings(request):
            self._schemes.forget()

    async def _document(self, route: Route, request: Request, body: Body, send: Send) -> None:
        raw, complete = await _read(body)
        headers = request.headers
        if not complete:
            await self._upstream.forward(request, headers, chained(raw, body), body, send)
            return
        whole = b"".join(raw)
        source = await self._source(route, request, whole)
        if source is not None:
            (done,) = await asyncio.to_thread(with_tokens, [source])
            if done is not source.body:
                whole = done
                if request.encoding:
                    headers, whole = await packed(headers, done)
        await self._upstream.forward(request, headers, whole, body, send)

    async def _source(self, route: Route, request: Request, whole: bytes) -> Source | None:
        """The document and its index's meta; None without a meta, or if it can't be read."""
        meta = await self._schemes.meta(route.index or "", request.headers)
        if meta is None:
            return None
        try:
            pieces, complete = await _read(unpacked(_one(whole), request.encoding))
        except Unreadable:
            return None  # The server reports it.
        return Source(b"".join(pieces), meta, route.kind == "update") if complete else None


class _Started:
    """A `send` that remembers if the answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)


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


async def _one(whole: bytes) -> AsyncIterator[bytes]:
    yield whole


def _is_json(request: Request) -> bool:
    """True if the body is JSON in a readable encoding. The servers take other forms too."""
    kind = request.header(b"content-type").lower()
    return request.encoding in READABLE and ("json" in kind or not kind)


def _may_change_mappings(request: Request) -> bool:
    path = request.path.rstrip(b"/")
    if request.method in ("PUT", "DELETE"):
        return b"/_doc/" not in path
    last = path.rpartition(b"/")[2]
    return request.method == "POST" and (
        last in (b"_aliases", b"_mapping") or b"/_rollover" in path
    )
