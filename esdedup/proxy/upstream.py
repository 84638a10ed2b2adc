"""Sends requests to the servers behind the proxy."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

import httpx

from esdedup.exceptions import UsageError
from esdedup.proxy.http import Answer, Body, Failed, Headers, Request, Send, end_to_end, stream

_CONNECT_SECONDS = 10.0
_KEPT_CONNECTIONS = 100


class Upstream:
    """The servers behind the proxy. Adds no header and follows no redirect."""

    def __init__(self, url: str, *, ca_certs: str | None = None, timeout: float = 3600.0) -> None:
        """timeout: seconds that the upstream may stay silent. Raises UsageError if url is wrong."""
        self.url = _checked(url)
        self._prefix = self.url.raw_path.rstrip(b"/")
        seconds = {"connect": _CONNECT_SECONDS, "read": timeout, "write": timeout, "pool": None}
        self._extensions = {"timeout": seconds}
        limits = httpx.Limits(
            max_connections=None,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=30,
        )
        # The transport alone: a client above it would add headers, cookies and proxies.
        self._transport = httpx.AsyncHTTPTransport(
            verify=_tls(ca_certs), limits=limits, trust_env=False
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        target: bytes,
        headers: Headers,
        body: bytes | AsyncIterable[bytes] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """An answer whose body is still to be read.

        A body in chunks is sent with the client's content-length, or chunked.

        Raises Failed if the upstream can't be reached, breaks off (502), or is late (504).
        """
        request = httpx.Request(
            method,
            self.url,
            headers=self._headers(headers, body),
            stream=_stream(body),
            extensions={**self._extensions, "target": self._prefix + target},
        )
        try:
            response = await self._transport.handle_async_request(request)
            try:
                yield response
            finally:
                await response.aclose()
        except httpx.TimeoutException as error:
            reason = f"{self} did not answer in time ({_name(error)})"
            raise Failed.error(504, "gateway_timeout", reason) from error
        except httpx.TransportError as error:
            reason = f"{self} gave no answer ({_name(error)})"
            raise Failed.error(502, "bad_gateway", reason) from error

    async def forward(
        self,
        request: Request,
        headers: Headers,
        content: bytes | AsyncIterable[bytes] | None,
        body: Body,
        send: Send,
    ) -> None:
        """Sends a client's request on, and passes the answer back while it comes.

        headers, content: sent in place of the request's own. body: read to its end first.

        Raises Failed.
        """
        target = request.target
        async with self.exchange(request.method, target, headers, content) as response:
            await body.drain()
            passed = _answer_headers(response)
            await stream(send, response.status_code, passed, response.aiter_raw())

    async def ask(
        self, method: str, target: bytes, headers: Headers, body: bytes | None = None
    ) -> Answer:
        """A whole answer, its body as it came. Raises Failed."""
        async with self.exchange(method, target, headers, body) as response:
            whole = b"".join([chunk async for chunk in response.aiter_raw()])
            return Answer(response.status_code, _answer_headers(response), whole)

    def __str__(self) -> str:
        return f"the upstream {self.url}"

    def _headers(self, headers: Headers, body: object) -> Headers:
        host = [(b"host", self.url.netloc)]
        # Uvicorn has answered an expectation already.
        kept = [(n, v) for n, v in end_to_end(headers) if n not in (b"host", b"expect")]
        if body is None:
            return host + kept
        if isinstance(body, bytes):
            length = [(b"content-length", str(len(body)).encode())]
            return host + [(n, v) for n, v in kept if n != b"content-length"] + length
        sized = any(name == b"content-length" for name, _ in kept)
        return host + kept + ([] if sized else [(b"transfer-encoding", b"chunked")])


def _stream(body: bytes | AsyncIterable[bytes] | None) -> httpx.AsyncByteStream:
    if body is None or isinstance(body, bytes):
        return httpx.ByteStream(body or b"")
    return _Chunks(body)


class _Chunks(httpx.AsyncByteStream):
    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            yield chunk


def _answer_headers(response: httpx.Response) -> Headers:
    return end_to_end(response.headers.raw)


def _checked(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url if "://" in url else f"http://{url}")
    except httpx.InvalidURL as error:
        raise UsageError(f"upstream {url!r}: {error}") from error
    if found.scheme not in ("http", "https") or not found.host:
        raise UsageError(f"upstream {url!r}: give http(s)://host:port")
    if found.userinfo:
        raise UsageError("the upstream's address holds credentials: they come from the clients")
    return found


def _tls(ca_certs: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_certs)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"certificate authorities {ca_certs}: {error}") from error


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
