"""The pieces that all pages share: the state of the program, requests, answers, error pages."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from esdedup.analysis.html import environment
from esdedup.exceptions import RecordError, StoreError, StoreUnavailable, UsageError
from esdedup.index import Index
from esdedup.models import Document
from esdedup.review.decisions import Decisions
from esdedup.review.found import FoundGroups
from esdedup.review.jobs import Jobs
from esdedup.review.texts import ImageField
from esdedup.sketch.measures import Measure
from esdedup.text.characters import message_of

NAV = (
    ("Search", "/"),
    ("Groups", "/groups"),
    ("Judge", "/judge"),
    ("Threshold", "/threshold"),
    ("Decide", "/decide"),
)
_STATUS = {UsageError: 400, RecordError: 400, StoreUnavailable: 503, StoreError: 502}


class Given(dict[str, str]):
    """The values of an address and of a form, by name."""

    def id(self, name: str = "id") -> str:
        """Return the id of a document. Raises UsageError if there is none."""
        if not (found := self.get(name)):
            raise UsageError(f"{name} is missing: enter the id of a document")
        return found

    def whole(self, name: str, default: int, most: int) -> int:
        """Return a whole number from 1 to `most`. Raises UsageError for others."""
        found = self.get(name, "").strip() or str(default)
        if not (found.isascii() and found.isdecimal() and 1 <= int(found[:9]) <= most):
            raise UsageError(f"{name} {found!r}: use a whole number, 1 to {most:,}")
        return int(found[:9])

    def share(self, name: str, default: float | None = None) -> float | None:
        """Return a number; None if the value is empty. Raises UsageError for others."""
        if name not in self:
            return default
        if not (found := self[name].strip()):
            return None
        try:
            return float(found)
        except ValueError:
            raise UsageError(f"{name} {found!r}: use a number such as 0.8") from None


Handler = Callable[[Given], Response]


@dataclass(frozen=True)
class Review:
    """The state that all pages share.

    scheme: its id, which an error page shows though the store is away.
    show: fields that are shown beside texts. folder: of the logs. root: the path of all pages,
    which no other program knows.
    """

    index: Index
    scheme: str
    write: bool
    show: tuple[str, ...]
    folder: Path
    jobs: Jobs
    found: FoundGroups
    decisions: Decisions
    root: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}")

    @property
    def images(self) -> bool:
        """Return whether images are shown."""
        return any(isinstance(name, ImageField) for name in self.show)

    @property
    def measure(self) -> Measure:
        """Return the measure by which documents are compared, if texts differ."""
        return self.index.scheme.chosen(self.found.grouping.limits).measure

    def get(self, path: str, handler: Handler) -> Route:
        """Return the route of a page, which changes nothing."""
        return Route(path, _endpoint(handler), methods=["GET"])

    def post(self, path: str, handler: Handler, *, changes: bool = True) -> Route:
        """Return the route of a form. changes: the index, so that it is refused without --write."""

        def checked(given: Given) -> Response:
            if changes:
                self.must_write()
            return handler(given)

        return Route(path, _endpoint(checked), methods=["POST"])

    def must_write(self) -> None:
        """Refuse the request without --write."""
        if not self.write:
            raise HTTPException(403, "this page is read-only: start esdedup review --write")

    def page(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page from a template. values: for its names, beside those of `base.html`."""
        common = {
            "nav": NAV,
            "section": "",
            "name": self.index.location.index,
            "where": self.index.store.address,
            "scheme": self.scheme,
            "write": self.write,
            "url": self.address,
            "job": self.jobs.current,
            "found": self.found,
            "folder": str(self.folder),
            "made": None,
        }
        made = environment("esdedup.review", "templates").get_template(template)
        return HTMLResponse(made.render(common | values), status)

    def redirect(self, path: str, **values: Any) -> Response:
        """Send the browser to a page, after a change."""
        return RedirectResponse(self.address(path, **values), 303)

    def address(self, path: str, **values: Any) -> str:
        """Return the address of a page, with the values that are not None."""
        given = {name: value for name, value in values.items() if value is not None}
        return f"{self.root}{path}?{urlencode(given)}" if given else f"{self.root}{path}"

    def working(self, given: Given) -> Response:
        """Return the progress of the job that works now, or an empty answer if none does."""
        return self.page("progress.html") if self.jobs.current else Response(status_code=204)

    def refused(self, request: Request, error: Exception) -> Response:
        """Return a page that states why there is no answer, with a link back."""
        if isinstance(error, HTTPException):
            status, message = error.status_code, error.detail
        else:
            status = next((_STATUS[kind] for kind in _STATUS if isinstance(error, kind)), 500)
            message = str(error)
        _, ours, back = request.headers.get("referer", "").partition(f"{self.root}/")
        back = f"{self.root}/{back}" if ours else ""
        return self.page(
            "error.html", status=status, message=message_of(message), number=status, back=back
        )

    def document(self, id: str) -> Document:
        """Return a document of the index; without one, the answer is 404."""
        if not (found := self.index.store.get([id])):
            raise HTTPException(404, f"{self.index.store.where} has no document {id!r}")
        return found[0]


def _endpoint(handler: Handler) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        given = f"{request.url.query}&{(await request.body()).decode('ascii', 'replace')}"
        return await run_in_threadpool(handler, Given(parse_qsl(given, keep_blank_values=True)))

    return endpoint
