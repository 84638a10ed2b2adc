"""The pieces that all pages share: the state of the program, requests, answers, error pages."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
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
from esdedup.review.jobs import Job, Jobs
from esdedup.stores.fields import text_of
from esdedup.stores.judgements import VERDICTS, Verdict
from esdedup.text.characters import message_of

NAV = (
    ("Search", "/"),
    ("Groups", "/groups"),
    ("Judge", "/judge"),
    ("Threshold", "/threshold"),
    ("Decide", "/decide"),
)
_WITHIN = {"search": "", "bands": "", "document": "", "compare": "", "group": "groups"}
"""Pages that are reached from another one, by the first names of their paths."""
_PREPARING = "Listing tokens, once, for searches"
_LARGEST_BODY = 16 << 20
"""Bytes of a form; a pasted text is the largest part."""
_MOST_VALUES = 1_000
_STATUS: tuple[tuple[type[EsdedupError], int], ...] = (
    (UsageError, 400),
    (RecordError, 400),
    (IndexNotFound, 404),
    (AuthenticationFailed, 502),
    (PermissionDenied, 502),
    (StoreUnavailable, 503),
    (StoreError, 502),
)


class NotThere(StoreError):
    """There is no such document, group or page."""


class ReadOnly(UsageError):
    """The page was started without --write."""


@dataclass(frozen=True)
class Asked:
    """A request. given: values of the query and of the form, by name. fragment: htmx wants a part
    of a page."""

    path: str
    given: Mapping[str, Sequence[str]]
    fragment: bool = False

    def text(self, name: str, default: str = "") -> str:
        """The value of a name; the last one if several are given."""
        return self.given[name][-1] if name in self.given else default

    def id(self, name: str) -> str:
        """The id of a document. Raises UsageError if there is none."""
        if not (found := self.text(name)):
            raise UsageError(f"{name} is missing: give the id of a document")
        return found

    def verdict(self) -> Verdict:
        """The verdict on two documents. Raises UsageError for another."""
        found = self.text("verdict")
        for each in VERDICTS:
            if each == found:
                return each
        raise UsageError(f"verdict {found!r}: use {', '.join(VERDICTS)}")

    def whole(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 to `most`. Raises UsageError for others."""
        found = self.text(name).strip() or str(default)
        if not (found.isascii() and found.isdecimal() and 1 <= int(found[:9]) <= most):
            raise UsageError(f"{name} {found!r}: use a whole number, 1 to {most:,}")
        return int(found[:9])

    def share(self, name: str, default: float | None) -> float | None:
        """A number; None if the value is empty. Raises UsageError for others."""
        if name not in self.given:
            return default
        if not (found := self.text(name).strip()):
            return None
        try:
            return float(found)
        except ValueError:
            raise UsageError(f"{name} {found!r}: use a number such as 0.8") from None

    def names(self, name: str, default: Sequence[str]) -> list[str]:
        """Names of fields, with commas between them."""
        if name not in self.given:
            return [*default]
        return [*filter(None, map(str.strip, ",".join(self.given[name]).split(",")))]

    @property
    def fields(self) -> str | None:
        """The names of fields as they were typed, for links; None if nobody typed any."""
        return self.text("fields") if "fields" in self.given else None


Handler = Callable[[Asked], Response]
Fault = tuple[int, str]
"""A status and a message."""


@dataclass(frozen=True)
class Review:
    """The state that all pages share.

    index: for the pages; threads may use it at the same time. scheme: its id at the start. open:
    opens the index once more, for long work in a job. grouping: how to find groups. write: changes
    are allowed. show: fields that are shown beside texts. folder: of the logs. preparing: the
    job that searches wait for. found: the groups that were found.
    """

    index: Index
    scheme: str
    open: Callable[[], Index]
    grouping: Grouping
    write: bool
    show: tuple[str, ...]
    folder: Path
    jobs: Jobs
    preparing: Jobs
    found: Found
    decisions: Decisions

    def shown(self, path: str, handler: Handler) -> Route:
        """The route of a page, which changes nothing."""
        return Route(path, self._endpoint(handler), methods=["GET"])

    def asked(self, path: str, handler: Handler) -> Route:
        """The route of a form that changes nothing in the index."""
        return Route(path, self._endpoint(handler), methods=["POST"])

    def changing(self, path: str, handler: Handler) -> Route:
        """The route of a form that changes something: it is refused without --write."""

        def allowed(asked: Asked) -> Response:
            self.must_write()
            return handler(asked)

        return Route(path, self._endpoint(allowed), methods=["POST"])

    def must_write(self) -> None:
        """Raise ReadOnly without --write."""
        if not self.write:
            raise ReadOnly("this page is read-only: start esdedup review --write to change")

    def page(
        self, asked: Asked, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """A page, or a fragment of one, made from a template.

        values: for the names in it; each page has those of `base.html` besides.
        """
        first = asked.path.split("/")[1]
        section = f"/{_WITHIN.get(first, first)}"
        return HTMLResponse(self.render(template, section=section, **values), status)

    def render(self, template: str, **values: Any) -> str:
        """The text of a template."""
        made = environment("esdedup.review", "templates").get_template(template)
        place = self.index.place
        common = {
            "nav": NAV,
            "name": place.index,
            "where": self.index.store.address,
            "scheme": self.scheme,
            "write": self.write,
            "url": url,
            "job": self.jobs.current,
            "preparing": self.preparing.current,
            "refreshing": False,
        }
        return made.render(common | values)

    def working(self, asked: Asked) -> Response:
        """The progress of the job that works now; asks for the page again when none does."""
        of = asked.text("of")
        job = (self.preparing if of == "search" else self.jobs).current
        answer = self.page(asked, "progress.html", job=job, of=of)
        if job is None:
            answer.headers["hx-refresh"] = "true"
        return answer

    def prepare(self) -> Job | None:
        """List the tokens of a local file, which its first search needs; None if that is done.

        It takes a minute for a million documents, in which pages that share a connection wait.
        """
        if not isinstance(self.index.place.target, Path):
            return None

        def work(_: Job) -> None:
            with self.open() as index:
                index.similar("a text")

        job = self.preparing.last(_PREPARING) or self.preparing.start(_PREPARING, work)
        return None if job.ended else job

    def failure(self, asked: Asked, error: EsdedupError) -> Response:
        """The page of an error, with a fitting status."""
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        if isinstance(error, NotThere):
            status = 404
        elif isinstance(error, ReadOnly):
            status = 403
        return self.refusal(asked, status, message_of(str(error)))

    def refusal(self, asked: Asked, status: int, message: str) -> Response:
        """A page that says why there is no answer."""
        template = "error_fragment.html" if asked.fragment else "error.html"
        answer = self.page(asked, template, status=status, message=message, number=status)
        if asked.fragment and asked.path.startswith("/judge/"):
            # The pair stays with its buttons, so that its keys work again when the fault is over.
            answer.headers["hx-retarget"] = "#said"
        return answer

    def document(self, id: str) -> Document:
        """A document of the index. Raises NotThere if there is none."""
        if not (found := self.index.store.get([id])):
            raise NotThere(f"{self.index.store.where} has no document {id!r}")
        return found[0]

    def text_of(self, id: str) -> str:
        """The text of a document. Raises NotThere if there is none, StoreError without a text."""
        try:
            return text_of(self.document(id).source, self.index.meta.text_fields)
        except RecordError as error:
            raise StoreError(f"document {id!r}: {error}") from error

    def _endpoint(self, handler: Handler) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            asked, fault = await _read(request)
            return await run_in_threadpool(self._answer, handler, asked, fault)

        return endpoint

    def _answer(self, handler: Handler, asked: Asked, fault: Fault | None) -> Response:
        if fault is not None:
            return self.refusal(asked, *fault)
        try:
            return handler(asked)
        except EsdedupError as error:
            return self.failure(asked, error)


async def _read(request: Request) -> tuple[Asked, Fault | None]:
    """The request, with its form; and why the form was not read, if so."""
    given: dict[str, list[str]] = {}
    body = b""
    fault: Fault | None = None
    if request.method not in ("GET", "HEAD"):
        async for part in request.stream():
            body += part
            if len(body) > _LARGEST_BODY:
                fault = 413, f"the text is too long: use at most {_LARGEST_BODY:,} bytes"
                body = b""
                break
    query = request.scope["query_string"].decode("ascii", "replace")
    for each in (query, body.decode("ascii", "replace")):
        try:
            values = parse_qsl(each, keep_blank_values=True, max_num_fields=_MOST_VALUES)
        except ValueError:
            fault = 400, f"too many values: use at most {_MOST_VALUES:,}"
            continue
        for name, value in values:
            given.setdefault(name, []).append(value)
    return Asked(request.url.path, given, request.headers.get("hx-request") == "true"), fault


def redirect(path: str, **values: Any) -> Response:
    """Send the browser to a page of ours, after a change."""
    return RedirectResponse(_address(path, values), 303)


def _address(path: str, values: Mapping[str, Any]) -> str:
    given = {name: value for name, value in values.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


class _Safe(str):
    """A string that templates take as it is."""

    def __html__(self) -> str:
        return self


def url(path: str, **values: Any) -> str:
    """The address of a page, for an attribute. Ids of documents come to it unchanged."""
    return _Safe(html.escape(_address(path, values)))
