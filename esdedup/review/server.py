"""Listens on this machine, for the person who started the program."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from esdedup.exceptions import UsageError
from esdedup.review.app import application
from esdedup.review.jobs import Job
from esdedup.review.pages import Review
from esdedup.review.security import Guard

_ADDRESS = "127.0.0.1"
_LARGEST_HEAD = 64 << 10
_GRACE_SECONDS = 1
"""Time to finish requests at the end."""
_JOB_SECONDS = 30.0
"""Time for a job to end after its step, such as a page of documents to delete."""


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
