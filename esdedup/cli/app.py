"""The commands, and the exit status of each kind of error."""

import errno
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from typer.main import get_command

from esdedup import EsdedupError, UsageError
from esdedup.cli.command import CommandEntry, Commands

if TYPE_CHECKING:
    from esdedup.cli.surroundings import Surroundings

_MOVED = (
    "dedup removes duplicates of an index. For files, run `esdedup clean FILES -o OUT`; to remove"
    " what holds items, run `esdedup decontaminate FILES --against ITEMS -o OUT`"
)
"""What `dedup FILES` is now."""
_READS_INDEX = (
    "{0} reads an index: run `esdedup index FILES`, and then `esdedup {0}`. Without an index,"
    " `esdedup pairs FILES` lists similar records, and `esdedup clean FILES -o OUT` removes them"
)
"""How to use a command of indices with files."""
COMMANDS = {
    "Commands": {
        "index": CommandEntry(
            "index",
            "Index documents with their near-duplicate tokens.",
            other_names=("add", "import"),
        ),
        "similar": CommandEntry(
            "similar",
            "Find the documents most similar to a text.",
            other_names=("find", "search"),
            other_meanings=("bits", "vector"),
        ),
        "pairs": CommandEntry(
            "pairs",
            "Find all pairs of similar documents, each once.",
            listed=(
                "threshold",
                "distance",
                "recall",
                "text_field",
                "format",
                "encoding",
                "id_field",
                "workers",
                "output",
                "k",
            ),
        ),
        "group": CommandEntry(
            "group",
            "Group similar documents, and write the groups.",
            moved_by_files=_READS_INDEX.format("group"),
        ),
        "explain": CommandEntry("explain", "Show why two documents are similar, or not."),
        "report": CommandEntry(
            "report",
            "Write a page on the duplicates of an index.",
            moved_by_files=_READS_INDEX.format("report"),
        ),
        "review": CommandEntry(
            "review",
            "Open a page to look at duplicates, judge them, and undo.",
            moved_by_files=_READS_INDEX.format("review"),
        ),
        "dedup": CommandEntry(
            "dedup",
            "Show the duplicates of an index, or remove them.",
            other_names=("delete", "remove"),
            moved_by_files=_MOVED,
        ),
        "clean": CommandEntry(
            "clean",
            "Write files again without duplicates.",
            rights_of="pairs",
            listed=(
                "threshold",
                "distance",
                "keep",
                "exact",
                "split_templates",
                "text_field",
                "workers",
                "output",
                "against",
                "update",
                "unit",
                "task",
            ),
        ),
        "decontaminate": CommandEntry(
            "clean",
            "Remove records that hold an item, such as one of a benchmark.",
            rights_of="dedup",
            listed=(
                "text_field",
                "id_field",
                "output",
                "task",
                "apply",
                "action",
                "to",
                "yes",
                "against",
                "against_field",
                "share",
                "mask",
            ),
            refused=("bits", "vectors", "passages"),
        ),
        "undo": CommandEntry(
            "dedup", "Restore what a run of esdedup dedup removed.", other_names=("restore",)
        ),
        "list": CommandEntry("stats", "List the indices of a file or a cluster."),
        "stats": CommandEntry("stats", "Show the documents, scheme and size of an index."),
        "stop": CommandEntry("stats", "Show or change the stop list of an index."),
        "drop": CommandEntry(
            "stats",
            "Delete an index with its documents, after asking.",
            other_names=("delete", "remove"),
        ),
        "scheme": CommandEntry(
            "scheme",
            "Choose the parameters of an index, and show their recall and cost.",
            other_meanings=("scheme", "threshold", "distance", "recall"),
        ),
        "weights": CommandEntry(
            "scheme", "Weigh words by how many documents have them, for fingerprints."
        ),
        "settings": CommandEntry("help", "Show the settings of a file and of variables, as TOML."),
        "examples": CommandEntry("examples", "Write sample documents to try esdedup on."),
        "doctor": CommandEntry("doctor", "Show what is installed, for a report of a bug."),
        "help": CommandEntry("help", "Show all options of a command, or those of connections."),
    },
    "For an index that other programs write to": {
        "attach": CommandEntry("attach", "Add the token fields to an index that exists."),
        "backfill": CommandEntry(
            "backfill", "Give the documents of an attached index their tokens."
        ),
        "check": CommandEntry("attach", "Find documents of an index without tokens."),
        "switch": CommandEntry("backfill", "Change the scheme or text field of an index in use."),
        "template": CommandEntry(
            "attach", "Show or install the template for the next indices of a name."
        ),
        "query": CommandEntry(
            "similar",
            "Print the search for a text's candidates as JSON.",
            other_meanings=("bits", "vector"),
            refused=("within",),
        ),
        "proxy": CommandEntry(
            "proxy",
            "Pass requests on, and add tokens to their documents.",
            variables="ESDEDUP_PROXY",
            other_meanings=("timeout",),
        ),
    },
}
"""The modules and summaries of the commands: their help is shown without importing them."""
_OF_OUTPUT = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""The errors of a standard output that can't be written to."""


Commands.listed = COMMANDS
_app = typer.Typer(
    cls=Commands,
    help="Near-duplicate search for Elasticsearch, OpenSearch, or a local file.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def _show_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        from esdedup.text.characters import VERSION

        typer.echo(f"esdedup {version('esdedup')} (scheme version {VERSION})")
        raise typer.Exit


@_app.callback()
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        is_eager=True,
        expose_value=False,
        callback=_show_version,
        help="Show the version and exit.",
    ),
) -> None:
    """Accept the options before a command."""


_group = get_command(_app)
assert isinstance(_group, Commands)
app: Commands = _group
"""All commands."""
_COMPLETION = "_ESDEDUP_COMPLETE"
"""The variable by which a shell asks what can follow, in place of running a command."""


def main(
    arguments: Sequence[str] | None = None, surroundings: "Surroundings | None" = None
) -> None:
    """Run the command line; the exit status is 2 for wrong usage and 1 for any other failure.

    arguments: by default those of the process, without its name.
    """
    arguments = [*(sys.argv[1:] if arguments is None else arguments)]
    if arguments and arguments[0] not in ("-h", "--help", "--version"):
        if arguments[0] not in ("review", "scheme"):
            # Only these multiply matrices, and the threads for it take a seventh of a search.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # The list of commands is shown without it.
        from esdedup import admin
        from esdedup.cli.setting_names import OptionsFormatter

        admin.be_a_program()
        for handler in logging.getLogger().handlers:
            handler.setFormatter(OptionsFormatter("%(message)s"))
    if sys.stdout is None:
        _fail("standard output is closed", 1)
    plain = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    if plain and isinstance(sys.stdout, io.TextIOWrapper):
        # Tables lose characters; JSON escapes them.
        sys.stdout.reconfigure(errors="replace")
    try:
        if _COMPLETION in os.environ:
            app.main([], "esdedup", _COMPLETION)
        with _other_signals_interrupt():
            try:
                context = app.make_context("esdedup", arguments or ["--help"], obj=surroundings)
                with context:
                    app.invoke(context)
            finally:
                # Later, Python could only print a traceback.
                sys.stdout.flush()
    except typer.TyperException as error:
        _fail(error.format_message(), error.exit_code)
    except typer.Exit as end:
        if end.exit_code:
            sys.exit(end.exit_code)
    except EsdedupError as error:
        _fail(error, 2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except OSError as error:
        # Errors of files have their names.
        if error.errno not in _OF_OUTPUT or error.filename is not None:
            raise
        # The rest of the output can't be flushed either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            # The reader of the output has gone, as `head` does: a shell shows programs that the
            # signal SIGPIPE ended by this status.
            sys.exit(128 + 13)
        _fail(f"standard output: {error.strerror}", 1)


@contextmanager
def _other_signals_interrupt() -> Iterator[None]:
    """Let the first SIGTERM or SIGHUP, unless ignored, end the program as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    interrupting = signal.getsignal(signal.SIGINT)

    def end(number: int, _: object) -> None:
        if came:
            return
        came.append(number)
        if interrupting == signal.SIG_IGN:
            # So a shell starts a program in the background.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    ending = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    ours = [number for number in ending if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, interrupting)
        if came:
            signal.raise_signal(came[0])
            # The first process of a container is not ended by it.
            sys.exit(128 + came[0])


def _fail(error: object, status: int) -> None:
    from esdedup.cli.setting_names import with_options
    from esdedup.text.characters import message_of

    typer.echo(message_of(with_options(f"Error: {error}")), err=True)
    sys.exit(status)
