"""Requests and answers over ASGI, and the content encodings of bodies."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, Self, TypeVar

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
T = TypeVar("T")

PLAIN = ("", "identity")
READABLE = (*PLAIN, "gzip", "x-gzip", "deflate")
"""Content encodings that `unpacked` reads."""
_PIECE = 1 << 20
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class ClientGone(Exception):
    """The client hung up: nobody waits for an answer."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes


class Failed(Exception):
    """A request can't be completed. answer: the client gets it instead."""

    def __init__(self, reason: str, answer: Answer) -> None:
        super().__init__(reason)
        self.answer = answer

    @classmethod
    def error(cls, status: int, kind: str, reason: str) -> Self:
        """A failure that is answered in the form of the servers' errors."""
        cause = {"type": kind, "reason": reason}
        body = json.dumps({"error": {"root_cause": [cause], **cause}, "status": status}).encode()
        length = str(len(body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        return cls(reason, Answer(status, headers, body))


class Unreadable(Failed):
    """A body can't be read to its end."""


class Request:
    """A client's request. Iterating goes on through the chunks of its body. Raises ClientGone.

    target: path and query string as the client wrote them. encoding: the body's content encoding,
    in lower case. answered: the answer has begun.
    """

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: bytes = scope["raw_path"]
        query: bytes = scope["query_string"]
        self.target = self.path + (b"?" + query if query else b"")
        self.headers: Headers = list(scope["headers"])
        self.encoding = self.header(b"content-encoding")
        self.answered = False
        self._receive = receive
        self._send = send
        self._finished = asyncio.Event()

    def header(self, name: bytes) -> str:
        """The value of a header in lower case, or an empty string."""
        return b", ".join(v for n, v in self.headers if n == name).decode("latin-1").lower()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._finished.is_set():
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            if not message.get("more_body", False):
                self._finished.set()
            if chunk := message.get("body", b""):
                yield chunk

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

    async def answer(self, status: int, headers: Headers, chunks: AsyncIterable[bytes]) -> None:
        """Sends an answer while its body is made."""
        self.answered = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        async for chunk in chunks:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def reply(self, answer: Answer) -> None:
        """Sends a whole answer."""
        await self.answer(answer.status, answer.headers, chained([answer.body]))


async def chained(first: list[T], rest: AsyncIterable[T] | None = None) -> AsyncIterator[T]:
    """All of a list, which is emptied on the way, then all of an iterator."""
    while first:
        yield first.pop(0)
    if rest is not None:
        async for each in rest:
            yield each


async def packed(request: Request, body: bytes) -> tuple[Headers, bytes]:
    """A request's headers, and another body, in light gzip if the request's own is compressed."""
    if request.encoding in PLAIN:
        return request.headers, body
    kept = [pair for pair in request.headers if pair[0] != b"content-encoding"]
    done = await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
    return [*kept, (b"content-encoding", b"gzip")], done


async def unpacked(chunks: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The bytes of a body of gzip, zlib or bare deflate, in bounded pieces. Raises Unreadable."""
    if encoding in PLAIN:
        async for chunk in chunks:
            yield chunk
        return
    stream, begun = zlib.decompressobj(_GZIP_OR_ZLIB), False
    async for chunk in chunks:
        piece = b""
        # After a full piece there may be more, even if all input is taken in.
        while chunk or len(piece) == _PIECE:
            if stream.eof:
                stream = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                piece = stream.decompress(chunk, _PIECE)
                chunk = stream.unconsumed_tail or stream.unused_data
            except zlib.error as error:
                if begun:
                    reason = f"the compressed body can't be unpacked: {error}"
                    raise Unreadable.error(400, "parse_exception", reason) from error
                # Many clients call bare deflate, without zlib's header, "deflate".
                stream = zlib.decompressobj(-zlib.MAX_WBITS)
            begun = True
            if piece:
                yield piece
    if begun and not stream.eof:
        raise Unreadable.error(400, "parse_exception", "the compressed body breaks off")
