"""esdedup help: all options of a command, or those of connections."""

from __future__ import annotations

import click

from esdedup.arguments import setting
from esdedup.exceptions import UsageError


def help_command(
    topic: str | None = setting(
        None, "A command, or connection.", argument=True, metavar="[TOPIC]"
    ),
) -> None:
    """Show all options of a command, or those of connections.

    Example: esdedup help connection

    The help of a command (--help) lists its usual options. This lists all of them.
    """
    root = click.get_current_context().find_root()
    if topic is None:
        click.echo(root.get_help())
        return
    group = root.command
    assert isinstance(group, click.Group)
    command = group.get_command(root, "stats" if topic == "connection" else topic)
    if command is None:
        raise UsageError(f"there is no topic {topic!r}: use connection, or a command")
    panels = ("connection",) if topic == "connection" else ("", "rare")
    with click.Context(command, root, topic) as shown:
        shown.meta["esdedup.panels"] = panels
        if topic == "connection":
            formatter = shown.make_formatter()
            formatter.write_text(
                "Every command reads these options. An option counts before an environment"
                " variable; without either, the index is in the file esdedup.db."
            )
            click.Command.format_options(command, shown, formatter)
            click.echo(formatter.getvalue().rstrip())
        else:
            click.echo(command.get_help(shown))
