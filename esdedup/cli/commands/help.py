"""esdedup help, settings: all options of a command, and what holds for all."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from esdedup import UsageError
from esdedup.cli.command import CONTEXT, PANELS, Commands, argument, record_of, setting
from esdedup.cli.shown_settings import settings_of_all

_CONNECTION = (
    "Every command reads these options. An option overrides an environment variable, such as"
    " ESDEDUP_URL for --url; without either, the index is in the file esdedup.db."
)


def help_command(
    topic: str | None = argument(None, "A command, connection, or settings.", metavar="[TOPIC]"),
) -> None:
    """Show all options of a command, or those of connections.

    Example: esdedup help connection

    The help of a command (--help) lists its usual options. This lists all of them, but for those
    that are mostly set in a file: see esdedup help settings.
    """
    root = CONTEXT.get().find_root()
    typer.echo(root.get_help() if topic is None else help_of(root, topic))


def settings_command(
    settings: Path | None = setting(
        None,
        "The settings file.",
        metavar="FILE",
        show_default="esdedup.toml, or pyproject.toml",
    ),
) -> None:
    """Show the settings of a file and of variables, as TOML.

    Example: esdedup settings

    A file sets options by their names with _ for -, for all commands that have them or in the table
    of one. It is esdedup.toml in the current folder, [tool.esdedup] in pyproject.toml, or that of
    --settings. An option overrides an environment variable, and both override the file. Every
    command prints its own settings with --show-settings.
    """
    typer.echo(settings_of_all(CONTEXT.get(), settings))


def help_of(root: Any, topic: str) -> str:
    """Return all help on a command, or on connections. Raise UsageError for another topic."""
    command = root.command.get_command(root, "stats" if topic == "connection" else topic)
    if command is None:
        raise UsageError(f"there is no topic {topic!r}: use connection, settings, or a command")
    with typer.Context(command, root, topic) as shown:
        if topic == "settings":
            return "\n\n".join([str(command.get_help(shown)), *_settings_of_files(root.command)])
        if topic != "connection":
            shown.meta[PANELS] = (None, "rare")
            return str(command.get_help(shown))
        shown.meta[PANELS] = ("connection",)
        formatter = shown.make_formatter()
        formatter.write_text(_CONNECTION)
        command.format_options(shown, formatter)
        return formatter.getvalue().rstrip()


def _settings_of_files(commands: Commands) -> Iterator[str]:
    """Return sections of the options for settings, and of those that no other help lists."""
    context = typer.Context(commands)
    stats = commands.get_command(context, "stats")
    options = [record_of(option) for option in stats.params if option.rich_help_panel == "settings"]
    yield _section(context, "Options of other commands", options)
    commands_of: dict[tuple[str, str], list[str]] = {}
    for name in commands.entries:
        for option in commands.get_command(context, name).params:
            if option.rich_help_panel == "file":
                commands_of.setdefault(record_of(option), []).append(name)
    records: dict[str, list[tuple[str, str]]] = {}
    for record, names in commands_of.items():
        records.setdefault(", ".join(names), []).append(record)
    for title, settings in sorted(records.items()):
        yield _section(context, f"Settings of {title}", sorted(settings))


def _section(context: typer.Context, title: str, records: Sequence[tuple[str, str]]) -> str:
    formatter = context.make_formatter()
    with formatter.section(title):
        formatter.write_dl(records)
    return str(formatter.getvalue()).strip()
