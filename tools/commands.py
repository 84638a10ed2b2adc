"""The reference of the commands in Markdown, made from the command line program itself."""

from __future__ import annotations

import inspect
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from esdedup.cli.app import app

COMMANDS: Any = typer.main.get_command(app)
"""All commands by name, as typer runs them."""

_EXAMPLE = re.compile(r"\s*(Example: |\$ )?esdedup ")
_VALUES = {bool: "", float: "NUMBER", int: "N", Path: "PATH", str: "TEXT"}


class Parameter(NamedTuple):
    """An option or an argument of a command.

    names: as they are given, the long one first. value: a word for what follows, "" for a flag.
    choices: the values that it takes, if these are few.
    """

    names: list[str]
    value: str
    choices: tuple[str, ...]
    info: OptionInfo | ArgumentInfo
    default: object


def commands_page() -> str:
    """Return a section for each command: its help, its usage and its options.

    Options under a heading that most commands have, with the same options, come once, at the end.
    """
    found = {
        command.name or "": command.callback
        for command in app.registered_commands
        if command.callback is not None
    }
    tables = {name: _tables(parameters(callback)) for name, callback in found.items()}
    often = Counter((panel, table) for each in tables.values() for panel, table in each.items())
    common = {panel: table for (panel, table), n in often.items() if panel and n > len(found) / 2}
    parts: list[str] = []
    for name, callback in found.items():
        parts += _section(name, callback)
        for panel, table in tables[name].items():
            if common.get(panel) != table:
                parts += [f"**{panel}**\n" * bool(panel), table]
            else:
                parts.append(f"Also [{panel}](#{_anchor(panel)}).\n")
    for panel, table in common.items():
        parts += [f"## {panel}\n", table]
    return "\n".join(part for part in parts if part)


def parameters(callback: Any) -> list[Parameter]:
    """Return the options and arguments of a command, in the order of its help."""
    hints = get_type_hints(callback, include_extras=True)
    found = []
    for name, parameter in inspect.signature(callback).parameters.items():
        if hints[name] is typer.Context:
            continue
        kind, info = get_args(hints[name])[:2]
        kind = _plain(kind)
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        value = info.metavar or ("VALUE" if choices else _VALUES[kind])
        # The first name comes in place of a default, which an annotation does not have.
        declared = [each for each in (info.default, *(info.param_decls or ())) if _is_name(each)]
        if isinstance(info, ArgumentInfo):
            names = [info.metavar or name.upper()]
        else:
            long = f"--{name.replace('_', '-')}"
            names = declared or [f"{long}/--no-{long[2:]}" if kind is bool else long]
        names.sort(key=len, reverse=True)
        found.append(Parameter(names, value, choices, info, parameter.default))
    return found


def _section(name: str, callback: Any) -> Iterator[str]:
    found = parameters(callback)
    yield f"## esdedup {name}\n"
    yield _help(inspect.getdoc(callback) or "")
    arguments = [each for each in found if isinstance(each.info, ArgumentInfo)]
    usage = " ".join(["esdedup", name, "[OPTIONS]", *(_usage(each) for each in arguments)])
    yield f"```text\n{usage}\n```\n"


def _tables(found: list[Parameter]) -> dict[str, str]:
    """Return a table of options for each heading; the options without one come first."""
    rows: dict[str, list[str]] = {"": []}
    for each in found:
        rows.setdefault(each.info.rich_help_panel or "", []).append(_row(each))
    head = "| option | meaning |\n|---|---|\n"
    return {panel: head + "\n".join(some) + "\n" for panel, some in rows.items() if some}


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower())


def _help(text: str) -> str:
    """Return a help text as Markdown; a line of an example becomes a block of code."""
    lines = text.replace("\b\n", "").splitlines()
    parts: list[str] = []
    for example, group in itertools.groupby(lines, lambda line: bool(_EXAMPLE.match(line))):
        some = "\n".join(line.strip().removeprefix("Example: ") for line in group)
        parts.append(f"\n```sh\n{some}\n```\n" if example else some)
    return "\n".join(parts).strip() + "\n"


def _usage(argument: Parameter) -> str:
    (name,) = argument.names
    name = name.strip("[].")
    several = "..." if name.endswith("S") or "..." in argument.names[0] else ""
    optional = argument.default is None
    return f"[{name}]{several}" if optional else f"{name}{several}"


def _row(each: Parameter) -> str:
    value = f" {each.value}" if each.value and not isinstance(each.info, ArgumentInfo) else ""
    names = ", ".join(f"`{name}{value}`" for name in each.names)
    notes = []
    if each.choices:
        notes.append(f"One of {', '.join(f'`{choice}`' for choice in each.choices)}.")
    if (default := _default(each)) is not None:
        notes.append(f"Default: {default}.")
    least, most = each.info.min, each.info.max
    if least is not None and most is not None:
        notes.append(f"From {least:g} to {most:g}.")
    elif least is not None:
        notes.append(f"At least {least:g}.")
    if each.info.envvar:
        notes.append(f"Environment: `{each.info.envvar}`.")
    text = " ".join([each.info.help or "", *notes]).replace("|", "\\|")
    return f"| {names} | {text} |"


def _default(each: Parameter) -> str | None:
    shown = each.info.show_default
    if isinstance(shown, str):
        return shown
    if not shown or each.default is None or each.default is inspect.Parameter.empty:
        return None
    if isinstance(each.default, bool):
        return "on" if each.default else None
    return f"`{each.default}`"


def _plain(kind: Any) -> Any:
    """Return the type of one value: without None, and of what a list has."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    return get_args(kind)[0] if get_origin(kind) is list else kind


def _is_name(declared: object) -> bool:
    return isinstance(declared, str) and declared.startswith("-")
