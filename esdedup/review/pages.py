"""The pieces that all pages share: the state of the program, requests, answers, error pages."""

from __future__ import annotations

import html
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from esdedup.analysis.html import environment
from esdedup.exceptions import (
    AuthenticationFailed,
    EsdedupError,
    IndexNotFound,
    PermissionDenied,
    RecordError,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from esdedup.groups.groups import Grouping
from esdedup.index import Index
from esdedup.models import Document
from esdedup.review.decisions import Decisions
from esdedup.review.found import Found
from esdedup.review.jobs import Jobs
from esdedup.stores.fields import text_of
from esdedup.stores.judgements import Verdict
from esdedup.text.characters import message_of

NAV = (
    ("Search", "/"),
    ("Groups", "/groups"),
    ("Judge", "/judge"),
    ("Threshold", "/threshold"),
    ("Decide", "/decide"),
)
_WITHIN = {"search": "", "document": "", "compare": "", "group": "groups"}
"""Pages that are reached from another one, by the first names of their paths."""
_LARGEST_BODY = 16 << 20
"""Bytes of a form; a pasted text is the largest part."""
_MOST_VALUES = 1_000


class NotThere(StoreError):
    """There is no such document, group or page."""


class ReadOnly(UsageError):
    """The page was started without --write."""


_STATUS: tuple[tuple[type[EsdedupError], int], ...] = (
    (NotThere, 404),
    (ReadOnly, 403),
    (UsageError, 400),
    (RecordError, 400),
    (IndexNotFound, 404),
    (AuthenticationFailed, 502),
    (PermissionDenied, 502),
    (StoreUnavailable, 503),
    (StoreError, 502),
)


@dataclass(frozen=True)
class Asked:
    """A request. given: values of the query and of the form, by name. fragment: htmx asks for a
    part of a page. back: the path of the page that it came from, if that is one of ours."""

    path: str
    given: Mapping[str, str]
    fragment: bool = False
    back: str | None = None

    def text(self, name: str, default: str = "") -> str:
        """Return the value of a name."""
        return self.given.get(name, default)

    def id(self, name: str) -> str:
        """Return the id of a document. Raises UsageError if there is none."""
        if not (found := self.text(name)):
            raise UsageError(f"{name} is missing: give the id of a document")
        return found

    def verdict(self) -> Verdict:
        """Return the verdict on two documents, which `Judgement` checks."""
        return cast(Verdict, self.text("verdict"))

    def whole(self, name: str, default: int, most: int) -> int:
        """Return a whole number from 1 to `most`. Raises UsageError for others."""
        found = self.text(name).strip() or str(default)
        if not (found.isascii() and found.isdecimal() and 1 <= int(found[:9]) <= most):
            raise UsageError(f"{name} {found!r}: use a whole number, 1 to {most:,}")
        return int(found[:9])

    def share(self, name: str, default: float | None) -> float | None:
        """Return a number; None if the value is empty. Raises UsageError for others."""
        if name not in self.given:
            return default
        if not (found := self.text(name).strip()):
            return None
        try:
            return float(found)
        except ValueError:
            raise UsageError(f"{name} {found!r}: use a number such as 0.8") from None


Handler = Callable[[Asked], Response]


@dataclass(frozen=True)
class Review:
    """The state that all pages share.

    index: for the pages; threads may use it at the same time. scheme: its id at the start. open:
    opens the index once more, for long work in a job. write: changes are allowed. show: fields that
    are shown beside texts. folder: of the logs. found: the groups that were found. root: the path
    of all pages, which no other program knows.
    """

    index: Index
    scheme: str
    open: Callable[[], Index]
    write: bool
    show: tuple[str, ...]
    folder: Path
    jobs: Jobs
    found: Found
    decisions: Decisions
    root: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}")

    @property
    def grouping(self) -> Grouping:
        """How groups are found."""
        return self.found.grouping

    def get(self, path: str, handler: Handler) -> Route:
        """Return the route of a page, which changes nothing."""
        return Route(path, self._endpoint(handler, changes=False), methods=["GET"])

    def post(self, path: str, handler: Handler, *, changes: bool = True) -> Route:
        """Return the route of a form. changes: the index, so that it is refused without --write."""
        return Route(path, self._endpoint(handler, changes), methods=["POST"])

    def must_write(self) -> None:
        """Raise ReadOnly without --write."""
        if not self.write:
            raise ReadOnly("this page is read-only: start esdedup review --write to change")

    def page(
        self, asked: Asked, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """Return a page, or a fragment of one, from a template.

        values: for the names in it; each page has those of `base.html` besides.
        """
        first = asked.path.split("/")[1]
        common = {
            "nav": NAV,
            "section": f"/{_WITHIN.get(first, first)}",
            "name": self.index.place.index,
            "where": self.index.store.address,
            "scheme": self.scheme,
            "write": self.write,
            "url": self._url,
            "job": self.jobs.current,
            "refreshing": False,
        }
        made = environment("esdedup.review", "templates").get_template(template)
        return HTMLResponse(made.render(common | values), status)

    def redirect(self, path: str, **values: Any) -> Response:
        """Send the browser to a page, after a change."""
        return RedirectResponse(self._address(path, values), 303)

    def _url(self, path: str, **values: Any) -> str:
        """The address of a page, for an attribute. Ids of documents come to it unchanged."""
        return _Safe(html.escape(self._address(path, values)))

    def _address(self, path: str, values: Mapping[str, Any]) -> str:
        given = {name: value for name, value in values.items() if value is not None}
        return f"{self.root}{path}?{urlencode(given)}" if given else f"{self.root}{path}"

    def working(self, asked: Asked) -> Response:
        """Return the progress of the job that works now; reload the page when none does."""
        answer = self.page(asked, "progress.html")
        if self.jobs.current is None:
            answer.headers["hx-refresh"] = "true"
        return answer

    def refusal(self, asked: Asked, status: int, message: str) -> Response:
        """Return a page that says why there is no answer."""
        template = "error_fragment.html" if asked.fragment else "error.html"
        answer = self.page(
            asked, template, status=status, message=message, number=status, back=asked.back
        )
        if asked.fragment and asked.path.startswith("/judge/"):
            # The pair stays with its buttons, so that its keys work again when the fault is over.
            answer.headers["hx-retarget"] = "#said"
        return answer

    def document(self, id: str) -> Document:
        """Return a document of the index. Raises NotThere if there is none."""
        if not (found := self.index.store.get([id])):
            raise NotThere(f"{self.index.store.where} has no document {id!r}")
        return found[0]

    def text_of(self, id: str) -> str:
        """Return the text of a document. Raises NotThere if there is none, StoreError without."""
        try:
            return text_of(self.document(id).source, self.index.meta.text_fields)
        except RecordError as error:
            raise StoreError(f"document {id!r}: {error}") from error

    def request(self, request: Request, body: bytes = b"") -> Asked:
        """Return what a request asks for. Raises UsageError if it has too many values."""
        query = request.scope["query_string"] + b"&" + body
        try:
            given = parse_qsl(
                query.decode("ascii", "replace"),
                keep_blank_values=True,
                max_num_fields=_MOST_VALUES,
            )
        except ValueError:
            raise UsageError(f"too many values: use at most {_MOST_VALUES:,}") from None
        path = request.scope["path"].removeprefix(self.root)
        _, ours, back = request.headers.get("referer", "").partition(f"{self.root}/")
        fragment = request.headers.get("hx-request") == "true"
        return Asked(path, dict(given), fragment, f"{self.root}/{back}" if ours else None)

    def _endpoint(self, handler: Handler, changes: bool) -> Callable[[Request], Any]:
        def answer(request: Request, body: bytes) -> Response:
            asked = Asked("/", {})
            try:
                asked = self.request(request, body)
                if changes:
                    self.must_write()
                return handler(asked)
            except EsdedupError as error:
                return self.refusal(asked, status_of(error), message_of(str(error)))

        async def endpoint(request: Request) -> Response:
            size = request.headers.get("content-length", "0")
            if "transfer-encoding" in request.headers or int(size) > _LARGEST_BODY:
                most = f"the text is too long: use at most {_LARGEST_BODY:,} bytes"
                return self.refusal(Asked("/", {}), 413, most)
            return await run_in_threadpool(answer, request, await request.body())

        return endpoint


def status_of(error: EsdedupError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


class _Safe(str):
    """A string that templates insert unchanged."""

    def __html__(self) -> str:
        return self
