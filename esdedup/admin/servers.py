"""Programs that serve until Ctrl-C: the proxy, and the pages of a review."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esdedup.exceptions import MissingExtra
from esdedup.groups.groups import Grouping
from esdedup.proxy.settings import ProxySettings
from esdedup.stores.location import IndexLocation

if TYPE_CHECKING:
    from esdedup.review.jobs import Job


def serve_proxy(settings: ProxySettings, show: Callable[[str], str] = str) -> None:
    """Pass requests on to a cluster, and add tokens to their documents.

    show: returns a message as the log has it. Raises MissingExtra without `esdedup[proxy]`.
    """
    try:
        from esdedup.proxy.server import serve
    except ImportError as error:
        raise MissingExtra("the proxy needs more: pip install 'esdedup[proxy]'") from error
    serve(settings, show)


@dataclass(frozen=True)
class ReviewPages:
    """How the pages of a review show an index, and what they may change.

    grouping: of the duplicates.
    write: let the pages judge, mark, delete and undo.
    show: fields beside each text.
    image: a field with the path or address of an image.
    with_options: returns a message as the pages show it.
    """

    grouping: Grouping
    write: bool = False
    show: Sequence[str] = ()
    image: str | None = None
    with_options: Callable[[str], str] = str


def serve_review(
    location: IndexLocation, pages: ReviewPages, port: int, started: Callable[[str], None]
) -> Job | None:
    """Serve the pages on an index; return the job that was stopped, or is still at work.

    port: 0 for any free one. started: gets the URL with the token, when the port is open. Raises
    MissingExtra without `esdedup[review]`, UsageError if the port is taken.
    """
    try:
        from esdedup.review.app import review_of, serve
    except ImportError as error:
        raise MissingExtra("the page needs more: pip install 'esdedup[review]'") from error
    review = review_of(
        location,
        pages.grouping,
        write=pages.write,
        show=pages.show,
        image=pages.image,
        with_options=pages.with_options,
    )
    return serve(review, port, started)
