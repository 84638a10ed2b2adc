"""The application: all routes, the files of the pages, and the server on this machine."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from esdedup.analysis.html import environment, shared
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping
from esdedup.index import Index
from esdedup.review.compare import Compare
from esdedup.review.decide import Decide
from esdedup.review.decisions import Decisions
from esdedup.review.found import Found
from esdedup.review.groups import Groups
from esdedup.review.jobs import Job, Jobs
from esdedup.review.judge import Drawing, Judge
from esdedup.review.pages import Review
from esdedup.review.search import Search
from esdedup.review.security import Guard
from esdedup.review.threshold import Threshold
from esdedup.stores.connection import Connection
from esdedup.stores.place import Place

_RETRY_SECONDS = 5.0
"""Time in which a page sends a failed request to a cluster again."""
_ADDRESS = "127.0.0.1"
_LARGEST_HEAD = 64 << 10
_GRACE_SECONDS = 1
"""Time to finish requests at the end."""
_JOB_SECONDS = 30.0
"""Time for a job to end after its step, such as a page of documents to delete."""
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

    # A page must not wait as long as a job.
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
    judge, threshold, decide = Judge(review, drawing), Threshold(review, drawing), Decide(review)
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
        post("/group/split", groups.split),
        post("/group/split/undo", groups.undo_split),
        post("/group/represent", groups.represent),
        post("/group/unrepresent", groups.unrepresent),
        get("/judge", judge.show),
        post("/judge/verdict", judge.judge),
        post("/judge/undo", judge.undo),
        post("/judge/draw", judge.draw, changes=False),
        get("/judgements.jsonl", judge.export),
        post("/judgements/read", judge.read),
        get("/threshold", threshold.show),
        post("/threshold/use", threshold.use, changes=False),
        get("/decide", decide.show),
        get("/decide/confirm", decide.confirm),
        get("/duplicates.csv", decide.duplicates),
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


def serve(review: Review, port: int, started: Callable[[str], None]) -> Job | None:
    """Serve the pages until Ctrl-C.

    port: 0 for any free one. started: gets the URL with the token, when the port is open.

    Returns the job that was stopped at the end, or is still at work, if there is one. Raises
    UsageError if the port is taken.
    """
    try:
        listening = socket.create_server((_ADDRESS, port))
    except OSError as error:
        raise UsageError(
            f"--port {port}: {os.strerror(error.errno or 0)}: choose another"
        ) from error
    with listening:
        # Inherited by each connection; otherwise a page may wait 40 ms for an acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listening.getsockname()[1]
        guard = Guard(application(review), port, review.root)
        config = uvicorn.Config(
            guard,
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="error",
            server_header=False,
            proxy_headers=False,
            # An id in an address may be long.
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        started(guard.url)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
        stopped = review.jobs.stop(_JOB_SECONDS)
        review.index.close()
    return stopped
