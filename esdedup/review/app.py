"""The application: all routes, the files of the pages, and the server on this machine."""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from esdedup.exceptions import EsdedupError, UsageError
from esdedup.groups.groups import Grouping
from esdedup.index import Index
from esdedup.review.decide import Decide
from esdedup.review.decisions import Decisions
from esdedup.review.documents import DocumentPages
from esdedup.review.group_list import GroupList
from esdedup.review.group_search import GroupSearch
from esdedup.review.groups import GroupPages
from esdedup.review.jobs import Job, Jobs
from esdedup.review.judge import Judge
from esdedup.review.looked_at import LookedAt
from esdedup.review.overview import Overview
from esdedup.review.pages import Review
from esdedup.review.security import guarded
from esdedup.review.shown.texts import ImageField
from esdedup.stores.connection import Connection
from esdedup.stores.location import IndexLocation
from esdedup.stores.private_files import file_name

_RETRY_SECONDS = 5.0
"""Time in which a page sends a failed request to a cluster again."""
_ADDRESS = "127.0.0.1"
_LARGEST_HEAD = 64 << 10
_GRACE_SECONDS = 1
"""Time to finish requests at the end."""
_JOB_SECONDS = 30.0
"""Time for a job to end after its step, such as a page of documents to delete."""


def review_of(
    location: IndexLocation,
    grouping: Grouping,
    *,
    write: bool = False,
    show: Sequence[str] = (),
    image: str | None = None,
    with_options: Callable[[str], str] = str,
) -> Review:
    """Return the state of the pages over an index. Raises IndexNotFound if it does not exist.

    with_options: returns a message with options in place of the settings in backticks.
    """

    # A page must not wait as long as a job.
    target = location.target
    if isinstance(target, Connection):
        target = replace(target, retry_for=min(target.retry_for, _RETRY_SECONDS))
    quick = replace(location, target=target)
    index, jobs = Index(quick), Jobs()
    # Raises IndexNotFound here, not on each page.
    _ = index.scheme
    shown = (*([] if image is None else [ImageField(image)]), *show)
    # Without `write` nothing is written, not even this.
    looked_at = f"{file_name(location.index)}.looked-at.jsonl"
    group_list = GroupList(index, shown, LookedAt(Path.cwd() / looked_at if write else None))
    group_search = GroupSearch(index, lambda: Index(location), grouping, jobs, group_list)
    return Review(
        index=index,
        write=write,
        show=shown,
        folder=Path.cwd(),
        jobs=jobs,
        group_search=group_search,
        group_list=group_list,
        decisions=Decisions(index, group_search),
        with_options=with_options,
    )


def application(review: Review) -> Starlette:
    """Return the application, without the guard that it needs (`security.guarded`)."""
    documents, groups = DocumentPages(review), GroupPages(review)
    judge, decide = Judge(review), Decide(review)
    get, post = review.get, review.post
    routes = [
        get("/", Overview(review).show),
        get("/search", documents.show),
        post("/search", documents.show, changes=False),
        get("/document", documents.one),
        get("/image", documents.image),
        get("/compare", documents.pair),
        post("/verdict", documents.judge),
        post("/undo", documents.undo),
        get("/groups", groups.browse),
        post("/groups/find", groups.find, changes=False),
        post("/groups/accept", groups.accept_listed),
        get("/group", groups.one),
        post("/group/accept", groups.accept),
        post("/group/split", groups.split),
        post("/group/represent", groups.represent),
        get("/judge", judge.show),
        post("/judge/draw", judge.draw, changes=False),
        get("/judgements.jsonl", judge.export),
        post("/judgements/read", judge.read),
        get("/threshold", judge.threshold_page),
        get("/threshold/border", judge.border),
        post("/threshold/use", judge.use, changes=False),
        get("/decide", decide.show),
        post("/decide/keep", decide.use_rule, changes=False),
        get("/decide/duplicates.csv", decide.duplicates),
        get("/decide/confirm", decide.confirm),
        post("/decide/run", decide.run),
        post("/decide/undo", decide.undo),
        get("/progress", review.working),
        # The style is shared with the reports.
        Mount(
            "/static",
            StaticFiles(packages=[("esdedup.review", "static"), ("esdedup.analysis", "html")]),
        ),
    ]
    return Starlette(
        routes=[Mount(review.root, routes=routes)],
        exception_handlers={HTTPException: review.refused, EsdedupError: review.refused},
    )


def serve(review: Review, port: int, started: Callable[[str], None]) -> Job | None:
    """Serve the pages until Ctrl-C; return the job that was stopped, or is still at work.

    port: 0 for any free one. started: gets the URL with the token, when the port is open. Raises
    UsageError if the port is taken.
    """
    try:
        listening = socket.create_server((_ADDRESS, port))
    except OSError as error:
        raise UsageError(
            f"`port` {port}: {os.strerror(error.errno or 0)}: choose another"
        ) from error
    with listening:
        # Inherited by each connection; otherwise a page may wait 40 ms for an acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(32)
        config = uvicorn.Config(
            guarded(application(review), review.root, token, images=review.images),
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
        started(f"http://{_ADDRESS}:{port}/?token={token}")
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
        review.text_jobs.stop(_JOB_SECONDS)
        stopped = review.jobs.stop(_JOB_SECONDS)
        review.index.close()
    return stopped
