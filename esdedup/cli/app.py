"""The commands, and the exit status of each kind of error."""

from __future__ import annotations

import io
import os
import sys

import typer

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
    scheme,
    similar,
    stats,
    switch,
    tune,
)
from esdedup.cli.output import message, only_plain
from esdedup.exceptions import EsdedupError, UsageError
from esdedup.ingest.parallel import be_a_program

app = typer.Typer(
    name="esdedup",
    help="Near-duplicate search for Elasticsearch, OpenSearch, or a local file.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_OTHERS = "For an index that others write to"

app.command("index")(index.index)
app.command("similar")(similar.similar)
app.command("pairs")(pairs.pairs)
app.command("group")(group.group_command)
app.command("explain")(explain.explain)
app.command("report")(report.report_command)
app.command("dedup")(dedup.dedup_command)
app.command("undo")(dedup.undo_command)
app.command("stats")(stats.stats)
app.command("stop")(stats.stop)
app.command("scheme")(scheme.scheme)
app.command("tune")(tune.tune)
app.command("attach", rich_help_panel=_OTHERS)(attach.attach_command)
app.command("backfill", rich_help_panel=_OTHERS)(backfill.backfill_command)
app.command("check", rich_help_panel=_OTHERS)(attach.check_command)
app.command("switch", rich_help_panel=_OTHERS)(switch.switch_command)
app.command("template", rich_help_panel=_OTHERS)(attach.template_command)
app.command("query", rich_help_panel=_OTHERS)(similar.query)
app.command("proxy", rich_help_panel=_OTHERS)(proxy.proxy)


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
    """Runs the command line; the exit status is 2 for wrong usage and 1 for any other failure."""
    be_a_program()
    if only_plain() and isinstance(sys.stdout, io.TextIOWrapper):
        # Tables show what they can; JSON needs no other characters.
        sys.stdout.reconfigure(errors="replace")
    try:
        app(prog_name="esdedup")
    except UsageError as error:
        _fail(error, 2)
    except EsdedupError as error:
        _fail(error, 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of the output has gone, as `head` does; the rest can't be flushed either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _fail(error: object, status: int) -> None:
    message(f"Error: {error}")
    sys.exit(status)
