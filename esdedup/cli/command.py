"""Commands of functions: parameters, and dataclasses of options, become a command's options."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, is_dataclass
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from click.core import ParameterSource

from esdedup.arguments import Setting, from_settings, settings_of
from esdedup.exceptions import PermissionDenied, UsageError

QUIET = "esdedup.quiet"
"""The entry of the context that --quiet sets."""
WHERE = "Index: -i NAME, and --db FILE or --url URL. See: esdedup help connection"
_OTHER_NAMES = {
    "add": ["index"],
    "delete": ["dedup", "drop"],
    "find": ["similar"],
    "import": ["index"],
    "ls": ["list"],
    "remove": ["dedup", "drop"],
    "restore": ["undo"],
    "search": ["similar"],
}


class Option(click.Option):
    """An option whose help shows no type. rare: only `esdedup help COMMAND` lists it."""

    def __init__(self, *names: Any, panel: str = "", rare: bool = False, **more: Any) -> None:
        super().__init__(*names, **more)
        self.panel, self.rare = panel, rare

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the names and the help, or None if the context's command does not list it."""
        wanted = ctx.meta.get("esdedup.panels", ("", "rare"))
        if (self.panel or ("rare" if self.rare else "")) not in wanted:
            return None
        found = super().get_help_record(ctx)
        return found and (found[0].rstrip(), found[1])

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what follows the help, without the range of numbers."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if "default" in extra and isinstance(self.show_default, str):
            extra["default"] = self.show_default
        elif "default" in extra and isinstance(self.default, float):
            extra["default"] = f"{self.default:g}"
        return extra


class Argument(click.Argument):
    """An argument with a help text."""

    def __init__(self, *names: Any, help: str, **more: Any) -> None:
        super().__init__(*names, **more)
        self.text = help


class Command(click.Command):
    """A command whose `--help` lists its usual options, with one line on connections."""

    def get_help(self, ctx: click.Context) -> str:
        ctx.meta.setdefault("esdedup.panels", ("",))
        return super().get_help(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [each for each in self.params if isinstance(each, Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(each.make_metavar(ctx), each.text) for each in arguments])
        super().format_options(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        panels = {each.panel or each.rare for each in self.params if isinstance(each, Option)}
        lines = [WHERE] if "connection" in panels else []
        if True in panels and "rare" not in ctx.meta["esdedup.panels"]:
            lines.append(f"More options: esdedup help {self.name}")
        if lines:
            formatter.write_paragraph()
            formatter.write_text("\n\n".join(lines))

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        """Show control characters of arguments in messages."""
        try:
            return super().make_context(*arguments, **more)
        except click.ClickException as error:
            from esdedup.text.characters import visible

            error.message = visible(error.message)  # type: ignore[misc]
            raise


class Commands(click.Group):
    """The commands, each in a module that is imported when it is run.

    listed: modules by command, with a summary, under the headings of the help.
    """

    def __init__(self, listed: Mapping[str, Mapping[str, tuple[str, str]]], **more: Any) -> None:
        super().__init__(**more)
        self.listed = listed
        self._modules = {
            name: module for some in listed.values() for name, (module, _) in some.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and (module := self._modules.get(cmd_name)):
            call = getattr(import_module(f"esdedup.cli.commands.{module}"), f"{cmd_name}_command")
            self.commands[cmd_name] = command_of(cmd_name, call)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, some in self.listed.items():
            with formatter.section(heading):
                formatter.write_dl([(name, summary) for name, (_, summary) in some.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name.startswith("-") or name in self._modules:
            return super().resolve_command(ctx, args)
        near = _OTHER_NAMES.get(name) or difflib.get_close_matches(name, self._modules, 2)
        meant = f" Did you mean {' or '.join(near)}?" if near else " See: esdedup --help"
        raise UsageError(f"there is no command {name!r}.{meant}")

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PermissionDenied as error:
            from esdedup.admin.roles import roles_of

            first, *others = roles_of(ctx.invoked_subcommand or "")
            more = f", or {', '.join(others)}" if others else ""
            needed = f"The rights that it needs: esdedup check --role {first}{more}"
            raise PermissionDenied(f"{error}\n{needed}") from error


def command_of(name: str, call: Callable[..., Any]) -> Command:
    """Return the command that calls a function.

    A parameter is an option if its default is a `setting`. If its type is a dataclass, or that
    annotated with a use, the settings of this are options, and the function gets the dataclass. The
    docstring is the help.
    """
    kinds: dict[str, Any] = {}
    sets: dict[str, Mapping[str, Setting]] = {}
    defaults: dict[str, Any] = {}
    params: list[click.Parameter] = []
    for each in inspect.signature(call, eval_str=True).parameters.values():
        kind = get_args(each.annotation) or (each.annotation,)
        if is_dataclass(kind[0]):
            sets[each.name] = settings_of(*kind)
            kinds[each.name] = kind
            params += [_parameter(one) for one in sets[each.name].values()]
        elif isinstance(made := each.default, Field):
            params.append(
                _parameter(Setting(each.name, each.annotation, made.default, made.metadata))
            )
            if made.default is not MISSING:
                defaults[each.name] = made.default

    def run(**values: Any) -> None:
        from esdedup.cli.options import check_given

        context = click.get_current_context()
        given = {
            option: list(value) if isinstance(value, tuple) else value
            for option, value in values.items()
            if context.get_parameter_source(option) is not ParameterSource.DEFAULT
        }
        check_given(given)
        arguments = {
            name: from_settings(
                kinds[name][0],
                {one: given.pop(one) for one in some if one in given},
                use=[*kinds[name], None][1],
            )
            for name, some in sets.items()
        }
        call(**arguments, **defaults | given)

    if any(isinstance(each, Option) and each.panel for each in params):
        params.append(
            Option(
                ["--quiet"],
                is_flag=True,
                rare=True,
                expose_value=False,
                callback=lambda context, _, value: context.meta.update({QUIET: value}),
                help="Show no progress.",
            )
        )
    return Command(name, callback=run, help=inspect.cleandoc(call.__doc__ or ""), params=params)


def option_of(name: str) -> str:
    """Return the option that an argument comes from."""
    return f"--{name.replace('_', '-')}"


def _parameter(one: Setting) -> click.Parameter:
    """Return a setting as a parameter of the command line."""
    kind, several = one.kind, False
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is list:
        (kind,), several = get_args(kind), True
    shown = {key: value for key, value in one.shown.items() if key not in ("names", "use", "parse")}
    required = one.default is MISSING
    default = None if required else one.default
    limits = {key: shown.pop(key) for key in ("min", "max") if key in shown}
    if "parser" in shown:
        shown["type"] = click.types.FuncParamType(shown.pop("parser"))
    elif "parse" in one.shown:
        default, shown["type"] = str(default), click.STRING
    elif get_origin(kind) is Literal:
        shown["type"] = click.Choice(get_args(kind))
    elif kind is Path:
        shown["type"] = click.Path(dir_okay=shown.pop("dir_okay", True), path_type=Path)
    elif limits:
        shown["type"] = (click.IntRange if kind is int else click.FloatRange)(**limits)
    elif kind is not bool:
        shown["type"] = kind
    if shown.pop("argument", False):
        return Argument([one.name], nargs=-1 if several else 1, required=required, **shown)
    names = list(one.shown["names"])
    if not any(each.startswith("--") for each in names) and one.name != "k":
        names.append(option_of(one.name))
    if kind is bool:
        shown["is_flag"] = True
        if default or default is None:
            names[-1] += f"/--no-{names[-1].removeprefix('--')}" if "/" not in names[-1] else ""
    elif not isinstance(shown["type"], click.Choice):
        shown.setdefault("metavar", "")
    shown.setdefault("show_default", default not in (None, False))
    return Option([one.name, *names], required=required, default=default, multiple=several, **shown)
