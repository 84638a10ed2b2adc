"""The application: all routes, and the files of the pages."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from esdedup.analysis.html import environment, shared
from esdedup.groups.groups import Grouping
from esdedup.index import Index, Place
from esdedup.review.compare import Compare
from esdedup.review.decide import Decide
from esdedup.review.decisions import Decisions
from esdedup.review.found import Found
from esdedup.review.groups import Groups
from esdedup.review.jobs import Jobs
from esdedup.review.judge import Drawing, Judge
from esdedup.review.pages import Review
from esdedup.review.search import Search
from esdedup.review.threshold import Threshold
from esdedup.stores.connection import Connection

_RETRY_SECONDS = 5.0
"""Time in which a page sends a failed request to a cluster again."""
_TYPES = {
    "style.css": "text/css",
    "review.css": "text/css",
    "review.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "htmx-LICENSE": "text/plain",
    "icon.svg": "image/svg+xml",
}


def review_of(
    place: Place,
    grouping: Grouping,
    *,
    write: bool = False,
    show: Sequence[str] = (),
    work: Path | None = None,
) -> Review:
    """Return the state of the pages over an index; the arguments are as in `Review` and `Found`.

    Raises IndexNotFound if it does not exist.
    """

    def opened() -> Index:
        return Index(place.store(), place=place)

    # Nobody waits for a page as long as for a job.
    target = place.target
    if isinstance(target, Connection):
        target = replace(target, retry_for=min(target.retry_for, _RETRY_SECONDS))
    quick = replace(place, target=target)
    index, jobs = Index(quick.store(), place=quick), Jobs()
    found = Found(index, opened, grouping, jobs, work)
    return Review(
        index=index,
        scheme=index.scheme.id,
        open=opened,
        grouping=grouping,
        write=write,
        show=tuple(show),
        folder=Path.cwd(),
        jobs=jobs,
        found=found,
        decisions=Decisions(index, found),
    )


def application(review: Review) -> Starlette:
    """Return the application, without the guard that it needs (`security.Guard`)."""
    # Compiled before the first page is asked for.
    for name in ("search.html", "base.html", "facts.html", "parts.html"):
        environment("esdedup.review", "templates").get_template(name)
    drawing = Drawing(review)
    search, compare, groups = Search(review), Compare(review), Groups(review)
    judge, decide = Judge(review, drawing), Decide(review)
    get, post = review.get, review.post
    search.prepare()
    routes = [
        get("/", search.form),
        get("/search", search.show),
        post("/search", search.ask, changes=False),
        get("/document", compare.document),
        get("/compare", compare.pair),
        post("/verdict", compare.judge),
        post("/verdict/undo", compare.undo),
        get("/groups", groups.browse),
        post("/groups/find", groups.find, changes=False),
        get("/group", groups.one),
        post("/group/represent", groups.represent),
        post("/group/unrepresent", groups.unrepresent),
        get("/judge", judge.show),
        post("/judge/verdict", judge.judge),
        post("/judge/undo", judge.undo),
        post("/judge/draw", judge.draw, changes=False),
        get("/judgements.jsonl", judge.export),
        get("/threshold", Threshold(review, drawing).show),
        get("/decide", decide.show),
        get("/decide/confirm", decide.confirm),
        post("/decide/run", decide.run),
        post("/decide/undo", decide.undo),
        get("/progress", review.working),
        Route("/static/{name}", _file),
    ]

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        wrong = "there is no such page" if error.status_code == 404 else str(error.detail)
        return review.refusal(review.request(request), error.status_code, wrong)

    return Starlette(
        routes=[Mount(review.root, routes=routes)], exception_handlers={HTTPException: failed}
    )


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _TYPES:
        raise HTTPException(404)
    return Response(_read(name), media_type=_TYPES[name])


@functools.cache
def _read(name: str) -> str:
    if name == "style.css":
        return shared(name)
    return files("esdedup.review").joinpath("static", name).read_text("utf-8")
