"""Requests, bodies and answers over ASGI, and the content encodings of bodies."""

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
from typing import Any, Self, TypeVar

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
T = TypeVar("T")

READABLE = ("", "identity", "gzip", "x-gzip", "deflate")
"""Content encodings that `unpacked` reads."""
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)
_PIECE = 1 << 20
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class ClientGone(Exception):
    """The client hung up: nobody waits for an answer."""


class Failed(Exception):
    """A request can't be completed. answer: the client gets it instead."""

    def __init__(self, reason: str, answer: Answer) -> None:
        super().__init__(reason)
        self.answer = answer

    @classmethod
    def error(cls, status: int, kind: str, reason: str) -> Self:
        """A failure that is answered in the form of the servers' errors."""
        return cls(reason, Answer.error(status, kind, reason))


class Unreadable(Failed):
    """A body can't be read to its end."""


@dataclass(frozen=True)
class Request:
    """The head of a request."""

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

    @property
    def encoding(self) -> str:
        """The content encoding of the body, in lower case."""
        return self.header(b"content-encoding").lower()

    @property
    def has_body(self) -> bool:
        """True if the request has a body, even an empty one."""
        return any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)

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
        """An error in the form that the servers use."""
        cause = {"type": kind, "reason": reason}
        body = json.dumps({"error": {"root_cause": [cause], **cause}, "status": status}).encode()
        length = str(len(body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        return Answer(status, headers, body)


class Body:
    """The chunks of a request's body, to be read once. Raises ClientGone."""

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
        """Reads the rest: many clients read no answer before they have sent everything."""
        async for _ in self:
            pass

    async def while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Does the work. Cancels it and raises ClientGone if the client hangs up."""
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


async def chained(first: list[T], rest: AsyncIterable[T]) -> AsyncIterator[T]:
    """All of a list, which is emptied on the way, then all of an iterator."""
    while first:
        yield first.pop(0)
    async for each in rest:
        yield each


def end_to_end(headers: Headers) -> Headers:
    """The headers without those that concern a single connection."""
    named = {
        token.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for token in value.split(b",")
    }
    return [pair for pair in headers if pair[0].lower() not in _HOP_BY_HOP | named]


async def reply(send: Send, answer: Answer) -> None:
    """Sends a whole answer."""
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


async def stream(send: Send, status: int, headers: Headers, chunks: AsyncIterable[bytes]) -> None:
    """Sends an answer while its body is made."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def packed(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    """Returns headers and body with content-encoding gzip, lightly: only the upstream reads it."""
    kept = [pair for pair in headers if pair[0] != b"content-encoding"]
    done = await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
    return [*kept, (b"content-encoding", b"gzip")], done


async def unpacked(chunks: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The bytes of a body, in pieces of bounded size. Raises Unreadable."""
    if encoding in ("", "identity"):
        async for chunk in chunks:
            yield chunk
        return
    unpacker = _Unpacker()
    async for chunk in chunks:
        for piece in unpacker.feed(chunk):
            yield piece
    unpacker.finish()


class _Unpacker:
    """Unpacks gzip of one or more members, zlib, and bare deflate."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        piece = b""
        # After a full piece there may be more, even if all input is taken in.
        while chunk or len(piece) == _PIECE:
            if self._stream.eof:
                self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
            piece = self._decompress(chunk)
            self._begun = True
            chunk = self._stream.unconsumed_tail or self._stream.unused_data
            if piece:
                yield piece

    def finish(self) -> None:
        if self._begun and not self._stream.eof:
            raise self._error("the compressed body breaks off")

    def _decompress(self, chunk: bytes) -> bytes:
        try:
            return self._stream.decompress(chunk, _PIECE)
        except zlib.error as error:
            if self._begun:
                raise self._error(f"the compressed body can't be unpacked: {error}") from error
        # Many clients call bare deflate, without zlib's header, "deflate".
        self._begun = True
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._decompress(chunk)

    def _error(self, reason: str) -> Unreadable:
        return Unreadable.error(400, "parse_exception", reason)
