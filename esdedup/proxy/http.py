"""One request of a client and the answers to it, over ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
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
