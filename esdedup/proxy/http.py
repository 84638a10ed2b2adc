"""One request of a client and the answers to it, over ASGI.

Compressed bodies: unpacked while they come, and packed again for the upstream.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    MutableMapping,
)
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)


class ClientGone(Exception):
    """The client hung up: nobody waits for an answer."""


@dataclass(frozen=True)
class Request:
    """The head of a request. target: path and query string as the client wrote them."""

    method: str
    path: bytes
    query: bytes
    headers: Headers

    @staticmethod
    def of(scope: Message) -> Request:
        """The request that an ASGI scope describes."""
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        return Request(scope["method"], scope["raw_path"], scope["query_string"], headers)

    @property
    def target(self) -> bytes:
        """Path and query string as the client wrote them."""
        return self.path + (b"?" + self.query if self.query else b"")

    def header(self, name: bytes) -> str:
        """The value of a header, or an empty string."""
        return b", ".join(v for n, v in self.headers if n == name).decode("latin-1")


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes

    @staticmethod
    def error(status: int, kind: str, reason: str) -> Answer:
        """An error in the form that the servers give theirs."""
        cause = {"type": kind, "reason": reason}
        body = json.dumps({"error": {"root_cause": [cause], **cause}, "status": status}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        return Answer(status, headers, body)


class Body:
    """The chunks of a request's body. They can be read once; raises ClientGone."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._finished = asyncio.Event()

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        while not self._finished.is_set():
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            if not message.get("more_body", False):
                self._finished.set()
            chunk: bytes = message.get("body", b"")
            if chunk:
                return chunk
        raise StopAsyncIteration

    async def drain(self) -> None:
        """Reads what is left: many clients read no answer before they have sent everything."""
        async for _ in self:
            pass

    async def while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Does the work, but drops it and raises ClientGone when the client hangs up."""
        task, watch = asyncio.create_task(work), asyncio.create_task(self._hung_up())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            task.result()
        finally:
            watch.cancel()
            task.cancel()
            await asyncio.wait({task, watch})

    async def _hung_up(self) -> None:
        await self._finished.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


def end_to_end(headers: Headers) -> Headers:
    """The headers without those that speak of one connection only."""
    named = {
        token.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for token in value.split(b",")
    }
    return [pair for pair in headers if pair[0].lower() not in _HOP | named]


async def reply(send: Send, answer: Answer) -> None:
    """Sends a whole answer."""
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


_STEP = 1 << 20
_DETECT = zlib.MAX_WBITS | 32
"""For zlib: gzip or zlib, whichever the header says."""
READABLE = ("", "identity", "gzip", "x-gzip", "deflate")
"""Content encodings that can be unpacked here."""


class BadEncoding(Exception):
    """The body is not what its content-encoding says."""


async def unpacked(chunks: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The bytes of a body, in pieces of bounded size. Raises BadEncoding."""
    if encoding in ("", "identity"):
        async for chunk in chunks:
            yield chunk
        return
    unpacker = _Unpacker()
    async for chunk in chunks:
        for piece in unpacker.feed(chunk):
            yield piece
    unpacker.finish()


def packed(body: bytes) -> bytes:
    """The body with content-encoding gzip; lightly, as it goes no further than the upstream."""
    return gzip.compress(body, 1, mtime=0)


class _Unpacker:
    """Unpacks gzip, of several members too, and zlib or bare deflate."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_DETECT)
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        piece = b""
        # After a full piece there may be more, though all input is taken in.
        while chunk or len(piece) == _STEP:
            if self._stream.eof:
                self._stream = zlib.decompressobj(_DETECT)
            piece = self._decompress(chunk)
            self._begun = True
            chunk = self._stream.unconsumed_tail or self._stream.unused_data
            if piece:
                yield piece

    def finish(self) -> None:
        if self._begun and not self._stream.eof:
            raise BadEncoding("the compressed body breaks off")

    def _decompress(self, chunk: bytes) -> bytes:
        try:
            return self._stream.decompress(chunk, _STEP)
        except zlib.error as error:
            if self._begun:
                raise BadEncoding(f"the compressed body can't be unpacked: {error}") from error
        # Many mean bare deflate, without zlib's header, by "deflate".
        self._begun = True
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._decompress(chunk)
