"""esdedup review: open a local page to look at duplicates, judge and remove them."""

import sys

import typer

from esdedup import Grouping, admin
from esdedup.cli.command import setting
from esdedup.cli.options import Target, check_limits
from esdedup.cli.output import message
from esdedup.cli.setting_names import with_options


def review_command(
    target: Target,
    grouping: Grouping,
    port: int = setting(9281, "Port on this machine; 0 for a free one.", bounds=(0, 65535)),
    write: bool = setting(False, "Let the page judge, mark, delete and undo."),
    show: list[str] | None = setting(
        None, "Field to show beside each text; may be repeated.", metavar="FIELD"
    ),
    image: str | None = setting(
        None, "Field with the path or address of an image to show.", metavar="FIELD"
    ),
) -> None:
    """Open a page to look at duplicates, judge them, and undo.

    Example: esdedup review -i news --write

    Prints the address of the page, with a token, and serves it on this machine until Ctrl-C. The
    page shows similar documents and groups of duplicates, and keeps judgements, which later runs
    of group and dedup respect. Without --write it changes nothing.
    """
    with target.open() as index:
        check_limits(index.scheme, grouping.limits)
        location = index.location
    pages = admin.ReviewPages(grouping, write, show or (), image, with_options)

    def started(url: str) -> None:
        typer.echo(url)
        sys.stdout.flush()
        message("Ctrl-C ends it")

    job = admin.serve_review(location, pages, port, started)
    message("Ended")
    if job is not None:
        message(
            f"{job} was {'stopped' if job.ended else 'still at work and did not end by itself'}"
        )
