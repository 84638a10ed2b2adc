"""esdedup review: a local page to look at duplicates, judge them, and take them out."""

from __future__ import annotations

import sys
import threading
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from typer import Option

from esdedup.cli.options import GroupingOptions, Target, with_target
from esdedup.cli.output import message
from esdedup.exceptions import MissingExtra


@with_target
def review_command(
    target: Target,
    group_options: GroupingOptions,
    port: Annotated[
        int, Option(min=0, max=65535, help="Port on this machine; 0 for a free one.")
    ] = 9281,
    write: Annotated[
        bool, Option("--write", help="Let the page judge, delete, mark, move and undo.")
    ] = False,
    show: Annotated[
        list[str] | None,
        Option(
            metavar="FIELD", show_default=False, help="Field beside each text; may be repeated."
        ),
    ] = None,
    work: Annotated[
        Path | None,
        Option(
            metavar="DIRECTORY",
            show_default=False,
            help="Folder that keeps unfinished work, to go on from.",
        ),
    ] = None,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open a browser, on a terminal.")
    ] = True,
) -> None:
    """Open a page to look at duplicates, judge them, and undo.

    Example: esdedup review -i news --write

    Prints the address of the page, with a token, and serves it on this machine until Ctrl-C. The
    page shows similar documents and groups of duplicates, and keeps judgements, which later runs
    of group and dedup respect. Without --write it changes nothing.
    """
    try:
        from esdedup.review.app import review_of
        from esdedup.review.server import serve
    except ImportError as error:
        raise MissingExtra("the page needs more: pip install 'esdedup[review]'") from error
    grouping = group_options.grouping()
    with target.open() as index:
        place = index.place
    review = review_of(place, grouping, write=write, show=show or (), work=work)

    with ExitStack() as stack:

        def started(url: str) -> None:
            typer.echo(url)
            sys.stdout.flush()
            message("Ctrl-C ends it")
            if browser and sys.stdout.isatty():
                # Other users of the machine see the arguments of a browser, but not this file.
                page = Path(stack.enter_context(TemporaryDirectory())) / "esdedup.html"
                page.write_text(f'<meta http-equiv="refresh" content="0;url={url}">', "utf-8")
                # Some browsers return when they are closed.
                opening = threading.Thread(
                    target=webbrowser.open, args=[page.as_uri()], daemon=True
                )
                opening.start()

        job = serve(review, port, started)
    if job is None:
        message("Ended")
    elif job.ended:
        message(f"Ended. {job} was stopped")
    else:
        message(f"Ended. {job} was still at work: it did not end by itself")
