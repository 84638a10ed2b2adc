"""Requests and answers over ASGI."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]
Headers = list[Header]


class ClientGone(Exception):
    """The client disconnected before it got its answer."""


class ProxyAnswer(NamedTuple):
    """A whole answer.

    status: of HTTP.
    headers: of the answer alone, not of the connection.
    body: as it is sent.
    """

    status: int
    headers: Headers
    body: bytes

    @classmethod
    def of(cls, status: int, kind: bytes, body: bytes) -> Self:
        """Return an answer of the proxy. kind: its content type."""
        length = str(len(body)).encode()
        return cls(status, [(b"content-type", kind), (b"content-length", length)], body)


class Failed(Exception):
    """A request can't be completed. answer: the client gets it instead."""

    def __init__(self, reason: str, answer: ProxyAnswer) -> None:
        super().__init__(reason)
        self.answer = answer

    @classmethod
    def error(cls, status: int, kind: str, reason: str, *, retry: int | None = None) -> Self:
        """Return a failure that is answered in the form of the servers' errors.

        retry: seconds after which the client may try again.
        """
        cause = {"type": kind, "reason": reason}
        body = json.dumps({"error": {"root_cause": [cause], **cause}, "status": status}).encode()
        answer = ProxyAnswer.of(status, b"application/json", body)
        if retry is not None:
            answer.headers.append((b"retry-after", str(retry).encode()))
        return cls(reason, answer)


class Refused(Failed):
    """A request whose documents can't be told from other bytes: nothing of it is sent."""


class Request:
    """A client's request. Iterating yields the next chunks of its body. Raises ClientGone.

    target: path and query string as the client wrote them.
    encoding: the body's content encoding, in lower case.
    status: of the answer; None until it begins.
    received: bytes of the body so far.
    finished: set at the end of the body.
    """

    def __init__(self, scope: Message, receive: Receive, send: Send, seconds: float) -> None:
        """seconds: that the client may be silent before the end of the body."""
        self.method: str = scope["method"]
        self.path: bytes = scope["raw_path"]
        query: bytes = scope["query_string"]
        self.target = self.path + (b"?" + query if query else b"")
        self.headers: Headers = list(scope["headers"])
        self.encoding = self.header(b"content-encoding")
        self.status: int | None = None
        self.received = 0
        self.finished = asyncio.Event()
        self._seconds = seconds
        self._receive = receive
        self._send = send

    def header(self, name: bytes) -> str:
        """Return the value of a header in lower case, or an empty string."""
        return b", ".join(v for n, v in self.headers if n == name).decode("latin-1").lower()

    def parameter(self, name: str) -> str | None:
        """Return the last value of a parameter, as the servers read it, or None."""
        # They separate parameters by semicolons too.
        query = self.target.partition(b"?")[2].partition(b"#")[0].replace(b";", b"&")
        values = parse_qs(query.decode("latin-1"), keep_blank_values=True).get(name)
        return values[-1] if values else None

    @property
    def accepted(self) -> bool:
        """True if it was answered, and not by an error."""
        return self.status is not None and self.status < 400

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self.finished.is_set():
            try:
                async with asyncio.timeout(self._seconds):
                    message = await self._receive()
            except TimeoutError:
                self.finished.set()
                reason = f"the body did not go on for {self._seconds:g} s"
                failed = Failed.error(408, "request_timeout", reason)
                # Later bytes would be taken for the rest of this body.
                failed.answer.headers.append((b"connection", b"close"))
                raise failed from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            if not message.get("more_body", False):
                self.finished.set()
            if chunk := message.get("body", b""):
                self.received += len(chunk)
                yield chunk

    async def drain(self) -> None:
        """Read the rest: many clients read no answer before they have sent everything."""
        with contextlib.suppress(Failed):
            async for _ in self:
                pass

    async def while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work. Cancel it and raise ClientGone if the client disconnects."""
        task, watch = asyncio.create_task(work), asyncio.create_task(self._disconnected())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            task.result()
        finally:
            watch.cancel()
            task.cancel()
            await asyncio.wait({task, watch})

    async def _disconnected(self) -> None:
        await self.finished.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def answer(self, status: int, headers: Headers, chunks: AsyncIterable[bytes]) -> None:
        """Send an answer while its body is produced."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        async for chunk in chunks:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def reply(self, answer: ProxyAnswer) -> None:
        """Send a whole answer."""
        self.status = answer.status
        start = {"type": "http.response.start", "status": answer.status}
        await self._send({**start, "headers": answer.headers})
        await self._send({"type": "http.response.body", "body": answer.body})
