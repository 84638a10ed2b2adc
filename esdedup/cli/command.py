"""Commands of functions: parameters, and dataclasses of options, become a command's options."""

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import MISSING, Field, is_dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from esdedup import UsageError
from esdedup.arguments import Setting, from_settings, settings_of
from esdedup.exceptions import PermissionDenied

CONTEXT: ContextVar[typer.Context] = ContextVar("context")
"""The command that runs."""
PANELS = "esdedup.panels"
"""The entry of a context that holds the panels of options to list."""
_WHERE = "Index: -i NAME, and --db FILE or --url URL. See: esdedup help connection"
_OTHER_NAMES = {
    "add": ["index"],
    "delete": ["dedup", "drop"],
    "find": ["similar"],
    "import": ["index"],
    "remove": ["dedup", "drop"],
    "restore": ["undo"],
    "search": ["similar"],
}


class _Params:
    """Lets typer parse only the options that need it.

    To parse one it imports pydantic, which takes a quarter of the time of a search.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            parameter.process_value = partial(_processed, parameter)
        return parameters


def _processed(option: Any, context: Any, value: Any) -> Any:
    kind = option.type_descriptor.annotation
    if (value is option.default and not option.required) or kind is type(value) is str:
        return value
    if kind is Path and type(value) is str:
        path = Path(value)
        # Of folders, and of files that can't be read, typer has the messages.
        if not path.exists() or (path.is_file() and os.access(path, os.R_OK)):
            return path
    return type(option).process_value(option, context, value)


class Command(_Params, TyperCommand):
    """A command whose `--help` lists its usual options, with one line on connections."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the command's name in its usage."""
        arguments = [option for option in self.params if isinstance(option, TyperArgument)]
        return ["[OPTIONS]", *(argument.metavar or "" for argument in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the arguments, and the options of the panels that the context requests."""
        parameters: list[Any] = self.get_params(ctx)
        arguments = [option for option in parameters if isinstance(option, TyperArgument)]
        options = [option for option in parameters if option not in arguments]
        panels = ctx.meta.get(PANELS, (None,))
        shown = [option for option in options if option.rich_help_panel in panels]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(argument.metavar, argument.help) for argument in arguments])
        with formatter.section("Options"):
            formatter.write_dl(map(_record, shown))
        notes = {"connection": _WHERE, "rare": f"More options: esdedup help {self.name}"}
        hidden = {option.rich_help_panel for option in options} - {*panels}
        lines = [note for panel, note in notes.items() if panel in hidden and None in panels]
        if lines:
            formatter.write_paragraph()
            formatter.write_text("\n\n".join(lines))


def _record(option: TyperOption) -> tuple[str, str]:
    """Return the names and the help of an option."""
    names = ", ".join(sorted(option.opts, key=len))
    if choices := option.type_descriptor.choices:
        names += f" [{'|'.join(choices)}]"
    elif option.metavar:
        names += f" {option.metavar}"
    default: Any = option.show_default
    if default is True and option.default not in (None, False):
        default = f"{option.default:g}" if isinstance(option.default, float) else option.default
        default = "on" if default is True else default
    notes = []
    if not isinstance(default, bool):
        notes.append(f"default: {default}")
    if option.required:
        notes.append("required")
    note = f" ({'; '.join(notes)})" if notes else ""
    return "/".join([names, *option.secondary_opts]), f"{option.help}{note}"


class Commands(_Params, TyperGroup):
    """The commands, each in a module that is imported when it is run."""

    listed: Mapping[str, Mapping[str, tuple[str, str]]]
    """Modules by command, with a summary, under the headings of the help."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [name for commands in self.listed.values() for name in commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return a command; None if there is none of the name."""
        for modules in self.listed.values():
            if cmd_name in modules and cmd_name not in self.commands:
                module_name, _ = modules[cmd_name]
                module = import_module(f"esdedup.cli.commands.{module_name}")
                command = command_of(cmd_name, getattr(module, f"{cmd_name}_command"))
                self.commands[cmd_name] = command
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing them."""
        for heading, commands in self.listed.items():
            with formatter.section(heading):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that arguments name. Raise UsageError with a suggestion."""
        names = self.list_commands(ctx)
        if (name := args[0]).startswith("-") or name in names:
            return super().resolve_command(ctx, args)
        close_names = _OTHER_NAMES.get(name) or difflib.get_close_matches(name, names, 2)
        if close_names:
            advice = f"Did you mean {' or '.join(close_names)}?"
        else:
            advice = "See: esdedup --help"
        raise UsageError(f"there is no command {name!r}. {advice}")

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and name the role for it if the server denies a permission."""
        try:
            return super().invoke(ctx)
        except PermissionDenied as error:
            from esdedup.admin.roles import roles_of

            first_role, *other_roles = roles_of(ctx.invoked_subcommand or "")
            alternatives = f", or {', '.join(other_roles)}" if other_roles else ""
            needed = f"The rights that it needs: esdedup check --role {first_role}{alternatives}"
            raise PermissionDenied(f"{error}\n{needed}") from error


def command_of(name: str, call: Callable[..., Any]) -> Any:
    """Return the command that calls a function.

    A parameter is an option if its default is a `setting`. If its type is a dataclass, or that
    annotated with a use, the settings of this are options, and the function gets the dataclass. All
    of them are rare for the use "rare". The docstring is the help.
    """
    kinds: dict[str, Any] = {}
    declared: list[inspect.Parameter] = []
    for parameter in inspect.signature(call, eval_str=True).parameters.values():
        kind = get_args(parameter.annotation) or (parameter.annotation,)
        if is_dataclass(kind[0]):
            kinds[parameter.name] = kind
            rare = {"rare": True} if kind[1:] == ("rare",) else {}
            for setting in settings_of(*kind).values():
                declared.append(_declared(replace(setting, shown={**setting.shown, **rare})))
        else:
            option: Field[Any] = parameter.default
            annotation, shown = parameter.annotation, option.metadata
            setting = Setting(parameter.name, annotation, option.default, shown)
            declared.append(_declared(setting))
    if any(parameter.default.rich_help_panel == "connection" for parameter in declared):
        quiet = Setting("quiet", bool, False, {"help": "Show no progress.", "rare": True})
        declared.append(_declared(quiet))

    def run(context: typer.Context, **values: Any) -> None:
        CONTEXT.set(context)
        values.pop("quiet", None)
        if values.get("as_json", False) is None:
            values["as_json"] = not sys.stdout.isatty()
        explicit = {
            option: value for option, value in values.items() if source_of(option) != "DEFAULT"
        }
        _check_explicit(explicit, context.command.params)
        arguments: dict[str, Any] = {}
        for name, kind in kinds.items():
            settings = settings_of(*kind)
            of_kind = {option: explicit[option] for option in settings if option in explicit}
            arguments[name] = from_settings(kind[0], of_kind, use=[*kind, None][1])
            values = {option: value for option, value in values.items() if option not in settings}
        call(**arguments, **values)

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    vars(run)["__signature__"] = inspect.Signature([context, *declared])
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    # Services are often set up by their environment.
    settings = {"auto_envvar_prefix": "ESDEDUP_PROXY"} if name == "proxy" else {}
    help = inspect.cleandoc(call.__doc__ or "")
    app.command(name, cls=Command, help=help, context_settings=settings)(run)
    return typer.main.get_command(app)


def source_of(name: str) -> str:
    """Return where the value of an argument is from: COMMANDLINE, ENVIRONMENT or DEFAULT."""
    source = CONTEXT.get().get_parameter_source(name)
    return "DEFAULT" if source is None else source.name


def option_of(name: str) -> str:
    """Return the option that an argument comes from."""
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """Return the environment variable that an argument comes from."""
    return f"ESDEDUP_{name.upper()}"


def _check_explicit(values: Mapping[str, Any], options: Iterable[Any]) -> None:
    """Raise UsageError for an empty value, as scripts may expand, and for --exact with limits.

    values: those that are not defaults, by option.
    """
    for option in options:
        # typer treats empty variables as unset.
        if option.envvar and not os.environ.get(option.envvar, "unset").strip():
            raise UsageError(f"{option.envvar} is set, but empty: unset it, or set a value")
        value = values.get(option.name)
        # An empty path is the current folder by the time it comes here.
        empty = ("", ".") if isinstance(value, Path) else ("",)
        if isinstance(value, str | Path) and str(value).strip() in empty:
            raise UsageError(f"{option_of(option.name)} is empty: leave it out, or name it")
    limits = values.keys() & {"sketch", "threshold", "distance"}
    if values.get("exact") and limits:
        raise UsageError(f"--exact can't be combined with {option_of(min(limits))}")


def _declared(setting: Setting) -> inspect.Parameter:
    """Return a setting as a parameter for typer."""
    shown = {**setting.shown}
    names, parse = [*shown.pop("names", ())], shown.pop("parse", None)
    shown.pop("use", None)
    kind, default = setting.kind, setting.default
    if parse is not None:
        # The command line has the text that is parsed.
        kind, default = str, str(default)
    default = ... if default is MISSING else default
    if shown.get("envvar") is True:
        shown["envvar"] = variable_of(setting.name)
    panel = shown.pop("panel", None) or ("rare" if shown.pop("rare", False) else None)
    if shown.pop("argument", False):
        info = typer.Argument(default, **shown)
    else:
        has_long_name = any(name.startswith("--") for name in names)
        if not has_long_name and len(setting.name) > 1:
            long = option_of(setting.name)
            names.append(f"{long}/--no{long[1:]}" if default is True else long)
        info = typer.Option(default, *names, rich_help_panel=panel, **shown)
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(setting.name, keyword_only, default=info, annotation=kind)
