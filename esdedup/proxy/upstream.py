"""Sends requests to the servers behind the proxy."""

import logging
import re
import ssl
import time
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote

import httpx

from esdedup.exceptions import UsageError
from esdedup.proxy.http import Failed, Headers, ProxyAnswer, Request
from esdedup.proxy.metrics import Metrics
from esdedup.proxy.settings import ProxySettings
from esdedup.stores.connection import split_address

_CONNECT_SECONDS = 10.0
_KEPT_CONNECTIONS = 100
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)

log = logging.getLogger(__name__)


class Upstream:
    """The servers behind the proxy. Adds no header and follows no redirect."""

    def __init__(self, settings: ProxySettings) -> None:
        """Raise UsageError for a wrong address."""
        url = settings.upstream
        address = url if "://" in url else f"http://{url}"
        if "@" in split_address(address, url).netloc:
            raise UsageError(
                "the upstream's address has credentials: the proxy uses those of its clients"
            )
        try:
            self.url = httpx.URL(address)
        except httpx.InvalidURL as error:
            raise UsageError(f"upstream {url!r}: {error}") from error
        self.metrics = Metrics()
        self._prefix = self.url.raw_path.rstrip(b"/")
        silent = httpx.Timeout(settings.timeout, connect=_CONNECT_SECONDS, pool=None)
        self._extensions = {"timeout": silent.as_dict()}
        self._ca_certs = settings.ca_certs
        self.renew()

    def renew(self) -> None:
        """Read the authorities again, for new connections. Raises UsageError."""
        limits = httpx.Limits(max_keepalive_connections=_KEPT_CONNECTIONS, keepalive_expiry=30)
        # To read the authorities takes longer than a request, and without TLS none is needed.
        trusted: ssl.SSLContext | bool = False
        try:
            if self.url.scheme == "https" or self._ca_certs is not None:
                trusted = ssl.create_default_context(cafile=self._ca_certs)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"certificate authorities {self._ca_certs}: {error}") from error
        # The transport alone: a client above it would add headers, cookies and proxies.
        self._transport = httpx.AsyncHTTPTransport(verify=trusted, limits=limits, trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    @asynccontextmanager
    async def exchange(
        self, method: str, target: bytes, headers: Headers, body: AsyncIterable[bytes] | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Yield an answer whose body is still to be read.

        A body in chunks is sent with the client's content-length, or chunked. Raises Failed if the
        upstream can't be reached, breaks off (502), or is late (504), or if the target leaves the
        path of the upstream (400).
        """
        path = unquote(target.partition(b"?")[0].decode("latin-1"))
        if self._prefix and ".." in re.split(r"[/\\]", path):
            reason = "the path could leave that of the upstream"
            raise Failed.error(400, "illegal_argument_exception", reason)
        # httpx names the host. Uvicorn has answered an expectation already.
        request = httpx.Request(
            method,
            self.url,
            headers=[
                header for header in _end_to_end(headers) if header[0] not in (b"host", b"expect")
            ],
            content=body,
            extensions={**self._extensions, "target": self._prefix + target},
        )
        begun = time.monotonic()
        try:
            response = await self._transport.handle_async_request(request)
            self.metrics.upstream_seconds.observe(time.monotonic() - begun)
            try:
                yield response
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            name = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            status, kind, problem = 502, "bad_gateway", "gave no answer"
            if isinstance(error, httpx.TimeoutException):
                status, kind, problem = 504, "gateway_timeout", "did not answer in time"
            self.metrics.upstream_errors.labels(kind).inc()
            reason = f"the upstream {self.url} {problem} ({name})"
            log.warning("%s", reason)
            raise Failed.error(status, kind, reason) from error

    async def forward(
        self, request: Request, headers: Headers, content: AsyncIterable[bytes] | None
    ) -> None:
        """Send a client's request on, and pass the answer back while it arrives. Raises Failed.

        headers: sent in place of the request's own.
        content: sent in place of its body, which is read to its end first.
        """
        async with self.exchange(request.method, request.target, headers, content) as response:
            await request.drain()
            passed = _end_to_end(response.headers.raw)
            await request.answer(response.status_code, passed, response.aiter_raw())

    async def ask(self, method: str, target: bytes, headers: Headers) -> ProxyAnswer:
        """Return a whole answer, its body as it came. Raises Failed."""
        async with self.exchange(method, target, headers) as response:
            body = b"".join([chunk async for chunk in response.aiter_raw()])
            return ProxyAnswer(response.status_code, _end_to_end(response.headers.raw), body)


def _end_to_end(headers: Headers) -> Headers:
    """Return the headers without those that concern a single connection."""
    named = {
        token.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for token in value.split(b",")
    }
    return [header for header in headers if header[0].lower() not in _HOP_BY_HOP | named]
