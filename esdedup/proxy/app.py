"""The ASGI application: what becomes of each request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from esdedup.proxy.bulk import Bulk
from esdedup.proxy.http import (
    READABLE,
    BadEncoding,
    Body,
    ClientGone,
    Headers,
    Message,
    Receive,
    Request,
    Send,
    packed,
    reply,
    unpacked,
)
from esdedup.proxy.metadata import LookupFailed, Schemes
from esdedup.proxy.splice import Source, with_tokens
from esdedup.proxy.upstream import NoAnswer, Upstream, has_body, relay

_LARGEST_DOCUMENT = 128 << 20
"""A larger one passes without tokens; the servers refuse it, unless their limit was raised."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Route:
    """A request with documents in its body, for an index; a bulk request may name none."""

    kind: Literal["bulk", "document", "update"]
    index: str | None

    @staticmethod
    def of(request: Request) -> Route | None:
        """The route of a request whose body may have to be changed."""
        parts = [unquote(part) for part in request.path.decode("latin-1").split("/") if part]
        if request.method not in ("POST", "PUT") or not _json(request):
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
        """An ASGI application."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(Request.of(scope), Body(receive), _Started(send))

    async def _http(self, request: Request, body: Body, send: _Started) -> None:
        try:
            await body.while_connected(self._answer(request, body, send))
        except ClientGone:
            log.info("the client hung up: %s %s", request.method, request.path)
        except (NoAnswer, LookupFailed) as error:
            if send.started:
                log.warning("an answer broke off: %s", error)
                return
            await reply(send, error.answer)

    async def _answer(self, request: Request, body: Body, send: Send) -> None:
        try:
            await self._routed(request, body, send)
        except (NoAnswer, LookupFailed):
            await body.drain()
            raise

    async def _routed(self, request: Request, body: Body, send: Send) -> None:
        route = Route.of(request)
        if route is None:
            await self._pass(request, body, send)
        elif route.kind == "bulk":
            encoding = request.header(b"content-encoding").lower()
            await Bulk(self._upstream, request, encoding).run(
                body, route.index, self._schemes, send
            )
        else:
            await self._document(route, request, body, send)

    async def _pass(self, request: Request, body: Body, send: Send) -> None:
        chunks = body if has_body(request) else None
        if chunks is None:
            await body.drain()
        async with self._upstream.exchange(
            request.method, request.target, request.headers, chunks
        ) as response:
            await body.drain()
            await relay(send, response)
        if _may_change_mappings(request):
            self._schemes.forget()

    async def _document(self, route: Route, request: Request, body: Body, send: Send) -> None:
        raw: list[bytes] = []
        size = 0
        async for chunk in body:
            raw.append(chunk)
            size += len(chunk)
            if size > _LARGEST_DOCUMENT:
                await self._send(request, request.headers, _joined(raw, body), send)
                return
        headers, whole = request.headers, b"".join(raw)
        source = await self._source(route, request, whole)
        if source is not None:
            (done,) = await asyncio.to_thread(with_tokens, [source])
            if done is not source.body:
                whole = done
                if request.header(b"content-encoding"):
                    whole = await asyncio.to_thread(packed, done)
                    headers = _gzip(headers)
        await self._send(request, headers, whole, send)

    async def _source(self, route: Route, request: Request, whole: bytes) -> Source | None:
        """The document and its index's meta, where it has one and the document can be read."""
        meta = await self._schemes.meta(route.index or "", request.headers)
        if meta is None:
            return None
        pieces, size = [], 0
        try:
            encoding = request.header(b"content-encoding").lower()
            async for piece in unpacked(_one(whole), encoding):
                pieces.append(piece)
                size += len(piece)
                if size > _LARGEST_DOCUMENT:
                    return None
        except BadEncoding:
            return None  # The server has words of its own for that.
        return Source(b"".join(pieces), meta, route.kind == "update")

    async def _send(
        self, request: Request, headers: Headers, body: bytes | AsyncIterator[bytes], send: Send
    ) -> None:
        async with self._upstream.exchange(
            request.method, request.target, headers, body
        ) as response:
            await relay(send, response)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._upstream.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


class _Started:
    """A `send` that knows whether the answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)


def _json(request: Request) -> bool:
    """Whether the body is JSON that can be read here; the servers take other forms too."""
    kind = request.header(b"content-type").lower()
    readable = request.header(b"content-encoding").lower() in READABLE
    return readable and ("json" in kind or not kind)


def _may_change_mappings(request: Request) -> bool:
    path = request.path.rstrip(b"/")
    if request.method in ("PUT", "DELETE"):
        return b"/_doc/" not in path
    last = path.rpartition(b"/")[2]
    return request.method == "POST" and (
        last in (b"_aliases", b"_mapping") or b"/_rollover" in path
    )


def _gzip(headers: Headers) -> Headers:
    kept = [pair for pair in headers if pair[0] != b"content-encoding"]
    return [*kept, (b"content-encoding", b"gzip")]


async def _one(whole: bytes) -> AsyncIterator[bytes]:
    yield whole


async def _joined(raw: list[bytes], body: Body) -> AsyncIterator[bytes]:
    while raw:
        yield raw.pop(0)
    async for chunk in body:
        yield chunk
