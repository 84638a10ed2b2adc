"""Commands of functions: a parameter is an option, or a dataclass whose fields are options.

    def pairs_command(
        target: Target,                      # a dataclass: each of its settings is an option
        limits: Annotated[Limits, "pairs"],  # only its settings for this use
        files: list[str] | None = argument(None, "Read these.", metavar="[FILES]..."),
        k: int = setting(100, "Maximum number of pairs in a table.", "-k"),
    ) -> None:
        '''The help of the command.'''

`command_of` declares all these settings to typer, which parses the command line. `Command.invoke`
makes the dataclasses of the parsed values, and calls the function. What a settings file sets counts
as a default of the options (`settings_file.py`).
"""

import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, is_dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from esdedup import UsageError
from esdedup.arguments import (
    Bounds,
    Setting,
    from_settings,
    setting_of,
    settings_of,
    show_parameters,
)
from esdedup.arguments import Display as Display
from esdedup.arguments import converted_by as converted_by
from esdedup.arguments import declared as declared
from esdedup.arguments import of_file as of_file
from esdedup.arguments import setting as setting
from esdedup.exceptions import PermissionDenied

if TYPE_CHECKING:
    from esdedup.cli.settings_file import FileValue

_Value = TypeVar("_Value")

CONTEXT: ContextVar[typer.Context] = ContextVar("context")
"""The command that runs."""
PANELS = "esdedup.panels"
"""The entry of a context that holds the panels of options to list."""
FILE_VALUES = "esdedup.file_values"
"""The entry of a context that holds the values of its settings file, by setting."""
_WHERE = "Index: -i NAME, and --db FILE or --url URL. See: esdedup help connection"
_IN_FILE = "Settings in a file, esdedup.toml: see esdedup help settings"
_MORE_IN_FILE = "More options, and settings in a file, esdedup.toml: see esdedup help settings"
_SCHEME = {"scheme", "sketch", "bits", "vectors", "passages"}
"""The options of schemes, which the help of each command lists that has them."""
_REFUSED = "refused"
"""The panel of options that a command refuses, and never lists."""


def argument(default: _Value | EllipsisType, help: str, metavar: str) -> _Value:
    """Return a setting that is an argument of the command line, and not an option."""
    return declared(default, Display(help, metavar=metavar, argument=True))


def connection_setting(
    default: _Value | EllipsisType,
    help: str,
    *names: str,
    metavar: str | None = None,
    show_default: str | None = None,
    bounds: Bounds = (None, None),
) -> _Value:
    """Return a setting of a connection, which an environment variable can set too."""
    display = Display(help, names, metavar, show_default, bounds)
    return declared(default, replace(display, variable=True, panel="connection"))


_QUIET = setting_of("quiet", bool, declared(False, Display("Show no progress.", panel="settings")))
"""The option of each command that connects to an index."""
_READ = Display(
    "Read the settings of this file, in place of esdedup.toml.", metavar="FILE", panel="settings"
)
_SHOW = Display("Print the settings of this command as such a file.", panel="settings")
_OF_SETTINGS = (
    setting_of("settings", Path | None, declared(None, _READ)),
    setting_of("show_settings", bool, declared(False, _SHOW)),
)
"""The options of each command that has settings."""


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a function that is a command.

    name: of the parameter.
    settings: those that are options, by name: its own, or those of its dataclass.
    kind: its dataclass; None if the parameter is a setting itself.
    use: the use of the dataclass's settings.
    """

    name: str
    settings: Mapping[str, Setting]
    kind: type[Any] | None = None
    use: str | None = None

    @staticmethod
    def of(parameter: inspect.Parameter) -> "_Parameter":
        """Return a parameter of a function's signature."""
        name, annotation, use = parameter.name, parameter.annotation, None
        if get_origin(annotation) is Annotated:
            annotation, use = get_args(annotation)
        if not is_dataclass(annotation):
            return _Parameter(name, {name: setting_of(name, annotation, parameter.default)})
        kind: Any = annotation
        settings = settings_of(kind, use)
        if use == "rare":
            settings = {
                option: replace(setting, display=replace(setting.display, rare=True))
                for option, setting in settings.items()
            }
        return _Parameter(name, settings, kind, use)

    def value(self, values: Mapping[str, Any], explicit: Mapping[str, Any]) -> Any:
        """Return the argument of the function.

        values: of all options. explicit: those that are not defaults.
        """
        if self.kind is None:
            return values[self.name]
        settings = {name: explicit[name] for name in self.settings if name in explicit}
        return from_settings(self.kind, settings, use=self.use)


class _LazyParsing:
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
    if context.resilient_parsing:
        # A shell completes a line that is not over: nothing is read or converted.
        return value
    command = context.command
    if option.name == "settings" and isinstance(command, Command) and command.settings:
        # It comes before the options that the file sets.
        path = None if value is None else Path(value)
        command.read_settings(context, path)
        return path
    if context.params.get("show_settings") and value in (None, (), []):
        # What is required may be missing.
        return value
    kind = option.type_descriptor.annotation
    if (value is option.default and not option.required) or kind is type(value) is str:
        return value
    if kind is Path and type(value) is str:
        path = Path(value)
        # Of folders, and of files that can't be read, typer has the messages.
        if not path.exists() or (path.is_file() and os.access(path, os.R_OK)):
            return path
    return type(option).process_value(option, context, value)


class Command(_LazyParsing, TyperCommand):
    """A command that calls a function.

    Its `--help` lists its usual options, with one line on connections.
    """

    function: Callable[..., None]
    """The function to call."""
    parameters: Sequence[_Parameter]
    """The parameters of the function."""
    settings: Mapping[str, Setting]
    """The settings that a file can set, by name."""
    other_meanings: Sequence[str] = ()
    """Those that mean something else than in other commands."""
    moved_by_files: str | None = None
    """What to run in its place with files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options. Raise UsageError that names what to run for files instead."""
        ctx.allow_extra_args = self.moved_by_files is not None
        rest = super().parse_args(ctx, args)
        if rest and self.moved_by_files and not ctx.resilient_parsing:
            raise UsageError(self.moved_by_files)
        return rest

    def read_settings(self, ctx: typer.Context, path: Path | None) -> None:
        """Make what a settings file sets the defaults. path: of the file, or None to look for it.

        Raises UsageError for a file that can't be read, and for what this command can't use.
        """
        commands = ctx.find_root().command
        if not isinstance(commands, Commands):
            # It is parsed alone, as to check an example, and not run.
            return
        if path is None and not any(map(os.path.isfile, ("esdedup.toml", "pyproject.toml"))):
            return
        # It imports the parser of TOML, which few runs need.
        from esdedup.cli import settings_file

        file = settings_file.find(path)
        if file is None:
            return
        names = list(commands.entries)
        values = file.values(
            self.name or "",
            self.settings,
            self.other_meanings,
            names,
            lambda: {name: commands.get_command(ctx, name).settings for name in names},
        )
        ctx.meta[FILE_VALUES] = values
        ctx.default_map = {}
        for name, file_value in values.items():
            value = file_value.value
            is_one = self.settings[name].display.repeatable and isinstance(value, str)
            ctx.default_map[name] = [value] if is_one else value

    def invoke(self, ctx: Any) -> None:
        """Call the function with the values of the command line."""
        CONTEXT.set(ctx)
        try:
            self._call(ctx)
        except UsageError as error:
            if places := _places_of(str(error)):
                raise UsageError(f"{error} ({places})") from error
            raise

    def _call(self, ctx: typer.Context) -> None:
        values = {option.name: _value(option, ctx.params[option.name]) for option in self.params}
        explicit = {name: value for name, value in values.items() if source_of(name) != "DEFAULT"}
        _check_values(explicit, self.params)
        outranked = {
            name
            for parameter in self.parameters
            for name in _check_combinations(explicit, parameter.settings.values())
        }
        if values.get("show_settings"):
            from esdedup.cli.shown_settings import settings_of_command

            typer.echo(settings_of_command(self, ctx, outranked))
            return
        for option in self.params:
            if option.name in outranked:
                del explicit[option.name]
                values[option.name] = _value(option, option.default)
        if values.get("as_json", False) is None:
            values["as_json"] = not sys.stdout.isatty()
        arguments = {
            parameter.name: parameter.value(values, explicit) for parameter in self.parameters
        }
        self.function(**arguments)

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
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(argument.metavar, argument.help) for argument in arguments])
        for panel in panels:
            shown = [option for option in options if option.rich_help_panel == panel]
            if shown:
                with formatter.section("More options" if panel == "rare" else "Options"):
                    formatter.write_dl(map(record_of, shown))
        notes = {
            "connection": _WHERE,
            "rare": f"More options: esdedup help {self.name}",
            "settings": _IN_FILE,
        }
        hidden = {option.rich_help_panel for option in options} - {*panels}
        if "file" in hidden:
            notes["settings"] = _MORE_IN_FILE
        lines = [note for panel, note in notes.items() if panel in hidden and None in panels]
        if lines:
            formatter.write_paragraph()
            formatter.write_text("\n\n".join(lines))


_METAVARS: Mapping[object, str] = {Path: "FILE", int: "N", float: "NUMBER"}
"""What stands for a value in the help, by its type."""


def _value(option: Any, value: Any) -> Any:
    """Return the value of an option as its function expects it: several ones as a list."""
    if not isinstance(value, tuple):
        return value
    return [*value] if value or option.default is not None else None


def record_of(option: TyperOption) -> tuple[str, str]:
    """Return the names and the help of an option."""
    names = ", ".join(sorted(option.opts, key=len))
    if option.metavar:
        names += f" {option.metavar}"
    elif choices := option.type_descriptor.choices:
        names += f" [{'|'.join(choices)}]"
    elif not option.is_flag:
        names += f" {_METAVARS.get(option.type_descriptor.annotation, 'VALUE')}"
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


@dataclass(frozen=True)
class CommandEntry:
    """A command in the list of commands.

    module: the module of `commands` that has its function, which is imported when it is run.
    summary: what it does.
    other_names: what people look for who mean it; an error suggests the command.
    variables: the prefix of environment variables that set its options, for services.
    moved_by_files: what to run in its place with files, which it does not accept; or None.
    rights_of: the command whose rights it needs on an index, if that is another one.
    listed: the options that its help lists, besides those of connections and schemes; the others
        are settings of a file, and accepted. None lists all.
    refused: options that it has by its dataclasses, and refuses.
    other_meanings: options that mean something else than in other commands.
    """

    module: str
    summary: str
    other_names: tuple[str, ...] = ()
    variables: str | None = None
    moved_by_files: str | None = None
    rights_of: str | None = None
    listed: tuple[str, ...] | None = None
    refused: tuple[str, ...] = ()
    other_meanings: tuple[str, ...] = ()


class Commands(_LazyParsing, TyperGroup):
    """The commands, each in a module that is imported when it is run."""

    listed: Mapping[str, Mapping[str, CommandEntry]]
    """The commands by name, under the headings of the help."""

    @property
    def entries(self) -> Mapping[str, CommandEntry]:
        """The commands by name."""
        return {name: entry for entries in self.listed.values() for name, entry in entries.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*self.entries]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return a command; None if there is none of the name."""
        entry = self.entries.get(cmd_name)
        if entry is not None and cmd_name not in self.commands:
            module = import_module(f"esdedup.cli.commands.{entry.module}")
            function = getattr(module, f"{cmd_name}_command")
            self.commands[cmd_name] = command_of(cmd_name, function, entry)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing them."""
        for heading, entries in self.listed.items():
            with formatter.section(heading):
                formatter.write_dl([(name, entry.summary) for name, entry in entries.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands and options that begin so, without importing the commands."""
        names = [TyperCommand(name, help=entry.summary) for name, entry in self.entries.items()]
        names_only = TyperGroup(name=self.name, commands=names, params=self.params)
        return names_only.shell_complete(typer.Context(names_only, info_name="esdedup"), incomplete)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that arguments name. Raise UsageError with a suggestion."""
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        entries = self.entries
        entry = entries.get(args[0])
        if entry is not None and entry.moved_by_files and _sets_output(args[1:]):
            command = self.get_command(ctx, args[0])
            if "output" not in command.settings:
                raise UsageError(entry.moved_by_files)
        if (name := args[0]).startswith("-") or name in entries:
            return super().resolve_command(ctx, args)
        suggested = [command for command, entry in entries.items() if name in entry.other_names]
        suggested = suggested or difflib.get_close_matches(name, entries, 2)
        mistaken = f"there is no command {name!r}."
        if suggested:
            raise UsageError(f"{mistaken} Did you mean {' or '.join(suggested)}?")
        raise UsageError(f"{mistaken} See: esdedup --help")

    def _rights_of(self, name: str) -> str:
        """Return the command whose rights a command needs."""
        entry = self.entries.get(name)
        return entry.rights_of or name if entry is not None else name

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and name the role for it if the server denies a permission."""
        try:
            return super().invoke(ctx)
        except PermissionDenied as error:
            from esdedup import admin

            name = self._rights_of(ctx.invoked_subcommand or "")
            first_role, *other_roles = admin.roles_of(name)
            alternatives = f", or {', '.join(other_roles)}" if other_roles else ""
            index = CONTEXT.get().params.get("index", "NAME")
            check = f"esdedup check --index {index} --role {first_role}{alternatives}"
            needed = f"The rights that it needs: {check}"
            raise PermissionDenied(f"{error}\n{needed}") from error


def _sets_output(arguments: Sequence[str]) -> bool:
    """Return whether arguments of a command set --output."""
    names = {argument.partition("=")[0] for argument in arguments}
    return not names.isdisjoint(("-o", "--output"))


def command_of(
    name: str, function: Callable[..., None], entry: CommandEntry | None = None
) -> Command:
    """Return the command that calls a function, with its docstring as help.

    entry: in the list of commands.
    """
    entry = entry or CommandEntry("", "")
    signature = inspect.signature(function, eval_str=True)
    parameters = [_Parameter.of(parameter) for parameter in signature.parameters.values()]
    options = {
        setting.name: _placed(setting, entry)
        for parameter in parameters
        for setting in parameter.settings.values()
    }
    if any(setting.display.panel == "connection" for setting in options.values()):
        options[_QUIET.name] = _QUIET
    settings = {
        name: setting
        for name, setting in options.items()
        if not setting.display.argument and setting.display.panel != _REFUSED
    }
    if "settings" in options:
        # The command that shows settings has none.
        settings = {}
    elif settings:
        options |= {setting.name: setting for setting in _OF_SETTINGS}

    def declaration() -> None:
        """Has the parameters that typer reads, and is never called."""

    show_parameters(declaration, [_typer_parameter(setting) for setting in options.values()])
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    has_variables = entry.variables is not None
    context_settings = {"auto_envvar_prefix": entry.variables} if has_variables else {}
    help = inspect.cleandoc(function.__doc__ or "")
    app.command(name, cls=Command, help=help, context_settings=context_settings)(declaration)
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    command.function, command.parameters = function, parameters
    command.moved_by_files = entry.moved_by_files
    command.settings, command.other_meanings = settings, entry.other_meanings
    return command


def _placed(setting: Setting, entry: CommandEntry) -> Setting:
    """Return a setting with the panel of the help that lists it in a command."""
    display = setting.display
    if setting.name in entry.refused:
        return replace(setting, display=replace(display, panel=_REFUSED))
    is_own = not display.argument and display.panel is None and setting.name not in _SCHEME
    if entry.listed is None or not is_own or setting.name in (*entry.listed, "as_json"):
        return setting
    return replace(setting, display=replace(display, panel="file"))


def _typer_parameter(setting: Setting) -> inspect.Parameter:
    """Return a setting as a parameter for typer."""
    display, kind, default = setting.display, setting.kind, setting.default
    if display.parse is not None:
        # The command line has the text that is parsed.
        kind, default = str, str(default)
    if display.repeatable:
        kind, default = list[str] | None, [default] if default else None
    least, most = display.bounds
    declare = partial(
        typer.Argument if display.argument else typer.Option,
        ... if default is MISSING else default,
        help=display.help,
        metavar=display.metavar,
        show_default=True if display.show_default is None else display.show_default,
        min=least,
        max=most,
        parser=display.convert,
        dir_okay=display.folder,
        envvar=variable_of(setting.name) if display.variable else None,
        hidden=display.panel == _REFUSED,
        rich_help_panel=display.panel or ("rare" if display.rare else None),
        # What a file sets is read before the other options.
        is_eager=display.panel == "settings",
    )
    names = () if display.argument else _names(setting)
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(setting.name, keyword_only, default=declare(*names), annotation=kind)


def _names(setting: Setting) -> Sequence[str]:
    """Return the names of an option: a long one at least, if that of the setting is not short."""
    names = setting.display.names
    if len(setting.name) == 1 or any(name.startswith("--") for name in names):
        return names
    long = option_of(setting.name)
    return (*names, f"{long}/--no{long[1:]}" if setting.default is True else long)


def source_of(name: str, context: typer.Context | None = None) -> str:
    """Return where the value of an argument is from. context: that of the command that runs.

    COMMANDLINE, ENVIRONMENT, DEFAULT_MAP for a settings file, or DEFAULT.
    """
    source = (context or CONTEXT.get()).get_parameter_source(name)
    return "DEFAULT" if source is None else source.name


def option_of(name: str) -> str:
    """Return the option that an argument comes from."""
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """Return the environment variable that an argument comes from."""
    return f"ESDEDUP_{name.upper()}"


def named_by_source(name: str) -> str:
    """Return the name of an argument where it is set: an option, a variable, or a file's."""
    source = source_of(name)
    if source == "DEFAULT_MAP":
        return f"{name} in {file_values()[name].place}"
    return option_of(name) if source == "COMMANDLINE" else variable_of(name)


def _check_values(explicit: Mapping[str, Any], options: Iterable[Any]) -> None:
    """Raise UsageError for an empty value, as scripts may expand.

    explicit: the values that are not defaults, by option.
    """
    for option in options:
        # typer treats empty variables as unset.
        if option.envvar and not os.environ.get(option.envvar, "unset").strip():
            raise UsageError(f"{option.envvar} is set, but empty: unset it, or set a value")
        value = explicit.get(option.name)
        # An empty path is the current folder by the time it comes here.
        empty = ("", ".") if isinstance(value, Path) else ("",)
        # A tab is a delimiter.
        if isinstance(value, str | Path) and str(value).strip(" ") in empty:
            raise UsageError(f"{option_of(option.name)} is empty: leave it out, or name it")


def _check_combinations(explicit: Mapping[str, Any], settings: Iterable[Setting]) -> set[str]:
    """Return the settings of a file that an option, or a variable, beside them excludes.

    explicit: as of `_check_values`. Raises UsageError for two settings of one rank.
    """
    outranked = set()
    for excluding in settings:
        excluded = explicit.keys() & excluding.display.excludes
        if not explicit.get(excluding.name):
            continue
        for name in sorted(excluded):
            lower, higher = sorted([excluding.name, name], key=rank_of)
            if rank_of(lower) == rank_of(higher) or rank_of(lower) >= _OF_VARIABLES:
                options = option_of(excluding.name), option_of(name)
                raise UsageError(" can't be combined with ".join(options))
            outranked.add(lower)
    return outranked


_OF_VARIABLES = 3
"""The rank of what an environment variable sets."""


def rank_of(name: str) -> int:
    """Return the rank of where a value is from: the highest counts."""
    source = source_of(name)
    if source == "DEFAULT_MAP":
        return 1 if file_values()[name].shared else 2
    return {"COMMANDLINE": 4, "ENVIRONMENT": _OF_VARIABLES}.get(source, 0)


def file_values() -> "Mapping[str, FileValue]":
    """Return what the settings file sets for the command that runs, by setting."""
    values: Mapping[str, FileValue] = CONTEXT.get().meta.get(FILE_VALUES, {})
    return values


def _places_of(message: str) -> str:
    """Return where the settings file sets what a message names, or nothing."""
    named = set(re.findall(r"^\w+|`\w+`|--[\w-]+", message))
    return "; ".join(
        f"{name} is set in {file_value.place}"
        for name, file_value in file_values().items()
        if source_of(name) == "DEFAULT_MAP"
        and named & {name, f"`{name}`", option_of(name)}
        and file_value.place not in message
    )
