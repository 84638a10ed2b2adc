"""Write the reference of the commands in Markdown: what `esdedup help` shows of each one alone."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from esdedup.cli.app import app
from esdedup.cli.commands.help import help_of

CONTEXT = typer.Context(app, info_name="esdedup", help_option_names=["-h", "--help"])
COMMANDS: dict[str, Any] = {
    name: app.get_command(CONTEXT, name) for name in app.list_commands(CONTEXT)
}
"""All commands by name."""
OPTIONS = {"--help", *(name for option in app.params for name in option.opts)}
"""The options that need no command."""
_OF_EVERY_COMMAND = re.compile(
    r"^  -h, --help +Show this message and exit\.\n|^Settings in a file, [^\n]*\n?", re.MULTILINE
)
"""Lines in the help of every command, which the page has once, before the commands."""


def commands_page() -> str:
    """Return a section for each command, and one for the options of connections."""
    return "\n".join(_sections())


def _sections() -> Iterator[str]:
    for topic in (*COMMANDS, "connection"):
        heading = f"esdedup {topic}" if topic in COMMANDS else topic.capitalize()
        text = _OF_EVERY_COMMAND.sub("", f"{help_of(CONTEXT, topic)}\n").rstrip()
        yield f"## {heading}\n\n```text\n{text}\n```\n"
