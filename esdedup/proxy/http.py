"""Requests and answers over ASGI, and the content encodings of bodies."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import sys
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
"""Content encodings that `Unpacker` reads."""
PIECE = 1 << 18
"""Bytes of a body that are unpacked and read at a time."""
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class ClientGone(Exception):
    """The client hung up: nobody waits for an answer."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes

    @classmethod
    def of(cls, status: int, kind: bytes, body: bytes) -> Self:
        """An answer of our own. kind: its content type."""
        length = str(len(body)).encode()
        return cls(status, [(b"content-type", kind), (b"content-length", length)], body)


class Failed(Exception):
    """A request can't be completed. answer: the client gets it instead."""

    def __init__(self, reason: str, answer: Answer) -> None:
        super().__init__(reason)
        self.answer = answer

    @classmethod
    def error(cls, status: int, kind: str, reason: str, *, retry: int | None = None) -> Self:
        """A failure that is answered in the form of the servers' errors.

        retry: seconds after which the client may try again.
        """
        cause = {"type": kind, "reason": reason}
        body = json.dumps({"error": {"root_cause": [cause], **cause}, "status": status}).encode()
        answer = Answer.of(status, b"application/json", body)
        if retry is not None:
            answer.headers.append((b"retry-after", str(retry).encode()))
        return cls(reason, answer)


class Unreadable(Failed):
    """A body can't be read to its end."""


class Request:
    """A client's request. Iterating goes on through the chunks of its body. Raises ClientGone.

    target: path and query string as the client wrote them. encoding: the body's content encoding,
    in lower case. seconds: that the client may be silent before the end of the body. status: of the
    answer, None until it begins. received: bytes of the body so far.
    """

    def __init__(
        self, scope: Message, receive: Receive, send: Send, seconds: float | None = None
    ) -> None:
        self.method: str = scope["method"]
        self.path: bytes = scope["raw_path"]
        query: bytes = scope["query_string"]
        self.target = self.path + (b"?" + query if query else b"")
        self.headers: Headers = list(scope["headers"])
        self.encoding = self.header(b"content-encoding")
        self.status: int | None = None
        self.received = 0
        self._seconds = seconds
        self._receive = receive
        self._send = send
        self._finished = asyncio.Event()

    def header(self, name: bytes) -> str:
        """The value of a header in lower case, or an empty string."""
        return b", ".join(v for n, v in self.headers if n == name).decode("latin-1").lower()

    @property
    def length(self) -> int:
        """Bytes of the body when it is unpacked, or a very large number if nobody knows."""
        given = self.header(b"content-length")
        return int(given) if given.isdigit() and self.encoding in PLAIN else sys.maxsize

    def check(self) -> None:
        """Raise Failed (400) if the request could be read in two ways, or names a host."""
        lengths = {value for name, value in self.headers if name == b"content-length"}
        chunked = any(name == b"transfer-encoding" for name, _ in self.headers)
        if len(lengths) > 1 or (lengths and chunked):
            reason = "give one length of the body: Content-Length or Transfer-Encoding"
        elif self.method == "CONNECT":
            reason = "the method CONNECT is for other proxies"
        elif not self.path.startswith(b"/"):
            reason = "the target must be a path"
        else:
            return
        raise Unreadable.error(400, "illegal_argument_exception", reason)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._finished.is_set():
            try:
                async with asyncio.timeout(self._seconds):
                    message = await self._receive()
            except TimeoutError:
                self._finished.set()
                reason = f"the body did not go on for {self._seconds:g} s"
                failed = Unreadable.error(408, "request_timeout", reason)
                # Later bytes would be taken for the rest of this body.
                failed.answer.headers.append((b"connection", b"close"))
                raise failed from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            if not message.get("more_body", False):
                self._finished.set()
            if chunk := message.get("body", b""):
                self.received += len(chunk)
                yield chunk

    async def drain(self) -> None:
        """Read the rest: many clients read no answer before they have sent everything."""
        with contextlib.suppress(Unreadable):
            async for _ in self:
                pass

    async def while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work. Cancel it and raise ClientGone if the client hangs up."""
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
        """Send an answer while its body is made."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        async for chunk in chunks:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def reply(self, answer: Answer) -> None:
        """Send a whole answer."""
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


class Unpacker:
    """Unpacks a body of gzip, zlib or bare deflate, in bounded pieces. For one thread at a time."""

    def __init__(self, encoding: str) -> None:
        self._stream = None if encoding in PLAIN else zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False
        self._chunk = b""
        self._more = False

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes, after all before were read."""
        self._chunk = chunk

    @property
    def more(self) -> bool:
        """True if there is something to read."""
        return bool(self._chunk) or self._more

    def read(self) -> bytes:
        """Return the next bytes, at most a piece if they were packed. Raises Unreadable."""
        if self._stream is None:
            piece, self._chunk = self._chunk, b""
            return piece
        # After a full piece there may be more, even if all input is taken in.
        while self.more:
            if self._stream.eof:
                self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                piece = self._stream.decompress(self._chunk, PIECE)
                self._chunk = self._stream.unconsumed_tail or self._stream.unused_data
            except zlib.error as error:
                if self._begun:
                    reason = f"the compressed body can't be unpacked: {error}"
                    raise Unreadable.error(400, "parse_exception", reason) from error
                # Many clients call bare deflate, without zlib's header, "deflate".
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
                piece = b""
            self._begun = True
            self._more = len(piece) == PIECE
            if piece:
                return piece
        return b""

    def end(self) -> None:
        """Raise Unreadable if the body breaks off."""
        if self._stream is not None and self._begun and not self._stream.eof:
            raise Unreadable.error(400, "parse_exception", "the compressed body breaks off")
