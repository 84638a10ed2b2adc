"""The ASGI application: routes each request, and adds tokens to documents."""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import re
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Literal
from urllib.parse import unquote

from esdedup.proxy import http
from esdedup.proxy.logs import Show
from esdedup.proxy.metadata import LOOK_UP_SECONDS, Schemes
from esdedup.proxy.metrics import METRICS_FOLDER
from esdedup.proxy.rewriting import READABLE, Batches, Rewriter, pieces
from esdedup.proxy.settings import ProxySettings
from esdedup.proxy.upstream import Upstream

_Kind = Literal["own", "pass", "bulk", "document", "update"]
_OWN = b"/-/"
"""No index has such a name."""
_THREADS = min(2, os.cpu_count() or 1)
"""Threads that add tokens. Python runs one at a time, except in numpy and hashing."""
_READY_SECONDS = 3.0
_GONE = 499
_CHANGES_NAMES = re.compile(rb"/_(aliases|mapping|rollover)\b")

log = logging.getLogger(__name__)


class Service:
    """Passes requests to the upstream, documents with their tokens.

    settings: of this process alone.
    show: applied to messages that clients get.
    batches: how bodies are rewritten.
    look_up_seconds: after which a look-up of an index without an answer fails.

    Raises UsageError if a setting is wrong.
    """

    def __init__(
        self,
        settings: ProxySettings,
        show: Show = str,
        batches: Batches = Batches(),  # noqa: B008
        look_up_seconds: float = LOOK_UP_SECONDS,
    ) -> None:
        self.settings = settings
        self._show = show
        self.upstream = Upstream(settings)
        self._schemes = Schemes(self.upstream, look_up_seconds)
        self._rewriter = Rewriter(self._schemes, settings.max_memory, batches)
        self.metrics = self.upstream.metrics

    async def __call__(self, scope: http.Message, receive: http.Receive, send: http.Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await receive()
            loop = asyncio.get_running_loop()
            loop.set_default_executor(ThreadPoolExecutor(_THREADS))
            if parent := multiprocessing.parent_process():
                loop.add_reader(parent.sentinel, _end_without_parent, parent.sentinel)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self.upstream.close()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self._http(http.Request(scope, receive, send, self.settings.body_timeout))

    async def _http(self, request: http.Request) -> None:
        began = time.monotonic()
        kind, index = _route(request)
        try:
            await request.while_connected(self._answer(request, kind, index))
        except http.ClientGone:
            log.info("the client disconnected: %s %s", request.method, request.path)
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
            seconds = time.monotonic() - began
            self.metrics.request(kind, request.status or _GONE, seconds, request.received)

    async def _answer(self, request: http.Request, kind: _Kind, index: str | None) -> None:
        content_type = request.header(b"content-type")
        try:
            if kind == "own":
                await self._own(request)
            elif kind == "pass":
                await self._pass(request)
            elif request.encoding in READABLE and ("json" in content_type or not content_type):
                await self._add_tokens(request, kind, index)
            else:
                if not self.settings.pass_unread:
                    await self._refuse_unread(request, kind, index)
                await self._pass(request)
                if request.accepted:
                    self.metrics.documents.labels("not_json").inc()
                    log.warning(
                        "documents of type %s %s have no tokens", content_type, request.encoding
                    )
        except http.Failed as error:
            if request.status is None:
                await request.drain()
                if isinstance(error, http.Refused):
                    self.metrics.refused_requests.labels(kind, str(error.answer.status)).inc()
                if error.answer.status == 503 or isinstance(error, http.Refused):
                    log.warning("refused a request: %s", error)
            raise

    async def _refuse_unread(self, request: http.Request, kind: _Kind, index: str | None) -> None:
        """Raise Refused for a body that can't be read, if it may be of an index with our fields.

        The actions of a `_bulk` body may name any index.
        """
        if kind != "bulk" and (await self._schemes.find(index, request.headers)).meta is None:
            return
        content_type = request.header(b"content-type")
        coding = f" in the encoding {request.encoding!r}" if request.encoding else ""
        reason = (
            f"the proxy can't read a body of type {content_type!r}{coding}, and its documents may"
            " bring values of esdedup's fields: send JSON, plain or with gzip (`pass_unread` passes"
            " it)"
        )
        raise http.Refused.error(415, "media_type_header_exception", self._show(reason))

    async def _own(self, request: http.Request) -> None:
        """Answer for the proxy itself."""
        await request.drain()
        path = request.path.removeprefix(_OWN)
        plain = b"text/plain; charset=utf-8"
        if path == b"health/live":
            answer = http.ProxyAnswer.of(200, plain, b"live\n")
        elif path == b"health/ready":
            answer = http.ProxyAnswer.of(503, plain, b"not ready\n")
            # The upstream may reject a request without a user.
            with contextlib.suppress(TimeoutError, http.Failed):
                async with asyncio.timeout(_READY_SECONDS):
                    if (await self.upstream.ask("GET", b"/", [])).status < 500:
                        answer = http.ProxyAnswer.of(200, plain, b"ready\n")
        elif path == b"metrics":
            body, content_type = await asyncio.to_thread(self.metrics.page)
            answer = http.ProxyAnswer.of(200, content_type, body)
        else:
            reason = "the proxy has /-/health/live, /-/health/ready and /-/metrics"
            raise http.Failed.error(404, "resource_not_found_exception", reason)
        await request.reply(answer)

    async def _pass(self, request: http.Request) -> None:
        # A request may have an empty body, or none.
        has_body = {b"content-length", b"transfer-encoding"} & {name for name, _ in request.headers}
        if not has_body:
            await request.drain()
        try:
            await self.upstream.forward(request, request.headers, request if has_body else None)
        finally:
            if request.method in ("PUT", "DELETE") or _CHANGES_NAMES.search(request.path):
                self._schemes.forget()

    async def _add_tokens(self, request: http.Request, kind: _Kind, index: str | None) -> None:
        with ExitStack() as files:
            body, outcomes = await self._rewriter.rewrite(request, index, kind, files)
            replaced = (b"content-encoding", b"content-length")
            headers = [header for header in request.headers if header[0] not in replaced]
            headers.append((b"content-length", str(body.tell()).encode()))
            await self.upstream.forward(request, headers, pieces(body))
        if request.accepted:
            for outcome, count in outcomes.items():
                self.metrics.documents.labels(outcome).inc(count)


def _end_without_parent(sentinel: int) -> None:
    """End this process, and remove what the parent would have removed."""
    asyncio.get_running_loop().remove_reader(sentinel)
    shutil.rmtree(os.environ[METRICS_FOLDER], ignore_errors=True)
    log.error("the parent process is gone: this one ends")
    signal.raise_signal(signal.SIGTERM)


def _route(request: http.Request) -> tuple[_Kind, str | None]:
    """Return the kind of a request, and the index that it names."""
    if request.path.startswith(_OWN):
        return "own", None
    if request.method in ("POST", "PUT"):
        steps = [unquote(step) for step in request.path.decode("latin-1").split("/") if step]
        match steps:
            case ["_bulk"]:
                return "bulk", request.parameter("index")
            case [index, "_bulk"]:
                return "bulk", index
            case [index, "_doc"] | [index, "_doc", _] | [index, "_create", _]:
                return "document", index
            case [index, "_update", _]:
                return "update", index
    return "pass", None
