"""The commands, and the exit status of each kind of error."""

from __future__ import annotations

import errno
import inspect
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from esdedup.admin.roles import roles_of
from esdedup.cli.commands import (
    attach,
    backfill,
    dedup,
    explain,
    group,
    index,
    pairs,
    proxy,
    report,
    review,
    scheme,
    similar,
    stats,
    switch,
    tune,
)
from esdedup.cli.output import message, only_plain
from esdedup.exceptions import EsdedupError, PermissionDenied, UsageError
from esdedup.ingest.parallel import be_a_program
from esdedup.text.characters import visible


@contextmanager
def _visible_errors() -> Iterator[None]:
    """Show control characters of arguments in typer's own messages."""
    try:
        yield
    except Exception as error:
        if isinstance(said := getattr(error, "message", None), str):
            error.message = visible(said)  # type: ignore[attr-defined]
        raise


class _Commands(TyperGroup):
    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _visible_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _visible_errors():
            try:
                return super().invoke(ctx)
            except PermissionDenied as error:
                raise PermissionDenied(f"{error}{_roles(ctx.invoked_subcommand)}") from error


def _roles(command: str) -> str:
    """Tells how to see the rights of a command."""
    first, *others = roles_of(command)
    more = f", or {', '.join(others)}" if others else ""
    return f"\nThe rights that it needs: esdedup check --role {first}{more}"


app = typer.Typer(
    cls=_Commands,
    name="esdedup",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_OF_OUTPUT = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""The errors of a standard output that takes no more."""
_COMMANDS = {
    "index": index.index,
    "similar": similar.similar,
    "pairs": pairs.pairs,
    "group": group.group_command,
    "explain": explain.explain,
    "report": report.report_command,
    "review": review.review_command,
    "dedup": dedup.dedup_command,
    "undo": dedup.undo_command,
    "stats": stats.stats,
    "stop": stats.stop,
    "scheme": scheme.scheme,
    "tune": tune.tune,
}
_FOR_INDICES_OF_OTHERS = {
    "attach": attach.attach_command,
    "backfill": backfill.backfill_command,
    "check": attach.check_command,
    "switch": switch.switch_command,
    "template": attach.template_command,
    "query": similar.query,
    "proxy": proxy.proxy,
}


def _help(command: Callable[..., None]) -> str:
    """The docstring of a command, a line a paragraph: the terminal breaks the lines."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))


for name, command in _COMMANDS.items():
    app.command(name, help=_help(command))(command)
for name, command in _FOR_INDICES_OF_OTHERS.items():
    panel = "For an index that others write to"
    app.command(name, help=_help(command), rich_help_panel=panel)(command)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(version("esdedup"))
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Near-duplicate search for Elasticsearch, OpenSearch, or a local file."""


def main() -> None:
    """Run the command line; the exit status is 2 for wrong usage and 1 for any other failure."""
    be_a_program()
    if sys.stdout is None:
        _fail("standard output is closed", 1)
    if only_plain() and isinstance(sys.stdout, io.TextIOWrapper):
        # Tables lose characters; JSON escapes them.
        sys.stdout.reconfigure(errors="replace")
    try:
        with _other_signals_interrupt():
            try:
                app(prog_name="esdedup")
            finally:
                # Later, Python could only print a traceback.
                sys.stdout.flush()
    except UsageError as error:
        _fail(error, 2)
    except EsdedupError as error:
        _fail(error, 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except OSError as error:
        # Errors of files have their names.
        if error.errno not in _OF_OUTPUT or error.filename is not None:
            raise
        # The rest of the output can't be flushed either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            # The reader of the output has gone, as `head` does.
            sys.exit(1)
        _fail(f"standard output: {error.strerror}", 1)


@contextmanager
def _other_signals_interrupt() -> Iterator[None]:
    """Let the first SIGTERM or SIGHUP do what Ctrl-C does, such as to remove temporary files.

    The program then ends by that signal. A signal that was ignored from the start, as under
    `nohup`, stays ignored.
    """
    came: list[int] = []

    def end(number: int, _: object) -> None:
        if not came:
            came.append(number)
            signal.raise_signal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if came:
            signal.default_int_handler(number, frame)

    interrupting = signal.getsignal(signal.SIGINT)
    usual = interrupting in (signal.default_int_handler, signal.SIG_IGN)
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    ours = [each for each in ending if signal.getsignal(each) == signal.SIG_DFL]
    if interrupting == signal.SIG_IGN:
        # So a shell starts a program in the background.
        signal.signal(signal.SIGINT, interrupt)
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        if came:
            signal.signal(came[0], signal.SIG_DFL)
            signal.raise_signal(came[0])
            # The first process of a container is not ended by it.
            sys.exit(128 + came[0])
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, interrupting)


def _fail(error: object, status: int) -> None:
    message(f"Error: {error}")
    sys.exit(status)
