"""The pieces that all pages share: the state of the program, requests, answers, error pages."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
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
from esdedup.review.group_list import GroupList
from esdedup.review.group_search import GroupSearch
from esdedup.review.jobs import Jobs
from esdedup.review.messages import message, sentence, speak, spoken
from esdedup.review.shown.texts import ImageField
from esdedup.sketch.measures import Measure
from esdedup.text.characters import message_of

NAV = (
    ("Overview", "/"),
    ("Groups", "/groups"),
    ("Judge", "/judge"),
    ("Threshold", "/threshold"),
    ("Decide", "/decide"),
    ("Search", "/search"),
)
_STATUS = {UsageError: 400, RecordError: 400, StoreUnavailable: 503, StoreError: 502}


class Parameters(dict[str, str]):
    """The values of an address and of a form, by name."""

    def id(self, name: str = "id") -> str:
        """Return the id of a document. Raises UsageError if there is none."""
        if not (id := self.get(name)):
            raise UsageError(f"{name} is missing: enter the id of a document")
        return id

    def integer(self, name: str, default: int, most: int) -> int:
        """Return a whole number from 1 to `most`. Raises UsageError for other values."""
        text = self.get(name, "").strip() or str(default)
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= most):
            raise UsageError(f"{name} {text!r}: use a whole number, 1 to {most:,}")
        return int(text[:9])

    def number(self, name: str, default: float | None = None) -> float | None:
        """Return a number; None if the value is empty. Raises UsageError for other values."""
        if name not in self:
            return default
        if not (text := self[name].strip()):
            return None
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{name} {text!r}: use a number such as 0.8") from None


Handler = Callable[[Parameters], Response]
_NOTHING = Response(status_code=204)


@dataclass(frozen=True)
class Review:
    """The state that all pages share.

    index: the index that the pages show.
    write: whether the pages may change the index.
    show: fields that are shown beside texts.
    folder: of the logs.
    jobs: work in the background.
    group_search: finds the groups of duplicates, and keeps them.
    group_list: the groups as a list, with their titles and values of fields.
    decisions: those of this session.
    with_options: returns a message with options in place of the settings in backticks. A command
        passes it; without it a page shows messages as the library writes them.
    root: the path of all pages, which no other program knows.
    counting_seconds: time limit for counting the documents of runs that are still removed.
    previewed_documents: most documents that a preview of a keep rule reads. 20,000 of 400
        characters took 1.2 seconds in a file, and 12,000 take less than one.
    text_jobs: read texts beside the other jobs, so that a search for words waits for no group.
    """

    index: Index
    write: bool
    show: tuple[str, ...]
    folder: Path
    jobs: Jobs
    group_search: GroupSearch
    group_list: GroupList
    decisions: Decisions
    with_options: Callable[[str], str] = str
    root: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(16)}")
    counting_seconds: float = 2.0
    previewed_documents: int = 12_000
    text_jobs: Jobs = field(default_factory=Jobs)

    @property
    def images(self) -> bool:
        """Return whether images are shown."""
        return any(isinstance(name, ImageField) for name in self.show)

    @property
    def measure(self) -> Measure:
        """Return the measure by which documents are compared, if texts differ."""
        return self.index.scheme.chosen(self.group_search.grouping.limits).measure

    @property
    def threshold(self) -> float | None:
        """Return the least similarity of groups; None if they are found by a distance."""
        limits = self.group_search.grouping.limits
        sketch = self.index.scheme.chosen(limits)
        if not sketch.measure.is_similarity:
            return None
        return sketch.measure.limit_of(sketch.settled(limits))

    def get(self, path: str, handler: Handler) -> Route:
        """Return the route of a page, which changes nothing."""
        return Route(path, _endpoint(handler), methods=["GET"])

    def post(self, path: str, handler: Handler, *, changes: bool = True) -> Route:
        """Return the route of a form. changes: the index, so that it needs `write`."""

        def checked(parameters: Parameters) -> Response:
            if changes:
                self.must_write()
            return handler(parameters)

        return Route(path, _endpoint(checked), methods=["POST"])

    def must_write(self) -> None:
        """Refuse the request if the pages may not change the index."""
        if not self.write:
            raise HTTPException(403, "this page is read-only: start esdedup review with `write`")

    def page(
        self, template: str, values: Mapping[str, object] | None = None, *, status: int = 200
    ) -> HTMLResponse:
        """Return a page from a template. values: of its names, beside those of `base.html`."""
        common: dict[str, object] = {
            "nav": NAV,
            "section": "",
            "name": self.index.location.index,
            "where": self.index.store.address,
            "write": self.write,
            "url": lambda path, **parameters: self._address(path, parameters),
            "job": self.jobs.current,
            "group_search": self.group_search,
            "folder": str(self.folder),
            "decision": None,
            "sentence": self.sentence,
            "language": spoken(),
        }
        templates = environment("esdedup.review", "templates")
        templates.globals["_"] = lambda text, **values: message(text, values)
        html = templates.get_template(template)
        return HTMLResponse(html.render(common | dict(values or {})), status)

    def redirect(self, path: str, parameters: Mapping[str, object] | None = None) -> Response:
        """Send the browser to a page, after a change. parameters: those that are not None."""
        return RedirectResponse(self._address(path, parameters or {}), 303)

    def _address(self, path: str, parameters: Mapping[str, object]) -> str:
        """Return the address of a page, with the parameters that are not None."""
        present = {name: value for name, value in parameters.items() if value is not None}
        return f"{self.root}{path}?{urlencode(present)}" if present else f"{self.root}{path}"

    def working(self, parameters: Parameters) -> Response:
        """Return the progress of the job that works now, or an empty answer if none does."""
        jobs = self.text_jobs if "texts" in parameters else self.jobs
        return self.page("progress.html", {"job": job}) if (job := jobs.current) else _NOTHING

    def refused(self, request: Request, error: Exception) -> Response:
        """Return a page that states why there is no answer, with a link back."""
        speak(request.headers.get("accept-language", ""))
        if isinstance(error, HTTPException):
            status, message = error.status_code, error.detail
        else:
            status = next((_STATUS[kind] for kind in _STATUS if isinstance(error, kind)), 500)
            message = str(error)
        _, ours, back = request.headers.get("referer", "").partition(f"{self.root}/")
        back = f"{self.root}/{back}" if ours else ""
        values = {
            "message": message_of(message),
            "number": status,
            "back": back,
            "id": request.query_params.get("id", ""),
        }
        return self.page("error.html", values, status=status)

    def document(self, id: str) -> Document:
        """Return a document of the index; without one, the answer is 404."""
        if not (documents := self.index.store.get([id])):
            raise HTTPException(404, f"{self.index.store.where} has no document {id!r}")
        return documents[0]

    def warnings(self, warnings: Iterable[str]) -> list[str]:
        """Return warnings as the pages show them."""
        return [self.sentence(warning) for warning in warnings]

    def sentence(self, text: str) -> str:
        """Return what the library writes in the language of the request, with options."""
        return self.with_options(sentence(text))


def _endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        speak(request.headers.get("accept-language", ""))
        form = (await request.body()).decode("ascii", "replace")
        names_and_values = parse_qsl(f"{request.url.query}&{form}", keep_blank_values=True)
        return await run_in_threadpool(handler, Parameters(names_and_values))

    return endpoint
