"""The ASGI application: routes each request, and puts tokens into documents."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Literal
from urllib.parse import unquote

from esdedup.proxy import http
from esdedup.proxy.bulk import Bulk
from esdedup.proxy.memory import Budget, Hold, Limits
from esdedup.proxy.metadata import Schemes
from esdedup.proxy.splice import Source, Splicer
from esdedup.proxy.upstream import Upstream

_Kind = Literal["own", "pass", "bulk", "document", "update"]
_OWN = b"/-/"
"""No index has such a name."""
_MOST_THREADS = 4
_READY_SECONDS = 1.0
_READY_ANSWER_SECONDS = 3.0
_GONE = 499

log = logging.getLogger(__name__)


class Service:
    """Passes requests to the upstream, documents with their tokens."""

    def __init__(self, upstream: Upstream, limits: Limits | None = None) -> None:
        """Raise UsageError if the memory does not suffice."""
        self._upstream = upstream
        self._limits = limits or Limits()
        self.metrics = upstream.metrics
        self._schemes = Schemes(upstream)
        self._splicer = Splicer(self._limits.text)
        self._budget = Budget(self._limits.bodies(), self._limits.wait_seconds)
        self._ready = (0.0, False)

    async def __call__(self, scope: http.Message, receive: http.Receive, send: http.Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await receive()
            threads = ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1))
            asyncio.get_running_loop().set_default_executor(threads)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._upstream.close()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self._http(http.Request(scope, receive, send, self._limits.body_seconds))

    def watch(self) -> None:
        """Set the figures of memory."""
        self.metrics.watch(self._budget)

    async def _http(self, request: http.Request) -> None:
        begun = time.monotonic()
        kind, index = _route(request)
        try:
            await request.while_connected(self._answer(request, kind, index))
        except http.ClientGone:
            log.info("the client hung up: %s %s", request.method, request.path)
        except http.Failed as error:
            if request.status is not None:
                log.warning("an answer broke off: %s", error)
            else:
                await request.reply(error.answer)
        except asyncio.CancelledError:
            # The process ends, and waits no longer.
            if request.status is not None:
                raise
            reason = "the proxy ends: documents of this request may be written or not"
            failed = http.Failed.error(503, "service_unavailable", reason, retry=1)
            await request.reply(failed.answer)
        finally:
            seconds = time.monotonic() - begun
            self.metrics.request(kind, request.status or _GONE, seconds, request.received)

    async def _answer(self, request: http.Request, kind: _Kind, index: str | None) -> None:
        try:
            request.check()
            if kind == "own":
                await self._own(request)
            elif kind == "pass":
                await self._pass(request)
            else:
                with self._budget.hold() as hold:
                    await self._written(request, kind, index, hold)
        except http.Failed:
            if request.status is None:
                await request.drain()
            raise

    async def _own(self, request: http.Request) -> None:
        """Answer for the proxy itself."""
        await request.drain()
        path = request.path.removeprefix(_OWN)
        if path == b"health/live":
            answer = _text(200, b"live\n")
        elif path == b"health/ready":
            ready = await self._is_ready()
            answer = _text(200, b"ready\n") if ready else _text(503, b"not ready\n")
        elif path == b"metrics":
            self.watch()
            body, kind = await asyncio.to_thread(self.metrics.page)
            answer = http.Answer.of(200, kind, body)
        else:
            reason = "the proxy has /-/health/live, /-/health/ready and /-/metrics"
            raise http.Failed.error(404, "resource_not_found_exception", reason)
        await request.reply(answer)

    async def _is_ready(self) -> bool:
        """Return whether the upstream answers, asked at most once a second, and without a user."""
        until, ready = self._ready
        if time.monotonic() > until:
            try:
                async with asyncio.timeout(_READY_ANSWER_SECONDS):
                    ready = (await self._upstream.ask("GET", b"/", [])).status < 500
            except (TimeoutError, http.Failed):
                ready = False
            self._ready = time.monotonic() + _READY_SECONDS, ready
        return ready

    async def _pass(self, request: http.Request) -> None:
        # A request may have an empty body, or none.
        has_body = {b"content-length", b"transfer-encoding"} & {name for name, _ in request.headers}
        if not has_body:
            await request.drain()
        try:
            await self._upstream.forward(request, request.headers, request if has_body else None)
        finally:
            if _may_change_mappings(request):
                self._schemes.forget()

    async def _written(
        self, request: http.Request, kind: _Kind, index: str | None, hold: Hold
    ) -> None:
        if kind == "bulk":
            await Bulk(
                self._upstream,
                self._schemes,
                self._splicer,
                self.metrics,
                self._limits,
                hold,
                request,
                index,
            ).run()
            return
        found = await self._schemes.find(index, request.headers)
        if found.meta is not None:
            await hold.reserve(self._limits.need(request.length))
        raw: list[bytes] = []
        if found.meta is None or not await self._whole(request, hold, raw):
            self.metrics.documents(found.reason or "too_large")
            await self._upstream.forward(request, request.headers, http.chained(raw, request))
            return
        headers, body = request.headers, b"".join(raw)
        outcome: str | None = "no_text"
        if (document := await self._unpacked(request, body, hold)) is not None:
            await hold.grow(2 * len(document))
            source = Source(document, found.meta, kind == "update")
            (done,), (outcome,) = await asyncio.to_thread(self._splicer.with_tokens, [source])
            if done is not document:
                headers, body = await http.packed(request, done)
        self.metrics.documents(outcome or found.reason)
        await self._upstream.forward(request, headers, body)

    async def _unpacked(self, request: http.Request, body: bytes, hold: Hold) -> bytes | None:
        """A whole body; None if it is too long, or can't be unpacked: the server reports it."""
        if request.encoding in http.PLAIN:
            return body
        unpacker = http.Unpacker(request.encoding)
        unpacker.feed(body)
        pieces: list[bytes] = []
        try:
            while unpacker.more:
                pieces.append(await asyncio.to_thread(unpacker.read))
                await hold.grow(len(pieces[-1]))
                if sum(map(len, pieces)) > self._limits.line:
                    return None
            unpacker.end()
        except http.Unreadable:
            return None
        return b"".join(pieces)

    async def _whole(self, request: http.Request, hold: Hold, raw: list[bytes]) -> bool:
        """Read the body, unless it is too long to be held. Returns True if that is all of it."""
        size = 0
        async for chunk in request:
            await hold.grow(len(chunk))
            raw.append(chunk)
            size += len(chunk)
            if size > self._limits.line:
                return False
        return True


def _route(request: http.Request) -> tuple[_Kind, str | None]:
    """The kind of a request, and the index that its path names; "pass" for an unchanged body."""
    if request.path.startswith(_OWN):
        return "own", None
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


def _may_change_mappings(request: http.Request) -> bool:
    path = request.path.rstrip(b"/")
    if request.method in ("PUT", "DELETE"):
        return b"/_doc/" not in path
    named = path.endswith((b"/_aliases", b"/_mapping")) or b"/_rollover" in path
    return request.method == "POST" and named


def _text(status: int, body: bytes) -> http.Answer:
    return http.Answer.of(status, b"text/plain; charset=utf-8", body)
