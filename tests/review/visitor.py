"""A person with the token, who sees the pages over HTTP without a browser."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any

import httpx

from esdedup.review.app import application
from esdedup.review.pages import Review
from esdedup.review.security import Guard
from tests.helpers.processes import await_true

PORT = 9281
OWN = f"http://127.0.0.1:{PORT}"


class Visitor:
    """Sends requests to paths below the root of the pages, with the cookie."""

    def __init__(self, review: Review) -> None:
        self.review = review
        self.guard = Guard(application(review), PORT, review.root)
        self.cookies = httpx.Cookies()
        self.send("GET", self.guard.url)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        address = path if path.startswith((OWN, self.review.root)) else self.review.root + path

        async def sent() -> httpx.Response:
            transport = httpx.ASGITransport(self.guard)
            async with httpx.AsyncClient(transport=transport, base_url=OWN) as client:
                client.cookies = self.cookies
                answer = await client.request(method, address, **options)
                self.cookies = client.cookies
                return answer

        return asyncio.run(sent())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.send("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """Send a form as a page of ours does, and follow to the page that is shown then."""
        return self.send("POST", path, headers={"origin": OWN}, follow_redirects=True, **options)

    def settled(self, path: str) -> str:
        """The page when no job works any more."""
        self.get(path)
        await_true("jobs ended", lambda: self.review.jobs.current is None)
        return self.get(path).text

    def where(self, answer: httpx.Response) -> str:
        """The path and query of an answer, below the root."""
        return str(answer.url).removeprefix(OWN + self.review.root)


def links(page: str, path: str) -> list[str]:
    """The addresses on a page that begin with a path, below the root."""
    found = re.findall(r'(?:href|action)="/[\w-]{22}(/[^"]*)"', page)
    return [html.unescape(each) for each in found if each.startswith(path)]
