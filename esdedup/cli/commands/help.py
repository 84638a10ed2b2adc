"""esdedup help: all options of a command, or those of connections."""

from typing import Any

import typer

from esdedup import UsageError
from esdedup.cli.command import CONTEXT, PANELS, argument

_CONNECTION = (
    "Every command reads these options. An option counts before an environment variable, such as"
    " ESDEDUP_URL for --url; without either, the index is in the file esdedup.db."
)


def help_command(
    topic: str | None = argument(None, "A command, or connection.", metavar="[TOPIC]"),
) -> None:
    """Show all options of a command, or those of connections.

    Example: esdedup help connection

    The help of a command (--help) lists its usual options. This lists all of them.
    """
    root = CONTEXT.get().find_root()
    typer.echo(root.get_help() if topic is None else help_of(root, topic))


def help_of(root: Any, topic: str) -> str:
    """Return all help on a command, or on connections. Raise UsageError for another topic."""
    command = root.command.get_command(root, "stats" if topic == "connection" else topic)
    if command is None:
        raise UsageError(f"there is no topic {topic!r}: use connection, or a command")
    with typer.Context(command, root, topic) as shown:
        if topic != "connection":
            shown.meta[PANELS] = (None, "rare")
            return str(command.get_help(shown))
        shown.meta[PANELS] = ("connection",)
        formatter = shown.make_formatter()
        formatter.write_text(_CONNECTION)
        command.format_options(shown, formatter)
        return formatter.getvalue().rstrip()
