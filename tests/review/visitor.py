"""A person with the token, who sees the pages over HTTP without a browser."""

import asyncio
import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

import esdedup
from esdedup.arguments import from_settings
from esdedup.cli.setting_names import with_options
from esdedup.groups.groups import Grouping
from esdedup.review.app import application, review_of
from esdedup.review.pages import Review
from esdedup.review.security import guarded
from tests.helpers.processes import await_true

OWN = "http://127.0.0.1:9281"
TOKEN = "a-token"


class Visitor:
    """Sends requests to paths below the root of the pages, with the cookie."""

    def __init__(self, review: Review) -> None:
        self.review = review
        self.cookies = httpx.Cookies()
        self._app = guarded(application(review), review.root, TOKEN, images=review.images)
        self.send("GET", f"/?token={TOKEN}")

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, and follow to the page that is shown then."""
        options = {"follow_redirects": True} | options

        async def sent() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url=OWN, timeout=60) as client:
                client.cookies = self.cookies
                answer = await client.request(method, path, **options)
                self.cookies = client.cookies
                return answer

        return asyncio.run(sent())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.send("GET", self.review.root + path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """Send a form as a page of ours does."""
        return self.send("POST", self.review.root + path, headers={"origin": OWN}, **options)

    def judge(self, left: str, right: str, verdict: str) -> httpx.Response:
        """Compare two documents, and press the button of a verdict."""
        page = self.get("/compare", params={"left": left, "right": right}).text
        return self.post(verdict_form(page, verdict))

    def settled(self, path: str) -> str:
        """The page when no job works any more."""
        self.get(path)
        await_true("jobs ended", lambda: self.review.jobs.current is None)
        await_true("texts read", lambda: self.review.text_jobs.current is None)
        return self.get(path).text


def visiting(
    file: Path,
    documents: Iterable[dict[str, Any]] = (),
    *,
    write: bool = True,
    show: Iterable[str] = (),
    image: str | None = None,
    scheme: esdedup.Scheme | None = None,
    text_field: str | None = None,
    **grouping: Any,
) -> Visitor:
    """A visitor of the pages over a local file, when the documents are in it."""
    with esdedup.open(file, scheme=scheme, text_field=text_field) as index:
        index.add(documents)
        place = index.location
    wanted = from_settings(Grouping, {"threshold": 0.6, **grouping})
    review = review_of(
        place, wanted, write=write, show=[*show], image=image, with_options=with_options
    )
    return Visitor(review)


def links(page: str, path: str) -> list[str]:
    """The addresses on a page that begin with a path, below the root."""
    found = re.findall(r'(?:href|action)="/[\w-]{22}(/[^"]*)"', page)
    return [html.unescape(each) for each in found if each.startswith(path)]


def verdict_form(page: str, verdict: str) -> str:
    """Return the address of the first form on a page that gives a verdict."""
    return next(each for each in links(page, "/verdict") if f"verdict={verdict}&" in each)


def plain(page: str) -> str:
    """The text of a page, without its tags, with single spaces."""
    return html.unescape(" ".join(re.sub("<[^>]*>", "", page).split()))
