"""Write the reference of the commands in Markdown, from the command line program itself."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import click

from esdedup.cli.app import app
from esdedup.cli.command import Argument, Option

CONTEXT = click.Context(app, info_name="esdedup")
COMMANDS: dict[str, click.Command] = {
    name: command
    for name in app.list_commands(CONTEXT)
    if (command := app.get_command(CONTEXT, name)) is not None
}
"""All commands by name."""
_EXAMPLE = re.compile(r"\s*(Example: |\$ )?esdedup ")
_PANELS = {"": "", "rare": "**Rare options**\n"}


def commands_page() -> str:
    """Return a section for each command: its help, its usage and its options."""
    parts: list[str] = []
    for name, command in COMMANDS.items():
        parts += _section(name, command)
    parts += ["## Connection\n", _table(_options(COMMANDS["stats"], "connection"))]
    return "\n".join(part for part in parts if part)


def _section(name: str, command: click.Command) -> Iterator[str]:
    yield f"## esdedup {name}\n"
    yield _help(command.help or "")
    arguments = [each for each in command.params if isinstance(each, Argument)]
    names = (each.make_metavar(CONTEXT) for each in arguments)
    yield f"```text\n{' '.join(['esdedup', name, '[OPTIONS]', *names])}\n```\n"
    for each in arguments:
        yield f"{each.make_metavar(CONTEXT)}: {each.text}\n"
    for panel, heading in _PANELS.items():
        if some := _options(command, panel):
            yield heading
            yield _table(some)
    if _options(command, "connection"):
        yield "Also the options of the [connection](#connection).\n"


def _options(command: click.Command, panel: str) -> list[Option]:
    return [
        each
        for each in command.params
        if isinstance(each, Option) and (each.panel or "rare" * each.rare) == panel
    ]


def _table(options: list[Option]) -> str:
    return "| option | meaning |\n|---|---|\n" + "\n".join(map(_row, options)) + "\n"


def _row(each: Option) -> str:
    value = f" {each.metavar}" if each.metavar else ""
    names = ", ".join(f"`{name}{value}`" for name in sorted(each.opts, key=len, reverse=True))
    names += "".join(f", `{name}`" for name in each.secondary_opts)
    kind: Any = each.type
    notes = []
    if isinstance(kind, click.Choice):
        notes.append(f"One of {', '.join(f'`{choice}`' for choice in kind.choices)}.")
    if isinstance(each.show_default, str):
        notes.append(f"Default: {each.show_default}.")
    elif each.default is True:
        notes.append("Default: on.")
    elif each.show_default:
        number = isinstance(each.default, float)
        notes.append(f"Default: `{f'{each.default:g}' if number else each.default}`.")
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if least is not None and most is not None:
        notes.append(f"From {least:g} to {most:g}.")
    elif least is not None:
        notes.append(f"At least {least:g}.")
    if each.required:
        notes.append("Required.")
    if each.envvar:
        notes.append(f"Environment: `{each.envvar}`.")
    text = " ".join([each.help or "", *notes]).replace("|", "\\|")
    return f"| {names} | {text} |"


def _help(text: str) -> str:
    """Return a help text as Markdown; a line of an example becomes a block of code."""
    parts: list[str] = []
    for example, group in itertools.groupby(text.splitlines(), _is_example):
        some = "\n".join(line.strip().removeprefix("Example: ") for line in group)
        parts.append(f"\n```sh\n{some}\n```\n" if example else some)
    return "\n".join(parts).strip() + "\n"


def _is_example(line: str) -> bool:
    return _EXAMPLE.match(line) is not None
